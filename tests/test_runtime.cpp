// The runtime from the inside: each kernel against plain arithmetic in double, and the results' independence of batch and threads.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wsubobject-linkage" // the whole runtime is part of this file
#endif
#include "../runtime.cpp"
#include "checkpoint.h"

#include <array>
#include <chrono>
#include <doctest/doctest.h>
#include <random>
#include <thread>

using namespace locus;

namespace {

std::vector<const Kernels*> all_kernels() { // that this processor has
    std::vector<const Kernels*> k = {&scalar::kernels};
#if defined(__x86_64__)
    for (const Kernels* wider : {&avx2::kernels, &avx512::kernels}) {
        k.push_back(wider);
        if (wider == &pick_kernels()) break;
    }
    if (&pick_kernels() == &scalar::kernels) k.resize(1);
#endif
    return k;
}

struct Packed {
    Packed(Type type, uint32_t rows, uint32_t cols, const std::vector<float>& values) {
        m.type = type, m.rows = rows, m.cols = cols, m.panel_bytes = matrix_bytes(type, PANEL, cols);
        memory.resize(m.panels() * m.panel_bytes);
        for (uint32_t r = 0; r < rows; r += PANEL) {
            const float* at[PANEL] = {};
            for (uint32_t i = 0; i < PANEL && r + i < rows; i++) at[i] = values.data() + size_t(r + i) * cols;
            pack_panel(type, at, cols, memory.data() + r / PANEL * m.panel_bytes);
        }
        m.data = memory.data();
    }
    Packed(const Packed&) = delete;
    Matrix m;
    std::vector<uint8_t> memory;
};

struct Inputs {
    Inputs(const Kernels& k, size_t n, size_t cols, const std::vector<float>& values, size_t misalign) : f(n * cols + misalign), q(n * ((cols + 31) / 32) * 32 + misalign), scale(n * ((cols + 31) / 32)) {
        std::copy(values.begin(), values.end(), f.begin() + ptrdiff_t(misalign));
        for (size_t t = 0; t < n; t++) k.quantize(f.data() + misalign + t * cols, cols, q.data() + misalign + t * 32, scale.data() + t, n);
        rows = {f.data() + misalign, cols, q.data() + misalign, scale.data(), n};
    }
    std::vector<float> f;
    std::vector<int8_t> q;
    std::vector<BlockScale> scale;
    Rows rows;
};

// What a matrix and its int8 or float inputs stand for, multiplied in double.
double exact(const Matrix& w, const Rows& x, size_t row, size_t t) {
    std::vector<float> weights(w.cols);
    copy_row(w, row, weights.data());
    double sum = 0;
    for (size_t c = 0; c < w.cols; c++) {
        const size_t b = c / 32 * x.step + t;
        const double a = w.type == TYPE_Q8 || w.type == TYPE_Q4 ? double(x.scale[b].d[c % 32 / 16]) * x.q[b * 32 + c % 32] : double(x.f[t * x.stride + c]);
        sum += double(weights[c]) * a;
    }
    return sum;
}

std::vector<float> normals(size_t n, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 1);
    std::vector<float> v(n);
    for (float& x : v) x = normal(random);
    return v;
}

std::vector<int32_t> some_tokens(size_t n, uint32_t vocab) {
    std::vector<int32_t> ids(n);
    for (size_t i = 0; i < n; i++) ids[i] = int32_t((i * 7919 + 13) % vocab);
    return ids;
}

} // namespace

TEST_CASE("each matrix kernel gives what plain arithmetic gives, on odd sizes and misaligned inputs") {
    for (const Kernels* k : all_kernels())
        for (Type type : {TYPE_F32, TYPE_F16, TYPE_BF16, TYPE_Q8, TYPE_Q4})
            for (const auto& shape : {std::array<uint32_t, 3>{1, 1, 1}, {16, 32, 1}, {17, 33, 2}, {100, 96, 37}, {70, 5, 13}, {31, 63, 24}, {129, 200, 5}}) {
                const uint32_t rows = shape[0], cols = shape[1], n = shape[2];
                CAPTURE(k->name); CAPTURE(type_name(type)); CAPTURE(rows); CAPTURE(cols); CAPTURE(n);
                const Packed p(type, rows, cols, normals(size_t(rows) * cols, 1));
                const Inputs in(*k, n, cols, normals(size_t(n) * cols, 2), 1);
                const std::vector<float> bias = normals(rows, 3);
                std::vector<float> y(n * rows + 1, 7.f);
                k->matmul(p.m, 0, p.m.panels(), in.rows, n, y.data() + 1, rows, bias.data(), 0);
                double worst = 0, unit = 0; // of a block's sum of int8 products, weights of 4 bits counted in sixteenths
                for (size_t t = 0; t < n; t++)
                    for (size_t r = 0; r < rows; r++) worst = std::max(worst, std::abs(double(y[1 + t * rows + r]) - bias[r] - exact(p.m, in.rows, r, t)));
                for (const BlockScale& s : in.scale) unit = std::max(unit, double(std::max(s.d[0], s.d[1])) * 4 / 127); // no weight is larger than 4
                CHECK(worst < 2e-5 * std::sqrt(double(cols)) + 1e-6 + (type == TYPE_Q8 || type == TYPE_Q4 ? 2 * unit * std::sqrt((cols + 31) / 32) : 0));
                CHECK(y[0] == 7.f);
            }
}

TEST_CASE("the int8 kernels do not saturate at the ends of the range") {
    for (const Kernels* k : all_kernels())
        for (Type type : {TYPE_Q8, TYPE_Q4})
            for (int sign : {1, -1}) {
                CAPTURE(k->name); CAPTURE(type_name(type)); CAPTURE(sign);
                const uint32_t rows = 16, cols = 64;
                Packed p(type, rows, cols, std::vector<float>(rows * cols, 1.f));
                const size_t head = type == TYPE_Q8 ? 32 : 64, body = type == TYPE_Q8 ? 512 : 256; // the extremes of q everywhere, d = 1, m = 0
                for (size_t b = 0; b < 2; b++) {
                    uint8_t* block = p.memory.data() + b * (head + body);
                    for (size_t r = 0; r < 16; r++) block[2 * r] = 0x00, block[2 * r + 1] = 0x3c, block[32 + 2 * r] = 0, block[33 + 2 * r] = 0;
                    memset(block + head, type == TYPE_Q8 ? (b ? 0x80 : 0x7f) : 0xff, body);
                }
                Inputs in(*k, 1, cols, std::vector<float>(cols, 127.f * float(sign)), 0); // d = 1, q = +-127
                std::vector<float> y(rows);
                k->matmul(p.m, 0, 1, in.rows, 1, y.data(), rows, nullptr, 0);
                const double want = type == TYPE_Q8 ? 127. * sign * 32 * (127 - 128) : 127. * sign * 64 * 15;
                for (float v : y) CHECK(v == want);
            }
}

TEST_CASE("norms, activations and int8 rows give what their formulas give") {
    for (const Kernels* k : all_kernels())
        for (size_t n : {1, 5, 16, 37, 96}) {
            CAPTURE(k->name); CAPTURE(n);
            const std::vector<float> x = normals(n, 4), weight = normals(n, 5), bias = normals(n, 6);
            double mean = 0, square = 0, variance = 0;
            for (float v : x) mean += v / double(n), square += double(v) * v / double(n);
            for (float v : x) variance += (v - mean) * (v - mean) / double(n);
            std::vector<float> y(n);
            k->norm(x.data(), n, NORM_RMS, 1e-5f, {weight.data(), nullptr}, y.data());
            for (size_t i = 0; i < n; i++) CHECK(y[i] == doctest::Approx(weight[i] * x[i] / std::sqrt(square + 1e-5)).epsilon(1e-5));
            k->norm(x.data(), n, NORM_LAYER, 1e-5f, {weight.data(), bias.data()}, y.data());
            for (size_t i = 0; i < n; i++) CHECK(std::abs(y[i] - (weight[i] * (x[i] - mean) / std::sqrt(variance + 1e-5) + bias[i])) < 2e-5);
            auto expect = [&](uint32_t activation, double v) {
                switch (activation) {
                case ACT_SILU: return v / (1 + std::exp(-v));
                case ACT_GELU: return v / 2 * (1 + std::erf(v / std::sqrt(2.)));
                case ACT_GELU_TANH: return v / 2 * (1 + std::tanh(std::sqrt(2 / 3.141592653589793) * (v + 0.044715 * v * v * v)));
                case ACT_RELU: return v > 0 ? v : 0;
                case ACT_RELU2: return v > 0 ? v * v : 0;
                default: return v / (1 + std::exp(-1.702 * v));
                }
            };
            for (uint32_t a = ACT_SILU; a <= ACT_GELU_SIGMOID; a++)
                for (float scale : {1.f, 6.f, 100.f}) {
                    CAPTURE(a); CAPTURE(scale);
                    for (size_t i = 0; i < n; i++) y[i] = x[i] * scale;
                    k->activate(y.data(), n, a, weight.data());
                    for (size_t i = 0; i < n; i++) CHECK(std::abs(y[i] - expect(a, double(x[i] * scale)) * weight[i]) < 1e-6 * (1 + std::abs(double(y[i]))) + 5e-7 * scale * std::abs(weight[i]));
                }
            std::vector<int8_t> q(128);
            std::vector<BlockScale> s(4);
            k->quantize(x.data(), n, q.data(), s.data(), 1);
            for (size_t i = 0; i < n; i++) CHECK(std::abs(s[i / 32].d[i % 32 / 16] * q[i] - x[i]) <= s[i / 32].d[i % 32 / 16] * 0.501);
            for (size_t i = n; i < round_up(n, 32); i++) CHECK(q[i] == 0);
        }
}

TEST_CASE("rows of nothing and of huge numbers quantise; what is not a number spoils its block's scale and nothing else") {
    for (const Kernels* k : all_kernels()) {
        std::vector<int8_t> q(32);
        BlockScale s;
        for (float v : {0.f, 1e-45f, 1e30f}) {
            k->quantize(std::vector<float>(32, v).data(), 32, q.data(), &s, 1);
            CHECK(s.d[0] * q[0] == doctest::Approx(v));
            CHECK(s.d_sum == doctest::Approx(32 * v));
            CHECK(std::isfinite(s.start_s8));
        }
        for (float v : {NAN, INFINITY, -INFINITY})
            for (size_t at : {0, 7, 15}) {
                std::vector<float> x(64, 1.f);
                std::vector<int8_t> two(64);
                BlockScale both[2];
                x[at] = v;
                k->quantize(x.data(), 64, two.data(), both, 1);
                CHECK(std::isnan(both[0].d[0]));
                CHECK(std::isnan(both[0].d_sum));
                CHECK(both[1].d[1] * two[63] == doctest::Approx(1));
            }
    }
}

TEST_CASE("half precision numbers") {
    CHECK(half_to_float(0x3c00) == 1.f);
    CHECK(half_to_float(0xc000) == -2.f);
    CHECK(half_to_float(0x7bff) == 65504.f);
    CHECK(half_to_float(0x0001) == 0x1p-24f);
    CHECK(half_to_float(0x8400) == -0x1p-14f);
    CHECK(std::isinf(half_to_float(0x7c00)));
    CHECK(std::isnan(half_to_float(0x7e00)));
    CHECK(round_to_bf16(1.00390625f) == 1.f);            // half way: to even
    CHECK(round_to_bf16(1.01171875f) == 1.015625f);
    for (uint32_t i = 0; i < 65536; i++) {
        const float f = half_to_float(uint16_t(i));
        if (!std::isnan(f)) CHECK_MESSAGE(f16_of_float(f) == i, i);
    }
}

TEST_CASE("attention gives softmax(q k) v, with windows, biases and caps, in one span or joined from several, also across the end of the cache") {
    const uint32_t key_dim = 24, value_dim = 20, rows = 5, capacity = 192;
    const size_t padded = round_up(value_dim, PANEL), width = padded + 2;
    for (const Kernels* k : all_kernels())
        for (Type type : {TYPE_F32, TYPE_F16})
            for (int variant = 0; variant < 8; variant++) {
                CAPTURE(k->name);
                CAPTURE(type_name(type));
                CAPTURE(variant);
                const int64_t n = 150, start = variant == 7 ? 100 : 0; // of positions
                std::vector<float> ks = normals(size_t(n) * key_dim, 1), vs = normals(size_t(n) * value_dim, 2);
                const std::vector<float> q = normals(rows * key_dim, 3), slopes = {0.5f, 0.25f, 0.125f, 0.0625f, 1}, table = normals(400, 4);
                std::vector<uint8_t> keys(capacity * key_dim * 4), values(capacity * padded * 4);
                auto put = [&](std::vector<uint8_t>& to, size_t at, float& x) {
                    const uint16_t half = f16_of_float(x);
                    if (type == TYPE_F16) x = float_of_f16(half), memcpy(to.data() + 2 * at, &half, 2);
                    else memcpy(to.data() + 4 * at, &x, 4);
                };
                for (size_t i = 0; i < size_t(n); i++) {
                    const size_t slot = (size_t(start) + i) % capacity;
                    for (size_t d = 0; d < key_dim; d++) put(keys, (slot / 16 * key_dim + d) * 16 + slot % 16, ks[i * key_dim + d]);
                    for (size_t d = 0; d < value_dim; d++) put(values, (d / 16 * capacity + slot) * 16 + d % 16, vs[i * value_dim + d]);
                }
                std::vector<int64_t> first(rows), last(rows), position(rows);
                std::vector<float> scores(rows * SPAN), out(rows * width), other(rows * width);
                std::vector<const float*> bias(rows);
                for (uint32_t r = 0; r < rows; r++) position[r] = last[r] = start + n - rows + r, first[r] = variant == 1 ? last[r] - 70 : start, bias[r] = table.data() + 10 * r;
                AttentionTile a = {};
                a.type = type, a.keys = keys.data(), a.values = variant == 5 ? nullptr : values.data(), a.capacity = capacity, a.key_dim = key_dim, a.value_dim = value_dim;
                a.rows = rows, a.q = q.data(), a.first = first.data(), a.last = last.data(), a.position = position.data(), a.scores = scores.data(), a.out = out.data();
                if (variant == 2) a.bias = bias.data();
                if (variant == 3) a.slope = slopes.data();
                if (variant == 4) a.softcap = 2;
                k->attention(a, start / 64 * 64, variant == 6 ? 128 : start + n);
                if (variant == 6) {
                    a.out = other.data();
                    k->attention(a, 128, n);
                    for (uint32_t r = 0; r < rows; r++) join(out.data() + r * width, other.data() + r * width, padded);
                }
                double worst = 0;
                for (uint32_t r = 0; r < rows; r++) {
                    std::vector<double> p(size_t(n), 0.), want(value_dim, 0.);
                    double total = 0;
                    for (int64_t i = first[r] - start; i <= last[r] - start; i++) {
                        double s = 0;
                        for (uint32_t d = 0; d < key_dim; d++) s += double(q[r * key_dim + d]) * ks[size_t(i) * key_dim + d];
                        if (variant == 4) s = 2 * std::tanh(s / 2);
                        if (variant == 2) s += bias[r][i];
                        if (variant == 3) s += slopes[r] * double(i - position[r]);
                        total += p[size_t(i)] = std::exp(s);
                    }
                    for (int64_t i = first[r] - start; i <= last[r] - start; i++)
                        for (uint32_t d = 0; d < value_dim; d++) want[d] += p[size_t(i)] / total * (variant == 5 ? ks[size_t(i) * key_dim + d] : vs[size_t(i) * value_dim + d]);
                    for (uint32_t d = 0; d < value_dim; d++) worst = std::max(worst, std::abs(want[d] - out[r * width + d] / out[r * width + padded + 1]));
                }
                CHECK(worst < 2e-5);
            }
}

TEST_CASE("floats to half precision: to nearest, even, whatever the instruction set") {
    for (const Kernels* k : all_kernels()) {
        std::vector<float> x = {1.f, 65519.f, 65520.f, -1e9f, 0x1p-24f, 0x1p-25f, 0x1.8p-25f, 1.00048828125f, 1.00146484375f, -0.f, 3e-5f};
        for (float f : normals(1000, 9)) x.push_back(f);
        std::vector<uint16_t> y(x.size());
        k->to_half(x.data(), x.size(), y.data());
        for (size_t i = 0; i < x.size(); i++) CHECK(y[i] == f16_of_float(x[i]));
        CHECK(std::vector<uint16_t>(y.begin(), y.begin() + 9) == std::vector<uint16_t>{0x3c00, 0x7bff, 0x7c00, 0xfc00, 1, 0, 1, 0x3c00, 0x3c02});
    }
}

namespace {

struct Variant {
    const char* name;
    void (*change)(Checkpoint&);
};
void latent(Checkpoint& c) { c.h.kv_lora_rank = 40, c.h.latent_norm_eps = 1e-6f, c.h.head_dim = 32, c.h.rope[0].dim = 8, c.h.rope[0].interleaved = 1, c.h.n_kv_heads = 6; }
void mixture(Checkpoint& c) { c.h.n_experts = 8, c.h.n_experts_used = 3, c.h.expert_dim = 40, c.h.router_norm = 1; }
const Variant variants[] = {
    {"rotary", [](Checkpoint&) {}},
    {"no positions, tied head", [](Checkpoint& c) { c.h.positions = POSITIONS_NONE, c.h.head = HEAD_TIED; }},
    {"sinusoidal, layer norm, biases", [](Checkpoint& c) { c.h.positions = POSITIONS_SINUSOIDAL, c.h.norm = NORM_LAYER, c.h.norm_bias = c.h.qkv_bias = c.h.out_bias = c.h.ffn_bias = c.h.head_bias = 1; }},
    {"learned, post-norm, projected", [](Checkpoint& c) { c.h.positions = POSITIONS_LEARNED, c.h.position_offset = 2, c.h.n_positions = 602, c.h.norm_place = NORM_POST, c.h.final_norm = 0, c.h.embed_dim = 40, c.h.gated = 0; }},
    {"alibi, parallel, embedding norm", [](Checkpoint& c) { c.h.positions = POSITIONS_ALIBI, c.h.parallel = PARALLEL_ONE_NORM, c.h.embed_norm = 1; }},
    {"relative bias, two parallel norms", [](Checkpoint& c) { c.h.positions = POSITIONS_RELATIVE, c.h.relative_buckets = 32, c.h.relative_max = 128, c.h.parallel = PARALLEL_TWO_NORMS; }},
    {"windows, soft caps, sandwich norms, query norms", [](Checkpoint& c) {
        c.h.norm_place = NORM_SANDWICH, c.h.attn_softcap = 5, c.h.logit_softcap = 3, c.h.qk_norm = QK_HEAD;
        c.layers.assign(2, {LAYER_ATTENTION, 0, 0, 0, 0, 0.2f, {0, 0}});
        c.layers[0].window = 37;
    }},
    {"yarn, output norms, full query norms", [](Checkpoint& c) { c.h.norm_place = NORM_OUTPUT, c.h.qk_norm = QK_FULL, c.h.rope[0].scaling = ROPE_YARN, c.h.rope[0].factor = 4, c.h.rope[0].beta_fast = 32, c.h.rope[0].beta_slow = 1; }},
    {"latent attention", latent},
    {"latent attention, compressed queries, grouped experts", [](Checkpoint& c) { latent(c), mixture(c), c.h.q_lora_rank = 20, c.h.n_groups = 4, c.h.n_groups_used = 2, c.h.group_score = GROUP_TOP2, c.h.router = ROUTER_SIGMOID, c.h.router_bias = 1, c.h.shared_dim = 24; }},
    {"mixture of experts, shared gate", [](Checkpoint& c) { mixture(c), c.h.shared_dim = 30, c.h.shared_gate = 1; }},
    {"recurrent layers", [](Checkpoint& c) { c.h.positions = POSITIONS_SINUSOIDAL, c.layers.assign(2, {LAYER_SSRU, NO_ROPE, 0, 0, 0, 0.2f, {0, 0}}); }},
    {"encoder-decoder", [](Checkpoint& c) { c.h.n_encoder_layers = 2, c.h.positions = POSITIONS_SINUSOIDAL; }},
    {"encoder-decoder with relative bias", [](Checkpoint& c) { c.h.n_encoder_layers = 1, c.h.positions = POSITIONS_RELATIVE, c.h.relative_buckets = 32, c.h.relative_max = 128; }},
};

} // namespace

TEST_CASE("the scores are the same, bit for bit, however a text is cut and whatever the number of threads") {
    for (Type type : {TYPE_F32, TYPE_F16, TYPE_Q8, TYPE_Q4})
        for (const Variant& v : variants) {
            CAPTURE(v.name); CAPTURE(type_name(type));
            Checkpoint c;
            c.type = type;
            v.change(c);
            c.fill();
            const TemporaryFile file(c.bytes());
            const Model model(file.path);
            const size_t n = std::max(CHUNK, SPAN) + 44; // more than a chunk, and than a span of attention
            const std::vector<int32_t> ids = some_tokens(n, c.h.vocab_size), source = some_tokens(19, c.h.vocab_size);
            auto scores = [&](const std::vector<size_t>& cuts, uint32_t threads) {
                Session s(model, {uint32_t(n), threads});
                if (c.h.n_encoder_layers) s.encode(source.data(), source.size());
                std::vector<float> all;
                size_t at = 0, i = 0;
                while (at < n) {
                    const size_t step = std::min(cuts[i++ % cuts.size()], n - at);
                    const float* p = s.forward(ids.data() + at, step, Scores::ALL);
                    all.insert(all.end(), p, p + step * s.width());
                    at += step;
                }
                CHECK(s.length() == n);
                return all;
            };
            const std::vector<float> whole = scores({n}, 1);
            REQUIRE(whole.size() == n * c.h.vocab_size);
            CHECK(std::all_of(whole.begin(), whole.end(), [](float f) { return std::isfinite(f); }));
            CHECK(whole == scores({1}, 2));
            CHECK(whole == scores({7, 1, 64, 13}, 2));
            CHECK(whole == scores({n}, 3));
        }
}

TEST_CASE("a decoder that starts from zero does not look at its first token") {
    Checkpoint c;
    c.h.n_encoder_layers = 1, c.h.positions = POSITIONS_SINUSOIDAL, c.h.zero_start = 1;
    c.fill();
    const TemporaryFile file(c.bytes());
    const Model model(file.path);
    auto scores = [&](const std::vector<int32_t>& target) {
        Session s(model);
        const int32_t source[] = {3, 1, 2};
        s.encode(source, 3);
        const float* p = s.forward(target);
        return std::vector<float>(p, p + s.width());
    };
    CHECK(scores({4, 5}) == scores({9, 5}));
    CHECK(scores({4, 5}) != scores({4, 9}));
    c.h.zero_start = 2;
    const TemporaryFile wrong(c.bytes());
    CHECK_THROWS_WITH_AS(Model(wrong.path), doctest::Contains("header field zero_start is 2, expected 0 to 1"), Error);
}

TEST_CASE("the scores are the same, bit for bit, over several spans of keys") {
    for (size_t variant : {0, 6, 8}) // plain, windows, latent
        for (Type type : {TYPE_F32, TYPE_Q8}) {
            CAPTURE(variants[variant].name);
            Checkpoint c;
            c.type = type;
            variants[variant].change(c);
            c.fill();
            const TemporaryFile file(c.bytes());
            const Model model(file.path);
            const size_t n = 1300;
            const std::vector<int32_t> ids = some_tokens(n, c.h.vocab_size);
            auto last = [&](size_t step, uint32_t threads) {
                Session s(model, {uint32_t(n), threads});
                const float* p = nullptr;
                for (size_t at = 0; at < n; at += step) p = s.forward(ids.data() + at, std::min(step, n - at));
                return std::vector<float>(p, p + s.width());
            };
            const std::vector<float> whole = last(n, 1);
            CHECK(whole == last(n, 2));
            CHECK(whole == last(1, 2));
            CHECK(whole == last(35, 2)); // from 490 on: the first tile's keys end before the second span, that the work is split for
            CHECK(whole == last(37, 1));
        }
}

TEST_CASE("each instruction set gives the same scores to float accuracy") {
    for (const Variant& v : variants) {
        CAPTURE(v.name);
        Checkpoint c;
        v.change(c);
        c.fill();
        const TemporaryFile file(c.bytes());
        std::vector<std::vector<float>> results;
        for (const Kernels* k : all_kernels()) {
            setenv("LOCUS_ISA", k->name, 1);
            const Model model(file.path);
            unsetenv("LOCUS_ISA");
            Session s(model);
            const std::vector<int32_t> ids = some_tokens(37, c.h.vocab_size);
            if (c.h.n_encoder_layers) s.encode(ids.data(), 11);
            const float* p = s.forward(ids, Scores::ALL);
            results.emplace_back(p, p + 37 * s.width());
        }
        for (auto& r : results)
            for (size_t i = 0; i < r.size(); i++) CHECK(std::abs(r[i] - results[0][i]) < 2e-4);
    }
}

TEST_CASE("rewinding forgets what came after, and says when a window has moved past it") {
    Checkpoint c;
    variants[6].change(c);
    c.fill();
    const TemporaryFile file(c.bytes());
    const Model model(file.path);
    Session s(model, {800});
    const std::vector<int32_t> ids = some_tokens(790, c.h.vocab_size);
    auto row = [&](const float* p) { return std::vector<float>(p, p + s.width()); };
    const auto first = row(s.forward(ids.data(), 50));
    s.forward(ids.data() + 60, 40);
    s.rewind(20);
    CHECK(row(s.forward(ids.data() + 20, 30)) == first);
    CHECK_THROWS_WITH_AS(s.rewind(51), "cannot rewind to 51 tokens, only 50 are held", Error);
    s.forward(ids.data() + 50, 740);
    CHECK_THROWS_WITH_AS(s.rewind(40), "cannot rewind to 40 tokens: a window of 37 has moved past them", Error);
    CHECK(s.length() == 790);
    s.rewind(0);
    CHECK(row(s.forward(ids.data(), 50)) == first);
}

TEST_CASE("a window's layer keeps no more cache than the window and a chunk; latent attention the compressed vector and the rotary key") {
    Checkpoint c;
    c.layers.assign(2, {LAYER_ATTENTION, 0, 16, 0, 0, 0.2f, {0, 0}});
    c.h.context = 100000;
    c.fill();
    const TemporaryFile file(c.bytes());
    const Model model(file.path);
    CHECK(Session(model, {100000, 1}).cache_bytes() == 2 * round_up(16 + CHUNK + TILE, TILE) * 3 * (24 + 32) * 4);
    CHECK(Session(model, {100, 1}).cache_bytes() == 2 * 128 * 3 * (24 + 32) * 4);
    Checkpoint half;
    half.type = TYPE_Q8; // weights of fewer bits: keys and values in f16, unless asked otherwise
    half.fill();
    const TemporaryFile smaller(half.bytes());
    const Model quantized(smaller.path);
    CHECK(Session(quantized, {100, 1}).cache_bytes() == 2 * 128 * 3 * (24 + 32) * 2);
    CHECK(Session(quantized, {100, 1, AS_TRAINED, true}).cache_bytes() == 2 * 128 * 3 * (24 + 32) * 4);
    Checkpoint d;
    latent(d);
    d.fill();
    const TemporaryFile other(d.bytes());
    const Model compressed(other.path);
    CHECK(Session(compressed, {128, 1}).cache_bytes() == 2 * 128 * (40 + 8) * 4);
}

TEST_CASE("a model runs without its positions, or with others that need no weights") {
    Checkpoint c;
    c.h.causal = 0;
    c.h.positions = POSITIONS_LEARNED, c.h.n_positions = 50;
    c.fill();
    const TemporaryFile file(c.bytes());
    const Model model(file.path);
    auto scores = [&](uint32_t positions, std::vector<int32_t> ids) {
        Session s(model, {0, 1, positions});
        const float* p = s.forward(ids, Scores::ALL);
        return std::vector<float>(p, p + ids.size() * s.width());
    };
    const std::vector<int32_t> ab = {5, 9, 17}, ba = {9, 5, 17}; // three: linear biases are the same for a text and its reverse
    for (uint32_t scheme : {AS_TRAINED, uint32_t(POSITIONS_SINUSOIDAL), uint32_t(POSITIONS_ROTARY), uint32_t(POSITIONS_ALIBI), uint32_t(POSITIONS_NONE)}) {
        CAPTURE(scheme);
        const std::vector<float> one = scores(scheme, ab), other = scores(scheme, ba);
        float apart = 0; // token 5 first, and token 5 second
        for (size_t i = 0; i < 101; i++) apart = std::max(apart, std::abs(one[i] - other[101 + i]));
        // a bidirectional model is blind to order without positions
        if (scheme == POSITIONS_NONE) CHECK(apart < 1e-5);
        else CHECK(apart > 1e-3);
    }
    CHECK_THROWS_WITH_AS(Session(model, {0, 1, POSITIONS_RELATIVE}), "these positions need weights that the model does not have", Error);
    CHECK(Session(model, {0, 1, POSITIONS_NONE}).context() == 600); // the table's 50 rows are no limit without it
    const std::vector<float> six = alibi_slopes(6);
    for (size_t i = 0; i < 8; i++) CHECK(alibi_slopes(8)[i] == std::ldexp(1.f, -int(i) - 1)); // 1/2 .. 1/256
    for (size_t i = 0; i < 4; i++) CHECK(six[i] == std::ldexp(1.f, -2 * (int(i) + 1)));       // those of 4 heads,
    CHECK(six[4] == 0.5f);                                                                    // then the odd ones of 8
    CHECK(six[5] == 0.125f);
}

TEST_CASE("a table of learned positions that is extended repeats its last row") {
    Checkpoint c;
    c.h.positions = POSITIONS_LEARNED, c.h.position_offset = 2, c.h.n_positions = 80;
    c.fill();
    TensorEntry& table = *std::find_if(c.tensors.begin(), c.tensors.end(), [](auto& t) { return !strcmp(t.name, "embed.positions"); });
    float* rows = reinterpret_cast<float*>(c.data.data() + table.offset);
    for (size_t r = 50; r < 80; r++) std::copy_n(rows + 49 * 72, 72, rows + r * 72);
    const TemporaryFile long_file(c.bytes());
    c.h.n_positions = table.rows = 50, table.bytes = 50 * 72 * 4;
    const TemporaryFile short_file(c.bytes());
    const Model with_long(long_file.path), with_short(short_file.path);
    const std::vector<int32_t> ids = some_tokens(70, 101);
    SessionOptions options;
    options.context = 70, options.threads = 1;
    CHECK_THROWS_WITH_AS(Session(with_short, options), "a context of 70 tokens is longer than the model's table of 48 positions", Error);
    Session want(with_long, options);
    options.extend = true;
    Session got(with_short, options);
    const float *a = want.forward(ids, Scores::ALL), *b = got.forward(ids, Scores::ALL);
    CHECK(!memcmp(a, b, 70 * 101 * 4));
    options.context = 0;
    CHECK(Session(with_short, options).context() == 600);
    options.positions = POSITIONS_NONE;
    CHECK_THROWS_WITH_AS(Session(with_short, options), "the model has no table of learned positions to extend", Error);
}

TEST_CASE("rotary positions are scaled at run time as the papers and transformers 4.57 have it") {
    Header h = Checkpoint().h; // 24 of a head, base 10000, trained with 64
    const float* none[2] = {};
    const struct { uint32_t scaling; float attention_factor, frequencies[12]; } cases[] = {
        {ROPE_LINEAR, 1, {0.25f, 0.1160397f, 0.05386086f, 0.025f, 0.01160397f, 0.005386087f, 0.0025f, 0.001160397f, 0.0005386086f, 0.00025f, 0.0001160397f, 5.386085e-05f}},
        {ROPE_NTK, 1, {1, 0.4091984f, 0.1674433f, 0.06851755f, 0.02803727f, 0.01147281f, 0.004694655f, 0.001921046f, 0.0007860885f, 0.0003216662f, 0.0001316253f, 5.386085e-05f}},
        {ROPE_YARN, 1.138629436f, {1, 0.3771291f, 0.1346522f, 0.04375f, 0.01160397f, 0.005386087f, 0.0025f, 0.001160397f, 0.0005386086f, 0.00025f, 0.0001160397f, 5.386085e-05f}}};
    for (const auto& want : cases) {
        CAPTURE(want.scaling);
        const Rope r = with_rope_scaling(h, want.scaling, 4).rope[0];
        const std::vector<float> got = rope_frequencies(r, none, 1);
        for (size_t i = 0; i < 12; i++) CHECK(got[i] == doctest::Approx(want.frequencies[i]).epsilon(1e-6));
        CHECK(r.attention_factor == doctest::Approx(want.attention_factor).epsilon(1e-6));
    }
    h.rope[0].original_context = 0;
    CHECK(with_rope_scaling(h, ROPE_YARN, 4).rope[0].original_context == 600); // the header's context

    Checkpoint c;
    c.fill();
    const TemporaryFile file(c.bytes());
    const Model model(file.path);
    const std::vector<int32_t> ids = some_tokens(300, 101);
    SessionOptions options;
    options.threads = 1;
    auto scores = [&](uint32_t scaling, float factor, uint32_t threads, size_t part) {
        options.rope_scaling = scaling, options.rope_factor = factor, options.threads = threads;
        Session s(model, options);
        std::vector<float> all;
        for (size_t i = 0; i < ids.size(); i += part) {
            const size_t n = std::min(part, ids.size() - i);
            const float* p = s.forward(ids.data() + i, n, Scores::ALL);
            all.insert(all.end(), p, p + n * s.width());
        }
        return all;
    };
    const std::vector<float> plain = scores(AS_TRAINED, 1, 1, 300);
    for (const auto& want : cases) {
        CAPTURE(want.scaling);
        const std::vector<float> whole = scores(want.scaling, 4, 1, 300);
        CHECK(whole != plain);
        CHECK(whole == scores(want.scaling, 4, 3, 7));
        CHECK(plain == scores(want.scaling, 1, 1, 300));
    }
}

TEST_CASE("what cannot be scaled at run time is refused") {
    Checkpoint plain, absent, scaled, factors;
    absent.h.positions = POSITIONS_ALIBI;
    scaled.h.rope[0].scaling = ROPE_LINEAR, scaled.h.rope[0].factor = 2;
    factors.h.rope[0].has_factors = 1;
    const struct { Checkpoint& c; uint32_t scaling; float factor; const char* error; } cases[] = {
        {plain, ROPE_LINEAR, 0.5f, "rope factor is 0.5, expected 1 to 1000000"},
        {plain, ROPE_NTK, NAN, "rope factor is nan, expected 1 to 1000000"},
        {plain, ROPE_DYNAMIC, 2, "rope scaling 2 is not one of a session's: linear, ntk or yarn"},
        {absent, ROPE_YARN, 2, "rope scaling is for rotary positions, which the model does not have"},
        {scaled, ROPE_NTK, 2, "the model's rotary positions are scaled already"},
        {factors, ROPE_NTK, 2, "the model's rotary positions are scaled already"}};
    for (Checkpoint* c : {&plain, &absent, &scaled, &factors}) c->fill();
    for (const auto& bad : cases) {
        CAPTURE(bad.error);
        const TemporaryFile file(bad.c.bytes());
        const Model model(file.path);
        SessionOptions options;
        options.rope_scaling = bad.scaling, options.rope_factor = bad.factor;
        CHECK_THROWS_WITH_AS(Session(model, options), bad.error, Error);
    }
    plain.h.rope[0].scaling = ROPE_NTK; // no file says so
    const TemporaryFile file(plain.bytes());
    CHECK_THROWS_AS(Model(file.path), Error);
}

TEST_CASE("attention weights are told for each query once, sum to 1 and do not depend on cut or threads") {
    Checkpoint c;
    c.layers.assign(2, {LAYER_ATTENTION, 0, 0, 0, 0, 0.2f, {0, 0}});
    c.layers[1].window = 40;
    c.h.rope[0].dim = 24;
    c.type = TYPE_F16;
    c.fill();
    const TemporaryFile file(c.bytes());
    const Model model(file.path);
    const size_t n = 600; // more than a span of keys
    const std::vector<int32_t> ids = some_tokens(n, 101);
    auto maps = [&](uint32_t threads, size_t part) {
        std::vector<float> all(2 * 6 * n * n, -1.f);
        std::vector<int> told(2 * 6 * n);
        SessionOptions options;
        options.context = n, options.threads = threads;
        options.attention = [&](uint32_t layer, uint32_t head, size_t query, size_t first, const float* weights, size_t count) {
            const size_t row = (layer * 6 + head) * n + query;
            told[row]++;
            std::copy_n(weights, count, &all[row * n + first]);
        };
        Session s(model, options);
        for (size_t i = 0; i < n; i += part) s.forward(ids.data() + i, std::min(part, n - i));
        CHECK(told == std::vector<int>(2 * 6 * n, 1));
        return all;
    };
    const std::vector<float> whole = maps(1, n);
    CHECK(whole == maps(3, 7));
    bool right = true;
    for (size_t row = 0; row < 2 * 6 * n; row++) {
        const size_t query = row % n, first = row < 6 * n || query < 40 ? 0 : query - 39; // of the second layer's window
        double sum = 0;
        for (size_t key = 0; key < n; key++) {
            const float weight = whole[row * n + key];
            const bool seen = key >= first && key <= query;
            right &= seen ? weight > 0 : weight == -1;
            if (seen) sum += weight;
        }
        right &= std::abs(sum - 1) < 1e-5;
    }
    CHECK(right);
}

TEST_CASE("a bidirectional model sees the whole text and holds nothing") {
    Checkpoint c;
    c.h.causal = 0;
    c.fill();
    const TemporaryFile file(c.bytes());
    const Model model(file.path);
    Session one(model, {400, 1}), two(model, {400, 2});
    const std::vector<int32_t> ids = some_tokens(300, c.h.vocab_size);
    const float *a = one.forward(ids, Scores::ALL), *b = two.forward(ids, Scores::ALL);
    CHECK(std::vector<float>(a, a + 300 * 101) == std::vector<float>(b, b + 300 * 101));
    CHECK(one.length() == 0);
    const std::vector<float> before(a, a + 101);
    std::vector<int32_t> changed = ids;
    changed.back()++;
    const float* after = one.forward(changed, Scores::ALL);
    CHECK(before != std::vector<float>(after, after + 101)); // the first token sees the last
}

TEST_CASE("two sessions on one model run in two threads") {
    Checkpoint c;
    c.fill();
    const TemporaryFile file(c.bytes());
    const Model model(file.path);
    std::vector<std::vector<float>> results(2);
    auto work = [&](size_t i) {
        Session s(model, {0, 2});
        for (int32_t id : some_tokens(40, c.h.vocab_size)) {
            const float* p = s.forward(&id, 1);
            results[i].insert(results[i].end(), p, p + s.width());
        }
    };
    std::thread a(work, 0), b(work, 1);
    a.join(), b.join();
    CHECK(results[0] == results[1]);
}

TEST_CASE("a buffer that cannot grow keeps what it has") {
    Buffer<float> b;
    b.resize(1 << 20); // so large that freed memory is gone
    b.data()[7] = 3;
    volatile size_t too_many = SIZE_MAX / 16;
    CHECK_THROWS_AS(b.resize(too_many), std::bad_alloc);
    CHECK(b.size() == 1 << 20);
    CHECK(b.data()[7] == 3);
}

TEST_CASE("a team of threads does each item of each step once, and a step after the one before") {
    Team team(3);
    for (size_t round = 0; round < 200; round++) {
        std::vector<size_t> first(17), second(5);
        team.run(true, 3, [&](Team::Worker& me) {
            me.share(17, [&](size_t i) { first[i] += i + round; });
            me.share(0, [&](size_t) { abort(); });
            me.share(5, [&](size_t i) {
                for (size_t f : first) second[i] += f;
            });
        });
        for (size_t s : second) CHECK(s == 17 * round + 136);
        if (round % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5)); // long enough to fall asleep
    }
}

TEST_CASE("the sampler keeps what its options leave") {
    const std::vector<float> scores = {0, std::log(4.f), std::log(2.f), std::log(3.f)}; // probabilities 0.1, 0.4, 0.2, 0.3
    auto counts = [&](SamplerOptions o) {
        Sampler s(o);
        std::vector<int> n(4);
        for (int i = 0; i < 20000; i++) n[size_t(s.sample(scores.data(), 4))]++;
        return n;
    };
    SamplerOptions o;
    o.temperature = 1;
    auto n = counts(o);
    for (auto [i, p] : {std::pair<size_t, double>{0, 0.1}, {1, 0.4}, {2, 0.2}, {3, 0.3}}) CHECK(std::abs(n[i] / 20000. - p) < 0.015);
    o.top_k = 2;
    n = counts(o);
    CHECK(n[0] + n[2] == 0);
    CHECK(std::abs(n[1] / 20000. - 4. / 7) < 0.015);
    o.top_k = 0, o.top_p = 0.75f; // 0.4 + 0.3 do not reach it, 0.2 does
    n = counts(o);
    CHECK(n[0] == 0);
    CHECK(n[2] > 0);
    o.top_p = 1, o.min_p = 0.6f; // 0.3 / 0.4 stays, 0.2 / 0.4 goes
    n = counts(o);
    CHECK(n[0] + n[2] == 0);
    o.min_p = 0, o.temperature = 0;
    CHECK(counts(o) == std::vector<int>{0, 20000, 0, 0});
    o.repeat_penalty = 2; // 4 counts as ln 4 / 2 = ln 2 < ln 3
    Sampler s(o);
    s.accept(1);
    CHECK(s.sample(scores.data(), 4) == 3);
    const float equal[3] = {1, 1, 1};
    CHECK(Sampler(SamplerOptions{0}).sample(equal, 3) == 0);
    std::vector<float> many(37, -2.f);
    for (size_t at : {36, 20, 4}) { // the first of equals, behind the last whole 16 and before
        many[at] = -1;
        CHECK(Sampler(SamplerOptions{0}).sample(many.data(), many.size()) == int32_t(at));
    }
    many.assign(37, NAN);
    CHECK(Sampler(SamplerOptions{0}).sample(many.data(), many.size()) == 0);
    for (float top_p : {0.5f, 1.f})
        for (size_t at = 0; at < 37; at++) { // what is not a number is never chosen where a number is
            many.assign(37, NAN);
            many[at] = -3;
            SamplerOptions among;
            among.top_p = top_p;
            CHECK(Sampler(among).sample(many.data(), many.size()) == int32_t(at));
        }
    o.top_p = NAN;
    CHECK_THROWS_AS(Sampler{o}, Error);
}
