// The forward pass of Locus, top to bottom: kernels, file, weights, positions, attention, feed-forward, scores.
// The kernels stand at the end of this file and are compiled once for each instruction set: the file includes itself.
#ifndef LOCUS_TARGET
#include "model.h"
#include "tokenizer.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <tuple>
#include <unordered_map>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__x86_64__)
#pragma GCC diagnostic push
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized" // GCC 12 sees some in its own header (its bug 105593)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <cpuid.h>
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#error "a checkpoint is little-endian, and so must be the processor"
#endif

namespace locus {
namespace {

[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));
void fail(const char* format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    throw Error(text);
}

constexpr size_t TILE = 64;   // a cache holds, and attention begins at, a multiple of so many positions
constexpr size_t SPAN = 512;  // keys of one softmax; spans are joined at the end. Their places are fixed, so that sums do not depend on the batch
constexpr size_t QUERIES = 36; // queries that attention takes at a time
constexpr size_t CHUNK = 256; // tokens of a prompt that pass through the layers together

// Bytes of a block of 16 rows and 32 columns (model.h): the scales, for q4 the minima, then the numbers.
constexpr size_t Q8_HEAD = PANEL * 2, Q8_BYTES = Q8_HEAD + PANEL * BLOCK, Q4_HEAD = PANEL * 4, Q4_BYTES = Q4_HEAD + PANEL * BLOCK / 2;

unsigned long long ull(uint64_t n) { return n; } // as printf has it
size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

// ---- kernels: what each instruction set offers --------------------------------------------------------------------

// A row of activations in int8, by blocks of 32 columns as in q8 and q4. Each half has a scale of its own, for these have outliers.
struct BlockScale {
    float d[2];
    float start_s8, start_u4; // what scaled() begins with
    float d_sum;              // of what the numbers stand for
};

// Rows of activations that go into a matrix: floats, and for q8 and q4 weights the same in int8.
struct Rows {
    const float* f;
    size_t stride; // floats from row to row
    const int8_t* q;          // [blocks, step, 32]: a block of all rows, then the next
    const BlockScale* scale;  // [blocks, step]
    size_t step;
};

struct Matrix { // [rows, cols] in panels; null data: the model has none
    Type type = TYPE_F32;
    uint32_t rows = 0, cols = 0;
    const uint8_t* data = nullptr;
    size_t panel_bytes = 0;
    uint32_t panels() const { return (rows + PANEL - 1) / PANEL; }
};

struct NormWeights {
    const float* weight = nullptr;
    const float* bias = nullptr; // null: none
};

// Attention of a few queries of one key/value head against its cache.
// Keys [capacity / 16][key_dim][16], values [value_dim / 16][capacity][16]: panels, so that both products run in the matrix kernel.
struct AttentionTile {
    Type type;                 // f32 or f16
    const uint8_t* keys;
    const uint8_t* values;     // null: the values are the keys' first value_dim entries (latent attention)
    size_t capacity;           // positions, a multiple of TILE; position p stands at p mod capacity
    uint32_t key_dim, value_dim;
    uint32_t rows;             // queries
    const float* q;            // [rows, key_dim], scaled
    const int64_t* first;      // keys that each query sees: first .. last
    const int64_t* last;
    const float* const* bias;  // null, or for each query a table indexed by key position
    const float* slope;        // null, or linear biases: slope times position
    const int64_t* position;   // of each query
    float slope_bf16;          // as Header.alibi_bf16
    float softcap;             // 0: none
    float* scores;             // scratch [rows, SPAN]
    float* out;                // a part of each query's result: round_up(value_dim, 16) sums of exponentials times values, the largest score, the sum of exponentials
};

struct Kernels {
    const char* name;
    // y[t][r] = start[t][r] + sum over c of w[r][c] x[t][c] for the panels begin .. end; start: null is 0, start_stride 0 a bias.
    void (*matmul)(const Matrix& w, uint32_t begin, uint32_t end, const Rows& x, size_t n, float* y, size_t y_stride, const float* start, size_t start_stride);
    void (*attention)(const AttentionTile& a, int64_t from, int64_t to); // over the keys from .. to - 1: 1 to SPAN of them, from a multiple of TILE
    void (*to_half)(const float* x, size_t n, uint16_t* y);             // to nearest, even
    void (*norm)(const float* x, size_t n, uint32_t kind, float eps, const NormWeights& w, float* y); // y may be x
    void (*activate)(float* x, size_t n, uint32_t activation, const float* times);                    // x = act(x) (* times)
    void (*quantize)(const float* x, size_t n, int8_t* q, BlockScale* scale, size_t step); // a row of Rows
    void (*scale_add)(const float* x, float scale, const float* add, size_t n, float* y);  // y = scale x + add; add may be null, or y
};

float half_to_float(uint16_t h) {
    uint32_t sign = uint32_t(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 1023, bits;
    if (exponent == 31) bits = sign | 0x7f800000 | mantissa << 13;
    else if (exponent) bits = sign | (exponent + 112) << 23 | mantissa << 13;
    else {
        float f = float(mantissa) * 0x1p-24f;
        memcpy(&bits, &f, 4);
        bits |= sign;
    }
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

uint16_t float_to_half(float f) { // to nearest, even
    uint32_t bits;
    memcpy(&bits, &f, 4);
    const uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (size > 0x7f800000) return uint16_t(sign | 0x7e00);
    if (size >= 0x477ff000) return uint16_t(sign | 0x7c00);
    if (size >= 0x38800000) return uint16_t(sign | (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13);
    const float shifted = std::fabs(f) + 0.5f; // below 2^-14: the last bits of this sum count in 2^-24
    memcpy(&bits, &shifted, 4);
    return uint16_t(sign | (bits - 0x3f000000));
}

float bf16_to_float(uint16_t h) {
    uint32_t bits = uint32_t(h) << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

float round_to_bf16(float f) { // nearest even
    uint32_t bits;
    memcpy(&bits, &f, 4);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    memcpy(&f, &bits, 4);
    return f;
}

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }
float soft_cap(float x, float cap) { return cap * std::tanh(x / cap); } // Bello et al. 2016

} // namespace
} // namespace locus

#define LOCUS_TARGET
#define LOCUS_ISA scalar
#define LOCUS_LEVEL 0
#include "runtime.cpp"
#if defined(__x86_64__)
#undef LOCUS_TARGET
#undef LOCUS_ISA
#undef LOCUS_LEVEL
#define LOCUS_TARGET __attribute__((target("avx2,fma,f16c")))
#define LOCUS_ISA avx2
#define LOCUS_LEVEL 1
#include "runtime.cpp"
#undef LOCUS_TARGET
#undef LOCUS_ISA
#undef LOCUS_LEVEL
#define LOCUS_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")))
#define LOCUS_ISA avx512
#define LOCUS_LEVEL 2
#include "runtime.cpp"
#endif

namespace locus {
namespace {

// The widest kernels that the processor has, or what LOCUS_ISA asks for if it has that.
const Kernels& pick_kernels() {
    const Kernels* found[3] = {&scalar::kernels};
    int n = 1;
#if defined(__x86_64__)
    unsigned a, b, c = 0, d;
    const bool f16c = __get_cpuid(1, &a, &b, &c, &d) && c >> 29 & 1; // not every compiler's builtin knows this name
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && f16c) found[n++] = &avx2::kernels;
    if (n == 2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni"))
        found[n++] = &avx512::kernels;
#endif
    const char* wanted = getenv("LOCUS_ISA");
    if (wanted && *wanted) {
        std::string names;
        for (int i = 0; i < n; i++) {
            if (!strcmp(wanted, found[i]->name)) return *found[i];
            names += std::string(i ? ", " : "") + found[i]->name;
        }
        fail("LOCUS_ISA=%.20s: this processor offers %s", wanted, names.c_str());
    }
    return *found[n - 1];
}

// ---- file: one mapping, nothing copied ----------------------------------------------------------------------------

class File {
public:
    explicit File(const std::string& path) {
        const char* p = path.c_str();
        const int fd = open(p, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe's would wait for who writes
        if (fd < 0) fail("%.300s: %s", p, strerror(errno));
        struct stat info;
        if (fstat(fd, &info) || !S_ISREG(info.st_mode)) {
            close(fd);
            fail("%.300s: not a regular file, expected a checkpoint", p);
        }
        size_ = size_t(info.st_size);
        void* at = size_ ? mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0) : nullptr;
        int error = errno;
        close(fd);
        if (at == MAP_FAILED) fail("%.300s: cannot be mapped: %s", p, strerror(error));
        data_ = static_cast<const uint8_t*>(at);
    }
    ~File() {
        if (data_) munmap(const_cast<uint8_t*>(data_), size_);
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    const uint8_t* data() const { return data_; }
    size_t size() const { return size_; }

private:
    const uint8_t* data_ = nullptr;
    size_t size_ = 0;
};

// Whether a field of n bytes holds printable text and its NUL.
bool readable(const char* text, size_t n) {
    const void* end = memchr(text, 0, n);
    return end && std::all_of(text, static_cast<const char*>(end), [](char c) { return uint8_t(c) >= 32 && c != 127; });
}

// ---- header: nothing in it is believed before it is checked -----------------------------------------------------------

void check_header(const Header& h, const char* path) {
    auto in = [&](const char* field, uint32_t value, uint32_t least, uint32_t most) {
        if (value < least || value > most) fail("%.300s: header field %s is %u, expected %u to %u", path, field, value, least, most);
    };
    auto real = [&](const char* field, float value, float least, float most) {
        if (!(value >= least && value <= most)) fail("%.300s: header field %s is %g, expected %g to %g", path, field, double(value), double(least), double(most));
    };
    const uint32_t WIDE = 1 << 20, BIG = 1 << 24;
    in("vocab_size", h.vocab_size, 1, BIG);
    in("dim", h.dim, 1, WIDE);
    in("embed_dim", h.embed_dim, 1, WIDE);
    in("n_layers", h.n_layers, 1, 1024);
    in("n_encoder_layers", h.n_encoder_layers, 0, 1024);
    in("n_heads", h.n_heads, 1, 4096);
    in("n_kv_heads", h.n_kv_heads, 1, h.n_heads);
    if (h.n_heads % h.n_kv_heads) fail("%.300s: header field n_heads is %u, expected a multiple of n_kv_heads = %u", path, h.n_heads, h.n_kv_heads);
    in("head_dim", h.head_dim, 1, 8192);
    in("v_head_dim", h.v_head_dim, 1, 8192);
    in("hidden_dim", h.hidden_dim, 1, WIDE);
    in("context", h.context, 1, 1 << 28);
    const bool crossed = h.n_encoder_layers; // attention to a source text too: after causal attention, with one norm, from the residual stream, not latent
    in("causal", h.causal, crossed, 1);
    in("norm", h.norm, 0, NORM_RMS);
    real("norm_eps", h.norm_eps, 0, 1);
    in("norm_place", h.norm_place, 0, crossed ? NORM_POST : NORM_OUTPUT);
    in("parallel", h.parallel, 0, crossed ? PARALLEL_NO : PARALLEL_ONE_NORM);
    if (h.parallel && h.norm_place != NORM_PRE) fail("%.300s: header field parallel is %u, expected 0 unless norm_place is %u", path, h.parallel, NORM_PRE);
    in("activation", h.activation, 0, ACT_GELU_SIGMOID);
    in("qk_norm", h.qk_norm, 0, QK_FULL);
    in("positions", h.positions, 0, POSITIONS_RELATIVE);
    in("position_offset", h.position_offset, 0, BIG);
    in("n_positions", h.n_positions, h.positions == POSITIONS_LEARNED ? h.position_offset + 1 : 0, BIG);
    in("sinusoid", h.sinusoid, 0, SINUSOID_FAIRSEQ);
    in("relative_buckets", h.relative_buckets, h.positions == POSITIONS_RELATIVE ? 4 : 0, 65536);
    in("relative_max", h.relative_max, h.positions == POSITIONS_RELATIVE ? h.relative_buckets / 2 + 1 : 0, BIG);
    in("head", h.head, 0, HEAD_OWN);
    in("head_activation", h.head_activation, 0, ACT_GELU_SIGMOID);
    in("pooling", h.pooling, 0, POOL_LAST);
    in("router", h.router, 0, ROUTER_SIGMOID);
    in("group_score", h.group_score, 0, GROUP_TOP2);
    in("max_tokens", h.max_tokens, 0, 1 << 28);
    in("decoder_start", h.decoder_start, 0, h.vocab_size - 1);
    const struct { const char* field; uint32_t value; } switches[] = {
        {"gated", h.gated}, {"qk_norm_layer", h.qk_norm_layer}, {"norm_bias", h.norm_bias}, {"qkv_bias", h.qkv_bias}, {"out_bias", h.out_bias},
        {"ffn_bias", h.ffn_bias}, {"head_bias", h.head_bias}, {"head_dense_bias", h.head_dense_bias}, {"embed_norm", h.embed_norm},
        {"embed_type", h.embed_type}, {"final_norm", h.final_norm}, {"head_dense", h.head_dense},
        {"shared_gate", h.shared_gate}, {"router_bias", h.router_bias}, {"router_norm", h.router_norm}, {"normalize", h.normalize},
        {"zero_start", h.zero_start}};
    for (auto& s : switches) in(s.field, s.value, 0, 1);
    const struct { const char* field; float value; } scales[] = {
        {"embed_scale", h.embed_scale}, {"residual_scale", h.residual_scale}, {"logit_scale", h.logit_scale}, {"router_scale", h.router_scale}, {"alibi_bf16", h.alibi_bf16}};
    for (auto& s : scales) real(s.field, s.value, -1e6f, 1e6f);
    real("attn_softcap", h.attn_softcap, 0, 1e6f);
    real("logit_softcap", h.logit_softcap, 0, 1e6f);
    if (h.n_experts) {
        in("n_experts", h.n_experts, 1, 4096);
        in("expert_dim", h.expert_dim, 1, WIDE);
        in("shared_dim", h.shared_dim, 0, WIDE);
        in("n_groups", h.n_groups, 1, h.n_experts);
        in("n_groups_used", h.n_groups_used, 1, h.n_groups);
        if (h.n_experts % h.n_groups) fail("%.300s: header field n_experts is %u, expected a multiple of n_groups = %u", path, h.n_experts, h.n_groups);
        in("n_experts_used", h.n_experts_used, 1, h.n_experts / h.n_groups * h.n_groups_used);
    }
    in("kv_lora_rank", h.kv_lora_rank, 0, crossed ? 0 : WIDE);
    real("latent_norm_eps", h.latent_norm_eps, 0, 1);
    in("q_lora_rank", h.q_lora_rank, 0, h.kv_lora_rank ? WIDE : 0);
    for (const Rope& r : h.rope) {
        if (h.positions != POSITIONS_ROTARY) break;
        in("rope.dim", r.dim, 0, h.head_dim);
        if (!r.dim && &r != h.rope) continue;
        if (r.dim % 2 || (h.kv_lora_rank && r.dim >= h.head_dim)) fail("%.300s: header field rope.dim is %u, expected even and within head_dim = %u", path, r.dim, h.head_dim);
        real("rope.theta", r.theta, 1, 1e12f);
        in("rope.interleaved", r.interleaved, 0, 1);
        in("rope.scaling", r.scaling, 0, ROPE_LONGROPE);
        in("rope.has_factors", r.has_factors, 0, 1);
        in("rope.truncate", r.truncate, 0, 1);
        real("rope.attention_factor", r.attention_factor, -1e6f, 1e6f);
        if (r.scaling != ROPE_PLAIN && r.scaling != ROPE_LONGROPE) real("rope.factor", r.factor, 1e-6f, 1e6f);
        if (r.scaling > ROPE_LINEAR) in("rope.original_context", r.original_context, 1, 1 << 28);
        if (r.scaling == ROPE_LLAMA3) real("rope.low_freq_factor", r.low_freq_factor, 1e-6f, 1e6f), real("rope.high_freq_factor", r.high_freq_factor, r.low_freq_factor, 1e6f);
        if (r.scaling == ROPE_YARN) real("rope.beta_fast", r.beta_fast, 1e-6f, 1e6f), real("rope.beta_slow", r.beta_slow, 1e-6f, 1e6f);
        if (r.scaling == ROPE_LONGROPE) in("rope.has_factors", r.has_factors, 1, 1);
    }
}

// ---- weights: the directory's tensors, each in its place ----------------------------------------------------------------

struct Attention {
    Matrix qkv, out, q_a, q_b, kv_a, k_b, v_b; // the last five: latent attention; k_b and v_b are the first head's
    const float *qkv_bias = nullptr, *out_bias = nullptr;
    NormWeights q_norm, k_norm, q_a_norm, kv_a_norm;
};
struct FeedForward {
    Matrix up, down;
    const float *up_bias = nullptr, *down_bias = nullptr;
};
struct Layer {
    LayerHeader h;
    NormWeights attn_norm, attn_post_norm, cross_norm, ffn_norm, ffn_post_norm;
    Attention attn;
    Matrix ssru;
    const float* ssru_bias = nullptr;
    Attention cross; // qkv: rows of q; kv_a: rows of k, then v
    const float* cross_kv_bias = nullptr;
    FeedForward ffn, experts, shared; // experts: the first one
    Matrix router, shared_gate;
    const float* router_bias = nullptr;
};
struct Stack { // the only one, or an encoder and a decoder
    std::vector<Layer> layers;
    NormWeights final_norm;
    const float* relative_bias = nullptr;
    bool causal = true;
};

} // namespace

struct Model::Weights {
    explicit Weights(const std::string& path) : file(path) {}
    File file;
    Header h;
    std::vector<TensorEntry> directory;
    std::vector<LayerHeader> layer_headers;
    const Kernels* kernels = nullptr;

    Matrix embed, project_in, project_out, head, head_dense;
    const float *positions = nullptr, *embed_type = nullptr, *head_bias = nullptr, *head_dense_bias = nullptr, *alibi_slopes = nullptr;
    const float* rope_factors[2][2] = {}; // of Header.rope: short, long
    NormWeights embed_norm, head_norm;
    Stack encoder, decoder;
    bool quantized_layers = false, quantized_scores = false; // some matrix of the layers, or of embedding and scores, wants int8 activations
    bool exact = false;            // some matrix is f32, so keys and values are too
    uint64_t all_bytes = 0;        // of all matrices: how much work a token is
    size_t attn_width = 0, qkv_width = 0, ff_width = 0; // the widest rows that a layer's matrices make: attention's result, its projections, feed-forward's inside
};

uint64_t matrix_bytes(Type type, uint64_t rows, uint64_t cols) {
    const uint64_t panels = (rows + PANEL - 1) / PANEL, blocks = (cols + BLOCK - 1) / BLOCK;
    switch (type) {
    case TYPE_F32: return panels * cols * PANEL * 4;
    case TYPE_F16:
    case TYPE_BF16: return panels * cols * PANEL * 2;
    case TYPE_Q8: return panels * blocks * Q8_BYTES;
    case TYPE_Q4: return panels * blocks * Q4_BYTES;
    }
    return 0;
}

const char* type_name(uint32_t type) {
    const char* names[] = {"f32", "f16", "bf16", "q8", "q4"};
    return type < 5 ? names[type] : "?";
}

namespace {

// Hands out tensors by name and shape, and knows which were never asked for.
class Directory {
public:
    Directory(const Model::Weights& w, const char* path) : base_(w.file.data()), path_(path) {
        for (const TensorEntry& t : w.directory) {
            if (!readable(t.name, sizeof t.name) || !t.name[0]) fail("%.300s: the name of tensor %zu of the directory is not text", path, size_t(&t - w.directory.data()));
            if (t.type > TYPE_Q4 || t.layout > LAYOUT_PANELS || !t.count || !t.rows || !t.cols || t.count > 1 << 16 || t.rows > 1 << 26 || t.cols > 1 << 24)
                fail("%.300s: tensor %s has type %u, layout %u, shape %u x [%u, %u]", path, t.name, t.type, t.layout, t.count, t.rows, t.cols);
            if (t.layout == LAYOUT_PLAIN && t.type != TYPE_F32) fail("%.300s: tensor %s is plain and %s, expected f32", path, t.name, type_name(t.type));
            uint64_t bytes = t.layout == LAYOUT_PLAIN ? uint64_t(t.rows) * t.cols * 4 : matrix_bytes(Type(t.type), t.rows, t.cols);
            if (bytes > w.h.file_bytes / t.count || t.bytes != bytes * t.count) fail("%.300s: tensor %s has %llu bytes, expected %u x %llu", path, t.name, ull(t.bytes), t.count, ull(bytes));
            if (t.offset % 64 || t.offset > w.h.file_bytes || t.bytes > w.h.file_bytes - t.offset)
                fail("%.300s: tensor %s lies at %llu + %llu, outside of the file's %llu bytes or not at a multiple of 64", path, t.name, ull(t.offset), ull(t.bytes), ull(w.h.file_bytes));
            if (!entries_.emplace(t.name, &t).second) fail("%.300s: tensor %s stands twice in the directory", path, t.name);
        }
        struct Range { uint64_t offset, bytes; const char* name; };
        std::vector<Range> order = {{0, sizeof(Header), "the header"}, {w.h.layers_offset, w.layer_headers.size() * sizeof(LayerHeader), "the layers' headers"},
                                    {w.h.tensors_offset, w.directory.size() * sizeof(TensorEntry), "the directory"}, {w.h.tokenizer_offset, w.h.tokenizer_bytes, "the tokenizer"}};
        for (auto& e : entries_) order.push_back({e.second->offset, e.second->bytes, e.second->name});
        order.erase(std::remove_if(order.begin(), order.end(), [](auto& r) { return !r.bytes; }), order.end());
        std::stable_sort(order.begin(), order.end(), [](auto& a, auto& b) { return a.offset < b.offset; });
        for (size_t i = 1; i < order.size(); i++)
            if (order[i].offset - order[i - 1].offset < order[i - 1].bytes) fail("%.300s: %s and %s overlap", path, order[i - 1].name, order[i].name);
    }
    Matrix matrix(const std::string& name, uint32_t rows, uint32_t cols, uint32_t count = 1) {
        const TensorEntry& t = take(name, LAYOUT_PANELS, count, rows, cols);
        Matrix m;
        m.type = Type(t.type), m.rows = rows, m.cols = cols, m.data = base_ + t.offset;
        m.panel_bytes = matrix_bytes(m.type, PANEL, cols);
        return m;
    }
    const float* plain(const std::string& name, uint32_t cols, uint32_t rows = 1) {
        return reinterpret_cast<const float*>(base_ + take(name, LAYOUT_PLAIN, 1, rows, cols).offset);
    }
    const float* plain_if(bool there, const std::string& name, uint32_t cols) { return there ? plain(name, cols) : nullptr; }
    NormWeights norm(const std::string& name, uint32_t n, bool bias) { return {plain(name + ".weight", n), plain_if(bias, name + ".bias", n)}; }
    void done() const {
        if (!entries_.empty()) fail("%.300s: tensor %s is not one that the header calls for", path_, entries_.begin()->first.c_str());
    }

private:
    const TensorEntry& take(const std::string& name, Layout layout, uint32_t count, uint32_t rows, uint32_t cols) {
        auto found = entries_.find(name);
        if (found == entries_.end()) fail("%.300s: tensor %s is missing", path_, name.c_str());
        const TensorEntry& t = *found->second;
        if (t.layout != layout || t.count != count || t.rows != rows || t.cols != cols)
            fail("%.300s: tensor %s has layout %u and shape %u x [%u, %u], expected %u and %u x [%u, %u]", path_, name.c_str(), t.layout, t.count, t.rows, t.cols, layout, count, rows, cols);
        entries_.erase(found);
        return t;
    }
    const uint8_t* base_;
    const char* path_;
    std::unordered_map<std::string, const TensorEntry*> entries_;
};

FeedForward load_ffn(Directory& d, const Header& h, const std::string& name, uint32_t hidden, uint32_t count, bool bias) {
    FeedForward f;
    f.up = d.matrix(name + ".up.weight", hidden * (1 + h.gated), h.dim, count);
    f.up_bias = d.plain_if(bias, name + ".up.bias", hidden * (1 + h.gated));
    f.down = d.matrix(name + ".down.weight", h.dim, hidden, count);
    f.down_bias = d.plain_if(bias, name + ".down.bias", h.dim);
    return f;
}

Layer load_layer(Directory& d, const Header& h, const LayerHeader& lh, const std::string& name, bool cross) {
    Layer l;
    l.h = lh;
    const bool norms = h.norm_place != NORM_OUTPUT, post_norms = h.norm_place >= NORM_SANDWICH;
    const uint32_t q_rows = h.n_heads * h.head_dim, k_rows = h.n_kv_heads * h.head_dim, v_rows = h.n_kv_heads * h.v_head_dim;
    Attention& a = l.attn;
    if (norms && !lh.skip_attn_norm) l.attn_norm = d.norm(name + "attn_norm", h.dim, h.norm_bias);
    if (post_norms) l.attn_post_norm = d.norm(name + "attn_post_norm", h.dim, h.norm_bias);
    if (lh.kind == LAYER_SSRU) {
        l.ssru = d.matrix(name + "ssru.weight", 2 * h.dim, h.dim);
        l.ssru_bias = d.plain(name + "ssru.bias", 2 * h.dim);
    } else if (h.kv_lora_rank) {
        const uint32_t rope_dim = h.rope[0].dim;
        if (h.q_lora_rank) {
            a.q_a = d.matrix(name + "attn.q_a.weight", h.q_lora_rank, h.dim);
            a.q_a_norm = d.norm(name + "attn.q_a_norm", h.q_lora_rank, false);
            a.q_b = d.matrix(name + "attn.q_b.weight", q_rows, h.q_lora_rank);
        } else
            a.q_b = d.matrix(name + "attn.q.weight", q_rows, h.dim);
        a.kv_a = d.matrix(name + "attn.kv_a.weight", h.kv_lora_rank + rope_dim, h.dim);
        a.kv_a_norm = d.norm(name + "attn.kv_a_norm", h.kv_lora_rank, false);
        a.k_b = d.matrix(name + "attn.k_b.weight", h.kv_lora_rank, h.head_dim - rope_dim, h.n_heads);
        a.v_b = d.matrix(name + "attn.v_b.weight", h.v_head_dim, h.kv_lora_rank, h.n_heads);
    } else {
        a.qkv = d.matrix(name + "attn.qkv.weight", q_rows + k_rows + v_rows, h.dim);
        a.qkv_bias = d.plain_if(h.qkv_bias, name + "attn.qkv.bias", q_rows + k_rows + v_rows);
        if (h.qk_norm) {
            a.q_norm = d.norm(name + "attn.q_norm", q_rows, h.norm_bias);
            a.k_norm = d.norm(name + "attn.k_norm", k_rows, h.norm_bias);
        }
    }
    if (lh.kind == LAYER_ATTENTION) {
        a.out = d.matrix(name + "attn.out.weight", h.dim, h.n_heads * h.v_head_dim);
        a.out_bias = d.plain_if(h.out_bias, name + "attn.out.bias", h.dim);
    }
    if (cross) {
        l.cross_norm = d.norm(name + "cross_norm", h.dim, h.norm_bias);
        l.cross.qkv = d.matrix(name + "cross.q.weight", q_rows, h.dim);
        l.cross.qkv_bias = d.plain_if(h.qkv_bias, name + "cross.q.bias", q_rows);
        l.cross.kv_a = d.matrix(name + "cross.kv.weight", k_rows + v_rows, h.dim);
        l.cross_kv_bias = d.plain_if(h.qkv_bias, name + "cross.kv.bias", k_rows + v_rows);
        l.cross.out = d.matrix(name + "cross.out.weight", h.dim, h.n_heads * h.v_head_dim);
        l.cross.out_bias = d.plain_if(h.out_bias, name + "cross.out.bias", h.dim);
    }
    if (norms && h.parallel != PARALLEL_ONE_NORM) l.ffn_norm = d.norm(name + "ffn_norm", h.dim, h.norm_bias);
    if (post_norms) l.ffn_post_norm = d.norm(name + "ffn_post_norm", h.dim, h.norm_bias);
    if (!lh.experts) {
        l.ffn = load_ffn(d, h, name + "ffn", h.hidden_dim, 1, h.ffn_bias);
        return l;
    }
    l.router = d.matrix(name + "router.weight", h.n_experts, h.dim);
    l.router_bias = d.plain_if(h.router_bias, name + "router.bias", h.n_experts);
    l.experts = load_ffn(d, h, name + "experts", h.expert_dim, h.n_experts, false);
    if (h.shared_dim) {
        l.shared = load_ffn(d, h, name + "shared", h.shared_dim, 1, false);
        if (h.shared_gate) l.shared_gate = d.matrix(name + "shared.gate.weight", 1, h.dim);
    }
    return l;
}

void load_tensors(Model::Weights& w, const char* path) {
    const Header& h = w.h;
    Directory d(w, path);
    const bool projected = h.embed_dim != h.dim;
    w.embed = d.matrix("embed.tokens", h.vocab_size, h.embed_dim);
    if (projected) w.project_in = d.matrix("embed.project_in", h.dim, h.embed_dim);
    if (h.positions == POSITIONS_LEARNED) w.positions = d.plain("embed.positions", h.dim, h.n_positions);
    w.embed_type = d.plain_if(h.embed_type, "embed.type", h.dim);
    if (h.embed_norm) w.embed_norm = d.norm("embed.norm", h.dim, h.norm_bias);
    w.alibi_slopes = d.plain_if(h.positions == POSITIONS_ALIBI, "alibi.slopes", h.n_heads);
    for (int i = 0; i < 2; i++)
        if (h.positions == POSITIONS_ROTARY && h.rope[i].dim && h.rope[i].has_factors) {
            std::string name = "rope." + std::to_string(i);
            w.rope_factors[i][0] = d.plain(name + ".short_factors", h.rope[i].dim / 2);
            w.rope_factors[i][1] = h.rope[i].scaling == ROPE_LONGROPE ? d.plain(name + ".long_factors", h.rope[i].dim / 2) : w.rope_factors[i][0];
        }
    auto stack = [&](Stack& s, uint32_t begin, uint32_t n, const std::string& prefix, bool causal, bool cross) {
        s.causal = causal;
        for (uint32_t i = 0; i < n; i++) {
            const LayerHeader& lh = w.layer_headers[begin + i];
            const bool rotary = h.positions == POSITIONS_ROTARY;
            const uint32_t ropes = !rotary ? 0 : h.rope[1].dim ? 2 : 1;
            const bool attends = lh.kind == LAYER_ATTENTION, recurs = lh.kind == LAYER_SSRU && causal && !lh.window;
            if ((!attends && !recurs) || lh.experts > (h.n_experts ? 1u : 0u) || lh.skip_attn_norm > (h.norm_place == NORM_POST ? 0u : 1u) || lh.window > 1 << 28 ||
                (lh.rope != NO_ROPE && lh.rope >= ropes) || (h.kv_lora_rank && lh.rope != 0) || !(std::abs(lh.attn_scale) <= 1e6f))
                fail("%.300s: layer %u's header (kind %u, rope %u, window %u, experts %u, skip_attn_norm %u, attn_scale %g) does not fit the model's", path, begin + i,
                     lh.kind, lh.rope, lh.window, lh.experts, lh.skip_attn_norm, double(lh.attn_scale));
            s.layers.push_back(load_layer(d, h, lh, prefix + std::to_string(i) + ".", cross));
            const Layer& l = s.layers.back();
            w.attn_width = std::max<size_t>({w.attn_width, l.attn.out.cols, l.cross.out.cols});
            w.qkv_width = std::max<size_t>({w.qkv_width, l.attn.qkv.rows, size_t(l.attn.q_b.rows) + l.attn.kv_a.rows, l.ssru.rows, l.cross.qkv.rows, l.cross.kv_a.rows});
            w.ff_width = std::max<size_t>({w.ff_width, l.ffn.up.rows, l.experts.up.rows, l.shared.up.rows});
        }
        if (h.final_norm) s.final_norm = d.norm(prefix == "layers." ? "final_norm" : "encoder.final_norm", h.dim, h.norm_bias);
        if (h.positions == POSITIONS_RELATIVE) s.relative_bias = d.plain(prefix == "layers." ? "relative_bias" : "encoder.relative_bias", h.n_heads, h.relative_buckets);
    };
    if (h.n_encoder_layers) stack(w.encoder, 0, h.n_encoder_layers, "encoder.", false, false);
    stack(w.decoder, h.n_encoder_layers, h.n_layers, "layers.", h.causal, h.n_encoder_layers > 0);
    if (h.head_dense) {
        w.head_dense = d.matrix("head.dense.weight", h.dim, h.dim);
        w.head_dense_bias = d.plain_if(h.head_dense_bias, "head.dense.bias", h.dim);
        w.head_norm = d.norm("head.norm", h.dim, h.norm_bias);
    }
    if (projected && h.head) w.project_out = d.matrix("head.project_out", h.embed_dim, h.dim);
    if (h.head) w.head = h.head == HEAD_TIED ? w.embed : d.matrix("head.weight", h.vocab_size, h.embed_dim);
    w.head_bias = d.plain_if(h.head && h.head_bias, "head.bias", h.vocab_size);
    d.done();
    for (const TensorEntry& t : w.directory) {
        if (t.layout != LAYOUT_PANELS) continue;
        const bool layers = !strncmp(t.name, "layers.", 7) || !strncmp(t.name, "encoder.", 8);
        (layers ? w.quantized_layers : w.quantized_scores) |= t.type == TYPE_Q8 || t.type == TYPE_Q4;
        w.exact |= t.type == TYPE_F32;
        w.all_bytes += t.bytes;
    }
}

} // namespace

Model::Model(const std::string& path) : weights_(std::make_unique<Weights>(path)) {
    Weights& w = *weights_;
    const char* p = path.c_str();
    const size_t size = w.file.size();
    const uint8_t* data = w.file.data();
    if (size >= 4 && !memcmp(data, "GGUF", 4)) fail("%.300s: a GGUF file, convert it first: python3 tools/convert.py %.300s model.bin", p, p);
    if (size < sizeof MAGIC || memcmp(data, MAGIC, sizeof MAGIC)) fail("%.300s: not a Locus checkpoint%s", p, size ? "" : " (the file is empty)");
    if (size < sizeof(Header)) fail("%.300s: truncated: %llu bytes, the header alone has %llu", p, ull(size), ull(sizeof(Header)));
    memcpy(&w.h, data, sizeof(Header));
    const Header& h = w.h;
    if (h.version != VERSION) fail("%.300s: checkpoint version %u, this program reads version %u", p, h.version, VERSION);
    if (h.header_bytes != sizeof(Header)) fail("%.300s: header field header_bytes is %u, expected %llu", p, h.header_bytes, ull(sizeof(Header)));
    if (size < h.file_bytes) fail("%.300s: truncated: %llu bytes of %llu", p, ull(size), ull(h.file_bytes));
    if (size > h.file_bytes) fail("%.300s: %llu bytes, the header says %llu", p, ull(size), ull(h.file_bytes));
    auto section = [&](const char* name, uint64_t offset, uint64_t count, uint64_t bytes) {
        if (offset % 8 || offset > size || count > (size - offset) / bytes)
            fail("%.300s: %s: %llu at %llu do not fit into the file's %llu bytes", p, name, ull(count), ull(offset), ull(size));
    };
    section("tokenizer_bytes", h.tokenizer_offset, h.tokenizer_bytes, 1);
    if (!readable(h.name, sizeof h.name)) fail("%.300s: header field name is not text", p);
    section("n_tensors", h.tensors_offset, h.n_tensors, sizeof(TensorEntry));
    if (!h.n_tensors) {
        if (!h.tokenizer_bytes) fail("%.300s: header field n_tensors is 0, and there is no tokenizer either", p);
        return;
    }
    check_header(h, p);
    w.kernels = &pick_kernels();
    section("n_layers", h.layers_offset, uint64_t(h.n_encoder_layers) + h.n_layers, sizeof(LayerHeader));
    w.layer_headers.resize(h.n_encoder_layers + h.n_layers);
    memcpy(w.layer_headers.data(), data + h.layers_offset, w.layer_headers.size() * sizeof(LayerHeader));
    w.directory.resize(h.n_tensors);
    memcpy(w.directory.data(), data + h.tensors_offset, w.directory.size() * sizeof(TensorEntry));
    load_tensors(w, p);
}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

const Header& Model::header() const { return weights_->h; }
const LayerHeader& Model::layer(uint32_t i) const {
    if (i >= weights_->layer_headers.size()) fail("there is no layer %u among %zu", i, weights_->layer_headers.size());
    return weights_->layer_headers[i];
}
const std::vector<TensorEntry>& Model::tensors() const { return weights_->directory; }
const uint8_t* Model::tokenizer_data() const { return weights_->file.data() + weights_->h.tokenizer_offset; }
size_t Model::tokenizer_bytes() const { return weights_->h.tokenizer_bytes; }
uint64_t Model::file_bytes() const { return weights_->h.file_bytes; }
const char* isa_name() { return pick_kernels().name; }

namespace {

// Row r of a matrix as floats.
void copy_row(const Matrix& m, size_t r, float* out) {
    const uint8_t* panel = m.data + r / PANEL * m.panel_bytes;
    const size_t lane = r % PANEL;
    auto half = [](const uint8_t* p) { uint16_t h; memcpy(&h, p, 2); return h; };
    for (size_t c = 0; c < m.cols; c++) {
        const size_t at = c * PANEL + lane, i = c % BLOCK;
        if (m.type == TYPE_F32) memcpy(out + c, panel + at * 4, 4);
        else if (m.type == TYPE_F16) out[c] = half_to_float(half(panel + at * 2));
        else if (m.type == TYPE_BF16) out[c] = bf16_to_float(half(panel + at * 2));
        else if (m.type == TYPE_Q8) {
            const uint8_t* block = panel + c / BLOCK * Q8_BYTES;
            out[c] = half_to_float(half(block + 2 * lane)) * float(int8_t(block[Q8_HEAD + i / 4 * 64 + 4 * lane + i % 4]));
        } else {
            const uint8_t* block = panel + c / BLOCK * Q4_BYTES;
            const uint8_t pair = block[Q4_HEAD + i % 16 / 4 * 64 + 4 * lane + i % 4];
            out[c] = half_to_float(half(block + 2 * lane)) * float(i < 16 ? pair & 15 : pair >> 4) + half_to_float(half(block + PANEL * 2 + 2 * lane));
        }
    }
}

// ---- threads: one team a session, one parallel region a forward pass ------------------------------------------------------

struct Processors {
    uint32_t usable;   // logical processors within affinity and cgroup limits
    uint32_t physical; // cores of these
};

// CPU time that the control group allows, in processors; a large number without a limit.
double cgroup_processors() {
    auto read = [](const char* path, double* a, double* b) {
        FILE* f = fopen(path, "r");
        int n = f ? (b ? fscanf(f, "%lf %lf", a, b) : fscanf(f, "%lf", a)) : 0;
        if (f) fclose(f);
        return n == (b ? 2 : 1) && *a > 0;
    };
    double quota, period;
    if (read("/sys/fs/cgroup/cpu.max", &quota, &period) && period > 0) return quota / period;
    if (read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", &quota, nullptr) && read("/sys/fs/cgroup/cpu/cpu.cfs_period_us", &period, nullptr)) return quota / period;
    return 1e9;
}

Processors processors() {
    uint32_t usable = std::max(1u, std::thread::hardware_concurrency()), physical = 0;
#if defined(__linux__)
    cpu_set_t set;
    if (!sched_getaffinity(0, sizeof set, &set)) {
        usable = uint32_t(std::max(1, CPU_COUNT(&set)));
        std::vector<std::pair<int, int>> cores;
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
            if (!CPU_ISSET(cpu, &set)) continue;
            int ids[2] = {-1, cpu};
            const char* names[2] = {"physical_package_id", "core_id"};
            for (int i = 0; i < 2; i++) {
                char path[96];
                snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, names[i]);
                FILE* f = fopen(path, "r");
                if (f && fscanf(f, "%d", &ids[i]) != 1) ids[i] = cpu;
                if (f) fclose(f);
            }
            cores.emplace_back(ids[0], ids[1]);
        }
        std::sort(cores.begin(), cores.end());
        physical = uint32_t(std::unique(cores.begin(), cores.end()) - cores.begin());
    }
#endif
    if (!physical) physical = usable;
    const double limit = std::max(1.0, std::ceil(cgroup_processors() - 1e-9));
    auto within = [&](uint32_t n) { return double(n) < limit ? n : uint32_t(limit); };
    return {within(usable), within(physical)};
}

// A job is a row of steps, each so many independent items. Threads take items as they come to them and wait for a step's last item, not
// for each other: one that lost its core to a neighbour holds up no more than the item that it is at. All threads must pass the same steps.
class Team {
public:
    struct Worker { // one thread's way through a job
        Team& team;
        uint32_t id;
        size_t step;
        uint32_t threads() const { return team.active_; }
        // Runs f(0) .. f(n - 1), each once on some thread; returns when all are done. n must be the same on every thread.
        template <class F> void share(size_t n, F f) {
            if (team.active_ == 1) {
                for (size_t i = 0; i < n; i++) f(i);
                return;
            }
            Step& s = team.steps_.at(step++);
            for (size_t i; (i = s.next.fetch_add(1)) < n;) {
                f(i);
                if (s.done.fetch_add(1) + 1 == n) team.wake();
            }
            team.wait([&] { return s.done.load() >= n; });
        }
    };
    explicit Team(uint32_t n) {
        try {
            for (uint32_t i = 1; i < n; i++) threads_.emplace_back(&Team::work, this, i);
        } catch (const std::system_error&) {} // fewer threads than asked for do the same work
    }
    ~Team() {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            stop_ = true;
        }
        wake_.notify_all();
        for (auto& t : threads_) t.join();
    }
    uint32_t size() const { return uint32_t(threads_.size()) + 1; }
    // Runs job on the caller's thread, and if it is worth it on the others, in at most so many steps. It must not throw.
    void run(bool together, size_t steps, const std::function<void(Worker&)>& job) {
        active_ = together ? size() : 1;
        Worker me = {*this, 0, 0};
        if (active_ == 1) return job(me);
        if (steps_.size() < steps) steps_ = std::vector<Step>(steps);
        for (size_t i = 0; i < used_; i++) steps_[i].next = steps_[i].done = 0;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            job_ = &job;
            turn_++;
        }
        wake();
        job(me);
        used_ = me.step;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            job_ = nullptr; // who comes now comes too late
        }
        wait([&] { return inside_.load() == 0; });
    }

private:
    struct alignas(64) Step {
        std::atomic<size_t> next{0}, done{0};
    };
    void work(uint32_t id) {
        for (uint32_t seen = 0;;) {
            wait([&] { return turn_.load() != seen || stop_.load(); });
            const std::function<void(Worker&)>* job;
            {
                std::lock_guard<std::mutex> lock(mutex_);
                if (stop_) return;
                seen = turn_, job = job_;
                inside_ += job != nullptr;
            }
            if (!job) continue;
            Worker me = {*this, id, 0};
            (*job)(me);
            if (inside_.fetch_sub(1) == 1) wake();
        }
    }
    // Waits briefly, then sleeps: a neighbour who needs the core gets it.
    template <class F> void wait(F ready) {
        for (int spin = 0; spin < 2000; spin++) {
            if (ready()) return;
#if defined(__x86_64__)
            _mm_pause();
#endif
        }
        std::unique_lock<std::mutex> lock(mutex_);
        sleepers_++;
        wake_.wait(lock, ready);
        sleepers_--;
    }
    void wake() {
        if (!sleepers_.load()) return;
        { std::lock_guard<std::mutex> lock(mutex_); }
        wake_.notify_all();
    }
    uint32_t active_ = 1;
    size_t used_ = 0;
    std::vector<std::thread> threads_;
    std::vector<Step> steps_;
    const std::function<void(Worker&)>* job_ = nullptr;
    std::atomic<uint32_t> turn_{0}, inside_{0}, sleepers_{0};
    std::atomic<bool> stop_{false};
    std::mutex mutex_;
    std::condition_variable wake_;
};

// ---- memory ---------------------------------------------------------------------------------------------------------------

// Zeroed, aligned to 64 bytes; pages that are never written cost nothing.
template <class T> class Buffer {
    struct Free { void operator()(char* p) const { free(p); } };

public:
    void resize(size_t n) { // contents are lost when it grows
        if (n <= size_) return;
        if (n > (SIZE_MAX - 64) / sizeof(T)) throw std::bad_alloc();
        std::unique_ptr<char, Free> larger(static_cast<char*>(calloc(n * sizeof(T) + 64, 1)));
        if (!larger) throw std::bad_alloc(); // and this stays as it was
        memory_ = std::move(larger), size_ = n;
        data_ = reinterpret_cast<T*>(memory_.get() + (64 - reinterpret_cast<uintptr_t>(memory_.get()) % 64) % 64);
    }
    T* data() const { return data_; }
    size_t size() const { return size_; }

private:
    std::unique_ptr<char, Free> memory_;
    T* data_ = nullptr;
    size_t size_ = 0;
};

// Rows of activations, and their int8 twins where a quantised matrix reads them.
struct Activations {
    Buffer<float> f;
    Buffer<int8_t> q;
    Buffer<BlockScale> scale;
    size_t width = 0, rows = 0;
    bool quantized = false; // some reader wants int8
    void resize(size_t new_rows, size_t new_width) {
        width = new_width, rows = new_rows;
        const size_t blocks = (width + BLOCK - 1) / BLOCK;
        f.resize(rows * width), q.resize(rows * blocks * BLOCK), scale.resize(rows * blocks);
    }
    // From row first on.
    Rows from(size_t first) const { return {f.data() + first * width, width, q.data() + first * BLOCK, scale.data() + first, rows}; }
    float* row(size_t i) { return f.data() + i * width; }
};

// What attention's queries meet: of each key/value head a key and a value for each position. Latent attention (DeepSeek-V2, 2.1) has one
// key for all heads, a compressed vector and a rotary part, and the compressed vector is the value.
struct KeyValueShape {
    bool latent;
    size_t heads, key_dim, value_dim, padded; // padded: value_dim in whole panels
    explicit KeyValueShape(const Header& h)
        : latent(h.kv_lora_rank), heads(latent ? 1 : h.n_kv_heads), key_dim(latent ? h.kv_lora_rank + h.rope[0].dim : h.head_dim),
          value_dim(latent ? h.kv_lora_rank : h.v_head_dim), padded(round_up(value_dim, PANEL)) {}
};

struct LayerCache {
    Buffer<uint8_t> keys, values; // in the panels that AttentionTile describes, a key/value head after the other
    Buffer<float> cells;          // SSRU [context, dim]
    Type type = TYPE_F32;         // of keys and values
    size_t capacity = 0;          // positions, a multiple of TILE
    size_t element() const { return type == TYPE_F16 ? 2 : 4; }
    void resize(size_t positions, const KeyValueShape& kv) {
        const size_t n = std::max(capacity, round_up(positions, TILE));
        keys.resize(n * kv.heads * kv.key_dim * element());
        if (!kv.latent) values.resize(n * kv.heads * kv.padded * element());
        capacity = n;
    }
};

// ---- positions ------------------------------------------------------------------------------------------------------------

// Sinusoidal positions (Vaswani et al. 2017, 3.5): the frequency of each sine,
std::vector<double> sinusoid_frequencies(size_t dim, uint32_t layout) {
    std::vector<double> f(layout == SINUSOID_FAIRSEQ ? dim / 2 : (dim + 1) / 2);
    for (size_t i = 0; i < f.size(); i++) f[i] = std::pow(10000.0, -(layout == SINUSOID_FAIRSEQ ? double(i) / std::max(1.0, double(f.size()) - 1) : 2.0 * double(i) / double(dim)));
    return f;
}
// and the table's row of a position, added to x.
void add_sinusoid(float* x, size_t dim, size_t position, uint32_t layout, const std::vector<double>& frequencies) {
    for (size_t i = 0, sines = frequencies.size(); i < sines; i++) {
        const double angle = double(position) * frequencies[i];
        x[layout == SINUSOID_INTERLEAVED ? 2 * i : i] += float(std::sin(angle));
        if (i < dim / 2) x[layout == SINUSOID_INTERLEAVED ? 2 * i + 1 : sines + i] += float(std::cos(angle));
    }
}

// Rotation angles a position for the dim / 2 pairs of a head; length: of the whole text so far, which some scalings follow.
std::vector<float> rope_frequencies(const Rope& r, const float* const factors[2], size_t length) {
    const double pi = 3.14159265358979323846;
    const size_t half = r.dim / 2;
    std::vector<float> f(half);
    double stretch = 1; // NTK-aware: a base with which the slowest frequency turns as in linear; dynamic: it grows with the text
    if (r.scaling == ROPE_NTK) stretch = r.factor;
    if (r.scaling == ROPE_DYNAMIC && length > r.original_context) stretch = double(r.factor) * double(length) / r.original_context - (double(r.factor) - 1);
    const double theta = r.theta * std::pow(stretch, double(r.dim) / std::max(1.0, double(r.dim) - 2));
    // YaRN (Peng et al. 2023, 3.2): dimensions that turn often within the trained context stay, those that never turn once are interpolated
    auto turns_at = [&](double turns) { return r.dim * std::log(r.original_context / (turns * 2 * pi)) / (2 * std::log(theta)); };
    double low = 0, high = 0;
    if (r.scaling == ROPE_YARN) {
        low = turns_at(r.beta_fast), high = turns_at(r.beta_slow);
        if (r.truncate) low = std::floor(low), high = std::ceil(high);
        low = std::max(low, 0.0), high = std::min(high, double(r.dim) - 1);
        if (low == high) high += 0.001;
    }
    for (size_t i = 0; i < half; i++) {
        double w = std::pow(theta, -2.0 * double(i) / r.dim);
        if (factors[0]) w /= double(factors[r.scaling == ROPE_LONGROPE && length > r.original_context][i]);
        if (r.scaling == ROPE_LINEAR) w /= r.factor; // position interpolation (Chen et al. 2023)
        if (r.scaling == ROPE_YARN) {
            const double stay = 1 - std::min(1.0, std::max(0.0, (double(i) - low) / (high - low)));
            w = w / r.factor * (1 - stay) + w * stay;
        }
        if (r.scaling == ROPE_LLAMA3) { // Llama 3.1: the same idea, by wavelength
            const double wave = 2 * pi / w, context = r.original_context, lo = r.low_freq_factor, hi = r.high_freq_factor;
            if (wave > context / lo) w /= r.factor;
            else if (wave > context / hi) {
                const double smooth = (context / wave - lo) / (hi - lo);
                w = (1 - smooth) * w / r.factor + smooth * w;
            }
        }
        f[i] = float(w);
    }
    return f;
}

// Rotates the pairs of one head (Su et al. 2021, eq. 34); cos_sin: [dim / 2] cosines, then as many sines.
void rotate(float* head, const float* cos_sin, const Rope& r) {
    const size_t half = r.dim / 2, step = r.interleaved ? 2 : 1, other = r.interleaved ? 1 : half;
    for (size_t i = 0; i < half; i++) {
        const float a = head[i * step], b = head[i * step + other], c = cos_sin[i], s = cos_sin[half + i];
        head[i * step] = a * c - b * s;
        head[i * step + other] = b * c + a * s;
    }
}

// Slope of each head's linear bias (Press et al. 2021, 3): 2^(-8 / n), its powers; other numbers of heads take every second of twice as many.
std::vector<float> alibi_slopes(size_t n) {
    size_t whole = 1;
    while (whole * 2 <= n) whole *= 2;
    std::vector<float> slopes(n);
    for (size_t i = 0; i < n; i++) slopes[i] = float(std::pow(2.0, i < whole ? -8.0 * double(i + 1) / double(whole) : -4.0 * double(2 * (i - whole) + 1) / double(whole)));
    return slopes;
}

// The header with other positions than the model was trained with.
Header with_positions(Header h, uint32_t scheme) {
    if (scheme == AS_TRAINED || scheme == h.positions) return h;
    const bool known = scheme == POSITIONS_NONE || scheme == POSITIONS_SINUSOIDAL || scheme == POSITIONS_ALIBI || (scheme == POSITIONS_ROTARY && !h.kv_lora_rank && h.head_dim > 1);
    if (!known) fail("these positions need weights that the model does not have");
    h.positions = scheme, h.position_offset = 0, h.sinusoid = SINUSOID_INTERLEAVED, h.alibi_bf16 = 0;
    if (scheme == POSITIONS_ROTARY) {
        h.rope[0] = h.rope[1] = {};
        h.rope[0].theta = 10000, h.rope[0].dim = h.head_dim / 2 * 2, h.rope[0].attention_factor = 1;
    }
    return h;
}

// The header with rotations that are stretched for longer texts.
Header with_rope_scaling(Header h, uint32_t scaling, float factor) {
    if (scaling == AS_TRAINED) return h;
    if (scaling != ROPE_LINEAR && scaling != ROPE_NTK && scaling != ROPE_YARN) fail("rope scaling %u is not one of a session's: linear, ntk or yarn", scaling);
    if (h.positions != POSITIONS_ROTARY) fail("rope scaling is for rotary positions, which the model does not have");
    if (!(factor >= 1 && factor <= 1e6f)) fail("rope factor is %g, expected 1 to 1000000", double(factor));
    for (Rope& r : h.rope) {
        if (!r.dim) continue;
        if (r.scaling != ROPE_PLAIN || r.has_factors) fail("the model's rotary positions are scaled already");
        r.scaling = scaling, r.factor = factor;
        if (!r.original_context) r.original_context = h.context;
        r.beta_fast = 32, r.beta_slow = 1, r.truncate = 1; // 3.2: what suits LLaMA
        if (scaling == ROPE_YARN) r.attention_factor = 0.1f * std::log(factor) + 1; // 3.4
    }
    return h;
}

// Bucket of a distance key - query (Raffel et al. 2019, 2.1): exact when near, logarithmic further away.
uint32_t relative_bucket(int64_t distance, const Header& h, bool causal) {
    int64_t buckets = h.relative_buckets, base = 0;
    if (!causal) {
        buckets /= 2;
        base = distance > 0 ? buckets : 0;
    }
    const int64_t n = causal ? std::max<int64_t>(0, -distance) : std::abs(distance), exact = buckets / 2;
    if (n < exact) return uint32_t(base + n);
    const float far = std::log(float(n) / float(exact)) / std::log(float(h.relative_max) / float(exact)) * float(buckets - exact);
    return uint32_t(base + std::min<int64_t>(buckets - 1, exact + int64_t(far)));
}

} // namespace

// ---- session: what a text needs ---------------------------------------------------------------------------------------------

struct Session::State {
    using Worker = Team::Worker;
    State(const Model& model, SessionOptions options);

    const Model::Weights& w;
    const Header h;
    const KeyValueShape kv;
    const Kernels& k;
    const decltype(SessionOptions::observe) observe;
    const decltype(SessionOptions::attention) watch;
    std::mutex watching;
    size_t context;
    Team team;
    size_t length = 0, written = 0;      // tokens held; the most that were held since the cache was empty
    std::vector<LayerCache> cache, cross; // of the decoder, a layer each
    LayerCache scratch_cache;             // of a bidirectional stack: one layer's at a time
    size_t source_length = 0;

    // activations, a row a token: residual stream, a sublayer's input, attention's result, feed-forward's inside, the scores' input
    Activations x, normed, attn, ff, head_in;
    Buffer<float> qkv, sub, hidden, scores; // sub: what a sublayer adds to x
    Activations q_compressed, q_plain, found, gathered; // latent attention (q_plain and found: [n_heads, n, ...]); an expert's tokens
    Buffer<float> q_latent, routes, expert_out;
    Buffer<uint32_t> routed;                // [n, n_experts_used] experts by token, as many tokens by expert, and where each expert's begin
    Buffer<float> parts;                    // of attention's results: a span of keys each, [n, n_heads, value_dim + 2]
    Buffer<float> cos_sin[2];               // [n, rope dim] of Header.rope: cosines, then sines
    std::vector<float> frequencies[2];
    std::vector<double> sinusoids;
    std::vector<float> relative[2];       // bias by head and distance: encoder's, decoder's
    std::vector<float> slopes;            // of the heads' linear biases
    struct Scratch {
        Buffer<float> q, scores, out;
        std::vector<int64_t> first, last, position;
        std::vector<float> slope;
        std::vector<const float*> bias;
        std::vector<uint16_t> half;
        std::vector<float> choice;
        std::vector<uint32_t> places;
        std::vector<float> weights;       // of one query, where someone watches
    };
    std::vector<Scratch> scratch;         // a thread

    const float* forward(const int32_t* tokens, size_t n, Scores want);
    void encode(const int32_t* tokens, size_t n);
    void check_tokens(const int32_t* tokens, size_t n, size_t start) const;

private:
    struct Pass { // n tokens of one text, from position start, through one stack
        const Stack& stack;
        const int32_t* tokens;
        size_t start, n;
    };
    void reserve(size_t n, size_t keys);
    void prepare_rotation(size_t start, size_t n, size_t text);
    void layers(const Pass& p, Worker& me);
    void embed(const Pass& p, Worker& me);
    void attention(const Pass& p, const Layer& l, LayerCache& c, Worker& me);
    void latent_attention(const Pass& p, const Layer& l, LayerCache& c, Worker& me);
    void cross_attention(const Pass& p, const Layer& l, LayerCache& c, Worker& me);
    void attend(const Pass& p, const Layer& l, LayerCache& c, const float* queries, size_t q_stride, bool is_cross, float* out, size_t token_stride, size_t head_stride, Worker& me);
    void show_attention(const AttentionTile& a, size_t row, size_t layer, size_t head, std::vector<float>& weights);
    void attention_out(const Attention& a, size_t n, Worker& me);
    void remember(LayerCache& c, size_t position, const float* keys, const float* values, Worker& me);
    void remember_source(const Layer& l, LayerCache& c, size_t n, Worker& me);
    void multiply_heads(const Matrix& first, Activations& in, size_t n, float* out, size_t head_stride, Worker& me);
    void ssru(const Pass& p, const Layer& l, LayerCache& c, Worker& me);
    void feed_forward(const FeedForward& f, Activations& in, size_t n, float* out, Worker& me, const uint32_t* range = nullptr);
    void experts(const Layer& l, size_t n, Worker& me);
    void head(const float* from, size_t n, float* out, Worker& me);
    void run(const std::function<void(Worker&)>& job, size_t n);

    // Rows 0 .. n - 1, or where they are an expert's tokens, as many as range says by then.
    template <class F> void each_row(size_t n, Worker& me, F f, const uint32_t* range = nullptr) {
        const size_t runs = std::min<size_t>(n, 4 * me.threads());
        me.share(runs, [&](size_t run) {
            const size_t rows = range ? range[1] - range[0] : n;
            for (size_t t = rows * run / runs; t < rows * (run + 1) / runs; t++) f(t);
        });
    }
    void norm(const float* from, const NormWeights& nw, float* to) const { k.norm(from, h.dim, h.norm, h.norm_eps, nw, to); }
    void ready(Activations& a, size_t row, size_t cols, size_t first = 0) { // a row, or a part of one that begins a block, is complete: here is its int8 twin
        const size_t at = first / BLOCK * a.rows + row;
        if (a.quantized) k.quantize(a.row(row) + first, cols, a.q.data() + at * BLOCK, a.scale.data() + at, a.rows);
    }
    void matmul(const Matrix& m, Activations& in, size_t n, float* out, size_t stride, const float* bias, Worker& me, const uint32_t* range = nullptr) {
        const size_t fours = (m.panels() + 3) / 4, parts = std::min<size_t>(fours, me.threads() == 1 ? 1 : 4 * me.threads()); // panels go by fours through the kernel
        me.share(parts, [&](size_t i) {
            const size_t count = range ? range[1] - range[0] : n, end = std::min<size_t>(m.panels(), fours * (i + 1) / parts * 4);
            if (i == 0 && observe) observe(uint64_t(m.data - w.file.data()), in.f.data(), in.width, count);
            k.matmul(m, uint32_t(fours * i / parts * 4), uint32_t(end), in.from(0), count, out, stride, bias, 0);
        });
    }
    static Matrix nth(const Matrix& m, size_t i) {
        Matrix e = m;
        e.data += i * m.panels() * m.panel_bytes;
        return e;
    }
};

Session::State::State(const Model& model, SessionOptions options)
    : w(model.weights()), h(with_rope_scaling(with_positions(w.h, options.positions), options.rope_scaling, options.rope_factor)), kv(h), k(*w.kernels),
      observe(options.observe), watch(options.attention), team([&] {
          const uint32_t most = processors().usable;
          return options.threads ? std::min(options.threads, most) : default_threads();
      }()) {
    context = options.context ? options.context : std::min<size_t>(h.context, 8192);
    if (options.extend && h.positions != POSITIONS_LEARNED) fail("the model has no table of learned positions to extend");
    if (h.positions == POSITIONS_LEARNED && !options.extend) {
        const size_t rows = h.n_positions - h.position_offset;
        if (options.context > rows) fail("a context of %u tokens is longer than the model's table of %zu positions", options.context, rows);
        context = std::min(context, rows);
    }
    const size_t budget = size_t(1) << 40; // of floats; calloc refuses sooner
    const size_t token = (size_t(h.n_kv_heads) * (size_t(h.head_dim) + round_up(h.v_head_dim, PANEL)) + h.dim) * h.n_layers;
    if (context > budget / token) fail("a context of %zu tokens needs more memory than there is", context);
    scratch_cache.type = options.exact_cache || w.exact ? TYPE_F32 : TYPE_F16;
    if (w.decoder.causal) {
        cache.resize(h.n_layers), cross.resize(h.n_encoder_layers ? h.n_layers : 0);
        for (auto* caches : {&cache, &cross})
            for (LayerCache& c : *caches) c.type = scratch_cache.type;
        for (size_t i = 0; i < h.n_layers; i++) {
            const LayerHeader& l = w.decoder.layers[i].h;
            if (l.kind == LAYER_SSRU) cache[i].cells.resize(context * h.dim);
            else if (l.window) cache[i].resize(std::min(context, l.window + CHUNK + TILE), kv); // a chunk, and the window before its first token
            else cache[i].resize(context, kv);
        }
    }
    for (int e = 0; e < 2; e++) {
        const Stack& s = e ? w.decoder : w.encoder;
        if (h.positions != POSITIONS_RELATIVE || !s.relative_bias) continue;
        relative[e].resize(size_t(h.n_heads) * (2 * context + 1));
        for (size_t head = 0; head < h.n_heads; head++)
            for (int64_t d = -int64_t(context); d <= int64_t(context); d++)
                relative[e][head * (2 * context + 1) + size_t(d + int64_t(context))] = s.relative_bias[relative_bucket(d, h, s.causal) * h.n_heads + head];
    }
    if (h.positions == POSITIONS_SINUSOIDAL) sinusoids = sinusoid_frequencies(h.dim, h.sinusoid);
    if (h.positions == POSITIONS_ALIBI) slopes = w.alibi_slopes ? std::vector<float>(w.alibi_slopes, w.alibi_slopes + h.n_heads) : alibi_slopes(h.n_heads);
    for (Activations* a : {&normed, &attn, &ff, &q_compressed, &q_plain, &found, &gathered}) a->quantized = w.quantized_layers;
    head_in.quantized = w.quantized_scores;
    scratch.resize(team.size());
}

void Session::State::check_tokens(const int32_t* tokens, size_t n, size_t start) const {
    if (!n) fail("no tokens to read");
    if (n > context - start) fail("%zu tokens after %zu do not fit into a context of %zu", n, start, context);
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || uint32_t(tokens[i]) >= h.vocab_size) fail("token id %d at place %zu is outside the vocabulary of %u", tokens[i], i, h.vocab_size);
}

// Room for n rows that attend to so many keys.
void Session::State::reserve(size_t n, size_t keys) {
    x.resize(n, h.dim), normed.resize(n, h.dim), attn.resize(n, w.attn_width), ff.resize(n, w.ff_width), head_in.resize(n, std::max(h.dim, h.embed_dim));
    qkv.resize(n * w.qkv_width), sub.resize(n * std::max(h.dim, h.embed_dim));
    if (kv.latent) {
        q_compressed.resize(n, h.q_lora_rank), q_plain.resize(n * h.n_heads, h.head_dim - h.rope[0].dim), found.resize(n * h.n_heads, kv.value_dim);
        q_latent.resize(n * h.n_heads * kv.key_dim);
    }
    if (h.n_experts) gathered.resize(n, h.dim), routes.resize(n * h.n_experts), expert_out.resize(n * h.dim), routed.resize(2 * n * h.n_experts_used + h.n_experts + 1);
    for (Scratch& s : scratch) s.choice.resize(h.n_experts), s.places.resize(h.n_experts);
    for (int i = 0; i < 2; i++) cos_sin[i].resize(n * (h.positions == POSITIONS_ROTARY ? h.rope[i].dim : 0));
    if (!w.attn_width) return;
    const size_t rows = std::max<size_t>(h.n_heads / kv.heads, QUERIES), part = kv.padded + 2;
    const size_t queries = n * h.n_heads, split_queries = std::min(queries, 4 * team.size() * rows); // more are not split by spans
    parts.resize(part * std::max(queries, split_queries * (keys / SPAN + 2)));
    for (Scratch& s : scratch) {
        s.q.resize(rows * kv.key_dim), s.scores.resize(rows * SPAN), s.out.resize(rows * part), s.half.resize(std::max(kv.key_dim, kv.value_dim));
        if (watch) s.weights.resize(keys);
        s.first.resize(rows), s.last.resize(rows), s.position.resize(rows), s.slope.resize(rows), s.bias.resize(rows);
    }
}

// Cosines and sines for n tokens from position start of a text that is `text` tokens long.
void Session::State::prepare_rotation(size_t start, size_t n, size_t text) {
    for (int i = 0; i < 2 && h.positions == POSITIONS_ROTARY; i++) {
        const Rope& r = h.rope[i];
        const size_t half = r.dim / 2;
        if (frequencies[i].empty() || r.scaling == ROPE_DYNAMIC || r.scaling == ROPE_LONGROPE) frequencies[i] = rope_frequencies(r, w.rope_factors[i], text);
        for (size_t t = 0; t < n; t++)
            for (size_t j = 0; j < half; j++) {
                const float angle = float(start + t) * frequencies[i][j]; // in float, as transformers
                cos_sin[i].data()[t * r.dim + j] = std::cos(angle) * r.attention_factor;
                cos_sin[i].data()[t * r.dim + half + j] = std::sin(angle) * r.attention_factor;
            }
    }
}

// ---- embedding and positions ------------------------------------------------------------------------------------------------

void Session::State::embed(const Pass& p, Worker& me) {
    const bool projected = w.project_in.data;
    each_row(p.n, me, [&](size_t t) {
        float* e = projected ? head_in.row(t) : x.row(t);
        copy_row(w.embed, size_t(p.tokens[t]), e);
        const float scale = h.zero_start && &p.stack == &w.decoder && p.start + t == 0 ? 0 : h.embed_scale;
        for (size_t i = 0; i < h.embed_dim; i++) e[i] *= scale;
        if (projected) ready(head_in, t, h.embed_dim);
    });
    if (projected) matmul(w.project_in, head_in, p.n, x.f.data(), x.width, nullptr, me);
    each_row(p.n, me, [&](size_t t) {
        float* e = x.row(t);
        const size_t position = p.start + t + h.position_offset;
        if (w.embed_type)
            for (size_t i = 0; i < h.dim; i++) e[i] += w.embed_type[i];
        if (h.positions == POSITIONS_LEARNED) {
            const float* row = w.positions + std::min<size_t>(position, h.n_positions - 1) * h.dim; // only SessionOptions.extend goes past the last
            for (size_t i = 0; i < h.dim; i++) e[i] += row[i];
        }
        if (h.positions == POSITIONS_SINUSOIDAL) add_sinusoid(e, h.dim, position, h.sinusoid, sinusoids);
        if (h.embed_norm) norm(e, w.embed_norm, e);
    });
}

// ---- attention --------------------------------------------------------------------------------------------------------------

// Writes one position's keys and values, a head after the other, into the cache's panels.
void Session::State::remember(LayerCache& c, size_t position, const float* keys, const float* values, Worker& me) {
    const size_t slot = position % c.capacity;
    auto scatter = [&](const auto* from, auto* to, size_t n, auto place) {
        for (size_t i = 0; i < n; i++) to[place(i)] = from[i];
    };
    auto write = [&](const float* from, size_t n, Buffer<uint8_t>& to, auto place) {
        if (c.type == TYPE_F32) return scatter(from, reinterpret_cast<float*>(to.data()), n, place);
        uint16_t* half = scratch[me.id].half.data();
        k.to_half(from, n, half);
        scatter(half, reinterpret_cast<uint16_t*>(to.data()), n, place);
    };
    for (size_t head = 0; head < kv.heads; head++) {
        const size_t key_at = (head * c.capacity + slot / PANEL * PANEL) * kv.key_dim + slot % PANEL, value_at = head * c.capacity * kv.padded + slot * PANEL;
        write(keys + head * kv.key_dim, kv.key_dim, c.keys, [&](size_t i) { return key_at + i * PANEL; });
        if (kv.latent) continue;
        write(values + head * kv.value_dim, kv.value_dim, c.values, [&](size_t i) { return value_at + i / PANEL * PANEL * c.capacity + i % PANEL; });
    }
}

// Joins two parts of one query's softmax (Dao et al. 2022, 3.1): sums of n values, the largest score, the sum of exponentials.
static void join(float* out, const float* other, size_t n) {
    float &most = out[n], &total = out[n + 1];
    if (other[n] == -INFINITY) return;
    const float larger = std::max(most, other[n]), a = most == -INFINITY ? 0 : std::exp(most - larger), b = std::exp(other[n] - larger);
    for (size_t i = 0; i < n; i++) out[i] = out[i] * a + other[i] * b;
    most = larger, total = total * a + other[n + 1] * b;
}

// The weights of one query of a tile, which attend() never has in one place: the kernel is asked again, a span at a time, as in join().
void Session::State::show_attention(const AttentionTile& tile, size_t row, size_t layer, size_t head, std::vector<float>& weights) {
    AttentionTile a = tile;
    const float* part = a.out + round_up(a.value_dim, PANEL); // the largest score, the sum of exponentials
    float most = -INFINITY, total = 0;
    a.rows = 1, a.q += row * a.key_dim, a.first += row, a.last += row, a.position += row;
    if (a.bias) a.bias += row;
    if (a.slope) a.slope += row;
    const int64_t first = *a.first, end = *a.last + 1, tile_keys = TILE;
    for (int64_t begin = first / tile_keys * tile_keys, stop; begin < end; begin = stop) {
        stop = std::min(begin + int64_t(SPAN), end);
        k.attention(a, begin, stop);
        const float larger = std::max(most, part[0]), before = most == -INFINITY ? 0 : std::exp(most - larger), now = std::exp(part[0] - larger);
        const int64_t seen = std::max(begin, first);
        for (int64_t i = first; i < seen; i++) weights[size_t(i - first)] *= before;
        for (int64_t i = seen; i < stop; i++) weights[size_t(i - first)] = a.scores[i - begin] * now;
        most = larger, total = total * before + part[1] * now;
    }
    for (int64_t i = first; i < end; i++) weights[size_t(i - first)] /= total;
    const std::lock_guard<std::mutex> lock(watching);
    watch(uint32_t(layer), uint32_t(head), size_t(*a.position), size_t(first), weights.data(), size_t(end - first));
}

// softmax(q k + bias) v (Vaswani et al. 2017, eq. 1) for queries [n, n_heads, key_dim] and the keys that the mask lets them see.
// The work is cut by head and tile of queries, and where these are few, by spans of keys.
void Session::State::attend(const Pass& p, const Layer& l, LayerCache& c, const float* queries, size_t q_stride, bool is_cross, float* out, size_t token_stride, size_t head_stride, Worker& me) {
    const bool causal = p.stack.causal && !is_cross;
    const size_t group = h.n_heads / kv.heads, key_dim = kv.key_dim, padded = kv.padded;
    const size_t per_tile = std::max<size_t>(1, QUERIES / group), tiles = (p.n + per_tile - 1) / per_tile;
    const int64_t window = is_cross ? 0 : l.h.window, end = int64_t(is_cross ? source_length : p.start + p.n), span = SPAN;
    auto first_key = [&](int64_t position) { return window ? std::max<int64_t>(0, causal ? position - window + 1 : position - window / 2) : 0; };
    auto last_key = [&](int64_t position) { return causal ? position : window ? std::min(end - 1, position + window / 2) : end - 1; };
    const int64_t first_span = first_key(int64_t(p.start)) / span;
    const size_t spans = size_t((end - 1) / span - first_span + 1), splits = kv.heads * tiles < 4 * me.threads() ? spans : 1;
    const std::vector<float>& by_distance = relative[&p.stack == &w.decoder];
    const bool biased = !by_distance.empty() && !is_cross, sloped = !slopes.empty() && !is_cross;
    const size_t width = padded + 2; // of a part: values, largest score, sum
    auto part = [&](size_t split, size_t row) { return parts.data() + (split * p.n * h.n_heads + row) * width; };
    auto finish = [&](size_t row) {
        float* sum = part(0, row);
        for (size_t i = 1; i < splits; i++) join(sum, part(i, row), padded);
        float* to = out + row / h.n_heads * token_stride + row % h.n_heads * head_stride;
        for (size_t i = 0; i < kv.value_dim; i++) to[i] = sum[i] / sum[padded + 1];
    };
    Scratch& s = scratch[me.id];
    me.share(kv.heads * tiles * splits, [&](size_t item) {
        const size_t kv_head = item % kv.heads, split = item / kv.heads % splits, t0 = item / kv.heads / splits * per_tile, t1 = std::min(p.n, t0 + per_tile);
        AttentionTile a = {};
        for (size_t t = t0; t < t1; t++)
            for (size_t g = 0; g < group; g++) {
                const size_t head = kv_head * group + g, r = a.rows++;
                const int64_t position = int64_t(p.start + t);
                k.scale_add(queries + t * q_stride + head * key_dim, l.h.attn_scale, nullptr, key_dim, s.q.data() + r * key_dim);
                s.position[r] = position, s.first[r] = first_key(position), s.last[r] = last_key(position);
                if (biased) s.bias[r] = by_distance.data() + head * (2 * context + 1) + context - size_t(position);
                if (sloped) s.slope[r] = slopes[head];
            }
        a.type = c.type;
        a.keys = c.keys.data() + kv_head * c.capacity * key_dim * c.element();
        a.values = kv.latent ? nullptr : c.values.data() + kv_head * c.capacity * padded * c.element();
        a.capacity = c.capacity, a.key_dim = uint32_t(key_dim), a.value_dim = uint32_t(kv.value_dim);
        a.q = s.q.data(), a.scores = s.scores.data(), a.out = s.out.data(), a.softcap = h.attn_softcap;
        a.first = s.first.data(), a.last = s.last.data(), a.position = s.position.data();
        a.bias = biased ? s.bias.data() : nullptr, a.slope = sloped ? s.slope.data() : nullptr, a.slope_bf16 = h.alibi_bf16;
        if (watch && !is_cross && !split)
            for (size_t r = 0; r < a.rows; r++) show_attention(a, r, size_t(&l - p.stack.layers.data()) + (&p.stack == &w.decoder) * h.n_encoder_layers, kv_head * group + r % group, s.weights);
        const int64_t from = first_key(int64_t(p.start + t0)), to = last_key(int64_t(p.start + t1 - 1)) + 1; // they grow with the position
        const size_t first = splits > 1 ? split : size_t(from / span - first_span), last = splits > 1 ? split : size_t((to - 1) / span - first_span);
        for (size_t i = first; i <= last; i++) {
            const int64_t begin = std::max((first_span + int64_t(i)) * span, from / int64_t(TILE) * int64_t(TILE)), stop = std::min((first_span + int64_t(i) + 1) * span, to);
            if (begin < stop) k.attention(a, begin, stop);
            for (size_t r = 0; r < a.rows; r++) {
                float *sum = part(split, (t0 + r / group) * h.n_heads + kv_head * group + r % group), *from_span = s.out.data() + r * width;
                if (begin >= stop) std::fill_n(sum, width, 0.f), sum[padded] = -INFINITY; // this tile sees none of the split's keys
                else if (i == first) memcpy(sum, from_span, width * 4);
                else join(sum, from_span, padded);
            }
        }
        for (size_t r = 0; splits == 1 && r < a.rows; r++) finish((t0 + r / group) * h.n_heads + kv_head * group + r % group);
    });
    if (splits > 1) each_row(p.n * h.n_heads, me, finish);
}

void Session::State::attention_out(const Attention& a, size_t n, Worker& me) {
    each_row(n, me, [&](size_t t) { ready(attn, t, attn.width); });
    matmul(a.out, attn, n, sub.data(), h.dim, a.out_bias, me);
}

void Session::State::attention(const Pass& p, const Layer& l, LayerCache& c, Worker& me) {
    const Attention& a = l.attn;
    const size_t q_rows = size_t(h.n_heads) * h.head_dim, k_rows = size_t(h.n_kv_heads) * h.head_dim, width = a.qkv.rows;
    matmul(a.qkv, normed, p.n, qkv.data(), width, a.qkv_bias, me);
    each_row(p.n, me, [&](size_t t) {
        float *qs = qkv.data() + t * width, *ks = qs + q_rows;
        auto qk_norm = [&](float* heads, size_t n, const NormWeights& nw) {
            const size_t part = h.qk_norm == QK_FULL ? n : h.head_dim;
            for (size_t i = 0; i < n; i += part)
                k.norm(heads + i, part, h.qk_norm_layer ? uint32_t(NORM_LAYER) : h.norm, h.norm_eps, {nw.weight + i, nw.bias ? nw.bias + i : nullptr}, heads + i);
        };
        if (h.qk_norm) qk_norm(qs, q_rows, a.q_norm), qk_norm(ks, k_rows, a.k_norm);
        const uint32_t rope = h.positions != POSITIONS_ROTARY ? NO_ROPE : w.h.positions == POSITIONS_ROTARY ? l.h.rope : 0;
        for (size_t i = 0; rope != NO_ROPE && i < h.n_heads + h.n_kv_heads; i++) rotate(qs + i * h.head_dim, cos_sin[rope].data() + t * h.rope[rope].dim, h.rope[rope]);
        remember(c, p.start + t, ks, ks + k_rows, me);
    });
    attend(p, l, c, qkv.data(), width, false, attn.f.data(), attn.width, h.v_head_dim, me);
    attention_out(a, p.n, me);
}

// One matrix a head: in [heads, n, cols] -> out [n, heads, rows], heads head_stride apart.
void Session::State::multiply_heads(const Matrix& first, Activations& in, size_t n, float* out, size_t head_stride, Worker& me) {
    me.share(h.n_heads, [&](size_t i) { k.matmul(nth(first, i), 0, first.panels(), in.from(i * n), n, out + i * head_stride, h.n_heads * head_stride, nullptr, 0); });
}

// Latent attention (DeepSeek-V2, 2.1): the cache holds one compressed vector and one rotary key a token; queries are taken to the
// compressed space, and what they find there is taken to values (the absorbed form of eq. 10 and 11).
void Session::State::latent_attention(const Pass& p, const Layer& l, LayerCache& c, Worker& me) {
    const Attention& a = l.attn;
    const Rope& r = h.rope[0];
    const size_t rank = kv.value_dim, key_dim = kv.key_dim, plain = h.head_dim - r.dim, q_width = size_t(h.n_heads) * h.head_dim;
    float *qs = qkv.data(), *keys = qs + p.n * q_width;
    matmul(a.kv_a, normed, p.n, keys, key_dim, nullptr, me);
    if (h.q_lora_rank) {
        matmul(a.q_a, normed, p.n, q_compressed.f.data(), q_compressed.width, nullptr, me);
        each_row(p.n, me, [&](size_t t) {
            k.norm(q_compressed.row(t), h.q_lora_rank, NORM_RMS, h.latent_norm_eps, a.q_a_norm, q_compressed.row(t));
            ready(q_compressed, t, h.q_lora_rank);
        });
    }
    matmul(a.q_b, h.q_lora_rank ? q_compressed : normed, p.n, qs, q_width, nullptr, me);
    each_row(p.n, me, [&](size_t t) {
        auto turn = [&](float* head) {
            if (h.positions == POSITIONS_ROTARY) rotate(head, cos_sin[0].data() + t * r.dim, r);
        };
        float* key = keys + t * key_dim;
        k.norm(key, rank, NORM_RMS, h.latent_norm_eps, a.kv_a_norm, key);
        turn(key + rank);
        remember(c, p.start + t, key, nullptr, me);
        for (size_t i = 0; i < h.n_heads; i++) {
            float* query = qs + (t * h.n_heads + i) * h.head_dim;
            turn(query + plain);
            memcpy(q_latent.data() + (t * h.n_heads + i) * key_dim + rank, query + plain, r.dim * 4);
            memcpy(q_plain.row(i * p.n + t), query, plain * 4);
            ready(q_plain, i * p.n + t, plain);
        }
    });
    multiply_heads(a.k_b, q_plain, p.n, q_latent.data(), key_dim, me);
    attend(p, l, c, q_latent.data(), h.n_heads * key_dim, false, found.f.data(), rank, p.n * rank, me);
    each_row(p.n * h.n_heads, me, [&](size_t i) { ready(found, i, rank); });
    multiply_heads(a.v_b, found, p.n, attn.f.data(), h.v_head_dim, me);
    attention_out(a, p.n, me);
}

// Keys and values of the source text, once for all tokens to come.
void Session::State::remember_source(const Layer& l, LayerCache& c, size_t n, Worker& me) {
    const size_t k_rows = size_t(h.n_kv_heads) * h.head_dim, width = l.cross.kv_a.rows;
    matmul(l.cross.kv_a, normed, n, qkv.data(), width, l.cross_kv_bias, me);
    each_row(n, me, [&](size_t t) {
        const float* ks = qkv.data() + t * width;
        remember(c, t, ks, ks + k_rows, me);
    });
}

void Session::State::cross_attention(const Pass& p, const Layer& l, LayerCache& c, Worker& me) {
    matmul(l.cross.qkv, normed, p.n, qkv.data(), l.cross.qkv.rows, l.cross.qkv_bias, me);
    attend(p, l, c, qkv.data(), l.cross.qkv.rows, true, attn.f.data(), attn.width, h.v_head_dim, me);
    attention_out(l.cross, p.n, me);
}

// Simpler simple recurrent unit (Kim et al. 2019, 3.1): c = f c' + (1 - f) W x, relu(c). Every position's cell is kept, for rewind().
void Session::State::ssru(const Pass& p, const Layer& l, LayerCache& c, Worker& me) {
    const size_t dim = h.dim, runs = (dim + 63) / 64;
    matmul(l.ssru, normed, p.n, qkv.data(), 2 * dim, l.ssru_bias, me);
    me.share(runs, [&](size_t run) {
        for (size_t t = 0; t < p.n; t++) {
            const float *in = qkv.data() + t * 2 * dim, *forget = in + dim;
            float* cell = c.cells.data() + (p.start + t) * dim;
            for (size_t i = run * 64; i < std::min(dim, run * 64 + 64); i++) {
                const float f = sigmoid(forget[i]), before = p.start + t ? cell[i - dim] : 0;
                cell[i] = f * before + (1 - f) * in[i];
                sub.data()[t * dim + i] = std::max(cell[i], 0.f);
            }
        }
    });
}

// ---- feed-forward -----------------------------------------------------------------------------------------------------------

// down(act(up x)), or down(act(gate x) * up x) (Shazeer 2020).
void Session::State::feed_forward(const FeedForward& f, Activations& in, size_t n, float* out, Worker& me, const uint32_t* range) {
    const size_t hidden = f.down.cols;
    matmul(f.up, in, n, ff.f.data(), ff.width, f.up_bias, me, range);
    const size_t slice = 8 * BLOCK, slices = range || n >= me.threads() ? 1 : (hidden + slice - 1) / slice; // fewer rows than threads: they share a row
    each_row(n * slices, me, [&](size_t i) {
        const size_t t = i / slices, first = i % slices * slice, cols = slices == 1 ? hidden : std::min(slice, hidden - first);
        k.activate(ff.row(t) + first, cols, h.activation, h.gated ? ff.row(t) + hidden + first : nullptr);
        ready(ff, t, cols, first);
    }, range);
    matmul(f.down, ff, n, out, h.dim, f.down_bias, me, range);
}

// The places of the count largest of n; of equal ones those that PyTorch's topk takes.
static void find_largest(const float* v, size_t n, size_t count, uint32_t* places) {
    for (size_t i = 0; i < n; i++) places[i] = uint32_t(i);
    auto larger = [&](uint32_t a, uint32_t b) { return (std::isnan(v[a]) && !std::isnan(v[b])) || v[a] > v[b]; };
    std::nth_element(places, places + count - 1, places + n, larger);
}

// Turns one token's router scores into weights and names its experts (Shazeer et al. 2017; groups and bias: DeepSeek-V3, 2.1.2).
// Scratch: choice [n_experts], places [n_experts], which begins with the chosen ones in the end.
static void route(const Header& h, const float* bias, float* scores, float* choice, uint32_t* places) {
    const size_t n = h.n_experts, per_group = n / h.n_groups;
    if (h.router == ROUTER_SOFTMAX) {
        const float most = *std::max_element(scores, scores + n);
        float sum = 0;
        for (size_t e = 0; e < n; e++) sum += scores[e] = std::exp(scores[e] - most);
        for (size_t e = 0; e < n; e++) scores[e] /= sum;
    } else
        for (size_t e = 0; e < n; e++) scores[e] = sigmoid(scores[e]);
    auto corrected = [&](size_t e) { return scores[e] + (bias ? bias[e] : 0); };
    if (h.n_groups > 1) {
        for (size_t g = 0; g < h.n_groups; g++) {
            float largest = -INFINITY, second = -INFINITY;
            for (size_t e = g * per_group; e < (g + 1) * per_group; e++) {
                const float v = corrected(e);
                if (v > largest) second = largest, largest = v;
                else if (v > second) second = v;
            }
            choice[g] = largest + (h.group_score == GROUP_TOP2 && per_group > 1 ? second : 0);
        }
        find_largest(choice, h.n_groups, h.n_groups_used, places);
        std::fill_n(choice, n, 0.f);
        for (size_t i = 0; i < h.n_groups_used; i++)
            for (size_t e = places[i] * per_group; e < (places[i] + 1) * per_group; e++) choice[e] = corrected(e);
    } else
        for (size_t e = 0; e < n; e++) choice[e] = corrected(e);
    find_largest(choice, n, h.n_experts_used, places);
    float sum = 0;
    for (size_t i = 0; i < h.n_experts_used; i++) sum += scores[places[i]];
    const float scale = h.router_scale / (h.router_norm ? sum + 1e-20f : 1);
    for (size_t i = 0; i < h.n_experts_used; i++) scores[places[i]] *= scale;
}

// Mixture of experts: each reads the tokens routed to it; their results are added in the experts' order, whatever the batch.
void Session::State::experts(const Layer& l, size_t n, Worker& me) {
    const size_t dim = h.dim, all = h.n_experts, used = h.n_experts_used;
    uint32_t *picks = routed.data(), *tokens = picks + n * used, *begin = tokens + n * used;
    matmul(l.router, normed, n, routes.data(), all, nullptr, me);
    each_row(n, me, [&](size_t t) {
        Scratch& s = scratch[me.id];
        route(h, l.router_bias, routes.data() + t * all, s.choice.data(), s.places.data());
        std::copy_n(s.places.data(), used, picks + t * used);
        std::fill_n(sub.data() + t * dim, dim, 0.f);
    });
    me.share(1, [&](size_t) { // sorts the picks by expert, a token after the other
        std::fill_n(begin, all + 1, 0);
        for (size_t i = 0; i < n * used; i++) begin[picks[i] + 1]++;
        for (size_t e = 0; e < all; e++) begin[e + 1] += begin[e];
        for (size_t i = n * used; i-- > 0;) tokens[--begin[picks[i] + 1]] = uint32_t(i / used);
        for (size_t e = 0; e < all; e++) begin[e] = begin[e + 1];
        begin[all] = uint32_t(n * used);
    });
    for (size_t e = 0; e < all; e++) { // every thread passes the same steps, also those that come to nothing
        const uint32_t* range = begin + e;
        each_row(n, me, [&](size_t i) {
            memcpy(gathered.row(i), normed.row(tokens[range[0] + i]), dim * 4);
            ready(gathered, i, dim);
        }, range);
        feed_forward({nth(l.experts.up, e), nth(l.experts.down, e)}, gathered, n, expert_out.data(), me, range);
        each_row(n, me, [&](size_t i) {
            const size_t t = tokens[range[0] + i];
            const float weight = routes.data()[t * all + e];
            k.scale_add(expert_out.data() + i * dim, weight, sub.data() + t * dim, dim, sub.data() + t * dim);
        }, range);
    }
    if (!h.shared_dim) return;
    if (h.shared_gate) matmul(l.shared_gate, normed, n, routes.data(), 1, nullptr, me);
    feed_forward(l.shared, normed, n, expert_out.data(), me);
    each_row(n, me, [&](size_t t) {
        const float gate = h.shared_gate ? sigmoid(routes.data()[t]) : 1;
        k.scale_add(expert_out.data() + t * dim, gate, sub.data() + t * dim, dim, sub.data() + t * dim);
    });
}

// ---- the forward pass -------------------------------------------------------------------------------------------------------

// Runs on every thread of the team at once.
void Session::State::layers(const Pass& p, Worker& me) {
    const bool pre = h.norm_place == NORM_PRE || h.norm_place == NORM_SANDWICH, post = h.norm_place == NORM_POST;
    auto enter = [&](size_t t, const NormWeights& nw) { // a sublayer's input
        if (pre && nw.weight) norm(x.row(t), nw, normed.row(t));
        else memcpy(normed.row(t), x.row(t), h.dim * 4);
        ready(normed, t, h.dim);
    };
    auto leave = [&](size_t t, const NormWeights& nw, const NormWeights& output_norm) { // the residual sum
        float *to = x.row(t), *from = sub.data() + t * h.dim;
        if (output_norm.weight) norm(from, output_norm, from);
        k.scale_add(from, h.residual_scale, to, h.dim, to);
        if (post) norm(to, nw, to);
    };
    embed(p, me);
    const std::vector<Layer>& all = p.stack.layers;
    each_row(p.n, me, [&](size_t t) { enter(t, all[0].attn_norm); });
    for (size_t i = 0; i < all.size(); i++) {
        const Layer& l = all[i];
        LayerCache& c = p.stack.causal ? cache[i] : scratch_cache;
        const bool crossed = l.cross.qkv.data;
        if (l.h.kind == LAYER_SSRU) ssru(p, l, c, me);
        else if (kv.latent) latent_attention(p, l, c, me);
        else attention(p, l, c, me);
        each_row(p.n, me, [&](size_t t) {
            if (h.parallel == PARALLEL_TWO_NORMS) enter(t, l.ffn_norm);
            leave(t, l.attn_norm, l.attn_post_norm);
            if (!h.parallel) enter(t, crossed ? l.cross_norm : l.ffn_norm);
        });
        if (crossed) {
            cross_attention(p, l, cross[i], me);
            each_row(p.n, me, [&](size_t t) {
                leave(t, l.cross_norm, {});
                enter(t, l.ffn_norm);
            });
        }
        if (l.h.experts) experts(l, p.n, me);
        else feed_forward(l.ffn, normed, p.n, sub.data(), me);
        each_row(p.n, me, [&](size_t t) {
            leave(t, l.ffn_norm, l.ffn_post_norm);
            if (i + 1 < all.size()) enter(t, all[i + 1].attn_norm);
            else if (h.final_norm) norm(x.row(t), p.stack.final_norm, x.row(t));
        });
    }
}

// Scores from n hidden states.
void Session::State::head(const float* from, size_t n, float* out, Worker& me) {
    each_row(n, me, [&](size_t t) {
        memcpy(head_in.row(t), from + t * h.dim, h.dim * 4);
        ready(head_in, t, h.dim);
    });
    if (w.head_dense.data) {
        matmul(w.head_dense, head_in, n, sub.data(), h.dim, w.head_dense_bias, me);
        each_row(n, me, [&](size_t t) {
            k.activate(sub.data() + t * h.dim, h.dim, h.head_activation, nullptr);
            norm(sub.data() + t * h.dim, w.head_norm, head_in.row(t));
            ready(head_in, t, h.dim);
        });
    }
    if (w.project_out.data) {
        matmul(w.project_out, head_in, n, sub.data(), h.embed_dim, nullptr, me);
        each_row(n, me, [&](size_t t) {
            memcpy(head_in.row(t), sub.data() + t * h.embed_dim, h.embed_dim * 4);
            ready(head_in, t, h.embed_dim);
        });
    }
    matmul(w.head, head_in, n, out, h.vocab_size, w.head_bias, me);
    if (h.logit_scale == 1 && h.logit_softcap == 0) return;
    each_row(n * h.vocab_size, me, [&](size_t i) {
        out[i] *= h.logit_scale;
        if (h.logit_softcap != 0) out[i] = soft_cap(out[i], h.logit_softcap);
    });
}

const float* Session::State::forward(const int32_t* tokens, size_t n, Scores want) {
    const bool causal = w.decoder.causal;
    const size_t start = causal ? length : 0;
    check_tokens(tokens, n, start);
    if (h.n_encoder_layers && !source_length) fail("an encoder-decoder reads a source text first");
    const size_t step = causal ? std::min(n, CHUNK) : n, rows = want == Scores::ALL ? n : want == Scores::LAST;
    reserve(step, std::max(start + n, source_length));
    if (!causal) scratch_cache.resize(n, kv);
    const bool whole = want == Scores::ALL || !causal; // hidden states of all tokens
    hidden.resize((whole ? n : 1) * h.dim);
    if (h.head) scores.resize(rows * h.vocab_size);
    for (size_t done = 0; done < n; done += step) {
        const Pass p = {w.decoder, tokens + done, start + done, std::min(step, n - done)};
        prepare_rotation(p.start, p.n, start + n);
        const bool last = done + p.n == n;
        const size_t kept = whole ? p.n : last, skip = p.n - kept, to = whole ? done : 0;
        const size_t scored = want == Scores::ALL ? p.n : want == Scores::LAST && last;
        run([&](Worker& me) {
            layers(p, me);
            each_row(kept, me, [&](size_t t) { memcpy(hidden.data() + (to + t) * h.dim, x.row(skip + t), h.dim * 4); });
            if (h.head && scored) head(x.row(p.n - scored), scored, scores.data() + (want == Scores::ALL ? done : 0) * h.vocab_size, me);
        }, p.n);
    }
    if (causal) length += n, written = std::max(written, length);
    if (want == Scores::NONE) return nullptr;
    return h.head ? scores.data() : hidden.data() + (want == Scores::LAST && !causal ? n - 1 : 0) * h.dim;
}

void Session::State::encode(const int32_t* tokens, size_t n) {
    if (!h.n_encoder_layers) fail("this model has no encoder");
    check_tokens(tokens, n, 0);
    source_length = length = written = 0;
    reserve(n, n);
    scratch_cache.resize(n, kv);
    for (LayerCache& c : cross) c.resize(n, kv);
    const Pass p = {w.encoder, tokens, 0, n};
    prepare_rotation(0, n, n);
    run([&](Worker& me) {
        layers(p, me);
        each_row(n, me, [&](size_t t) {
            memcpy(normed.row(t), x.row(t), h.dim * 4);
            ready(normed, t, h.dim);
        });
        for (size_t i = 0; i < cross.size(); i++) remember_source(w.decoder.layers[i], cross[i], n, me);
    }, n);
    source_length = n;
}

// As many threads as the work is worth; room for the steps of the longest way through a layer.
void Session::State::run(const std::function<void(Worker&)>& job, size_t n) {
    team.run(w.all_bytes / 4096 * n >= 1024, 32 + (h.n_encoder_layers + h.n_layers) * (32 + 5 * size_t(h.n_experts)), job);
}

Session::Session(const Model& model, SessionOptions options) {
    if (!model.header().n_tensors) fail("this checkpoint holds a tokenizer only, nothing to run");
    try {
        state_ = std::make_unique<State>(model, options);
    } catch (const std::bad_alloc&) { fail("not enough memory for a context of %u tokens", options.context ? options.context : std::min(model.header().context, 8192u)); }
}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

const float* Session::forward(const int32_t* tokens, size_t n, Scores scores) {
    try {
        return state_->forward(tokens, n, scores);
    } catch (const std::bad_alloc&) { fail("not enough memory for %zu tokens", n); }
}
void Session::encode(const int32_t* tokens, size_t n) {
    try {
        state_->encode(tokens, n);
    } catch (const std::bad_alloc&) { fail("not enough memory for %zu tokens", n); }
}
const float* Session::hidden() const { return state_->hidden.data(); }
size_t Session::length() const { return state_->length; }
size_t Session::context() const { return state_->context; }
uint32_t Session::width() const { return state_->h.head ? state_->h.vocab_size : state_->h.dim; }
uint32_t Session::threads() const { return state_->team.size(); }
size_t Session::cache_bytes() const {
    size_t n = 0;
    for (auto* caches : {&state_->cache, &state_->cross})
        for (LayerCache& c : *caches) n += c.keys.size() + c.values.size() + c.cells.size() * sizeof(float);
    return n;
}
void Session::rewind(size_t length) {
    State& s = *state_;
    if (length > s.length) fail("cannot rewind to %zu tokens, only %zu are held", length, s.length);
    for (size_t i = 0; i < s.cache.size(); i++) {
        const size_t window = s.w.decoder.layers[i].h.window, capacity = s.cache[i].capacity;
        if (window && length && s.written > capacity && length - std::min(length, window - 1) < s.written - capacity)
            fail("cannot rewind to %zu tokens: a window of %zu has moved past them", length, window);
    }
    s.length = length;
    if (!length) s.written = 0;
}

void Model::embedding(int32_t id, float* out) const {
    const Weights& w = *weights_;
    if (!w.embed.data || id < 0 || uint32_t(id) >= w.h.vocab_size) fail("token id %d has no row in the embedding table of %u", id, w.embed.rows);
    copy_row(w.embed, size_t(id), out);
}

uint32_t default_threads() { return processors().physical; }

// ---- choosing a token -------------------------------------------------------------------------------------------------------

Sampler::Sampler(SamplerOptions options) : options_(options), state_(options.seed) {
    auto check = [](const char* name, float value, float least, float most) {
        if (!(value >= least && value <= most)) fail("%s is %g, expected %g to %g", name, double(value), double(least), double(most));
    };
    check("temperature", options.temperature, 0, 1000);
    check("top-p", options.top_p, 0, 1);
    check("min-p", options.min_p, 0, 1);
    check("repeat penalty", options.repeat_penalty, 0.01f, 100);
}

void Sampler::accept(int32_t token) {
    recent_.push_back(token);
    if (recent_.size() > options_.repeat_window) recent_.erase(recent_.begin());
}

// Place of the largest number, the first of equals; 16 maxima side by side, which a compiler makes vector instructions of.
static size_t largest_at(const float* x, size_t n) {
    float most[16];
    std::fill_n(most, 16, -INFINITY);
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (size_t j = 0; j < 16; j++) most[j] = x[i + j] > most[j] ? x[i + j] : most[j];
    for (; i < n; i++) most[0] = x[i] > most[0] ? x[i] : most[0];
    const size_t at = size_t(std::find(x, x + n, *std::max_element(most, most + 16)) - x);
    return at < n ? at : 0; // not a number anywhere
}

int32_t Sampler::sample(const float* scores, size_t n) {
    const bool greedy = options_.temperature == 0 || options_.top_k == 1;
    if (greedy && options_.repeat_penalty == 1) return int32_t(largest_at(scores, n));
    auto& c = candidates_;
    c.resize(n);
    for (size_t i = 0; i < n; i++) c[i] = {std::isnan(scores[i]) ? -INFINITY : scores[i], int32_t(i)}; // what is not a number has no order
    if (options_.repeat_penalty != 1) {
        std::vector<int32_t> seen = recent_;
        std::sort(seen.begin(), seen.end());
        seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
        for (int32_t id : seen)
            if (id >= 0 && size_t(id) < n) c[size_t(id)].first *= c[size_t(id)].first > 0 ? 1 / options_.repeat_penalty : options_.repeat_penalty;
    }
    auto likelier = [](const std::pair<float, int32_t>& a, const std::pair<float, int32_t>& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; };
    const auto best = *std::min_element(c.begin(), c.end(), likelier);
    if (greedy || !std::isfinite(best.first)) return best.second;
    // softmax, then the head of the sorted distribution that top-k, top-p and min-p leave
    double sum = 0;
    for (auto& e : c) sum += e.first = std::exp((e.first - best.first) / options_.temperature);
    if (options_.top_p < 1) { // what is less likely than this can't be in the smallest set of mass top_p
        const double least = (1 - double(options_.top_p)) * sum / double(n);
        c.erase(std::remove_if(c.begin(), c.end(), [&](auto& e) { return e.first < least; }), c.end());
    }
    size_t kept = options_.top_k ? std::min<size_t>(options_.top_k, c.size()) : c.size();
    if (kept < c.size() || options_.top_p < 1) std::partial_sort(c.begin(), c.begin() + ptrdiff_t(kept), c.end(), likelier);
    if (options_.top_k) {
        sum = 0;
        for (size_t i = 0; i < kept; i++) sum += c[i].first;
    }
    if (options_.top_p < 1) {
        double mass = 0;
        size_t i = 0;
        while (i < kept && mass < options_.top_p * sum) mass += c[i++].first;
        kept = std::max<size_t>(i, 1);
    }
    c.resize(kept);
    c.erase(std::remove_if(c.begin(), c.end(), [&](auto& e) { return !(e.first >= options_.min_p); }), c.end()); // the best has 1
    sum = 0;
    for (auto& e : c) sum += e.first;
    uint64_t z = state_ += 0x9e3779b97f4a7c15; // splitmix64 (Steele et al. 2014)
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    z ^= z >> 31;
    double left = double(z >> 11) * 0x1p-53 * sum;
    for (auto& e : c)
        if ((left -= e.first) < 0) return e.second;
    return c.back().second;
}

} // namespace locus

// ---- C interface ------------------------------------------------------------------------------------------------------------

struct locus_model {
    locus::Model model;
    std::unique_ptr<locus::Tokenizer> tokenizer;
};
struct locus_session {
    locus::Session session;
};

namespace {
// Runs f; on an exception copies its message into error and returns failed.
template <class R, class F> R guard(R failed, char* error, size_t error_bytes, F f) {
    auto say = [&](const char* message) {
        if (error && error_bytes) snprintf(error, error_bytes, "%s", message);
        return failed;
    };
    try {
        return f();
    } catch (const std::bad_alloc&) { return say("not enough memory"); } catch (const std::exception& e) {
        return say(e.what());
    } catch (...) { return say("unknown error"); }
}
const locus::Tokenizer& tokenizer_of(const locus_model* m) {
    if (!m->tokenizer) throw locus::Error("this checkpoint has no tokenizer");
    return *m->tokenizer;
}
} // namespace

extern "C" {
locus_model* locus_model_open(const char* path, char* error, size_t error_bytes) {
    return guard<locus_model*>(nullptr, error, error_bytes, [&] {
        if (!path) throw locus::Error("no path");
        auto m = std::unique_ptr<locus_model>(new locus_model{locus::Model(path), nullptr});
        if (m->model.tokenizer_bytes()) m->tokenizer = std::make_unique<locus::Tokenizer>(m->model.tokenizer_data(), m->model.tokenizer_bytes());
        return m.release();
    });
}
void locus_model_close(locus_model* model) { delete model; }
uint32_t locus_vocab_size(const locus_model* model) { return model->model.header().vocab_size; }
uint32_t locus_width(const locus_model* model) {
    const locus::Header& h = model->model.header();
    return h.head ? h.vocab_size : h.dim;
}
int64_t locus_encode(const locus_model* model, const char* text, size_t n, int32_t* ids, size_t max, char* error, size_t error_bytes) {
    return guard<int64_t>(-1, error, error_bytes, [&] {
        const std::vector<int32_t> all = tokenizer_of(model).encode(std::string_view(text, n));
        std::copy_n(all.begin(), std::min(max, all.size()), ids);
        return int64_t(all.size());
    });
}
int64_t locus_decode(const locus_model* model, int32_t id, char* text, size_t max, char* error, size_t error_bytes) {
    return guard<int64_t>(-1, error, error_bytes, [&] {
        const std::string s = tokenizer_of(model).bytes(id);
        std::copy_n(s.begin(), std::min(max, s.size()), text);
        return int64_t(s.size());
    });
}
int32_t locus_end_token(const locus_model* model) { return model->tokenizer ? model->tokenizer->eos() : -1; }

locus_session* locus_session_open(const locus_model* model, uint32_t context, uint32_t threads, char* error, size_t error_bytes) {
    return guard<locus_session*>(nullptr, error, error_bytes, [&] { return new locus_session{locus::Session(model->model, {context, threads})}; });
}
void locus_session_close(locus_session* session) { delete session; }
const float* locus_forward(locus_session* session, const int32_t* tokens, size_t n, char* error, size_t error_bytes) {
    return guard<const float*>(nullptr, error, error_bytes, [&] { return session->session.forward(tokens, n); });
}
int locus_rewind(locus_session* session, size_t length, char* error, size_t error_bytes) {
    return guard(-1, error, error_bytes, [&] {
        session->session.rewind(length);
        return 0;
    });
}
} // extern "C"

#else // LOCUS_TARGET: the kernels, for the instruction set LOCUS_ISA
namespace locus {
namespace LOCUS_ISA {
namespace {

#define INLINE LOCUS_TARGET inline __attribute__((always_inline))

// ---- vectors of 16: floats, and sums of int8 products -----------------------------------------------------------------------
// dot_u4 and dot_s8 add, for 16 rows, the products of 4 columns of weights with 4 activations to a sum that zero_u4 or zero_s8 began; scaled gives
// d[0] a + d[1] b for the sums of the two halves of a block. A 4-bit weight counts as 1 / U4_UNIT.

#if LOCUS_LEVEL == 0
struct Floats { float v[PANEL]; };
#define EACH(expression) \
    Floats r; \
    for (uint32_t i = 0; i < PANEL; i++) r.v[i] = (expression); \
    return r
INLINE Floats set(float x) { EACH(x); }
INLINE Floats load(const float* p) { EACH(p[i]); }
INLINE Floats load_f16(const uint8_t* p) { EACH(half_to_float(uint16_t(p[2 * i] | p[2 * i + 1] << 8))); }
INLINE Floats load_bf16(const uint8_t* p) { EACH(bf16_to_float(uint16_t(p[2 * i] | p[2 * i + 1] << 8))); }
INLINE void store(float* p, Floats a) { for (uint32_t i = 0; i < PANEL; i++) p[i] = a.v[i]; }
INLINE Floats add(Floats a, Floats b) { EACH(a.v[i] + b.v[i]); }
INLINE Floats sub(Floats a, Floats b) { EACH(a.v[i] - b.v[i]); }
INLINE Floats mul(Floats a, Floats b) { EACH(a.v[i] * b.v[i]); }
INLINE Floats div(Floats a, Floats b) { EACH(a.v[i] / b.v[i]); }
INLINE Floats fma(Floats a, Floats b, Floats c) { EACH(a.v[i] * b.v[i] + c.v[i]); }
INLINE Floats max(Floats a, Floats b) { EACH(a.v[i] > b.v[i] ? a.v[i] : b.v[i]); }
INLINE Floats min(Floats a, Floats b) { EACH(a.v[i] < b.v[i] ? a.v[i] : b.v[i]); }
INLINE Floats abs(Floats a) { EACH(std::fabs(a.v[i])); }
INLINE Floats round(Floats a) { EACH(std::nearbyint(a.v[i])); }
INLINE Floats power_of_2(Floats a) { EACH(std::ldexp(1.f, int(a.v[i]))); }
INLINE Floats copy_sign(Floats a, Floats b) { EACH(std::copysign(a.v[i], b.v[i])); }
INLINE void store_s8(int8_t* p, Floats a) { for (uint32_t i = 0; i < PANEL; i++) p[i] = std::isnan(a.v[i]) ? 0 : int8_t(a.v[i]); } // whole numbers
INLINE void store_f16(uint16_t* p, Floats a) { for (uint32_t i = 0; i < PANEL; i++) p[i] = float_to_half(a.v[i]); }
INLINE float sum(Floats a) {
    for (uint32_t n = PANEL / 2; n; n /= 2)
        for (uint32_t i = 0; i < n; i++) a.v[i] += a.v[i + n];
    return a.v[0];
}
INLINE float largest(Floats a) { return *std::max_element(a.v, a.v + PANEL); }
#undef EACH
struct Ints { int32_t v[PANEL]; };
struct Bytes { const uint8_t* low; const uint8_t* high; }; // one of them: bytes, or low halves; high halves
using IntsU4 = Ints;
INLINE Ints zero_u4() { return {}; }
INLINE Ints zero_s8() { return {}; }
constexpr float U4_UNIT = 1;
INLINE Bytes load_low(const uint8_t* p) { return {p, nullptr}; }
INLINE Bytes load_high(const uint8_t* p) { return {nullptr, p}; }
INLINE Bytes load_s8(const uint8_t* p) { return {p, nullptr}; }
INLINE Ints dot_u4(Ints a, Bytes w, const int8_t* x) {
    for (uint32_t i = 0; i < PANEL; i++)
        for (uint32_t j = 0; j < 4; j++) a.v[i] += (w.low ? w.low[4 * i + j] & 15 : w.high[4 * i + j] >> 4) * x[j];
    return a;
}
INLINE Ints dot_s8(Ints a, Bytes w, const int8_t* x) {
    for (uint32_t i = 0; i < PANEL; i++)
        for (uint32_t j = 0; j < 4; j++) a.v[i] += int8_t(w.low[4 * i + j]) * x[j];
    return a;
}
INLINE Floats scaled(Ints a, Ints b, const float* d, float) {
    Floats r;
    for (uint32_t i = 0; i < PANEL; i++) r.v[i] = d[0] * float(a.v[i]) + d[1] * float(b.v[i]);
    return r;
}
// Panels side by side for one row, two to four, many; rows side by side
constexpr int SOLO = 1, FEW = 1, PAIR = 1, MANY = 4, PAIR_INT = 1, MANY_INT = 4;
#endif

#if LOCUS_LEVEL == 1
struct Floats { __m256 a, b; };
INLINE Floats set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
INLINE Floats load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
INLINE Floats load_f16(const uint8_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p) + 1))};
}
INLINE __m256 widen_bf16(const uint8_t* p) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 16)); }
INLINE Floats load_bf16(const uint8_t* p) { return {widen_bf16(p), widen_bf16(p + 16)}; }
INLINE void store(float* p, Floats v) { _mm256_storeu_ps(p, v.a), _mm256_storeu_ps(p + 8, v.b); }
INLINE Floats add(Floats x, Floats y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
INLINE Floats sub(Floats x, Floats y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
INLINE Floats mul(Floats x, Floats y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
INLINE Floats div(Floats x, Floats y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
INLINE Floats fma(Floats x, Floats y, Floats z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
INLINE Floats max(Floats x, Floats y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
INLINE Floats min(Floats x, Floats y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
INLINE __m256 sign_bit() { return _mm256_set1_ps(-0.f); }
INLINE Floats abs(Floats x) { return {_mm256_andnot_ps(sign_bit(), x.a), _mm256_andnot_ps(sign_bit(), x.b)}; }
INLINE __m256 round8(__m256 x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
INLINE Floats round(Floats x) { return {round8(x.a), round8(x.b)}; }
INLINE __m256 power8(__m256 x) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(x), _mm256_set1_epi32(127)), 23)); }
INLINE Floats power_of_2(Floats x) { return {power8(x.a), power8(x.b)}; }
INLINE __m256 sign8(__m256 x, __m256 y) { return _mm256_or_ps(_mm256_andnot_ps(sign_bit(), x), _mm256_and_ps(sign_bit(), y)); }
INLINE Floats copy_sign(Floats x, Floats y) { return {sign8(x.a, y.a), sign8(x.b, y.b)}; }
INLINE void store_s8(int8_t* p, Floats x) {
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)), 0xd8);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}
INLINE void store_f16(uint16_t* p, Floats x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p) + 1, _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
}
INLINE float sum(Floats x) {
    const __m256 s = _mm256_add_ps(x.a, x.b);
    __m128 t = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    t = _mm_add_ps(t, _mm_movehl_ps(t, t));
    return _mm_cvtss_f32(_mm_add_ss(t, _mm_movehdup_ps(t)));
}
INLINE float largest(Floats x) {
    const __m256 s = _mm256_max_ps(x.a, x.b);
    __m128 t = _mm_max_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    t = _mm_max_ps(t, _mm_movehl_ps(t, t));
    return _mm_cvtss_f32(_mm_max_ss(t, _mm_movehdup_ps(t)));
}
struct Ints { __m256i a, b; };   // 16 sums of 32 bits
struct IntsU4 { __m256i a, b; }; // 16 pairs of sums of 16 bits: 4 steps of 2 x 15 x 127 fit
struct Bytes { __m256i a, b; };
INLINE __m256i load_bytes(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
INLINE __m256i low_half(__m256i x) { return _mm256_and_si256(x, _mm256_set1_epi8(15)); }
INLINE IntsU4 zero_u4() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
INLINE Ints zero_s8() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
constexpr float U4_UNIT = 1;
INLINE Bytes load_low(const uint8_t* p) { return {low_half(load_bytes(p)), low_half(load_bytes(p + 32))}; }
INLINE Bytes load_high(const uint8_t* p) { return {low_half(_mm256_srli_epi16(load_bytes(p), 4)), low_half(_mm256_srli_epi16(load_bytes(p + 32), 4))}; }
INLINE Bytes load_s8(const uint8_t* p) { return {load_bytes(p), load_bytes(p + 32)}; }
INLINE __m256i four(const int8_t* x) {
    int32_t v;
    memcpy(&v, x, 4);
    return _mm256_set1_epi32(v);
}
INLINE IntsU4 dot_u4(IntsU4 s, Bytes w, const int8_t* x) {
    const __m256i v = four(x);
    return {_mm256_add_epi16(s.a, _mm256_maddubs_epi16(w.a, v)), _mm256_add_epi16(s.b, _mm256_maddubs_epi16(w.b, v))};
}
INLINE __m256i dot8(__m256i s, __m256i w, __m256i x) { // |w| (x sign w): 2 x 128 x 127 fit into 16 bits
    return _mm256_add_epi32(s, _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w)), _mm256_set1_epi16(1)));
}
INLINE Ints dot_s8(Ints s, Bytes w, const int8_t* x) {
    const __m256i v = four(x);
    return {dot8(s.a, w.a, v), dot8(s.b, w.b, v)};
}
INLINE Floats floats(Ints s) { return {_mm256_cvtepi32_ps(s.a), _mm256_cvtepi32_ps(s.b)}; }
INLINE Floats floats(IntsU4 s) {
    const __m256i one = _mm256_set1_epi16(1);
    return floats(Ints{_mm256_madd_epi16(s.a, one), _mm256_madd_epi16(s.b, one)});
}
template <class S> INLINE Floats scaled(S a, S b, const float* d, float) { return fma(floats(b), set(d[1]), mul(floats(a), set(d[0]))); }
constexpr int SOLO = 4, FEW = 2, PAIR = 1, MANY = 6, PAIR_INT = 1, MANY_INT = 4;
#endif

#if LOCUS_LEVEL == 2
struct Floats { __m512 v; };
INLINE Floats set(float x) { return {_mm512_set1_ps(x)}; }
INLINE Floats load(const float* p) { return {_mm512_loadu_ps(p)}; }
INLINE Floats load_f16(const uint8_t* p) { return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))}; }
INLINE Floats load_bf16(const uint8_t* p) { return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16))}; }
INLINE void store(float* p, Floats x) { _mm512_storeu_ps(p, x.v); }
INLINE Floats add(Floats x, Floats y) { return {_mm512_add_ps(x.v, y.v)}; }
INLINE Floats sub(Floats x, Floats y) { return {_mm512_sub_ps(x.v, y.v)}; }
INLINE Floats mul(Floats x, Floats y) { return {_mm512_mul_ps(x.v, y.v)}; }
INLINE Floats div(Floats x, Floats y) { return {_mm512_div_ps(x.v, y.v)}; }
INLINE Floats fma(Floats x, Floats y, Floats z) { return {_mm512_fmadd_ps(x.v, y.v, z.v)}; }
INLINE Floats max(Floats x, Floats y) { return {_mm512_max_ps(x.v, y.v)}; }
INLINE Floats min(Floats x, Floats y) { return {_mm512_min_ps(x.v, y.v)}; }
INLINE Floats abs(Floats x) { return {_mm512_abs_ps(x.v)}; }
INLINE Floats round(Floats x) { return {_mm512_roundscale_ps(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
INLINE Floats power_of_2(Floats x) { return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(x.v), _mm512_set1_epi32(127)), 23))}; }
INLINE Floats copy_sign(Floats x, Floats y) {
    const __m512 sign = _mm512_set1_ps(-0.f);
    return {_mm512_or_ps(_mm512_andnot_ps(sign, x.v), _mm512_and_ps(sign, y.v))};
}
INLINE void store_s8(int8_t* p, Floats x) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(x.v))); }
INLINE void store_f16(uint16_t* p, Floats x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT)); }
INLINE float sum(Floats x) { return _mm512_reduce_add_ps(x.v); }
INLINE float largest(Floats x) { return _mm512_reduce_max_ps(x.v); }
struct Ints { __m512i v; };
using IntsU4 = Ints;
struct Bytes { __m512i v; };
// Sums begin with the bits of 1.5 * 2^23: read as a float, they are that number plus the sum, and scaled() takes it off again. What this
// rounds away is about 1 of the sum's units.
INLINE Ints zero_u4() { return {_mm512_set1_epi32(0x4b400000)}; }
INLINE Ints zero_s8() { return zero_u4(); } // weights go in as q + 128, start_s8 takes off the 128
INLINE __m512i high_half(__m512i x) { return _mm512_and_si512(x, _mm512_set1_epi8(-16)); }
INLINE Bytes load_low(const uint8_t* p) { return {high_half(_mm512_slli_epi16(_mm512_loadu_si512(p), 4))}; }
INLINE Bytes load_high(const uint8_t* p) { return {high_half(_mm512_loadu_si512(p))}; }
constexpr float U4_UNIT = 1 / 16.f;
INLINE Bytes load_s8(const uint8_t* p) { return {_mm512_xor_si512(_mm512_loadu_si512(p), _mm512_set1_epi8(-128))}; }
INLINE Ints dot_u4(Ints s, Bytes w, const int8_t* x) {
    int32_t v;
    memcpy(&v, x, 4);
    return {_mm512_dpbusd_epi32(s.v, w.v, _mm512_set1_epi32(v))};
}
INLINE Ints dot_s8(Ints s, Bytes w, const int8_t* x) { return dot_u4(s, w, x); }
INLINE Floats scaled(Ints a, Ints b, const float* d, float start) { return fma({_mm512_castsi512_ps(b.v)}, set(d[1]), fma({_mm512_castsi512_ps(a.v)}, set(d[0]), set(start))); }
constexpr int SOLO = 4, FEW = 4, PAIR = 2, MANY = 12, PAIR_INT = 2, MANY_INT = 8;
#endif

INLINE Floats load_part(const float* p, size_t n, float rest = 0) { // n < 16 of them
    float v[PANEL];
    for (size_t i = 0; i < PANEL; i++) v[i] = i < n ? p[i] : rest;
    return load(v);
}
INLINE void store_part(float* p, Floats x, size_t n) {
    float v[PANEL];
    store(v, x);
    memcpy(p, v, n * sizeof(float));
}
// e^x to 1e-7 of its value: 2^round(x / ln 2) times a polynomial of the rest.
INLINE Floats exp(Floats x) {
    x = max(min(x, set(88)), set(-87));
    const Floats n = round(mul(x, set(1.44269504f)));
    const Floats r = fma(n, set(1.90465421e-9f), fma(n, set(-0.693147182f), x));
    Floats p = set(1.f / 5040);
    p = fma(p, r, set(1.f / 720)), p = fma(p, r, set(1.f / 120)), p = fma(p, r, set(1.f / 24)), p = fma(p, r, set(1.f / 6));
    p = fma(p, r, set(0.5f)), p = fma(p, r, set(1)), p = fma(p, r, set(1));
    return mul(p, power_of_2(n));
}
INLINE Floats tanh(Floats x) { return sub(set(1), div(set(2), add(exp(add(x, x)), set(1)))); }
INLINE Floats sigmoid(Floats x) { return div(set(1), add(set(1), exp(sub(set(0), x)))); }
// erf to 1.5e-7 (Abramowitz and Stegun 1964, 7.1.26)
INLINE Floats erf(Floats x) {
    const Floats a = abs(x), t = div(set(1), fma(a, set(0.3275911f), set(1)));
    Floats p = set(1.061405429f);
    p = fma(p, t, set(-1.453152027f)), p = fma(p, t, set(1.421413741f)), p = fma(p, t, set(-0.284496736f)), p = fma(p, t, set(0.254829592f));
    return copy_sign(sub(set(1), mul(mul(p, t), exp(sub(set(0), mul(a, a))))), x);
}

// ---- matrix times rows ------------------------------------------------------------------------------------------------------
// Each result is one chain of multiply-adds over the columns in order, whatever the number of tokens side by side.

struct F32 {
    static constexpr size_t bytes = 4;
    INLINE static Floats get(const uint8_t* p) { return load(reinterpret_cast<const float*>(p)); }
};
struct F16 {
    static constexpr size_t bytes = 2;
    INLINE static Floats get(const uint8_t* p) { return load_f16(p); }
};
struct BF16 {
    static constexpr size_t bytes = 2;
    INLINE static Floats get(const uint8_t* p) { return load_bf16(p); }
};

// y[T][16 P] += w[P panels] x[T]
template <class W> struct FloatTile {
    template <int P, int T> INLINE static void run(const uint8_t* w, size_t panel_bytes, size_t cols, const Rows& x, size_t t, Floats (&y)[T][P]) {
        const float* in[T];
        for (int i = 0; i < T; i++) in[i] = x.f + (t + size_t(i)) * x.stride;
        for (size_t c = 0; c < cols; c++) {
            Floats v[P];
#pragma GCC unroll 4
            for (int p = 0; p < P; p++) v[p] = W::get(w + size_t(p) * panel_bytes + c * PANEL * W::bytes);
#pragma GCC unroll 12
            for (int i = 0; i < T; i++) {
                const Floats a = set(in[i][c]);
#pragma GCC unroll 4
                for (int p = 0; p < P; p++) y[i][p] = fma(v[p], a, y[i][p]);
            }
        }
    }
};
// Columns 16 h .. 16 h + 15 of a block are its half h; 4 of them at a time are a group.
struct Q8 {
    using Sum = Ints;
    static constexpr size_t bytes = Q8_BYTES;
    static constexpr bool minima = false;
    INLINE static Sum zero() { return zero_s8(); }
    INLINE static Bytes get(const uint8_t* block, size_t half, size_t group) { return load_s8(block + Q8_HEAD + 64 * (4 * half + group)); }
    INLINE static Sum dot(Sum s, Bytes w, const int8_t* x) { return dot_s8(s, w, x); }
    INLINE static Floats scale(const uint8_t* block) { return load_f16(block); }
    INLINE static float start(const BlockScale& x) { return x.start_s8; }
};
struct Q4 {
    using Sum = IntsU4;
    static constexpr size_t bytes = Q4_BYTES;
    static constexpr bool minima = true; // they follow the scales
    INLINE static Sum zero() { return zero_u4(); }
    INLINE static Bytes get(const uint8_t* block, size_t half, size_t group) { return half ? load_high(block + Q4_HEAD + 64 * group) : load_low(block + Q4_HEAD + 64 * group); }
    INLINE static Sum dot(Sum s, Bytes w, const int8_t* x) { return dot_u4(s, w, x); }
    INLINE static Floats scale(const uint8_t* block) { return mul(load_f16(block), set(U4_UNIT)); }
    INLINE static float start(const BlockScale& x) { return x.start_u4; }
};

template <class W> struct IntTile {
    template <int P, int T> INLINE static void run(const uint8_t* w, size_t panel_bytes, size_t cols, const Rows& x, size_t t, Floats (&y)[T][P]) {
        for (size_t b = 0; b < (cols + BLOCK - 1) / BLOCK; b++) {
            const BlockScale* scale = x.scale + b * x.step + t;
            const int8_t* q = x.q + (b * x.step + t) * BLOCK;
            const uint8_t* block = w + b * W::bytes;
            typename W::Sum s[2][T][P];
#pragma GCC unroll 2
            for (size_t half = 0; half < 2; half++) {
#pragma GCC unroll 12
                for (size_t i = 0; i < T; i++)
#pragma GCC unroll 4
                    for (size_t p = 0; p < P; p++) s[half][i][p] = W::zero();
#pragma GCC unroll 4
                for (size_t g = 0; g < 4; g++) {
                    Bytes v[P];
#pragma GCC unroll 4
                    for (size_t p = 0; p < P; p++) v[p] = W::get(block + p * panel_bytes, half, g);
#pragma GCC unroll 12
                    for (size_t i = 0; i < T; i++)
#pragma GCC unroll 4
                        for (size_t p = 0; p < P; p++) s[half][i][p] = W::dot(s[half][i][p], v[p], q + i * BLOCK + 16 * half + 4 * g);
                }
            }
#pragma GCC unroll 4
            for (size_t p = 0; p < P; p++) {
                const Floats d = W::scale(block + p * panel_bytes);
#pragma GCC unroll 12
                for (size_t i = 0; i < T; i++) {
                    y[i][p] = fma(scaled(s[0][i][p], s[1][i][p], scale[i].d, W::start(scale[i])), d, y[i][p]);
                    if (W::minima) y[i][p] = fma(load_f16(block + p * panel_bytes + PANEL * 2), set(scale[i].d_sum), y[i][p]);
                }
            }
        }
    }
};

// P panels from panel on, T rows from row t on; rows of y beyond the matrix's are not touched.
template <class Tile, int P, int T>
LOCUS_TARGET void tile(const Matrix& w, size_t panel, const Rows& x, size_t t, float* y, size_t y_stride, const float* start, size_t start_stride) {
    Floats s[T][P];
    const size_t row = panel * PANEL, whole = w.rows - row < P * PANEL ? (w.rows - row) / PANEL : P, part = w.rows - row - whole * PANEL;
#pragma GCC unroll 12
    for (int i = 0; i < T; i++)
#pragma GCC unroll 4
        for (int p = 0; p < P; p++) {
            const size_t at = (t + size_t(i)) * start_stride + row + size_t(p) * PANEL;
            s[i][p] = !start ? set(0) : size_t(p) < whole ? load(start + at) : load_part(start + at, part);
        }
    Tile::run(w.data + panel * w.panel_bytes, w.panel_bytes, w.cols, x, t, s);
#pragma GCC unroll 12
    for (int i = 0; i < T; i++)
#pragma GCC unroll 4
        for (int p = 0; p < P; p++) {
            float* to = y + (t + size_t(i)) * y_stride + row + size_t(p) * PANEL;
            if (size_t(p) < whole) store(to, s[i][p]);
            else store_part(to, s[i][p], part);
        }
}

template <class Tile, int P, int M>
LOCUS_TARGET void tiles(const Matrix& w, size_t panel, const Rows& x, size_t n, float* y, size_t y_stride, const float* start, size_t start_stride) {
    size_t t = 0;
    for (; t + M <= n; t += M) tile<Tile, P, M>(w, panel, x, t, y, y_stride, start, start_stride);
    for (; t + 4 <= n; t += 4) tile<Tile, P, 4>(w, panel, x, t, y, y_stride, start, start_stride);
    for (; t + 2 <= n; t += 2) tile<Tile, P, 2>(w, panel, x, t, y, y_stride, start, start_stride);
    for (; t < n; t++) tile<Tile, P, 1>(w, panel, x, t, y, y_stride, start, start_stride);
}

// All of T rows of x, P panels at a time; returns the first panel that is left.
template <class Tile, int P, int T>
LOCUS_TARGET size_t strip(const Matrix& w, size_t p, size_t end, const Rows& x, float* y, size_t y_stride, const float* start, size_t start_stride) {
    for (; p + P <= end; p += P) tile<Tile, P, T>(w, p, x, 0, y, y_stride, start, start_stride);
    return p;
}

// P panels by M rows, or S by one, or F by two to four: enough sums at once that none waits for its last addition.
template <class Tile, int P, int M, int F, int S>
LOCUS_TARGET void multiply(const Matrix& w, uint32_t begin, uint32_t end, const Rows& x, size_t n, float* y, size_t y_stride, const float* start, size_t start_stride) {
    size_t p = begin;
    if (n == 1) p = strip<Tile, S, 1>(w, p, end, x, y, y_stride, start, start_stride);
    if (n == 2) p = strip<Tile, F, 2>(w, p, end, x, y, y_stride, start, start_stride);
    if (n == 3) p = strip<Tile, F, 3>(w, p, end, x, y, y_stride, start, start_stride);
    if (n == 4) p = strip<Tile, F, 4>(w, p, end, x, y, y_stride, start, start_stride);
    for (; p + P <= end; p += P) tiles<Tile, P, M>(w, p, x, n, y, y_stride, start, start_stride);
    for (; p < end; p++) tiles<Tile, 1, M>(w, p, x, n, y, y_stride, start, start_stride);
}

LOCUS_TARGET void matmul(const Matrix& w, uint32_t begin, uint32_t end, const Rows& x, size_t n, float* y, size_t y_stride, const float* start, size_t start_stride) {
    switch (w.type) {
    case TYPE_F32: return multiply<FloatTile<F32>, PAIR, MANY, FEW, SOLO>(w, begin, end, x, n, y, y_stride, start, start_stride);
    case TYPE_F16: return multiply<FloatTile<F16>, PAIR, MANY, FEW, SOLO>(w, begin, end, x, n, y, y_stride, start, start_stride);
    case TYPE_BF16: return multiply<FloatTile<BF16>, PAIR, MANY, FEW, SOLO>(w, begin, end, x, n, y, y_stride, start, start_stride);
    case TYPE_Q8: return multiply<IntTile<Q8>, PAIR_INT, MANY_INT, PAIR_INT, SOLO>(w, begin, end, x, n, y, y_stride, start, start_stride);
    case TYPE_Q4: return multiply<IntTile<Q4>, PAIR_INT, MANY_INT, PAIR_INT, SOLO>(w, begin, end, x, n, y, y_stride, start, start_stride);
    }
}

// ---- attention to a span of keys ---------------------------------------------------------------------------------------------

// Latent attention: out += exponentials times keys, whose panels lie across.
template <class W> LOCUS_TARGET void add_keys(const AttentionTile& a, size_t slot, const float* exponentials, size_t n, size_t width) {
    for (uint32_t r = 0; r < a.rows; r++)
        for (size_t i = 0; i < a.value_dim; i++) {
            Floats t = set(0);
            for (size_t j = 0; j < n; j += PANEL) t = fma(W::get(a.keys + ((slot + j) * a.key_dim + i * PANEL) * W::bytes), load(exponentials + r * SPAN + j), t);
            a.out[r * width + i] += sum(t);
        }
}

// The scores of a query become their exponentials; returns the largest score and the exponentials' sum.
LOCUS_TARGET std::pair<float, float> exponentials(const AttentionTile& a, uint32_t r, int64_t from, size_t n, float* s) {
    const size_t whole = round_up(n, PANEL), begin = size_t(std::max<int64_t>(0, a.first[r] - from)), end = size_t(std::max<int64_t>(0, std::min<int64_t>(int64_t(n), a.last[r] + 1 - from)));
    if (begin >= end) {
        std::fill_n(s, whole, 0.f);
        return {-INFINITY, 0.f};
    }
    if (a.softcap != 0)
        for (size_t i = begin; i < end; i++) s[i] = soft_cap(s[i], a.softcap);
    if (a.bias)
        for (size_t i = begin; i < end; i++) s[i] += a.bias[r][from + int64_t(i)];
    if (a.slope)
        for (size_t i = begin; i < end; i++) // as far as a softmax can tell, slope times distance (Press et al. 2021)
            s[i] += a.slope_bf16 != 0 ? a.slope_bf16 * round_to_bf16(a.slope[r] * float(from + int64_t(i))) : a.slope[r] * -float(std::abs(from + int64_t(i) - a.position[r]));
    std::fill_n(s, begin, -INFINITY), std::fill(s + end, s + whole, -INFINITY);
    Floats most = load(s), total = set(0);
    for (size_t i = PANEL; i < whole; i += PANEL) most = max(most, load(s + i));
    const float largest_score = largest(most);
    most = set(largest_score);
    for (size_t i = 0; i < whole; i += PANEL) {
        const Floats e = exp(sub(load(s + i), most));
        total = add(total, e); // e^-87 for each key that is masked
        store(s + i, e);
    }
    std::fill_n(s, begin, 0.f), std::fill(s + end, s + whole, 0.f);
    return {largest_score, sum(total)};
}

LOCUS_TARGET void attention(const AttentionTile& a, int64_t from, int64_t to) {
    const size_t padded = round_up(a.value_dim, PANEL), width = padded + 2, element = a.type == TYPE_F16 ? 2 : 4;
    Matrix keys, values;
    keys.type = values.type = a.type;
    keys.cols = a.key_dim, keys.panel_bytes = a.key_dim * PANEL * element;
    values.rows = uint32_t(padded), values.panel_bytes = a.capacity * PANEL * element;
    auto each_piece = [&](auto f) { // of the span, where the cache's end cuts it in two
        const size_t n = size_t(to - from), slot = size_t(from) % a.capacity, piece = std::min(n, a.capacity - slot);
        f(slot, piece, a.scores);
        if (piece < n) f(size_t(0), n - piece, a.scores + piece);
    };
    each_piece([&](size_t slot, size_t n, float* scores) {
        keys.rows = uint32_t(round_up(n, PANEL)), keys.data = a.keys + slot * a.key_dim * element;
        matmul(keys, 0, keys.panels(), {a.q, a.key_dim, nullptr, nullptr, 0}, a.rows, scores, SPAN, nullptr, 0);
    });
    for (uint32_t r = 0; r < a.rows; r++) {
        float* out = a.out + r * width;
        std::fill_n(out, padded, 0.f);
        std::tie(out[padded], out[padded + 1]) = exponentials(a, r, from, size_t(to - from), a.scores + r * SPAN);
    }
    each_piece([&](size_t slot, size_t n, const float* scores) {
        if (a.values) {
            values.cols = uint32_t(n), values.data = a.values + slot * PANEL * element;
            matmul(values, 0, values.panels(), {scores, SPAN, nullptr, nullptr, 0}, a.rows, a.out, width, a.out, width);
        } else if (a.type == TYPE_F16) add_keys<F16>(a, slot, scores, n, width);
        else add_keys<F32>(a, slot, scores, n, width);
    });
}

// ---- rows: norms, activations, int8 -------------------------------------------------------------------------------------------

// Layer norm (Ba et al. 2016, eq. 3 and 4) or RMS norm (Zhang and Sennrich 2019, eq. 4).
LOCUS_TARGET void norm(const float* x, size_t n, uint32_t kind, float eps, const NormWeights& w, float* y) {
    const size_t whole = n / PANEL * PANEL, part = n - whole;
    float mean = 0;
    if (kind == NORM_LAYER) {
        Floats s = set(0);
        for (size_t i = 0; i < whole; i += PANEL) s = add(s, load(x + i));
        if (part) s = add(s, load_part(x + whole, part));
        mean = sum(s) / float(n);
    }
    Floats s = set(0);
    for (size_t i = 0; i < whole; i += PANEL) {
        const Floats d = sub(load(x + i), set(mean));
        s = fma(d, d, s);
    }
    if (part) {
        const Floats d = sub(load_part(x + whole, part, mean), set(mean));
        s = fma(d, d, s);
    }
    const Floats scale = set(1 / std::sqrt(sum(s) / float(n) + eps));
    for (size_t i = 0; i < whole; i += PANEL) store(y + i, fma(mul(sub(load(x + i), set(mean)), scale), load(w.weight + i), w.bias ? load(w.bias + i) : set(0)));
    if (part)
        store_part(y + whole, fma(mul(sub(load_part(x + whole, part), set(mean)), scale), load_part(w.weight + whole, part), w.bias ? load_part(w.bias + whole, part) : set(0)), part);
}

LOCUS_TARGET void to_half(const float* x, size_t n, uint16_t* y) {
    size_t i = 0;
    for (; i + PANEL <= n; i += PANEL) store_f16(y + i, load(x + i));
    if (i == n) return;
    uint16_t rest[PANEL];
    store_f16(rest, load_part(x + i, n - i));
    memcpy(y + i, rest, (n - i) * 2);
}

INLINE Floats activation(Floats x, uint32_t kind) {
    const Floats half = mul(x, set(0.5f));
    switch (kind) {
    case ACT_SILU: return mul(x, sigmoid(x));
    case ACT_GELU: return fma(half, erf(mul(x, set(0.707106781f))), half);
    case ACT_GELU_TANH: return fma(half, tanh(mul(x, fma(mul(x, x), set(0.7978845608f * 0.044715f), set(0.7978845608f)))), half);
    case ACT_RELU2: return mul(max(x, set(0)), max(x, set(0)));
    case ACT_GELU_SIGMOID: return mul(x, sigmoid(mul(x, set(1.702f))));
    default: return max(x, set(0));
    }
}
LOCUS_TARGET void activate(float* x, size_t n, uint32_t kind, const float* times) {
    const size_t whole = n / PANEL * PANEL, part = n - whole;
    for (size_t i = 0; i < whole; i += PANEL) store(x + i, times ? mul(activation(load(x + i), kind), load(times + i)) : activation(load(x + i), kind));
    if (!part) return;
    const Floats a = activation(load_part(x + whole, part), kind);
    store_part(x + whole, times ? mul(a, load_part(times + whole, part)) : a, part);
}

LOCUS_TARGET void scale_add(const float* x, float scale, const float* add, size_t n, float* y) {
    const size_t whole = n / PANEL * PANEL, part = n - whole;
    for (size_t i = 0; i < whole; i += PANEL) store(y + i, fma(load(x + i), set(scale), add ? load(add + i) : set(0)));
    if (part) store_part(y + whole, fma(load_part(x + whole, part), set(scale), add ? load_part(add + whole, part) : set(0)), part);
}

LOCUS_TARGET void quantize(const float* x, size_t n, int8_t* q, BlockScale* scale, size_t step) {
    for (size_t at = 0; at < n; at += BLOCK, q += step * BLOCK, scale += step) {
        Floats total = set(0);
        for (size_t half = 0; half < 2; half++) {
            const size_t i = at + half * PANEL;
            const Floats in = i + PANEL <= n ? load(x + i) : i < n ? load_part(x + i, n - i) : set(0);
            const float size = largest(abs(in)), d = size * (1 / 127.f);
            const Floats whole = round(mul(in, set(size >= 1e-30f && size < INFINITY ? 127 / size : 0)));
            store_s8(q + half * PANEL, whole);
            total = fma(whole, set(d), total);
            scale->d[half] = d;
        }
        scale->d_sum = sum(total);
        if (!std::isfinite(scale->d_sum)) scale->d[0] = scale->d[1] = NAN; // what is not a number spoils the result, as it does in float
        scale->start_u4 = -0x1.8p23f * (scale->d[0] + scale->d[1]), scale->start_s8 = scale->start_u4 - 128 * scale->d_sum;
    }
}

#define TEXT_(name) #name
#define TEXT(name) TEXT_(name)
constexpr Kernels kernels = {TEXT(LOCUS_ISA), matmul, attention, to_half, norm, activate, quantize, scale_add};
#undef TEXT
#undef TEXT_
#undef INLINE

} // namespace
} // namespace LOCUS_ISA
} // namespace locus
#endif
