// steps MODEL "SOURCE IDS" "IDS" OUT: scores of the ids read one at a time, a row each, as `run --logits` writes them for all at once.
#include "model.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

static std::vector<int32_t> numbers(const char* text) {
    std::istringstream in(text);
    std::vector<int32_t> ids;
    for (int32_t id; in >> id;) ids.push_back(id);
    return ids;
}

int main(int argc, char** argv) {
    if (argc != 5) return 2;
    const std::vector<int32_t> source = numbers(argv[2]), ids = numbers(argv[3]);
    try {
        const locus::Model model(argv[1]);
        locus::SessionOptions options;
        if (model.header().positions != locus::POSITIONS_LEARNED) options.context = uint32_t(std::max(ids.size(), source.size()));
        locus::Session session(model, options);
        if (!source.empty()) session.encode(source.data(), source.size());
        FILE* out = std::fopen(argv[4], "wb");
        if (!out) return 1;
        for (int32_t id : ids) std::fwrite(session.forward(&id, 1), sizeof(float), session.width(), out);
        return std::fclose(out) ? 1 : 0;
    } catch (const locus::Error& e) {
        std::fprintf(stderr, "steps: %s\n", e.what());
        return 1;
    }
}
