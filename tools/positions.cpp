// positions [MODELS [PAGES]]: what models know of the order of words. Runs the experiments on the models of a folder (models/positions) and
// writes positions.md and its pictures into another (docs); with minilm.bin, smollm2.bin and gemma3.bin beside that folder of models,
// positions-real.md too. What the pages say of their numbers follows from the numbers.
#include "../model.h"
#include "../tokenizer.h"
#include "attention.h"
#include "files.h"
#include "loss.h"
#include "neighbours.h"
#include "svg.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

using namespace locus;

namespace {

using Ids = std::vector<int32_t>;
using Row = std::vector<std::string>;

std::string format(const char* form, ...) __attribute__((format(printf, 1, 2)));
std::string format(const char* form, ...) {
    char text[2048];
    va_list args;
    va_start(args, form);
    std::vsnprintf(text, sizeof text, form, args);
    va_end(args);
    return text;
}

// A page in Markdown and the folder of its pictures.
class Page {
public:
    Page(const std::string& folder, const std::string& name) : folder_(folder), name_(name) { std::filesystem::create_directories(folder + "/positions"); }
    void say(const std::string& paragraph) { text_ += paragraph + "\n\n"; }
    void table(const Row& head, const std::vector<Row>& rows) {
        line(head);
        line(Row(head.size(), "---"));
        for (const Row& row : rows) line(row);
        text_ += "\n";
    }
    void picture(const std::string& name, const std::string& what, const std::string& svg) {
        write_file(folder_ + "/positions/" + name + ".svg", svg.data(), svg.size());
        say("![" + what + "](positions/" + name + ".svg)");
    }
    void write() const { write_file(folder_ + "/" + name_, text_.data(), text_.size() - 1); }

private:
    void line(const Row& row) {
        for (const std::string& cell : row) text_ += "| " + cell + " ";
        text_ += "|\n";
    }
    std::string folder_, name_, text_;
};

struct Subject {
    std::string name, path;
    Model model;
    Tokenizer tokenizer;
    Subject(const std::string& folder, const std::string& name)
        : name(name), path(folder + "/" + name + ".bin"), model(path), tokenizer(model.tokenizer_data(), model.tokenizer_bytes()) {}
    const Header& header() const { return model.header(); }
    Ids ids(const std::string& text) const { return tokenizer.encode(text); }
    std::string word(int32_t id) const {
        std::string text = tokenizer.decode({id}, true);
        for (char& c : text)
            if (static_cast<unsigned char>(c) < ' ' || c == '|') c = '?'; // would break a table
        text.erase(0, text.find_first_not_of(' ') == std::string::npos ? 0 : text.find_first_not_of(' '));
        return text;
    }
    std::string entry(int32_t id) const { return (begins_word(tokenizer, id) ? "" : "-") + word(id); }
};

using Subjects = std::deque<Subject>;
enum : size_t { NONE, SINUSOIDAL, LEARNED, ROTARY }; // of the decoders, as in Positions

SessionOptions exact(size_t context = 0) { // keys as they are, so that what should be equal is
    SessionOptions options;
    options.exact_cache = true;
    options.context = uint32_t(context);
    return options;
}

struct Reading {
    std::vector<float> next;   // scores after the last token
    std::vector<float> hidden; // [n, dim]
    std::vector<double> mean;  // of the hidden states: the sentence's vector
};

Reading read(const Subject& s, const Ids& ids) {
    SessionOptions options = exact();
    options.threads = 1;
    Session session(s.model, options);
    const float* scores = session.forward(ids, Scores::ALL);
    const size_t n = ids.size(), dim = s.header().dim;
    Reading r;
    r.next.assign(scores + (n - 1) * session.width(), scores + n * session.width());
    r.hidden.assign(session.hidden(), session.hidden() + n * dim);
    r.mean.resize(dim);
    for (size_t i = 0; i < n * dim; i++) r.mean[i % dim] += double(r.hidden[i]) / double(n);
    return r;
}

// Jensen-Shannon divergence of two distributions in bits: 0 for equal ones, 1 for such as have nothing in common.
double divergence(const std::vector<float>& a, const std::vector<float>& b) {
    const double total_a = log_sum_exp(a.data(), a.size()), total_b = log_sum_exp(b.data(), b.size());
    double sum = 0;
    for (size_t i = 0; i < a.size(); i++) {
        const double p = std::exp(a[i] - total_a), q = std::exp(b[i] - total_b), m = (p + q) / 2;
        if (p > 0) sum += p * std::log2(p / m) / 2;
        if (q > 0) sum += q * std::log2(q / m) / 2;
    }
    return std::max(0.0, sum);
}

template <class T> double cosine(const T* a, const T* b, size_t n) {
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; i++) ab += double(a[i]) * double(b[i]), aa += double(a[i]) * double(a[i]), bb += double(b[i]) * double(b[i]);
    return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

double mean(const std::vector<double>& v) {
    double sum = 0;
    for (double x : v) sum += x / double(v.size());
    return sum;
}

double largest(const std::vector<double>& v) { return *std::max_element(v.begin(), v.end()); }

std::string tiny(double x) { return x == 0 ? "0" : format("%.0e", x); }
std::string signed_number(double x) { return std::abs(x) < 5e-4 ? "0.000" : format("%+.3f", x); }
std::string plural(size_t n, const char* what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

// ---- order --------------------------------------------------------------------------------------------------------------------

// The same words in two orders. The first two pairs are the ones that everybody tells.
const std::vector<std::pair<std::string, std::string>> PAIRS = {
    {"The dog chased the cat.", "The cat chased the dog."},
    {"The cat sat on the mat.", "The mat sat on the cat."},
    {"The king feared the witch.", "The witch feared the king."},
    {"The wolf ate the girl.", "The girl ate the wolf."},
    {"The boy hit the ball.", "The ball hit the boy."},
    {"The mother kissed the child.", "The child kissed the mother."},
    {"The fox caught the hen.", "The hen caught the fox."},
    {"The horse followed the man.", "The man followed the horse."},
    {"The prince loved the maid.", "The maid loved the prince."},
    {"The bird saw the snake.", "The snake saw the bird."},
    {"The giant killed the hero.", "The hero killed the giant."},
    {"The hunter heard the bear.", "The bear heard the hunter."},
    {"The old man thanked the young man.", "The young man thanked the old man."},
    {"The book lay under the table.", "The table lay under the book."},
    {"The church stood behind the house.", "The house stood behind the church."},
    {"The water was in the cup.", "The cup was in the water."},
    {"The sun is larger than the moon.", "The moon is larger than the sun."},
    {"The night came after the day.", "The day came after the night."},
    {"The black cat met the white dog.", "The white cat met the black dog."},
    {"A good son had a bad father.", "A bad son had a good father."},
    {"And he ran because she cried.", "And she ran because he cried."},
    {"I know he thinks she lies.", "I know she thinks he lies."},
    {"They slept before they ate.", "They ate before they slept."},
    {"First we eat and then we sleep.", "First we sleep and then we eat."},
    {"It was not good but bad.", "It was not bad but good."},
    {"You may go but not stay.", "You may stay but not go."},
    {"Yesterday Peter saw Mary.", "Yesterday Mary saw Peter."},
    {"She gave the bread to the boy and the milk to the girl.", "She gave the milk to the boy and the bread to the girl."},
    {"There were three men and two women.", "There were two men and three women."},
    {"The queen said that the maid was ill.", "The maid said that the queen was ill."},
    {"From the town he walked to the sea.", "From the sea he walked to the town."},
    {"In the story the winter follows the autumn.", "In the story the autumn follows the winter."},
};

// Where each token of a stands in b: the first of a word to the first, the second to the second.
std::vector<size_t> matched(const Ids& a, const Ids& b) {
    std::vector<size_t> places;
    std::vector<bool> taken(b.size());
    for (const int32_t id : a) {
        size_t at = 0;
        while (at < b.size() && (taken[at] || b[at] != id)) at++;
        if (at == b.size() || a.size() != b.size()) throw Error("a pair of sentences does not have the same tokens in this vocabulary");
        taken[at] = true;
        places.push_back(at);
    }
    return places;
}

struct Apart { // of each pair, and of each sentence and the next pair's
    std::vector<double> next, next_other, vector, vector_other, set;
};

Apart measure_order(const Subject& s) {
    Apart apart;
    std::vector<std::pair<Reading, Reading>> read_pairs;
    for (const auto& [a, b] : PAIRS) read_pairs.emplace_back(read(s, s.ids(a)), read(s, s.ids(b)));
    const size_t dim = s.header().dim;
    for (size_t i = 0; i < PAIRS.size(); i++) {
        const auto& [a, b] = read_pairs[i];
        const Reading& other = read_pairs[(i + 1) % PAIRS.size()].first;
        apart.next.push_back(divergence(a.next, b.next)), apart.next_other.push_back(divergence(a.next, other.next));
        apart.vector.push_back(1 - cosine(a.mean.data(), b.mean.data(), dim)), apart.vector_other.push_back(1 - cosine(a.mean.data(), other.mean.data(), dim));
        const std::vector<size_t> place = matched(s.ids(PAIRS[i].first), s.ids(PAIRS[i].second));
        double square = 0, most = 0;
        for (size_t t = 0; t < place.size(); t++)
            for (size_t j = 0; j < dim; j++) {
                const double x = a.hidden[t * dim + j];
                square += x * x, most = std::max(most, std::abs(x - b.hidden[place[t] * dim + j]));
            }
        apart.set.push_back(most / std::sqrt(square / double(a.hidden.size())));
    }
    return apart;
}

// By layer: how much the last token's weight on the same word differs at most between the two orders, over heads and pairs.
std::vector<double> weights_apart(const Subject& s) {
    std::vector<double> most(s.header().n_layers);
    for (const auto& [a, b] : PAIRS) {
        const Ids ids = s.ids(a), other = s.ids(b);
        const std::vector<size_t> place = matched(ids, other);
        AttentionMaps one = attention_maps(s.model, ids, exact()), two = attention_maps(s.model, other, exact());
        for (size_t layer = 0; layer < one.layers; layer++)
            for (size_t head = 0; head < one.heads; head++)
                for (size_t t = 0; t < ids.size(); t++) {
                    const double difference = one.at(layer, head, ids.size() - 1, t) - two.at(layer, head, ids.size() - 1, place[t]);
                    most[layer] = std::max(most[layer], std::abs(difference));
                }
    }
    return most;
}

void order(Page& page, const Subjects& decoders, const Subjects& encoders) {
    page.say("## Order");
    page.say(format("%zu pairs of sentences, each the same tokens in two orders: \"%s\" and \"%s\"; \"%s\" and \"%s\"; the rest stand in `tools/positions.cpp`. After the last token, how far "
                    "apart are the two distributions of the next word (Jensen-Shannon divergence: 0 bits are equal, 1 bit is nothing in common), and the two sentence vectors (mean of the "
                    "final hidden states; 1 - cosine)? For comparison, each sentence and the next pair's.",
        PAIRS.size(), PAIRS[0].first.c_str(), PAIRS[0].second.c_str(), PAIRS[1].first.c_str(), PAIRS[1].second.c_str()));
    std::vector<Row> rows;
    std::map<std::string, Apart> found;
    for (const Subject& s : decoders) {
        const Apart a = found[s.name] = measure_order(s);
        rows.push_back({s.name, format("%.4f", a.next[0]), format("%.4f", a.next[1]), format("%.4f", mean(a.next)), format("%.4f", mean(a.next_other)), format("%.4f", mean(a.vector)),
            format("%.4f", mean(a.vector_other))});
    }
    page.table({"decoder", "next word: dog and cat", "cat and mat", "mean of all pairs", "another sentence", "vectors: mean of all pairs", "another sentence"}, rows);
    const Apart& none = found["none"];
    constexpr double least = 1e-6; // bits: float32's rounding is far below
    size_t distinct = 0;
    for (double x : none.next) distinct += x > least;
    std::vector<double> others;
    for (size_t i = SINUSOIDAL; i < decoders.size(); i++) others.push_back(mean(found[decoders[i].name].next));
    page.say(format("**The decoder without positions tells %zu of %zu pairs apart** (by more than %g bits), by %.4f bits on average, which is %.0f %% of what lies between two sentences of different words; its siblings "
                    "with positions by %.4f to %.4f. That words without positions are a bag of words is true of attention, not of a model that reads left to right: its mask shows each word another part of the "
                    "text, the words before it. Haviv et al. (2022), \"Transformer Language Models without Positional Encodings Still Learn Positional Information\", found it, and Kazemnejad et al. (2023), \"The "
                    "Impact of Positional Encoding on Length Generalization in Transformers\", show how it can be done: the first layer writes down where each word stands, the next compares. The weights say "
                    "where it begins:",
        distinct, PAIRS.size(), least, mean(none.next), 100 * mean(none.next) / std::max(mean(none.next_other), 1e-12), *std::min_element(others.begin(), others.end()), largest(others)));
    Row head = {"attention of the last token to the same word, largest difference between the orders"};
    rows.clear();
    for (const Subject* s : {&decoders[NONE], &encoders[0]}) {
        Row row = {s->name};
        const std::vector<double> most = weights_apart(*s);
        for (double x : most) row.push_back(tiny(x));
        while (head.size() < row.size()) head.push_back("layer " + std::to_string(head.size() - 1));
        rows.push_back(row);
    }
    for (Row& row : rows) row.resize(head.size());
    page.table(head, rows);
    page.say("In the first layer keys and queries know their own word and nothing else, and the order makes no difference beyond rounding. From the second on a word's vector is made of the words before it, "
             "and in a decoder those are others when the order is another. An encoder's words all see the same words: no layer ever learns of an order.");
    rows.clear();
    for (const Subject& s : encoders) {
        const Apart a = found[s.name] = measure_order(s);
        rows.push_back({s.name, tiny(largest(a.set)), tiny(largest(a.vector)), format("%.4f", mean(a.vector)), format("%.4f", mean(a.vector_other))});
    }
    page.table({"encoder", "largest difference between the same word's vectors, in parts of their size", "sentence vectors: largest 1 - cosine", "mean", "another sentence"}, rows);
    page.say(format("The encoder without positions gives **the same set of vectors for both orders**: word for word they differ by %s of their size at most. That is float32 adding the same numbers in another "
                    "order (a single sum is rounded by up to 6e-08 of its size). To it, dog bites man is man bites dog.",
        tiny(largest(found[encoders[0].name].set)).c_str()));
}

// ---- length -------------------------------------------------------------------------------------------------------------------

constexpr size_t STRETCH = 8, WINDOWS = 16;

size_t window_step(size_t tokens, size_t longest) { return (tokens - longest - 1) / WINDOWS; } // from a window's beginning to the next one's

// Mean loss after 1, 2, ... window tokens of text, over windows that begin at the same places whatever their length. The model forgets all
// after every piece tokens.
std::vector<double> losses(const Subject& s, const Ids& text, size_t window, size_t piece, SessionOptions options) {
    const size_t longest = STRETCH * s.header().context, step = window_step(text.size(), longest), part = 256;
    options.context = uint32_t(piece);
    Session session(s.model, options);
    std::vector<double> sum(window);
    for (size_t w = 0; w < WINDOWS; w++) {
        for (size_t at = 0, n; at < window; at += n) {
            n = std::min(part, piece - at % piece);
            if (at % piece == 0) session.rewind(0);
            const int32_t* tokens = text.data() + w * step + at;
            const float* scores = session.forward(tokens, n, Scores::ALL);
            for (size_t i = 0; i < n; i++) sum[at + i] += loss(scores + i * session.width(), session.width(), tokens[i + 1]) / double(WINDOWS);
        }
    }
    return sum;
}

double mean_of(const std::vector<double>& v, size_t begin, size_t end) { return mean({v.begin() + std::ptrdiff_t(begin), v.begin() + std::ptrdiff_t(end)}); }

void length(Page& page, const Subjects& decoders, const std::string& text) {
    const size_t trained = decoders[0].header().context, longest = STRETCH * trained, bucket = std::max<size_t>(1, trained / 4);
    page.say("## Length");
    const size_t tokens = decoders[0].ids(text).size();
    page.say(format("Loss (nats a token) on text that no model was trained on, the first %zu tokens of one book: %zu windows of %zu tokens, %zu times the trained length of %zu. A new window begins every %zu tokens, so "
                    "that they overlap; shorter windows are their beginnings. What needs no training is a switch of `./run`: `--extend`, and `--rope-scaling linear`, `ntk` or `yarn` with `--rope-factor`.",
        tokens, WINDOWS, longest, STRETCH, trained, window_step(tokens, longest)));
    struct Way {
        std::string name;
        std::map<size_t, std::vector<double>> by_factor; // losses by position; factor 0: the same at any length
        std::vector<double> cut;                         // of the same tokens when the text is cut at the trained length
    };
    std::vector<Way> ways;
    std::string refusal;
    for (const Subject& s : decoders) {
        const Ids ids = s.ids(text);
        if (ids.size() < longest + 1 + WINDOWS) throw Error(format("the held-out text has %zu tokens, expected more than %zu", ids.size(), longest + WINDOWS));
        SessionOptions options = exact();
        options.extend = s.header().positions == POSITIONS_LEARNED;
        const std::vector<double> plain = losses(s, ids, longest, longest, options), cut = losses(s, ids, longest, trained, options);
        ways.push_back({options.extend ? s.name + ", extended" : s.name, {{0, plain}}, cut});
        if (options.extend) {
            try { Session(s.model, exact(longest)); } catch (const Error& e) { refusal = e.what(); }
        }
        if (s.header().positions != POSITIONS_ROTARY) continue;
        for (const auto& [kind, name] : {std::pair{ROPE_LINEAR, "linear"}, {ROPE_NTK, "NTK"}, {ROPE_YARN, "YaRN"}}) {
            Way way = {s.name + ", " + name, {{1, plain}}, cut}; // a factor of 1 is none
            for (size_t factor = 2; factor <= STRETCH; factor *= 2) {
                options.rope_scaling = kind, options.rope_factor = float(factor);
                way.by_factor[factor] = losses(s, ids, factor * trained, factor * trained, options);
            }
            ways.push_back(way);
        }
    }
    const auto of = [&](const Way& way, size_t factor) -> const std::vector<double>& { return way.by_factor.count(0) ? way.by_factor.at(0) : way.by_factor.at(factor); };
    std::vector<Row> rows;
    Row head = {"mean loss of the whole window"};
    for (size_t factor = 1; factor <= STRETCH; factor *= 2) head.push_back(std::to_string(factor * trained) + " tokens");
    for (const Way& way : ways) {
        Row row = {way.name};
        for (size_t factor = 1; factor <= STRETCH; factor *= 2) row.push_back(format("%.3f", mean_of(of(way, factor), 0, factor * trained)));
        rows.push_back(row);
    }
    page.table(head, rows);
    page.say(format("Scaled rotations are scaled by as much as the window is longer. By position in the longest window (here all scaled by %zu):", STRETCH));
    rows.clear();
    head = {"mean loss at positions"};
    std::vector<Row> gains;
    std::vector<std::pair<double, std::string>> last;
    for (size_t end = trained, begin = 0; end <= longest; begin = end, end *= 2) head.push_back(format("%zu to %zu", begin + 1, end));
    Chart chart = {format("Loss by position in the window (trained on %zu tokens)", trained), "position in the window", "loss, nats a token", {}};
    double best = INFINITY, worst = 0;
    for (const Way& way : ways) {
        const std::vector<double>& v = of(way, STRETCH);
        Row row = {way.name}, gain = {way.name};
        for (size_t end = trained, begin = 0; end <= longest; begin = end, end *= 2) {
            row.push_back(format("%.3f", mean_of(v, begin, end)));
            gain.push_back(signed_number(mean_of(v, begin, end) - mean_of(way.cut, begin, end)));
        }
        rows.push_back(row), gains.push_back(gain);
        last.emplace_back(mean_of(v, longest / 2, longest), way.name);
        Series series = {way.name, {}};
        for (size_t at = 0; at < longest; at += bucket) {
            series.points.emplace_back(double(at) + double(bucket) / 2, mean_of(v, at, at + bucket));
            best = std::min(best, series.points.back().second), worst = std::max(worst, series.points.back().second);
        }
        chart.series.push_back(series);
    }
    page.table(head, rows);
    chart.high = std::min(worst, best + 4); // the worst would press the others together
    page.picture("length", "Loss by position in the window", line_chart(chart));
    std::sort(last.begin(), last.end());
    std::string ranks;
    for (const auto& [value, name] : last) ranks += (ranks.empty() ? "" : "; ") + name + format(" %.3f", value);
    page.say("In the window's last half, from best to worst: " + ranks + ".");
    page.say(format("Is it worth reading on? The same tokens once more, the text cut every %zu tokens and each piece read anew: how much larger is the loss for having read it as one? Below 0 the longer text helps; above, the model would do better to forget.", trained));
    head[0] = "loss less that of the cut text, at positions";
    page.table(head, gains);
    std::string pays, even, costs;
    for (const Way& way : ways) {
        const double gain = mean_of(of(way, STRETCH), trained, longest) - mean_of(way.cut, trained, longest);
        std::string& names = gain < -0.02 ? pays : gain > 0.02 ? costs : even;
        names += (names.empty() ? "" : "; ") + way.name + " " + signed_number(gain);
    }
    std::string summary = "The same over all positions beyond the trained length.";
    for (const auto& [names, what] : {std::pair{&pays, "Reading on pays"}, {&even, "Reading on neither pays nor costs"}, {&costs, "The model would do better to forget"}})
        if (!names->empty()) summary += std::string(" ") + what + ": " + *names + ".";
    page.say(summary);
    page.say("What each scheme meets there:");
    page.say("- none: nothing unseen is added; what changes is over how many words attention is spread.\n"
             "- sinusoidal: rows of the table it has never seen, though \"it may allow the model to extrapolate to sequence lengths longer than the ones encountered during training\" (Vaswani et al. 2017, 3.5).\n"
             "- learned: the table ends. Without `--extend` the runtime says so: \"" + refusal + "\". With it, all words past the end stand at the last place.\n"
             "- rotary: distances it has not seen. That scores depend on distances alone is often given as the reason for going on; it is not enough.\n"
             "- rotary, scaled: linear slows all rotations until the distances look like those seen; NTK and YaRN slow the slow ones and leave the fast ones, which tell near words apart.");
}

// ---- distance -----------------------------------------------------------------------------------------------------------------

// Of a text of one word over and over: log of a head's weights in the first layer. All keys and all queries are then the same vector but for
// their positions, so that two weights of a row say by how much two scores differ, and nothing but the position can be the reason.
struct Alike {
    std::vector<std::vector<double>> by_distance; // a head each: the last query's score at a distance, less that at distance 0
    double shift = 0;                             // largest change of such a score when query and key move together
};

Alike alike(const Subject& s, const std::string& word, size_t n) {
    AttentionMaps maps = attention_maps(s.model, Ids(n, s.tokenizer.encode(" " + word, false).at(0)), exact(n));
    Alike a;
    for (size_t head = 0; head < maps.heads; head++) {
        const auto log_weight = [&](size_t query, size_t key) { return std::log(std::max(double(maps.at(0, head, query, key)), 1e-45)); };
        const auto score = [&](size_t query, size_t distance) { return log_weight(query, query - distance) - log_weight(query, query); };
        std::vector<double>& last = a.by_distance.emplace_back();
        for (size_t d = 0; d < n; d++) last.push_back(score(n - 1, d));
        for (size_t query = 0; query < n; query++)
            for (size_t d = 0; d <= query; d++) a.shift = std::max(a.shift, std::abs(score(query, d) - last[d]));
    }
    return a;
}

// Rows of the sinusoidal table (Vaswani et al. 2017, 3.5).
std::vector<double> sinusoids(size_t rows, size_t dim) {
    std::vector<double> table(rows * dim);
    for (size_t t = 0; t < rows; t++)
        for (size_t i = 0; i < dim; i++) {
            const double angle = double(t) * std::pow(10000.0, -double(i / 2 * 2) / double(dim));
            table[t * dim + i] = i % 2 ? std::cos(angle) : std::sin(angle);
        }
    return table;
}

void learned_table(Page& page, const Subject& s, const std::string& picture) {
    const auto& tensors = s.model.tensors();
    const auto entry = std::find_if(tensors.begin(), tensors.end(), [](const TensorEntry& t) { return !std::strcmp(t.name, "embed.positions"); });
    if (entry == tensors.end()) throw Error(s.path + ": no table of learned positions");
    const size_t offset = s.header().position_offset, n = entry->rows - offset, dim = entry->cols, block = (n + 63) / 64, side = n / block;
    std::vector<float> rows(n * dim), cosines(n * n), map(side * side);
    const std::string file = read_file(s.path);
    std::memcpy(rows.data(), file.data() + entry->offset + offset * dim * sizeof(float), rows.size() * sizeof(float));
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) cosines[i * n + j] = float(cosine(&rows[i * dim], &rows[j * dim], dim));
    for (size_t i = 0; i < side * block; i++)
        for (size_t j = 0; j < side * block; j++) map[i / block * side + j / block] += cosines[i * n + j] / float(block * block);
    page.picture(picture, "Cosines of the rows of a learned table", heat_map("Cosine of two rows of the table of " + s.name + (block > 1 ? format(" (means of %zu x %zu)", block, block) : ""), map, side, side, -1, 1, {}, {}, "position", "position", block));
    Row head = {"distance"}, row = {"mean cosine"};
    double all = 0, squares = 0, by_distance = 0; // sums over all pairs
    for (size_t d = 1; d < n; d++) {
        double sum = 0;
        for (size_t i = 0; i + d < n; i++) {
            const double c = cosines[i * n + i + d];
            sum += c, squares += c * c;
        }
        all += sum, by_distance += sum * sum / double(n - d);
        if ((d & (d - 1)) == 0) head.push_back(std::to_string(d)), row.push_back(format("%.2f", sum / double(n - d)));
    }
    page.table(head, {row});
    const auto mean_cosine = [&](size_t begin, size_t end, size_t from, size_t to) { // of places begin .. end with other places from .. to
        double sum = 0, count = 0;
        for (size_t i = begin; i < end; i++)
            for (size_t j = from; j < to; j++)
                if (i != j) sum += cosines[i * n + j], count++;
        return sum / count;
    };
    const double level = all * all / (double(n) * double(n - 1) / 2);
    page.say(format("%sTwo places in the table's first half have a mean cosine of %.2f, two in its second half %.2f, one of each %.2f. Of the cosines' variance %.0f %% goes with "
                    "the distance alone, which is what runs along the diagonal. A table begins at random: whatever order it has, training has put there.",
        block == 1 ? "The picture's diagonal is each row with itself. " : "", mean_cosine(0, n / 2, 0, n / 2), mean_cosine(n / 2, n, n / 2, n), mean_cosine(0, n / 2, n / 2, n), 100 * (by_distance - level) / (squares - level)));
}

void distance(Page& page, const Subjects& decoders) {
    const Header& h = decoders[ROTARY].header();
    const size_t n = h.context, pairs = h.rope[0].dim / 2;
    page.say("## Distance");
    page.say(format("**Rotary.** A query and a key that are the same vector, all ones, %zu pairs of it turned with base %g: their score by distance, in parts of the score at distance 0. It is often shown for the "
                    "saying that rotary attention decays with distance; what Su et al. (2021, 3.4.3) show to decay is an upper bound of the score.",
        pairs, double(h.rope[0].theta)));
    Chart chart = {"Rotary: score of two equal vectors by distance", "distance in tokens", "score, distance 0 is 1", {{"all ones", {}}}};
    for (size_t d = 0; d <= 4 * n; d++) {
        double sum = 0;
        for (size_t i = 0; i < pairs; i++) sum += std::cos(double(d) * std::pow(double(h.rope[0].theta), -double(i) / double(pairs))) / double(pairs);
        chart.series[0].points.emplace_back(double(d), sum);
    }
    const auto& curve = chart.series[0].points;
    size_t rises = 0;
    for (size_t d = 1; d < curve.size(); d++) rises += curve[d].second > curve[d - 1].second;
    page.picture("rotary-ones", "Score of two equal vectors by distance", line_chart(chart));
    page.say(format("It falls as a whole and swings on the way: from one distance to the next it rises in %.0f %% of all steps. And it is one vector out of many. What trained heads do is seen in a text of one word, "
                    "\"the\", %zu times over: in the first layer all its queries are the same vector, so are its keys, and only positions tell them apart. By how much the last word's score with an earlier one "
                    "differs from that with itself:",
        100 * double(rises) / double(curve.size() - 1), n));
    std::vector<Row> rows;
    Chart heads = {"Rotary, first layer: score by distance, a line a head", "distance in tokens", "score less that at distance 0", {}};
    size_t nearest = 0, falling = 0;
    for (const Subject& s : decoders) {
        const Alike a = alike(s, "the", s.header().context);
        double range = 0;
        for (size_t head = 0; head < a.by_distance.size(); head++) {
            const std::vector<double>& scores = a.by_distance[head];
            const auto [least, most] = std::minmax_element(scores.begin(), scores.end());
            range = std::max(range, *most - *least);
            if (&s != &decoders[ROTARY]) continue;
            nearest += most == scores.begin();
            falling += mean_of(scores, 0, scores.size() / 4) > mean_of(scores, scores.size() * 3 / 4, scores.size());
            Series& series = heads.series.emplace_back(Series{"head " + std::to_string(head), {}});
            for (size_t d = 0; d < scores.size(); d++) series.points.emplace_back(double(d), scores[d]);
        }
        rows.push_back({s.name, tiny(range), tiny(a.shift)});
    }
    page.picture("rotary-heads", "Score by distance of each head in the first layer", line_chart(heads));
    const size_t count = heads.series.size();
    page.say(format("Heads that score highest at distance 0: %zu of %zu. Heads that score higher over the nearest quarter of the distances than over the farthest: %zu of %zu. These are the heads of one layer of one "
                    "small model, but enough to say that decay is what a head can learn, not what the rotation does by itself.",
        nearest, count, falling, count));
    page.table({"first layer, the same word throughout", "largest difference that position makes to a score", format("largest change when both words move by the same amount (up to %zu tokens)", n - 1)}, rows);
    page.say("The last column is the promise of rotary positions, that a score depends on the distance alone, kept up to float32's rounding (angles are products in float32). Without positions there is nothing "
             "to differ. A table that is added to the embedding, sinusoidal or learned, promises no such thing: its scores depend on both places.");

    const size_t dim = decoders[SINUSOIDAL].header().dim, most = 4 * n;
    const std::vector<double> table = sinusoids(most + n, dim);
    Chart dots = {format("Sinusoidal: dot product of two position vectors (%zu wide) by distance", dim), "distance in tokens", "dot product, distance 0 is 1", {{"p(t) p(t + d)", {}}}};
    double elsewhere = 0;
    for (size_t d = 0; d <= most; d++) {
        const auto dot = [&](size_t t) {
            double sum = 0;
            for (size_t i = 0; i < dim; i++) sum += table[t * dim + i] * table[(t + d) * dim + i];
            return sum * 2 / double(dim);
        };
        dots.series[0].points.emplace_back(double(d), dot(0));
        for (size_t t = 1; t < n; t += 17) elsewhere = std::max(elsewhere, std::abs(dot(t) - dot(0)));
    }
    page.say("**Sinusoidal.** The dot product of two rows of the table:");
    page.picture("sinusoidal", "Dot product of two sinusoidal position vectors by distance", line_chart(dots));
    page.say(format("It depends on the distance alone (elsewhere in the table it differs by %s at most, rounding in float64), is the same to both sides, and so says how far and not which way. The "
                    "scores above depend on place and direction all the same: the query and key matrices stand between the two rows, and a score also multiplies words with positions.",
        tiny(elsewhere).c_str()));
    page.say("**Learned.** The cosine of any two rows of the trained table:");
    learned_table(page, decoders[LEARNED], "learned");
}

void meaning(Page& page, const std::vector<const Subject*>& subjects) {
    constexpr size_t shown = 5;
    const char* words[] = {"king", "mother", "dog", "house", "gold", "seven", "said"};
    const struct { const char *plus, *minus, *and_plus, *expected; } analogies[] = {{"king", "man", "woman", "queen"}, {"father", "man", "woman", "mother"}, {"brother", "boy", "girl", "sister"},
        {"prince", "man", "woman", "princess"}, {"his", "he", "she", "her"}, {"went", "go", "come", "came"}, {"better", "good", "bad", "worse"}, {"dogs", "dog", "cat", "cats"},
        {"larger", "large", "small", "smaller"}, {"Paris", "France", "Japan", "Tokyo"}, {"Paris", "France", "Italy", "Rome"}, {"Tokyo", "Japan", "France", "Paris"}};
    page.say("## Meaning");
    page.say("A word's place is one half of what the first layer is told; the other is the word's row of the embedding table, the same wherever it stands. What is in it without any position: cosines of rows "
             "(`./run MODEL --similar`, `--analogy`). Only words that are one token have a row. The same letters are another token where they go on with a word or begin a text: those are written with a hyphen, -king.");
    for (const Subject* s : subjects) {
        std::vector<Row> rows;
        for (const char* word : words) {
            Row row = {word, ""};
            try {
                for (const auto& [cosine, id] : neighbours(s->model, s->tokenizer, {word}, {}, shown)) row[1] += (row[1].empty() ? "" : ", ") + s->entry(id) + format(" %.2f", cosine);
            } catch (const Error&) { row[1] = "(not one token)"; }
            rows.push_back(row);
        }
        page.say("Nearest in **" + s->name + "**:");
        page.table({"word", "nearest"}, rows);
        rows.clear();
        size_t hits = 0, asked = 0, echoes = 0;
        for (const auto& a : analogies) {
            Row row = {format("%s - %s + %s", a.plus, a.minus, a.and_plus), a.expected, "", "", ""};
            try {
                const int32_t expected = word_id(s->tokenizer, a.expected), inputs[] = {word_id(s->tokenizer, a.plus), word_id(s->tokenizer, a.minus), word_id(s->tokenizer, a.and_plus)};
                const auto all = neighbours(s->model, s->tokenizer, {a.plus, a.and_plus}, {a.minus}, s->header().vocab_size, true);
                size_t rank = 0;
                for (const auto& [cosine, id] : all) {
                    if (std::find(std::begin(inputs), std::end(inputs), id) != std::end(inputs)) continue;
                    if (!rank++) row[2] = s->entry(id);
                    if (id == expected) break;
                }
                const int32_t first = all[0].second;
                row[3] = std::to_string(rank), row[4] = s->entry(first);
                asked++, hits += rank == 1, echoes += first == inputs[0] || first == inputs[1] || first == inputs[2];
                rows.push_back(row);
            } catch (const Error&) { continue; } // a word of it is several tokens here
        }
        page.table({"analogy", "expected", "nearest", "place of the expected", "nearest if the question's words count"}, rows);
        page.say(format("%zu of %zu come out%s. By custom the question's own tokens are left out of the answers. Let in, one of them is the nearest %zu times.", hits, asked,
            asked < std::size(analogies) ? format(" (%zu more are of words that are several tokens here)", std::size(analogies) - asked).c_str() : "", echoes));
    }
}

void attention(Page& page, const std::vector<const Subject*>& subjects) {
    const std::string sentence = "The king gave the queen a ring, and the queen gave the king a kiss.";
    page.say("## Attention");
    page.say("\"" + sentence + "\" Of each model the head that looks most at the word before (`./run models/positions/rotary.bin --attention map.svg -p \"...\"` draws all of them):");
    std::vector<Row> rows;
    std::vector<std::pair<const Subject*, std::string>> pictures;
    std::map<std::string, double> ratios; // of the weight on the word before to an even spread
    for (const Subject* s : subjects) {
        const Ids ids = s->ids(sentence);
        AttentionMaps maps = attention_maps(s->model, ids, exact());
        const size_t n = ids.size();
        double best = -1, evenly = 0, itself = 0, first = 0;
        size_t layer = 0, head = 0;
        for (size_t l = 0; l < maps.layers; l++)
            for (size_t i = 0; i < maps.heads; i++) {
                double before = 0;
                for (size_t q = 1; q < n; q++) before += maps.at(l, i, q, q - 1) / double(n - 1);
                if (before > best) best = before, layer = l, head = i;
            }
        for (size_t q = 1; q < n; q++) {
            evenly += 1 / double(s->header().causal ? q + 1 : n) / double(n - 1);
            itself += maps.at(layer, head, q, q) / double(n - 1), first += maps.at(layer, head, q, 0) / double(n - 1);
        }
        ratios[s->name] = best / evenly;
        rows.push_back({s->name, format("%zu.%zu", layer, head), format("%.2f", best), format("%.2f", evenly), format("%.2f", itself), format("%.2f", first)});
        std::vector<float> map;
        for (size_t q = 0; q < n; q++)
            for (size_t key = 0; key < n; key++) map.push_back(maps.at(layer, head, q, key));
        Row names;
        for (const int32_t id : ids) names.push_back(s->word(id));
        pictures.emplace_back(s, heat_map(format("%s, layer %zu, head %zu", s->name.c_str(), layer, head), map, n, n, 0, std::ceil(*std::max_element(map.begin(), map.end()) * 10) / 10, names, names, "query", "key"));
    }
    page.table({"model", "layer.head", "weight on the word before", "if evenly spread", "on itself", "on the first word"}, rows);
    page.say(format("The word before gets %.1f times its even share from a head of rotary, %.1f times from one of none, which has to make it out from its mask, and %.1f times from one of masked. masked-none cannot know "
                    "which word that is: a head weighs words by what they are, and the best of them happens to give %.1f times the even share on this sentence.",
        ratios["rotary"], ratios["none"], ratios["masked"], ratios["masked-none"]));
    for (const auto& [s, svg] : pictures) page.picture("attention-" + s->name, "Attention of a head of " + s->name, svg);
}

double parameters(const Model& model) {
    double n = 0;
    for (const TensorEntry& t : model.tensors()) n += double(t.count) * t.rows * t.cols;
    return n;
}

void own_models(const std::string& models, const std::string& pages) {
    Subjects decoders, encoders;
    for (const char* name : {"none", "sinusoidal", "learned", "rotary"}) decoders.emplace_back(models, name);
    for (const char* name : {"masked-none", "masked"}) encoders.emplace_back(models, name);
    for (size_t i = 0; i < decoders.size(); i++)
        if (decoders[i].header().positions != i || !decoders[i].header().causal) throw Error(decoders[i].path + ": not a decoder with such positions");
    for (const Subject& s : encoders)
        if (s.header().causal || (s.header().positions == POSITIONS_NONE) != (&s == &encoders[0])) throw Error(s.path + ": not an encoder with such positions");
    for (const Subject& s : decoders)
        if (s.header().context != decoders[NONE].header().context) throw Error(s.path + ": trained on windows of another length than " + decoders[NONE].path);
    std::vector<const Subject*> all;
    for (const Subjects* some : {&decoders, &encoders})
        for (const Subject& s : *some) all.push_back(&s);
    Page page(pages, "positions.md");
    page.say("# How a model knows the order of words");
    page.say("Written by `make positions`, which runs every experiment on this page again; on a processor with AVX2 the numbers are the same each time. Four decoders differ in what tells them of order and in nothing "
             "else, neither text nor seed nor number of steps; two smaller encoders, trained longer, likewise ([models/README.md](../models/README.md)). The same questions to models trained by others: "
             "[positions-real.md](positions-real.md).");
    std::vector<Row> rows;
    const char* schemes[] = {"none", "sinusoidal: a fixed table added to the embedding", "learned: a trained table added to the embedding", "rotary: queries and keys are turned", "linear biases", "relative biases"};
    for (const Subject* s : all)
        rows.push_back({s->name, s->header().causal ? "decoder, left to right" : "masked encoder, both directions", schemes[s->header().positions], format("%.1f million", parameters(s->model) / 1e6),
            plural(s->header().n_layers, "layer") + format(", %u heads", s->header().n_heads), format("%u tokens", s->header().context)});
    page.table({"model", "reads", "positions", "parameters", "", "trained on windows of"}, rows);
    order(page, decoders, encoders);
    length(page, decoders, read_file(models + "/held-out.txt"));
    distance(page, decoders);
    meaning(page, {&decoders[ROTARY], &encoders[1]});
    attention(page, all);
    page.write();
}

void real_models(const std::string& models, const std::string& pages) {
    Subjects subjects;
    for (const char* name : {"minilm", "smollm2", "gemma3"}) {
        if (!std::filesystem::exists(models + "/" + name + ".bin")) {
            std::fprintf(stderr, "positions: %s/%s.bin is not there: %s/positions-real.md stays as it is (make minilm smollm2 gemma3)\n", models.c_str(), name, pages.c_str());
            return;
        }
        subjects.emplace_back(models, name);
    }
    Page page(pages, "positions-real.md");
    page.say("# Positions and meaning in models trained by others");
    page.say("Written by `make minilm smollm2 gemma3 positions`: three checkpoints that this repository does not hold.");
    page.say("## Distance");
    page.say("The cosine of any two rows of MiniLM's learned table (BERT's, trained on):");
    learned_table(page, subjects[0], "minilm");
    meaning(page, {&subjects[0], &subjects[1], &subjects[2]});
    page.write();
}

} // namespace

int main(int argc, char** argv) {
    try {
        // with AVX2 where there is more too: another set of kernels adds in another order, and the last digits with it
        if (std::string(isa_name()) == "avx512") setenv("LOCUS_ISA", "avx2", 1);
        if (argc > 3 || (argc > 1 && argv[1][0] == '-')) throw Error("expected at most two folders: positions [MODELS [PAGES]]");
        const std::string models = argc > 1 ? argv[1] : "models/positions", pages = argc > 2 ? argv[2] : "docs";
        own_models(models, pages);
        real_models(models + "/..", pages);
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "positions: %s\n", error.what());
        return 1;
    }
}
