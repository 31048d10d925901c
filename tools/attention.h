// --attention: which words each head looks at.
#ifndef LOCUS_ATTENTION_H
#define LOCUS_ATTENTION_H

#include "../model.h"
#include "svg.h"

#include <string>
#include <vector>

namespace locus {

struct AttentionMaps {
    size_t layers = 0, heads = 0, n = 0;
    std::vector<float> weights; // [layers, heads, n, n]: a row a query; 0 where it does not see the key
    float& at(size_t layer, size_t head, size_t query, size_t key) { return weights[((layer * heads + head) * n + query) * n + key]; }
};

inline AttentionMaps attention_maps(const Model& model, const std::vector<int32_t>& ids, SessionOptions options) {
    AttentionMaps maps;
    maps.layers = model.header().n_layers, maps.heads = model.header().n_heads, maps.n = ids.size();
    options.attention = [&](uint32_t layer, uint32_t head, size_t query, size_t first, const float* weights, size_t n) {
        std::copy_n(weights, n, &maps.at(layer, head, query, first));
    };
    Session session(model, options);
    if (ids.size() <= session.context()) maps.weights.resize(maps.layers * maps.heads * maps.n * maps.n); // else forward() says what is wrong
    session.forward(ids, Scores::NONE);
    return maps;
}

// A line for each pair that is seen; names: of the tokens.
inline std::string attention_table(AttentionMaps& maps, const std::vector<std::string>& names) {
    std::string out = "layer\thead\tquery\tkey\tweight\tquery token\tkey token\n";
    char line[128];
    for (size_t layer = 0; layer < maps.layers; layer++)
        for (size_t head = 0; head < maps.heads; head++)
            for (size_t query = 0; query < maps.n; query++)
                for (size_t key = 0; key < maps.n; key++) {
                    const double weight = maps.at(layer, head, query, key);
                    if (weight == 0) continue;
                    std::snprintf(line, sizeof line, "%zu\t%zu\t%zu\t%zu\t%.7g\t", layer, head, query, key, weight);
                    out += line + names[query] + "\t" + names[key] + "\n";
                }
    return out;
}

// All heads, a row of maps a layer: queries downwards, keys to the right.
inline std::string attention_drawing(AttentionMaps& maps) {
    constexpr double side = 120, gap = 14, left = 80, top = 60;
    Svg svg(std::max(560.0, left + double(maps.heads) * (side + gap) + gap), top + double(maps.layers) * (side + gap) + gap);
    svg.text(20, 26, "Attention weights: queries downwards, keys to the right, the darker the larger", "start", 14);
    for (size_t head = 0; head < maps.heads; head++) svg.text(left + double(head) * (side + gap) + side / 2, top - 8, "head " + std::to_string(head), "middle");
    for (size_t layer = 0; layer < maps.layers; layer++) {
        const double y = top + double(layer) * (side + gap);
        svg.text(left - 10, y + side / 2, "layer " + std::to_string(layer), "end");
        for (size_t head = 0; head < maps.heads; head++) {
            const auto begin = maps.weights.begin() + std::ptrdiff_t((layer * maps.heads + head) * maps.n * maps.n);
            heat_cells(svg, left + double(head) * (side + gap), y, side / double(maps.n), {begin, begin + std::ptrdiff_t(maps.n * maps.n)}, maps.n, maps.n, 0, 1);
        }
    }
    return svg.str();
}

} // namespace locus
#endif
