#ifndef LOCUS_LOSS_H
#define LOCUS_LOSS_H

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace locus {

inline double log_sum_exp(const float* scores, size_t n) {
    const float top = *std::max_element(scores, scores + n);
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += std::exp(double(scores[i]) - top);
    return top + std::log(sum);
}

// Negative log-likelihood of the next token.
inline double loss(const float* scores, size_t n, int32_t next) { return log_sum_exp(scores, n) - scores[next]; }

} // namespace locus
#endif
