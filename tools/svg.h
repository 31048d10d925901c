// Drawings as SVG text: line charts and heat maps, on white, so that they read on light and dark pages alike.
#ifndef LOCUS_SVG_H
#define LOCUS_SVG_H

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace locus {

class Svg {
public:
    Svg(double width, double height) {
        add("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" height=\"%g\" font-family=\"Helvetica, Arial, sans-serif\">\n", width, height, width, height);
        rect(0, 0, width, height, "#fff");
    }
    void rect(double x, double y, double width, double height, const std::string& fill) {
        add("<rect x=\"%.5g\" y=\"%.5g\" width=\"%.5g\" height=\"%.5g\" fill=\"%s\"/>\n", x, y, width, height, fill.c_str());
    }
    void line(double x0, double y0, double x1, double y1, const char* colour) {
        add("<path d=\"M%.5g %.5gL%.5g %.5g\" stroke=\"%s\"/>\n", x0, y0, x1, y1, colour);
    }
    void area(const std::string& path, const std::string& fill) { text_ += "<path d=\"" + path + "\" fill=\"" + fill + "\"/>\n"; }
    void curve(const std::vector<std::pair<double, double>>& points, const char* colour, const char* dash) {
        text_ += "<path d=\"";
        for (size_t i = 0; i < points.size(); i++) add("%c%.5g %.5g", i ? 'L' : 'M', points[i].first, points[i].second);
        add("\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-linejoin=\"round\"%s%s%s/>\n", colour, *dash ? " stroke-dasharray=\"" : "", dash, *dash ? "\"" : "");
    }
    // anchor: start, middle or end; turn: degrees.
    void text(double x, double y, const std::string& text, const char* anchor = "start", double size = 13, double turn = 0) {
        add("<text x=\"%.5g\" y=\"%.5g\" font-size=\"%g\" text-anchor=\"%s\" fill=\"#222\"", x, y, size, anchor);
        if (turn != 0) add(" transform=\"rotate(%g %.5g %.5g)\"", turn, x, y);
        text_ += ">";
        for (char c : text) text_ += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : static_cast<unsigned char>(c) < ' ' ? "?" : std::string(1, c);
        text_ += "</text>\n";
    }
    std::string str() const { return text_ + "</svg>\n"; }

private:
    void add(const char* format, ...) __attribute__((format(printf, 2, 3))) {
        char part[512];
        va_list args;
        va_start(args, format);
        std::vsnprintf(part, sizeof part, format, args);
        va_end(args);
        text_ += part;
    }
    std::string text_;
};

// White to dark blue over 0 .. high; where low is below 0, dark blue over white to dark red.
inline std::string colour(double value, double low, double high) {
    const double t = std::min(1.0, std::max(0.0, value / (value < 0 ? low : high)));
    const int dark[2][3] = {{8, 48, 107}, {128, 10, 20}}, *to = dark[low < 0 && value > 0];
    const double shade = std::round(std::pow(t, 0.8) * 32) / 32; // few shades: equal neighbours become one rectangle
    char text[8];
    std::snprintf(text, sizeof text, "#%02x%02x%02x", int(255 + (to[0] - 255) * shade), int(255 + (to[1] - 255) * shade), int(255 + (to[2] - 255) * shade));
    return text;
}

// values [rows, cols], the first row on top: a path for each colour, equal neighbours as one rectangle of it.
inline void heat_cells(Svg& svg, double x, double y, double cell, const std::vector<float>& values, size_t rows, size_t cols, double low, double high) {
    std::map<std::string, std::string> paths;
    char part[96];
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0, end; c < cols; c = end) {
            const std::string fill = colour(values[r * cols + c], low, high);
            for (end = c + 1; end < cols && colour(values[r * cols + end], low, high) == fill;) end++;
            std::snprintf(part, sizeof part, "M%.5g %.5gh%.5gv%.5gh-%.5gz", x + double(c) * cell, y + double(r) * cell, double(end - c) * cell, cell, double(end - c) * cell);
            if (fill != "#ffffff") paths[fill] += part;
        }
    for (const auto& [fill, path] : paths) svg.area(path, fill);
    const double right = x + double(cols) * cell, below = y + double(rows) * cell;
    svg.line(x, y, right, y, "#888"), svg.line(x, below, right, below, "#888"), svg.line(x, y, x, below, "#888"), svg.line(right, y, right, below, "#888");
}

// A legend of the colours, from low to high.
inline void heat_scale(Svg& svg, double x, double y, double height, double low, double high) {
    for (int i = 0; i < 32; i++) svg.rect(x, y + height * i / 32, 14, height / 32 + 0.5, colour(high - (high - low) * (i + 0.5) / 32, low, high));
    char text[16];
    for (const double v : {high, (low + high) / 2, low}) {
        std::snprintf(text, sizeof text, "%g", v);
        svg.text(x + 20, y + height * (high - v) / (high - low) + 4, text, "start", 12);
    }
}

struct Series {
    std::string name;
    std::vector<std::pair<double, double>> points;
};

struct Chart {
    std::string title, x_label, y_label;
    std::vector<Series> series;
    double high = NAN; // of y: what lies above is cut off. NAN: as the points need
};

inline std::string line_chart(const Chart& chart) {
    constexpr double width = 860, height = 420, left = 70, top = 46, right = 640, bottom = 360;
    const char* colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#e69f00", "#56b4e9", "#7f7f7f"}; // Okabe and Ito: apart for all eyes
    const char* dashes[] = {"", "7 4", "2 3"};
    double x0 = INFINITY, x1 = -INFINITY, low = INFINITY, high = -INFINITY;
    for (const Series& s : chart.series)
        for (const auto& [x, y] : s.points) x0 = std::min(x0, x), x1 = std::max(x1, x), low = std::min(low, y), high = std::max(high, y);
    if (!std::isnan(chart.high)) high = chart.high;
    const double rough = std::max(high - low, 1e-9) / 5, ten = std::pow(10, std::floor(std::log10(rough))), lead = rough / ten;
    const double step = ten * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
    low = std::floor(low / step + 1e-9) * step, high = std::ceil(high / step - 1e-9) * step;
    if (high <= low) high = low + step;
    const auto place_x = [&](double x) { return left + (right - left) * (x - x0) / std::max(x1 - x0, 1e-9); };
    const auto place_y = [&](double y) { return bottom - (bottom - top) * (std::min(high, std::max(low, y)) - low) / (high - low); };

    Svg svg(width, height);
    svg.text(left, 26, chart.title, "start", 16);
    char text[32];
    for (double y = low; y <= high + step / 2; y += step) {
        svg.line(left, place_y(y), right, place_y(y), "#ddd");
        std::snprintf(text, sizeof text, "%.6g", std::abs(y) < step / 2 ? 0 : y);
        svg.text(left - 8, place_y(y) + 4, text, "end");
    }
    const double x_step = std::max(1.0, std::pow(2, std::round(std::log2((x1 - x0) / 8))));
    for (double x = std::ceil(x0 / x_step) * x_step; x <= x1 + 1e-9; x += x_step) {
        svg.line(place_x(x), bottom, place_x(x), bottom + 5, "#222");
        std::snprintf(text, sizeof text, "%.6g", x);
        svg.text(place_x(x), bottom + 20, text, "middle");
    }
    svg.line(left, bottom, right, bottom, "#222"), svg.line(left, top, left, bottom, "#222");
    svg.text((left + right) / 2, bottom + 44, chart.x_label, "middle");
    svg.text(20, (top + bottom) / 2, chart.y_label, "middle", 13, -90);
    for (size_t i = 0; i < chart.series.size(); i++) {
        const char *paint = colours[i % 8], *dash = dashes[i / 8 % 3];
        std::vector<std::pair<double, double>> points;
        for (const auto& [x, y] : chart.series[i].points) points.emplace_back(place_x(x), place_y(y));
        svg.curve(points, paint, dash);
        const double y = top + 10 + 21 * double(i);
        svg.curve({{right + 18, y}, {right + 44, y}}, paint, dash);
        svg.text(right + 52, y + 4, chart.series[i].name);
    }
    return svg.str();
}

// A square or oblong of values with a label for each row and column, or with places every so often where there are no labels.
inline std::string heat_map(const std::string& title, const std::vector<float>& values, size_t rows, size_t cols, double low, double high, const std::vector<std::string>& row_labels,
    const std::vector<std::string>& col_labels, const std::string& row_name, const std::string& col_name, size_t places = 1) {
    const bool labels = !row_labels.empty();
    size_t longest = 4;
    for (const auto* names : {&row_labels, &col_labels})
        for (const std::string& name : *names) longest = std::max(longest, name.size());
    const double cell = labels ? 24 : std::max(1.0, std::floor(420 / double(std::max(rows, cols)))), margin = 44 + 7.5 * double(longest), left = margin, top = 40 + margin;
    const double w = cell * double(cols), h = cell * double(rows), centre_x = left + w / 2, centre_y = top + h / 2;
    Svg svg(std::max(left + w + 90, 60 + 8 * double(title.size())), top + h + 24);
    svg.text(20, 26, title, "start", 16);
    heat_cells(svg, left, top, cell, values, rows, cols, low, high);
    for (size_t i = 0; labels && i < rows; i++) svg.text(left - 8, top + cell * (double(i) + 0.5) + 4, row_labels[i], "end");
    for (size_t i = 0; labels && i < cols; i++) svg.text(left + cell * (double(i) + 0.5) + 4, top - 8, col_labels[i], "start", 13, -60);
    for (size_t i = 0; !labels && i < 9; i++) {
        const std::string text = std::to_string(rows * places * i / 8);
        svg.text(left - 8, top + h * double(i) / 8 + 4, text, "end", 12), svg.text(left + w * double(i) / 8, top - 8, text, "middle", 12);
    }
    svg.text(18, centre_y, row_name, "middle", 13, -90);
    svg.text(centre_x, 48, col_name, "middle");
    heat_scale(svg, left + w + 24, top, std::min(h, 200.0), low, high);
    return svg.str();
}

} // namespace locus
#endif
