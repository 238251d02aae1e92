#pragma once

/// @file
/// B of a convolution, made explicitly: what peers without implicit patches do.

#include <cstdint>

#include "base/thread_pool.hpp"
#include "spjit/convolution.hpp"
#include "spjit/matrix.hpp"

namespace spjit::bench {

/// B `[channels * taps x output pixels]`, row-major, of one image X `[channels x height * width]`.
/// Rows of the output are copied, not single elements, where the stride is 1; threads share the
/// channels.
void im2col(const Convolution& convolution, const float* x, float* b, ThreadPool& pool);

/// As im2col(), for one image X `[height * width x channels]`, tokens-major: B `[output pixels x
/// taps * channels]`, a tap after another, so that all channels of a pixel are copied at once.
/// Threads share the rows of the output.
void im2col_tokens(const Convolution& convolution, const float* x, float* b, ThreadPool& pool);

/// Columns of weights `[filters x channels * taps]` in the order that im2col_tokens() has.
[[nodiscard]] CsrMatrix with_taps_outermost(const CsrMatrix& weights, std::int64_t taps);

}  // namespace spjit::bench
