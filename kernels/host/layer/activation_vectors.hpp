#pragma once

/// @file
/// Activations of vectors in registers, inlined into loops over the vectors of
/// kernels/host/operands/simd.hpp: `activation_avx512::activate<Avx512Zmm,
/// Activation::silu>(vectors, parameters)` of an array of them.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/activation_constants.hpp"
#include "kernels/activation_tables.hpp"
#include "kernels/host/layer/activation.hpp"
#include "kernels/host/operands/simd.hpp"

namespace spjit {

namespace activation_avx512 {
#define SPJIT_ACTIVATION_INLINE SPJIT_AVX512_INLINE
#include "kernels/host/layer/activation_vectors.inc"
#undef SPJIT_ACTIVATION_INLINE
}  // namespace activation_avx512

namespace activation_avx2 {
#define SPJIT_ACTIVATION_INLINE SPJIT_AVX2_INLINE
#include "kernels/host/layer/activation_vectors.inc"
#undef SPJIT_ACTIVATION_INLINE
}  // namespace activation_avx2

}  // namespace spjit
