// --info: what a checkpoint's header says, for people.
#ifndef LOCUS_INFO_H
#define LOCUS_INFO_H

#include "../tokenizer.h"

#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <utility>

namespace locus {

// Text for a line on a terminal, whatever bytes a file has put into it.
inline std::string printable(std::string text) {
    for (char& c : text)
        if (static_cast<unsigned char>(c) < ' ') c = '?';
    return text;
}

namespace info {

inline const char* pick(uint32_t value, std::initializer_list<const char*> names) {
    return value < names.size() ? names.begin()[value] : "?";
}

inline const char* activation(uint32_t value) { return pick(value, {"silu", "gelu", "gelu (tanh)", "relu", "relu squared", "gelu (sigmoid)"}); }

// What is there, apart by commas.
inline std::string list(std::initializer_list<std::pair<uint32_t, const char*>> parts) {
    std::string out;
    for (const auto& [there, name] : parts)
        if (there) out += (out.empty() ? "" : ", ") + std::string(name);
    return out.empty() ? "none" : out;
}

inline void rope(const Rope& r, int index) {
    std::printf("  rotation %d      base %g over %u of each head, pairs %s\n", index, double(r.theta), r.dim,
        r.interleaved ? "interleaved" : "in halves");
    if (r.scaling == ROPE_PLAIN && !r.has_factors) return;
    std::printf("                  scaling %s", pick(r.scaling, {"none", "linear", "dynamic", "yarn", "llama3", "longrope"}));
    if (r.factor != 0) std::printf(", factor %g", double(r.factor));
    if (r.attention_factor != 1) std::printf(", attention factor %g", double(r.attention_factor));
    if (r.scaling == ROPE_LLAMA3)
        std::printf(", low and high frequency factors %g and %g", double(r.low_freq_factor), double(r.high_freq_factor));
    if (r.scaling == ROPE_YARN)
        std::printf(", beta fast %g, slow %g%s", double(r.beta_fast), double(r.beta_slow), r.truncate ? "" : ", not rounded");
    if (r.original_context) std::printf(", trained with %u", r.original_context);
    std::printf("%s\n", r.has_factors ? ", factors in the file" : "");
}

inline void positions(const Model& model) {
    const Header& h = model.header();
    std::printf(
        "positions         %s", pick(h.positions, {"none", "sinusoidal", "learned", "rotary", "linear biases (ALiBi)", "relative biases"}));
    if (h.positions == POSITIONS_SINUSOIDAL) std::printf(", %s", pick(h.sinusoid, {"interleaved", "halves", "halves as in fairseq"}));
    if (h.positions == POSITIONS_LEARNED) std::printf(", %u rows", h.n_positions);
    if (h.position_offset) std::printf(", first row %u", h.position_offset);
    if (h.positions == POSITIONS_RELATIVE) std::printf(", %u buckets up to distance %u", h.relative_buckets, h.relative_max);
    if (h.positions == POSITIONS_ALIBI && h.alibi_bf16) std::printf(", rounded to bf16");
    std::printf("\n");
    bool used[2] = {};
    for (uint32_t i = 0; i < h.n_encoder_layers + h.n_layers; i++)
        if (model.layer(i).rope < 2) used[model.layer(i).rope] = true;
    for (int i = 0; i < 2; i++)
        if (used[i]) rope(h.rope[i], i);
}

inline void layers(const Model& model) {
    const Header& h = model.header();
    const uint32_t n = h.n_encoder_layers + h.n_layers;
    const auto describe = [&](uint32_t i) {
        const LayerHeader& l = model.layer(i);
        char scale[48];
        std::snprintf(scale, sizeof scale, ", scale %.6g", double(l.attn_scale));
        std::string out = i < h.n_encoder_layers ? "encoder: " : "";
        out += l.kind == LAYER_SSRU ? std::string("recurrent (SSRU)") : "attention" + std::string(scale);
        if (l.rope != NO_ROPE) out += ", rotation " + std::to_string(l.rope);
        else if (h.positions == POSITIONS_ROTARY) out += ", no rotation";
        if (l.window) out += ", window " + std::to_string(l.window);
        if (l.experts) out += ", experts";
        if (l.skip_attn_norm) out += ", no norm before attention";
        return out;
    };
    std::printf("layers\n");
    for (uint32_t i = 0; i < n;) {
        const std::string what = describe(i);
        uint32_t end = i + 1;
        while (end < n && describe(end) == what) end++;
        const std::string range = end == i + 1 ? std::to_string(i) : std::to_string(i) + " to " + std::to_string(end - 1);
        std::printf("  %-16s%s\n", range.c_str(), what.c_str());
        i = end;
    }
}

inline void experts(const Header& h) {
    std::printf("experts           %u, %u for each token, %u wide", h.n_experts, h.n_experts_used, h.expert_dim);
    if (h.shared_dim) std::printf("; shared %u wide%s", h.shared_dim, h.shared_gate ? ", gated" : "");
    std::printf("\n  router          %s%s%s, scale %g", pick(h.router, {"softmax", "sigmoid"}), h.router_bias ? ", bias" : "",
        h.router_norm ? ", normalised" : "", double(h.router_scale));
    if (h.n_groups > 1)
        std::printf(", best %u of %u groups by %s", h.n_groups_used, h.n_groups,
            pick(h.group_score, {"their best expert", "their two best experts"}));
    std::printf("\n");
}

inline void tokenizer(const Tokenizer& t) {
    std::printf("tokenizer         %s, %zu tokens\n", t.kind_name(), t.size());
    const auto special = [&](const char* role, int32_t id) {
        if (id >= 0) std::printf("  %-16s%d %s\n", role, id, printable(t.bytes(id)).c_str());
    };
    special("begin", t.bos());
    special("end", t.eos());
    special("unknown", t.unk());
    special("mask", t.mask());
    std::printf("  %-16s%s\n", "chat template", t.chat_template().empty() ? "none" : "yes");
}

inline void tensors(const Model& model) {
    struct Sum {
        size_t tensors = 0;
        double weights = 0;
        uint64_t bytes = 0;
    };
    std::map<std::string, Sum> sums;
    Sum all;
    for (const TensorEntry& t : model.tensors())
        for (Sum* sum : {&sums[t.layout == LAYOUT_PLAIN ? "f32, plain" : type_name(t.type)], &all}) {
            sum->tensors++;
            sum->weights += double(t.count) * t.rows * t.cols;
            sum->bytes += t.bytes;
        }
    sums["all"] = all;
    std::printf("tensors           number      weights        bytes  bits a weight\n");
    for (const auto& [name, sum] : sums)
        std::printf("  %-16s%6zu %12.0f %12llu  %.2f\n", name.c_str(), sum.tensors, sum.weights, static_cast<unsigned long long>(sum.bytes),
            sum.weights > 0 ? 8.0 * double(sum.bytes) / sum.weights : 0.0);
}

} // namespace info

inline void print_info(const Model& model, const Tokenizer* tokenizer) {
    using info::activation, info::list, info::pick;
    const Header& h = model.header();
    std::printf("checkpoint        %.*s, format %u, %llu bytes", int(strnlen(h.name, sizeof h.name)), h.name, h.version,
        static_cast<unsigned long long>(model.file_bytes()));
    if (h.source_bits) std::printf(", made from %u bits a weight", h.source_bits);
    std::printf("\n");
    if (h.n_tensors) {
        std::printf("shape             %s, ", h.n_encoder_layers ? "encoder-decoder"
                                              : h.causal         ? "decoder (each token sees those before it)"
                                                                 : "encoder (each token sees all)");
        if (h.n_encoder_layers) std::printf("%u + ", h.n_encoder_layers);
        std::printf("%u layers\n", h.n_layers);
        if (h.n_encoder_layers) std::printf("  decoder start   %u%s\n", h.decoder_start, h.zero_start ? ", as a zero vector" : "");
        std::printf("  width           %u", h.dim);
        if (h.embed_dim != h.dim) std::printf(", embedding %u", h.embed_dim);
        std::printf("\n  vocabulary      %u\n  context         %u\n", h.vocab_size, h.context);
        info::positions(model);
        std::printf("attention         %u heads, %u of keys and values, head width %u", h.n_heads, h.n_kv_heads, h.head_dim);
        if (h.v_head_dim != h.head_dim) std::printf(", values %u", h.v_head_dim);
        std::printf("\n");
        if (h.kv_lora_rank)
            std::printf("  latent          keys and values in %u, queries in %u (0: not compressed), norms' eps %g\n", h.kv_lora_rank, h.q_lora_rank, double(h.latent_norm_eps));
        std::printf("  norm of q, k    %s%s\n", pick(h.qk_norm, {"none", "each head", "all heads together"}),
            h.qk_norm && h.qk_norm_layer ? ", layer norm" : "");
        if (h.attn_softcap != 0) std::printf("  soft cap        %g\n", double(h.attn_softcap));
        std::printf("feed-forward      %u wide, %s%s\n", h.hidden_dim, h.gated ? "gated " : "",
            activation(h.activation));
        if (h.n_experts) info::experts(h);
        std::printf("norms             %s, eps %g, %s\n", pick(h.norm, {"layer", "rms"}), double(h.norm_eps),
            pick(h.norm_place, {"before each sublayer", "after each sum", "before and after each sublayer", "after each sublayer"}));
        std::printf(
            "  also            %s\n", list({{h.embed_norm, "after the embedding"}, {h.final_norm, "after the last layer"}}).c_str());
        std::printf("  parallel        %s\n",
            pick(h.parallel, {"no", "feed-forward beside attention, two norms", "feed-forward beside attention, one norm"}));
        std::printf("biases            %s\n",
            list({{h.norm_bias, "norms"}, {h.qkv_bias, "q k v"}, {h.out_bias, "attention output"}, {h.ffn_bias, "feed-forward"},
                     {h.head_dense_bias, "dense before the scores"}, {h.head_bias, "scores"}})
                .c_str());
        std::printf("scales            embedding %g, residual %g, scores %g", double(h.embed_scale), double(h.residual_scale),
            double(h.logit_scale));
        if (h.logit_softcap != 0) std::printf(", soft cap on scores %g", double(h.logit_softcap));
        std::printf("\nembedding         %s\n", list({{1, "a vector a token"}, {h.embed_type, "plus a segment's"}}).c_str());
        std::printf("head              %s", pick(h.head, {"none", "tied to the embedding", "its own"}));
        if (h.head_dense) std::printf(", after a dense layer, %s and a norm", activation(h.head_activation));
        std::printf("\n");
        if (h.pooling)
            std::printf("sentence vectors  %s%s, at most %u tokens (0: context)\n",
                pick(h.pooling, {"", "mean", "first token", "last token"}), h.normalize ? ", length 1" : "", h.max_tokens);
        info::layers(model);
    }
    if (tokenizer) info::tokenizer(*tokenizer);
    else std::printf("tokenizer         none\n");
    if (h.n_tensors) info::tensors(model);
}

} // namespace locus
#endif
