// run: generates text from a checkpoint, talks, embeds, scores and shows what a checkpoint holds.
#include "../model.h"
#include "../tokenizer.h"
#include "attention.h"
#include "bench.h"
#include "chat.h"
#include "files.h"
#include "info.h"
#include "loss.h"
#include "neighbours.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <system_error>
#include <thread>
#include <unistd.h>

using namespace locus;

namespace {

constexpr const char* RELEASE = "0.1.0";
constexpr const char* HELP = R"(run MODEL.bin [switches]          text in: -p TEXT, -f FILE, or standard input (less a prompt's last newline)
generate   -n N               tokens (default: until the end token or the context is full)
           -t TEMPERATURE     0: likeliest (default 0.8; --chat, translation: 0 unless -s or a limit is set)
           --top-k K  --top-p P  --min-p P  --repeat-penalty X     (default: --top-p 0.95, the others off)
           -s SEED            repeats a run (default: random, printed)
           --stop TEXT        ends before this text; may be given several times
           --print-ids        prints token ids instead of text
           --ids "1 2 3"      token ids in place of text (an encoder-decoder's source)
           --decoder-ids "1"  what an encoder-decoder's answer begins with
chat       --chat             one answer to -p or -f, else a turn for each line of standard input
           --system TEXT      system message
vectors    --embed            one sentence vector a line, for each line of the text (its first -c tokens)
           --fill TEXT        likeliest words for each [MASK]
           --similar WORD     nearest words in the embedding table
           --analogy "king - man + woman"
scores     --logits FILE      float32 scores (or hidden state), a row for each position
           --ppl FILE         perplexity in windows of -c tokens (default 512), of the first -n tokens
           --divergence MODEL likewise, how far the scores are from another model's, say the float32 one's
           --moments FILE     how activations on -n tokens (default 4096) go together, for convert.py
           --attention FILE   what each head looks at: a table, or a drawing if FILE ends in .svg
other      --tokenize         token ids of the text
           --info             what the checkpoint holds
           --bench            speed; the last line is JSON
           -c CONTEXT         most tokens held (default: the model's, at most 8192)
           -j THREADS         (default and most: the processor's cores)
           --exact-cache      keys and values in f32 also where the weights are not
           --positions WHAT   for experiments: none, sinusoidal, rotary or alibi
           --rope-scaling linear, ntk or yarn  --rope-factor F     F times the context, without training
           --extend           learned positions: repeats the last row past the table's end
           --help  --version
)";

// A wrong command line: exit status 2.
struct UsageError : Error {
    using Error::Error;
};

void write_text(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout))
        throw Error(std::string("standard output: ") + std::strerror(errno));
}

// ---- the command line ---------------------------------------------------------------------------------------------------

struct Options {
    std::string mode = "generating text";
    std::string model, argument; // argument: the mode's own value
    std::optional<std::string> prompt, file, system;
    std::optional<std::vector<int32_t>> ids, decoder_ids;
    std::optional<size_t> n;
    std::vector<std::string> stops;
    bool print_ids = false;
    bool seeded = false, sampled = false; // -s is given; some switch of sampling is
    SamplerOptions sampler;
    SessionOptions session;
};

template <class T> T number(const std::string& name, std::string_view text, T low, T high) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const std::string given = name + ": '" + std::string(text) + "'";
    if (error == std::errc::invalid_argument || end != text.data() + text.size()) throw UsageError(given + " is not a number");
    if (error != std::errc() || !(value >= low && value <= high)) {
        std::ostringstream range;
        range << given << " is out of range: " << low << " to " << high;
        throw UsageError(range.str());
    }
    return value;
}

std::vector<int32_t> id_list(const std::string& name, const std::string& text) {
    std::vector<int32_t> ids;
    std::istringstream words(text);
    for (std::string word; words >> word;) ids.push_back(number<int32_t>(name, word, 0, std::numeric_limits<int32_t>::max()));
    if (ids.empty()) throw UsageError(name + ": no ids");
    return ids;
}

uint32_t choice(const std::string& name, const std::string& text, const std::map<std::string, uint32_t>& known) {
    std::string expected;
    for (const auto& [word, value] : known) {
        if (word == text) return value;
        expected += (expected.empty() ? "" : ", ") + word;
    }
    throw UsageError(name + ": '" + text + "', expected one of " + expected);
}

// Switches of a session, and those that each mode understands besides. The first mode is the one without a switch.
const std::set<std::string> SESSION = {"-c", "-j", "--exact-cache", "--positions", "--rope-scaling", "--rope-factor", "--extend"};
const std::map<std::string, std::set<std::string>> MODES = {
    {"generating text", {"-p", "-f", "--ids", "--decoder-ids", "--print-ids", "--stop", "-n", "-t", "--top-k", "--top-p", "--min-p",
                            "--repeat-penalty", "-s"}},
    {"--chat", {"-p", "-f", "--system", "--print-ids", "--stop", "-n", "-t", "--top-k", "--top-p", "--min-p", "--repeat-penalty", "-s"}},
    {"--embed", {"-p", "-f"}},
    {"--fill", {}},
    {"--similar", {}},
    {"--analogy", {}},
    {"--logits", {"-p", "-f", "--ids", "--decoder-ids"}},
    {"--ppl", {"-n"}},
    {"--divergence", {"-p", "-f", "-n"}},
    {"--moments", {"-p", "-f", "-n"}},
    {"--attention", {"-p", "-f", "--ids"}},
    {"--tokenize", {"-p", "-f"}},
    {"--info", {}},
    {"--bench", {}},
};

const std::set<std::string> NO_SESSION = {"--similar", "--analogy", "--tokenize", "--info"};
const std::set<std::string> WRITES_FILE = {"--logits", "--moments", "--attention"};
const std::set<std::string> NAMES_FILE = {"--logits", "--ppl", "--divergence", "--moments", "--attention"};
const std::set<std::string> NAMES_TEXT = {"--fill", "--similar", "--analogy"};

Options parse(int argc, char** argv) {
    Options o;
    o.sampler.top_p = 0.95f;
    std::set<std::string> seen;
    for (int i = 1; i < argc; i++) {
        const std::string name = argv[i];
        if (name.empty() || name[0] != '-') {
            if (name.empty()) throw UsageError("an empty argument, expected the model or a switch");
            if (!o.model.empty()) throw UsageError("one model, please; not also '" + name + "'");
            o.model = name;
            continue;
        }
        if (name == "--help" || name == "--version") {
            if (name == "--help") std::fputs(HELP, stdout);
            else std::printf("locus %s, checkpoint format %u, kernels: %s\n", RELEASE, VERSION, isa_name());
            write_text("");
            std::exit(0);
        }
        const auto value = [&]() -> std::string {
            if (i + 1 == argc) throw UsageError(name + " needs a value");
            return argv[++i];
        };
        if (!seen.insert(name).second && name != "--stop") throw UsageError(name + " is given twice");
        constexpr uint32_t many = std::numeric_limits<int32_t>::max();
        if (MODES.count(name)) {
            if (o.mode[0] == '-') throw UsageError(o.mode + " and " + name + " exclude each other");
            o.mode = name;
            if (NAMES_FILE.count(name) || NAMES_TEXT.count(name)) o.argument = value();
        } else if (name == "-p") o.prompt = value();
        else if (name == "-f") o.file = value();
        else if (name == "--system") o.system = value();
        else if (name == "--ids") o.ids = id_list(name, value());
        else if (name == "--decoder-ids") o.decoder_ids = id_list(name, value());
        else if (name == "--print-ids") o.print_ids = true;
        else if (name == "--stop") o.stops.push_back(value());
        else if (name == "-n") o.n = number<size_t>(name, value(), 0, many);
        else if (name == "-t") o.sampler.temperature = number<float>(name, value(), 0, 100);
        else if (name == "--top-k") o.sampler.top_k = number<uint32_t>(name, value(), 0, many);
        else if (name == "--top-p") o.sampler.top_p = number<float>(name, value(), 0, 1);
        else if (name == "--min-p") o.sampler.min_p = number<float>(name, value(), 0, 1);
        else if (name == "--repeat-penalty") o.sampler.repeat_penalty = number<float>(name, value(), 0.01f, 100);
        else if (name == "-s") o.sampler.seed = number<uint64_t>(name, value(), 0, std::numeric_limits<uint64_t>::max());
        else if (name == "-c") o.session.context = number<uint32_t>(name, value(), 1, many);
        else if (name == "--exact-cache") o.session.exact_cache = true;
        else if (name == "--positions")
            o.session.positions = choice(name, value(),
                {{"none", POSITIONS_NONE}, {"sinusoidal", POSITIONS_SINUSOIDAL}, {"rotary", POSITIONS_ROTARY}, {"alibi", POSITIONS_ALIBI}});
        else if (name == "--rope-scaling")
            o.session.rope_scaling = choice(name, value(), {{"linear", ROPE_LINEAR}, {"ntk", ROPE_NTK}, {"yarn", ROPE_YARN}});
        else if (name == "--rope-factor") o.session.rope_factor = number<float>(name, value(), 1, 1000);
        else if (name == "--extend") o.session.extend = true;
        else if (name == "-j") o.session.threads = number<uint32_t>(name, value(), 1, 1024);
        else throw UsageError("unknown switch " + name + " (--help lists them)");
    }
    o.seeded = seen.count("-s");
    for (const char* name : {"-t", "-s", "--top-k", "--top-p", "--min-p"}) o.sampled |= seen.count(name) > 0;
    if (o.model.empty()) throw UsageError("no model: run MODEL.bin -p TEXT (--help lists the switches)");
    const std::set<std::string>& allowed = MODES.at(o.mode);
    for (const std::string& name : seen)
        if (name != o.mode && !allowed.count(name) && (!SESSION.count(name) || NO_SESSION.count(o.mode)))
            throw UsageError(name + " does not go with " + o.mode);
    if (o.prompt.has_value() + o.file.has_value() + o.ids.has_value() > 1) throw UsageError("-p, -f and --ids exclude each other");
    for (const std::string& stop : o.stops)
        if (stop.empty()) throw UsageError("--stop: the text is empty");
    const bool names_file = NAMES_FILE.count(o.mode);
    if ((o.file && o.file->empty()) || (names_file && o.argument.empty()))
        throw UsageError((names_file ? o.mode : "-f") + ": the file's name is empty");
    for (const auto& [one, other] : {std::pair{"--rope-scaling", "--rope-factor"}, {"--rope-factor", "--rope-scaling"}})
        if (seen.count(one) && !seen.count(other)) throw UsageError(std::string(one) + " needs " + other);
    if (o.print_ids && !o.stops.empty()) throw UsageError("--stop does not go with --print-ids");
    return o;
}

// The text that -p, -f or standard input gives. A terminal gives none.
std::string input_text(const Options& o) {
    if (o.prompt) return *o.prompt;
    if (o.file) return read_file(*o.file);
    if (isatty(STDIN_FILENO)) throw UsageError("no text: give -p TEXT, -f FILE or standard input");
    return read_all(stdin, "standard input");
}

// A prompt ends where its writer stopped, not at the line break that an editor or echo put after it.
std::string prompt_text(const Options& o) {
    std::string text = input_text(o);
    if (o.prompt || text.empty() || text.back() != '\n') return text;
    text.pop_back();
    if (!text.empty() && text.back() == '\r') text.pop_back();
    return text;
}

// A line without its end, which is \n or \r\n.
bool read_line(std::istream& in, std::string& line) {
    if (!std::getline(in, line)) return false;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    return true;
}

// ---- output -------------------------------------------------------------------------------------------------------------

// Reports what went wrong in one line.
int failed(const std::string& message, int status) {
    std::fprintf(stderr, "run: %s\n", printable(message).c_str());
    return status;
}

volatile std::sig_atomic_t interrupted = 0;
volatile std::sig_atomic_t reading = 1; // nothing is being generated that an interrupt should leave in good order

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Figures {
    size_t prompt_tokens = 0, tokens = 0;
    double prompt_seconds = 0, seconds = 0, first_token = -1; // first_token: after start, of the first answer

    void print() const {
        const auto rate = [](size_t n, double time) {
            char text[64];
            std::snprintf(text, sizeof text, "%zu %s, %.1f tokens/s; ", n, n == 1 ? "token" : "tokens", n ? double(n) / std::max(time, 1e-9) : 0.0);
            return std::string(text);
        };
        std::fprintf(stderr, "prompt: %sgenerated: %sfirst token after %.0f ms\n", rate(prompt_tokens, prompt_seconds).c_str(), rate(tokens, seconds).c_str(),
            std::max(first_token, 0.0) * 1e3);
    }
};

// Prints generated tokens as text, holding back what may be the beginning of a stop text.
class Writer {
public:
    Writer(const Tokenizer& tokenizer, const std::vector<std::string>& stops, bool start) : stream_(tokenizer, false, start), stops_(stops) {}

    void skip(int32_t id) { stream_.push(id); } // a token of the prompt: how a word is spaced depends on what stands before it

    // False when a stop text has come: nothing more is printed.
    bool push(int32_t id) { return print(stream_.push(id)); }
    void finish() {
        if (!stopped_ && print(stream_.finish())) write_text(held_);
        write_text("\n");
    }

private:
    bool print(const std::string& text) {
        held_ += text;
        size_t stop = std::string::npos, safe = held_.size();
        for (const std::string& s : stops_) {
            stop = std::min(stop, held_.find(s));
            for (size_t n = std::min(s.size(), held_.size()); n > 0; n--)
                if (held_.compare(held_.size() - n, n, s, 0, n) == 0) {
                    safe = std::min(safe, held_.size() - n);
                    break;
                }
        }
        stopped_ = stop != std::string::npos;
        if (stopped_) safe = stop;
        write_text(held_.substr(0, safe));
        held_.erase(0, safe);
        return !stopped_;
    }

    Tokenizer::Stream stream_;
    const std::vector<std::string>& stops_;
    std::string held_;
    bool stopped_ = false;
};

// ---- what the modes share -------------------------------------------------------------------------------------------------

struct Program {
    const Options& options;
    Model model;
    std::unique_ptr<Tokenizer> tokenizer_; // null: the checkpoint has none
    double start;

    Program(const Options& o, double start) : options(o), model(o.model), start(start) {
        if (model.tokenizer_bytes()) tokenizer_ = std::make_unique<Tokenizer>(model.tokenizer_data(), model.tokenizer_bytes());
    }

    const Header& header() const { return model.header(); }
    Error refuse(const std::string& why) const { return Error(options.model + ": " + why); }

    const Tokenizer& tokenizer() const {
        if (tokenizer_) return *tokenizer_;
        const std::set<std::string>& switches = MODES.at(options.mode);
        const bool in = switches.count("--ids"), out = in && switches.count("--print-ids");
        const std::string advice = std::string(in ? ": give --ids" : "") + (out ? ", and --print-ids for output" : "");
        throw refuse("the checkpoint has no tokenizer" + advice);
    }
    void need_model() const {
        if (header().n_tensors == 0) throw refuse("the checkpoint holds a tokenizer only, no model");
    }
    Session session(SessionOptions with) const {
        need_model();
        return Session(model, with);
    }
    Session session() const { return session(options.session); }

    void need_head() const {
        need_model();
        if (header().head == HEAD_NONE)
            throw refuse("the model has no output head: it gives vectors (--embed, --logits), not words");
    }
    // Ids of the prompt; a text that gives none starts from the beginning-of-text token.
    std::vector<int32_t> prompt_ids() const {
        if (options.ids) return *options.ids;
        std::vector<int32_t> ids = tokenizer().encode(prompt_text(options));
        if (ids.empty() && tokenizer().bos() >= 0) ids.push_back(tokenizer().bos());
        if (ids.empty()) throw refuse("the prompt is empty, and the tokenizer has no token to begin with");
        return ids;
    }
    std::vector<int32_t> decoder_ids() const {
        const bool encodes = header().n_encoder_layers > 0;
        if (!encodes && options.decoder_ids) throw refuse("--decoder-ids is for encoder-decoder models");
        return options.decoder_ids ? *options.decoder_ids : std::vector<int32_t>{int32_t(header().decoder_start)};
    }
    std::string name(int32_t id) const { // a token for people: on one line
        std::string text = tokenizer().decode({id}, true), out = tokenizer().kind() == TOKENIZER_WORDPIECE && !begins_word(tokenizer(), id) ? "##" : "";
        for (char c : text) out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\t' ? "\\t" : std::string(1, c);
        return printable(out);
    }
};

void print_ids(const std::vector<int32_t>& ids) {
    std::string line;
    for (int32_t id : ids) line += (line.empty() ? "" : " ") + std::to_string(id);
    write_text(line + "\n");
}

// ---- generating -----------------------------------------------------------------------------------------------------------

// Seed, figures and exit status of a run that generates.
class Generator {
public:
    Generator(const Program& program, Session& session) : program_(program), session_(session), sampler_(program.options.sampler) {
        program.need_head();
        if (!program.header().causal)
            throw program.refuse("the model reads in both directions and does not generate: use --embed, --fill or --logits");
    }

    void encode(const std::vector<int32_t>& source) {
        const double begin = seconds();
        session_.encode(source.data(), source.size());
        figures_.prompt_tokens += source.size();
        figures_.prompt_seconds += seconds() - begin;
    }

    // Reads those of the tokens that the session does not hold, samples an answer, appends it to them and writes it as a line: of ids
    // where there is no writer.
    void answer(std::vector<int32_t>& ids, std::optional<Writer> writer, double start) {
        const size_t first = session_.length(), asked = ids.size();
        for (size_t i = first; i < ids.size(); i++) sampler_.accept(ids[i]);
        reading = 1;
        const double begin = seconds();
        const float* scores = forward(ids, first);
        const double read = seconds();
        reading = 0;
        figures_.prompt_tokens += ids.size() - first;
        figures_.prompt_seconds += read - begin;
        const size_t limit = program_.options.n.value_or(std::numeric_limits<size_t>::max());
        for (size_t i = 0; i < limit && !interrupted; i++) {
            if (i > 0) scores = forward(ids, ids.size() - 1);
            const int32_t id = sampler_.sample(scores, session_.width());
            sampler_.accept(id);
            ids.push_back(id);
            if (figures_.first_token < 0) figures_.first_token = seconds() - start;
            figures_.tokens++;
            const bool go_on = !writer || writer->push(id);
            if (!go_on || (program_.tokenizer_ && program_.tokenizer_->is_end(id))) break;
            if (i + 1 < limit && session_.length() == session_.context()) {
                full_ = true;
                break;
            }
        }
        figures_.seconds += seconds() - read;
        if (writer) writer->finish();
        else print_ids({ids.begin() + asked, ids.end()});
    }

    bool full() const { return full_; }

    int finish() const {
        if (full_) std::fprintf(stderr, "run: stopped: the context of %zu tokens is full (-c sets it)\n", session_.context());
        const SamplerOptions& s = program_.options.sampler;
        if (s.temperature > 0 && !program_.options.seeded) std::fprintf(stderr, "seed: -s %llu\n", static_cast<unsigned long long>(s.seed));
        figures_.print();
        return interrupted ? 130 : 0;
    }

private:
    // Scores after the tokens, of which the session holds `held`. Beyond the trained context longrope turns all of a text otherwise:
    // as Phi-3's own code does, it is then read again from its beginning.
    const float* forward(const std::vector<int32_t>& ids, size_t held) {
        const Rope& rope = program_.header().rope[0];
        if (rope.scaling == ROPE_LONGROPE && held <= rope.original_context && ids.size() > rope.original_context) {
            session_.rewind(0);
            held = 0;
        }
        return session_.forward(ids.data() + held, ids.size() - held);
    }

    const Program& program_;
    Session& session_;
    Sampler sampler_;
    Figures figures_;
    bool full_ = false;
};

// Of an answer; none where its ids are asked for. start: it is a text of its own, not the middle of one.
std::optional<Writer> answer_writer(const Program& program, bool start) {
    if (program.options.print_ids) return std::nullopt;
    return Writer(program.tokenizer(), program.options.stops, start);
}

int generate(const Program& program) {
    const bool encodes = program.header().n_encoder_layers > 0;
    std::optional<Writer> writer = answer_writer(program, encodes);
    Session session = program.session();
    Generator generator(program, session);
    std::vector<int32_t> ids = program.prompt_ids();
    const std::vector<int32_t> target = program.decoder_ids();
    if (encodes) {
        generator.encode(ids);
        ids = target;
    }
    for (size_t i = 0; writer && i < ids.size(); i++) writer->skip(ids[i]);
    generator.answer(ids, std::move(writer), program.start);
    return generator.finish();
}

int chat(const Program& program) {
    const Options& o = program.options;
    const Tokenizer& tokenizer = program.tokenizer();
    const ChatTemplate form(tokenizer.chat_template());
    Session session = program.session();
    Generator generator(program, session);
    std::vector<int32_t> ids; // the whole conversation; the session holds its first session.length() tokens
    int refused = 0;          // exit status, where a turn did not fit

    const auto turn = [&](const std::string& user) {
        const bool first = ids.empty();
        ChatTemplate::Pieces pieces = form.turn(user, first, o.system);
        if (!first && !tokenizer.is_end(ids.back())) pieces.insert(pieces.begin(), form.closing());
        return ChatTemplate::encode(tokenizer, pieces);
    };
    const auto answer = [&](const std::vector<int32_t>& read, double start) {
        ids.insert(ids.end(), read.begin(), read.end());
        generator.answer(ids, answer_writer(program, true), start);
    };

    if (o.prompt || o.file) {
        answer(turn(prompt_text(o)), program.start);
    } else {
        reading = 0;
        const bool terminal = isatty(STDIN_FILENO);
        std::string line;
        while (!interrupted && !generator.full()) {
            if (terminal) std::fputs("> ", stderr);
            if (!read_line(std::cin, line)) {
                if (std::ferror(stdin) && !interrupted) throw Error(std::string("standard input: ") + std::strerror(errno));
                break;
            }
            if (line.empty()) continue;
            const double start = seconds();
            const std::vector<int32_t> read = turn(line);
            const size_t most = session.context(), left = most - std::min(most, ids.size());
            if (read.size() <= left) answer(read, start);
            else {
                const std::string room = "the context of " + std::to_string(most) + " has room for " + std::to_string(left);
                refused = failed("a turn of " + std::to_string(read.size()) + " tokens is left out: " + room + " (-c sets it)", 1);
            }
        }
    }
    return std::max(generator.finish(), refused);
}

// ---- scores ---------------------------------------------------------------------------------------------------------------

// Room for all n tokens that were given: only a table of learned positions has an end.
SessionOptions room_for(const Program& program, size_t n) {
    SessionOptions with = program.options.session;
    if (!with.context && (program.header().positions != POSITIONS_LEARNED || with.extend)) with.context = uint32_t(n);
    return with;
}

int logits(const Program& program) {
    std::vector<int32_t> ids = program.prompt_ids();
    const std::vector<int32_t> target = program.decoder_ids();
    Session session = program.session(room_for(program, std::max(ids.size(), target.size())));
    if (program.header().n_encoder_layers) {
        session.encode(ids.data(), ids.size());
        ids = target;
    }
    const float* scores = session.forward(ids, Scores::ALL);
    write_file(program.options.argument, scores, ids.size() * session.width() * sizeof(float));
    return 0;
}

int attention(const Program& program) {
    if (program.header().n_encoder_layers) throw program.refuse("--attention is not for encoder-decoder models");
    const std::vector<int32_t> ids = program.prompt_ids();
    std::vector<std::string> names;
    for (const int32_t id : ids) names.push_back(program.tokenizer_ ? program.name(id) : std::to_string(id));
    program.need_model();
    AttentionMaps maps = attention_maps(program.model, ids, room_for(program, ids.size()));
    const std::string &path = program.options.argument, ending = path.substr(path.size() - std::min<size_t>(path.size(), 4));
    const std::string out = ending == ".svg" ? attention_drawing(maps) : attention_table(maps, names);
    write_file(path, out.data(), out.size());
    return 0;
}

struct Losses {
    double sum = 0;
    size_t count = 0;
    double mean() const { return sum / double(count); }
    double perplexity() const { return std::exp(mean()); }
};

void need_scores_of_text(const Program& program) {
    program.need_head();
    if (!program.header().causal || program.header().n_encoder_layers)
        throw program.refuse(program.options.mode + " is for models that read left to right, without an encoder");
}

// Ids of the first -n tokens of the text that is scored in windows of a session's context.
std::vector<int32_t> scored_ids(const Program& program, const std::string& text, size_t window) {
    std::vector<int32_t> ids = program.tokenizer().encode(text);
    if (program.options.n) ids.resize(std::min(ids.size(), *program.options.n));
    if (std::min(ids.size(), window) < 2) throw Error("the text has fewer than two tokens in a window: nothing to score");
    return ids;
}

// Losses of the text, read in windows of the session's context. `also` sees each batch: how many tokens of its window stand before it,
// its first token, its number of tokens, and a row of scores for each.
template <class Also> Losses score(Session& session, const std::vector<int32_t>& ids, Also also) {
    constexpr size_t batch = 64; // rows of scores held at once
    Losses losses;
    double shown = seconds();
    for (size_t begin = 0; begin < ids.size(); begin += session.context()) {
        const size_t end = std::min(begin + session.context(), ids.size());
        session.rewind(0);
        for (size_t at = begin; at + 1 < end; at += batch) {
            const size_t n = std::min(batch, end - 1 - at); // the window's last token predicts nothing
            const float* scores = session.forward(&ids[at], n, Scores::ALL);
            for (size_t i = 0; i < n; i++) losses.sum += loss(scores + i * session.width(), session.width(), ids[at + i + 1]);
            losses.count += n;
            also(at - begin, &ids[at], n, scores);
            if (seconds() - shown < 1) continue;
            shown = seconds();
            std::fprintf(stderr, "%zu of %zu tokens, perplexity %.4f\n", at + n, ids.size(), losses.perplexity());
        }
    }
    return losses;
}

SessionOptions window_options(const Program& program) {
    SessionOptions with = program.options.session;
    if (!with.context) with.context = std::min<uint32_t>(512, program.header().context);
    return with;
}

int perplexity(const Program& program) {
    need_scores_of_text(program);
    Session session = program.session(window_options(program));
    const std::vector<int32_t> ids = scored_ids(program, read_file(program.options.argument), session.context());
    const Losses losses = score(session, ids, [](size_t, const int32_t*, size_t, const float*) {});
    std::printf("nll %.6f ppl %.6f tokens %zu\n", losses.mean(), losses.perplexity(), losses.count);
    return 0;
}

// Kullback-Leibler divergence of softmax(q) from softmax(p): sum p_i (log p_i - log q_i).
double divergence(const float* p, const float* q, size_t n) {
    const double p_total = log_sum_exp(p, n), q_total = log_sum_exp(q, n);
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += std::exp(p[i] - p_total) * ((p[i] - p_total) - (q[i] - q_total));
    return sum < 0 ? 0 : sum; // of equals, rounding may leave less than nothing
}

// How far a model's predictions are from those of a reference, the model in float32 for one.
int diverge(const Program& program) {
    Options other = program.options;
    other.model = program.options.argument;
    const Program reference(other, program.start);
    need_scores_of_text(program);
    need_scores_of_text(reference);
    const size_t width = program.header().vocab_size;
    bool same = width == reference.header().vocab_size && program.tokenizer().size() == reference.tokenizer().size();
    for (size_t id = 0; same && id < program.tokenizer().size(); id++)
        same = program.tokenizer().bytes(int32_t(id)) == reference.tokenizer().bytes(int32_t(id));
    if (!same) throw reference.refuse("another vocabulary than that of " + program.options.model);

    SessionOptions with = window_options(program);
    with.context = std::min(with.context, window_options(reference).context);
    Session session = program.session(with), against = reference.session(with);
    const std::vector<int32_t> ids = scored_ids(program, input_text(program.options), session.context());
    Losses reference_losses;
    double sum = 0;
    size_t same_top = 0;
    const Losses losses = score(session, ids, [&](size_t held, const int32_t* tokens, size_t n, const float* scores) {
        against.rewind(held);
        const float* expected = against.forward(tokens, n, Scores::ALL);
        for (size_t i = 0; i < n; i++, scores += width, expected += width) {
            reference_losses.sum += loss(expected, width, tokens[i + 1]), reference_losses.count++;
            sum += divergence(expected, scores, width);
            same_top += std::max_element(scores, scores + width) - scores == std::max_element(expected, expected + width) - expected;
        }
    });
    const double count = double(losses.count);
    std::printf("divergence %.6f same_top %.6f ppl %.6f reference_ppl %.6f tokens %zu\n", sum / count, double(same_top) / count,
        losses.perplexity(), reference_losses.perplexity(), losses.count);
    return 0;
}

// Sums of the products of a matrix's activations, x_i x_j with j <= i, over the rows that it reads. Of wide matrices the columns fall
// into groups, for each of which there is a square of its own.
struct Moments {
    static constexpr size_t most = 1024; // columns a group
    size_t cols, groups, width, count = 0;
    std::vector<float> sums, rows; // [groups, width, width]; four rows at a time, padded: [4, groups width]

    explicit Moments(size_t cols) : cols(cols), groups((cols + most - 1) / most) {
        width = ((cols + groups - 1) / groups + BLOCK - 1) / BLOCK * BLOCK;
        sums.resize(groups * width * width), rows.resize(4 * groups * width);
    }

    void add(const float* x, size_t stride, size_t n) {
        const size_t all = groups * width;
        for (size_t t = 0; t < n; t += 4) {
            std::fill(rows.begin(), rows.end(), 0.0f);
            for (size_t k = 0; k < std::min<size_t>(4, n - t); k++) std::copy_n(x + (t + k) * stride, cols, &rows[k * all]);
            for (size_t i = 0; i < all; i++) {
                const float* from = &rows[i / width * width];
                float* to = &sums[i * width];
                for (size_t j = 0; j <= i % width; j += 8)
                    for (size_t c = j; c < j + 8; c++)
                        to[c] += rows[i] * from[c] + rows[all + i] * from[all + c] + rows[2 * all + i] * from[2 * all + c] +
                                 rows[3 * all + i] * from[3 * all + c];
            }
        }
        count += n;
    }
};

// Writes, for tools/convert.py, the moments of each matrix that four bits would change: "LOCUSMOM", and for each tensor its name [64],
// columns, columns a group, and the means [groups, width, width].
int moments(const Program& program) {
    constexpr size_t batch = 64, tokens = 4096;
    const Header& h = program.header();
    program.need_model();
    if (h.n_encoder_layers) throw program.refuse("--moments is not for encoder-decoder models");
    const std::vector<TensorEntry>& tensors = program.model.tensors();
    std::map<std::string, Moments> found; // made here: an observer that threads call should not fail
    for (const TensorEntry& t : tensors)
        if (t.layout == LAYOUT_PANELS && t.type != TYPE_Q4) found.emplace(t.name, t.cols);
    if (found.empty()) throw program.refuse("every matrix has four bits already: --moments would find nothing");
    SessionOptions with = window_options(program);
    with.observe = [&](uint64_t offset, const float* x, size_t stride, size_t n) {
        for (const TensorEntry& t : tensors)
            if (offset >= t.offset && offset < t.offset + t.bytes && t.type != TYPE_Q4) found.at(t.name).add(x, stride, n);
    };
    Session session = program.session(with);
    std::istringstream lines(input_text(program.options));
    const size_t wanted = program.options.n.value_or(tokens);
    if (!wanted) throw UsageError("--moments: -n 0 leaves nothing to measure");
    size_t left = wanted;
    while (left) {
        std::string text;
        if (h.causal ? !std::getline(lines, text, '\0') : !read_line(lines, text)) break; // an encoder's text is a line, as with --embed
        const std::vector<int32_t> ids = program.tokenizer().encode(text);
        const size_t all = std::min(ids.size(), h.causal ? left : session.context());
        for (size_t begin = 0; begin < all; begin += session.context()) {
            const size_t end = std::min(begin + session.context(), all);
            session.rewind(0);
            for (size_t at = begin, n; at < end; at += n) {
                n = h.causal ? std::min(batch, end - at) : end - at;
                session.forward(&ids[at], n, Scores::ALL);
            }
        }
        left -= std::min(left, all);
    }
    if (left == wanted) throw Error("the text has no tokens");
    const std::string& path = program.options.argument;
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"), std::fclose);
    bool good = file && std::fwrite("LOCUSMOM", 8, 1, file.get()) == 1;
    for (auto& [name, m] : found) {
        if (!m.count) continue; // a table that is looked up
        char label[64] = {};
        name.copy(label, sizeof label);
        const uint32_t shape[2] = {uint32_t(m.cols), uint32_t(m.width)};
        for (float& sum : m.sums) sum /= float(m.count);
        good = good && std::fwrite(label, sizeof label, 1, file.get()) == 1 && std::fwrite(shape, sizeof shape, 1, file.get()) == 1 &&
               std::fwrite(m.sums.data(), 4, m.sums.size(), file.get()) == m.sums.size();
    }
    if (!good || std::fflush(file.get())) throw Error(path + ": " + std::strerror(errno));
    return 0;
}

// ---- vectors --------------------------------------------------------------------------------------------------------------

// The sentence's vector as the header says: mean, first or last of the final hidden states.
std::vector<float> pooled(const Program& program, Session& session, const std::vector<int32_t>& ids) {
    const Header& h = program.header();
    session.rewind(0);
    session.forward(ids, h.causal && h.pooling != POOL_LAST ? Scores::ALL : Scores::NONE);
    const size_t rows = h.causal && h.pooling == POOL_LAST ? 1 : ids.size();
    const size_t begin = h.pooling == POOL_LAST ? rows - 1 : 0, end = h.pooling == POOL_FIRST ? 1 : rows;
    std::vector<double> sum(h.dim);
    for (size_t r = begin; r < end; r++)
        for (size_t i = 0; i < h.dim; i++) sum[i] += session.hidden()[r * h.dim + i];
    double square = 0;
    for (double& v : sum) v /= double(end - begin), square += v * v;
    const double scale = h.normalize && square > 0 ? 1 / std::sqrt(square) : 1;
    std::vector<float> out(h.dim);
    for (size_t i = 0; i < h.dim; i++) out[i] = float(sum[i] * scale);
    return out;
}

// One line's vector as text.
std::string vector_text(const Program& program, const Tokenizer& tokenizer, Session& session, const std::string& line, size_t number) {
    const size_t limit = program.header().max_tokens, most = limit ? std::min(limit, session.context()) : session.context();
    std::vector<int32_t> ids = tokenizer.encode(line);
    if (ids.size() > most) { // the closing special token stays
        const int32_t last = ids.back();
        ids.resize(most);
        if (tokenizer.is_special(last)) ids.back() = last;
    }
    if (ids.empty()) throw Error("line " + std::to_string(number) + ": no tokens");
    std::string out;
    char digits[32];
    for (float v : pooled(program, session, ids)) {
        if (!out.empty()) out += ' ';
        out.append(digits, std::to_chars(digits, digits + sizeof digits, v).ptr);
    }
    return out + "\n";
}

// Lines go to the threads one by one, each with a session of its own: short texts are not worth sharing.
int embed(const Program& program) {
    constexpr size_t held = 1024; // lines
    const Header& h = program.header();
    const Tokenizer& tokenizer = program.tokenizer();
    program.need_model();
    if (h.pooling == POOL_NONE) throw program.refuse("the checkpoint does not say how to pool: it is no sentence encoder");
    if (h.n_encoder_layers) throw program.refuse("--embed is not for encoder-decoder models");
    std::istringstream text(input_text(program.options));
    std::vector<Session> sessions;
    sessions.push_back(program.session());
    std::vector<std::string> lines;
    for (size_t before = 0;; before += lines.size()) {
        lines.clear();
        for (std::string line; lines.size() < held && read_line(text, line);) lines.push_back(line);
        if (lines.empty()) return 0;
        const size_t threads = std::min<size_t>(lines.size(), sessions[0].threads());
        if (threads > 1) {
            SessionOptions alone = program.options.session;
            alone.threads = 1;
            sessions.clear();
            for (size_t i = 0; i < threads; i++) sessions.push_back(program.session(alone));
        }
        std::atomic<size_t> next{0};
        std::vector<std::exception_ptr> errors(lines.size());
        auto work = [&](Session& session) {
            for (size_t i; (i = next++) < lines.size();) try {
                    lines[i] = vector_text(program, tokenizer, session, lines[i], before + i + 1);
                } catch (...) { errors[i] = std::current_exception(); }
        };
        std::vector<std::thread> others;
        try {
            for (size_t i = 1; i < sessions.size(); i++) others.emplace_back(work, std::ref(sessions[i]));
        } catch (const std::system_error&) {} // no more to be had: fewer do
        work(sessions[0]);
        for (std::thread& t : others) t.join();
        for (size_t i = 0; i < lines.size(); i++) {
            if (errors[i]) std::rethrow_exception(errors[i]);
            write_text(lines[i]);
        }
    }
}

int fill(const Program& program) {
    constexpr size_t shown = 5;
    const Tokenizer& tokenizer = program.tokenizer();
    program.need_head();
    const int32_t mask = tokenizer.mask();
    if (program.header().causal || mask < 0) throw program.refuse("--fill is for masked models");
    std::string text = program.options.argument;
    const std::string common = "[MASK]", own = tokenizer.bytes(mask);
    for (size_t at = text.find(common); common != own && at != std::string::npos; at = text.find(common, at + own.size()))
        text.replace(at, common.size(), own);

    const std::vector<int32_t> ids = tokenizer.encode(text, true, true);
    if (std::find(ids.begin(), ids.end(), mask) == ids.end()) throw UsageError("--fill: the text has no [MASK]");
    Session session = program.session();
    const float* all = session.forward(ids, Scores::ALL);
    const int32_t width = int32_t(session.width());
    for (size_t i = 0, count = 0; i < ids.size(); i++) {
        if (ids[i] != mask) continue;
        if (count++) std::puts("");
        const float* scores = all + i * width;
        std::vector<int32_t> order(width);
        for (int32_t k = 0; k < width; k++) order[k] = k;
        const auto end = order.begin() + std::min<size_t>(shown, order.size());
        std::partial_sort(order.begin(), end, order.end(), [&](int32_t a, int32_t b) { return scores[a] > scores[b]; });
        for (auto id = order.begin(); id != end; ++id)
            std::printf("%.4f %s\n", std::exp(-loss(scores, width, *id)), program.name(*id).c_str());
    }
    return 0;
}

// Prints the words nearest to plus[0] + plus[1] ... - minus[0] ... by cosine in the embedding table, the words themselves left out.
int print_neighbours(const Program& program, const std::vector<std::string>& plus, const std::vector<std::string>& minus) {
    program.need_model();
    for (const auto& [cosine, id] : neighbours(program.model, program.tokenizer(), plus, minus, 10)) std::printf("%.4f %s\n", cosine, program.name(id).c_str());
    return 0;
}

int analogy(const Program& program) {
    std::vector<std::string> plus, minus;
    std::istringstream words(program.options.argument);
    std::string sign = "+", word;
    bool complete = false;
    while (words >> word) {
        (sign == "-" ? minus : plus).push_back(word);
        complete = !(words >> sign);
        if (complete || (sign != "+" && sign != "-")) break;
    }
    if (!complete) throw UsageError("--analogy: expected words with + or - between, as in \"king - man + woman\"");
    return print_neighbours(program, plus, minus);
}

int run(int argc, char** argv) {
    const double start = seconds();
    Options options = parse(argc, argv);
    if (!options.seeded) {
        std::random_device random;
        options.sampler.seed = random();
    }
    const Program program(options, start);
    if (WRITES_FILE.count(options.mode))
        for (const std::string& input : {options.model, options.file.value_or("")}) {
            std::error_code none; // where one of them does not exist, they are not the same
            if (std::filesystem::equivalent(options.argument, input, none)) throw UsageError(options.mode + ": " + options.argument + " would be lost: it is read as well");
        }
    // a small model's first word decides, and a translation should be the likeliest: not by dice
    if (!options.sampled && (options.mode == "--chat" || program.header().n_encoder_layers)) options.sampler.temperature = 0;
    const std::string& mode = options.mode;
    if (mode == "--chat") return chat(program);
    if (mode == "--embed") return embed(program);
    if (mode == "--fill") return fill(program);
    if (mode == "--similar") return print_neighbours(program, {options.argument}, {});
    if (mode == "--analogy") return analogy(program);
    if (mode == "--logits") return logits(program);
    if (mode == "--ppl") return perplexity(program);
    if (mode == "--divergence") return diverge(program);
    if (mode == "--moments") return moments(program);
    if (mode == "--attention") return attention(program);
    if (mode == "--tokenize") return print_ids(program.tokenizer().encode(input_text(options), false)), 0;
    if (mode == "--info") return print_info(program.model, program.tokenizer_.get()), 0;
    if (mode == "--bench") return program.need_model(), bench(options.model, options.session), 0;
    return generate(program);
}

} // namespace

int main(int argc, char** argv) {
    std::signal(SIGPIPE, SIG_DFL); // a reader that has gone ends the program quietly
    struct sigaction interrupt {};
    interrupt.sa_handler = [](int) {
        if (reading) std::_Exit(130);
        interrupted = 1;
    };
    interrupt.sa_flags = int(SA_RESETHAND); // the second Ctrl-C ends the program at once
    sigaction(SIGINT, &interrupt, nullptr);
    std::signal(SIGBUS, [](int) { // reading a page of the mapped file failed
        static std::atomic_flag said = ATOMIC_FLAG_INIT; // each thread that reads the file comes here
        while (said.test_and_set()) pause();
        static const char text[] = "run: the checkpoint was cut or became unreadable while it was in use\n";
        [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
        std::_Exit(1);
    });
    try {
        const int status = run(argc, argv);
        write_text(""); // a full disk shows at the flush
        return status;
    } catch (const UsageError& error) {
        return failed(error.what(), 2);
    } catch (const std::bad_alloc&) {
        return failed("not enough memory", 1);
    } catch (const std::exception& error) {
        return failed(error.what(), 1);
    }
}
