// Locus: an inference runtime for small transformer language models.
// This header is the whole public face: the checkpoint's layout, Model (the file), Session (the cache), Sampler, and a C interface.
// Copy runtime.cpp, model.h and tokenizer.h into a project and compile: g++ -std=c++17 -O2 -pthread app.cpp runtime.cpp
#ifndef LOCUS_MODEL_H
#define LOCUS_MODEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace locus {

// ---- the checkpoint file ------------------------------------------------------------------------------------------
// Little-endian. Header, then LayerHeader[n_encoder_layers + n_layers], TensorEntry[n_tensors], the tokenizer's section
// (its layout: tokenizer.h), and the tensors, each aligned to 64 bytes. The header holds features, never a model's name:
// what it says is what the code does. tools/convert.py reads the structs and enums below from this file, so a field is
// declared once; keep one declaration a line.

constexpr char MAGIC[8] = {'L', 'O', 'C', 'U', 'S', '\r', '\n', 0};
constexpr uint32_t VERSION = 1;
constexpr uint32_t PANEL = 16;    // rows of a matrix that stand side by side in the file
constexpr uint32_t BLOCK = 32;    // columns that share a scale in q8 and q4
constexpr uint32_t AS_TRAINED = ~0u; // SessionOptions.positions and rope_scaling: what the header says
constexpr uint32_t NO_ROPE = ~0u; // LayerHeader.rope of a layer without rotary positions

// Storage of a tensor. A matrix [rows, cols] is cut into panels of 16 rows (the last one padded with zero rows):
//   f32, f16, bf16   for each column, the 16 rows' values
//   q8   for each block of 32 columns: 16 f16 scales d, then 8 groups of 64 bytes; byte 4 r + c of group g is the int8 q of row r,
//        column 4 g + c; weight = d q. 8.5 bits a weight.
//   q4   for each block: 16 f16 scales d, 16 f16 minima m, then 4 groups of 64 bytes; byte 4 r + c of group g holds row r, column
//        4 g + c in its low half and column 16 + 4 g + c in its high half, q in 0..15; weight = d q + m. 5 bits a weight.
// The columns of q8 and q4 are padded to whole blocks (d = m = 0).
enum Type : uint32_t { TYPE_F32 = 0, TYPE_F16 = 1, TYPE_BF16 = 2, TYPE_Q8 = 3, TYPE_Q4 = 4 };
enum Layout : uint32_t { LAYOUT_PLAIN = 0, LAYOUT_PANELS = 1 }; // plain: f32, row-major (vectors and tables that are looked up)
enum Positions : uint32_t { POSITIONS_NONE = 0, POSITIONS_SINUSOIDAL = 1, POSITIONS_LEARNED = 2, POSITIONS_ROTARY = 3, POSITIONS_ALIBI = 4, POSITIONS_RELATIVE = 5 };
enum Sinusoid : uint32_t { SINUSOID_INTERLEAVED = 0, SINUSOID_HALVES = 1, SINUSOID_FAIRSEQ = 2 }; // sin, cos by turns (Vaswani et al. 2017, 3.5); all sin, then all cos; the same with frequencies over d/2 - 1 (tensor2tensor, fairseq)
enum RopeScaling : uint32_t { ROPE_PLAIN = 0, ROPE_LINEAR = 1, ROPE_DYNAMIC = 2, ROPE_YARN = 3, ROPE_LLAMA3 = 4, ROPE_LONGROPE = 5, ROPE_NTK = 6 }; // ntk: a session's choice, in no file
enum Norm : uint32_t { NORM_LAYER = 0, NORM_RMS = 1 };
enum NormPlace : uint32_t { NORM_PRE = 0, NORM_POST = 1, NORM_SANDWICH = 2, NORM_OUTPUT = 3 }; // before a sublayer; after the residual sum; before it and on its output; on its output alone
enum Parallel : uint32_t { PARALLEL_NO = 0, PARALLEL_TWO_NORMS = 1, PARALLEL_ONE_NORM = 2 };  // feed-forward beside attention, from a norm of its own or a shared one
enum Activation : uint32_t { ACT_SILU = 0, ACT_GELU = 1, ACT_GELU_TANH = 2, ACT_RELU = 3, ACT_RELU2 = 4, ACT_GELU_SIGMOID = 5 };
enum QkNorm : uint32_t { QK_NONE = 0, QK_HEAD = 1, QK_FULL = 2 };                            // over each head; over all heads together
enum Router : uint32_t { ROUTER_SOFTMAX = 0, ROUTER_SIGMOID = 1 };
enum GroupScore : uint32_t { GROUP_MAX = 0, GROUP_TOP2 = 1 };
enum Head : uint32_t { HEAD_NONE = 0, HEAD_TIED = 1, HEAD_OWN = 2 };
enum Pooling : uint32_t { POOL_NONE = 0, POOL_MEAN = 1, POOL_FIRST = 2, POOL_LAST = 3 };
enum LayerKind : uint32_t { LAYER_ATTENTION = 0, LAYER_SSRU = 1 }; // SSRU: the simpler simple recurrent unit (Kim et al. 2019)

struct Rope {                  // rotary positions (Su et al. 2021)
    float theta;               // base of the frequencies theta^(-2 i / dim)
    uint32_t dim;              // leading part of a head that rotates (latent attention: the trailing part)
    uint32_t interleaved;      // 1: pairs (2 i, 2 i + 1), GPT-J; 0: pairs (i, i + dim / 2), NeoX
    uint32_t scaling;          // RopeScaling
    float factor;              // linear, dynamic, yarn, llama3: by how much the context is stretched
    float attention_factor;    // multiplies sin and cos (yarn, longrope); 1 otherwise
    float low_freq_factor;     // llama3
    float high_freq_factor;    // llama3
    float beta_fast;           // yarn
    float beta_slow;           // yarn
    uint32_t truncate;         // yarn: round the correction range to whole dimensions
    uint32_t original_context; // dynamic, yarn, llama3, longrope: the context trained with
    uint32_t has_factors;      // longrope, or any scaling: tensors rope.N.short_factors (and rope.N.long_factors) [dim / 2] divide the frequencies
    uint32_t reserved;
};

struct Header {
    char magic[8];             // MAGIC
    uint32_t version;          // VERSION
    uint32_t header_bytes;     // sizeof(Header)
    uint64_t file_bytes;       // the whole file: fewer are a truncated copy
    uint64_t layers_offset;    // LayerHeader[n_encoder_layers + n_layers]
    uint64_t tensors_offset;   // TensorEntry[n_tensors]
    uint64_t tokenizer_offset; // the tokenizer's section
    uint64_t tokenizer_bytes;  // 0: none
    uint32_t n_tensors;        // 0: the file holds a tokenizer only
    uint32_t source_bits;      // bits a weight of the checkpoint this was made from, 0 unknown; for people
    char name[64];             // for people, NUL-terminated; never looked at by the code

    uint32_t vocab_size;
    uint32_t dim;              // width of the residual stream
    uint32_t embed_dim;        // width of the embedding table; other than dim: projections in and out (OPT-350m)
    uint32_t n_layers;         // decoder layers, or the only stack's
    uint32_t n_encoder_layers; // encoder-decoder models; 0 otherwise
    uint32_t n_heads;
    uint32_t n_kv_heads;       // fewer than n_heads: grouped queries
    uint32_t head_dim;         // of queries and keys
    uint32_t v_head_dim;       // of values
    uint32_t hidden_dim;       // feed-forward width
    uint32_t context;          // tokens trained with; with learned positions, the most there can be
    uint32_t causal;           // 0: every position sees every other (encoders)

    uint32_t norm;             // Norm
    float norm_eps;
    uint32_t norm_place;       // NormPlace
    uint32_t parallel;         // Parallel
    uint32_t activation;       // Activation
    uint32_t gated;            // down(act(gate x) * up x) instead of down(act(up x))
    uint32_t qk_norm;          // QkNorm, before the rotation
    uint32_t qk_norm_layer;    // 1: layer norm there, whatever norm says
    uint32_t norm_bias;        // 1: tensors *.bias exist, as for the five below
    uint32_t qkv_bias;
    uint32_t out_bias;         // attention output
    uint32_t ffn_bias;
    uint32_t head_bias;        // scores
    uint32_t head_dense_bias;
    uint32_t embed_norm;       // a norm after the embedding (BERT, BLOOM)
    uint32_t embed_type;       // a vector added to every embedding (BERT's first segment)
    uint32_t final_norm;       // a norm after the last layer (of each stack)
    uint32_t head;             // Head
    uint32_t head_dense;       // dense, activation and norm before the scores (masked models)

    uint32_t positions;        // Positions
    uint32_t position_offset;  // learned and sinusoidal: row of the first token (OPT, RoBERTa, XGLM: 2)
    uint32_t n_positions;      // rows of the learned table, offset included
    uint32_t sinusoid;         // Sinusoid
    uint32_t relative_buckets; // relative: rows of the bias table
    uint32_t relative_max;     // relative: distance from which all share the last bucket
    float alibi_bf16;          // other than 0: slope times position is rounded to bfloat16, then multiplied by this (Falcon)
    Rope rope[2];              // LayerHeader.rope picks one

    float embed_scale;         // multiplies the embedding
    float residual_scale;      // multiplies each sublayer's output before it is added
    float logit_scale;         // multiplies the scores
    float attn_softcap;        // c tanh(s / c) on attention scores; 0: none
    float logit_softcap;       // on the final scores; 0: none

    uint32_t n_experts;        // mixture of experts; 0: none
    uint32_t n_experts_used;   // experts a token
    uint32_t expert_dim;       // hidden width of one expert
    uint32_t shared_dim;       // hidden width of the always-on expert; 0: none
    uint32_t shared_gate;      // 1: sigmoid(gate x) multiplies the shared expert (Qwen2-MoE)
    uint32_t router;           // Router
    uint32_t router_bias;      // 1: layers.N.router.bias corrects the choice, not the weights (DeepSeek-V3)
    uint32_t router_norm;      // 1: the chosen experts' weights are scaled to sum to 1
    float router_scale;        // multiplies them at the end
    uint32_t n_groups;         // experts are chosen within the best n_groups_used of n_groups; 1: no groups
    uint32_t n_groups_used;
    uint32_t group_score;      // GroupScore

    uint32_t q_lora_rank;      // latent attention (DeepSeek-V2, 2.1): 0 with kv_lora_rank > 0: queries are not compressed
    uint32_t kv_lora_rank;     // 0: ordinary attention
    float latent_norm_eps;     // of q_a_norm and kv_a_norm

    uint32_t pooling;          // Pooling, for sentence vectors
    uint32_t normalize;        // 1: sentence vectors have length 1
    uint32_t max_tokens;       // a sentence is cut to so many, special tokens included; 0: context
    uint32_t decoder_start;    // encoder-decoder: the decoder's first token
    uint32_t zero_start;       // 1: whatever the decoder's first token is, its embedding is zero (Marian)
    uint32_t head_activation;  // Activation after head_dense
    uint32_t reserved[5];      // 0
};

struct LayerHeader {
    uint32_t kind;             // LayerKind
    uint32_t rope;             // index into Header.rope, or NO_ROPE
    uint32_t window;           // keys a query sees, itself included (bidirectional: distance up to window / 2); 0: all
    uint32_t experts;          // 1: mixture of experts here, 0: plain feed-forward
    uint32_t skip_attn_norm;   // 1: no norm before attention (ModernBERT's first layer)
    float attn_scale;          // multiplies q.k
    uint32_t reserved[2];
};

struct TensorEntry {
    char name[48];             // NUL-terminated
    uint32_t type;             // Type
    uint32_t layout;           // Layout
    uint32_t count;            // matrices of the same shape one after the other (experts, heads); 1 otherwise
    uint32_t rows;
    uint32_t cols;             // a vector: rows = 1
    uint32_t reserved;
    uint64_t offset;           // from the file's start, a multiple of 64
    uint64_t bytes;            // count times matrix_bytes(), or 4 rows cols when plain
};

// Tensors ([rows, cols]; panels unless marked v (vector) or t (table), which are plain; N = 0.. counts layers, the encoder's are
// named encoder.N. in an encoder-decoder). A norm X is X.weight v and, with norm_bias, X.bias v. A bias is v.
//   embed.tokens [vocab, embed_dim]   embed.positions t [n_positions, dim]   embed.type v [dim]   embed.norm
//   embed.project_in [dim, embed_dim] head.project_out [embed_dim, dim]
//   layers.N.attn_norm (unless NORM_OUTPUT or skipped; NORM_POST: after the sum)   layers.N.attn_post_norm (SANDWICH, OUTPUT)
//   layers.N.attn.qkv.weight [(n_heads + n_kv_heads) head_dim + n_kv_heads v_head_dim, dim]: rows of q, then k, then v   .bias
//   layers.N.attn.q_norm.weight v [n_heads head_dim]   layers.N.attn.k_norm.weight v [n_kv_heads head_dim] (and .bias with norm_bias)
//   layers.N.attn.out.weight [dim, n_heads v_head_dim]   .bias
//   latent attention, instead of qkv: layers.N.attn.q_a.weight [q_lora_rank, dim], q_a_norm, q_b.weight [n_heads head_dim, q_lora_rank]
//     (or q.weight [n_heads head_dim, dim]), kv_a.weight [kv_lora_rank + rope dim, dim], kv_a_norm,
//     k_b.weight n_heads x [kv_lora_rank, head_dim - rope dim] (transposed: it takes a query to the compressed space),
//     v_b.weight n_heads x [v_head_dim, kv_lora_rank]
//   SSRU layers, instead of attn.*: layers.N.ssru.weight [2 dim, dim] (rows of the input, then of the forget gate), .bias [2 dim] (0 for the input)
//   layers.N.cross_norm, cross.q.weight [n_heads head_dim, dim], cross.kv.weight (rows of k, then v), cross.out.weight, biases alike (decoder of an encoder-decoder)
//   layers.N.ffn_norm, ffn_post_norm   layers.N.ffn.up.weight [hidden_dim, dim] (gated: [2 hidden_dim, dim], rows of gate, then up)   .bias
//   layers.N.ffn.down.weight [dim, hidden_dim]   .bias
//   layers.N.router.weight [n_experts, dim]   layers.N.router.bias v   layers.N.experts.up.weight n_experts x [2 expert_dim, dim], experts.down.weight
//   layers.N.shared.up.weight, shared.down.weight, shared.gate.weight [1, dim]
//   final_norm (encoder.final_norm)   head.dense.weight [dim, dim]   head.dense.bias   head.norm   head.weight [vocab, embed_dim]   head.bias
//   alibi.slopes v [n_heads]   relative_bias t [relative_buckets, n_heads] (encoder.relative_bias)   rope.N.short_factors v   rope.N.long_factors v

// Bytes of one matrix in panels: a multiple of 32.
uint64_t matrix_bytes(Type type, uint64_t rows, uint64_t cols);
const char* type_name(uint32_t type); // "f32", ..., or "?"

// ---- using it -----------------------------------------------------------------------------------------------------

// Everything that can go wrong throws this; what() is one line: what, where, what was expected.
struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// A checkpoint, mapped read-only. Never changes after construction: any number of sessions and threads may share it.
class Model {
public:
    explicit Model(const std::string& path); // throws Error: no such file, not a checkpoint, truncated, damaged, newer
    ~Model();
    Model(Model&&) noexcept;
    Model& operator=(Model&&) noexcept;

    const Header& header() const;
    const LayerHeader& layer(uint32_t i) const;        // the decoder's after the encoder's; i < n_encoder_layers + n_layers
    const std::vector<TensorEntry>& tensors() const;
    const uint8_t* tokenizer_data() const;             // for Tokenizer's constructor (tokenizer.h)
    size_t tokenizer_bytes() const;
    uint64_t file_bytes() const;
    void embedding(int32_t id, float* out) const;      // row of the embedding table, [embed_dim], unscaled

    struct Weights;                                    // runtime.cpp's own view of the tensors
    const Weights& weights() const { return *weights_; }

private:
    std::unique_ptr<Weights> weights_;
};

enum class Scores { NONE, LAST, ALL };

struct SessionOptions {
    uint32_t context = 0;   // most tokens held; 0: the model's own, but no more than 8192
    uint32_t threads = 0;   // 0: default_threads(); never more than the processors this process may use
    uint32_t positions = AS_TRAINED; // for experiments: other Positions than the model was trained with, of those that need no weights
    bool exact_cache = false; // keys and values in f32, not f16; a model with f32 weights has it so anyway
    // For calibration: told the n rows x that the matrix at this offset of the file is multiplied with. Threads call it, one at a time; it
    // must not throw.
    std::function<void(uint64_t offset, const float* x, size_t stride, size_t n)> observe = {};
    bool extend = false;    // learned positions: past the table's end its last row is repeated, where otherwise a text must not be longer
    // Rotary positions on longer texts than trained with, for a model whose rotation is not scaled already: by how much (1 or more), and
    // how: ROPE_LINEAR (Chen et al. 2023), ROPE_NTK (a larger base: bloc97 2023) or ROPE_YARN (Peng et al. 2023). AS_TRAINED: not at all
    uint32_t rope_scaling = AS_TRAINED;
    float rope_factor = 1;
    // For looking inside: told the weights, which sum to 1, that a head's query at this position gives the keys at first .. first + n - 1.
    // layer counts as in Model::layer(); attention to a source text is not told. Threads call it, one at a time;
    // it must not throw.
    std::function<void(uint32_t layer, uint32_t head, size_t query, size_t first, const float* weights, size_t n)> attention = {};
};

// One conversation with a model: cache of keys and values, and scratch memory. One thread at a time may call it.
class Session {
public:
    explicit Session(const Model& model, SessionOptions options = {}); // model must outlive it. Throws Error
    ~Session();
    Session(Session&&) noexcept;
    Session& operator=(Session&&) noexcept;

    // Reads n tokens after those it holds. Returns scores (logits): LAST [vocab_size] of the last token, ALL [n, vocab_size], NONE null;
    // a model without a head gives its hidden states instead, [dim] wide. Valid until the next call. The result depends neither on how a
    // text is cut into calls nor on the number of threads. A bidirectional model (causal = 0) takes a whole text at each call and holds
    // nothing. An encoder-decoder needs encode() first. Throws Error: an id outside the vocabulary, no room.
    const float* forward(const int32_t* tokens, size_t n, Scores scores = Scores::LAST);
    const float* forward(const std::vector<int32_t>& tokens, Scores scores = Scores::LAST) { return forward(tokens.data(), tokens.size(), scores); }

    // Reads a source text into an encoder-decoder and empties the decoder's cache.
    void encode(const int32_t* tokens, size_t n);

    // Final hidden states [n, dim] of the last forward() call; of all its tokens with Scores::ALL or a bidirectional model, else the last one's.
    const float* hidden() const;

    size_t length() const;        // tokens held
    size_t context() const;       // most it can hold
    void rewind(size_t length);   // forgets all but the first length tokens. Throws Error: longer than held, or a window has moved past it
    size_t cache_bytes() const;   // memory of keys and values
    uint32_t width() const;       // floats a row of forward()'s result
    uint32_t threads() const;

    struct State;                 // runtime.cpp's own

private:
    std::unique_ptr<State> state_;
};

// Chooses a token from scores. Deterministic given the seed.
struct SamplerOptions {
    float temperature = 0.8f;   // 0: the likeliest token (the first of equals)
    uint32_t top_k = 0;         // 0: off
    float top_p = 1;            // 1: off
    float min_p = 0;            // 0: off
    float repeat_penalty = 1;   // divides positive scores and multiplies negative ones of the last repeat_window tokens (Keskar et al. 2019, 4.1)
    uint32_t repeat_window = 64;
    uint64_t seed = 0;
};
class Sampler {
public:
    explicit Sampler(SamplerOptions options); // throws Error: an option out of range
    int32_t sample(const float* scores, size_t n);  // n > 0
    void accept(int32_t token);               // tells it of a token of the text, for the repeat penalty

private:
    SamplerOptions options_;
    uint64_t state_;
    std::vector<int32_t> recent_;
    std::vector<std::pair<float, int32_t>> candidates_;
};

uint32_t default_threads();   // physical cores that this process may use: affinity and cgroup limits count
const char* isa_name();       // kernels in use: "scalar", "avx2", "avx512"; environment variable LOCUS_ISA forces one

} // namespace locus
#endif // __cplusplus

// ---- C interface: no exception leaves it; on failure it returns NULL or a negative number and copies a message into error -----------
#ifdef __cplusplus
extern "C" {
#endif
typedef struct locus_model locus_model;
typedef struct locus_session locus_session;

locus_model* locus_model_open(const char* path, char* error, size_t error_bytes);   // error may be NULL
void locus_model_close(locus_model* model);                                         // NULL is allowed; after its sessions
uint32_t locus_vocab_size(const locus_model* model);
uint32_t locus_width(const locus_model* model); // floats that locus_forward() gives
// Token ids of UTF-8 text of n bytes, with the special tokens the model expects in front; writes at most max, returns how many there are, or -1.
int64_t locus_encode(const locus_model* model, const char* text, size_t n, int32_t* ids, size_t max, char* error, size_t error_bytes);
// Bytes of one token as text; writes at most max (no NUL), returns how many there are, or -1.
int64_t locus_decode(const locus_model* model, int32_t id, char* text, size_t max, char* error, size_t error_bytes);
int32_t locus_end_token(const locus_model* model);                                  // -1: none

locus_session* locus_session_open(const locus_model* model, uint32_t context, uint32_t threads, char* error, size_t error_bytes); // 0: defaults
void locus_session_close(locus_session* session);
// Reads n tokens; returns the last one's scores, [vocab_size], or of a model without a head its hidden state, [dim]: locus_width() floats, valid
// until the next call. NULL on failure.
const float* locus_forward(locus_session* session, const int32_t* tokens, size_t n, char* error, size_t error_bytes);
int locus_rewind(locus_session* session, size_t length, char* error, size_t error_bytes); // 0, or -1
#ifdef __cplusplus
}
#endif
#endif
