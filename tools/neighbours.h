// --similar and --analogy: the embedding table and nothing else.
#ifndef LOCUS_NEIGHBOURS_H
#define LOCUS_NEIGHBOURS_H

#include "../model.h"
#include "../tokenizer.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace locus {

// The one token of a word, as it stands within a sentence if there is such a one.
inline int32_t word_id(const Tokenizer& tokenizer, const std::string& word) {
    for (const std::string& form : {" " + word, word}) {
        const std::vector<int32_t> ids = tokenizer.encode(form, false);
        if (ids.size() == 1) return ids[0];
    }
    throw Error("'" + word + "' is not a single token of this vocabulary");
}

// Whether a token has a space before it wherever it stands; "house" of "doghouse" is another token than the word "house".
inline bool begins_word(const Tokenizer& tokenizer, int32_t id) {
    const std::string once = tokenizer.decode({id}, true), twice = tokenizer.decode({id, id}, true);
    return twice.size() > once.size() && twice[once.size()] == ' ';
}

inline std::vector<float> unit_embedding(const Model& model, int32_t id) {
    std::vector<float> v(model.header().embed_dim);
    model.embedding(id, v.data());
    double square = 0;
    for (float x : v) square += double(x) * x;
    for (float& x : v) x = square > 0 ? float(x / std::sqrt(square)) : 0;
    return v;
}

// The tokens nearest to plus[0] + plus[1] ... - minus[0] ... by cosine, the nearest first: its cosine and its id. Special tokens are left
// out, and unless they are wanted the words asked with.
inline std::vector<std::pair<double, int32_t>> neighbours(const Model& model, const Tokenizer& tokenizer, const std::vector<std::string>& plus, const std::vector<std::string>& minus,
    size_t most, bool inputs_too = false) {
    std::vector<int32_t> inputs;
    std::vector<float> target(model.header().embed_dim);
    const auto add = [&](const std::vector<std::string>& words, float sign) {
        for (const std::string& word : words) {
            inputs.push_back(word_id(tokenizer, word));
            const std::vector<float> v = unit_embedding(model, inputs.back());
            for (size_t i = 0; i < v.size(); i++) target[i] += sign * v[i];
        }
    };
    add(plus, 1);
    add(minus, -1);
    double length = 0;
    for (float x : target) length += double(x) * x;
    if (!(length > 0)) throw Error("the words' vectors add up to nothing: no word is nearer than another");
    std::vector<std::pair<double, int32_t>> found;
    const int32_t words = int32_t(std::min<size_t>(model.header().vocab_size, tokenizer.size()));
    for (int32_t id = 0; id < words; id++) {
        if (tokenizer.is_special(id) || (!inputs_too && std::find(inputs.begin(), inputs.end(), id) != inputs.end())) continue;
        const std::vector<float> v = unit_embedding(model, id);
        double dot = 0;
        for (size_t i = 0; i < v.size(); i++) dot += double(v[i]) * target[i];
        found.push_back({-dot / std::sqrt(length), id});
    }
    const auto end = found.begin() + std::ptrdiff_t(std::min(most, found.size()));
    std::partial_sort(found.begin(), end, found.end());
    found.erase(end, found.end());
    for (auto& f : found) f.first = -f.first;
    return found;
}

} // namespace locus
#endif
