// Tokenizers of a few tokens each, whose ids are worked out by hand.
#include <doctest/doctest.h>

#include <random>

#include "../tokenizer.h"

using namespace locus;
using Ids = std::vector<int32_t>;

namespace {

// Builds a section the way tools/tokenizer_files.py does.
struct Section {
    TokenizerHeader h{};
    std::vector<std::string> texts;
    std::vector<float> scores;
    std::vector<uint8_t> types;
    std::vector<uint32_t> merges;
    Ids ends, prefix, suffix;
    std::string chat_template, charsmap;

    explicit Section(uint32_t kind) {
        h.version = TOKENIZER_VERSION;
        h.kind = kind;
        h.bos = h.eos = h.unk = h.mask = -1;
        h.max_word = 100;
    }
    int32_t add(const std::string& text, uint8_t type = TOKEN_NORMAL, float score = 0) {
        texts.push_back(text);
        types.push_back(type);
        scores.push_back(score);
        return int32_t(texts.size()) - 1;
    }
    int32_t id(const std::string& text) const { return int32_t(std::find(texts.begin(), texts.end(), text) - texts.begin()); }
    // adds the token left + right, and the merge that gives it
    void merge(const std::string& left, const std::string& right) {
        if (id(left + right) == int32_t(texts.size())) add(left + right);
        for (const auto& t : {left, right, left + right}) merges.push_back(uint32_t(id(t)));
    }
    void add_bytes() {
        for (int b = 0; b < 256; ++b) add(std::string(1, char(b)));
    }
    void add_byte_tokens() {
        for (int b = 0; b < 256; ++b) {
            char name[8];
            std::snprintf(name, sizeof name, "<0x%02X>", unsigned(b));
            add(name, TOKEN_BYTE);
        }
    }

    std::string bytes() const {
        std::string out(sizeof h, '\0');
        TokenizerHeader head = h;
        const auto put = [&](uint32_t& offset, const void* data, size_t n) {
            out.resize((out.size() + 3) / 4 * 4);
            offset = uint32_t(out.size());
            if (n) out.append(static_cast<const char*>(data), n);
        };
        std::vector<uint32_t> offsets{0};
        std::string all;
        for (const auto& t : texts) all += t, offsets.push_back(uint32_t(all.size()));
        head.n_tokens = uint32_t(texts.size());
        head.n_merges = uint32_t(merges.size() / 3);
        head.n_ends = uint32_t(ends.size());
        head.n_prefix = uint32_t(prefix.size());
        head.n_suffix = uint32_t(suffix.size());
        head.chat_template_bytes = uint32_t(chat_template.size());
        head.charsmap_bytes = uint32_t(charsmap.size());
        put(head.text_offsets, offsets.data(), 4 * offsets.size());
        put(head.texts, all.data(), all.size());
        put(head.scores, scores.data(), 4 * scores.size());
        put(head.types, types.data(), types.size());
        put(head.merges, merges.data(), 4 * merges.size());
        put(head.ends, ends.data(), 4 * ends.size());
        put(head.prefix, prefix.data(), 4 * prefix.size());
        put(head.suffix, suffix.data(), 4 * suffix.size());
        put(head.chat_template, chat_template.data(), chat_template.size());
        put(head.charsmap, charsmap.data(), charsmap.size());
        head.bytes = uint32_t(out.size());
        std::memcpy(&out[0], &head, sizeof head);
        return out;
    }
};

struct Loaded { // the section outlives the tokenizer
    std::string data;
    Tokenizer t;
    explicit Loaded(const Section& s) : Loaded(s.bytes()) {}
    explicit Loaded(std::string bytes) : data(std::move(bytes)), t(reinterpret_cast<const uint8_t*>(data.data()), data.size()) {}
    const Tokenizer* operator->() const { return &t; }
};

// Where a byte-level pre-tokeniser cuts: no merges, and a special token in front of nothing; pieces are told by ignore_merges.
std::vector<std::string> pieces(uint32_t pre, const std::vector<std::string>& expected) {
    Section s(TOKENIZER_BYTE_BPE);
    s.add_bytes();
    for (const auto& p : expected)
        if (s.id(p) == int32_t(s.texts.size())) s.add(p);
    s.h.pre_tokenizer = pre;
    s.h.ignore_merges = 1;
    Loaded t(s);
    std::string text;
    for (const auto& p : expected) text += p;
    std::vector<std::string> out;
    for (int32_t id : t->encode(text)) out.push_back(t->bytes(id));
    return out;
}

std::string message(const std::string& data) {
    try {
        Loaded t(data);
    } catch (const Error& e) {
        return e.what();
    }
    return "";
}

Section small_bpe() {
    Section s(TOKENIZER_BYTE_BPE);
    s.add_bytes();
    s.merge("h", "e");
    s.merge("l", "l");
    s.merge("he", "ll");
    s.merge("hell", "o");
    s.merge(" ", "w");
    s.h.pre_tokenizer = PRE_GPT2;
    return s;
}

Section small_spm() {
    Section s(TOKENIZER_SPM_BPE);
    s.h.unk = s.add("<unk>", TOKEN_CONTROL);
    s.h.bos = s.add("<s>", TOKEN_CONTROL);
    s.h.eos = s.add("</s>", TOKEN_CONTROL);
    s.add_byte_tokens();
    for (const char* c : {"\u2581", "a", "b", "c"}) s.add(c);
    s.merge("a", "b");
    s.merge("\u2581", "ab");
    s.merge("\u2581", "\u2581");
    s.prefix = {1};
    s.ends = {2};
    s.h.byte_fallback = 1;
    s.h.space_prefix = PREFIX_ALWAYS;
    return s;
}

Section small_unigram() {
    Section s(TOKENIZER_UNIGRAM);
    s.h.unk = s.add("<unk>", TOKEN_CONTROL);
    s.add("\u2581", TOKEN_NORMAL, -3);
    s.add("\u2581a", TOKEN_NORMAL, -2);
    s.add("b", TOKEN_NORMAL, -4);
    s.add("a", TOKEN_NORMAL, -4);
    s.add("ab", TOKEN_NORMAL, -2.5f);
    s.add("\u2581ab", TOKEN_NORMAL, -7);
    s.h.spaces = SPACES_WORDS;
    s.h.space_prefix = PREFIX_MISSING;
    return s;
}

Section small_wordpiece() {
    Section s(TOKENIZER_WORDPIECE);
    s.add("[PAD]", TOKEN_CONTROL);
    s.h.unk = s.add("[UNK]", TOKEN_CONTROL);
    s.add("[CLS]", TOKEN_CONTROL);
    s.add("[SEP]", TOKEN_CONTROL);
    s.h.mask = s.add("[MASK]", TOKEN_CONTROL);
    for (const char* t : {"un", "##want", "##wanted", "##ed", "runn", "##ing", ",", "cafe", "\u4e2d"}) s.add(t);
    s.prefix = {2};
    s.suffix = {3};
    s.h.clean_text = s.h.chinese_chars = s.h.strip_accents = s.h.lowercase = 1;
    return s;
}

} // namespace

TEST_CASE("tokenizer: byte-level BPE merges by rank, then from the left") {
    Loaded t(small_bpe());
    CHECK(t->encode("hello") == Ids{259});
    CHECK(t->encode("hell hello") == Ids{258, ' ', 259});
    CHECK(t->encode("hello world") == Ids{259, 260, 'o', 'r', 'l', 'd'});
    CHECK(t->encode("lll") == Ids{257, 'l'});
    CHECK(t->encode("") == Ids{});
    CHECK(t->encode("\u00e9") == Ids{0xC3, 0xA9});
    CHECK(t->encode(std::string("\0h", 2)) == Ids{0, 'h'});
    CHECK(t->encode("\xFFh") == Ids{0xEF, 0xBF, 0xBD, 'h'}); // U+FFFD
    CHECK(t->decode({259, 260, 'o'}) == "hello wo");
    CHECK(t->find("hell") == 258);
    CHECK(t->find("hel") == -1);
    CHECK(t->kind() == TOKENIZER_BYTE_BPE);
    CHECK(std::string(t->kind_name()) == "byte-level BPE");
}

TEST_CASE("tokenizer: pre-tokenisers cut where their regular expressions do") {
    using Pieces = std::vector<std::string>;
    const auto check = [](uint32_t pre, const Pieces& p) {
        const auto join = [](const Pieces& all) {
            std::string out;
            for (const auto& a : all) out += a + "|";
            return out;
        };
        CHECK(join(pieces(pre, p)) == join(p));
    };
    check(PRE_GPT2,
        {"don", "'t", " we", "'ll", " I", "'", "M", "  ", " x", "123", " 45", "!?", " (", "\n\n", "\t", "a", " \u00e9\u00c9", "  "});
    check(PRE_DIGITS_GPT2, {"a", " ", "1", "2", "\u00b2", "b", "  "});
    check(PRE_LLAMA3, {"I", "'M", "\u00a0x", "123", "4", "!?\n\n", "  \n\n", "  ", " a", ".b", "'\u017f"});
    check(PRE_QWEN2, {"1", "2", "e", "\u0301"}); // without NFC the accent is a sign of its own
    check(PRE_QWEN35, {"1", "e\u0301x", "1", "\u0301a", ".\u0301b"});
    check(PRE_DEEPSEEK_LLM, {"a", "\n", "\n", " b", "\u00ef", "c", "1", "2", " ", "\u4f60\u597d", "  "});
    check(PRE_DEEPSEEK_CODER, {" \u00efc", " ?!", "1", "2", "\r", "\u4f60"});
    check(PRE_DEEPSEEK_V3, {"123", "4", ".abc", "\u4f60\u3042", " +-\n", "\u0301a", "  ", " b"});
    check(PRE_FALCON, {"a", "?!", " b", "123", "45"});
    check(PRE_GPT4O, {"HTTPServer's", " IPhone", " abc", "DEF", "123", "4", "//\n"});
    check(PRE_TEKKEN, {"Abc", "'s", "1", "2"});
    check(PRE_BLOOM, {" a1", ",", " b"});
}

TEST_CASE("tokenizer: NFC composes, orders marks and knows Hangul") {
    const unicode::Normalizer n;
    const auto nfc = [&](std::u32string s) {
        n.nfc(s);
        return s;
    };
    const auto nfd = [&](std::u32string s) {
        n.nfd(s);
        return s;
    };
    CHECK(nfc(U"e\u0301") == U"\u00e9");
    CHECK(nfc(U"s\u0307\u0323") == U"\u1e69"); // dot above, dot below: ordered first
    CHECK(nfc(U"\u212b") == U"\u00c5");
    CHECK(nfc(U"\u1100\u1161\u11a8") == U"\uac01");
    CHECK(nfd(U"\uac01") == U"\u1100\u1161\u11a8");
    CHECK(nfd(U"\u01d5") == U"U\u0308\u0304");
    CHECK(nfc(U"\u0958") == U"\u0915\u093c"); // excluded from composition
    CHECK(nfc(U"a\u0301\u0301") == U"\u00e1\u0301");
    CHECK(nfc(U"a\u0315\u0300") == U"\u00e0\u0315");
    Section s(TOKENIZER_BYTE_BPE);
    s.add_bytes();
    s.h.pre_tokenizer = PRE_QWEN2;
    s.h.nfc = 1;
    CHECK(Loaded(s)->encode("e\u0301") == Ids{0xC3, 0xA9});
}

TEST_CASE("tokenizer: SentencePiece BPE puts a space in front, falls back to bytes and strips the space again") {
    Loaded t(small_spm());
    const int32_t space = 259, a = 260, b = 261, ab = 263, space_ab = 264, two = 265;
    CHECK(t->encode("ab") == Ids{1, space_ab});
    CHECK(t->encode("ab", false) == Ids{space_ab});
    CHECK(t->encode(" ab", false) == Ids{space, space_ab});
    CHECK(t->encode("ab  ab", false) == Ids{space_ab, space, space_ab});
    CHECK(t->encode("ab   b", false) == Ids{space_ab, two, space, b});
    CHECK(t->encode("b\u00e9", false) == Ids{space, b, 3 + 0xC3, 3 + 0xA9});
    CHECK(t->encode("<s>", false) == Ids{space, 3 + '<', 3 + 's', 3 + '>'});
    CHECK(t->encode("a<s>a", false, true) == Ids{space, a, 1, space, a});
    CHECK(t->decode({1, space_ab, space, ab, 3 + 0xC3, 3 + 0xA9}) == "ab ab\u00e9");
    CHECK(t->decode({1, space_ab}, true) == "<s>ab");
    CHECK(t->bytes(space_ab) == " ab");
    CHECK(t->bytes(3 + 0xC3) == "\xC3");
    CHECK(t->find(" ab") == space_ab);
    CHECK(t->is_special(1));
    CHECK(t->is_end(2));
    CHECK(!t->is_end(1));
    CHECK(t->bos() == 1);
    CHECK(t->eos() == 2);

    Section no_bytes = small_spm();
    no_bytes.h.byte_fallback = 0;
    CHECK(Loaded(no_bytes)->encode("\u00e9\u00e8", false) == Ids{space, 0}); // unknown neighbours are one
    Section twice = small_spm();
    twice.texts[3 + 'x'] = "<0x79>"; // two tokens for one byte
    CHECK(Loaded(twice)->bytes(3 + 'x') == "y");
    CHECK(Loaded(twice)->bytes(3 + 'y') == "y");
    Section first = small_spm();
    first.h.space_prefix = PREFIX_FIRST;
    CHECK(Loaded(first)->encode("a<s>a", false, true) == Ids{space, a, 1, a});
    CHECK(Loaded(first)->encode(" a", false) == Ids{space, a});
}

TEST_CASE("tokenizer: unigram takes the way of the largest sum") {
    Loaded t(small_unigram());
    CHECK(t->encode("ab") == Ids{1, 5}); // -3 - 2.5 is more than -2 - 4 and than -7
    CHECK(t->encode("  a\n ab ") == Ids{2, 1, 5});
    CHECK(t->encode("abb") == Ids{1, 5, 3});
    CHECK(t->encode("xyb") == Ids{1, 0, 3}); // x and y are one unknown
    CHECK(t->encode("") == Ids{});
    CHECK(t->encode(" \n") == Ids{});
    CHECK(t->decode({2, 1, 5}) == "a ab");
    Section keep = small_unigram();
    keep.h.spaces = SPACES_STRIP_COLLAPSE;
    CHECK(Loaded(keep)->encode("a   ab \n") == Ids{2, 1, 5});
}

TEST_CASE("tokenizer: a charsmap replaces what its trie holds") {
    // a double array by hand for "A" -> "a" alone: the root's children start at unit 0x100, the leaf of A stands beside it
    std::vector<uint32_t> trie(0x400, 0);
    const auto unit = [](uint32_t offset, uint32_t label, bool leaf) { return offset << 10 | (leaf ? 256u : 0u) | label; };
    trie[0] = unit(0x100, 0, false);
    trie[0x100 ^ 'A'] = unit(0x100 ^ 'A' ^ 0x201, 'A', true);
    trie[0x201] = 1; // the replacement starts at byte 1
    const uint32_t trie_bytes = uint32_t(4 * trie.size());
    std::string map(reinterpret_cast<const char*>(&trie_bytes), 4);
    map.append(reinterpret_cast<const char*>(trie.data()), trie_bytes);
    map += std::string("\0a\0", 3);
    Section s = small_unigram();
    s.charsmap = map;
    CHECK(Loaded(s)->encode("Ab") == Loaded(s)->encode("ab"));
    CHECK(Loaded(s)->encode("xb") == Ids{1, 0, 3});
    s.charsmap.back() = 'a'; // no NUL behind the last replacement
    CHECK_THROWS_AS(Loaded(s)->encode("A"), Error);
    s.charsmap.resize(3);
    CHECK_THROWS_AS(Loaded{s}, Error);
}

TEST_CASE("tokenizer: WordPiece takes the longest pieces, or calls the word unknown") {
    Loaded t(small_wordpiece());
    CHECK(t->encode("unwanted, running") == Ids{2, 5, 7, 11, 9, 10, 3});
    CHECK(t->encode("UNWANT\u00c9D", false) == Ids{5, 7}); // lower case, no accent
    CHECK(t->encode("cafe\u0301 Caf\u00e9", false) == Ids{12, 12});
    CHECK(t->encode("un\u4e2dun", false) == Ids{5, 13, 5});
    CHECK(t->encode("unx un", false) == Ids{1, 5});
    CHECK(t->encode("un\u0000\u0001 un", false) == Ids{5});
    CHECK(t->encode(std::string(101, 'u'), false) == Ids{1});
    CHECK(t->encode("[MASK]", false) == Ids{1, 1, 1});
    CHECK(t->encode("un [MASK]", false, true) == Ids{5, 4});
    CHECK(t->encode("") == Ids{2, 3});
    CHECK(t->decode({2, 5, 7, 11, 9, 10, 3}) == "unwanted, running");
    CHECK(t->bytes(7) == "wanted");
}

TEST_CASE("tokenizer: added tokens are always found, the longest first; special ones when asked for") {
    Section s = small_bpe();
    const int32_t one = s.add("\n", TOKEN_ADDED), two = s.add("\n\n", TOKEN_ADDED), end = s.add("<|end|>", TOKEN_CONTROL),
                  mask = s.add("<mask>", TOKEN_CONTROL | TOKEN_LSTRIP | TOKEN_RSTRIP);
    Loaded t(s);
    CHECK(t->encode("h\n\n\nh") == Ids{'h', two, one, 'h'});
    CHECK(t->encode("<|end|>") == Ids{'<', '|', 'e', 'n', 'd', '|', '>'});
    CHECK(t->encode("h<|end|><|en", true, true) == Ids{'h', end, '<', '|', 'e', 'n'});
    CHECK(t->encode("h <mask> h", true, true) == Ids{'h', mask, 'h'});
    CHECK(t->decode({'h', end, 'h'}) == "hh");
    CHECK(t->decode({'h', end, 'h'}, true) == "h<|end|>h");
    CHECK(t->find("\n") == 10); // the model's own comes before the added one
}

TEST_CASE("tokenizer: a stream holds back the bytes of a split character") {
    Loaded t(small_bpe());
    Tokenizer::Stream s(t.t);
    CHECK(s.push(0xF0) == "");
    CHECK(s.push(0x9F) == "");
    CHECK(s.push(0x98) == "");
    CHECK(s.push(0x80) == "\U0001F600");
    CHECK(s.push('h') == "h");
    CHECK(s.push(0xC3) == "");
    CHECK(s.push('h') == "\uFFFDh");
    CHECK(s.push(0xFF) == "\uFFFD");
    CHECK(s.push(0xE2) == "");
    CHECK(s.finish() == "\uFFFD");
    CHECK(s.finish() == "");
    CHECK_THROWS_AS(s.push(-1), Error);
    CHECK_THROWS_AS(s.push(261), Error);

    Loaded spm(small_spm());
    Tokenizer::Stream middle(spm.t), start(spm.t);
    CHECK(middle.push(264) == " ab"); // in the middle of a text a space is a space
    CHECK(start.push(1) == "");
    CHECK(start.push(264) == "ab");
    CHECK(start.push(264) == " ab");
}

TEST_CASE("tokenizer: what encode gives, decode turns back") {
    Loaded bpe(small_bpe()), spm(small_spm());
    std::mt19937 random(1);
    for (int i = 0; i < 500; ++i) {
        std::string text;
        for (uint32_t n = random() % 12; n--;) {
            const uint32_t c = random() % 3 ? "ahelo w\n1"[random() % 9] : random() % 0x11000;
            unicode::append(text, c >= 0xD800 && c < 0xE000 ? ' ' : c);
        }
        CHECK(bpe->decode(bpe->encode(text)) == text);
        CHECK(spm->decode(spm->encode(text)) == text);
        std::string raw;
        for (uint32_t n = random() % 12; n--;) raw += char(random());
        CHECK(bpe->encode(raw) == bpe->encode(bpe->decode(bpe->encode(raw))));
    }
}

TEST_CASE("tokenizer: a million of one letter, of spaces, of marks") {
    const Section sections[] = {small_bpe(), small_spm(), small_unigram(), small_wordpiece()};
    std::string marks = "a", spaces(1000000, ' ');
    for (int i = 0; i < 250000; ++i) marks += "\u0301\u0323";
    for (Section s : sections) {
        for (uint32_t pre = 0; pre <= (s.h.kind == TOKENIZER_BYTE_BPE ? uint32_t(PRE_BLOOM) : 0u); ++pre) {
            s.h.pre_tokenizer = pre;
            s.h.nfc = pre == PRE_QWEN2;
            Loaded t(s);
            CHECK(t->encode(std::string(1000000, 'a')).size() <= 1000002);
            CHECK(t->encode(spaces + "\u4f60").size() <= 1000010);
            CHECK(t->encode(marks).size() <= 1000010);
        }
    }
}

TEST_CASE("tokenizer: a damaged section is told, and never read past its end") {
    for (const Section& s : {small_bpe(), small_spm(), small_unigram(), small_wordpiece()}) {
        const std::string good = s.bytes();
        CHECK(message(good) == "");
        for (size_t n = 0; n < good.size(); ++n) CHECK_THROWS_AS(Loaded(good.substr(0, n)), Error);
        for (size_t field = 0; field < sizeof(TokenizerHeader) / 4; ++field)
            for (uint32_t value :
                {0u, 1u, 2u, 7u, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFFu, 0xFFFFFFFCu, uint32_t(good.size()), uint32_t(good.size() - 4)}) {
                std::string bad = good;
                std::memcpy(&bad[4 * field], &value, 4);
                try {
                    Loaded t(bad);
                    t->encode("hello ab \u00e9 <s>", true, true);
                    for (size_t i = 0; i < t->size(); ++i) t->bytes(int32_t(i));
                } catch (const Error& e) {
                    CHECK(std::string(e.what()).size() > 10);
                }
            }
    }
}

TEST_CASE("tokenizer: errors say what and where") {
    const auto with = [](Section s, auto change) {
        change(s);
        return message(s.bytes());
    };
    const auto has = [](const std::string& text, const std::string& part) {
        INFO(text);
        CHECK(text.find(part) != std::string::npos);
    };
    has(with(small_spm(), [](Section& s) { s.texts[5] = "<0xZZ>"; }), "token 5 is a byte named '<0xZZ>'");
    has(with(small_spm(), [](Section& s) { s.texts[5] = "<0x1>"; }), "expected <0x00> to <0xFF>");
    has(with(small_bpe(), [](Section& s) { s.merges[1] = 9999; }), "merge 0 names a token past");
    has(with(small_bpe(), [](Section& s) { s.ends = {-5}; }), "ends has token -5");
    has(with(small_bpe(), [](Section& s) { s.prefix = {261}; }), "prefix has token 261 of 261");
    has(with(small_bpe(), [](Section& s) { s.h.eos = 261; }), "eos is token 261 of 261");
    has(with(small_bpe(), [](Section& s) { s.h.version = 2; }), "version 2, expected 1");
    has(with(small_bpe(), [](Section& s) { s.h.kind = 4; }), "kind is 4");
    has(with(small_bpe(), [](Section& s) { s.h.pre_tokenizer = 99; }), "pre_tokenizer is 99");
    has(with(small_bpe(), [](Section& s) { s.types[3] = 5; }), "token 3 has type 5");
    has(with(small_unigram(), [](Section& s) { s.scores[2] = std::numeric_limits<float>::quiet_NaN(); }), "token 2's score");
    has(with(small_unigram(), [](Section& s) { s.h.unk = -1; }), "without an unknown token");
    has(with(small_bpe(), [](Section& s) { s.texts[7] = std::string(5000, 'x'); }), "token 7's text");
    has(message(""), "the header alone");

    std::string data = small_bpe().bytes();
    TokenizerHeader h;
    std::memcpy(&h, data.data(), sizeof h);
    h.types = h.texts;
    std::memcpy(&data[0], &h, sizeof h);
    has(message(data), "overlap");
    CHECK_THROWS_AS(Loaded(small_bpe())->bytes(261), Error);
    CHECK_THROWS_AS(Loaded(small_bpe())->decode({0, -1}), Error);
}
