// Damaged checkpoints: each one is refused in one clear line, or runs; none crashes, hangs or reads out of bounds.
#include "checkpoint.h"

#include <doctest/doctest.h>
#include <functional>
#include <sys/stat.h>

using namespace locus;

namespace {

std::string error_of(const std::vector<uint8_t>& bytes, size_t tokens = 3) {
    const TemporaryFile file(bytes);
    try {
        const Model model(file.path);
        Session s(model, {16, 1});
        const std::vector<int32_t> ids(tokens, 1);
        if (model.header().n_encoder_layers) s.encode(ids.data(), ids.size());
        s.forward(ids);
        return "";
    } catch (const Error& e) {
        const std::string what = e.what();
        CHECK(what.find('\n') == std::string::npos);
        return what.substr(what.find(": ") + 2);
    }
}

std::string error_of_change(const std::function<void(Checkpoint&)>& change) {
    Checkpoint c;
    c.fill();
    change(c);
    return error_of(c.bytes());
}

std::string error_of_path(const std::string& path) {
    try {
        Model model(path);
        return "";
    } catch (const Error& e) { return e.what(); }
}

uint64_t round_up_to_64(uint64_t n) { return (n + 63) / 64 * 64; }

std::vector<uint8_t> text(const std::string& s) { return {s.begin(), s.end()}; }

// A checkpoint with every kind of section, small enough to try thousands of changes.
std::vector<uint8_t> small(void (*change)(Checkpoint&)) {
    Checkpoint c;
    c.h.vocab_size = 5, c.h.dim = c.h.embed_dim = 8, c.h.n_heads = 2, c.h.n_kv_heads = 1, c.h.head_dim = c.h.v_head_dim = 4, c.h.hidden_dim = 6, c.h.rope[0].dim = 4, c.h.context = 16;
    change(c);
    c.fill();
    return c.bytes();
}
const std::function<std::vector<uint8_t>()> smalls[] = {
    [] { return small([](Checkpoint&) {}); },
    [] { return small([](Checkpoint& c) { c.h.n_encoder_layers = 1, c.h.positions = POSITIONS_RELATIVE, c.h.relative_buckets = 8, c.h.relative_max = 16, c.h.norm_bias = 1; }); },
    [] { return small([](Checkpoint& c) {
             c.h.kv_lora_rank = 8, c.h.n_kv_heads = 2, c.h.rope[0].dim = 2, c.h.n_experts = 4, c.h.n_experts_used = 2, c.h.expert_dim = 4, c.h.n_groups = 2, c.h.n_groups_used = 1;
         }); },
    [] { return small([](Checkpoint& c) { c.h.positions = POSITIONS_LEARNED, c.h.n_positions = 16, c.h.causal = 0, c.type = TYPE_Q4; }); },
    [] { return small([](Checkpoint& c) { c.h.positions = POSITIONS_ALIBI, c.type = TYPE_Q8, c.h.qk_norm = QK_HEAD, c.h.norm_place = NORM_SANDWICH; }); },
};

} // namespace

TEST_CASE("what is not a checkpoint is named") {
    CHECK(error_of_path("/no/such/file.bin") == "/no/such/file.bin: No such file or directory");
    CHECK(error_of_path("/tmp") == "/tmp: not a regular file, expected a checkpoint");
    { // a pipe that nobody writes to
        const TemporaryFile pipe({});
        remove(pipe.path.c_str());
        REQUIRE(mkfifo(pipe.path.c_str(), 0600) == 0);
        CHECK(error_of_path(pipe.path) == pipe.path + ": not a regular file, expected a checkpoint");
    }
    CHECK(error_of({}) == "not a Locus checkpoint (the file is empty)");
    CHECK(error_of(text("Once upon a time there was a text file.")) == "not a Locus checkpoint");
    CHECK(error_of(text("GGUF\x03")).find("a GGUF file, convert it first: python3 tools/convert.py ") == 0);
}

TEST_CASE("a file cut anywhere is truncated") {
    Checkpoint c;
    c.fill();
    const std::vector<uint8_t> whole = c.bytes();
    CHECK(error_of(whole) == "");
    for (size_t i = 0; i < 200; i++) {
        const size_t n = 9 + (whole.size() - 9) * i / 200;
        CAPTURE(n);
        CHECK(error_of({whole.begin(), whole.begin() + ptrdiff_t(n)}).find("truncated: " + std::to_string(n) + " bytes") == 0);
    }
    std::vector<uint8_t> longer = whole;
    longer.push_back(0);
    CHECK(error_of(longer) == std::to_string(longer.size()) + " bytes, the header says " + std::to_string(whole.size()));
}

TEST_CASE("header fields out of range are named with what was expected") {
    CHECK(error_of_change([](Checkpoint& c) { c.h.version = 2; }) == "checkpoint version 2, this program reads version 1");
    CHECK(error_of_change([](Checkpoint& c) { c.h.header_bytes = 8; }).find("header field header_bytes is 8, expected ") == 0);
    CHECK(error_of_change([](Checkpoint& c) { c.h.n_layers = 100000; }) == "header field n_layers is 100000, expected 1 to 1024");
    CHECK(error_of_change([](Checkpoint& c) { c.h.n_heads = 0; }) == "header field n_heads is 0, expected 1 to 4096");
    CHECK(error_of_change([](Checkpoint& c) { c.h.n_heads = 7; }) == "header field n_heads is 7, expected a multiple of n_kv_heads = 3");
    CHECK(error_of_change([](Checkpoint& c) { c.h.dim = ~0u; }) == "header field dim is 4294967295, expected 1 to 1048576");
    CHECK(error_of_change([](Checkpoint& c) { c.h.norm_eps = NAN; }) == "header field norm_eps is nan, expected 0 to 1");
    CHECK(error_of_change([](Checkpoint& c) { c.h.logit_scale = INFINITY; }) == "header field logit_scale is inf, expected -1e+06 to 1e+06");
    CHECK(error_of_change([](Checkpoint& c) { c.h.gated = 2; }) == "header field gated is 2, expected 0 to 1");
    CHECK(error_of_change([](Checkpoint& c) { c.h.rope[0].theta = 0; }) == "header field rope.theta is 0, expected 1 to 1e+12");
    CHECK(error_of_change([](Checkpoint& c) { c.h.rope[0].dim = 26; }) == "header field rope.dim is 26, expected 0 to 24");
    CHECK(error_of_change([](Checkpoint& c) { c.h.dim = 64; }).find("tensor embed.tokens has layout 1 and shape 1 x [101, 72], expected 1 and 1 x [101, 72]") != 0);
    CHECK(error_of_change([](Checkpoint& c) { c.layers[1].rope = 1; }).find("layer 1's header (kind 0, rope 1, ") == 0);
    CHECK(error_of_change([](Checkpoint& c) { c.layers[0].attn_scale = NAN; }).find("layer 0's header (") == 0);
}

TEST_CASE("features that have no meaning together are refused") {
    auto error_with = [](const std::function<void(Checkpoint&)>& features) {
        Checkpoint c;
        features(c);
        c.fill();
        return error_of(c.bytes());
    };
    CHECK(error_with([](Checkpoint& c) { c.h.n_encoder_layers = 1; }) == "");
    CHECK(error_with([](Checkpoint& c) { c.h.n_encoder_layers = 1, c.h.kv_lora_rank = 16, c.h.rope[0].dim = 8; }) == "header field kv_lora_rank is 16, expected 0 to 0");
    CHECK(error_with([](Checkpoint& c) { c.h.n_encoder_layers = 1, c.h.parallel = PARALLEL_TWO_NORMS; }) == "header field parallel is 1, expected 0 to 0");
    CHECK(error_with([](Checkpoint& c) { c.h.n_encoder_layers = 1, c.h.norm_place = NORM_OUTPUT; }) == "header field norm_place is 3, expected 0 to 1");
    auto layers = [](LayerHeader l, uint32_t norm_place) {
        return [=](Checkpoint& c) { c.h.norm_place = norm_place, c.layers.resize(2, l); };
    };
    const LayerHeader no_norm = {LAYER_ATTENTION, 0, 0, 0, 1, 0.2f, {}}, recurrent = {LAYER_SSRU, 0, 0, 0, 0, 0.2f, {}}, windowed = {LAYER_SSRU, 0, 9, 0, 0, 0.2f, {}};
    CHECK(error_with(layers(no_norm, NORM_PRE)) == "");
    CHECK(error_with(layers(no_norm, NORM_POST)).find("layer 0's header (kind 0, rope 0, window 0, experts 0, skip_attn_norm 1, ") == 0);
    CHECK(error_with(layers(recurrent, NORM_PRE)) == "");
    CHECK(error_with(layers(windowed, NORM_PRE)).find("layer 0's header (kind 1, rope 0, window 9, ") == 0);
}

TEST_CASE("the directory's tensors must be there once, in shape, in the file and apart") {
    auto named = [](Checkpoint& c, const char* name) -> TensorEntry& {
        for (TensorEntry& t : c.tensors)
            if (!strcmp(t.name, name)) return t;
        throw std::runtime_error(name);
    };
    auto first = [](const Checkpoint& c) { return round_up_to_64(sizeof(Header) + c.layers.size() * sizeof(LayerHeader) + c.tensors.size() * sizeof(TensorEntry)); };
    CHECK(error_of_change([&](Checkpoint& c) { strcpy(named(c, "final_norm.weight").name, "final_norm.wait"); }) == "tensor final_norm.weight is missing");
    CHECK(error_of_change([&](Checkpoint& c) { c.tensors.pop_back(); }) == "tensor head.weight is missing");
    CHECK(error_of_change([&](Checkpoint& c) { strcpy(named(c, "layers.1.ffn.up.weight").name, "layers.0.ffn.up.weight"); }) == "tensor layers.0.ffn.up.weight stands twice in the directory");
    CHECK(error_of_change([&](Checkpoint& c) { c.plain("extra", 3); }) == "tensor extra is not one that the header calls for");
    CHECK(error_of_change([&](Checkpoint& c) { named(c, "head.weight").offset += uint64_t(1) << 40; }).find("tensor head.weight lies at ") == 0);
    CHECK(error_of_change([&](Checkpoint& c) { named(c, "head.weight").offset = ~uint64_t(0) - 4095; }).find("tensor head.weight ") == 0);
    CHECK(error_of_change([&](Checkpoint& c) { named(c, "head.weight").offset += 8; }).find("outside of the file's ") != std::string::npos);
    CHECK(error_of_change([&](Checkpoint& c) { named(c, "layers.0.attn.qkv.weight").offset = named(c, "layers.1.attn.qkv.weight").offset; }) ==
          "layers.0.attn.qkv.weight and layers.1.attn.qkv.weight overlap");
    CHECK(error_of_change([&](Checkpoint& c) { named(c, "head.weight").offset = ~uint64_t(0) - first(c) + 1; }) == "the header and head.weight overlap"); // at 0
    CHECK(error_of_change([&](Checkpoint& c) { named(c, "final_norm.weight").offset = 1024 - first(c); }).find("overlap") != std::string::npos);
    CHECK(error_of_change([&](Checkpoint& c) { named(c, "head.weight").count = 65536, named(c, "head.weight").rows = 1 << 26, named(c, "head.weight").cols = 1 << 24; })
              .find("tensor head.weight has ") == 0); // the product has 66 bits
    CHECK(error_of_change([&](Checkpoint& c) { named(c, "head.weight").type = 9; }).find("tensor head.weight has type 9") == 0);
    CHECK(error_of_change([&](Checkpoint& c) { memset(named(c, "head.weight").name, 'x', 48); }) == "the name of tensor 14 of the directory is not text");
    CHECK(error_of_change([&](Checkpoint& c) { strcpy(named(c, "head.weight").name, "two\nlines"); }) == "the name of tensor 14 of the directory is not text");
    CHECK(error_of_change([&](Checkpoint& c) { strcpy(c.h.name, "two\nlines"); }) == "header field name is not text");
}

TEST_CASE("every word of the header, the layers and the directory set to 0, -1, huge and NaN is refused or runs") {
    for (auto& make : smalls) {
        const std::vector<uint8_t> good = make();
        REQUIRE(error_of(good) == "");
        Header h;
        memcpy(&h, good.data(), sizeof h);
        const size_t end = h.tensors_offset + h.n_tensors * sizeof(TensorEntry);
        int refused = 0;
        for (size_t at = 0; at + 4 <= end; at += 4)
            for (uint32_t value : {0u, ~0u, 0x7fffffffu, 0x7fc00000u, 0x00100000u}) {
                std::vector<uint8_t> bad = good;
                memcpy(bad.data() + at, &value, 4);
                refused += error_of(bad) != "";
            }
        CHECK(refused > int(end / 4));
    }
}

TEST_CASE("weights that are no numbers spoil scores and never memory") {
    for (auto& make : smalls) {
        const std::vector<uint8_t> good = make();
        Header h;
        memcpy(&h, good.data(), sizeof h);
        const size_t weights = round_up_to_64(h.tensors_offset + h.n_tensors * sizeof(TensorEntry));
        std::mt19937 random(1);
        for (uint32_t pattern : {0x7fc00000u, 0x7f800000u, 0xff800000u, 0x7c007e00u, 0u, 1u}) {
            std::vector<uint8_t> bad = good;
            for (size_t at = weights; at + 4 <= bad.size(); at += 4) {
                const uint32_t value = pattern == 1 ? uint32_t(random()) : pattern;
                memcpy(bad.data() + at, &value, 4);
            }
            CHECK(error_of(bad) == "");
        }
    }
}

TEST_CASE("what a session is asked for is checked") {
    Checkpoint c;
    c.h.positions = POSITIONS_LEARNED, c.h.position_offset = 2, c.h.n_positions = 18;
    c.fill();
    const TemporaryFile file(c.bytes());
    const Model model(file.path);
    CHECK_THROWS_WITH_AS(Session(model, {17, 1}), "a context of 17 tokens is longer than the model's table of 16 positions", Error);
    Session s(model, {0, 1});
    CHECK(s.context() == 16);
    const std::vector<int32_t> many(17, 1), outside = {1, 101}, negative = {-1};
    CHECK_THROWS_WITH_AS(s.forward(many), "17 tokens after 0 do not fit into a context of 16", Error);
    CHECK_THROWS_WITH_AS(s.forward(outside), "token id 101 at place 1 is outside the vocabulary of 101", Error);
    CHECK_THROWS_WITH_AS(s.forward(negative), "token id -1 at place 0 is outside the vocabulary of 101", Error);
    CHECK_THROWS_WITH_AS(s.forward(nullptr, 0), "no tokens to read", Error);
    CHECK_THROWS_WITH_AS(s.encode(many.data(), 1), "this model has no encoder", Error);
    CHECK(s.length() == 0);
    CHECK(s.forward(std::vector<int32_t>(16, 1)) != nullptr);
    CHECK_THROWS_WITH_AS(s.forward(negative.data(), 1), "1 tokens after 16 do not fit into a context of 16", Error);
    std::vector<float> row(72);
    CHECK_THROWS_AS(model.embedding(101, row.data()), Error);
}

TEST_CASE("the C interface reports errors and throws nothing") {
    char error[64] = "";
    CHECK(locus_model_open("/no/such/file", error, sizeof error) == nullptr);
    CHECK(std::string(error) == "/no/such/file: No such file or directory");
    CHECK(locus_model_open(nullptr, nullptr, 0) == nullptr);
    Checkpoint c;
    c.fill();
    const TemporaryFile file(c.bytes());
    locus_model* model = locus_model_open(file.path.c_str(), error, sizeof error);
    REQUIRE(model);
    CHECK(locus_vocab_size(model) == 101);
    CHECK(locus_width(model) == 101);
    CHECK(locus_end_token(model) == -1);
    CHECK(locus_encode(model, "a", 1, nullptr, 0, error, sizeof error) == -1);
    CHECK(std::string(error) == "this checkpoint has no tokenizer");
    locus_session* session = locus_session_open(model, 8, 1, error, sizeof error);
    REQUIRE(session);
    const int32_t ids[] = {1, 2, 3};
    const float* scores = locus_forward(session, ids, 3, error, sizeof error);
    REQUIRE(scores);
    const std::vector<float> first(scores, scores + 101);
    CHECK(locus_rewind(session, 4, error, 10) == -1);
    CHECK(std::string(error) == "cannot re");
    CHECK(locus_rewind(session, 2, nullptr, 0) == 0);
    scores = locus_forward(session, ids + 2, 1, nullptr, 0);
    CHECK(std::vector<float>(scores, scores + 101) == first);
    CHECK(locus_forward(session, ids, 0, error, sizeof error) == nullptr);
    locus_session_close(session);
    locus_model_close(model);
    Checkpoint headless;
    headless.h.head = HEAD_NONE;
    headless.fill();
    const TemporaryFile vectors(headless.bytes());
    model = locus_model_open(vectors.path.c_str(), nullptr, 0);
    REQUIRE(model);
    CHECK(locus_width(model) == headless.h.dim);
    locus_model_close(model);
}
