// Chat templates of the common instruct models. A checkpoint brings its template as Jinja text; the five families below are
// recognised in it and written out by hand, as transformers' apply_chat_template would render them.
#ifndef LOCUS_CHAT_H
#define LOCUS_CHAT_H

#include "../tokenizer.h"

#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace locus {

class ChatTemplate {
public:
    // A special token is looked up by its name, and is plain text where the vocabulary has none of that name. A user's words are
    // always text: "<|im_end|>" typed by a user ends nothing.
    enum class Kind { TEXT, SPECIAL, BOS, EOS };
    struct Piece {
        Kind kind;
        std::string text;
    };
    using Pieces = std::vector<Piece>;

    explicit ChatTemplate(std::string_view jinja) : jinja_(jinja) {
        if (has("<|im_start|>")) family_ = Family::CHATML;
        else if (has("<|start_header_id|>")) family_ = Family::LLAMA3;
        else if (has("<start_of_turn>")) family_ = Family::GEMMA;
        else if (has("[INST]") && has("<<SYS>>")) family_ = Family::LLAMA2;
        else if (has("<|user|>") && has("eos_token")) family_ = Family::ZEPHYR;
        else if (jinja_.empty()) throw Error("the checkpoint has no chat template");
        else throw Error("unknown chat template (known: ChatML, Llama 2, Llama 3, Gemma, Zephyr): " + jinja_.substr(0, 60));
    }

    // What the model reads from the end of its last answer (or from nothing, with the system message) to the start of its next.
    Pieces turn(const std::string& user, bool first, const std::optional<std::string>& system) const {
        Pieces out;
        if (first && (has("bos_token") || family_ == Family::LLAMA2)) out.push_back({Kind::BOS, ""});
        const std::string opening = first && system ? *system : "";
        switch (family_) {
        case Family::CHATML:
            if (first) {
                const std::optional<std::string> message = system ? system : default_system();
                if (message) chatml(out, "system", *message);
            } else {
                text(out, "\n");
            }
            chatml(out, "user", user);
            special(out, "<|im_start|>");
            text(out, "assistant\n");
            break;
        case Family::LLAMA2: // the system message stands inside the first user message
            if (!first) out.push_back({Kind::BOS, ""});
            text(out, "[INST] " + trim(first && system ? "<<SYS>>\n" + opening + "\n<</SYS>>\n\n" + user : user) + " [/INST]");
            break;
        case Family::LLAMA3:
            if (first && has("Cutting Knowledge Date: December 2023"))
                llama3(out, "system", "Cutting Knowledge Date: December 2023\nToday Date: " + today() + "\n\n" + trim(opening));
            else if (first && system) llama3(out, "system", trim(opening));
            llama3(out, "user", trim(user));
            llama3_header(out, "assistant");
            break;
        case Family::GEMMA:
            if (system && has("System role not supported")) throw Error("this model's chat template takes no system message");
            if (!first) text(out, "\n");
            special(out, "<start_of_turn>");
            text(out, "user\n" + (first && system ? opening + "\n\n" : "") + trim(user));
            special(out, "<end_of_turn>");
            text(out, "\n");
            special(out, "<start_of_turn>");
            text(out, "model\n");
            break;
        case Family::ZEPHYR:
            if (!first) text(out, "\n");
            if (first && system) zephyr(out, "<|system|>", opening);
            zephyr(out, "<|user|>", user);
            special(out, "<|assistant|>");
            text(out, "\n");
            break;
        }
        return out;
    }

    // What ends an answer that the model did not end itself.
    Piece closing() const {
        switch (family_) {
        case Family::CHATML: return {Kind::SPECIAL, "<|im_end|>"};
        case Family::LLAMA3: return {Kind::SPECIAL, "<|eot_id|>"};
        case Family::GEMMA: return {Kind::SPECIAL, "<end_of_turn>"};
        default: return {Kind::EOS, ""};
        }
    }

    // Text between two special tokens is encoded as one, since a token may span the template's and the user's part of it.
    static std::vector<int32_t> encode(const Tokenizer& tokenizer, const Pieces& pieces) {
        std::vector<int32_t> ids;
        std::string pending;
        const auto flush = [&] {
            if (pending.empty()) return;
            const std::vector<int32_t> part = tokenizer.encode(pending, false, false);
            ids.insert(ids.end(), part.begin(), part.end());
            pending.clear();
        };
        for (const Piece& piece : pieces) {
            int32_t id = -1;
            if (piece.kind == Kind::BOS) id = tokenizer.bos();
            else if (piece.kind == Kind::EOS) id = tokenizer.eos();
            else if (piece.kind == Kind::SPECIAL) id = tokenizer.find(piece.text);
            if (id < 0 || piece.kind == Kind::TEXT) {
                pending += piece.text;
            } else {
                flush();
                ids.push_back(id);
            }
        }
        flush();
        return ids;
    }

private:
    enum class Family { CHATML, LLAMA2, LLAMA3, GEMMA, ZEPHYR };

    bool has(std::string_view part) const { return jinja_.find(part) != std::string::npos; }

    static void text(Pieces& out, std::string words) { out.push_back({Kind::TEXT, std::move(words)}); }
    static void special(Pieces& out, std::string name) { out.push_back({Kind::SPECIAL, std::move(name)}); }

    static void chatml(Pieces& out, const std::string& role, const std::string& content) {
        special(out, "<|im_start|>");
        text(out, role + "\n" + content);
        special(out, "<|im_end|>");
        text(out, "\n");
    }
    static void llama3_header(Pieces& out, const std::string& role) {
        special(out, "<|start_header_id|>");
        text(out, role);
        special(out, "<|end_header_id|>");
        text(out, "\n\n");
    }
    static void llama3(Pieces& out, const std::string& role, const std::string& content) {
        llama3_header(out, role);
        text(out, content);
        special(out, "<|eot_id|>");
    }
    static void zephyr(Pieces& out, const std::string& role, const std::string& content) {
        special(out, role);
        text(out, "\n" + content);
        out.push_back({Kind::EOS, ""});
        text(out, "\n");
    }

    // The system message that a ChatML template writes when it is given none: '<|im_start|>system\nYou are ...<|im_end|>' as a literal.
    // Its line break is one in the file, or the two characters \n.
    std::optional<std::string> default_system() const {
        static const std::string start = "<|im_start|>system", end = "<|im_end|>";
        for (size_t at = jinja_.find(start); at != std::string::npos; at = jinja_.find(start, at + 1)) {
            size_t begin = at + start.size();
            if (jinja_.compare(begin, 1, "\n") == 0) begin += 1;
            else if (jinja_.compare(begin, 2, "\\n") == 0) begin += 2;
            else continue;
            const size_t stop = jinja_.find(end, begin);
            if (stop == std::string::npos) break;
            const std::string message = jinja_.substr(begin, stop - begin);
            if (message.find_first_of("'\"{}") == std::string::npos) return message;
        }
        return std::nullopt;
    }

    // Llama 3.2 asks for the current date, 3.1 has a fixed one.
    std::string today() const {
        if (!has("strftime_now")) return "26 Jul 2024";
        const std::time_t now = std::time(nullptr);
        char date[32];
        std::strftime(date, sizeof date, "%d %b %Y", std::localtime(&now));
        return date;
    }

    static std::string trim(const std::string& words) {
        const char* spaces = " \t\n\v\f\r";
        const size_t begin = words.find_first_not_of(spaces);
        return begin == std::string::npos ? "" : words.substr(begin, words.find_last_not_of(spaces) - begin + 1);
    }
    std::string jinja_;
    Family family_ = Family::CHATML;
};

} // namespace locus
#endif
