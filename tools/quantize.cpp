// convert.py's heavy half: reads tensors from source checkpoints, converts and packs them into the panels of model.h, and writes
// them into the output file, whose header and directory convert.py has written already. Memory stays small whatever the tensors'
// size: each thread holds a few megabytes.
//
// Standard input is a job list, a line each, fields apart by spaces (a path goes to the end of its line):
//   out PATH
//   source PATH                                        numbered from 0
//   tensor OFFSET TYPE LAYOUT COUNT ROWS COLS NAME     where it goes in the output
//   moments WIDTH OFFSET PATH                          of what the last tensor, in q4, reads: its columns in groups of WIDTH, and for each
//                                                      group the float32 matrix of the activations' mean products
//   piece MATRIX ROW ROWS SOURCE TYPE OFFSET FIRST ROW_STRIDE COL_STRIDE SCALE ADD
//                                                      rows ROW .. ROW + ROWS of matrix MATRIX of the last tensor: scale w + add, where
//                                                      w are elements FIRST + r ROW_STRIDE + c COL_STRIDE of an array at byte OFFSET
// Rows that no piece covers are zeros. Exit status 1 with one line on standard error if anything fails.
#include "pack.h"

#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

using namespace locus;

namespace {

constexpr size_t GROUP_BYTES = 4 << 20; // of floats that a thread converts at a time

[[noreturn]] void fail(const std::string& message) { throw std::runtime_error(message); }

// ---- source types -------------------------------------------------------------------------------------------------

uint16_t u16(const uint8_t* p) { return uint16_t(p[0] | p[1] << 8); }
uint32_t u32(const uint8_t* p) { return u16(p) | uint32_t(u16(p + 2)) << 16; }
float half(const uint8_t* p) { return float_of_f16(u16(p)); }

// Scale and minimum j of the eight that Q4_K and Q5_K squeeze into 12 bytes, 6 bits each.
void scale_min(const uint8_t* s, int j, float& scale, float& min) {
    scale = float(j < 4 ? s[j] & 63 : (s[j + 4] & 15) | s[j - 4] >> 6 << 4);
    min = float(j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | s[j] >> 6 << 4);
}

void read_f64(const uint8_t* p, float* y) {
    double x;
    memcpy(&x, p, 8);
    *y = float(x);
}
void read_f32(const uint8_t* p, float* y) { memcpy(y, p, 4); }
void read_f16(const uint8_t* p, float* y) { *y = half(p); }
void read_bf16(const uint8_t* p, float* y) { *y = float_of_bf16(u16(p)); }
void read_i8(const uint8_t* p, float* y) { *y = float(int8_t(*p)); }
void read_q4_0(const uint8_t* p, float* y) {
    for (int i = 0; i < 16; i++) y[i] = half(p) * float((p[2 + i] & 15) - 8), y[i + 16] = half(p) * float((p[2 + i] >> 4) - 8);
}
void read_q4_1(const uint8_t* p, float* y) {
    for (int i = 0; i < 16; i++)
        y[i] = half(p) * float(p[4 + i] & 15) + half(p + 2), y[i + 16] = half(p) * float(p[4 + i] >> 4) + half(p + 2);
}
void read_q5(const uint8_t* p, float d, float m, float* y) { // fifth bits, then low halves
    const uint32_t high = u32(p);
    for (int i = 0; i < 16; i++) {
        y[i] = d * float((p[4 + i] & 15) | (high >> i & 1) << 4) + m;
        y[i + 16] = d * float(p[4 + i] >> 4 | (high >> (i + 16) & 1) << 4) + m;
    }
}
void read_q5_0(const uint8_t* p, float* y) { read_q5(p + 2, half(p), -16 * half(p), y); }
void read_q5_1(const uint8_t* p, float* y) { read_q5(p + 4, half(p), half(p + 2), y); }
void read_q8_0(const uint8_t* p, float* y) {
    for (int i = 0; i < 32; i++) y[i] = half(p) * float(int8_t(p[2 + i]));
}
void read_q4_k(const uint8_t* p, float* y) {
    const uint8_t* q = p + 16;
    for (int j = 0; j < 8; j += 2, q += 32, y += 64)
        for (int side = 0; side < 2; side++) {
            float scale, min;
            scale_min(p + 4, j + side, scale, min);
            for (int i = 0; i < 32; i++) y[32 * side + i] = half(p) * scale * float(side ? q[i] >> 4 : q[i] & 15) - half(p + 2) * min;
        }
}
void read_q5_k(const uint8_t* p, float* y) {
    const uint8_t *high = p + 16, *q = p + 48;
    for (int j = 0; j < 8; j += 2, q += 32, y += 64)
        for (int side = 0; side < 2; side++) {
            float scale, min;
            scale_min(p + 4, j + side, scale, min);
            for (int i = 0; i < 32; i++) {
                const int n = (side ? q[i] >> 4 : q[i] & 15) | (high[i] >> (j + side) & 1) << 4;
                y[32 * side + i] = half(p) * scale * float(n) - half(p + 2) * min;
            }
        }
}
void read_q6_k(const uint8_t* p, float* y) {
    for (int i = 0; i < 256; i++) {
        const int part = i / 128, quarter = i / 32 % 4, l = i % 32; // low 4 bits: two quarters share 32 bytes; high 2 bits: four do
        const uint8_t low = p[64 * part + 32 * (quarter % 2) + l], high = p[128 + 32 * part + l];
        const int n = ((quarter < 2 ? low & 15 : low >> 4) | (high >> 2 * quarter & 3) << 4) - 32;
        y[i] = half(p + 208) * float(int8_t(p[192 + i / 16])) * float(n);
    }
}

struct SourceType {
    const char* name;
    size_t block, bytes; // elements and bytes of a block
    void (*read)(const uint8_t* p, float* y);
};
const SourceType SOURCE_TYPES[] = {
    {"F64", 1, 8, read_f64},
    {"F32", 1, 4, read_f32},
    {"F16", 1, 2, read_f16},
    {"BF16", 1, 2, read_bf16},
    {"INTGEMM8", 1, 1, read_i8},
    {"Q4_0", 32, 18, read_q4_0},
    {"Q4_1", 32, 20, read_q4_1},
    {"Q5_0", 32, 22, read_q5_0},
    {"Q5_1", 32, 24, read_q5_1},
    {"Q8_0", 32, 34, read_q8_0},
    {"Q4_K", 256, 144, read_q4_k},
    {"Q5_K", 256, 176, read_q5_k},
    {"Q6_K", 256, 210, read_q6_k},
};

// Blocks of a kind that the output stores as they are. Int8 whose scale stands elsewhere counts as blocks of 32.
bool kindred(const SourceType& source, Type type) {
    return (type == TYPE_Q8 && (source.read == read_q8_0 || source.read == read_i8)) ||
           (type == TYPE_Q4 && (source.read == read_q4_0 || source.read == read_q4_1 || source.read == read_q4_k));
}

uint16_t finite_half(float x) {
    if (std::abs(x) > largest(TYPE_Q4))
        fail("a block's scale or minimum of " + std::to_string(x) + " does not fit into 16 bits, choose another --type");
    return f16_of_float(x);
}

// Places one source block, of 32 values or eight times as many, into row's place in the output blocks at out; scale: of int8.
void repack(const SourceType& source, const uint8_t* p, float scale, uint32_t row, uint8_t* out) {
    if (source.read == read_i8) {
        Q8 b;
        b.d = finite_half(scale);
        memcpy(b.q, p, BLOCK);
        place(b, row, out);
    } else if (source.read == read_q8_0) {
        Q8 b;
        b.d = u16(p);
        memcpy(b.q, p + 2, BLOCK);
        place(b, row, out);
    } else if (source.read == read_q4_k) {
        for (uint32_t j = 0; j < 8; j++, out += block_bytes(TYPE_Q4)) {
            float scale, min;
            scale_min(p + 4, int(j), scale, min);
            Q4 b;
            b.d = finite_half(half(p) * scale), b.m = finite_half(-half(p + 2) * min);
            for (uint32_t i = 0; i < BLOCK; i++) b.q[i] = p[16 + j / 2 * 32 + i] >> (j % 2 * 4) & 15;
            place(b, row, out);
        }
    } else {
        const bool with_min = source.read == read_q4_1;
        const uint8_t* q = p + (with_min ? 4 : 2);
        Q4 b;
        b.d = u16(p), b.m = with_min ? u16(p + 2) : finite_half(-8 * half(p));
        for (uint32_t i = 0; i < BLOCK / 2; i++) b.q[i] = q[i] & 15, b.q[i + 16] = q[i] >> 4;
        place(b, row, out);
    }
}

// ---- jobs ---------------------------------------------------------------------------------------------------------

struct Piece {
    uint64_t matrix, row, rows, source;
    const SourceType* type;
    uint64_t offset, first, row_stride, col_stride;
    float scale, add;
};
struct Tensor {
    uint64_t offset;
    Type type;
    Layout layout;
    uint64_t count, rows, cols;
    std::string name;
    std::vector<Piece> pieces;
    std::string moments; // path; empty: none
    uint64_t moments_width = 0, moments_offset = 0;
    uint64_t group_rows, groups; // rows that are converted together; groups a matrix
};
struct Jobs {
    int out = -1;
    std::string out_path;
    std::vector<int> sources;
    std::vector<std::string> paths;
    std::vector<Tensor> tensors;
};

void read_fully(int fd, const std::string& path, uint8_t* to, size_t n, uint64_t offset) {
    while (n) {
        const ssize_t got = pread(fd, to, n, off_t(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) fail(path + ": " + strerror(errno));
        if (!got) fail(path + ": ended while it was read");
        to += got, n -= size_t(got), offset += uint64_t(got);
    }
}
void write_fully(const Jobs& jobs, const uint8_t* from, size_t n, uint64_t offset) {
    while (n) {
        const ssize_t put = pwrite(jobs.out, from, n, off_t(offset));
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) fail(jobs.out_path + ": " + strerror(errno));
        from += put, n -= size_t(put), offset += uint64_t(put);
    }
}

Jobs read_jobs(FILE* in) {
    Jobs jobs;
    std::string text;
    for (char chunk[1 << 16]; size_t n = fread(chunk, 1, sizeof chunk, in);) text.append(chunk, n);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream fields(line);
        std::string what, rest;
        fields >> what;
        if (what == "out" || what == "source") {
            std::getline(fields >> std::ws, rest);
            const int fd = open(rest.c_str(), (what == "out" ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
            if (fd < 0) fail(rest + ": " + strerror(errno));
            if (what == "out") jobs.out = fd, jobs.out_path = rest;
            else jobs.sources.push_back(fd), jobs.paths.push_back(rest);
        } else if (what == "tensor") {
            Tensor t;
            uint32_t type = 0, layout = 0;
            fields >> t.offset >> type >> layout >> t.count >> t.rows >> t.cols >> t.name;
            t.type = Type(type), t.layout = Layout(layout);
            if (!fields || type > TYPE_Q4 || layout > LAYOUT_PANELS || !t.cols || !t.rows) fail("job list: " + line);
            t.group_rows = std::max<uint64_t>(GROUP_BYTES / (t.cols * 4) / PANEL, 1) * PANEL;
            t.groups = (t.rows + t.group_rows - 1) / t.group_rows;
            jobs.tensors.push_back(std::move(t));
        } else if (what == "moments" && !jobs.tensors.empty()) {
            Tensor& t = jobs.tensors.back();
            std::getline(fields >> t.moments_width >> t.moments_offset >> std::ws, t.moments);
            const uint64_t width = t.moments_width;
            if (!fields || t.moments.empty() || !width || width % BLOCK || width > 4096 || t.type != TYPE_Q4) fail("job list: " + line);
        } else if (what == "piece" && !jobs.tensors.empty()) {
            Piece p;
            std::string type;
            fields >> p.matrix >> p.row >> p.rows >> p.source >> type >> p.offset >> p.first >> p.row_stride >> p.col_stride >> p.scale >>
                p.add;
            p.type = nullptr;
            for (const SourceType& s : SOURCE_TYPES)
                if (type == s.name) p.type = &s;
            Tensor& t = jobs.tensors.back();
            if (!fields || !p.type || p.source >= jobs.sources.size() || p.matrix >= t.count || p.row + p.rows > t.rows)
                fail("job list: " + line);
            if (p.col_stride != 1 && p.row_stride != 1) fail("job list: neither rows nor columns are contiguous: " + line);
            const uint64_t block = p.type->block;
            if (block > 1 && (p.col_stride != 1 || p.first % block || p.row_stride % block || t.cols % block))
                fail("job list: blocks are cut: " + line);
            t.pieces.push_back(p);
        } else fail("job list: " + line);
    }
    if (jobs.out < 0) fail("job list: no output");
    return jobs;
}

// ---- conversion ---------------------------------------------------------------------------------------------------

class Worker {
public:
    explicit Worker(const Jobs& jobs) : jobs_(jobs) {}

    // Converts rows begin .. end of one matrix of a tensor.
    void convert(const Tensor& t, uint64_t matrix, uint64_t begin, uint64_t end) {
        const size_t n = end - begin;
        values_.assign(n * t.cols, 0.0f);
        blocks_.assign(n, {});
        raw_.clear();
        for (const Piece& p : t.pieces) {
            const uint64_t from = std::max(begin, p.row), to = std::min(end, p.row + p.rows);
            if (p.matrix == matrix && from < to) read(t, p, from - p.row, to - p.row, from - begin);
        }
        if (t.layout == LAYOUT_PLAIN) {
            write_fully(jobs_, reinterpret_cast<const uint8_t*>(values_.data()), values_.size() * 4,
                t.offset + (matrix * t.rows + begin) * t.cols * 4);
            return;
        }
        const size_t bytes = panel_bytes(t.type, t.cols), panels = (n + PANEL - 1) / PANEL;
        packed_.assign(panels * bytes, 0);
        const Feedback* feedback = t.moments.empty() ? nullptr : &feedback_of(t);
        const std::vector<float> zeros(t.cols);
        for (size_t r = 0; r < n; r++) {
            uint8_t* panel = packed_.data() + r / PANEL * bytes;
            const size_t last = std::min<size_t>(r + PANEL, n);
            if (feedback && r % PANEL == 0 && std::none_of(&blocks_[r], &blocks_[last], [](const Blocks& b) { return b.type; })) {
                const float* rows[PANEL];
                std::fill(rows, rows + PANEL, zeros.data());
                for (size_t i = r; i < last; i++) check(t, rows[i - r] = values_.data() + i * t.cols);
                pack_panel_q4(rows, t.cols, *feedback, panel);
                r = last - 1;
            } else if (blocks_[r].type) {
                const SourceType& type = *blocks_[r].type;
                const uint8_t* block = raw_.data() + blocks_[r].at;
                const size_t step = std::max<size_t>(type.block, BLOCK);
                for (size_t c = 0; c < t.cols; c += step, block += step / type.block * type.bytes)
                    repack(type, block, blocks_[r].scale, r % PANEL, panel + c / BLOCK * block_bytes(t.type));
            } else {
                const float* row = values_.data() + r * t.cols;
                check(t, row);
                pack_row(t.type, row, t.cols, r % PANEL, panel);
            }
        }
        const uint64_t matrix_bytes = (t.rows + PANEL - 1) / PANEL * bytes;
        write_fully(jobs_, packed_.data(), packed_.size(), t.offset + matrix * matrix_bytes + begin / PANEL * bytes);
    }

private:
    // Rows from .. to of a piece, into rows at .. of the group.
    void read(const Tensor& t, const Piece& p, uint64_t from, uint64_t to, size_t at) {
        const SourceType& type = *p.type;
        const int fd = jobs_.sources[p.source];
        const std::string& path = jobs_.paths[p.source];
        const size_t n = to - from;
        if (p.col_stride == 1) { // row by row, or all at once where the rows follow one another
            const size_t row_bytes = t.cols / type.block * type.bytes, start = raw_.size();
            raw_.resize(start + n * row_bytes);
            const uint64_t first = p.offset + (p.first + from * p.row_stride) / type.block * type.bytes,
                           stride = p.row_stride / type.block * type.bytes;
            if (stride == row_bytes) read_fully(fd, path, raw_.data() + start, n * row_bytes, first);
            else
                for (size_t r = 0; r < n; r++) read_fully(fd, path, raw_.data() + start + r * row_bytes, row_bytes, first + r * stride);
            const bool scaled = type.read == read_i8 ? t.cols % BLOCK != 0 : p.scale != 1; // the source's blocks aren't the output's
            const bool as_is = t.layout == LAYOUT_PANELS && !scaled && p.add == 0 && kindred(type, t.type);
            for (size_t r = 0; r < n; r++) {
                if (as_is) {
                    blocks_[at + r] = {&type, start + r * row_bytes, p.scale};
                    continue;
                }
                float* y = values_.data() + (at + r) * t.cols;
                const uint8_t* block = raw_.data() + start + r * row_bytes;
                for (size_t c = 0; c < t.cols; c += type.block, block += type.bytes) type.read(block, y + c);
            }
            if (!as_is) raw_.resize(start);
        } else { // a transposed source: column by column
            column_.resize(n * type.bytes);
            for (size_t c = 0; c < t.cols; c++) {
                read_fully(fd, path, column_.data(), column_.size(), p.offset + (p.first + from + c * p.col_stride) * type.bytes);
                for (size_t r = 0; r < n; r++) type.read(column_.data() + r * type.bytes, values_.data() + (at + r) * t.cols + c);
            }
        }
        if (p.scale != 1 || p.add != 0)
            for (size_t i = at * t.cols; i < (at + n) * t.cols; i++) values_[i] = p.scale * values_[i] + p.add;
    }

    // Each thread makes its own, and keeps it while it works on the tensor: memory for one.
    const Feedback& feedback_of(const Tensor& t) {
        if (feedback_tensor_ != &t) {
            const int fd = open(t.moments.c_str(), O_RDONLY | O_CLOEXEC);
            if (fd < 0) fail(t.moments + ": " + strerror(errno));
            const uint64_t width = t.moments_width;
            std::vector<float> moments((t.cols + width - 1) / width * width * width);
            read_fully(fd, t.moments, reinterpret_cast<uint8_t*>(moments.data()), moments.size() * 4, t.moments_offset);
            close(fd);
            feedback_ = std::make_unique<Feedback>(width, moments);
            feedback_tensor_ = &t;
        }
        return *feedback_;
    }

    // A weight that would turn infinite in the output's type is an error.
    static void check(const Tensor& t, const float* row) {
        const float most = largest(t.type);
        for (size_t c = 0; c < t.cols; c++) {
            const float size = std::abs(row[c]);
            if (size > most && size < INFINITY)
                fail(t.name + ": a weight of " + std::to_string(row[c]) + " does not fit this --type, choose another");
        }
    }

    struct Blocks {
        const SourceType* type = nullptr; // null: the row is in values_
        size_t at = 0;                    // in raw_
        float scale = 1;                  // of int8
    };
    const Jobs& jobs_;
    std::vector<float> values_;
    std::vector<Blocks> blocks_;
    std::vector<uint8_t> raw_, column_, packed_;
    std::unique_ptr<const Feedback> feedback_;
    const Tensor* feedback_tensor_ = nullptr;
};

void run(const Jobs& jobs) {
    std::vector<uint64_t> first; // number of the first task of each tensor; a task is a group of rows
    uint64_t tasks = 0;
    for (const Tensor& t : jobs.tensors) first.push_back(tasks), tasks += t.count * t.groups;
    std::atomic<uint64_t> next{0};
    std::exception_ptr error;
    std::mutex mutex;
    auto work = [&] {
        try {
            Worker worker(jobs);
            for (uint64_t task; (task = next++) < tasks;) {
                const size_t i = size_t(std::upper_bound(first.begin(), first.end(), task) - first.begin()) - 1;
                const Tensor& t = jobs.tensors[i];
                const uint64_t matrix = (task - first[i]) / t.groups, begin = (task - first[i]) % t.groups * t.group_rows;
                worker.convert(t, matrix, begin, std::min(t.rows, begin + t.group_rows));
            }
        } catch (...) {
            std::lock_guard<std::mutex> lock(mutex);
            if (!error) error = std::current_exception();
            next = tasks;
        }
    };
    std::vector<std::thread> threads;
    const uint64_t useful = std::min<uint64_t>(std::min(std::thread::hardware_concurrency(), 8u), tasks);
    try {
        while (threads.size() + 1 < useful) threads.emplace_back(work);
    } catch (const std::system_error&) {} // no more to be had: fewer do
    work();
    for (std::thread& t : threads) t.join();
    if (error) std::rethrow_exception(error);
    if (close(jobs.out)) fail(jobs.out_path + ": " + strerror(errno));
}

} // namespace

int main() {
    try {
        run(read_jobs(stdin));
    } catch (const std::exception& e) {
        fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
