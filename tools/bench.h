// --bench: speed of a checkpoint on this machine.
#ifndef LOCUS_BENCH_H
#define LOCUS_BENCH_H

#include "../tokenizer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

namespace locus {

// Bytes of weights that the decoding of one token reads: rows of a table that is only looked up count once, experts as far as used.
inline double weights_per_token(const Model& model) {
    const Header& h = model.header();
    double sum = 0;
    for (const TensorEntry& t : model.tensors()) {
        const std::string name = t.name;
        const bool looked_up = name == "embed.positions" || (name == "embed.tokens" && h.head != HEAD_TIED);
        if (name.compare(0, 8, "encoder.") == 0) continue;
        double bytes = double(t.bytes);
        if (looked_up) bytes /= t.rows;
        if (name.find(".experts.") != std::string::npos) bytes *= double(h.n_experts_used) / t.count;
        sum += bytes;
    }
    return sum;
}

// Prints progress to stderr and one JSON object to stdout. Rates are the best of several runs, in tokens a second: prompt_N of a prompt
// of N tokens, decode_N of single tokens after N. A model that reads in both directions only has prompts. first_token_ms counts from
// before the file is opened to the scores of a prompt of five tokens; bytes_per_token is what decode_0 reads, weights and cache.
// The progress alone names the bytes that each token held adds to that, and the rate of a prompt that comes late.
inline void bench(const std::string& path, SessionOptions options) {
    using Clock = std::chrono::steady_clock;
    const auto seconds_since = [](Clock::time_point t) { return std::max(std::chrono::duration<double>(Clock::now() - t).count(), 1e-9); };
    std::string json = "{";
    const auto progress = [](const char* key, double value) { std::fprintf(stderr, "%-21s %.10g\n", key, value); };
    const auto report = [&](const char* key, double value) {
        char line[96];
        std::snprintf(line, sizeof line, "%s\"%s\": %.10g", json.size() > 1 ? ", " : "", key, value);
        json += line;
        progress(key, value);
    };

    const Clock::time_point start = Clock::now();
    const Model model(path);
    if (model.tokenizer_bytes()) Tokenizer(model.tokenizer_data(), model.tokenizer_bytes());
    const double load = seconds_since(start);
    const Header& h = model.header();
    std::vector<int32_t> ids(8192);
    for (size_t i = 0; i < ids.size(); i++) ids[i] = int32_t(i * 7919 % h.vocab_size); // all over the vocabulary, always the same
    const bool two_stacks = h.n_encoder_layers > 0;
    const int32_t decoder_start = int32_t(h.decoder_start);
    constexpr size_t first_prompt = 5;

    // Reads a prompt of n tokens from nothing, or as many as there is room for; for an encoder-decoder, a source text.
    const auto prompt = [&](Session& session, size_t n) {
        n = std::min(n, session.context());
        if (two_stacks) {
            session.encode(ids.data(), n);
            session.forward(&decoder_start, 1);
        } else {
            session.rewind(0);
            session.forward(ids.data(), n);
        }
    };
    {
        Session session(model, options);
        prompt(session, first_prompt);
    }
    const double first_token = seconds_since(start);

    if (!options.context) options.context = std::min<uint32_t>(h.context, uint32_t(ids.size()));
    Session session(model, options);
    const size_t room = std::min(session.context(), ids.size());
    for (const size_t n : {size_t(128), size_t(512), size_t(2048)}) {
        if (n > room) continue;
        double best = 0, total = 0;
        for (int round = 0; round < 10 && (round < 2 || total < 1); round++) {
            const Clock::time_point t = Clock::now();
            prompt(session, n);
            const double s = seconds_since(t);
            best = std::max(best, double(n) / s);
            total += s;
        }
        report(("prompt_" + std::to_string(n)).c_str(), best);
    }
    constexpr size_t round_tokens = 32, rounds = 4;
    for (const size_t depth : {size_t(0), size_t(2048), size_t(6000)}) {
        if (!h.causal || depth + 1 + round_tokens * rounds > room) continue;
        prompt(session, two_stacks ? first_prompt : std::max<size_t>(depth, 1));
        if (two_stacks && depth) session.forward(ids.data(), depth);
        double best = 0;
        for (size_t round = 0; round < rounds; round++) {
            const Clock::time_point t = Clock::now();
            for (size_t i = 0; i < round_tokens; i++) session.forward(&ids[i], 1);
            best = std::max(best, round_tokens / seconds_since(t));
        }
        report(("decode_" + std::to_string(depth)).c_str(), best);
    }
    constexpr size_t late = 6000, late_prompt = 2048;
    if (!two_stacks && session.length() > late && late + late_prompt <= room) {
        session.rewind(late);
        const Clock::time_point t = Clock::now();
        session.forward(ids.data(), late_prompt);
        progress("prompt_2048_at_6000", late_prompt / seconds_since(t));
    }
    const double cache = h.causal ? double(session.cache_bytes()) / double(session.context()) : 0;
    progress("cache_bytes_per_token", cache);
    report("load_ms", load * 1e3);
    report("first_token_ms", first_token * 1e3);
    report("bytes_per_token", std::round(weights_per_token(model) + cache * (round_tokens * rounds / 2)));
    report("threads", session.threads());
    std::printf("%s, \"isa\": \"%s\"}\n", json.c_str(), isa_name());
}

} // namespace locus
#endif
