// Random checkpoints for the tests: a header, and every tensor that model.h says it calls for.
#ifndef LOCUS_TESTS_CHECKPOINT_H
#define LOCUS_TESTS_CHECKPOINT_H

#include "model.h"
#include "tools/pack.h"

#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

struct Checkpoint {
    locus::Header h = {};
    std::vector<locus::LayerHeader> layers;
    std::vector<locus::TensorEntry> tensors;
    std::vector<uint8_t> data; // of the tensors, from the first one on
    locus::Type type = locus::TYPE_F32;
    std::mt19937 random{1};

    // A small decoder of odd sizes: 6 heads over 3, 24 wide, a vocabulary that is no multiple of anything.
    Checkpoint() {
        h.version = locus::VERSION, h.header_bytes = sizeof h;
        memcpy(h.magic, locus::MAGIC, sizeof h.magic);
        strcpy(h.name, "test");
        h.vocab_size = 101, h.dim = 72, h.embed_dim = 72, h.n_layers = 2, h.n_heads = 6, h.n_kv_heads = 3, h.head_dim = 24, h.v_head_dim = 24;
        h.hidden_dim = 90, h.context = 600, h.causal = 1;
        h.norm = locus::NORM_RMS, h.norm_eps = 1e-5f, h.gated = 1, h.final_norm = 1, h.head = locus::HEAD_OWN;
        h.positions = locus::POSITIONS_ROTARY;
        h.rope[0].theta = 10000, h.rope[0].dim = 24, h.rope[0].attention_factor = 1, h.rope[0].factor = 1, h.rope[0].original_context = 64;
        h.embed_scale = h.residual_scale = h.logit_scale = h.router_scale = 1;
        h.n_groups = h.n_groups_used = 1;
    }

    void add(const std::string& name, uint32_t rows, uint32_t cols, uint32_t count = 1) { put(name, rows, cols, count, locus::LAYOUT_PANELS); }
    void plain(const std::string& name, uint32_t cols, uint32_t rows = 1) { put(name, rows, cols, 1, locus::LAYOUT_PLAIN); }
    void norm(const std::string& name, uint32_t n) {
        plain(name + ".weight", n);
        if (h.norm_bias) plain(name + ".bias", n);
    }
    void feed_forward(const std::string& name, uint32_t hidden, uint32_t count, bool bias) {
        add(name + ".up.weight", hidden * (1 + h.gated), h.dim, count);
        if (bias) plain(name + ".up.bias", hidden * (1 + h.gated));
        add(name + ".down.weight", h.dim, hidden, count);
        if (bias) plain(name + ".down.bias", h.dim);
    }

    void fill() { // all tensors
        using namespace locus;
        if (layers.empty())
            for (uint32_t i = 0; i < h.n_encoder_layers + h.n_layers; i++) {
                LayerHeader l = {};
                l.rope = h.positions == POSITIONS_ROTARY ? 0 : NO_ROPE;
                l.attn_scale = 0.2f;
                l.experts = h.n_experts && i ? 1 : 0;
                layers.push_back(l);
            }
        add("embed.tokens", h.vocab_size, h.embed_dim);
        if (h.embed_dim != h.dim) add("embed.project_in", h.dim, h.embed_dim), add("head.project_out", h.embed_dim, h.dim);
        if (h.positions == POSITIONS_LEARNED) plain("embed.positions", h.dim, h.n_positions);
        if (h.embed_type) plain("embed.type", h.dim);
        if (h.embed_norm) norm("embed.norm", h.dim);
        if (h.positions == POSITIONS_ALIBI) plain("alibi.slopes", h.n_heads);
        if (h.positions == POSITIONS_RELATIVE) plain("relative_bias", h.n_heads, h.relative_buckets);
        if (h.positions == POSITIONS_RELATIVE && h.n_encoder_layers) plain("encoder.relative_bias", h.n_heads, h.relative_buckets);
        for (int i = 0; i < 2; i++)
            if (h.rope[i].has_factors) {
                plain("rope." + std::to_string(i) + ".short_factors", h.rope[i].dim / 2);
                if (h.rope[i].scaling == ROPE_LONGROPE) plain("rope." + std::to_string(i) + ".long_factors", h.rope[i].dim / 2);
            }
        for (uint32_t i = 0; i < h.n_encoder_layers; i++) layer("encoder." + std::to_string(i) + ".", layers[i], false);
        for (uint32_t i = 0; i < h.n_layers; i++) layer("layers." + std::to_string(i) + ".", layers[h.n_encoder_layers + i], h.n_encoder_layers > 0);
        if (h.final_norm) norm("final_norm", h.dim);
        if (h.final_norm && h.n_encoder_layers) norm("encoder.final_norm", h.dim);
        if (h.head_dense) {
            add("head.dense.weight", h.dim, h.dim);
            if (h.head_dense_bias) plain("head.dense.bias", h.dim);
            norm("head.norm", h.dim);
        }
        if (h.head == HEAD_OWN) add("head.weight", h.vocab_size, h.embed_dim);
        if (h.head_bias) plain("head.bias", h.vocab_size);
    }

    void layer(const std::string& name, const locus::LayerHeader& l, bool cross) {
        using namespace locus;
        const bool pre = h.norm_place != NORM_OUTPUT, post = h.norm_place == NORM_OUTPUT || h.norm_place == NORM_SANDWICH;
        const uint32_t q = h.n_heads * h.head_dim, k = h.n_kv_heads * h.head_dim, v = h.n_kv_heads * h.v_head_dim;
        if (pre && !l.skip_attn_norm) norm(name + "attn_norm", h.dim);
        if (post) norm(name + "attn_post_norm", h.dim);
        if (l.kind == LAYER_SSRU) add(name + "ssru.weight", 2 * h.dim, h.dim), plain(name + "ssru.bias", 2 * h.dim);
        else if (h.kv_lora_rank) {
            if (h.q_lora_rank) add(name + "attn.q_a.weight", h.q_lora_rank, h.dim), plain(name + "attn.q_a_norm.weight", h.q_lora_rank), add(name + "attn.q_b.weight", q, h.q_lora_rank);
            else add(name + "attn.q.weight", q, h.dim);
            add(name + "attn.kv_a.weight", h.kv_lora_rank + h.rope[0].dim, h.dim), plain(name + "attn.kv_a_norm.weight", h.kv_lora_rank);
            add(name + "attn.k_b.weight", h.kv_lora_rank, h.head_dim - h.rope[0].dim, h.n_heads), add(name + "attn.v_b.weight", h.v_head_dim, h.kv_lora_rank, h.n_heads);
        } else {
            add(name + "attn.qkv.weight", q + k + v, h.dim);
            if (h.qkv_bias) plain(name + "attn.qkv.bias", q + k + v);
            if (h.qk_norm) norm(name + "attn.q_norm", q), norm(name + "attn.k_norm", k);
        }
        if (l.kind == LAYER_ATTENTION) {
            add(name + "attn.out.weight", h.dim, h.n_heads * h.v_head_dim);
            if (h.out_bias) plain(name + "attn.out.bias", h.dim);
        }
        if (cross) {
            norm(name + "cross_norm", h.dim);
            add(name + "cross.q.weight", q, h.dim), add(name + "cross.kv.weight", k + v, h.dim), add(name + "cross.out.weight", h.dim, h.n_heads * h.v_head_dim);
            if (h.qkv_bias) plain(name + "cross.q.bias", q), plain(name + "cross.kv.bias", k + v);
            if (h.out_bias) plain(name + "cross.out.bias", h.dim);
        }
        if (pre && h.parallel != PARALLEL_ONE_NORM) norm(name + "ffn_norm", h.dim);
        if (post) norm(name + "ffn_post_norm", h.dim);
        if (!l.experts) return feed_forward(name + "ffn", h.hidden_dim, 1, h.ffn_bias);
        add(name + "router.weight", h.n_experts, h.dim);
        if (h.router_bias) plain(name + "router.bias", h.n_experts);
        feed_forward(name + "experts", h.expert_dim, h.n_experts, false);
        if (h.shared_dim) feed_forward(name + "shared", h.shared_dim, 1, false);
        if (h.shared_dim && h.shared_gate) add(name + "shared.gate.weight", 1, h.dim);
    }

    std::vector<uint8_t> bytes() {
        auto up = [](uint64_t n) { return (n + 63) / 64 * 64; };
        h.n_tensors = uint32_t(tensors.size());
        h.layers_offset = sizeof h;
        h.tensors_offset = h.layers_offset + layers.size() * sizeof layers[0];
        const uint64_t first = up(h.tensors_offset + tensors.size() * sizeof(locus::TensorEntry));
        h.file_bytes = first + data.size();
        std::vector<uint8_t> file(h.file_bytes);
        memcpy(file.data(), &h, sizeof h);
        if (!layers.empty()) memcpy(file.data() + h.layers_offset, layers.data(), layers.size() * sizeof layers[0]);
        for (size_t i = 0; i < tensors.size(); i++) {
            locus::TensorEntry t = tensors[i];
            t.offset += first;
            memcpy(file.data() + h.tensors_offset + i * sizeof t, &t, sizeof t);
        }
        if (!data.empty()) memcpy(file.data() + first, data.data(), data.size());
        return file;
    }

private:
    void put(const std::string& name, uint32_t rows, uint32_t cols, uint32_t count, locus::Layout layout) {
        using namespace locus;
        TensorEntry t = {};
        snprintf(t.name, sizeof t.name, "%s", name.c_str());
        const bool panels = layout == LAYOUT_PANELS, near_one = name.find("norm.weight") != std::string::npos || name.find("factors") != std::string::npos;
        t.type = panels ? type : TYPE_F32, t.layout = layout, t.count = count, t.rows = rows, t.cols = cols, t.offset = data.size();
        std::normal_distribution<float> normal(0, 0.15f);
        std::vector<float> values(size_t(count) * rows * cols);
        for (float& v : values) v = normal(random) + (near_one ? 1.f : 0.f);
        if (!panels) t.bytes = values.size() * 4;
        else t.bytes = count * ((rows + PANEL - 1) / PANEL) * panel_bytes(type, cols);
        data.resize((data.size() + t.bytes + 63) / 64 * 64);
        uint8_t* out = data.data() + t.offset;
        if (!panels) memcpy(out, values.data(), t.bytes);
        for (uint32_t m = 0; panels && m < count; m++)
            for (uint32_t r = 0; r < rows; r += PANEL, out += panel_bytes(type, cols)) {
                const float* at[PANEL] = {};
                for (uint32_t i = 0; i < PANEL && r + i < rows; i++) at[i] = values.data() + (size_t(m) * rows + r + i) * cols;
                pack_panel(type, at, cols, out);
            }
        tensors.push_back(t);
    }
};

// A file that is gone at the end of the scope.
struct TemporaryFile {
    explicit TemporaryFile(const std::vector<uint8_t>& bytes) {
        static int n = 0;
        path = "/tmp/locus-test-" + std::to_string(std::random_device{}()) + "-" + std::to_string(n++) + ".bin";
        FILE* f = fopen(path.c_str(), "wb");
        if (!f || (bytes.size() && fwrite(bytes.data(), 1, bytes.size(), f) != bytes.size())) abort();
        fclose(f);
    }
    ~TemporaryFile() { remove(path.c_str()); }
    std::string path;
};

#endif
