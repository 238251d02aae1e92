#pragma once

/// @file
/// B of a convolution, made explicitly: what peers without implicit patches do.

#include "base/thread_pool.hpp"
#include "spjit/convolution.hpp"

namespace spjit::bench {

/// B `[channels * taps x output pixels]`, row-major, of one image X `[channels x height * width]`.
/// Rows of the output are copied, not single elements, where the stride is 1; threads share the
/// channels.
void im2col(const Convolution& convolution, const float* x, float* b, ThreadPool& pool);

}  // namespace spjit::bench
