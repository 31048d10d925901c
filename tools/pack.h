// Packs rows of a matrix into the panels that model.h describes, choosing the scales of q8 and q4.
#ifndef LOCUS_PACK_H
#define LOCUS_PACK_H

#include "model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace locus {

inline float float_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
inline uint32_t bits_of_float(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

// IEEE half, rounded to nearest even; NaN stays NaN, what is too large becomes infinite.
inline uint16_t f16_of_float(float x) {
    const uint32_t bits = bits_of_float(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return uint16_t(sign | 0x7e00);
    if (magnitude >= 0x477ff000) return uint16_t(sign | 0x7c00);
    if (magnitude < 0x38800000) { // subnormal: adding 0.5 leaves multiples of 2^-24 in the last bits
        const float shifted = float_of_bits(magnitude) + 0.5f;
        return uint16_t(sign | (bits_of_float(shifted) - 0x3f000000));
    }
    return uint16_t(sign | ((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13));
}

inline float float_of_f16(uint16_t h) {
    const uint32_t sign = uint32_t(h & 0x8000) << 16, magnitude = h & 0x7fff;
    if (magnitude >= 0x7c00) return float_of_bits(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
    if (magnitude < 0x400) return float_of_bits(sign | bits_of_float(float(magnitude) / 16777216.0f));
    return float_of_bits(sign | ((magnitude << 13) + 0x38000000));
}

inline uint16_t bf16_of_float(float x) {
    const uint32_t bits = bits_of_float(x);
    if ((bits & 0x7fffffff) > 0x7f800000) return uint16_t(bits >> 16 | 0x40);
    return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float float_of_bf16(uint16_t h) { return float_of_bits(uint32_t(h) << 16); }

// The largest finite weight that a type can hold, rounding included.
inline float largest(Type type) {
    return type == TYPE_F16 || type == TYPE_Q4 ? 65519.996f : type == TYPE_Q8 ? 127 * 65504.0f : float_of_bits(0x7f7fffff);
}

// ---- blocks of 32 -------------------------------------------------------------------------------------------------

struct Q8 { // weight = d q
    uint16_t d;
    int8_t q[BLOCK];
};
struct Q4 { // weight = d q + m
    uint16_t d, m;
    uint8_t q[BLOCK];
};

// The nearest whole number, for |x| < 2^22.
inline int32_t nearest(float x) { return int32_t(bits_of_float(x + 12582912.0f)) - 0x4b400000; }

inline Q8 quantize_q8(const float* x) {
    Q8 b{};
    float most = 0;
    for (uint32_t i = 0; i < BLOCK; i++) most = std::isnan(x[i]) ? x[i] : std::max(most, std::abs(x[i]));
    b.d = f16_of_float(most / 127);
    const float d = float_of_f16(b.d);
    if (!(d > 0) || std::isinf(d)) {
        if (!(most < INFINITY)) b.d = 0x7e00;
        return b;
    }
    for (uint32_t i = 0; i < BLOCK; i++) b.q[i] = int8_t(nearest(std::min(std::max(x[i] / d, -127.0f), 127.0f)));
    return b;
}

// Rounds the block to the levels d q + m; the weighted squared error.
inline float round_q4(const float* x, const float* weight, float d, float m, uint8_t* q) {
    const float scale = d != 0 ? 1 / d : 0;
    float error = 0;
    for (uint32_t i = 0; i < BLOCK; i++) {
        q[i] = uint8_t(nearest(std::min(std::max((x[i] - m) * scale, 0.0f), 15.0f)));
        const float e = d * float(q[i]) + m - x[i];
        error += weight[i] * e * e;
    }
    return error;
}

// A block's weights, and sums over it.
struct Weighted {
    const float* weight;
    float sum = 0, sum_x = 0, spread = 0; // spread: of the squared distances from the mean

    Weighted(const float* x, const float* w) : weight(w) {
        for (uint32_t i = 0; i < BLOCK; i++) sum += w[i], sum_x += w[i] * x[i];
        for (uint32_t i = 0; i < BLOCK; i++) spread += w[i] * (x[i] - sum_x / sum) * (x[i] - sum_x / sum);
    }
};
struct Fit {
    float error, scale, minimum;
};

// Rounds the block to the levels scale q + minimum and fits a scale and a minimum to these q by least squares. The fit's error is
// spread - covariance^2 / variance.
inline Fit refit_q4(const float* x, const Weighted& w, float scale, float minimum) {
    const float inverse = 1 / scale, shift = -minimum * inverse;
    float s1 = 0, s2 = 0, sx = 0;
    for (uint32_t i = 0; i < BLOCK; i++) {
        const float q = float(nearest(std::min(std::max(x[i] * inverse + shift, 0.0f), 15.0f))), wq = w.weight[i] * q;
        s1 += wq, s2 += wq * q, sx += wq * x[i];
    }
    const float variance = s2 - s1 * s1 / w.sum, covariance = sx - s1 * w.sum_x / w.sum, slope = covariance / variance;
    if (!(variance > 0 && slope > 0)) return {INFINITY, 0, 0};
    return {w.spread - covariance * slope, slope, (w.sum_x - slope * s1) / w.sum};
}

constexpr float EVEN[BLOCK] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

// Scale and minimum of least squared error, each value's counted by its weight. Starts from the block's extremes, which gives a block
// that was of this kind back unchanged; then tries finer and coarser grids, each refitted to its own rounding by least squares.
inline Q4 quantize_q4(const float* x, const float* weight = EVEN) {
    Q4 best{};
    float least = x[0], most = x[0];
    bool finite = true;
    for (uint32_t i = 0; i < BLOCK; i++) {
        least = std::min(least, x[i]), most = std::max(most, x[i]);
        finite = finite && std::abs(x[i]) < INFINITY;
    }
    if (!finite) {
        best.d = best.m = 0x7e00;
        return best;
    }
    float best_error = INFINITY;
    auto keep = [&](float scale, float minimum) {
        Q4 b;
        b.d = f16_of_float(scale), b.m = f16_of_float(minimum);
        const float d = float_of_f16(b.d), m = float_of_f16(b.m);
        if (!(std::abs(d) < INFINITY && std::abs(m) < INFINITY)) return;
        const float error = round_q4(x, weight, d, m, b.q);
        if (error < best_error) best_error = error, best = b;
    };
    const float range = most - least;
    keep(range / 15, least);
    if (!(best_error > 0 && range > 0)) return best;
    const Weighted sums(x, weight);
    Fit best_fit{INFINITY, 0, 0};
    for (float levels = 14; levels < 21; levels++) // fewer than 15: room at both ends; more: the extremes are cut
        for (float shift : {-0.25f, 0.25f}) {
            const float scale = range / levels;
            Fit fit{INFINITY, scale, least - scale * ((15 - levels) / 2 + shift)};
            for (int round = 0; round < 4; round++) {
                const Fit next = refit_q4(x, sums, fit.scale, fit.minimum);
                if (!(next.error < fit.error)) break;
                fit = next;
            }
            if (fit.error < best_fit.error) best_fit = fit;
        }
    if (best_fit.error < INFINITY) keep(best_fit.scale, best_fit.minimum);
    return best;
}

// ---- panels -------------------------------------------------------------------------------------------------------

inline size_t block_bytes(Type type) { return type == TYPE_Q8 ? 2 * PANEL + PANEL * BLOCK : 4 * PANEL + PANEL * BLOCK / 2; }

inline size_t panel_bytes(Type type, size_t cols) {
    switch (type) {
    case TYPE_F32: return PANEL * cols * 4;
    case TYPE_F16:
    case TYPE_BF16: return PANEL * cols * 2;
    default: return (cols + BLOCK - 1) / BLOCK * block_bytes(type);
    }
}

// Puts one row's block into its place among the 16 of a panel; out is the panel's block.
inline void place(const Q8& b, uint32_t row, uint8_t* out) {
    memcpy(out + 2 * row, &b.d, 2);
    for (uint32_t i = 0; i < BLOCK; i++) out[2 * PANEL + i / 4 * 64 + 4 * row + i % 4] = uint8_t(b.q[i]);
}
inline void place(const Q4& b, uint32_t row, uint8_t* out) {
    memcpy(out + 2 * row, &b.d, 2);
    memcpy(out + 2 * PANEL + 2 * row, &b.m, 2);
    for (uint32_t i = 0; i < BLOCK / 2; i++) out[4 * PANEL + i / 4 * 64 + 4 * row + i % 4] = uint8_t(b.q[i] | b.q[i + 16] << 4);
}

// Columns c .. c + 31 of a row, padded with one of its own values: a zero might widen the range.
inline void block_of_row(const float* x, size_t cols, size_t c, float* block) {
    const size_t n = std::min<size_t>(BLOCK, cols - c);
    memcpy(block, x + c, n * 4);
    std::fill(block + n, block + BLOCK, x[c]);
}

// Packs one row of a panel from floats.
inline void pack_row(Type type, const float* x, size_t cols, uint32_t row, uint8_t* out) {
    switch (type) {
    case TYPE_F32:
        for (size_t c = 0; c < cols; c++) memcpy(out + (c * PANEL + row) * 4, x + c, 4);
        return;
    case TYPE_F16:
    case TYPE_BF16:
        for (size_t c = 0; c < cols; c++) {
            const uint16_t h = type == TYPE_F16 ? f16_of_float(x[c]) : bf16_of_float(x[c]);
            memcpy(out + (c * PANEL + row) * 2, &h, 2);
        }
        return;
    default:
        for (size_t c = 0; c < cols; c += BLOCK, out += block_bytes(type)) {
            float block[BLOCK];
            block_of_row(x, cols, c, block);
            if (type == TYPE_Q8) place(quantize_q8(block), row, out);
            else place(quantize_q4(block), row, out);
        }
    }
}

// How the errors of a matrix's columns add up in its products: from the second moments of the activations that it reads. Columns come
// in groups of equal width; between groups they count as independent.
class Feedback {
public:
    size_t width; // of a group, a multiple of BLOCK

    // moments [groups][width][width], of which the lower halves are read. A part of the mean moment is added to each column's own: the
    // sample is small, and a tied table is looked up, too, where every column counts the same.
    Feedback(size_t group_width, const std::vector<float>& moments, double part = 0.1)
        : width(group_width), factor_(moments.begin(), moments.end()) {
        for (size_t begin = 0; begin < factor_.size(); begin += width * width) decompose(factor_.data() + begin, part);
    }

    // With H the moments, e^T H e = sum over j of weight(j) (e_j + sum over i < j of coefficients(j)[i] e_i)^2.
    float weight(size_t c) const { return row(c)[c % width]; }
    const float* coefficients(size_t c) const { return row(c); } // of the columns of its group before it

private:
    const float* row(size_t c) const { return factor_.data() + c * width; }

    // From the last column to the first: what a column shares with those before it is taken out of them.
    void decompose(float* h, double part) {
        double mean = 0;
        for (size_t i = 0; i < width; i++) mean += double(h[i * width + i]) / double(width);
        for (size_t i = 0; i < width; i++) h[i * width + i] += float(mean > 0 ? part * mean : 1);
        for (size_t j = width; j-- > 0;) {
            float* last = h + j * width;
            if (!(last[j] > 0 && last[j] < INFINITY)) throw std::domain_error("the moments are not those of finite activations");
            for (size_t i = 0; i < j; i++) last[i] /= last[j];
            for (size_t i = 0; i < j; i++)
                for (size_t k = 0; k <= i; k++) h[i * width + k] -= last[j] * last[i] * last[k];
        }
    }

    std::vector<float> factor_;
};

// Packs 16 rows into q4 so that their products, not their values, come out near: a column makes up for the errors of those before it
// (Frantar et al. 2022, GPTQ, 3, as successive cancellation).
inline void pack_panel_q4(const float* const* rows, size_t cols, const Feedback& feedback, uint8_t* out) {
    std::vector<float> errors(feedback.width * PANEL);
    for (size_t c = 0; c < cols; c += BLOCK, out += block_bytes(TYPE_Q4)) {
        const size_t begin = c / feedback.width * feedback.width;
        float target[BLOCK][PANEL], weight[BLOCK], own[PANEL][BLOCK];
        for (uint32_t r = 0; r < PANEL; r++) block_of_row(rows[r], cols, c, own[r]);
        auto take = [&](uint32_t i, size_t from, size_t to) { // the errors of columns from .. to of the group
            const float* coefficients = feedback.coefficients(c + i);
            for (size_t k = from; k < to; k++)
                for (uint32_t r = 0; r < PANEL; r++) target[i][r] -= coefficients[k] * errors[k * PANEL + r];
        };
        for (uint32_t i = 0; i < BLOCK; i++) {
            weight[i] = feedback.weight(c + i);
            for (uint32_t r = 0; r < PANEL; r++) target[i][r] = own[r][i];
            take(i, 0, c - begin);
        }
        Q4 blocks[PANEL];
        float d[PANEL], m[PANEL], inverse[PANEL];
        for (uint32_t r = 0; r < PANEL; r++) {
            float x[BLOCK];
            for (uint32_t i = 0; i < BLOCK; i++) x[i] = target[i][r];
            blocks[r] = quantize_q4(x, weight);
            d[r] = float_of_f16(blocks[r].d), m[r] = float_of_f16(blocks[r].m), inverse[r] = d[r] > 0 ? 1 / d[r] : 0;
        }
        for (uint32_t i = 0; i < BLOCK; i++) {
            const size_t at = c - begin + i;
            take(i, c - begin, at);
            for (uint32_t r = 0; r < PANEL; r++) {
                const int32_t q = nearest(std::min(std::max((target[i][r] - m[r]) * inverse[r], 0.0f), 15.0f));
                const float error = d[r] * float(q) + m[r] - own[r][i];
                blocks[r].q[i] = uint8_t(q);
                errors[at * PANEL + r] = c + i < cols && std::abs(error) < INFINITY ? error : 0;
            }
        }
        for (uint32_t r = 0; r < PANEL; r++) place(blocks[r], r, out);
    }
}

// Packs 16 rows of cols values; a null row is zeros.
inline void pack_panel(Type type, const float* const* rows, size_t cols, uint8_t* out) {
    memset(out, 0, panel_bytes(type, cols));
    for (uint32_t r = 0; r < PANEL; r++)
        if (rows[r]) pack_row(type, rows[r], cols, r, out);
}

// The values that row r of a panel stands for.
inline void unpack_row(Type type, const uint8_t* panel, uint32_t r, size_t cols, float* out) {
    auto half = [](const uint8_t* p) {
        uint16_t h;
        memcpy(&h, p, 2);
        return h;
    };
    for (size_t c = 0; c < cols; c++) {
        const uint8_t* block = type == TYPE_Q8 || type == TYPE_Q4 ? panel + c / BLOCK * block_bytes(type) : panel;
        const size_t i = c % BLOCK;
        switch (type) {
        case TYPE_F32: memcpy(out + c, panel + (c * PANEL + r) * 4, 4); break;
        case TYPE_F16: out[c] = float_of_f16(half(panel + (c * PANEL + r) * 2)); break;
        case TYPE_BF16: out[c] = float_of_bf16(half(panel + (c * PANEL + r) * 2)); break;
        case TYPE_Q8: out[c] = float_of_f16(half(block + 2 * r)) * float(int8_t(block[2 * PANEL + i / 4 * 64 + 4 * r + i % 4])); break;
        case TYPE_Q4: {
            const uint8_t pair = block[4 * PANEL + i % 16 / 4 * 64 + 4 * r + i % 4];
            out[c] =
                float_of_f16(half(block + 2 * r)) * float(i < 16 ? pair & 15 : pair >> 4) + float_of_f16(half(block + 2 * PANEL + 2 * r));
            break;
        }
        }
    }
}

} // namespace locus
#endif
