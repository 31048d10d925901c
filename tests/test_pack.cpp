// The choice of scales in 4 bits: never worse than rounding between a block's extremes, and exact where it can be.
#include "../tools/pack.h"

#include <doctest/doctest.h>
#include <random>

using namespace locus;

namespace {

float value(const Q4& b, uint32_t i) { return float_of_f16(b.d) * float(b.q[i]) + float_of_f16(b.m); }

double error(const float* x, const Q4& b) {
    double sum = 0;
    for (uint32_t i = 0; i < BLOCK; i++) sum += (double(value(b, i)) - x[i]) * (double(value(b, i)) - x[i]);
    return sum;
}

Q4 between_extremes(const float* x) {
    const float least = *std::min_element(x, x + BLOCK), most = *std::max_element(x, x + BLOCK);
    Q4 b{};
    b.d = f16_of_float((most - least) / 15), b.m = f16_of_float(least);
    const float d = float_of_f16(b.d), m = float_of_f16(b.m);
    for (uint32_t i = 0; i < BLOCK && d > 0; i++) b.q[i] = uint8_t(std::lround(std::min(std::max((x[i] - m) / d, 0.0f), 15.0f)));
    return b;
}

void never_worse(const float* x) {
    const Q4 b = quantize_q4(x);
    for (uint8_t q : b.q) REQUIRE(q < 16);
    const double plain = error(x, between_extremes(x));
    CHECK(error(x, b) <= plain * 1.00001);
}

} // namespace

TEST_CASE("4 bits: no block is worse than rounded between its extremes") {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    double chosen = 0, plain = 0;
    for (float size : {1.0f, 1e-3f, 1e-6f, 1e-8f, 1000.0f})
        for (int shape = 0; shape < 6; shape++)
            for (int repeat = 0; repeat < 40; repeat++) {
                float x[BLOCK];
                for (float& v : x) {
                    v = normal(random);
                    if (shape == 1) v = v * v * v;      // heavy tails
                    if (shape == 2) v = v > 0 ? 1 : -1; // two values
                    if (shape == 3) v += 50;            // far from zero
                    if (shape == 4) v = std::round(v);  // few values
                    v *= size;
                }
                if (shape == 5) x[repeat % BLOCK] *= 30; // one outlier
                never_worse(x);
                if (shape == 0 && size == 1) chosen += error(x, quantize_q4(x)), plain += error(x, between_extremes(x));
            }
    CHECK(chosen < 0.8 * plain);
}

TEST_CASE("4 bits: constant, zero, tiny, huge and infinite blocks") {
    for (float c : {0.0f, 0.25f, -3.0f, 5.9604645e-8f, 1e-40f, 65504.0f}) {
        float x[BLOCK];
        std::fill(x, x + BLOCK, c);
        never_worse(x);
        if (c != 1e-40f) CHECK(error(x, quantize_q4(x)) == 0);
        x[7] = -c;
        never_worse(x);
    }
    for (float bad : {INFINITY, -INFINITY, NAN}) {
        float x[BLOCK] = {1, 2, bad};
        CHECK(std::isnan(value(quantize_q4(x), 0)));
    }
}

TEST_CASE("4 bits: what is of this kind stays as it is") {
    std::mt19937 random(2);
    for (int repeat = 0; repeat < 200; repeat++) {
        Q4 b{};
        b.d = f16_of_float(std::ldexp(1 + float(random() % 1024) / 1024, -int(random() % 12))),
        b.m = f16_of_float(-float_of_f16(b.d) * float(random() % 16));
        for (uint8_t& q : b.q) q = uint8_t(random() % 16);
        b.q[3] = 0, b.q[20] = 15;
        float x[BLOCK];
        for (uint32_t i = 0; i < BLOCK; i++) x[i] = value(b, i);
        const Q4 again = quantize_q4(x);
        for (uint32_t i = 0; i < BLOCK; i++) REQUIRE(value(again, i) == x[i]);
    }
}

TEST_CASE("4 bits: with moments the products come out nearer") {
    constexpr size_t width = 64, cols = 109, samples = 400; // two groups, the second one not full
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::vector<float> moments(2 * width * width), activations(samples * cols);
    for (size_t s = 0; s < samples; s++) { // a common part makes columns go together
        const float common = normal(random);
        for (size_t c = 0; c < cols; c++) activations[s * cols + c] = (c % 5 ? 1 : 3) * (normal(random) * 0.3f + common);
        for (size_t i = 0; i < cols; i++)
            for (size_t j = i / width * width; j <= i; j++)
                moments[i * width + j % width] += activations[s * cols + i] * activations[s * cols + j] / samples;
    }
    SUBCASE("the factors give the moments back") {
        const Feedback feedback(width, moments, 1e-6);
        std::vector<double> e(width);
        for (double& v : e) v = normal(random);
        double direct = 0, factored = 0;
        for (size_t i = 0; i < width; i++)
            for (size_t j = 0; j < width; j++) direct += e[i] * e[j] * moments[std::max(i, j) * width + std::min(i, j)];
        for (size_t j = 0; j < width; j++) {
            double sum = e[j];
            for (size_t i = 0; i < j; i++) sum += feedback.coefficients(j)[i] * e[i];
            factored += feedback.weight(j) * sum * sum;
        }
        CHECK(factored == doctest::Approx(direct).epsilon(1e-3));
    }
    SUBCASE("damaged moments") {
        moments[width] = NAN;
        CHECK_THROWS_WITH(Feedback(width, moments), "the moments are not those of finite activations");
    }
    SUBCASE("errors of the products") {
        std::vector<float> w(PANEL * cols), back(cols);
        for (float& v : w) v = normal(random);
        w[5 * cols + 40] = NAN; // spoils its own row alone
        const float* rows[PANEL];
        for (uint32_t r = 0; r < PANEL; r++) rows[r] = &w[r * cols];
        std::vector<uint8_t> plain(panel_bytes(TYPE_Q4, cols)), chosen(plain.size());
        pack_panel(TYPE_Q4, rows, cols, plain.data());
        pack_panel_q4(rows, cols, Feedback(width, moments), chosen.data());
        auto off = [&](const std::vector<uint8_t>& panel, uint32_t r) {
            unpack_row(TYPE_Q4, panel.data(), r, cols, back.data());
            double sum = 0;
            for (size_t s = 0; s < samples; s++) {
                double product = 0;
                for (size_t c = 0; c < cols; c++) product += activations[s * cols + c] * double(back[c] - rows[r][c]);
                sum += product * product;
            }
            return sum;
        };
        double before = 0, after = 0;
        for (uint32_t r = 0; r < PANEL; r++)
            if (r != 5) before += off(plain, r), after += off(chosen, r);
        CHECK(after < 0.3 * before);
        CHECK(std::isnan(off(chosen, 5)));
    }
}
