// roofline: what this machine can do at most, now. Decoding is bound by how fast weights are read, prompts by multiply-adds.
//   build/roofline [THREADS]     prints one JSON object; rates are the best of several tries, all threads together
//   read_gbs   GB/s read from a buffer that no cache holds
//   f32, i8    10^9 operations a second (a multiply-add is two) on registers, with the widest instructions; *_avx2 without AVX-512 and VNNI
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <unistd.h>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

using Work = uint64_t (*)(const uint64_t* words, size_t n); // what it returns keeps the compiler from dropping the work
constexpr size_t CHAINS = 12; // sums side by side, to hide the latency of one; each begins differently, or the compiler would keep but one
constexpr size_t ROUNDS = 1 << 22; // of the register loops

uint64_t read_plain(const uint64_t* words, size_t n) {
    uint64_t sum[8] = {};
    for (size_t i = 0; i < n; i += 8)
        for (size_t j = 0; j < 8; j++) sum[j] += words[i + j];
    for (size_t j = 1; j < 8; j++) sum[0] ^= sum[j];
    return sum[0];
}

uint64_t f32_plain(const uint64_t*, size_t n) {
    float sum[CHAINS], scale = 0.75f;
    for (size_t j = 0; j < CHAINS; j++) sum[j] = float(j);
    for (size_t i = 0; i < n; i++)
        for (float& s : sum) s = s * scale + 0.5f;
    float total = 0;
    for (float s : sum) total += s;
    return uint64_t(total);
}

uint64_t i8_plain(const uint64_t*, size_t n) {
    uint32_t sum[CHAINS] = {};
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < CHAINS; j++) sum[j] += uint32_t(int8_t(i) * int8_t(i + j));
    uint64_t total = 0;
    for (uint32_t s : sum) total += s;
    return total;
}

#if defined(__x86_64__)
// Hides where a value comes from, so that work on it is not done ahead of the loop.
#define OPAQUE(v) asm volatile("" : "+v"(v))
#define AVX2 __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vnni")))

AVX2 uint64_t read_avx2(const uint64_t* words, size_t n) {
    __m256i sum[4] = {};
    for (size_t i = 0; i < n; i += 16) {
#pragma GCC unroll 4
        for (size_t j = 0; j < 4; j++)
            sum[j] = _mm256_add_epi64(sum[j], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words + i) + j));
    }
    const __m256i all = _mm256_xor_si256(_mm256_xor_si256(sum[0], sum[1]), _mm256_xor_si256(sum[2], sum[3]));
    return uint64_t(_mm256_extract_epi64(all, 0));
}

AVX2 uint64_t f32_avx2(const uint64_t*, size_t n) {
    __m256 sum[CHAINS], scale = _mm256_set1_ps(0.75f), step = _mm256_set1_ps(0.5f);
    for (size_t j = 0; j < CHAINS; j++) sum[j] = _mm256_set1_ps(float(j));
    for (size_t i = 0; i < n; i++) {
        OPAQUE(scale);
#pragma GCC unroll 12
        for (__m256& s : sum) s = _mm256_fmadd_ps(s, scale, step);
    }
    for (const __m256& s : sum) step = _mm256_add_ps(step, s);
    return uint64_t(_mm256_cvtss_f32(step));
}

AVX2 uint64_t i8_avx2(const uint64_t*, size_t n) {
    __m256i sum[CHAINS], a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(-2), ones = _mm256_set1_epi16(1);
    for (size_t j = 0; j < CHAINS; j++) sum[j] = _mm256_set1_epi32(int(j));
    for (size_t i = 0; i < n; i++) {
#pragma GCC unroll 12
        for (__m256i& s : sum) {
            OPAQUE(a); // each product anew
            s = _mm256_add_epi32(s, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), ones));
        }
    }
    for (const __m256i& s : sum) a = _mm256_add_epi32(a, s);
    return uint64_t(_mm256_extract_epi64(a, 0));
}

AVX512 uint64_t f32_avx512(const uint64_t*, size_t n) {
    __m512 sum[CHAINS], scale = _mm512_set1_ps(0.75f), step = _mm512_set1_ps(0.5f);
    for (size_t j = 0; j < CHAINS; j++) sum[j] = _mm512_set1_ps(float(j));
    for (size_t i = 0; i < n; i++) {
        OPAQUE(scale);
#pragma GCC unroll 12
        for (__m512& s : sum) s = _mm512_fmadd_ps(s, scale, step);
    }
    for (const __m512& s : sum) step = _mm512_add_ps(step, s);
    float out[16];
    _mm512_storeu_ps(out, step);
    return uint64_t(out[0]);
}

AVX512 uint64_t i8_vnni(const uint64_t*, size_t n) {
    __m512i sum[CHAINS], a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(-2);
    for (size_t j = 0; j < CHAINS; j++) sum[j] = _mm512_set1_epi32(int(j));
    for (size_t i = 0; i < n; i++) {
        OPAQUE(a);
#pragma GCC unroll 12
        for (__m512i& s : sum) s = _mm512_dpbusd_epi32(s, a, b);
    }
    for (const __m512i& s : sum) a = _mm512_add_epi32(a, s);
    uint64_t out[8];
    _mm512_storeu_si512(out, a);
    return out[0];
}
#endif

std::atomic<uint64_t> sink;

// Runs the work on each thread, each with its own part of the words if there are any, and returns the shortest time of all tries.
double seconds(size_t threads, Work work, const uint64_t* words, size_t n, int tries) {
    using Clock = std::chrono::steady_clock;
    double best = 1e30;
    for (int k = 0; k < tries; k++) {
        std::vector<std::thread> team;
        const Clock::time_point start = Clock::now();
        for (size_t i = 0; i < threads; i++) team.emplace_back([=] { sink += work(words ? words + n * i : nullptr, n); });
        for (std::thread& t : team) t.join();
        best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
    }
    return best;
}

size_t buffer_bytes() {
    constexpr size_t least = size_t(1) << 30;
    const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE), pages = sysconf(_SC_AVPHYS_PAGES);
    const size_t wanted = std::max(least, 4 * size_t(std::max(cache, 0L)));
    return std::min(wanted, size_t(std::max(pages, 1L)) * size_t(sysconf(_SC_PAGESIZE)) / 2); // not what the machine has to swap for
}

} // namespace

int main(int argc, char** argv) {
    const size_t threads = argc > 1 ? size_t(std::max(1, std::atoi(argv[1]))) : std::max(1u, std::thread::hardware_concurrency());
    Work read = read_plain, f32 = f32_plain, i8 = i8_plain, f32_narrow = f32_plain, i8_narrow = i8_plain;
    double f32_lanes = 1, i8_lanes = 1, f32_narrow_lanes = 1, i8_narrow_lanes = 1;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        read = read_avx2;
        f32 = f32_narrow = f32_avx2, f32_lanes = f32_narrow_lanes = 8;
        i8 = i8_narrow = i8_avx2, i8_lanes = i8_narrow_lanes = 32;
    }
    if (__builtin_cpu_supports("avx512bw")) f32 = f32_avx512, f32_lanes = 16;
    if (__builtin_cpu_supports("avx512vnni")) i8 = i8_vnni, i8_lanes = 64;
#endif
    constexpr size_t unit = 64; // words that a read loop takes at a time, and more
    const size_t part = buffer_bytes() / sizeof(uint64_t) / threads / unit * unit;
    std::vector<uint64_t> words(part * threads, 1); // written once: pages that were never written share one of zeros
    const double read_gbs = double(words.size() * sizeof(uint64_t)) / seconds(threads, read, words.data(), part, 7) / 1e9;
    const auto rate = [&](Work work, double lanes) {
        return 2 * lanes * CHAINS * ROUNDS * double(threads) / seconds(threads, work, nullptr, ROUNDS, 5) / 1e9;
    };
    std::printf("{\"threads\": %zu, \"read_gbs\": %.2f, \"f32\": %.1f, \"i8\": %.1f, \"f32_avx2\": %.1f, \"i8_avx2\": %.1f}\n", threads,
        read_gbs, rate(f32, f32_lanes), rate(i8, i8_lanes), rate(f32_narrow, f32_narrow_lanes), rate(i8_narrow, i8_narrow_lanes));
}
