// The drawings: what is drawn where.
#include "tools/svg.h"

#include <doctest/doctest.h>

using namespace locus;

namespace {

size_t count(const std::string& text, const std::string& part) {
    size_t n = 0;
    for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) n++;
    return n;
}

} // namespace

TEST_CASE("colours run from white to dark, to either side of zero") {
    CHECK(colour(0, 0, 1) == "#ffffff");
    CHECK(colour(1, 0, 1) == "#08306b");
    CHECK(colour(7, 0, 1) == "#08306b");
    CHECK(colour(0, -1, 1) == "#ffffff");
    CHECK(colour(-1, -1, 1) == "#08306b");
    CHECK(colour(1, -1, 1) == "#800a14");
    CHECK(colour(0.2, 0, 1) != colour(0.3, 0, 1));
}

TEST_CASE("a heat map draws each value at its place, equal neighbours as one") {
    Svg svg(100, 100);
    heat_cells(svg, 10, 20, 5, {0, 1, 1, 0.5f, 0, 0}, 2, 3, 0, 1);
    const std::string text = svg.str();
    CHECK(text.find("<path d=\"M15 20h10v5h-10z\" fill=\"#08306b\"/>") != std::string::npos); // two ones
    CHECK(text.find("<path d=\"M10 25h5v5h-5z\" fill=\"" + colour(0.5, 0, 1) + "\"/>") != std::string::npos);
    CHECK(count(text, " fill=") == 3); // these and the ground
    const std::string labelled = heat_map("a < b", {1, 0, 0, 1}, 2, 2, 0, 1, {"the", "&"}, {"the", "&"}, "query", "key");
    CHECK(labelled.find("a &lt; b") != std::string::npos);
    CHECK(count(labelled, ">&amp;<") == 2);
    CHECK(count(labelled, ">the<") == 2);
}

TEST_CASE("a chart's curve passes through its points and is cut off at the chart's edge") {
    Chart chart = {"title", "x", "y", {{"one", {{0, 0}, {5, 10}, {10, 5}}}, {"other", {{0, 5}, {10, 50}}}}};
    chart.high = 10;
    const std::string text = line_chart(chart);
    CHECK(text.find("d=\"M70 360L355 46L640 203\"") != std::string::npos); // 570 by 314 from 70, 46
    CHECK(text.find("d=\"M70 203L640 46\"") != std::string::npos);
    for (const char* label : {">title<", ">one<", ">other<", ">0<", ">10<"}) CHECK(text.find(label) != std::string::npos);
    chart.series = {{"flat", {{0, 3}, {1, 3}}}};
    chart.high = NAN;
    CHECK(line_chart(chart).find("nan") == std::string::npos);
}
