// libFuzzer target: a tokenizer section and a text, both untrusted. The first four bytes say where the text begins.
#include <cstdlib>

#include "../tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 4) return 0;
    uint32_t section;
    std::memcpy(&section, data, 4);
    section = std::min(section, uint32_t(size - 4));
    const std::string_view text(reinterpret_cast<const char*>(data) + 4 + section, size - 4 - section);
    std::string copy(reinterpret_cast<const char*>(data) + 4, section);
    if (section >= sizeof(locus::TokenizerHeader)) { // the fuzzer need not learn these two
        const uint32_t first[2] = {locus::TOKENIZER_VERSION, section};
        std::memcpy(&copy[0], first, sizeof first);
    }
    try {
        const locus::Tokenizer tokenizer(reinterpret_cast<const uint8_t*>(copy.data()), copy.size());
        for (const bool special : {false, true}) {
            const auto ids = tokenizer.encode(text, special, special);
            for (int32_t id : ids)
                if (id < 0 || size_t(id) >= tokenizer.size()) std::abort();
            tokenizer.decode(ids, special);
        }
        for (size_t id = 0; id < std::min(tokenizer.size(), size_t(64)); ++id) {
            tokenizer.find(tokenizer.bytes(int32_t(id)));
            tokenizer.is_end(int32_t(id));
        }
        tokenizer.chat_template();
    } catch (const locus::Error&) {
    }
    return 0;
}
