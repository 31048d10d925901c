// Locus: text <-> token ids. Header only; needs model.h for locus::Error.
// Byte-level BPE (Radford et al. 2019), SentencePiece BPE and unigram (Kudo 2018; Kudo and Richardson 2018), WordPiece (Wu et al. 2016),
// each giving the ids that Hugging Face's tokenizers gives.
#ifndef LOCUS_TOKENIZER_H
#define LOCUS_TOKENIZER_H

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "model.h"

namespace locus {

// ---- the tokenizer's section of a checkpoint -------------------------------------------------------------------------
// Little-endian. TokenizerHeader, then arrays; their offsets count from the section's start and are multiples of 4.
// tools/tokenizer_files.py reads the struct and the enums from this file: one declaration a line.

constexpr uint32_t TOKENIZER_VERSION = 1;
constexpr uint32_t MAX_TOKEN_BYTES = 4096;   // of one token's text
constexpr uint32_t MAX_REPLACEMENT = 128;    // bytes that the charsmap may put for one character

enum TokenizerKind : uint32_t { TOKENIZER_BYTE_BPE = 0, TOKENIZER_SPM_BPE = 1, TOKENIZER_UNIGRAM = 2, TOKENIZER_WORDPIECE = 3 };
enum PreTokenizer : uint32_t { PRE_NONE = 0, PRE_GPT2 = 1, PRE_DIGITS_GPT2 = 2, PRE_LLAMA3 = 3, PRE_QWEN2 = 4, PRE_DEEPSEEK_LLM = 5, PRE_DEEPSEEK_CODER = 6, PRE_DEEPSEEK_V3 = 7, PRE_FALCON = 8, PRE_GPT4O = 9, PRE_TEKKEN = 10, PRE_QWEN35 = 11, PRE_BLOOM = 12 };
enum SpacePrefix : uint32_t { PREFIX_NONE = 0, PREFIX_ALWAYS = 1, PREFIX_MISSING = 2, PREFIX_FIRST = 3 }; // a space in front of a text: always; unless it has one; likewise, but not after a special token
enum Spaces : uint32_t { SPACES_KEEP = 0, SPACES_COLLAPSE = 1, SPACES_STRIP_COLLAPSE = 2, SPACES_WORDS = 3 }; // unigram: runs of spaces become one; trailing white space goes first; all white space only parts words
enum TokenType : uint8_t { TOKEN_NORMAL = 0, TOKEN_CONTROL = 1, TOKEN_ADDED = 2, TOKEN_BYTE = 3, TOKEN_UNUSED = 4 }; // control: special; added: found in a text before anything else; byte: <0x00> to <0xFF>; unused: never comes out
enum TokenFlag : uint8_t { TOKEN_LSTRIP = 16, TOKEN_RSTRIP = 32 }; // added to a type: takes the white space before, behind it

struct TokenizerHeader {
    uint32_t version;          // TOKENIZER_VERSION
    uint32_t bytes;            // of the section
    uint32_t kind;             // TokenizerKind
    uint32_t pre_tokenizer;    // PreTokenizer, of byte-level BPE
    uint32_t n_tokens;
    int32_t bos;               // -1: none, as for the three below
    int32_t eos;
    int32_t unk;
    int32_t mask;
    uint32_t space_prefix;     // SpacePrefix
    uint32_t spaces;           // Spaces
    uint32_t byte_fallback;    // 1: a character without a token becomes its bytes' tokens
    uint32_t ignore_merges;    // 1: a piece that is a token is not taken apart (Llama 3)
    uint32_t nfc;              // 1: Unicode normalization form C first (Qwen 2)
    uint32_t clean_text;       // BERT: control characters go, white space becomes a space
    uint32_t chinese_chars;    // BERT: each a word of its own
    uint32_t strip_accents;    // BERT
    uint32_t lowercase;        // BERT
    uint32_t max_word;         // WordPiece: longer words, in characters, are unknown
    uint32_t n_merges;
    uint32_t n_ends;
    uint32_t n_prefix;
    uint32_t n_suffix;
    uint32_t text_offsets;     // uint32[n_tokens + 1]: a token's text, from and to, within texts
    uint32_t texts;            // bytes: byte-level BPE's are raw, SentencePiece's have U+2581 for a space, WordPiece's have ## inside a word
    uint32_t scores;           // float[n_tokens], of unigram
    uint32_t types;            // uint8[n_tokens]: TokenType + TokenFlag
    uint32_t merges;           // uint32[n_merges][3]: left, right, result; the best first
    uint32_t ends;             // int32[n_ends]: tokens that end a text
    uint32_t prefix;           // int32[n_prefix]: tokens in front of a text
    uint32_t suffix;           // int32[n_suffix]: tokens behind it
    uint32_t chat_template;    // Jinja
    uint32_t chat_template_bytes;
    uint32_t charsmap;         // SentencePiece's precompiled normaliser: uint32 bytes of a double-array trie, the trie, replacements ending in NUL
    uint32_t charsmap_bytes;
};

namespace unicode { // the tables stand at the end of this file

enum CharClass : uint16_t { UPPER = 1, LOWER_CASE = 2, OTHER_LETTER = 4, MARK = 8, NUMBER = 16, PUNCTUATION = 32, SYMBOL = 64, SPACE = 128, BERT_PUNCTUATION = 256, BERT_ACCENT = 512, BERT_CONTROL = 1024 };
constexpr uint16_t LETTER = UPPER | LOWER_CASE | OTHER_LETTER;

uint16_t class_of(uint32_t c);
uint32_t lower(uint32_t c);
uint32_t combining_class(uint32_t c);

// Normalization forms D and C (Unicode Standard Annex 15).
class Normalizer {
public:
    Normalizer();
    void nfd(std::u32string& text) const;
    void nfc(std::u32string& text) const;

private:
    struct Parts {
        uint32_t whole, first, second;
    };
    void decompose(uint32_t c, std::u32string& out) const;
    uint32_t compose(uint32_t first, uint32_t second) const; // 0: not at all
    std::vector<Parts> by_whole_, by_parts_;
};

// The character at s[i], and its length. A byte that starts no whole character is U+FFFD, and as long as the part that could have been one.
struct Char {
    uint32_t code;
    uint32_t length;
    bool valid;
};
inline Char char_at(std::string_view s, size_t at) {
    const auto b = reinterpret_cast<const unsigned char*>(s.data() + at);
    const size_t left = s.size() - at;
    if (b[0] < 0x80) return {b[0], 1, true};
    const uint32_t n = b[0] >= 0xC2 && b[0] < 0xE0 ? 2 : b[0] >= 0xE0 && b[0] < 0xF0 ? 3 : b[0] >= 0xF0 && b[0] < 0xF5 ? 4 : 0;
    if (!n) return {0xFFFD, 1, false};
    uint32_t c = b[0] & (0x7F >> n);
    for (uint32_t i = 1; i < n; ++i) {
        // the second byte's range keeps out overlong forms, surrogates and what lies past U+10FFFF
        const unsigned low = i > 1 ? 0x80 : b[0] == 0xE0 ? 0xA0 : b[0] == 0xF0 ? 0x90 : 0x80, high = i > 1 ? 0xBF : b[0] == 0xED ? 0x9F : b[0] == 0xF4 ? 0x8F : 0xBF;
        if (i >= left || b[i] < low || b[i] > high) return {0xFFFD, i, false};
        c = c << 6 | (b[i] & 0x3F);
    }
    return {c, n, true};
}

inline void append(std::string& out, uint32_t c) {
    if (c < 0x80) out += char(c);
    else if (c < 0x800) out += {char(0xC0 | c >> 6), char(0x80 | (c & 0x3F))};
    else if (c < 0x10000) out += {char(0xE0 | c >> 12), char(0x80 | (c >> 6 & 0x3F)), char(0x80 | (c & 0x3F))};
    else out += {char(0xF0 | c >> 18), char(0x80 | (c >> 12 & 0x3F)), char(0x80 | (c >> 6 & 0x3F)), char(0x80 | (c & 0x3F))};
}

} // namespace unicode

// ---- the tokenizer ---------------------------------------------------------------------------------------------------

// Never changes after construction: any number of threads may share it.
class Tokenizer {
public:
    // A checkpoint's tokenizer section (Model::tokenizer_data()); it must outlive this. Throws Error.
    Tokenizer(const uint8_t* data, size_t bytes);

    size_t size() const { return h_.n_tokens; }
    // add_special: with the special tokens that the model expects in front and behind. parse_special: special tokens written in the text
    // become their ids; otherwise they are text like any other. Invalid UTF-8 counts as U+FFFD.
    std::vector<int32_t> encode(std::string_view text, bool add_special = true, bool parse_special = false) const;
    // special: with the text of special tokens. Invalid UTF-8 becomes U+FFFD.
    std::string decode(const std::vector<int32_t>& ids, bool special = false) const;

    // Decoding token by token: the bytes of a split character are held back until it is whole. The space that encode() puts in front
    // of a text is taken off again after a bos token and where start says that a text begins: a stream may begin in the middle of one.
    class Stream {
    public:
        explicit Stream(const Tokenizer& tokenizer, bool special = false, bool start = false) : tokenizer_(&tokenizer), special_(special), start_(start) {}
        std::string push(int32_t id);
        std::string finish(); // what was held back

    private:
        std::string whole(bool all);
        const Tokenizer* tokenizer_;
        bool special_;
        bool start_;
        bool any_ = false;
        std::string held_;
    };

    std::string bytes(int32_t id) const;        // a token's text as bytes. Throws Error: no such token
    int32_t find(std::string_view text) const;  // the token whose text is exactly this, -1: none
    bool is_special(int32_t id) const { return type(id) == TOKEN_CONTROL; }
    bool is_end(int32_t id) const { return std::find(ends_.begin(), ends_.end(), id) != ends_.end(); }
    int32_t bos() const { return h_.bos; }
    int32_t eos() const { return h_.eos; }
    int32_t unk() const { return h_.unk; }
    int32_t mask() const { return h_.mask; }
    std::string_view chat_template() const { return {chars(h_.chat_template), h_.chat_template_bytes}; }
    uint32_t kind() const { return h_.kind; }
    const char* kind_name() const;

private:
    struct Slot {
        uint32_t hash;
        uint32_t id;
    };
    struct Work; // one call of encode()
    enum class Rule : uint8_t { GPT2, LLAMA3, QWEN2, QWEN35, GPT4O, TEKKEN, BLOOM, DIGIT, DIGITS_3, NEWLINE, CASED, ASCII_SIGNS, TRAILING_SPACE, CJK, LETTERS, SIGNS, HAN_KANA, DEEPSEEK_V3, SIGN_RUN, BYTE_DIGITS, ASCII_DIGITS_3 };

    const char* chars(uint32_t offset) const { return reinterpret_cast<const char*>(data_) + offset; }
    uint32_t u32(uint32_t offset, size_t i) const { uint32_t v; std::memcpy(&v, data_ + offset + 4 * i, 4); return v; }
    float score(size_t id) const { float v; std::memcpy(&v, data_ + h_.scores + 4 * id, 4); return v; }
    std::string_view text(size_t id) const { return {chars(h_.texts) + u32(h_.text_offsets, id), u32(h_.text_offsets, id + 1) - u32(h_.text_offsets, id)}; }
    uint8_t type(int32_t id) const { return uint32_t(id) < h_.n_tokens ? data_[h_.types + uint32_t(id)] & 15 : uint8_t(TOKEN_UNUSED); }
    bool usable(int32_t id) const { return id >= 0 && (type(id) == TOKEN_NORMAL || type(id) == TOKEN_ADDED); } // a model's own token, which text may become
    bool spaced() const { return h_.kind == TOKENIZER_SPM_BPE || h_.kind == TOKENIZER_UNIGRAM; } // U+2581 stands for a space

    struct Part { // of the section
        uint64_t begin, end;
        const char* name;
    };
    void check_array(std::vector<Part>& parts, const char* name, uint32_t& offset, uint64_t count, uint64_t width) const;
    std::vector<int32_t> ids(const char* name, uint32_t offset, uint32_t count) const;
    void read_texts();
    void read_merges();
    int32_t lookup(std::string_view text, uint32_t hash) const;
    uint32_t rank(int32_t left, int32_t right) const;
    int32_t added_at(std::string_view text, size_t at, const std::vector<int32_t>& tokens) const;

    uint16_t class_of(uint32_t c) const { return c < 0x800 ? classes_[c] : unicode::class_of(c); }
    uint16_t class_at(std::string_view s, size_t i, size_t& next) const;
    size_t run(std::string_view s, size_t i, uint16_t classes, size_t most = ~size_t(0)) const;
    size_t run_not(std::string_view s, size_t i, uint16_t classes) const;
    size_t white_space(std::string_view s, size_t i) const;
    std::string_view strip_end(std::string_view s) const;
    size_t match(Rule rule, std::string_view s, size_t i) const;
    size_t match_cased(std::string_view s, size_t i, bool contractions) const;

    void plain(Work& w, std::string_view text, bool first) const;
    void add_prefix(Work& w, std::string_view text, bool first) const;
    void add_spaced(Work& w, std::string_view text) const;
    void bert_words(Work& w, std::string_view text) const;
    void split(Work& w, size_t begin, size_t end, size_t rule = 0) const;
    void apply(Work& w, size_t begin, size_t end, size_t rule) const;
    void merge(Work& w, std::string_view word) const;
    void unigram(Work& w, std::string_view word) const;
    void wordpiece(Work& w, std::string_view word) const;
    bool fall_back(std::vector<int32_t>& out, std::string_view text) const;
    std::string charsmapped(std::string_view text) const;
    bool replace(std::string_view text, std::string& out) const;

    const uint8_t* data_;
    size_t bytes_;
    TokenizerHeader h_;
    std::vector<Slot> slots_;            // open addressing over the tokens' texts; id ~0: empty
    std::vector<uint32_t> merge_slots_;  // open addressing over the merges; ~0: empty
    std::vector<uint64_t> prefixes_;     // unigram: a Bloom filter of the beginnings of tokens
    std::vector<int32_t> added_;         // tokens found in any text, by text
    std::vector<int32_t> specials_;      // the same and the special tokens
    std::vector<int32_t> ends_;
    std::vector<int32_t> prefix_;
    std::vector<int32_t> suffix_;
    std::vector<Rule> rules_;
    std::unique_ptr<unicode::Normalizer> normalizer_;
    std::vector<uint16_t> classes_;      // of the first characters
    int32_t byte_ids_[256];              // the token of each byte
    size_t longest_ = 0;                 // bytes of the longest token that text is made of
    double unknown_score_ = 0;
    bool joins_space_[256] = {};         // bytes that a space stands behind within some token
};

// ---- reading the section ---------------------------------------------------------------------------------------------

constexpr const char* SPACE_MARK = "\xE2\x96\x81"; // U+2581, SentencePiece's space
constexpr uint32_t NO_MERGE = ~0u;

inline uint32_t text_hash(std::string_view text, uint32_t h = 2166136261u) { // FNV-1a: goes on where it stopped
    for (unsigned char c : text) h = (h ^ c) * 16777619u;
    return h;
}
inline size_t table_size(size_t n) { // a power of two, at most half full
    size_t size = 16;
    while (size < 2 * n) size *= 2;
    return size;
}
inline size_t spread(uint64_t key) { return size_t(key * 0x9E3779B97F4A7C15ull >> 32); }
constexpr size_t MAX_PROBES = 512; // a table that needs more was made to be slow

[[noreturn]] inline void tokenizer_error(const std::string& what) { throw Error("tokenizer: " + what); }

inline const char* Tokenizer::kind_name() const {
    constexpr const char* names[] = {"byte-level BPE", "SentencePiece BPE", "unigram", "WordPiece"};
    return names[h_.kind];
}

inline void Tokenizer::check_array(std::vector<Part>& parts, const char* name, uint32_t& offset, uint64_t count, uint64_t width) const {
    if (!count) return void(offset = 0); // no address is made from what nothing bounds
    if (offset % 4 || offset < sizeof h_ || offset > bytes_ || count > (bytes_ - offset) / width)
        tokenizer_error(std::string(name) + ": " + std::to_string(count) + " of " + std::to_string(width) + " bytes at " + std::to_string(offset) + " do not fit in a section of " + std::to_string(bytes_) + " bytes");
    parts.push_back({offset, offset + count * width, name});
}

inline std::vector<int32_t> Tokenizer::ids(const char* name, uint32_t offset, uint32_t count) const {
    std::vector<int32_t> out(count);
    for (uint32_t i = 0; i < count; ++i) {
        out[i] = int32_t(u32(offset, i));
        if (out[i] < 0 || uint32_t(out[i]) >= h_.n_tokens) tokenizer_error(std::string(name) + " has token " + std::to_string(out[i]) + " of " + std::to_string(h_.n_tokens));
    }
    return out;
}

inline Tokenizer::Tokenizer(const uint8_t* data, size_t bytes) : data_(data), bytes_(bytes) {
    if (bytes < sizeof h_) tokenizer_error("a section of " + std::to_string(bytes) + " bytes, the header alone has " + std::to_string(sizeof h_));
    std::memcpy(&h_, data, sizeof h_);
    if (h_.version != TOKENIZER_VERSION) tokenizer_error("version " + std::to_string(h_.version) + ", expected " + std::to_string(TOKENIZER_VERSION));
    if (h_.bytes != bytes) tokenizer_error("the header counts " + std::to_string(h_.bytes) + " bytes, there are " + std::to_string(bytes));
    struct { const char* name; uint32_t value, most; } limits[] = {
        {"kind", h_.kind, TOKENIZER_WORDPIECE}, {"pre_tokenizer", h_.pre_tokenizer, PRE_BLOOM}, {"space_prefix", h_.space_prefix, PREFIX_FIRST}, {"spaces", h_.spaces, SPACES_WORDS},
        {"byte_fallback", h_.byte_fallback, 1}, {"ignore_merges", h_.ignore_merges, 1}, {"nfc", h_.nfc, 1}, {"clean_text", h_.clean_text, 1},
        {"chinese_chars", h_.chinese_chars, 1}, {"strip_accents", h_.strip_accents, 1}, {"lowercase", h_.lowercase, 1}};
    for (const auto& l : limits)
        if (l.value > l.most) tokenizer_error(std::string(l.name) + " is " + std::to_string(l.value) + ", expected " + std::to_string(l.most) + " or less");
    struct { const char* name; int32_t id; } named[] = {{"bos", h_.bos}, {"eos", h_.eos}, {"unk", h_.unk}, {"mask", h_.mask}};
    for (const auto& t : named)
        if (t.id < -1 || t.id >= int64_t(h_.n_tokens)) tokenizer_error(std::string(t.name) + " is token " + std::to_string(t.id) + " of " + std::to_string(h_.n_tokens));
    if ((h_.kind == TOKENIZER_UNIGRAM || h_.kind == TOKENIZER_WORDPIECE) && h_.unk < 0) tokenizer_error(std::string(kind_name()) + " without an unknown token");

    std::vector<Part> parts;
    check_array(parts, "text_offsets", h_.text_offsets, uint64_t(h_.n_tokens) + 1, 4);
    check_array(parts, "texts", h_.texts, u32(h_.text_offsets, h_.n_tokens), 1);
    check_array(parts, "scores", h_.scores, h_.kind == TOKENIZER_UNIGRAM ? h_.n_tokens : 0, 4);
    check_array(parts, "types", h_.types, h_.n_tokens, 1);
    check_array(parts, "merges", h_.merges, h_.n_merges, 12);
    check_array(parts, "ends", h_.ends, h_.n_ends, 4);
    check_array(parts, "prefix", h_.prefix, h_.n_prefix, 4);
    check_array(parts, "suffix", h_.suffix, h_.n_suffix, 4);
    check_array(parts, "chat_template", h_.chat_template, h_.chat_template_bytes, 1);
    check_array(parts, "charsmap", h_.charsmap, h_.charsmap_bytes, 1);
    std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.begin < b.begin; });
    for (size_t i = 1; i < parts.size(); ++i)
        if (parts[i].begin < parts[i - 1].end) tokenizer_error(std::string(parts[i - 1].name) + " and " + parts[i].name + " overlap at byte " + std::to_string(parts[i].begin));
    ends_ = ids("ends", h_.ends, h_.n_ends);
    prefix_ = ids("prefix", h_.prefix, h_.n_prefix);
    suffix_ = ids("suffix", h_.suffix, h_.n_suffix);

    using R = Rule;
    const std::vector<Rule> rules[] = {{}, {R::GPT2}, {R::DIGIT, R::GPT2}, {R::LLAMA3}, {R::QWEN2},
        {R::NEWLINE, R::CASED, R::ASCII_SIGNS, R::TRAILING_SPACE, R::CJK, R::DIGIT}, {R::NEWLINE, R::LETTERS, R::SIGNS, R::CJK, R::DIGIT},
        {R::DIGITS_3, R::HAN_KANA, R::DEEPSEEK_V3}, {R::SIGN_RUN, R::GPT2, R::BYTE_DIGITS, R::ASCII_DIGITS_3}, {R::GPT4O}, {R::TEKKEN}, {R::QWEN35}, {R::BLOOM}};
    rules_ = rules[h_.pre_tokenizer];
    classes_.resize(0x800);
    for (uint32_t c = 0; c < classes_.size(); ++c) classes_[c] = unicode::class_of(c);
    if (h_.nfc || h_.strip_accents) normalizer_ = std::make_unique<unicode::Normalizer>();
    read_texts();
    read_merges();
    if (h_.charsmap_bytes) {
        const uint32_t trie = h_.charsmap_bytes < 4 ? ~0u : u32(h_.charsmap, 0);
        if (trie % 4 || trie > h_.charsmap_bytes - 4) tokenizer_error("charsmap: a trie of " + std::to_string(trie) + " bytes in " + std::to_string(h_.charsmap_bytes));
    }
}

inline int byte_named(std::string_view t) { // <0x00> to <0xFF>, -1: none of them
    const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; };
    if (t.size() != 6 || t.substr(0, 3) != "<0x" || t[5] != '>' || digit(t[3]) < 0 || digit(t[4]) < 0) return -1;
    return digit(t[3]) * 16 + digit(t[4]);
}

inline void Tokenizer::read_texts() {
    const uint32_t n = h_.n_tokens;
    if (u32(h_.text_offsets, 0)) tokenizer_error("the first text does not start at 0");
    std::fill(std::begin(byte_ids_), std::end(byte_ids_), -1);
    const auto slots = table_size(n);
    slots_.assign(slots, Slot{0, ~0u});
    size_t beginnings = 0;
    float lowest = 0;
    bool any = false;
    for (uint32_t id = 0; id < n; ++id) {
        const uint32_t from = u32(h_.text_offsets, id), to = u32(h_.text_offsets, id + 1);
        if (to < from || to > u32(h_.text_offsets, n) || to - from > MAX_TOKEN_BYTES)
            tokenizer_error("token " + std::to_string(id) + "'s text is bytes " + std::to_string(from) + " to " + std::to_string(to) + ", expected " + std::to_string(MAX_TOKEN_BYTES) + " at most, in order");
        const uint8_t type = data_[h_.types + id];
        if ((type & 15) > TOKEN_UNUSED || type & ~(15 | TOKEN_LSTRIP | TOKEN_RSTRIP)) tokenizer_error("token " + std::to_string(id) + " has type " + std::to_string(type));
        const std::string_view t = text(id);
        if ((type & 15) == TOKEN_BYTE) {
            const int byte = byte_named(t);
            if (byte < 0) tokenizer_error("token " + std::to_string(id) + " is a byte named '" + std::string(t.substr(0, 16)) + "', expected <0x00> to <0xFF>");
            byte_ids_[byte] = int32_t(id);
        }
        if (h_.kind == TOKENIZER_UNIGRAM) {
            const float s = score(id);
            if (!(s > -1e30f && s < 1e30f)) tokenizer_error("token " + std::to_string(id) + "'s score is not a number that can be added up");
            if ((type & 15) != TOKEN_UNUSED) lowest = any ? std::min(lowest, s) : s, any = true;
        }
        if ((type & 15) == TOKEN_ADDED && !t.empty()) added_.push_back(int32_t(id));
        if (((type & 15) == TOKEN_ADDED || (type & 15) == TOKEN_CONTROL) && !t.empty()) specials_.push_back(int32_t(id));
    }
    unknown_score_ = double(lowest) - 10; // as SentencePiece has it

    // A text that two tokens share means the model's own token: it enters first.
    for (const bool own : {true, false})
        for (uint32_t id = 0; id < n; ++id) {
            if ((type(int32_t(id)) == TOKEN_NORMAL) != own) continue;
            const std::string_view t = text(id);
            const uint32_t hash = text_hash(t);
            size_t i = spread(hash), probes = 0;
            bool twice = false;
            for (; slots_[i & (slots - 1)].id != ~0u && !twice; ++i) {
                const Slot& s = slots_[i & (slots - 1)];
                twice = s.hash == hash && text(s.id) == t;
                if (++probes > MAX_PROBES) tokenizer_error("the texts of the tokens collide");
            }
            if (!twice) slots_[i & (slots - 1)] = {hash, id};
            if (!usable(int32_t(id))) continue;
            longest_ = std::max(longest_, t.size());
            if (h_.kind == TOKENIZER_BYTE_BPE && t.size() == 1 && own) byte_ids_[uint8_t(t[0])] = int32_t(id);
            if (h_.kind == TOKENIZER_SPM_BPE)
                for (size_t at = t.find(SPACE_MARK, 1); at != t.npos; at = t.find(SPACE_MARK, at + 3))
                    if (at < 3 || t.compare(at - 3, 3, SPACE_MARK)) joins_space_[uint8_t(t[at - 1])] = true;
            beginnings += t.size();
        }

    if (h_.kind == TOKENIZER_UNIGRAM) {
        prefixes_.assign(table_size(4 * beginnings) / 64 + 1, 0);
        for (uint32_t id = 0; id < n; ++id) {
            if (!usable(int32_t(id))) continue;
            uint32_t hash = text_hash({});
            for (char c : text(id)) {
                hash = text_hash({&c, 1}, hash);
                const size_t bit = spread(hash) % (64 * prefixes_.size());
                prefixes_[bit / 64] |= uint64_t(1) << bit % 64;
            }
        }
    }
    const auto by_text = [this](int32_t a, int32_t b) { return text(size_t(a)) < text(size_t(b)); };
    std::stable_sort(added_.begin(), added_.end(), by_text);
    std::stable_sort(specials_.begin(), specials_.end(), by_text);
}

inline void Tokenizer::read_merges() {
    const auto slots = table_size(h_.n_merges);
    merge_slots_.assign(h_.n_merges ? slots : 0, NO_MERGE);
    for (uint32_t m = 0; m < h_.n_merges; ++m) {
        const uint32_t left = u32(h_.merges, 3 * size_t(m)), right = u32(h_.merges, 3 * size_t(m) + 1);
        if (std::max({left, right, u32(h_.merges, 3 * size_t(m) + 2)}) >= h_.n_tokens) tokenizer_error("merge " + std::to_string(m) + " names a token past " + std::to_string(h_.n_tokens));
        size_t i = spread(uint64_t(left) << 32 | right), probes = 0;
        for (; merge_slots_[i & (slots - 1)] != NO_MERGE; ++i) {
            const size_t other = 3 * size_t(merge_slots_[i & (slots - 1)]);
            if (u32(h_.merges, other) == left && u32(h_.merges, other + 1) == right) break; // the better one stays
            if (++probes > MAX_PROBES) tokenizer_error("the merges collide");
        }
        if (merge_slots_[i & (slots - 1)] == NO_MERGE) merge_slots_[i & (slots - 1)] = m;
    }
}

// ---- looking up ------------------------------------------------------------------------------------------------------

inline int32_t Tokenizer::lookup(std::string_view t, uint32_t hash) const {
    for (size_t i = spread(hash);; ++i) {
        const Slot& s = slots_[i & (slots_.size() - 1)];
        if (s.id == ~0u) return -1;
        if (s.hash == hash && text(s.id) == t) return int32_t(s.id);
    }
}

inline uint32_t Tokenizer::rank(int32_t left, int32_t right) const {
    if (merge_slots_.empty()) return NO_MERGE;
    for (size_t i = spread(uint64_t(uint32_t(left)) << 32 | uint32_t(right));; ++i) {
        const uint32_t m = merge_slots_[i & (merge_slots_.size() - 1)];
        if (m == NO_MERGE || (u32(h_.merges, 3 * size_t(m)) == uint32_t(left) && u32(h_.merges, 3 * size_t(m) + 1) == uint32_t(right))) return m;
    }
}

// The longest of these tokens (sorted by text) that stands in text at `at`; -1: none.
inline int32_t Tokenizer::added_at(std::string_view s, size_t at, const std::vector<int32_t>& tokens) const {
    auto from = tokens.begin(), to = tokens.end();
    int32_t found = -1;
    for (size_t k = 0; from != to && at + k < s.size(); ++k) {
        const auto c = static_cast<unsigned char>(s[at + k]);
        const auto byte = [&](int32_t id) { return text(size_t(id)).size() > k ? int(static_cast<unsigned char>(text(size_t(id))[k])) : -1; };
        from = std::lower_bound(from, to, int(c), [&](int32_t id, int b) { return byte(id) < b; });
        to = std::upper_bound(from, to, int(c), [&](int b, int32_t id) { return b < byte(id); });
        if (from != to && text(size_t(*from)).size() == k + 1) found = *from;
    }
    return found;
}

inline int32_t Tokenizer::find(std::string_view t) const {
    std::string marked;
    for (char c : t)
        if (spaced() && c == ' ') marked += SPACE_MARK;
        else marked += c;
    return lookup(marked, text_hash(marked));
}

inline std::string Tokenizer::bytes(int32_t id) const {
    if (id < 0 || uint32_t(id) >= h_.n_tokens) throw Error("token " + std::to_string(id) + " is not in a vocabulary of " + std::to_string(h_.n_tokens));
    const std::string_view t = text(size_t(id));
    if (type(id) == TOKEN_BYTE) return std::string(1, char(byte_named(t)));
    if (type(id) == TOKEN_CONTROL || h_.kind == TOKENIZER_BYTE_BPE) return std::string(t);
    if (h_.kind == TOKENIZER_WORDPIECE) return std::string(t.size() > 2 && t.substr(0, 2) == "##" ? t.substr(2) : t);
    std::string out;
    for (size_t i = 0; i < t.size(); ++i)
        if (t.compare(i, 3, SPACE_MARK)) out += t[i];
        else out += ' ', i += 2;
    return out;
}

// ---- cutting text into pieces ----------------------------------------------------------------------------------------
// Byte-level BPE's pre-tokenisers: each is a list of regular expressions that cut the pieces of the one before. match() gives the end of
// the match of one of them at s[i], or i if there is none; what lies between matches is a piece too.

inline uint16_t Tokenizer::class_at(std::string_view s, size_t i, size_t& next) const {
    if (i >= s.size()) return next = i, uint16_t(0);
    const auto c = unicode::char_at(s, i);
    next = i + c.length;
    return class_of(c.code);
}
inline size_t Tokenizer::run(std::string_view s, size_t i, uint16_t classes, size_t most) const {
    for (size_t next; most && class_at(s, i, next) & classes; i = next) --most;
    return i;
}
inline size_t Tokenizer::run_not(std::string_view s, size_t i, uint16_t classes) const {
    for (size_t next; i < s.size() && !(class_at(s, i, next) & classes); i = next) {}
    return i;
}
inline std::string_view Tokenizer::strip_end(std::string_view s) const { // without trailing white space
    size_t keep = 0;
    for (size_t i = 0, next; i < s.size(); i = next)
        if (!(class_at(s, i, next) & unicode::SPACE)) keep = next;
    return s.substr(0, keep);
}
inline size_t skip(std::string_view s, size_t i, const char* any_of) { // [any_of]*
    while (i < s.size() && s[i] && std::strchr(any_of, s[i])) ++i;
    return i;
}

// \s+(?!\S)|\s+ : all of it at the end, else without its last character, which goes with the word behind
inline size_t Tokenizer::white_space(std::string_view s, size_t i) const {
    const size_t end = run(s, i, unicode::SPACE);
    if (end == s.size() || end == i) return end;
    size_t last = end;
    do --last;
    while ((s[last] & 0xC0) == 0x80);
    return last > i ? last : end;
}

// 's|'t|'re|'ve|'m|'ll|'d ; in any case also the long s, which folds to s
inline size_t contraction(std::string_view s, size_t i, bool any_case) {
    if (i + 1 >= s.size() || s[i] != '\'') return i;
    const auto low = [&](size_t k) { return k >= s.size() ? '\0' : any_case && s[k] >= 'A' && s[k] <= 'Z' ? char(s[k] + 32) : s[k]; };
    const char a = low(i + 1), b = low(i + 2);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return i + 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return i + 3;
    return any_case && s.compare(i + 1, 2, "\xC5\xBF") == 0 ? i + 3 : i;
}

// GPT-4o: [^\r\n\p{L}\p{N}]?[U]*[W]+(contraction)?|[^\r\n\p{L}\p{N}]?[U]+[W]*(contraction)? where U and W are all letters and marks but the lower-case
// ones, but the upper-case ones
inline size_t Tokenizer::match_cased(std::string_view s, size_t i, bool contractions) const {
    using namespace unicode;
    constexpr uint16_t both = OTHER_LETTER | MARK, U = UPPER | both, W = LOWER_CASE | both;
    size_t next = i;
    const bool other = s[i] != '\r' && s[i] != '\n' && !(class_at(s, i, next) & (LETTER | NUMBER));
    for (const bool lower : {true, false})
        for (const size_t from : {other ? next : i, i}) {
            const size_t upper_end = run(s, from, U);
            size_t end = upper_end > from && !lower ? upper_end : from;
            if (lower) {
                end = run(s, upper_end, W);
                if (end == upper_end) { // give back upper-case characters until one is of both kinds
                    size_t at = from;
                    end = from;
                    for (size_t k; at < upper_end; at = k)
                        if (class_at(s, at, k) & W) end = k;
                }
            }
            if (end > from) return contractions ? contraction(s, end, true) : end;
        }
    return i;
}

inline bool in_ranges(uint32_t c, const uint32_t (*ranges)[2], size_t n) {
    for (size_t r = 0; r < n && c >= ranges[r][0]; ++r)
        if (c <= ranges[r][1]) return true;
    return false;
}

// DeepSeek LLM's cased letters, as its regular expression lists them
constexpr uint32_t CASED_LETTERS[][2] = {
    {0x41, 0x5A}, {0x61, 0x7A}, {0xB5, 0xB5}, {0xC0, 0xD6}, {0xD8, 0xF6}, {0xF8, 0x1BA}, {0x1BC, 0x1BF}, {0x1C4, 0x293}, {0x295, 0x2AF}, {0x370, 0x373},
    {0x376, 0x376}, {0x377, 0x377}, {0x37B, 0x37D}, {0x37F, 0x37F}, {0x386, 0x386}, {0x388, 0x38A}, {0x38C, 0x38C}, {0x38E, 0x3A1}, {0x3A3, 0x3F5},
    {0x3F7, 0x481}, {0x48A, 0x52F}, {0x531, 0x556}, {0x10A0, 0x10C5}, {0x13A0, 0x13F5}, {0x13F8, 0x13FD}, {0x1C90, 0x1CBA}, {0x1CBD, 0x1CBF},
    {0x1D00, 0x1D2B}, {0x1D6B, 0x1D77}, {0x1D79, 0x1D9A}, {0x1E00, 0x1F15}, {0x1F18, 0x1F1D}, {0x1F20, 0x1F45}, {0x1F48, 0x1F4D}, {0x1F50, 0x1F57},
    {0x1F59, 0x1F59}, {0x1F5B, 0x1F5B}, {0x1F5D, 0x1F5D}, {0x1F5F, 0x1F7D}, {0x1F80, 0x1FB4}, {0x1FB6, 0x1FBC}, {0x1FBE, 0x1FBE}, {0x1FC2, 0x1FC4},
    {0x1FC6, 0x1FCC}, {0x1FD0, 0x1FD3}, {0x1FD6, 0x1FDB}, {0x1FE0, 0x1FEC}, {0x1FF2, 0x1FF4}, {0x1FF6, 0x1FFC}, {0x2102, 0x2102}, {0x2107, 0x2107},
    {0x210A, 0x2113}, {0x2115, 0x2115}, {0x2119, 0x211D}, {0x2124, 0x2124}, {0x2126, 0x2126}, {0x2128, 0x2128}, {0x212A, 0x212D}, {0x212F, 0x2134},
    {0x2139, 0x2139}, {0x213C, 0x213F}, {0x2145, 0x2149}, {0x214E, 0x214E}, {0x2183, 0x2183}, {0x2184, 0x2184}, {0x2C00, 0x2C7B}, {0x2C7E, 0x2CE4},
    {0x2CEB, 0x2CEE}, {0x2CF2, 0x2CF2}, {0x2CF3, 0x2CF3}, {0xA640, 0xA66D}, {0xA680, 0xA69B}, {0xA722, 0xA76F}, {0xA771, 0xA787}, {0xA78B, 0xA78E},
    {0xAB70, 0xABBF}, {0xFB00, 0xFB06}, {0xFB13, 0xFB17}, {0xFF21, 0xFF3A}, {0xFF41, 0xFF5A}, {0x10400, 0x1044F}, {0x104B0, 0x104D3}, {0x104D8, 0x104FB},
    {0x10C80, 0x10CB2}, {0x10CC0, 0x10CF2}, {0x118A0, 0x118DF}, {0x1E900, 0x1E943},
};

inline size_t Tokenizer::match(Rule rule, std::string_view s, const size_t i) const {
    using namespace unicode;
    const auto optional = [&](char c) { return i + (s[i] == c); };
    const auto signs = [&](uint16_t no, const char* tail) { // ?[^no]+[tail]*
        const size_t from = optional(' '), end = run_not(s, from, no);
        return end > from ? skip(s, end, tail) : i;
    };
    const auto newlines = [&] { // \s*[\r\n]+
        const size_t end = run(s, i, SPACE);
        const size_t last = s.substr(i, end - i).find_last_of("\r\n");
        return last == s.npos ? i : i + last + 1;
    };
    const auto ranges = [&](size_t from, const auto& table) {
        size_t end = from;
        for (; end < s.size();) {
            const Char c = char_at(s, end);
            if (!in_ranges(c.code, table, std::size(table))) break;
            end += c.length;
        }
        return end > from ? end : i;
    };
    size_t next, end;
    const uint16_t first = class_at(s, i, next);
    const size_t after_space = first & SPACE ? next : i;
    switch (rule) {
    case Rule::GPT2: // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
        if ((end = contraction(s, i, false)) > i) return end;
        for (const uint16_t c : {LETTER, uint16_t(NUMBER)})
            if ((end = run(s, optional(' '), c)) > optional(' ')) return end;
        if ((end = signs(SPACE | LETTER | NUMBER, "")) > i) return end;
        return white_space(s, i);
    case Rule::LLAMA3: // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
    case Rule::QWEN2:  // the same with \p{N}
    case Rule::QWEN35: { // and with [\p{L}\p{M}]+ for \p{L}+
        if ((end = contraction(s, i, true)) > i) return end;
        const uint16_t letters = rule == Rule::QWEN35 ? LETTER | MARK : LETTER;
        if (!(first & (LETTER | NUMBER)) && s[i] != '\r' && s[i] != '\n' && (end = run(s, next, letters)) > next) return end;
        if ((end = run(s, i, letters)) > i) return end;
        if ((end = run(s, i, NUMBER, rule == Rule::LLAMA3 ? 3 : 1)) > i) return end;
        if ((end = signs(SPACE | NUMBER | letters, "\r\n")) > i) return end;
        if ((end = newlines()) > i) return end;
        return white_space(s, i);
    }
    case Rule::GPT4O:  // match_cased|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
    case Rule::TEKKEN: // the same with \p{N}, and without contractions
        if ((end = match_cased(s, i, rule == Rule::GPT4O)) > i) return end;
        if ((end = run(s, i, NUMBER, rule == Rule::GPT4O ? 3 : 1)) > i) return end;
        if ((end = signs(SPACE | LETTER | NUMBER, "\r\n/")) > i) return end;
        if ((end = newlines()) > i) return end;
        return white_space(s, i);
    case Rule::DEEPSEEK_V3: { // [!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
        const auto is_ascii_letter = [&](size_t k) { return k < s.size() && ((s[k] >= 'A' && s[k] <= 'Z') || (s[k] >= 'a' && s[k] <= 'z')); };
        if (static_cast<unsigned char>(s[i]) < 0x80 && first & (PUNCTUATION | SYMBOL) && is_ascii_letter(i + 1)) {
            for (end = i + 1; is_ascii_letter(end);) ++end;
            return end;
        }
        if (!(first & (LETTER | PUNCTUATION | SYMBOL)) && s[i] != '\r' && s[i] != '\n' && (end = run(s, next, LETTER | MARK)) > next) return end;
        if ((end = run(s, i, LETTER | MARK)) > i) return end;
        if ((end = run(s, optional(' '), PUNCTUATION | SYMBOL)) > optional(' ')) return skip(s, end, "\r\n");
        if ((end = newlines()) > i) return end;
        return white_space(s, i);
    }
    case Rule::BLOOM: { //  ?[^(\s|[.,!?…。，、।۔،])]+
        constexpr uint32_t no[][2] = {{'!', '!'}, {'(', ')'}, {',', ','}, {'.', '.'}, {'?', '?'}, {'|', '|'}, {0x60C, 0x60C}, {0x6D4, 0x6D4}, {0x964, 0x964}, {0x2026, 0x2026}, {0x3001, 0x3002}, {0xFF0C, 0xFF0C}};
        const size_t from = optional(' ');
        for (end = from; end < s.size();) {
            const Char c = char_at(s, end);
            if (class_of(c.code) & SPACE || in_ranges(c.code, no, std::size(no))) break;
            end += c.length;
        }
        return end > from ? end : i;
    }
    case Rule::DIGIT: { // char::is_numeric of Rust, whose Unicode is newer than the regular expressions'
        const uint32_t c = char_at(s, i).code;
        return first & NUMBER || (c >= 0x11DE0 && c <= 0x11DE9) || (c >= 0x16FF4 && c <= 0x16FF6) ? next : i;
    }
    case Rule::DIGITS_3: return run(s, i, NUMBER, 3); // \p{N}{1,3}
    case Rule::NEWLINE: return s[i] == '\r' || s[i] == '\n' ? i + 1 : i; // [\r\n]
    case Rule::LETTERS: return (end = run(s, after_space, LETTER)) > after_space ? end : i; // \s?\p{L}+
    case Rule::SIGNS: return (end = run(s, after_space, PUNCTUATION)) > after_space ? end : i; // \s?\p{P}+
    case Rule::CASED: return ranges(after_space, CASED_LETTERS); // \s?[A-Za-zµÀ-Ö...]+
    case Rule::ASCII_SIGNS: { // \s?[!-/:-~！-／：-～‘-‟　-。]+
        constexpr uint32_t table[][2] = {{'!', '/'}, {':', '~'}, {0x2018, 0x201F}, {0x3000, 0x3002}, {0xFF01, 0xFF0F}, {0xFF1A, 0xFF5E}};
        // the ideographic space is both \s and in the list
        return (end = ranges(after_space, table)) > i ? end : ranges(i, table);
    }
    case Rule::CJK: { // [一-龥ࠀ-一가-퟿]+
        constexpr uint32_t table[][2] = {{0x800, 0x9FA5}, {0xAC00, 0xD7FF}};
        return ranges(i, table);
    }
    case Rule::HAN_KANA: { // [一-龥぀-ゟ゠-ヿ]+
        constexpr uint32_t table[][2] = {{0x3040, 0x30FF}, {0x4E00, 0x9FA5}};
        return ranges(i, table);
    }
    case Rule::SIGN_RUN: return run(s, i, BERT_PUNCTUATION);
    case Rule::BYTE_DIGITS: // of the bytes, as GPT-2 writes them: some stand as themselves and are ² ³ ¹ ¼ ½ ¾
        for (end = i; end < s.size() && ((s[end] >= '0' && s[end] <= '9') || (s[end] && std::strchr("\xB2\xB3\xB9\xBC\xBD\xBE", s[end])));) ++end;
        return end;
    case Rule::ASCII_DIGITS_3: { // [0-9][0-9][0-9]
        for (end = i; end < s.size() && end < i + 3 && s[end] >= '0' && s[end] <= '9';) ++end;
        return end == i + 3 ? end : i;
    }
    case Rule::TRAILING_SPACE: break; // split() sees to it: \s+$
    }
    return i;
}

// ---- text to ids -----------------------------------------------------------------------------------------------------

struct Tokenizer::Work {
    struct Symbol {
        int32_t id;
        uint32_t before, behind; // ~0: none
        uint32_t rank;           // of the merge with the one behind
    };
    struct Node { // a place in a word, and the best way there
        double score;
        int32_t id;
        uint32_t from;
    };
    struct Known { // a piece seen before: where in text, and where its ids are
        uint32_t begin, size, rule, first, count;
    };
    std::string text; // normalised
    std::vector<int32_t> ids;
    std::vector<Known> known = std::vector<Known>(4096);
    std::vector<Symbol> symbols;
    std::vector<uint64_t> heap;
    std::vector<Node> nodes;
};

inline std::vector<int32_t> Tokenizer::encode(std::string_view text, bool add_special, bool parse_special) const {
    if (text.size() > 1u << 30) tokenizer_error("a text of " + std::to_string(text.size()) + " bytes, expected a gibibyte at most");
    std::string repaired;
    for (size_t i = 0; i < text.size();) {
        const auto c = unicode::char_at(text, i);
        if (!c.valid && repaired.empty()) repaired.assign(text, 0, i), repaired.reserve(text.size() + 64);
        if (!c.valid) unicode::append(repaired, c.code);
        else if (!repaired.empty()) repaired.append(text, i, c.length);
        i += c.length;
    }
    if (!repaired.empty()) text = repaired;

    Work w;
    w.text.reserve(text.size() + text.size() / 4);
    if (add_special) w.ids = prefix_;
    const auto& tokens = parse_special ? specials_ : added_;
    bool starts[256] = {};
    for (int32_t id : tokens) starts[static_cast<unsigned char>(this->text(size_t(id))[0])] = true;
    size_t begin = 0;
    for (size_t i = 0; i < text.size();) {
        int32_t id = -1;
        if (!starts[static_cast<unsigned char>(text[i])] || (id = added_at(text, i, tokens)) < 0) {
            ++i;
            continue;
        }
        const std::string_view before = text.substr(begin, i - begin);
        const uint8_t flags = data_[h_.types + uint32_t(id)];
        i += this->text(size_t(id)).size();
        plain(w, flags & TOKEN_LSTRIP ? strip_end(before) : before, begin == 0);
        if (flags & TOKEN_RSTRIP) i = run(text, i, unicode::SPACE);
        w.ids.push_back(id);
        begin = i;
    }
    plain(w, text.substr(begin), begin == 0);
    if (add_special) w.ids.insert(w.ids.end(), suffix_.begin(), suffix_.end());
    return std::move(w.ids);
}

// Text between special and added tokens: normalised onto w.text and cut into words.
inline void Tokenizer::plain(Work& w, std::string_view text, bool first) const {
    if (text.empty()) return;
    if (w.text.size() > 0xF0000000u) tokenizer_error("the text is too long once normalised");
    const size_t begin = w.text.size();
    std::string changed;
    if (h_.nfc && std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) >= 0xCC; })) { // U+0300 and up
        std::u32string wide;
        for (size_t i = 0; i < text.size();) {
            const auto c = unicode::char_at(text, i);
            wide += char32_t(c.code);
            i += c.length;
        }
        normalizer_->nfc(wide);
        for (char32_t c : wide) unicode::append(changed, c);
        text = changed;
    }
    switch (h_.kind) {
    case TOKENIZER_BYTE_BPE:
        add_prefix(w, text, first);
        w.text += text;
        return split(w, begin, w.text.size());
    case TOKENIZER_SPM_BPE: {
        add_prefix(w, text, first);
        add_spaced(w, text);
        size_t from = begin; // where no token goes on behind a space, what stands before and behind can be done alone
        for (size_t at = begin; (at = w.text.find(SPACE_MARK, at)) != std::string::npos; at += 3)
            if (at > from && !joins_space_[uint8_t(w.text[at - 1])] && (at < from + 3 || w.text.compare(at - 3, 3, SPACE_MARK))) split(w, from, at), from = at;
        return split(w, from, w.text.size());
    }
    case TOKENIZER_UNIGRAM: {
        if (h_.charsmap_bytes) changed = charsmapped(text), text = changed;
        const auto words = [&](std::string_view part, bool is_first) {
            const size_t start = w.text.size();
            add_prefix(w, part, is_first);
            add_spaced(w, part);
            size_t from = start;
            for (size_t at = start + 1; (at = w.text.find(SPACE_MARK, at)) != std::string::npos; at += 3) split(w, from, at), from = at;
            if (from < w.text.size()) split(w, from, w.text.size());
        };
        if (h_.spaces == SPACES_WORDS) {
            for (size_t i = run(text, 0, unicode::SPACE); i < text.size(); i = run(text, i, unicode::SPACE)) {
                const size_t end = run_not(text, i, unicode::SPACE);
                words(text.substr(i, end - i), first);
                i = end;
            }
            return;
        }
        if (h_.spaces == SPACES_STRIP_COLLAPSE) text = strip_end(text);
        std::string single;
        for (char c : text)
            if (c != ' ' || h_.spaces == SPACES_KEEP || single.empty() || single.back() != ' ') single += c;
        if (!single.empty()) words(single, first);
        return;
    }
    default: return bert_words(w, text);
    }
}

inline void Tokenizer::add_prefix(Work& w, std::string_view text, bool first) const {
    const bool has = text[0] == ' ' || (spaced() && text.substr(0, 3) == SPACE_MARK);
    if (h_.space_prefix == PREFIX_ALWAYS || (h_.space_prefix == PREFIX_MISSING && !has) || (h_.space_prefix == PREFIX_FIRST && first && !has)) w.text += spaced() ? SPACE_MARK : " ";
}
inline void Tokenizer::add_spaced(Work& w, std::string_view text) const {
    for (char c : text)
        if (c == ' ') w.text += SPACE_MARK;
        else w.text += c;
}

// A piece of w.text that the rules before `rule` have cut: cut by the others, and made tokens. Words come again and again: the ids of
// a short piece seen before are copied.
inline void Tokenizer::split(Work& w, size_t begin, size_t end, size_t rule) const {
    if (begin == end) return;
    const std::string_view s(w.text.data() + begin, end - begin);
    Work::Known* known = nullptr;
    if (s.size() <= 64) {
        known = &w.known[(spread(text_hash(s)) + rule) % w.known.size()];
        if (known->size == s.size() && known->rule == rule && !std::memcmp(w.text.data() + known->begin, s.data(), s.size())) {
            w.ids.resize(w.ids.size() + known->count);
            std::copy_n(w.ids.begin() + known->first, known->count, w.ids.end() - known->count);
            return;
        }
    }
    const size_t first = w.ids.size();
    if (rule < rules_.size()) apply(w, begin, end, rule);
    else if (h_.kind == TOKENIZER_UNIGRAM) unigram(w, s);
    else if (h_.kind == TOKENIZER_WORDPIECE) wordpiece(w, s);
    else merge(w, s);
    if (known && end < ~0u && w.ids.size() < ~0u) *known = {uint32_t(begin), uint32_t(s.size()), uint32_t(rule), uint32_t(first), uint32_t(w.ids.size() - first)};
}

inline void Tokenizer::apply(Work& w, size_t begin, size_t end, size_t rule) const {
    const Rule r = rules_[rule];
    const std::string_view s(w.text.data() + begin, end - begin);
    if (r == Rule::TRAILING_SPACE) { // \s+$
        const size_t keep = strip_end(s).size();
        split(w, begin, begin + keep, rule + 1);
        return split(w, begin + keep, end, rule + 1);
    }
    size_t from = 0;
    for (size_t i = 0; i < s.size();) {
        const size_t match_end = match(r, s, i);
        if (match_end == i) {
            i += r == Rule::BYTE_DIGITS ? 1 : unicode::char_at(s, i).length;
            continue;
        }
        split(w, begin + from, begin + i, rule + 1);
        split(w, begin + i, begin + match_end, rule + 1);
        i = from = match_end;
    }
    split(w, begin + from, end, rule + 1);
}

// A character without a token, as its bytes' tokens.
inline bool Tokenizer::fall_back(std::vector<int32_t>& out, std::string_view s) const {
    if (!h_.byte_fallback || std::any_of(s.begin(), s.end(), [this](char c) { return byte_ids_[uint8_t(c)] < 0; })) return false;
    for (char c : s) out.push_back(byte_ids_[uint8_t(c)]);
    return true;
}

// Byte pair encoding (Sennrich et al. 2016): of all neighbours, the pair that stands first in the list of merges becomes one, the leftmost
// first. A heap of ranks and places, over a linked list, keeps it at n log n.
inline void Tokenizer::merge(Work& w, std::string_view s) const {
    if (h_.ignore_merges) {
        const int32_t id = lookup(s, text_hash(s));
        if (usable(id)) return w.ids.push_back(id);
    }
    const size_t start = w.ids.size(); // the symbols' first ids stand there until they are merged
    bool unknown = false;              // unknown neighbours are one
    for (size_t i = 0; i < s.size();) {
        const uint32_t n = h_.kind == TOKENIZER_BYTE_BPE ? 1 : unicode::char_at(s, i).length;
        const std::string_view c = s.substr(i, n);
        int32_t id = h_.kind == TOKENIZER_BYTE_BPE ? byte_ids_[uint8_t(c[0])] : lookup(c, text_hash(c));
        if (h_.kind != TOKENIZER_BYTE_BPE && !usable(id)) id = -1;
        i += n;
        if (id < 0 && fall_back(w.ids, c)) {
            unknown = false;
            continue;
        }
        if (id >= 0) w.ids.push_back(id);
        else if (h_.unk >= 0 && !unknown && h_.kind != TOKENIZER_BYTE_BPE) w.ids.push_back(h_.unk); // a byte without a token is left out
        unknown = id < 0;
    }
    const auto n = uint32_t(w.ids.size() - start);
    if (n < 2) return;

    auto& symbols = w.symbols;
    symbols.resize(n);
    w.heap.clear();
    const auto consider = [&](uint32_t at) {
        Work::Symbol& a = symbols[at];
        a.rank = a.behind == ~0u ? NO_MERGE : rank(a.id, symbols[a.behind].id);
        if (a.rank != NO_MERGE) w.heap.push_back(uint64_t(a.rank) << 32 | at);
        return a.rank != NO_MERGE;
    };
    for (uint32_t i = 0; i < n; ++i) symbols[i] = {w.ids[start + i], i - 1, i + 1 < n ? i + 1 : ~0u, NO_MERGE};
    for (uint32_t i = 0; i < n; ++i) consider(i);
    std::make_heap(w.heap.begin(), w.heap.end(), std::greater<>());
    while (!w.heap.empty()) {
        std::pop_heap(w.heap.begin(), w.heap.end(), std::greater<>());
        const auto best = uint32_t(w.heap.back() >> 32), at = uint32_t(w.heap.back());
        w.heap.pop_back();
        Work::Symbol& a = symbols[at];
        if (a.rank != best) continue; // no longer a pair
        Work::Symbol& b = symbols[a.behind];
        a.id = int32_t(u32(h_.merges, 3 * size_t(best) + 2));
        a.behind = b.behind;
        b.rank = NO_MERGE;
        if (a.behind != ~0u) symbols[a.behind].before = at;
        if (consider(at)) std::push_heap(w.heap.begin(), w.heap.end(), std::greater<>());
        if (a.before != ~0u && consider(a.before)) std::push_heap(w.heap.begin(), w.heap.end(), std::greater<>());
    }
    w.ids.resize(start);
    for (uint32_t i = 0; i != ~0u; i = symbols[i].behind) w.ids.push_back(symbols[i].id);
}

// Unigram (Kudo 2018): the way through the word whose tokens' scores have the largest sum (Viterbi). A character that is no token by
// itself may be unknown, and unknown neighbours are one.
inline void Tokenizer::unigram(Work& w, std::string_view s) const {
    auto& nodes = w.nodes;
    nodes.assign(s.size() + 1, {0, -1, ~0u});
    const auto reach = [&](size_t from, size_t to, int32_t id, double score) {
        if (nodes[to].from == ~0u || nodes[from].score + score > nodes[to].score) nodes[to] = {nodes[from].score + score, id, uint32_t(from)};
    };
    for (size_t from = 0; from < s.size();) {
        const size_t single = from + unicode::char_at(s, from).length;
        bool has_single = false;
        uint32_t hash = text_hash({});
        for (size_t to = from; to < s.size();) {
            hash = text_hash(s.substr(to, 1), hash);
            ++to;
            const size_t bit = spread(hash) % (64 * prefixes_.size());
            if (to - from > longest_ || !(prefixes_[bit / 64] >> bit % 64 & 1)) break;
            if (to < s.size() && (s[to] & 0xC0) == 0x80) continue; // within a character
            const int32_t id = lookup(s.substr(from, to - from), hash);
            if (!usable(id)) continue;
            reach(from, to, id, score(size_t(id)));
            has_single |= to == single;
        }
        if (!has_single) reach(from, single, h_.unk, unknown_score_);
        from = single;
    }
    const size_t start = w.ids.size();
    std::vector<int32_t> fallen;
    for (size_t to = s.size(); to > 0;) {
        size_t from = nodes[to].from;
        if (nodes[to].id == h_.unk) {
            while (from > 0 && nodes[from].id == h_.unk) from = nodes[from].from;
            fallen.clear();
            if (!fall_back(fallen, s.substr(from, to - from))) fallen.push_back(h_.unk);
            w.ids.insert(w.ids.end(), fallen.rbegin(), fallen.rend());
        } else w.ids.push_back(nodes[to].id);
        to = from;
    }
    std::reverse(w.ids.begin() + ptrdiff_t(start), w.ids.end());
}

// WordPiece: the longest token that the word begins with, then the longest that goes on (##), and so forth; or the whole word is unknown.
inline void Tokenizer::wordpiece(Work& w, std::string_view s) const {
    const size_t start = w.ids.size();
    const auto characters = size_t(std::count_if(s.begin(), s.end(), [](char c) { return (c & 0xC0) != 0x80; }));
    std::string piece;
    for (size_t from = 0; from < s.size() && characters <= h_.max_word;) {
        piece = from ? "##" : "";
        const size_t mark = piece.size();
        int32_t best = -1;
        size_t best_end = from;
        uint32_t hash = text_hash(piece);
        for (size_t to = from; to < s.size() && piece.size() < longest_;) {
            piece += s[to];
            hash = text_hash(s.substr(to, 1), hash);
            ++to;
            if (to < s.size() && (s[to] & 0xC0) == 0x80) continue;
            const int32_t id = lookup(piece, hash);
            if (usable(id)) best = id, best_end = from + piece.size() - mark;
        }
        if (best < 0) break;
        w.ids.push_back(best);
        from = best_end;
        if (from == s.size()) return;
    }
    w.ids.resize(start);
    w.ids.push_back(h_.unk);
}

// BERT's normaliser, and its words: white space parts them, and each punctuation sign is one.
inline void Tokenizer::bert_words(Work& w, std::string_view text) const {
    using namespace unicode;
    constexpr uint32_t chinese[][2] = {{0x3400, 0x4DBF}, {0x4E00, 0x9FFF}, {0xF900, 0xFAFF}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
    std::u32string wide;
    for (size_t i = 0; i < text.size();) {
        const Char c = char_at(text, i);
        i += c.length;
        if (h_.clean_text && class_of(c.code) & BERT_CONTROL) continue;
        const bool alone = h_.chinese_chars && in_ranges(c.code, chinese, std::size(chinese));
        if (alone) wide += U' ';
        wide += h_.clean_text && class_of(c.code) & SPACE ? U' ' : char32_t(c.code);
        if (alone) wide += U' ';
    }
    if (h_.strip_accents) {
        normalizer_->nfd(wide);
        wide.erase(std::remove_if(wide.begin(), wide.end(), [this](char32_t c) { return class_of(c) & BERT_ACCENT; }), wide.end());
    }
    size_t begin = w.text.size();
    const auto cut = [&] {
        if (begin < w.text.size()) split(w, begin, w.text.size());
        begin = w.text.size();
    };
    for (char32_t c : wide) {
        if (h_.lowercase && c == 0x130) { // I with a dot: i and a combining dot
            w.text += "i\xCC\x87";
            continue;
        }
        if (h_.lowercase) c = lower(c);
        const uint16_t k = class_of(c);
        if (k & (SPACE | BERT_PUNCTUATION)) cut();
        if (k & SPACE) continue;
        append(w.text, c);
        if (k & BERT_PUNCTUATION) cut();
    }
    cut();
}

// SentencePiece's precompiled normaliser. Like Hugging Face's, it looks at whole grapheme clusters of fewer than six bytes first, and
// takes the shortest entry that one begins with.
inline std::string Tokenizer::charsmapped(std::string_view s) const {
    using namespace unicode;
    std::string out;
    out.reserve(s.size());
    for (size_t i = 0, next; i < s.size(); i = next) {
        const Char base = char_at(s, i);
        next = i + base.length;
        const bool joiner = base.code == 0x200C || base.code == 0x200D;
        if (base.code == '\r' && next < s.size() && s[next] == '\n') ++next;
        else if (joiner || !(class_of(base.code) & BERT_CONTROL || base.code == '\t' || base.code == '\n' || base.code == '\r' || base.code == 0x2028 || base.code == 0x2029))
            while (next < s.size()) {
                const Char c = char_at(s, next);
                const bool extends = class_of(c.code) & MARK || c.code == 0x200C || c.code == 0x200D || c.code == 0xE33 || c.code == 0xEB3 || c.code == 0xFF9E || c.code == 0xFF9F || (c.code >= 0x1F3FB && c.code <= 0x1F3FF);
                if (!extends) break;
                next += c.length;
            }
        if (next - i < 6 && replace(s.substr(i, next - i), out)) continue;
        for (size_t k = i; k < next;) {
            const auto c = s.substr(k, char_at(s.substr(0, next), k).length);
            if (!replace(c, out)) out += c;
            k += c.size();
        }
    }
    return out;
}

inline bool Tokenizer::replace(std::string_view s, std::string& out) const {
    const uint32_t units = u32(h_.charsmap, 0) / 4, trie = h_.charsmap + 4;
    const std::string_view texts(chars(trie + 4 * units), h_.charsmap_bytes - 4 - 4 * units);
    const auto unit = [&](uint64_t at) {
        if (at >= units) tokenizer_error("charsmap: its trie points at unit " + std::to_string(at) + " of " + std::to_string(units));
        return u32(trie, at);
    };
    const auto offset = [](uint32_t u) { return u >> 10 << (u >> 6 & 8); };
    uint64_t node = offset(unit(0));
    for (unsigned char c : s) {
        if (!c) return false;
        node ^= c;
        const uint32_t u = unit(node);
        if ((u & 0x800000FFu) != c) return false;
        node ^= offset(u);
        if (u >> 8 & 1) {
            const uint32_t from = unit(node) & 0x7FFFFFFF;
            const size_t to = from < texts.size() ? texts.find('\0', from) : texts.npos;
            if (to == texts.npos || to - from > MAX_REPLACEMENT) tokenizer_error("charsmap: the replacement at " + std::to_string(from) + " has no end, or more than " + std::to_string(MAX_REPLACEMENT) + " bytes");
            out += texts.substr(from, to - from);
            return true;
        }
    }
    return false;
}

// ---- ids to text -----------------------------------------------------------------------------------------------------

inline std::string Tokenizer::Stream::push(int32_t id) {
    std::string t = tokenizer_->bytes(id);
    if (tokenizer_->is_special(id) && !special_) {
        start_ |= id == tokenizer_->bos();
        return {};
    }
    if (tokenizer_->kind() == TOKENIZER_WORDPIECE) {
        const bool joins = t.size() < tokenizer_->text(size_t(id)).size() || t == "." || t == "," || t == "!" || t == "?";
        if (any_ && !joins) t.insert(0, 1, ' ');
    } else if (start_ && tokenizer_->spaced() && tokenizer_->h_.space_prefix != PREFIX_NONE && !t.empty() && t[0] == ' ') t.erase(0, 1);
    start_ = special_ && id == tokenizer_->bos();
    any_ = true;
    held_ += t;
    return whole(false);
}

inline std::string Tokenizer::Stream::finish() { return whole(true); }

inline std::string Tokenizer::Stream::whole(bool all) {
    std::string out;
    size_t i = 0;
    while (i < held_.size()) {
        const auto c = unicode::char_at(held_, i);
        const bool cut_off = !c.valid && i + c.length == held_.size() && static_cast<unsigned char>(held_[i]) >= 0xC2 && static_cast<unsigned char>(held_[i]) < 0xF5;
        if (cut_off && !all) break;
        unicode::append(out, c.code);
        i += c.length;
    }
    held_.erase(0, i);
    return out;
}

inline std::string Tokenizer::decode(const std::vector<int32_t>& ids, bool special) const {
    Stream stream(*this, special, true);
    std::string out;
    for (int32_t id : ids) out += stream.push(id);
    return out + stream.finish();
}

// ---- Unicode tables, written by tools/unicode_tables.py -----------------------------------------------------------

namespace unicode {
// clang-format off
// first character of a run << 11 | its CharClass
constexpr uint32_t CLASSES[] = {
    1024, 18560, 23680, 26752, 29696, 65664, 67872, 74048, 76064, 88384, 90400, 98320, 119072, 123200, 129312, 133121, 186656, 192832, 194848, 196928, 198658,
    252192, 254272, 256288, 258368, 261120, 273536, 275456, 327808, 330016, 331840, 342304, 344128, 348164, 350496, 352320, 355328, 356416, 364560, 368704,
    370690, 373024, 376896, 378896, 380932, 383264, 385040, 391456, 393217, 440384, 442369, 456706, 505920, 507906, 524289, 526338, 528385, 530434, 532481,
    534530, 536577, 538626, 540673, 542722, 544769, 546818, 548865, 550914, 552961, 555010, 557057, 559106, 561153, 563202, 565249, 567298, 569345, 571394,
    573441, 575490, 577537, 579586, 581633, 583682, 585729, 587778, 589825, 591874, 593921, 595970, 598017, 600066, 602113, 604162, 606209, 608258, 610305,
    612354, 614401, 616450, 618497, 620546, 622593, 624642, 626689, 628738, 630785, 632834, 634881, 636930, 641025, 643074, 645121, 647170, 649217, 651266,
    653313, 655362, 657409, 659458, 661505, 663554, 665601, 667650, 669697, 671746, 675841, 677890, 679937, 681986, 684033, 686082, 688129, 690178, 692225,
    694274, 696321, 698370, 700417, 702466, 704513, 706562, 708609, 710658, 712705, 714754, 716801, 718850, 720897, 722946, 724993, 727042, 729089, 731138,
    733185, 735234, 737281, 739330, 741377, 743426, 745473, 747522, 749569, 751618, 753665, 755714, 757761, 759810, 761857, 763906, 765953, 768002, 770049,
    774146, 776193, 778242, 780289, 782338, 788481, 792578, 794625, 796674, 798721, 802818, 804865, 811010, 815105, 823298, 825345, 829442, 831489, 837634,
    843777, 847874, 849921, 854018, 856065, 858114, 860161, 862210, 864257, 868354, 870401, 872450, 876545, 878594, 880641, 884738, 886785, 892930, 894977,
    897026, 899073, 903170, 907268, 909313, 911362, 917508, 925697, 929794, 931841, 935938, 937985, 942082, 944129, 946178, 948225, 950274, 952321, 954370,
    956417, 958466, 960513, 962562, 964609, 966658, 968705, 970754, 972801, 974850, 978945, 980994, 983041, 985090, 987137, 989186, 991233, 993282, 995329,
    997378, 999425, 1001474, 1003521, 1005570, 1007617, 1009666, 1011713, 1013762, 1017857, 1021954, 1024001, 1026050, 1028097, 1034242, 1036289, 1038338,
    1040385, 1042434, 1044481, 1046530, 1048577, 1050626, 1052673, 1054722, 1056769, 1058818, 1060865, 1062914, 1064961, 1067010, 1069057, 1071106, 1073153,
    1075202, 1077249, 1079298, 1081345, 1083394, 1085441, 1087490, 1089537, 1091586, 1093633, 1095682, 1097729, 1099778, 1101825, 1103874, 1105921, 1107970,
    1110017, 1112066, 1114113, 1116162, 1118209, 1120258, 1122305, 1124354, 1126401, 1128450, 1130497, 1132546, 1134593, 1136642, 1138689, 1140738, 1142785,
    1144834, 1146881, 1148930, 1150977, 1153026, 1167361, 1171458, 1173505, 1177602, 1181697, 1183746, 1185793, 1193986, 1196033, 1198082, 1200129, 1202178,
    1204225, 1206274, 1208321, 1210370, 1351684, 1353730, 1409028, 1445952, 1454084, 1478720, 1507332, 1517632, 1531908, 1534016, 1536004, 1538112, 1573384,
    1802241, 1804290, 1806337, 1808386, 1810436, 1812544, 1814529, 1816578, 1818624, 1822724, 1824770, 1831200, 1832961, 1835008, 1843264, 1847297, 1849632,
    1851393, 1857536, 1859585, 1861632, 1863681, 1867778, 1869825, 1904640, 1906689, 1925122, 1996801, 1998850, 2002945, 2009090, 2015233, 2017282, 2019329,
    2021378, 2023425, 2025474, 2027521, 2029570, 2031617, 2033666, 2035713, 2037762, 2039809, 2041858, 2043905, 2045954, 2048001, 2050050, 2052097, 2054146,
    2056193, 2058242, 2060289, 2062338, 2072577, 2074626, 2076736, 2078721, 2080770, 2082817, 2086914, 2091009, 2195458, 2293761, 2295810, 2297857, 2299906,
    2301953, 2304002, 2306049, 2308098, 2310145, 2312194, 2314241, 2316290, 2318337, 2320386, 2322433, 2324482, 2326529, 2328578, 2330625, 2332674, 2334721,
    2336770, 2338817, 2340866, 2342913, 2344962, 2347009, 2349058, 2351105, 2353154, 2355201, 2357250, 2359297, 2361346, 2363456, 2365960, 2375688, 2379777,
    2381826, 2383873, 2385922, 2387969, 2390018, 2392065, 2394114, 2396161, 2398210, 2400257, 2402306, 2404353, 2406402, 2408449, 2410498, 2412545, 2414594,
    2416641, 2418690, 2420737, 2422786, 2424833, 2426882, 2428929, 2430978, 2433025, 2435074, 2437121, 2439170, 2441217, 2443266, 2445313, 2447362, 2449409,
    2451458, 2453505, 2455554, 2457601, 2459650, 2461697, 2463746, 2465793, 2467842, 2469889, 2471938, 2473985, 2476034, 2478081, 2480130, 2482177, 2484226,
    2486273, 2488322, 2490369, 2494466, 2496513, 2498562, 2500609, 2502658, 2504705, 2506754, 2508801, 2510850, 2512897, 2514946, 2516993, 2519042, 2523137,
    2525186, 2527233, 2529282, 2531329, 2533378, 2535425, 2537474, 2539521, 2541570, 2543617, 2545666, 2547713, 2549762, 2551809, 2553858, 2555905, 2557954,
    2560001, 2562050, 2564097, 2566146, 2568193, 2570242, 2572289, 2574338, 2576385, 2578434, 2580481, 2582530, 2584577, 2586626, 2588673, 2590722, 2592769,
    2594818, 2596865, 2598914, 2600961, 2603010, 2605057, 2607106, 2609153, 2611202, 2613249, 2615298, 2617345, 2619394, 2621441, 2623490, 2625537, 2627586,
    2629633, 2631682, 2633729, 2635778, 2637825, 2639874, 2641921, 2643970, 2646017, 2648066, 2650113, 2652162, 2654209, 2656258, 2658305, 2660354, 2662401,
    2664450, 2666497, 2668546, 2670593, 2672642, 2674689, 2676738, 2678785, 2680834, 2682881, 2684930, 2686977, 2689026, 2691073, 2693122, 2695169, 2697218,
    2699265, 2701314, 2703361, 2705410, 2707457, 2709506, 2711553, 2713602, 2715649, 2717698, 2719744, 2721793, 2799616, 2803716, 2806048, 2818050, 2902304,
    2906112, 2910272, 2916352, 2918920, 3010848, 3013128, 3014944, 3017224, 3021088, 3023368, 3027232, 3029512, 3031040, 3047428, 3102720, 3110916, 3119392,
    3123200, 3146752, 3158080, 3164448, 3168320, 3170592, 3174464, 3179016, 3201312, 3204096, 3205152, 3207456, 3211268, 3299848, 3342352, 3363104, 3371012,
    3375624, 3377156, 3580192, 3581956, 3584520, 3599360, 3600448, 3602952, 3614724, 3619336, 3622976, 3625480, 3633156, 3637264, 3657732, 3663936, 3667972,
    3670304, 3698688, 3701760, 3702788, 3705352, 3706884, 3768840, 3823616, 3827716, 4010504, 4032516, 4034560, 4063248, 4083716, 4151816, 4169732, 4173888,
    4176160, 4182020, 4184064, 4188168, 4190272, 4194308, 4239880, 4247556, 4250120, 4268036, 4270600, 4276228, 4278792, 4288512, 4292896, 4323328, 4325380,
    4377096, 4382720, 4387104, 4388864, 4390916, 4413440, 4423684, 4472896, 4474884, 4487168, 4503560, 4521988, 4608008, 4657152, 4659720, 4724744, 4726788,
    4837896, 4839432, 4841992, 4843524, 4845576, 4852232, 4868104, 4876808, 4878344, 4882436, 4885000, 4898820, 4919816, 4923680, 4927504, 4948256, 4950020,
    4983304, 4984840, 4988928, 4990980, 5007360, 5011460, 5015552, 5019652, 5064704, 5066756, 5081088, 5083140, 5085184, 5091332, 5099520, 5104136, 5105668,
    5107720, 5114376, 5122048, 5126152, 5130240, 5134344, 5138952, 5140484, 5142528, 5158920, 5160960, 5169156, 5173248, 5175300, 5181960, 5185536, 5189648,
    5210116, 5214272, 5218320, 5230656, 5234692, 5236768, 5238792, 5240832, 5245448, 5249032, 5251072, 5253124, 5265408, 5273604, 5277696, 5281796, 5326848,
    5328900, 5343232, 5345284, 5349376, 5351428, 5355520, 5357572, 5361664, 5366280, 5367808, 5369864, 5376520, 5380096, 5388808, 5392384, 5397000, 5402624,
    5409288, 5410816, 5425156, 5433344, 5435396, 5437440, 5451792, 5472776, 5476356, 5483016, 5484576, 5486592, 5507592, 5511176, 5513216, 5515268, 5533696,
    5535748, 5541888, 5543940, 5588992, 5591044, 5605376, 5607428, 5611520, 5613572, 5623808, 5628424, 5629956, 5632008, 5638664, 5648384, 5650952, 5654536,
    5656576, 5658632, 5663240, 5664768, 5668868, 5670912, 5701636, 5706248, 5709824, 5713936, 5734688, 5736512, 5738496, 5752836, 5754888, 5767168, 5769736,
    5771272, 5775360, 5777412, 5793792, 5797892, 5801984, 5806084, 5851136, 5853188, 5867520, 5869572, 5873664, 5875716, 5885952, 5890568, 5892100, 5894152,
    5896712, 5898248, 5900808, 5908480, 5912584, 5916672, 5920776, 5925384, 5926912, 5941256, 5943816, 5945352, 5947392, 5955588, 5959680, 5961732, 5968392,
    5971968, 5976080, 5996608, 5998596, 6000656, 6012928, 6033928, 6035460, 6037504, 6039556, 6051840, 6057988, 6064128, 6066180, 6074368, 6080516, 6084608,
    6086660, 6088704, 6090756, 6094848, 6100996, 6105088, 6111236, 6117376, 6123524, 6148096, 6156296, 6160904, 6162440, 6166528, 6172680, 6178816, 6180872,
    6187528, 6189056, 6193156, 6195200, 6207496, 6209536, 6238224, 6264896, 6281216, 6291976, 6293512, 6301700, 6318080, 6320132, 6326272, 6328324, 6375424,
    6377476, 6410240, 6414344, 6416388, 6418952, 6424584, 6432768, 6435336, 6440960, 6443528, 6451200, 6466056, 6469632, 6471684, 6477824, 6481924, 6483968,
    6488068, 6492680, 6496256, 6500368, 6520832, 6535200, 6537232, 6551616, 6553604, 6556168, 6557704, 6561824, 6563844, 6580224, 6582276, 6588416, 6590468,
    6637568, 6639620, 6660096, 6662148, 6672384, 6677000, 6678532, 6680584, 6683144, 6684680, 6694912, 6697480, 6699016, 6703104, 6705160, 6709768, 6713344,
    6727688, 6731776, 6744068, 6748160, 6750212, 6754824, 6758400, 6762512, 6782976, 6785028, 6789128, 6791168, 6815752, 6818312, 6819848, 6823940, 6842368,
    6844420, 6850560, 6852612, 6936584, 6940676, 6942728, 6949384, 6957056, 6959112, 6965248, 6967304, 6973960, 6975492, 6977600, 6979584, 6987780, 6993928,
    6995984, 7010308, 7016968, 7020544, 7024656, 7063616, 7065604, 7077888, 7079944, 7086080, 7088132, 7124992, 7131140, 7180288, 7182340, 7200768, 7202820,
    7204864, 7208964, 7223296, 7229960, 7231488, 7239688, 7246344, 7251968, 7254536, 7256064, 7258120, 7274496, 7286800, 7307264, 7311368, 7315744, 7317504,
    7342084, 7440904, 7442436, 7447048, 7460864, 7469120, 7471108, 7485960, 7502112, 7503888, 7524640, 7528448, 7604228, 7608320, 7610372, 7612416, 7614468,
    7624704, 7626756, 7675904, 7677956, 7680000, 7682052, 7703048, 7704580, 7709192, 7720968, 7723528, 7727108, 7729152, 7733252, 7743488, 7745540, 7747584,
    7750152, 7761928, 7763968, 7766032, 7786496, 7790596, 7798784, 7864324, 7866432, 7872800, 7903296, 7905568, 7907392, 7913992, 7917632, 7929872, 7970880,
    7973384, 7974976, 7977480, 7979072, 7981576, 7983392, 7991304, 7995396, 8011776, 8013828, 8087552, 8096264, 8124424, 8126984, 8136992, 8139272, 8142852,
    8153608, 8175616, 8178184, 8251392, 8253504, 8270344, 8271936, 8284160, 8286272, 8290592, 8300608, 8309024, 8312832, 8388612, 8476680, 8481288, 8488968,
    8491528, 8503304, 8505864, 8509448, 8514056, 8517636, 8519696, 8540448, 8552452, 8564744, 8569352, 8572932, 8581640, 8587268, 8589320, 8595460, 8599560,
    8613892, 8620552, 8628228, 8655368, 8656904, 8661512, 8665096, 8677896, 8679428, 8681480, 8683536, 8704008, 8710664, 8712256, 8716289, 8794112, 8796161,
    8798208, 8808449, 8810496, 8814594, 8902944, 8904708, 8906754, 8912900, 9586688, 9588740, 9596928, 9601028, 9615360, 9617412, 9619456, 9621508, 9629696,
    9633796, 9717760, 9719812, 9728000, 9732100, 9799680, 9801732, 9809920, 9814020, 9828352, 9830404, 9832448, 9834500, 9842688, 9846788, 9877504, 9879556,
    9996288, 9998340, 10006528, 10010628, 10147840, 10152456, 10158368, 10176528, 10217472, 10223620, 10256448, 10276864, 10289153, 10465280, 10469378,
    10481664, 10486048, 10487812, 11757888, 11759904, 11761668, 11796608, 11798532, 11852064, 11855872, 11862020, 12015904, 12021776, 12027908, 12044288,
    12058628, 12096008, 12101640, 12103680, 12122116, 12161544, 12167456, 12171264, 12189700, 12227080, 12230656, 12255236, 12281856, 12283908, 12290048,
    12292616, 12296192, 12320772, 12427784, 12431368, 12433928, 12447752, 12464648, 12466184, 12470792, 12493088, 12498948, 12501280, 12507200, 12509188,
    12511752, 12513280, 12517392, 12537856, 12550160, 12570624, 12583200, 12605960, 12612608, 12613640, 12615696, 12636160, 12648452, 12830720, 12845060,
    12855304, 12859396, 12929544, 12931076, 12933120, 12943364, 13086720, 13107204, 13170688, 13173256, 13178888, 13187592, 13191176, 13197312, 13205512,
    13210120, 13211656, 13224456, 13230080, 13238336, 13240320, 13246752, 13250576, 13271044, 13332480, 13336580, 13346816, 13369348, 13459456, 13467652,
    13520896, 13533200, 13555712, 13561920, 13631492, 13679112, 13682696, 13687304, 13688832, 13693216, 13697028, 13805576, 13808136, 13809672, 13812232,
    13826048, 13828616, 13830152, 13832712, 13834248, 13838856, 13854728, 13867528, 13887488, 13892104, 13893648, 13914112, 13926416, 13946880, 13959456,
    13973508, 13975840, 13987840, 13992456, 14020616, 14055424, 14156296, 14163976, 14166020, 14262792, 14264328, 14266888, 14276616, 14279176, 14280712,
    14291464, 14293000, 14297092, 14313472, 14315552, 14319632, 14340384, 14354496, 14375432, 14393408, 14411808, 14418440, 14422024, 14424068, 14485512,
    14488072, 14495752, 14500360, 14503944, 14506504, 14512132, 14516240, 14536708, 14627336, 14628872, 14631432, 14635016, 14641672, 14643208, 14645768,
    14651400, 14655488, 14672160, 14680068, 14753800, 14770696, 14786568, 14791176, 14794752, 14801184, 14811152, 14831616, 14837764, 14843920, 14864388,
    14938400, 14942210, 14960641, 14962690, 14964736, 14974977, 15063040, 15067137, 15073568, 15089664, 15106568, 15112480, 15114760, 15140872, 15143432,
    15157252, 15165960, 15167492, 15180296, 15181828, 15185928, 15188488, 15192068, 15194112, 15204354, 15294468, 15423490, 15450116, 15452162, 15521796,
    15598088, 15708168, 15720968, 15728641, 15730690, 15732737, 15734786, 15736833, 15738882, 15740929, 15742978, 15745025, 15747074, 15749121, 15751170,
    15753217, 15755266, 15757313, 15759362, 15761409, 15763458, 15765505, 15767554, 15769601, 15771650, 15773697, 15775746, 15777793, 15779842, 15781889,
    15783938, 15785985, 15788034, 15790081, 15792130, 15794177, 15796226, 15798273, 15800322, 15802369, 15804418, 15806465, 15808514, 15810561, 15812610,
    15814657, 15816706, 15818753, 15820802, 15822849, 15824898, 15826945, 15828994, 15831041, 15833090, 15835137, 15837186, 15839233, 15841282, 15843329,
    15845378, 15847425, 15849474, 15851521, 15853570, 15855617, 15857666, 15859713, 15861762, 15863809, 15865858, 15867905, 15869954, 15872001, 15874050,
    15876097, 15878146, 15880193, 15882242, 15884289, 15886338, 15888385, 15890434, 15892481, 15894530, 15896577, 15898626, 15900673, 15902722, 15904769,
    15906818, 15908865, 15910914, 15912961, 15915010, 15917057, 15919106, 15921153, 15923202, 15925249, 15927298, 15929345, 15931394, 15933441, 15935490,
    15937537, 15939586, 15941633, 15943682, 15945729, 15947778, 15949825, 15951874, 15953921, 15955970, 15958017, 15960066, 15962113, 15964162, 15966209,
    15968258, 15970305, 15972354, 15974401, 15976450, 15978497, 15980546, 15982593, 15984642, 15986689, 15988738, 15990785, 15992834, 15994881, 15996930,
    15998977, 16001026, 16003073, 16005122, 16007169, 16009218, 16011265, 16013314, 16015361, 16017410, 16019457, 16021506, 16023553, 16025602, 16027649,
    16029698, 16031745, 16033794, 16052225, 16054274, 16056321, 16058370, 16060417, 16062466, 16064513, 16066562, 16068609, 16070658, 16072705, 16074754,
    16076801, 16078850, 16080897, 16082946, 16084993, 16087042, 16089089, 16091138, 16093185, 16095234, 16097281, 16099330, 16101377, 16103426, 16105473,
    16107522, 16109569, 16111618, 16113665, 16115714, 16117761, 16119810, 16121857, 16123906, 16125953, 16128002, 16130049, 16132098, 16134145, 16136194,
    16138241, 16140290, 16142337, 16144386, 16146433, 16148482, 16150529, 16152578, 16154625, 16156674, 16158721, 16160770, 16162817, 16164866, 16166913,
    16168962, 16171009, 16173058, 16175105, 16177154, 16179201, 16181250, 16183297, 16185346, 16187393, 16189442, 16191489, 16193538, 16195585, 16197634,
    16199681, 16201730, 16203777, 16205826, 16207873, 16209922, 16211969, 16214018, 16216065, 16218114, 16220161, 16222210, 16224257, 16226306, 16228353,
    16230402, 16232449, 16234498, 16236545, 16238594, 16240641, 16242690, 16244737, 16246786, 16248833, 16250882, 16269313, 16285698, 16297984, 16302081,
    16314368, 16318466, 16334849, 16351234, 16367617, 16384002, 16396288, 16400385, 16412672, 16416770, 16433152, 16435201, 16437248, 16439297, 16441344,
    16443393, 16445440, 16447489, 16449538, 16465921, 16482306, 16510976, 16515074, 16531457, 16547842, 16564225, 16580610, 16596993, 16613378, 16623616,
    16625666, 16629761, 16640064, 16642050, 16644160, 16650242, 16656384, 16658434, 16662529, 16672832, 16678914, 16687104, 16691202, 16695297, 16703488,
    16705600, 16711682, 16728065, 16738368, 16744448, 16748546, 16754688, 16756738, 16760833, 16771136, 16775168, 16777344, 16800768, 16810272, 16859264,
    16864256, 16873600, 16875808, 16916544, 16918816, 16945216, 16947488, 16971904, 16974848, 16984064, 16987136, 17006608, 17008644, 17010688, 17014800,
    17027136, 17033504, 17037316, 17039376, 17059904, 17066272, 17070080, 17072132, 17098752, 17104960, 17172480, 17203720, 17229832, 17238536, 17240072,
    17246728, 17270784, 17301568, 17305601, 17307712, 17315841, 17317952, 17321986, 17324033, 17330178, 17334273, 17340418, 17342528, 17344513, 17346624,
    17352705, 17363008, 17375233, 17377344, 17379329, 17381440, 17383425, 17385536, 17387521, 17395776, 17397762, 17399809, 17408002, 17410052, 17418242,
    17420352, 17424386, 17428481, 17432640, 17442817, 17444866, 17453120, 17461250, 17463360, 17465360, 17569793, 17571842, 17573904, 17584192, 17588224,
    17596480, 18366752, 18374720, 18434336, 18438208, 18960384, 19005504, 19027968, 19070992, 19193920, 19353616, 19398720, 20660512, 20688912, 20750400,
    20850976, 20854848, 20918560, 20938816, 21764384, 21809216, 21938464, 21946432, 22012192, 22016064, 22781952, 22786112, 22851584, 22853696, 23068673,
    23166978, 23265281, 23267330, 23269377, 23275522, 23279617, 23281666, 23283713, 23285762, 23287809, 23289858, 23291905, 23300098, 23302145, 23304194,
    23308289, 23310338, 23322628, 23326721, 23332866, 23334913, 23336962, 23339009, 23341058, 23343105, 23345154, 23347201, 23349250, 23351297, 23353346,
    23355393, 23357442, 23359489, 23361538, 23363585, 23365634, 23367681, 23369730, 23371777, 23373826, 23375873, 23377922, 23379969, 23382018, 23384065,
    23386114, 23388161, 23390210, 23392257, 23394306, 23396353, 23398402, 23400449, 23402498, 23404545, 23406594, 23408641, 23410690, 23412737, 23414786,
    23416833, 23418882, 23420929, 23422978, 23425025, 23427074, 23429121, 23431170, 23433217, 23435266, 23437313, 23439362, 23441409, 23443458, 23445505,
    23447554, 23449601, 23451650, 23453697, 23455746, 23457793, 23459842, 23461889, 23463938, 23465985, 23468034, 23470081, 23472130, 23474177, 23476226,
    23478273, 23480322, 23482369, 23484418, 23486465, 23488514, 23490561, 23492610, 23494657, 23496706, 23498753, 23500802, 23502849, 23504898, 23506945,
    23508994, 23511041, 23513090, 23515137, 23517186, 23519233, 23521282, 23523329, 23525378, 23527425, 23529474, 23531521, 23533570, 23537728, 23549953,
    23552002, 23554049, 23556098, 23558664, 23564289, 23566338, 23568384, 23578912, 23586832, 23589152, 23592962, 23670784, 23672834, 23674880, 23685122,
    23687168, 23691268, 23805952, 23820292, 23822624, 23824384, 23853576, 23855108, 23902208, 23920644, 23934976, 23937028, 23951360, 23953412, 23967744,
    23969796, 23984128, 23986180, 24000512, 24002564, 24016896, 24018948, 24033280, 24035332, 24049664, 24052232, 24117536, 24213508, 24215840, 24254496,
    24281152, 24285216, 24309760, 24379456, 24432640, 24434752, 24616960, 24641600, 25079808, 25133120, 25165952, 25168160, 25174080, 25176068, 25180176,
    25182496, 25202752, 25207072, 25231424, 25233424, 25252360, 25260040, 25264416, 25266180, 25276480, 25280528, 25286660, 25291040, 25292864, 25296896,
    25298948, 25475072, 25479688, 25483328, 25487364, 25493792, 25495556, 25680160, 25681924, 25690112, 25700356, 25788416, 25790468, 25982976, 25985088,
    25989136, 25997376, 26017796, 26083392, 26161152, 26179648, 26181636, 26214464, 26277888, 26279952, 26300480, 26361872, 26378304, 26380304, 26411072,
    26476560, 26497088, 26576912, 26607680, 27262980, 40763456, 40894468, 86272000, 86278208, 86390784, 86409220, 86503712, 86507524, 87058720, 87064580,
    87097360, 87117828, 87121920, 87162881, 87164930, 87166977, 87169026, 87171073, 87173122, 87175169, 87177218, 87179265, 87181314, 87183361, 87185410,
    87187457, 87189506, 87191553, 87193602, 87195649, 87197698, 87199745, 87201794, 87203841, 87205890, 87207937, 87209986, 87212033, 87214082, 87216129,
    87218178, 87220225, 87222274, 87224321, 87226370, 87228417, 87230466, 87232513, 87234562, 87236609, 87238658, 87240705, 87242754, 87244801, 87246850,
    87248897, 87250946, 87252993, 87255042, 87257092, 87259656, 87261192, 87267616, 87269896, 87290144, 87291908, 87293953, 87296002, 87298049, 87300098,
    87302145, 87304194, 87306241, 87308290, 87310337, 87312386, 87314433, 87316482, 87318529, 87320578, 87322625, 87324674, 87326721, 87328770, 87330817,
    87332866, 87334913, 87336962, 87339009, 87341058, 87343105, 87345154, 87347201, 87349250, 87351300, 87355912, 87359492, 87502864, 87523848, 87527712,
    87539712, 87556160, 87603204, 87621696, 87625729, 87627778, 87629825, 87631874, 87633921, 87635970, 87638017, 87640066, 87642113, 87644162, 87646209,
    87648258, 87650305, 87652354, 87658497, 87660546, 87662593, 87664642, 87666689, 87668738, 87670785, 87672834, 87674881, 87676930, 87678977, 87681026,
    87683073, 87685122, 87687169, 87689218, 87691265, 87693314, 87695361, 87697410, 87699457, 87701506, 87703553, 87705602, 87707649, 87709698, 87711745,
    87713794, 87715841, 87717890, 87719937, 87721986, 87724033, 87726082, 87728129, 87730178, 87732225, 87734274, 87736321, 87738370, 87740417, 87742466,
    87744513, 87746562, 87748609, 87750658, 87752705, 87754754, 87756801, 87758850, 87760897, 87762946, 87764993, 87767042, 87769089, 87771138, 87773185,
    87775234, 87777281, 87779330, 87781377, 87783426, 87785476, 87787522, 87803905, 87805954, 87808001, 87810050, 87812097, 87816194, 87818241, 87820290,
    87822337, 87824386, 87826433, 87828482, 87830529, 87832578, 87834628, 87836736, 87840769, 87842818, 87844865, 87846914, 87848964, 87851009, 87853058,
    87855105, 87857154, 87863297, 87865346, 87867393, 87869442, 87871489, 87873538, 87875585, 87877634, 87879681, 87881730, 87883777, 87885826, 87887873,
    87889922, 87891969, 87894018, 87896065, 87898114, 87900161, 87902210, 87904257, 87914498, 87916545, 87926786, 87928833, 87930882, 87932929, 87934978,
    87937025, 87939074, 87941121, 87943170, 87945217, 87947266, 87949313, 87951362, 87953409, 87955458, 87957505, 87965698, 87967745, 87969794, 87971841,
    87975938, 87977984, 87982081, 87984130, 87986176, 87988226, 87990272, 87992322, 87994369, 87996418, 87998465, 88000514, 88002561, 88004610, 88006657,
    88008704, 88051716, 88057857, 88059906, 88061956, 88068098, 88070148, 88085000, 88086532, 88093192, 88094724, 88103432, 88104964, 88152072, 88156680,
    88160264, 88162368, 88170504, 88172544, 88178704, 88191040, 88199168, 88211460, 88318240, 88326144, 88342536, 88346628, 88449032, 88482312, 88483848,
    88485888, 88502560, 88506384, 88526848, 88539656, 88576004, 88588576, 88594436, 88596768, 88598532, 88602632, 88604688, 88625156, 88683016, 88699168,
    88702980, 88750600, 88772616, 88776704, 88799520, 88801284, 88860672, 88867336, 88872968, 88875012, 88971784, 88973320, 88977928, 88985608, 88990216,
    88991752, 89000224, 89026560, 89028612, 89030672, 89051136, 89059616, 89063428, 89074184, 89075716, 89096208, 89116676, 89126912, 89128964, 89213448,
    89225224, 89229832, 89233416, 89238024, 89241600, 89260036, 89266696, 89268228, 89285128, 89286664, 89288704, 89292816, 89313280, 89317664, 89325572,
    89372736, 89378820, 89380872, 89383432, 89384968, 89387012, 89489928, 89491460, 89494024, 89499652, 89504264, 89507844, 89518600, 89522180, 89524744,
    89526276, 89528320, 89577476, 89583904, 89587716, 89610248, 89612808, 89616392, 89620768, 89624580, 89630728, 89633288, 89634816, 89655300, 89667584,
    89671684, 89683968, 89688068, 89700352, 89718788, 89733120, 89735172, 89749504, 89751554, 89839680, 89841668, 89849858, 89868292, 89870400, 89874432,
    89882626, 90046468, 90118152, 90122760, 90124296, 90128904, 90130440, 90134816, 90136584, 90139144, 90140672, 90144784, 90165248, 90177540, 113057792,
    113082372, 113129472, 113137668, 113238016, 117441536, 130547716, 131297280, 131301380, 131518464, 131596290, 131610624, 131635202, 131645440, 131655684,
    131658248, 131659780, 131680320, 131682308, 131708928, 131710980, 131721216, 131723268, 131725312, 131727364, 131731456, 131733508, 131737600, 131739652,
    131960896, 131995648, 132028420, 132772128, 132776000, 132808708, 132939776, 132943876, 133054464, 133068864, 133070848, 133136388, 133161024, 133169672,
    133202208, 133222400, 133235208, 133267744, 133339136, 133341472, 133369920, 133372192, 133374016, 133380096, 133382432, 133384256, 133386528, 133390336,
    133398532, 133408768, 133410820, 133687296, 133692416, 133693440, 133695776, 133701696, 133703968, 133716032, 133718304, 133726224, 133746976, 133750848,
    133757216, 133761025, 133814560, 133820480, 133822752, 133824576, 133826562, 133880096, 133881920, 133884192, 133886016, 133888288, 133902340, 134084608,
    134090756, 134103040, 134107140, 134119424, 134123524, 134135808, 134139908, 134146048, 134152256, 134166528, 134168640, 134182912, 134204416, 134209600,
    134212672, 134213632, 134217732, 134242304, 134244356, 134297600, 134299652, 134338560, 134340612, 134344704, 134346756, 134377472, 134381572, 134410240,
    134479876, 134731776, 134742304, 134748160, 134756368, 134848512, 134854720, 134873104, 134989888, 135024656, 135028800, 135034880, 135036992, 135063552,
    135069760, 135071744, 135168064, 135260680, 135262208, 135528452, 135587840, 135593988, 135694336, 135725576, 135727120, 135782400, 135790596, 135856144,
    135864320, 135882756, 135923728, 135925764, 135942160, 135944192, 135954436, 136032776, 136042496, 136052740, 136114176, 136116512, 136118276, 136192000,
    136200196, 136216864, 136218640, 136228864, 136314881, 136396802, 136478724, 136638464, 136642576, 136663040, 136675329, 136749056, 136757250, 136830976,
    136839172, 136921088, 136937476, 137043968, 137066784, 137068545, 137091072, 137093121, 137123840, 137125889, 137140224, 137142273, 137146368, 137148418,
    137170944, 137172994, 137203712, 137205762, 137220096, 137222146, 137226240, 137232388, 137338880, 137363460, 138000384, 138018820, 138063872, 138084356,
    138100736, 138149892, 138162176, 138164228, 138250240, 138252292, 138270720, 138412036, 138424320, 138428420, 138430464, 138432516, 138522624, 138524676,
    138528768, 138534916, 138536960, 138541060, 138588160, 138590496, 138592272, 138608644, 138655808, 138659856, 138674180, 138737664, 138754064, 138772480,
    138870788, 138909696, 138911748, 138915840, 138926096, 138936324, 138981392, 138993664, 139000096, 139001860, 139055104, 139065632, 139067392, 139198468,
    139313152, 139321360, 139325444, 139329552, 139362304, 139366416, 139460612, 139463176, 139468800, 139471368, 139474944, 139485704, 139493380, 139501568,
    139503620, 139509760, 139511812, 139571200, 139575816, 139581440, 139590152, 139591696, 139610112, 139624736, 139642880, 139657220, 139716624, 139720992,
    139722756, 139782160, 139788288, 139853828, 139870272, 139872260, 139930120, 139933696, 139941904, 139952416, 139966464, 139984900, 140095488, 140101920,
    140115972, 140161024, 140165136, 140181508, 140220416, 140230672, 140247044, 140283904, 140298528, 140306432, 140331024, 140345344, 140509188, 140658688,
    140771329, 140875776, 140902402, 141006848, 141021200, 141033476, 141107208, 141115392, 141131792, 141152256, 141164560, 141185028, 141197313, 141242368,
    141248520, 141258784, 141260804, 141262850, 141307904, 141324352, 141328384, 141754384, 141817856, 141819908, 141905920, 141907976, 141912096, 141914112,
    141918212, 141922304, 141955076, 141961216, 142073864, 142082052, 142141456, 142161924, 142163968, 142180356, 142225416, 142247952, 142256160, 142266368,
    142311428, 142348296, 142356512, 142364672, 142442500, 142485520, 142499840, 142540804, 142587904, 142606344, 142608904, 142610440, 142612484, 142721544,
    142752032, 142766080, 142774288, 142835720, 142837764, 142841864, 142845956, 142848000, 142866952, 142872584, 142874628, 142966792, 142973448, 142981128,
    142985736, 142989600, 142994432, 142995744, 143003656, 143005696, 143032324, 143083520, 143097872, 143118336, 143131144, 143136772, 143211016, 143220744,
    143223304, 143239168, 143241232, 143261984, 143269892, 143271944, 143276036, 143278080, 143294468, 143366664, 143368480, 143372292, 143374336, 143393288,
    143396872, 143398916, 143497224, 143503880, 143521800, 143525892, 143534368, 143542536, 143544840, 143550752, 143552520, 143556624, 143577092, 143579424,
    143581188, 143583520, 143589376, 143591440, 143632384, 143654916, 143691776, 143693828, 143745032, 143751688, 143757320, 143761928, 143763464, 143766024,
    143769888, 143781896, 143783940, 143788040, 143790080, 143917060, 143931392, 143933444, 143935488, 143937540, 143945728, 143947780, 143978496, 143980548,
    144001312, 144003072, 144015364, 144112136, 144113672, 144120328, 144136192, 144146448, 144166912, 144179720, 144183304, 144187392, 144189444, 144205824,
    144209924, 144214016, 144218116, 144263168, 144265220, 144279552, 144281604, 144285696, 144287748, 144297984, 144300040, 144302600, 144304132, 144306184,
    144310792, 144312328, 144320512, 144324616, 144328704, 144332808, 144338944, 144343044, 144345088, 144357384, 144359424, 144369668, 144379912, 144384000,
    144388616, 144402432, 144409096, 144418816, 144441348, 144461824, 144463876, 144465920, 144470020, 144472064, 144474116, 144551936, 144553988, 144556040,
    144574464, 144576520, 144578560, 144582664, 144584704, 144586760, 144594944, 144597000, 144607236, 144609288, 144611332, 144613408, 144617472, 144619552,
    144623616, 144640008, 144644096, 144703492, 144812040, 144848900, 144857120, 144867344, 144887840, 144891904, 144893984, 144896008, 144898052, 144904192,
    144965636, 145063944, 145070600, 145082376, 145084936, 145086472, 145095176, 145098760, 145101320, 145104900, 145109280, 145111044, 145113088, 145129488,
    145149952, 145489924, 145586184, 145592840, 145600512, 145604616, 145613320, 145616904, 145619464, 145623328, 145670148, 145678856, 145682432, 145752068,
    145850376, 145857032, 145872904, 145877512, 145879048, 145881608, 145885472, 145891332, 145893376, 145915920, 145936384, 145948704, 145975296, 146014212,
    146102792, 146104328, 146106888, 146108424, 146113032, 146124808, 146127368, 146128900, 146130976, 146132992, 146145296, 146165760, 146178064, 146219008,
    146276356, 146331648, 146336264, 146341896, 146346504, 146354184, 146356744, 146366464, 146374672, 146399520, 146405440, 146407428, 146421760, 146800644,
    146890760, 146921504, 146923520, 147128321, 147193858, 147259408, 147298304, 147322884, 147339264, 147343364, 147345408, 147349508, 147365888, 147367940,
    147372032, 147374084, 147423240, 147435520, 147437576, 147441664, 147445768, 147453956, 147456008, 147458052, 147460104, 147464224, 147470336, 147488784,
    147509248, 147652612, 147668992, 147673092, 147752968, 147767296, 147771400, 147785732, 147787808, 147789828, 147791880, 147793920, 147849220, 147851272,
    147871748, 147953672, 147968004, 147970056, 147978272, 147994632, 147996672, 148013060, 148015112, 148037636, 148131848, 148164640, 148170756, 148172832,
    148183040, 148209668, 148359168, 148373536, 148393984, 148766724, 148834336, 148836352, 148865040, 148885504, 148897796, 148916224, 148918276, 148994056,
    149010432, 149012488, 149028868, 149030944, 149041152, 149061648, 149121024, 149127200, 149131268, 149192704, 149196808, 149241856, 149243912, 149272576,
    149422084, 149436416, 149438468, 149442560, 149444612, 149522440, 149534720, 149540872, 149542912, 149544968, 149549056, 149551112, 149565444, 149567496,
    149569536, 149585936, 149606400, 149618692, 149630976, 149633028, 149637120, 149639172, 149704712, 149714944, 149717000, 149721088, 149723144, 149733380,
    149735424, 149749776, 149770240, 150405124, 150444040, 150452256, 150456320, 150470664, 150474756, 150476808, 150478852, 150505472, 150507524, 150577160,
    150591488, 150597640, 150607904, 150634512, 150654984, 150657024, 150831108, 150833152, 150863888, 150906944, 150966272, 150992928, 150994948, 152883200,
    153092112, 153319424, 153321760, 153331712, 153354244, 153755648, 159154180, 159352864, 159356928, 159383556, 161579008, 161611784, 161613828, 161626120,
    161656832, 161677316, 169859072, 169869316, 171063296, 185073668, 185135112, 185171984, 185192448, 188743684, 189908992, 189923332, 189986816, 189988880,
    190009344, 190017824, 190021636, 190183424, 190185488, 190205952, 190218244, 190279680, 190284296, 190294304, 190296064, 190316548, 190415368, 190429472,
    190439488, 190447620, 190456096, 190457920, 190459904, 190480400, 190500864, 190502928, 190517248, 190519300, 190562304, 190572548, 190611456, 191496196,
    191588384, 191594512, 191614976, 192020481, 192086018, 192151568, 192198688, 192206848, 192413700, 192567296, 192575496, 192577540, 192579592, 192692224,
    192707080, 192714756, 192741376, 192872452, 192876576, 192878596, 192880648, 192882688, 192905224, 192909312, 192937988, 205504512, 205520900, 208056320,
    208140292, 208160768, 226459652, 226467840, 226469892, 226484224, 226486276, 226490368, 226492420, 227088384, 227119108, 227121152, 227180548, 227186688,
    227190788, 227192832, 227221508, 227229696, 227246084, 228057088, 232783876, 233003008, 233013252, 233039872, 233046020, 233064448, 233078788, 233099264,
    233103424, 233105928, 233109792, 233112576, 233119744, 241172544, 241664016, 241684480, 241696832, 242589696, 242745352, 242839552, 242843656, 242890752,
    242909248, 243146752, 243269696, 243773440, 243793984, 243873792, 243877952, 244000776, 244005384, 244011072, 244017160, 244030464, 244046344, 244062272,
    244066824, 244080704, 244142600, 244150336, 244275200, 244318272, 244453896, 244459584, 244461568, 244711440, 244752384, 244776976, 244817920, 244842560,
    245020672, 245039120, 245090304, 245366785, 245420034, 245473281, 245526530, 245540864, 245542914, 245579777, 245633026, 245686273, 245688320, 245690369,
    245694464, 245698561, 245700608, 245704705, 245708800, 245712897, 245721088, 245723137, 245739522, 245747712, 245749762, 245751808, 245753858, 245768192,
    245770242, 245792769, 245846018, 245899265, 245903360, 245905409, 245913600, 245917697, 245934080, 245936129, 245950464, 245952514, 246005761, 246009856,
    246011905, 246020096, 246022145, 246032384, 246034433, 246036480, 246042625, 246056960, 246059010, 246112257, 246165506, 246218753, 246272002, 246325249,
    246378498, 246431745, 246484994, 246538241, 246591490, 246644737, 246697986, 246755328, 246759425, 246810688, 246812674, 246863936, 246865922, 246878209,
    246929472, 246931458, 246982720, 246984706, 246996993, 247048256, 247050242, 247101504, 247103490, 247115777, 247167040, 247169026, 247220288, 247222274,
    247234561, 247285824, 247287810, 247339072, 247341058, 247353345, 247355394, 247357440, 247361552, 247464000, 248513032, 248625216, 248633864, 248735808,
    248752648, 248754240, 248783368, 248784960, 248789280, 248799232, 248830472, 248840192, 248842760, 248872960, 251133954, 251154436, 251156482, 251197440,
    251209730, 251222016, 251658248, 251672576, 251674632, 251709440, 251713544, 251727872, 251729928, 251734016, 251736072, 251746304, 251756548, 251883520,
    251951112, 251953152, 252182532, 252274688, 252280840, 252295172, 252309504, 252313616, 252334080, 252342276, 252344384, 252346368, 253001732, 253063176,
    253065216, 253100036, 253190152, 253198352, 253218816, 253229120, 253231104, 254181380, 254238728, 254246928, 254267392, 254705668, 254767112, 254771204,
    254773264, 254793728, 254801952, 254803968, 255787012, 255801344, 255803396, 255811584, 255813636, 255817728, 255819780, 255850496, 255852548, 256256000,
    256260112, 256279048, 256292864, 256376833, 256446466, 256516104, 256530436, 256532480, 256540688, 256561152, 256569376, 256573440, 258181136, 258302016,
    258304016, 258310208, 258312208, 258320384, 258476048, 258568256, 258570256, 258600960, 258998276, 259006464, 259008516, 259063808, 259065860, 259069952,
    259072004, 259074048, 259078148, 259080192, 259082244, 259102720, 259104772, 259112960, 259115012, 259117056, 259119108, 259121152, 259133444, 259135488,
    259143684, 259145728, 259147780, 259149824, 259151876, 259153920, 259155972, 259162112, 259164164, 259168256, 259170308, 259172352, 259176452, 259178496,
    259180548, 259182592, 259184644, 259186688, 259188740, 259190784, 259192836, 259194880, 259196932, 259201024, 259203076, 259205120, 259209220, 259217408,
    259219460, 259233792, 259235844, 259244032, 259246084, 259254272, 259256324, 259258368, 259260420, 259280896, 259282948, 259317760, 259328004, 259334144,
    259336196, 259346432, 259348484, 259383296, 259489856, 259493888, 260046912, 260136960, 260145216, 260349952, 260374592, 260405248, 260409408, 260440064,
    260442176, 260472832, 260474944, 260550656, 260571152, 260597824, 260927488, 261042240, 261101568, 261128256, 261218304, 261226560, 261244928, 261259328,
    261263360, 261292096, 261304320, 261619776, 263634944, 263643200, 263677952, 263684160, 263710720, 263716928, 263960576, 263968832, 264163328, 264175680,
    264200192, 264208448, 264210432, 264241216, 264265728, 264273984, 264388608, 264405056, 264425472, 264437824, 264519680, 264536128, 264597504, 264601664,
    264626176, 264634432, 264638464, 264765504, 265461760, 265486400, 265515008, 265519168, 265545728, 265551936, 265572352, 265582656, 265697280, 265711680,
    265742336, 265746496, 265768960, 265781312, 265799680, 265814080, 266115072, 266117184, 266305552, 266326016, 268435460, 355926016, 355991556, 364498944,
    364511236, 364965888, 364969988, 376770560, 376799236, 392103936, 392134660, 393408512, 398458884, 399568896, 402653188, 412768256, 412778500, 421363712,
    1879051264, 1879052288, 1879114752, 1879310336, 1879573000, 1880064000, 2013266944, 2147479552, 2147484672, 2281697280,
};
// canonical decompositions: character, first part, second part (0: none), each less the entry before
constexpr int32_t DECOMPOSITIONS[] = {
    192, 65, 768, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 5, 1, 0, 2, 2, 2, 29, 1, 2, -39, 1, 0, 1, 1, 0, 1, 1, 0, 6, 1, 4, -8, 1, 0, 1, 1, 0, 1, 1, 0, 6, 2, 5, -5,
    1, 1, -3, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 5, 3, 6, -8, 1, 0, 1, 1, 0, 1, 1, 0, 6, 1, 4, -7, 3, 8, -1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 5, 1, 0, 2, 2, 2,
    29, 1, 2, -39, 1, 0, 1, 1, 0, 1, 1, 0, 6, 1, 4, -8, 1, 0, 1, 1, 0, 1, 1, 0, 6, 2, 5, -5, 1, 1, -3, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 5, 3, 6, -8, 1, 0, 1,
    1, 0, 1, 1, 0, 6, 1, 4, -7, 2, 0, 7, 1, -56, -4, 1, 32, 0, 1, -32, 2, 1, 32, 0, 1, -32, 34, 1, 32, 0, 1, -30, -39, 1, 32, 0, 1, -32, 1, 1, 32, 0, 1, -32,
    5, 1, 32, 0, 1, -32, 5, 1, 32, 0, 1, -31, 0, 1, 32, 0, 3, -31, -8, 1, 32, 0, 1, -32, 2, 1, 32, 0, 1, -32, 1, 1, 32, 0, 1, -32, 33, 1, 32, 0, 1, -32, -28,
    1, 32, 0, 1, -30, -10, 1, 32, 0, 1, -32, 4, 1, 32, 0, 1, -32, 1, 1, 32, 0, 1, -32, 32, 1, 32, 0, 1, -31, -37, 1, 32, 0, 3, -31, 1, 1, 32, 0, 1, -32, 1, 1,
    32, 0, 1, -32, 2, 1, 32, 0, 1, -32, 34, 1, 32, 0, 1, -32, -33, 4, 1, -5, 1, 32, 0, 1, -31, 37, 1, 32, 0, 2, -31, -38, 1, 32, 0, 1, -32, 38, 1, 32, 0, 1,
    -32, -27, 1, 32, 0, 5, -30, -11, 1, 32, 0, 1, -32, 38, 1, 32, 0, 1, -32, -27, 1, 32, 0, 4, -31, -8, 1, 32, 0, 1, -32, 2, 1, 32, 0, 1, -32, 5, 1, 32, 0, 3,
    -29, -10, 1, 32, 0, 1, -32, 38, 1, 32, 0, 1, -32, -27, 1, 32, 0, 1, -31, -11, 1, 32, 0, 1, -32, 1, 1, 32, 0, 1, -32, 37, 1, 32, 0, 1, -32, -27, 1, 32, 0,
    1, -31, 27, 1, 32, 0, 1, -32, -27, 1, 32, 0, 3, -31, -9, 1, 32, 0, 1, -32, 1, 1, 32, 0, 1, -32, 2, 1, 32, 0, 1, -32, 4, 1, 32, 0, 1, -32, 1, 1, 32, 0, 1,
    -32, 29, 1, 32, 0, 1, -30, -38, 1, 32, 0, 1, -30, 0, 1, 32, 0, 1, -32, 6, 1, 1, -7, 1, 32, 0, 1, -32, 6, 1, 32, 0, 1, -32, 5, 1, 32, 0, 34, -43, 15, 1,
    32, 0, 14, -26, 0, 1, 32, 0, 29, -52, -15, 1, 32, 0, 1, -24, 0, 1, 32, 0, 1, -26, 0, 1, 32, 0, 1, -26, 0, 1, 32, 0, 1, 103, -8, 1, 32, 0, 1, -32, -3, 1,
    32, 0, 1, -32, 11, 1, 32, 0, 1, -32, -12, 1, 32, 0, 2, -56, 4, 1, 32, 0, 1, 322, 0, 1, 1, 0, 1, -353, 0, 1, 32, 0, 3, -159, 8, 1, 32, 0, 1, -28, 0, 1, 32,
    0, 1, -28, 28, 1, 32, 0, 1, 379, -36, 1, 1, 0, 1, -52, 8, 1, 219, 0, 1, -552, 0, 4, -35, -11, 1, 32, 0, 3, -25, -1, 1, 32, 0, 1, 87, 1, 1, 32, 0, 1, -31,
    0, 1, 32, 0, 1, -14, 0, 1, 32, 0, 1, -183, 14, 1, 32, 0, 1, -32, 2, 1, 32, 0, 1, -28, -2, 1, 32, 0, 1, -32, 2, 1, 32, 0, 1, -28, -2, 1, 32, 0, 1, -32, 2,
    1, 32, 0, 1, -26, -2, 1, 32, 0, 1, -32, 2, 1, 32, 0, 1, -29, -2, 1, 32, 0, 1, -32, 2, 1, 32, 0, 1, -29, -2, 1, 32, 0, 1, -32, 2, 1, 32, 0, 1, -34, 21, 1,
    32, 0, 1, -31, 0, 1, 32, 0, 3, -44, -26, 1, 32, 0, 7, -39, -5, 1, 32, 0, 1, -28, 32, 1, 32, 0, 1, 113, -35, 1, 32, 0, 1, -33, 0, 1, 32, 0, 1, -166, 3, 1,
    32, 0, 1, 447, -3, 1, 1, 0, 1, -470, 0, 1, 32, 0, 269, 647, -772, 1, 1, 0, 2, 18, 0, 1, -11, 769, 48, -79, -769, 10, -638, 0, 7, 109, 769, 1, 745, 0, 1,
    -730, -769, 1, 734, 769, 1, 2, 0, 1, 2, 0, 2, 6, 0, 2, 6, 0, 1, 4, 0, 1, 33, 0, 26, -49, 7, 1, 12, 0, 1, 12, -7, 1, 4, 0, 1, 2, 0, 1, 2, 0, 1, 18, 0, 26,
    -18, 7, 1, 12, 0, 1, -6, -7, 1, 6, 0, 1, 4, 0, 5, 9, 0, 1, 0, 7, 44, 67, -8, 1, 0, 8, 2, -2, -7, 4, -13, 7, 5, 20, -7, 1, -2, -1, 1, 11, 6, 11, -11, 0,
    32, 32, 0, 23, -3, -6, 1, 0, 8, 2, -2, -7, 4, 35, 7, 5, -28, -7, 1, -2, -1, 1, 11, 6, 24, 49, 9, 1, 1, 0, 74, -95, -9, 1, 32, 0, 14, -38, 0, 1, 32, 0, 1,
    -32, 2, 1, 32, 0, 3, -27, -2, 1, 32, 0, 3, 163, 2, 1, 1, 0, 1, -195, 0, 1, 32, 0, 1, -31, 0, 1, 32, 0, 3, -31, -4, 1, 32, 0, 1, -32, 4, 1, 32, 0, 1, -26,
    0, 1, 32, 0, 3, 170, 0, 1, 1, 0, 1, -188, 0, 1, 32, 0, 1, -42, -4, 1, 32, 0, 1, -32, 4, 1, 32, 0, 1, -32, 3, 1, 32, 0, 1, -28, -3, 1, 32, 0, 3, -28, 0, 1,
    32, 0, 297, 476, 843, 1, 0, 1, 1, 33, 0, 1, -33, 1, 1, 35, -1, 154, 139, 0, 2, -20, 0, 17, 17, 0, 598, 598, 744, 8, 8, 0, 3, 3, 0, 36, -30, 0, 1, 1, 0, 1,
    1, 0, 1, 5, 0, 1, 5, 0, 1, 1, 0, 1, 9, 0, 1, 4, 0, 108, 152, 130, 1, 0, 25, 16, -38, -27, 1, 1, 0, 2, 13, 0, 84, 131, 128, 3, 6, 0, 35, -34, 0, 1, 1, 0,
    1, 5, 0, 3, 15, 0, 234, 284, 282, 3, 0, -24, 1, 0, 25, 16, -38, -27, 1, 1, 0, 55, 112, 155, 54, 52, -25, 1, 1, 0, 1, -1, 25, 124, 128, 127, 120, 121, 127,
    7, 7, 0, 1, 0, 1, 2, 0, -20, 1, 4, 19, 127, 124, 105, 1, 1, 0, 1, -1, 25, 142, 147, 115, 2, 0, 5, 1, 3, -5, 1, -3, 21, 357, 361, 472, 10, 10, 0, 5, 5, 0,
    5, 5, 0, 5, 5, 0, 13, -27, -2, 10, 49, -67, 2, 0, 2, 1, 65, 12, 2, 1, 0, 9, -66, 0, 18, 33, 55, 10, 10, 0, 5, 5, 0, 5, 5, 0, 5, 5, 0, 13, -27, -2, 109,
    149, 121, 2784, 2784, 2823, 2, 2, 0, 2, 2, 0, 2, 2, 0, 2, 2, 0, 4, 4, 0, 41, 41, 0, 2, 2, 0, 3, 2, 0, 1, 1, 0, 2, 3, 0, 701, -6913, -6160, 1, 32, 0, 1,
    -31, -30, 1, 32, 0, 1, -32, 28, 1, 32, 0, 1, -32, 14, 1, 32, 0, 1, 101, -48, 1, 32, 0, 1, -163, 6, 1, 32, 0, 1, -32, 28, 1, 32, 0, 1, -32, 14, 1, 32, 0,
    1, -32, -10, 1, 32, 0, 1, -32, 6, 1, 32, 0, 1, 174, -45, 1, 1, 0, 1, -1, 1, 1, 1, 0, 1, -206, 44, 1, 32, 0, 1, -32, 3, 1, 32, 0, 1, 451, -42, 1, 1, 0, 1,
    -483, 1, 1, 32, 0, 1, -31, -3, 1, 32, 0, 1, -31, 3, 1, 32, 0, 1, -32, 28, 1, 32, 0, 1, -32, -27, 1, 32, 0, 1, -32, 31, 1, 32, 0, 1, -32, 7, 1, 32, 0, 1,
    -31, 2, 1, 32, 0, 1, 102, -47, 1, 32, 0, 1, -164, 0, 1, 32, 0, 1, -32, 34, 1, 32, 0, 1, -32, 14, 1, 32, 0, 1, -31, -14, 1, 32, 0, 1, 7626, -31, 1, 1, 0,
    1, -7659, 45, 1, 32, 0, 1, -32, -4, 1, 32, 0, 1, -31, -44, 1, 32, 0, 1, -32, 6, 1, 32, 0, 1, -32, 28, 1, 32, 0, 1, -31, -28, 1, 32, 0, 1, -32, 28, 1, 32,
    0, 1, -32, 14, 1, 32, 0, 1, -32, -4, 1, 32, 0, 1, 103, -44, 1, 32, 0, 1, -32, 7, 1, 32, 0, 1, 87, -8, 1, 1, 0, 1, -1, 1, 1, 1, 0, 1, -253, 0, 1, 32, 0, 1,
    -32, 6, 1, 32, 0, 1, -30, 0, 1, 32, 0, 1, -32, 28, 1, 32, 0, 1, 7656, -31, 1, 1, 0, 1, -7689, 45, 1, 32, 0, 1, -31, -42, 1, 32, 0, 1, -32, 28, 1, 32, 0,
    1, 231, -28, 1, 1, 0, 1, 5, 0, 1, 1, 0, 1, 7425, 0, 1, 1, 0, 1, -7695, 0, 1, 32, 0, 1, -32, 28, 1, 32, 0, 1, -32, 14, 1, 32, 0, 1, -32, -4, 1, 32, 0, 1,
    -31, -9, 1, 32, 0, 1, -32, 12, 1, 32, 0, 1, -32, -3, 1, 32, 0, 1, 243, -44, 1, 1, 0, 1, 1, 7, 1, 1, 0, 1, -277, -5, 1, 32, 0, 1, -32, 32, 1, 32, 0, 1,
    -31, -35, 1, 32, 0, 1, -32, 1, 1, 32, 0, 1, -32, 7, 1, 32, 0, 1, -32, -1, 1, 32, 0, 1, -32, 28, 1, 32, 0, 1, -31, -28, 1, 32, 0, 1, -32, 1, 1, 32, 0, 1,
    -31, -1, 1, 32, 0, 1, -31, -5, 1, 32, 0, 1, -32, 33, 1, 32, 0, 1, -32, 14, 1, 32, 0, 1, -18, 0, 1, 12, -41, 1, 3, 2, 1, 2, 0, 2, 262, -3, 5, -318, 28, 1,
    32, 0, 1, -32, -26, 1, 32, 0, 1, 97, -8, 1, 32, 0, 1, -32, -1, 1, 32, 0, 1, -32, 9, 1, 32, 0, 1, -32, -6, 1, 32, 0, 1, 7614, -1, 1, 1, 0, 1, -7583, -1, 1,
    1, 0, 1, -1, -1, 1, 1, 0, 1, -1, 9, 1, 1, 0, 1, -1, -6, 1, 1, 0, 1, 7581, 3, 1, 1, 0, 1, -7772, 29, 1, 32, 0, 1, -32, -26, 1, 32, 0, 1, -32, -6, 1, 32, 0,
    1, 101, -2, 1, 32, 0, 1, -32, -1, 1, 32, 0, 1, -32, 9, 1, 32, 0, 1, -32, -6, 1, 32, 0, 1, 7630, -1, 1, 1, 0, 1, -7792, 7, 1, 32, 0, 1, -32, 26, 1, 32, 0,
    1, -26, 0, 1, 32, 0, 1, -32, -26, 1, 32, 0, 1, 101, -8, 1, 32, 0, 1, -32, -1, 1, 32, 0, 1, -32, 9, 1, 32, 0, 1, -32, -6, 1, 32, 0, 1, 7640, -1, 1, 1, 0,
    1, -7469, -1, 1, 1, 0, 1, -1, -1, 1, 1, 0, 1, -1, 9, 1, 1, 0, 1, -1, -6, 1, 1, 0, 1, -1, 32, 1, 1, 0, 1, -332, 0, 1, 32, 0, 1, -32, -26, 1, 32, 0, 1, 314,
    -8, 1, 1, 0, 1, -1, -1, 1, 1, 0, 1, -1, 9, 1, 1, 0, 1, -1, -6, 1, 1, 0, 1, -1, 32, 1, 1, 0, 1, -343, -35, 1, 32, 0, 1, -32, 35, 1, 32, 0, 1, -32, -26, 1,
    32, 0, 1, -32, -6, 1, 32, 0, 7, 824, 16, 1, 0, 1, 1, 6991, -20, 1, 1, 0, 1, -1, 1, 1, 1, 0, 1, -1, 65, 1, 1, 0, 1, -7024, -47, 1, 0, 1, 1, 7031, -20, 1,
    1, 0, 1, -1, 1, 1, 1, 0, 1, -1, 65, 1, 1, 0, 1, -6996, -47, 1, 0, 1, 1, 7003, -20, 1, 1, 0, 1, -1, 1, 1, 1, 0, 3, -7036, 18, 1, 0, 1, 1, 7043, -20, 1, 1,
    0, 1, -1, 1, 1, 1, 0, 3, -7010, 18, 1, 0, 1, 1, 7017, -20, 1, 1, 0, 1, -1, 1, 1, 1, 0, 1, -1, 65, 1, 1, 0, 1, -7050, -47, 1, 0, 1, 1, 7057, -20, 1, 1, 0,
    1, -1, 1, 1, 1, 0, 1, -1, 65, 1, 1, 0, 1, -7024, -47, 1, 0, 1, 1, 7031, -20, 1, 1, 0, 1, -1, 1, 1, 1, 0, 1, -1, 65, 1, 1, 0, 1, -7064, -47, 1, 0, 1, 1,
    7071, -20, 1, 1, 0, 1, -1, 1, 1, 1, 0, 1, -1, 65, 1, 1, 0, 1, -7034, -47, 1, 0, 1, 1, 7041, -20, 1, 1, 0, 1, -1, 1, 1, 1, 0, 3, -7074, 18, 1, 0, 1, 1,
    7081, -20, 1, 1, 0, 1, -1, 1, 1, 1, 0, 3, -7044, 18, 1, 0, 1, 1, 7051, -20, 1, 1, 0, 1, -1, 1, 1, 1, 0, 1, -1, 65, 1, 1, 0, 2, -7084, -46, 2, 7092, -20,
    2, 0, 1, 2, 0, 65, 1, -7056, -47, 1, 0, 1, 1, 7063, -20, 1, 1, 0, 1, -1, 1, 1, 1, 0, 1, -1, 65, 1, 1, 0, 1, -7096, -47, 1, 0, 1, 1, 7103, -20, 1, 1, 0, 1,
    -1, 1, 1, 1, 0, 1, -1, 65, 1, 1, 0, 1, -7096, -66, 1, -5, -768, 1, 9, 768, 1, -8, -768, 1, 10, 768, 1, -9, -768, 1, 11, 768, 1, -10, -768, 1, 16, 768, 1,
    13, -768, 1, -7, 768, 1, 8, -768, 1, -4, 768, 1, 5, -768, 3, 6962, 837, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0,
    1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 17, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0,
    1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 49, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0,
    1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, -7102, -63, 1, 0, -2, 1, 7103, 65, 1, -7103, 0, 1, -5, 0, 2, 5, -3, 1, 7173, 3, 1, -7205, -63, 1, 0, -2, 1, 0, -4,
    1, -11, -768, 1, 11, 837, 2, 40, -837, 3, -785, 834, 1, 7884, 3, 1, -7101, 0, 1, -9, 0, 2, 9, -3, 1, 7183, 3, 1, -7217, -69, 1, -13, -768, 1, 15, 768, 1,
    -14, -768, 1, 14, 837, 1, 7208, -69, 1, 0, 1, 1, 0, 65, 1, -7174, -60, 1, 0, -2, 1, 17, -4, 1, -58, -768, 3, 41, 834, 1, 17, 0, 1, -49, -60, 1, 0, -2, 1,
    0, -4, 1, -15, -768, 2, 7284, 768, 1, 0, 1, 1, 0, 65, 1, -7225, -60, 1, 0, -2, 1, 6, -4, 1, -27, -768, 1, 17, 787, 1, 0, 1, 1, 4, 46, 1, 6, 0, 1, -38,
    -60, 1, 0, -2, 1, 0, -4, 1, -23, -768, 1, 19, 788, 1, -761, -20, 1, 733, -768, 1, -805, 0, 3, 7964, 837, 1, -7091, 0, 1, 5, 0, 2, -5, -3, 1, 7213, 3, 1,
    -7255, -69, 1, -19, -768, 1, 29, 768, 1, -26, -768, 1, 26, 837, 1, -757, -837, 3, 8014, 0, 1, 1, 0, 293, -7258, 0, 4, -862, 0, 1, 122, 0, 111, 8395, 824,
    1, 2, 0, 19, 2, 0, 31, 60, 0, 1, 4, 0, 1, -2, 0, 53, 49, 0, 5, 5, 0, 3, 3, 0, 24, 24, 0, 2, 2, 0, 27, 23, 0, 3, 7, 0, 3, 2, 0, 2, 3, 0, 23, -8715, 0, 2,
    8740, 0, 11, -20, 0, 1, -8721, 0, 1, 2, 0, 1, 8742, 0, 1, 1, 0, 3, 13, 0, 1, 1, 0, 3, 3, 0, 1, 1, 0, 7, 3, 0, 1, 1, 0, 3, 7, 0, 1, 1, 0, 3, 3, 0, 1, 1, 0,
    35, 27, 0, 1, 6, 0, 1, 1, 0, 1, 2, 0, 49, -47, 0, 1, 1, 0, 1, 20, 0, 1, 1, 0, 7, 32, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 60, 3411, -824, 1, 1, 0, 1970, -1324,
    824, 1392, 1390, 11617, 2, 2, 0, 2, 2, 0, 2, 2, 0, 2, 2, 0, 2, 2, 0, 2, 2, 0, 2, 2, 0, 2, 2, 0, 2, 2, 0, 2, 2, 0, 2, 2, 0, 3, 3, 0, 2, 2, 0, 2, 2, 0, 7,
    7, 0, 1, 0, 1, 2, 3, -1, 1, 0, 1, 2, 3, -1, 1, 0, 1, 2, 3, -1, 1, 0, 1, 2, 3, -1, 1, 0, 1, 23, -53, -1, 10, 87, 0, 14, 14, 0, 2, 2, 0, 2, 2, 0, 2, 2, 0,
    2, 2, 0, 2, 2, 0, 2, 2, 0, 2, 2, 0, 2, 2, 0, 2, 2, 0, 2, 2, 0, 2, 2, 0, 3, 3, 0, 2, 2, 0, 2, 2, 0, 7, 7, 0, 1, 0, 1, 2, 3, -1, 1, 0, 1, 2, 3, -1, 1, 0, 1,
    2, 3, -1, 1, 0, 1, 2, 3, -1, 1, 0, 1, 23, -53, -1, 3, 73, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 4, 11, 0, 51202, 23371, -12441, 1, -9556, 0, 1, 10198, 0, 1, -514,
    0, 1, -7671, 0, 1, -8351, 0, 1, 1459, 0, 1, 19383, 0, 1, 0, 0, 1, -17995, 0, 1, 14464, 0, 1, -15434, 0, 1, 961, 0, 1, 2222, 0, 1, 5235, 0, 1, 2332, 0, 1,
    1722, 0, 1, 379, 0, 1, 318, 0, 1, 1943, 0, 1, -9869, 0, 1, 793, 0, 1, 958, 0, 1, 773, 0, 1, 4191, 0, 1, 3373, 0, 1, 2183, 0, 1, -19311, 0, 1, 1267, 0, 1,
    6031, 0, 1, 1815, 0, 1, 5138, 0, 1, 6129, 0, 1, -16590, 0, 1, 4763, 0, 1, 5602, 0, 1, 919, 0, 1, -9883, 0, 1, 7951, 0, 1, 1607, 0, 1, -10581, 0, 1, 2125,
    0, 1, 1619, 0, 1, 1426, 0, 1, 7634, 0, 1, -16712, 0, 1, 561, 0, 1, 295, 0, 1, 4582, 0, 1, 1551, 0, 1, 1853, 0, 1, 1239, 0, 1, 2330, 0, 1, 1541, 0, 1, 86,
    0, 1, 1939, 0, 1, 2371, 0, 1, 1085, 0, 1, 651, 0, 1, -9582, 0, 1, 243, 0, 1, 1057, 0, 1, 1577, 0, 1, 3899, 0, 1, 2939, 0, 1, -5033, 0, 1, -12791, 0, 1,
    1573, 0, 1, 7516, 0, 1, 1054, 0, 1, -3612, 0, 1, 1640, 0, 1, 5112, 0, 1, 2613, 0, 1, -15903, 0, 1, 906, 0, 1, 3505, 0, 1, 967, 0, 1, 309, 0, 1, 3616, 0,
    1, 264, 0, 1, 6164, 0, 1, -17273, 0, 1, 11705, 0, 1, -11951, 0, 1, -16, 0, 1, 10320, 0, 1, 930, 0, 1, 1587, 0, 1, 4740, 0, 1, -2805, 0, 1, -10417, 0, 1,
    1843, 0, 1, 8444, 0, 1, -15557, 0, 1, 3502, 0, 1, 1067, 0, 1, 4981, 0, 1, 489, 0, 1, -8793, 0, 1, 9700, 0, 1, -10556, 0, 1, 4074, 0, 1, -4508, 0, 1, 7871,
    0, 1, -1876, 0, 1, 6058, 0, 1, -10591, 0, 1, 1179, 0, 1, 7843, 0, 1, 3400, 0, 1, 1633, 0, 1, -7920, 0, 1, 9206, 0, 1, -9000, 0, 1, -2442, 0, 1, 8167, 0,
    1, -8005, 0, 1, 4549, 0, 1, -9911, 0, 1, 699, 0, 1, 96, 0, 1, 5816, 0, 1, 5222, 0, 1, 1416, 0, 1, 2147, 0, 1, 1789, 0, 1, -16090, 0, 1, 333, 0, 1, 1329,
    0, 1, 1401, 0, 1, 1753, 0, 1, 2617, 0, 1, 2348, 0, 1, 7299, 0, 1, 1213, 0, 1, 1069, 0, 1, 55, 0, 1, -19507, 0, 1, 5163, 0, 1, 1201, 0, 1, 9195, 0, 1,
    -12526, 0, 1, 796, 0, 1, 112, 0, 1, 666, 0, 1, 2697, 0, 1, 550, 0, 1, 832, 0, 1, 1345, 0, 1, 1066, 0, 1, 635, 0, 1, 3767, 0, 1, -2616, 0, 1, 2869, 0, 1,
    807, 0, 1, -16691, 0, 1, 140, 0, 1, 538, 0, 1, 7179, 0, 1, 6138, 0, 1, 488, 0, 1, -11233, 0, 1, 300, 0, 1, 902, 0, 1, 2099, 0, 1, 4240, 0, 1, -2249, 0, 1,
    -9361, 0, 1, 2069, 0, 1, 1262, 0, 1, 467, 0, 1, 610, 0, 1, 5014, 0, 1, 183, 0, 1, 2865, 0, 1, 172, 0, 1, 4590, 0, 1, 1218, 0, 1, 82, 0, 1, 208, 0, 1,
    -18573, 0, 1, 10787, 0, 1, 6150, 0, 1, 1284, 0, 1, -13783, 0, 1, -4699, 0, 1, 596, 0, 1, 2836, 0, 1, 81, 0, 1, 2394, 0, 1, 1129, 0, 1, 1996, 0, 1, 1140,
    0, 1, 3770, 0, 1, 2944, 0, 1, 3857, 0, 1, -14597, 0, 1, 12198, 0, 1, -17317, 0, 1, 5362, 0, 1, 120, 0, 1, 1358, 0, 1, 347, 0, 1, 1389, 0, 1, 336, 0, 1,
    786, 0, 1, 1189, 0, 1, 6990, 0, 1, -18161, 0, 1, 4289, 0, 1, 13386, 0, 1, -17997, 0, 1, 3310, 0, 1, 4305, 0, 1, 8512, 0, 1, -12191, 0, 1, 441, 0, 1, 1747,
    0, 1, 2928, 0, 1, 8959, 0, 1, -17501, 0, 1, 486, 0, 1, 2134, 0, 1, 2478, 0, 1, 315, 0, 1, 346, 0, 1, 1085, 0, 1, 1825, 0, 1, 476, 0, 1, 2455, 0, 1, 2390,
    0, 1, 18, 0, 1, 2283, 0, 1, 1302, 0, 1, -17315, 0, 1, 7035, 0, 1, -6813, 0, 1, 7603, 0, 1, 712, 0, 1, 4450, 0, 1, 4265, 0, 1, 1460, 0, 1, 584, 0, 1,
    -14088, 0, 1, 1588, 0, 1, 5149, 0, 1, -1821, 0, 1, 85, 0, 1, 370, 0, 1, -2514, 0, 1, -551, 0, 1, 6847, 0, 1, -15512, 0, 1, 13430, 0, 1, -12540, 0, 1, -51,
    0, 1, 3231, 0, 1, 1069, 0, 1, 6659, 0, 1, -8529, 0, 1, 4505, 0, 1, -1642, 0, 1, 10375, 0, 1, -1775, 0, 1, 3585, 0, 1, -3266, 0, 1, -10936, 0, 1, -3475, 0,
    1, 1152, 0, 3, 666, 0, 2, 3610, 0, 3, -5270, 0, 1, 8524, 0, 1, 928, 0, 1, 626, 0, 1, 34, 0, 1, 7, 0, 1, 42, 0, 1, 7623, 0, 1, -6808, 0, 1, 767, 0, 2,
    1621, 0, 2, 1254, 0, 3, 1344, 0, 1, 197, 0, 4, 2034, 0, 1, 13, 0, 1, 44, 0, 1, 1164, 0, 1, -3286, 0, 1, 1497, 0, 1, -18185, 0, 1, 313, 0, 1, 102, 0, 1,
    380, 0, 1, 27, 0, 1, 109, 0, 1, 588, 0, 1, 105, 0, 1, 98, 0, 1, 472, 0, 1, 104, 0, 1, 956, 0, 1, 10, 0, 1, 1062, 0, 1, 212, 0, 1, 38, 0, 1, 100, 0, 1,
    861, 0, 1, 147, 0, 1, 175, 0, 1, 500, 0, 1, 1266, 0, 1, 163, 0, 1, 264, 0, 1, 588, 0, 1, 189, 0, 1, 503, 0, 1, 1135, 0, 1, 173, 0, 1, 11, 0, 1, -1, 0, 1,
    8, 0, 1, 6, 0, 1, 7, 0, 1, 48, 0, 1, 1, 0, 1, 178, 0, 1, 65, 0, 1, 319, 0, 1, 564, 0, 1, 21, 0, 1, 56, 0, 1, 305, 0, 1, 147, 0, 1, 488, 0, 1, 140, 0, 1,
    0, 0, 1, 478, 0, 1, 1209, 0, 1, 134, 0, 1, 363, 0, 1, 56, 0, 1, 410, 0, 1, 53, 0, 1, 686, 0, 1, 130, 0, 1, 1707, 0, 1, 284, 0, 1, 60, 0, 1, -14278, 0, 1,
    123513, 0, 1, -114902, 0, 3, -13298, 0, 1, 911, 0, 1, -77, 0, 1, -488, 0, 1, 453, 0, 1, 59, 0, 1, 327, 0, 1, 51, 0, 1, 675, 0, 1, -72, 0, 1, 68, 0, 1, 73,
    0, 1, 632, 0, 1, 89, 0, 1, 145, 0, 1, 16, 0, 1, 270, 0, 1, 198, 0, 1, 938, 0, 1, 7, 0, 1, 144, 0, 1, 68, 0, 1, 299, 0, 1, 118, 0, 1, -70, 0, 1, 134, 0, 1,
    -46, 0, 1, 146, 0, 1, 66, 0, 1, 400, 0, 1, 88, 0, 1, 54, 0, 1, 260, 0, 1, 286, 0, 1, 163, 0, 1, 4, 0, 1, 59, 0, 1, 1059, 0, 1, 65, 0, 1, 391, 0, 1, 410,
    0, 1, -16, 0, 1, 87, 0, 1, 252, 0, 1, 336, 0, 1, 1593, 0, 1, -1394, 0, 1, 122, 0, 1, 123, 0, 1, 327, 0, 1, 149, 0, 1, 53, 0, 1, 226, 0, 1, 2, 0, 1, 171,
    0, 1, 17, 0, 1, 25, 0, 1, 86, 0, 1, -10, 0, 1, 396, 0, 1, 485, 0, 1, 271, 0, 1, 187, 0, 1, 224, 0, 1, 153, 0, 1, 330, 0, 1, 199, 0, 1, 845, 0, 1, 157, 0,
    1, 906, 0, 1, 456, 0, 1, 69, 0, 1, 16, 0, 1, 297, 0, 1, 57, 0, 1, -45, 0, 1, 54, 0, 1, -3, 0, 1, -17, 0, 1, 76, 0, 1, 81, 0, 1, 382, 0, 1, 560, 0, 1, 314,
    0, 1, 295, 0, 1, 221, 0, 1, 1030, 0, 1, 103, 0, 1, 115, 0, 1, 133, 0, 1, 36, 0, 1, 12, 0, 1, 48, 0, 1, 727, 0, 1, 1162, 0, 1, 100526, 0, 1, -6, 0, 1,
    2961, 0, 1, -129080, 0, 1, 1147, 0, 1, 33, 0, 1, 135696, 0, 1, 2695, 0, 1, 8707, 0, 1, -122768, 0, 1, 75, 0, 68, -39349, 1460, 2, 25, 3, 11, -9, 10, 1, 0,
    1, 1, 62816, -1, 1, 0, 1, 1, -62841, -11, 1, 0, 1, 1, 0, 4, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 2, 2, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1,
    1, 0, 2, 2, 0, 2, 2, 0, 1, 1, 0, 2, 2, 0, 1, 1, 0, 2, 2, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, -21, -3, 1, -4, 6, 1, 10, 0, 1, 9, 0, 5452, 68277,
    68347, 2, 2, 0, 15, 10, 0, 131, 140, 109, 1, 1, 0, 540, 533, 535, 1, 0, 25, 367, 370, 355, 1, 0, -10, 2, 0, 13, 252, 255, 242, 1, 1, 0, 48035, 48030,
    48054, 1, 1, 0, 1, 7, 9, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 87, 90, -13, 1, 1, 0, 1, 1, 9, 1, 1, 0, 1, -1, 1, 1, 1, 0, 75328, -99199, -119151, 1, -5, 0,
    1, 9, 0, 1, 111329, 0, 1, -111042, 0, 1, 78, 0, 1, 13, 0, 1, 71, 0, 1, 120, 0, 1, 31, 0, 1, 78, 0, 1, -24, 0, 1, -7217, 0, 1, 119196, 0, 1, -111853, 0, 1,
    7, 0, 1, 16, 0, 1, 19, 0, 1, 111525, 0, 1, -118883, 0, 1, 7342, 0, 1, 38, 0, 1, 111550, 0, 1, -111540, 0, 1, 13, 0, 1, -728, 0, 1, 736, 0, 1, 9, 0, 1,
    147498, 0, 1, -147434, 0, 1, 14, 0, 1, -7460, 0, 1, 7516, 0, 1, 11, 0, 1, 44, 0, 1, 5, 0, 1, -7522, 0, 1, 7602, 0, 1, 2, 0, 1, 27, 0, 1, 22, 0, 1, 11, 0,
    1, 1, 0, 1, 17, 0, 1, 50, 0, 1, 8, 0, 1, 9, 0, 1, 25, 0, 1, 10, 0, 1, 2, 0, 1, 0, 0, 1, 0, 0, 1, 112301, 0, 1, -104892, 0, 1, -7334, 0, 1, 21, 0, 1,
    112516, 0, 1, -112504, 0, 1, 6, 0, 1, 21, 0, 1, 152, 0, 1, -102, 0, 1, 16, 0, 1, 32, 0, 1, 58, 0, 1, 84, 0, 1, 26, 0, 1, 67, 0, 1, 16, 0, 1, 33, 0, 1, 0,
    0, 1, 21, 0, 1, 18, 0, 1, 8, 0, 1, 15, 0, 1, 340, 0, 1, -272, 0, 1, 273, 0, 1, -198, 0, 1, 35, 0, 1, -1133, 0, 1, 1767, 0, 1, -288, 0, 1, 38, 0, 1, 25, 0,
    1, -130, 0, 1, 167, 0, 1, -1, 0, 1, 123, 0, 1, 113720, 0, 1, -113650, 0, 1, 5, 0, 1, 15, 0, 1, 20, 0, 1, 8, 0, 1, 64, 0, 1, 113990, 0, 1, 66, 0, 1,
    -113918, 0, 1, 47, 0, 1, 12, 0, 1, -79, 0, 1, 142, 0, 1, -9080, 0, 1, 14, 0, 1, 9228, 0, 1, 54, 0, 1, 0, 0, 1, 114314, 0, 1, -114181, 0, 1, 21, 0, 1, 15,
    0, 1, 12, 0, 1, 114469, 0, 1, -114457, 0, 1, 7, 0, 1, 845, 0, 1, -817, 0, 1, -9377, 0, 1, 9439, 0, 1, 14, 0, 1, 82, 0, 1, -51, 0, 1, 115031, 0, 1,
    -114849, 0, 1, 114851, 0, 1, -114808, 0, 1, -3, 0, 1, 17, 0, 1, 101, 0, 1, 1, 0, 1, -9651, 0, 1, 9678, 0, 1, 43, 0, 1, 21, 0, 1, 44, 0, 1, -9735, 0, 1,
    125217, 0, 1, -125191, 0, 1, 9780, 0, 1, 3, 0, 1, 3, 0, 1, 20, 0, 1, 148680, 0, 1, -148628, 0, 1, 115763, 0, 1, 0, 0, 1, -106800, 0, 1, -8927, 0, 1, 0, 0,
    1, -9819, 0, 1, 129521, 0, 1, 12066, 0, 1, -131704, 0, 1, 9, 0, 1, -9864, 0, 1, 9911, 0, 1, 51, 0, 1, 10, 0, 1, 34, 0, 1, 136, 0, 1, -10055, 0, 1, -30, 0,
    1, 10104, 0, 1, 116288, 0, 1, -116237, 0, 1, 129, 0, 1, 4, 0, 1, 2, 0, 1, -2, 0, 1, 46, 0, 1, 20, 0, 1, 36, 0, 1, -14, 0, 1, 11, 0, 1, 47, 0, 1, 20, 0, 1,
    4, 0, 1, 26, 0, 1, 11, 0, 1, 66, 0, 1, 84, 0, 1, 35, 0, 1, 124, 0, 1, 116668, 0, 1, -116687, 0, 1, -65, 0, 1, 108, 0, 1, 27, 0, 1, 97, 0, 1, 116749, 0, 1,
    -116687, 0, 1, -93, 0, 1, -28, 0, 1, -10619, 0, 1, 10811, 0, 1, 21, 0, 1, 31, 0, 1, -38, 0, 1, -10763, 0, 1, 10979, 0, 1, 29, 0, 1, 117406, 0, 1, -117287,
    0, 1, 277, 0, 1, -175, 0, 1, -11056, 0, 1, 11128, 0, 1, -11145, 0, 1, -36, 0, 1, 5806, 0, 1, 3, 0, 1, 5483, 0, 1, -100, 0, 1, 6673, 0, 1, -15572, 0, 1,
    9022, 0, 1, 4, 0, 1, 6, 0, 1, 61, 0, 1, -11, 0, 1, 117872, 0, 1, -129146, 0, 1, 11441, 0, 1, -117, 0, 1, 205, 0, 1, 51, 0, 1, 117736, 0, 1, -117727, 0, 1,
    -111, 0, 1, 245, 0, 1, -11639, 0, 1, 11685, 0, 1, 97, 0, 1, 71, 0, 1, 190, 0, 1, 117755, 0, 1, -117704, 0, 1, -11971, 0, 1, 12041, 0, 1, 118150, 0, 1,
    -118099, 0, 1, -12038, 0, 1, 12068, 0, 1, 45, 0, 1, 27, 0, 1, 1, 0, 1, 118482, 0, 1, -7554, 0, 1, 7663, 0, 1, -118444, 0, 1, 118894, 0, 1, -118781, 0, 1,
    14, 0, 1, -102, 0, 1, 175, 0, 1, 40, 0, 1, 57, 0, 1, -54, 0, 1, 40, 0, 1, 15, 0, 1, 13, 0, 1, 118681, 0, 1, -118762, 0, 1, 251, 0, 1, 63, 0, 1, -12603, 0,
    1, 12696, 0, 1, -4, 0, 1, 118794, 0, 1, -119000, 0, 1, 373, 0, 1, 118768, 0, 1, 48, 0, 1, -118728, 0, 1, 115, 0, 1, -27, 0, 1, -3, 0, 1, -12933, 0, 1,
    12980, 0, 1, 51, 0, 1, -6, 0, 1, 54, 0, 1, 103544, 0, 1, -103392, 0, 1, 119070, 0, 1, -118983, 0, 1, 119311, 0, 1, -119171, 0, 1, 13, 0, 1, 27, 0, 1,
    119736, 0, 1, -119688, 0, 1, 21, 0, 1, 119968, 0, 1, 223, 0, 1, -119962, 0, 1, 17, 0, 1, -13535, 0, 1, 13561, 0, 1, -13549, 0, 1, 0, 0, 1, 13711, 0, 1,
    21, 0, 1, 21, 0, 1, 20, 0, 1, 69, 0, 1, -13743, 0, 1, 13833, 0, 1, 120594, 0, 1, -120568, 0, 1, 120660, 0, 1, -120610, 0, 1, 109615, 0, 1, -109455, 0, 1,
    121233, 0, 1, 23, 0, 1, 140, 0, 1, -135240, 0, 1, 12, 0, 1, 14060, 0, 1, 121343, 0, 1, -1, 0, 1, 39, 0, 1, 26, 0, 1, -121365, 0, 1, 1, 0, 1, 0, 0, 1, 43,
    0, 1, -14097, 0, 1, 14162, 0, 1, -14149, 0, 1, 80, 0, 1, 136071, 0, 1, -121807, 0, 1, 62, 0, 1, 64, 0, 1, -14313, 0, 1, 136515, 0, 1, -122064, 0, 1,
    122180, 0, 1, 43, 0, 1, -122166, 0, 1, 92, 0, 1, -14524, 0, 1, 14609, 0, 1, 10, 0, 1, 5, 0, 1, 122669, 0, 1, 299, 0, 1, 0, 0, 1, -122809, 0, 1, -14572, 0,
    1, 137641, 0, 1, -122853, 0, 1, 3, 0, 1, -14754, 0, 1, 137817, 0, 1, -122798, 0, 1, -14898, 0, 1, 14920, 0, 1, -5, 0, 1, 29, 0, 1, 123526, 0, 1, -123427,
    0, 1, -14946, 0, 1, 15046, 0, 1, 59, 0, 1, 67, 0, 1, -15121, 0, 1, 138996, 0, 1, 31, 0, 1, -138990, 0, 1, 139136, 0, 1, -123743, 0, 1, 123844, 0, 1,
    -123817, 0, 1, 101, 0, 1, 11, 0, 1, 124117, 0, 1, 73, 0, 1, -124099, 0, 1, 124232, 0, 1, -124216, 0, 1, 111343, 0, 1, -126858, 0, 1, 15581, 0, 1, 81, 0,
    1, -15608, 0, 1, 15667, 0, 1, -9865, 0, 1, 134386, 0, 1, 14, 0, 1, -13346, 0, 1, 9, 0, 1, -111003, 0, 1, 3, 0, 1, 3482, 0, 1, -19251, 0, 1, 15910, 0, 1,
    -6, 0, 1, 18, 0, 1, -12266, 0, 1, 12286, 0, 1, 2, 0, 1, 10, 0, 1, 41, 0, 1, 125014, 0, 1, -125015, 0, 1, 56, 0, 1, 70, 0, 1, 74, 0, 1, -138, 0, 1, 154, 0,
    1, 42, 0, 1, 112, 0, 1, -260, 0, 1, 119, 0, 1, 2, 0, 1, 16, 0, 1, 125018, 0, 1, 309, 0, 1, -150, 0, 1, -141226, 0, 1, 16326, 0, 1, 2, 0, 1, 35, 0, 1,
    126644, 0, 1, -126566, 0, 1, 125384, 0, 1, -141775, 0, 1, 4, 0, 1, 141904, 0, 1, 289, 0, 1, -142183, 0, 1, 16613, 0, 1, 12, 0, 1, 11, 0, 1, 2, 0, 1, 64,
    0, 1, -33, 0, 1, 134, 0, 1, -44, 0, 1, 151, 0, 1, -81, 0, 1, 67, 0, 1, 27, 0, 1, -16815, 0, 1, 16906, 0, 1, 32, 0, 1, -16904, 0, 1, 16999, 0, 1, 3, 0, 1,
    126468, 0, 1, -126352, 0, 1, 7, 0, 1, -17065, 0, 1, 17093, 0, 1, -21567, 0, 1, 148467, 0, 1, 184, 0, 1, -144040, 0, 1, 9, 0, 1, 17369, 0, 1, 77, 0, 1,
    157, 0, 1, 203, 0, 1, 127059, 0, 1, -126973, 0, 1, 22, 0, 1, 90, 0, 1, 92, 0, 1, 127416, 0, 1, -30507, 0, 1, -96825, 0, 1, -15, 0, 1, 52, 0, 1, 97006, 0,
    1, -96778, 0, 1, 100, 0, 1, 128666, 0, 1, 27, 0, 1, -128345, 0, 1, 93, 0, 1, 32, 0, 1, 128541, 0, 1, -128531, 0, 1, 285, 0, 1, 159, 0, 1, 1, 0, 1, -92, 0,
    1, 381, 0, 1, 28, 0, 1, 128997, 0, 1, -128623, 0, 1, -19446, 0, 1, 19490, 0, 1, 128960, 0, 1, -148369, 0, 1, 19677, 0, 1, -14609, 0, 1, 14705, 0, 1,
    129570, 0, 1, 213, 0, 1, -149420, 0, 1, 8, 0, 1, 19818, 0, 1, 130090, 0, 1, -149848, 0, 1, 149988, 0, 1, -130187, 0, 1, 0, 0, 1, 30, 0, 1, 130445, 0, 1,
    -130260, 0, 1, -19887, 0, 1, 19958, 0, 1, 126, 0, 1, 27, 0, 1, 60, 0, 1, -20016, 0, 1, 151394, 0, 1, -131102, 0, 1, 302, 0, 1, 189, 0, 1, -20527, 0, 1,
    31, 0, 1, 20602, 0, 1, 131943, 0, 1, -152534, 0, 1, 152589, 0, 1, 265, 0, 1, 131, 0, 1, -132054, 0, 1, -20837, 0, 1, 20899, 0, 1, 5, 0, 1, 7, 0, 1, 10, 0,
    1, 7, 0, 1, 37, 0, 1, 132805, 0,
};
// characters that NFC leaves decomposed
constexpr int32_t NOT_COMPOSED[] = {
    836, 2392, 2393, 2394, 2395, 2396, 2397, 2398, 2399, 2524, 2525, 2527, 2611, 2614, 2649, 2650, 2651, 2654, 2908, 2909, 3907, 3917, 3922, 3927, 3932, 3945,
    3955, 3957, 3958, 3960, 3969, 3987, 3997, 4002, 4007, 4012, 4025, 10972, 64285, 64287, 64298, 64299, 64300, 64301, 64302, 64303, 64304, 64305, 64306,
    64307, 64308, 64309, 64310, 64312, 64313, 64314, 64315, 64316, 64318, 64320, 64321, 64323, 64324, 64326, 64327, 64328, 64329, 64330, 64331, 64332, 64333,
    64334, 119134, 119135, 119136, 119137, 119138, 119139, 119140, 119227, 119228, 119229, 119230, 119231, 119232,
};
// canonical combining classes: first character of a run, class
constexpr int32_t COMBINING[] = {
    0, 0, 768, 230, 789, 232, 790, 220, 794, 232, 795, 216, 796, 220, 801, 202, 803, 220, 807, 202, 809, 220, 820, 1, 825, 220, 829, 230, 837, 240, 838, 230,
    839, 220, 842, 230, 845, 220, 847, 0, 848, 230, 851, 220, 855, 230, 856, 232, 857, 220, 859, 230, 860, 233, 861, 234, 863, 233, 864, 234, 866, 233, 867,
    230, 880, 0, 1155, 230, 1160, 0, 1425, 220, 1426, 230, 1430, 220, 1431, 230, 1434, 222, 1435, 220, 1436, 230, 1442, 220, 1448, 230, 1450, 220, 1451, 230,
    1453, 222, 1454, 228, 1455, 230, 1456, 10, 1457, 11, 1458, 12, 1459, 13, 1460, 14, 1461, 15, 1462, 16, 1463, 17, 1464, 18, 1465, 19, 1467, 20, 1468, 21,
    1469, 22, 1470, 0, 1471, 23, 1472, 0, 1473, 24, 1474, 25, 1475, 0, 1476, 230, 1477, 220, 1478, 0, 1479, 18, 1480, 0, 1552, 230, 1560, 30, 1561, 31, 1562,
    32, 1563, 0, 1611, 27, 1612, 28, 1613, 29, 1614, 30, 1615, 31, 1616, 32, 1617, 33, 1618, 34, 1619, 230, 1621, 220, 1623, 230, 1628, 220, 1629, 230, 1631,
    220, 1632, 0, 1648, 35, 1649, 0, 1750, 230, 1757, 0, 1759, 230, 1763, 220, 1764, 230, 1765, 0, 1767, 230, 1769, 0, 1770, 220, 1771, 230, 1773, 220, 1774,
    0, 1809, 36, 1810, 0, 1840, 230, 1841, 220, 1842, 230, 1844, 220, 1845, 230, 1847, 220, 1850, 230, 1851, 220, 1853, 230, 1854, 220, 1855, 230, 1858, 220,
    1859, 230, 1860, 220, 1861, 230, 1862, 220, 1863, 230, 1864, 220, 1865, 230, 1867, 0, 2027, 230, 2034, 220, 2035, 230, 2036, 0, 2045, 220, 2046, 0, 2070,
    230, 2074, 0, 2075, 230, 2084, 0, 2085, 230, 2088, 0, 2089, 230, 2094, 0, 2137, 220, 2140, 0, 2200, 230, 2201, 220, 2204, 230, 2208, 0, 2250, 230, 2255,
    220, 2260, 230, 2274, 0, 2275, 220, 2276, 230, 2278, 220, 2279, 230, 2281, 220, 2282, 230, 2285, 220, 2288, 27, 2289, 28, 2290, 29, 2291, 230, 2294, 220,
    2295, 230, 2297, 220, 2299, 230, 2304, 0, 2364, 7, 2365, 0, 2381, 9, 2382, 0, 2385, 230, 2386, 220, 2387, 230, 2389, 0, 2492, 7, 2493, 0, 2509, 9, 2510,
    0, 2558, 230, 2559, 0, 2620, 7, 2621, 0, 2637, 9, 2638, 0, 2748, 7, 2749, 0, 2765, 9, 2766, 0, 2876, 7, 2877, 0, 2893, 9, 2894, 0, 3021, 9, 3022, 0, 3132,
    7, 3133, 0, 3149, 9, 3150, 0, 3157, 84, 3158, 91, 3159, 0, 3260, 7, 3261, 0, 3277, 9, 3278, 0, 3387, 9, 3389, 0, 3405, 9, 3406, 0, 3530, 9, 3531, 0, 3640,
    103, 3642, 9, 3643, 0, 3656, 107, 3660, 0, 3768, 118, 3770, 9, 3771, 0, 3784, 122, 3788, 0, 3864, 220, 3866, 0, 3893, 220, 3894, 0, 3895, 220, 3896, 0,
    3897, 216, 3898, 0, 3953, 129, 3954, 130, 3955, 0, 3956, 132, 3957, 0, 3962, 130, 3966, 0, 3968, 130, 3969, 0, 3970, 230, 3972, 9, 3973, 0, 3974, 230,
    3976, 0, 4038, 220, 4039, 0, 4151, 7, 4152, 0, 4153, 9, 4155, 0, 4237, 220, 4238, 0, 4957, 230, 4960, 0, 5908, 9, 5910, 0, 5940, 9, 5941, 0, 6098, 9,
    6099, 0, 6109, 230, 6110, 0, 6313, 228, 6314, 0, 6457, 222, 6458, 230, 6459, 220, 6460, 0, 6679, 230, 6680, 220, 6681, 0, 6752, 9, 6753, 0, 6773, 230,
    6781, 0, 6783, 220, 6784, 0, 6832, 230, 6837, 220, 6843, 230, 6845, 220, 6846, 0, 6847, 220, 6849, 230, 6851, 220, 6853, 230, 6858, 220, 6859, 230, 6863,
    0, 6964, 7, 6965, 0, 6980, 9, 6981, 0, 7019, 230, 7020, 220, 7021, 230, 7028, 0, 7082, 9, 7084, 0, 7142, 7, 7143, 0, 7154, 9, 7156, 0, 7223, 7, 7224, 0,
    7376, 230, 7379, 0, 7380, 1, 7381, 220, 7386, 230, 7388, 220, 7392, 230, 7393, 0, 7394, 1, 7401, 0, 7405, 220, 7406, 0, 7412, 230, 7413, 0, 7416, 230,
    7418, 0, 7616, 230, 7618, 220, 7619, 230, 7626, 220, 7627, 230, 7629, 234, 7630, 214, 7631, 220, 7632, 202, 7633, 230, 7670, 232, 7671, 228, 7673, 220,
    7674, 218, 7675, 230, 7676, 233, 7677, 220, 7678, 230, 7679, 220, 7680, 0, 8400, 230, 8402, 1, 8404, 230, 8408, 1, 8411, 230, 8413, 0, 8417, 230, 8418, 0,
    8421, 1, 8423, 230, 8424, 220, 8425, 230, 8426, 1, 8428, 220, 8432, 230, 8433, 0, 11503, 230, 11506, 0, 11647, 9, 11648, 0, 11744, 230, 11776, 0, 12330,
    218, 12331, 228, 12332, 232, 12333, 222, 12334, 224, 12336, 0, 12441, 8, 12443, 0, 42607, 230, 42608, 0, 42612, 230, 42622, 0, 42654, 230, 42656, 0,
    42736, 230, 42738, 0, 43014, 9, 43015, 0, 43052, 9, 43053, 0, 43204, 9, 43205, 0, 43232, 230, 43250, 0, 43307, 220, 43310, 0, 43347, 9, 43348, 0, 43443,
    7, 43444, 0, 43456, 9, 43457, 0, 43696, 230, 43697, 0, 43698, 230, 43700, 220, 43701, 0, 43703, 230, 43705, 0, 43710, 230, 43712, 0, 43713, 230, 43714, 0,
    43766, 9, 43767, 0, 44013, 9, 44014, 0, 64286, 26, 64287, 0, 65056, 230, 65063, 220, 65070, 230, 65072, 0, 66045, 220, 66046, 0, 66272, 220, 66273, 0,
    66422, 230, 66427, 0, 68109, 220, 68110, 0, 68111, 230, 68112, 0, 68152, 230, 68153, 1, 68154, 220, 68155, 0, 68159, 9, 68160, 0, 68325, 230, 68326, 220,
    68327, 0, 68900, 230, 68904, 0, 69291, 230, 69293, 0, 69446, 220, 69448, 230, 69451, 220, 69452, 230, 69453, 220, 69457, 0, 69506, 230, 69507, 220, 69508,
    230, 69509, 220, 69510, 0, 69702, 9, 69703, 0, 69744, 9, 69745, 0, 69759, 9, 69760, 0, 69817, 9, 69818, 7, 69819, 0, 69888, 230, 69891, 0, 69939, 9,
    69941, 0, 70003, 7, 70004, 0, 70080, 9, 70081, 0, 70090, 7, 70091, 0, 70197, 9, 70198, 7, 70199, 0, 70377, 7, 70378, 9, 70379, 0, 70459, 7, 70461, 0,
    70477, 9, 70478, 0, 70502, 230, 70509, 0, 70512, 230, 70517, 0, 70722, 9, 70723, 0, 70726, 7, 70727, 0, 70750, 230, 70751, 0, 70850, 9, 70851, 7, 70852,
    0, 71103, 9, 71104, 7, 71105, 0, 71231, 9, 71232, 0, 71350, 9, 71351, 7, 71352, 0, 71467, 9, 71468, 0, 71737, 9, 71738, 7, 71739, 0, 71997, 9, 71999, 0,
    72003, 7, 72004, 0, 72160, 9, 72161, 0, 72244, 9, 72245, 0, 72263, 9, 72264, 0, 72345, 9, 72346, 0, 72767, 9, 72768, 0, 73026, 7, 73027, 0, 73028, 9,
    73030, 0, 73111, 9, 73112, 0, 92912, 1, 92917, 0, 92976, 230, 92983, 0, 94192, 6, 94194, 0, 113822, 1, 113823, 0, 119141, 216, 119143, 1, 119146, 0,
    119149, 226, 119150, 216, 119155, 0, 119163, 220, 119171, 0, 119173, 230, 119178, 220, 119180, 0, 119210, 230, 119214, 0, 119362, 230, 119365, 0, 122880,
    230, 122887, 0, 122888, 230, 122905, 0, 122907, 230, 122914, 0, 122915, 230, 122917, 0, 122918, 230, 122923, 0, 123184, 230, 123191, 0, 123566, 230,
    123567, 0, 123628, 230, 123632, 0, 125136, 220, 125143, 0, 125252, 230, 125258, 7, 125259, 0,
};
// first, last, step, difference to lower case
constexpr int32_t LOWER[] = {
    65, 90, 1, 32, 192, 214, 1, 32, 216, 222, 1, 32, 256, 302, 2, 1, 306, 310, 2, 1, 313, 327, 2, 1, 330, 374, 2, 1, 376, 376, 1, -121, 377, 381, 2, 1, 385,
    385, 1, 210, 386, 388, 2, 1, 390, 390, 1, 206, 391, 391, 1, 1, 393, 394, 1, 205, 395, 395, 1, 1, 398, 398, 1, 79, 399, 399, 1, 202, 400, 400, 1, 203, 401,
    401, 1, 1, 403, 403, 1, 205, 404, 404, 1, 207, 406, 406, 1, 211, 407, 407, 1, 209, 408, 408, 1, 1, 412, 412, 1, 211, 413, 413, 1, 213, 415, 415, 1, 214,
    416, 420, 2, 1, 422, 422, 1, 218, 423, 423, 1, 1, 425, 425, 1, 218, 428, 428, 1, 1, 430, 430, 1, 218, 431, 431, 1, 1, 433, 434, 1, 217, 435, 437, 2, 1,
    439, 439, 1, 219, 440, 440, 1, 1, 444, 444, 1, 1, 452, 452, 1, 2, 453, 453, 1, 1, 455, 455, 1, 2, 456, 456, 1, 1, 458, 458, 1, 2, 459, 475, 2, 1, 478,
    494, 2, 1, 497, 497, 1, 2, 498, 500, 2, 1, 502, 502, 1, -97, 503, 503, 1, -56, 504, 542, 2, 1, 544, 544, 1, -130, 546, 562, 2, 1, 570, 570, 1, 10795, 571,
    571, 1, 1, 573, 573, 1, -163, 574, 574, 1, 10792, 577, 577, 1, 1, 579, 579, 1, -195, 580, 580, 1, 69, 581, 581, 1, 71, 582, 590, 2, 1, 880, 882, 2, 1,
    886, 886, 1, 1, 895, 895, 1, 116, 902, 902, 1, 38, 904, 906, 1, 37, 908, 908, 1, 64, 910, 911, 1, 63, 913, 929, 1, 32, 931, 939, 1, 32, 975, 975, 1, 8,
    984, 1006, 2, 1, 1012, 1012, 1, -60, 1015, 1015, 1, 1, 1017, 1017, 1, -7, 1018, 1018, 1, 1, 1021, 1023, 1, -130, 1024, 1039, 1, 80, 1040, 1071, 1, 32,
    1120, 1152, 2, 1, 1162, 1214, 2, 1, 1216, 1216, 1, 15, 1217, 1229, 2, 1, 1232, 1326, 2, 1, 1329, 1366, 1, 48, 4256, 4293, 1, 7264, 4295, 4295, 1, 7264,
    4301, 4301, 1, 7264, 5024, 5103, 1, 38864, 5104, 5109, 1, 8, 7305, 7305, 1, 1, 7312, 7354, 1, -3008, 7357, 7359, 1, -3008, 7680, 7828, 2, 1, 7838, 7838,
    1, -7615, 7840, 7934, 2, 1, 7944, 7951, 1, -8, 7960, 7965, 1, -8, 7976, 7983, 1, -8, 7992, 7999, 1, -8, 8008, 8013, 1, -8, 8025, 8031, 2, -8, 8040, 8047,
    1, -8, 8072, 8079, 1, -8, 8088, 8095, 1, -8, 8104, 8111, 1, -8, 8120, 8121, 1, -8, 8122, 8123, 1, -74, 8124, 8124, 1, -9, 8136, 8139, 1, -86, 8140, 8140,
    1, -9, 8152, 8153, 1, -8, 8154, 8155, 1, -100, 8168, 8169, 1, -8, 8170, 8171, 1, -112, 8172, 8172, 1, -7, 8184, 8185, 1, -128, 8186, 8187, 1, -126, 8188,
    8188, 1, -9, 8486, 8486, 1, -7517, 8490, 8490, 1, -8383, 8491, 8491, 1, -8262, 8498, 8498, 1, 28, 8544, 8559, 1, 16, 8579, 8579, 1, 1, 9398, 9423, 1, 26,
    11264, 11311, 1, 48, 11360, 11360, 1, 1, 11362, 11362, 1, -10743, 11363, 11363, 1, -3814, 11364, 11364, 1, -10727, 11367, 11371, 2, 1, 11373, 11373, 1,
    -10780, 11374, 11374, 1, -10749, 11375, 11375, 1, -10783, 11376, 11376, 1, -10782, 11378, 11378, 1, 1, 11381, 11381, 1, 1, 11390, 11391, 1, -10815, 11392,
    11490, 2, 1, 11499, 11501, 2, 1, 11506, 11506, 1, 1, 42560, 42604, 2, 1, 42624, 42650, 2, 1, 42786, 42798, 2, 1, 42802, 42862, 2, 1, 42873, 42875, 2, 1,
    42877, 42877, 1, -35332, 42878, 42886, 2, 1, 42891, 42891, 1, 1, 42893, 42893, 1, -42280, 42896, 42898, 2, 1, 42902, 42920, 2, 1, 42922, 42922, 1, -42308,
    42923, 42923, 1, -42319, 42924, 42924, 1, -42315, 42925, 42925, 1, -42305, 42926, 42926, 1, -42308, 42928, 42928, 1, -42258, 42929, 42929, 1, -42282,
    42930, 42930, 1, -42261, 42931, 42931, 1, 928, 42932, 42946, 2, 1, 42948, 42948, 1, -48, 42949, 42949, 1, -42307, 42950, 42950, 1, -35384, 42951, 42953,
    2, 1, 42955, 42955, 1, -42343, 42956, 42970, 2, 1, 42972, 42972, 1, -42561, 42997, 42997, 1, 1, 65313, 65338, 1, 32, 66560, 66599, 1, 40, 66736, 66771, 1,
    40, 66928, 66938, 1, 39, 66940, 66954, 1, 39, 66956, 66962, 1, 39, 66964, 66965, 1, 39, 68736, 68786, 1, 64, 68944, 68965, 1, 32, 71840, 71871, 1, 32,
    93760, 93791, 1, 32, 93856, 93880, 1, 27, 125184, 125217, 1, 34,
};
// clang-format on
} // namespace unicode

inline uint16_t unicode::class_of(uint32_t c) {
    return *(std::upper_bound(std::begin(CLASSES), std::end(CLASSES), c << 11 | 2047) - 1) & 2047;
}

// The last of a table's runs, `width` numbers each, that starts at c or before.
template <size_t N> const int32_t* run_of(const int32_t (&table)[N], size_t width, uint32_t c) {
    size_t from = 0, to = N / width;
    while (to - from > 1) (uint32_t(table[width * ((from + to) / 2)]) <= c ? from : to) = (from + to) / 2;
    return table + width * from;
}

inline uint32_t unicode::lower(uint32_t c) {
    const int32_t* run = run_of(LOWER, 4, c);
    return c >= uint32_t(run[0]) && c <= uint32_t(run[1]) && (c - uint32_t(run[0])) % uint32_t(run[2]) == 0 ? c + uint32_t(run[3]) : c;
}

// Canonical combining class: how a mark is placed. Marks of different classes may stand in any order.
inline uint32_t unicode::combining_class(uint32_t c) {
    return uint32_t(run_of(COMBINING, 2, c)[1]);
}

inline unicode::Normalizer::Normalizer() {
    Parts p{0, 0, 0};
    for (size_t i = 0; i < std::size(DECOMPOSITIONS); i += 3) {
        p = {p.whole + uint32_t(DECOMPOSITIONS[i]), p.first + uint32_t(DECOMPOSITIONS[i + 1]), p.second + uint32_t(DECOMPOSITIONS[i + 2])};
        by_whole_.push_back(p);
        if (p.second && std::find(std::begin(NOT_COMPOSED), std::end(NOT_COMPOSED), int32_t(p.whole)) == std::end(NOT_COMPOSED)) by_parts_.push_back(p);
    }
    std::sort(by_parts_.begin(), by_parts_.end(), [](const Parts& a, const Parts& b) { return std::tie(a.first, a.second) < std::tie(b.first, b.second); });
}

// Hangul syllables are computed: 19 leading consonants from U+1100, 21 vowels from U+1161, 27 trailing consonants from U+11A8.
inline void unicode::Normalizer::decompose(uint32_t c, std::u32string& out) const {
    if (c < 0xC0) return void(out += char32_t(c));
    if (c >= 0xAC00 && c < 0xAC00 + 11172) {
        const uint32_t s = c - 0xAC00;
        out += {char32_t(0x1100 + s / 588), char32_t(0x1161 + s % 588 / 28)};
        if (s % 28) out += char32_t(0x11A7 + s % 28);
        return;
    }
    const auto p = std::lower_bound(by_whole_.begin(), by_whole_.end(), c, [](const Parts& a, uint32_t v) { return a.whole < v; });
    if (p == by_whole_.end() || p->whole != c) return void(out += char32_t(c));
    decompose(p->first, out);
    if (p->second) decompose(p->second, out);
}

inline uint32_t unicode::Normalizer::compose(uint32_t a, uint32_t b) const {
    if (a >= 0x1100 && a < 0x1113 && b >= 0x1161 && b < 0x1176) return 0xAC00 + (a - 0x1100) * 588 + (b - 0x1161) * 28;
    if (a >= 0xAC00 && a < 0xAC00 + 11172 && (a - 0xAC00) % 28 == 0 && b > 0x11A7 && b < 0x11C3) return a + b - 0x11A7;
    const auto p = std::lower_bound(by_parts_.begin(), by_parts_.end(), std::make_pair(a, b), [](const Parts& x, const auto& v) { return std::tie(x.first, x.second) < std::tie(v.first, v.second); });
    return p != by_parts_.end() && p->first == a && p->second == b ? p->whole : 0;
}

inline void unicode::Normalizer::nfd(std::u32string& text) const {
    std::u32string out;
    out.reserve(text.size());
    for (char32_t c : text) decompose(c, out);
    for (char32_t& c : out) c |= combining_class(c) << 24; // where the sort finds it
    for (size_t i = 0; i < out.size();) {
        size_t end = i;
        while (end < out.size() && out[end] >> 24) ++end;
        std::stable_sort(out.begin() + ptrdiff_t(i), out.begin() + ptrdiff_t(end), [](char32_t a, char32_t b) { return a >> 24 < b >> 24; });
        i = end + 1;
    }
    for (char32_t& c : out) c &= 0xFFFFFF;
    text = std::move(out);
}

inline void unicode::Normalizer::nfc(std::u32string& text) const {
    nfd(text);
    size_t n = 0, starter = ~size_t(0);
    uint32_t last = 0;
    for (char32_t c : text) {
        const uint32_t cc = combining_class(c);
        // a character of the same or a higher class in between keeps it from the starter
        if (starter != ~size_t(0) && (n == starter + 1 || last < cc))
            if (const uint32_t both = compose(text[starter], c)) {
                text[starter] = char32_t(both);
                continue;
            }
        text[n++] = c;
        if (!cc) starter = n - 1;
        last = cc;
    }
    text.resize(n);
}

} // namespace locus
#endif // LOCUS_TOKENIZER_H
