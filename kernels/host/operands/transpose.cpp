#include "kernels/host/operands/transpose.hpp"

#include <algorithm>

#include "kernels/host/operands/simd_transpose.hpp"

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 says it of the registers that its own header leaves undefined (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace spjit {
namespace {

namespace transpose_avx512 {
#define SPJIT_TRANSPOSE_TARGET SPJIT_AVX512_TARGET
#define SPJIT_TRANSPOSE_INLINE SPJIT_AVX512_INLINE

#include "kernels/host/operands/transpose.inc"

#undef SPJIT_TRANSPOSE_TARGET
#undef SPJIT_TRANSPOSE_INLINE
}  // namespace transpose_avx512

namespace transpose_avx2 {
#define SPJIT_TRANSPOSE_TARGET SPJIT_AVX2_TARGET
#define SPJIT_TRANSPOSE_INLINE SPJIT_AVX2_INLINE

#include "kernels/host/operands/transpose.inc"

#undef SPJIT_TRANSPOSE_TARGET
#undef SPJIT_TRANSPOSE_INLINE
}  // namespace transpose_avx2

namespace transpose_generic {
#define SPJIT_TRANSPOSE_TARGET
#define SPJIT_TRANSPOSE_INLINE inline

#include "kernels/host/operands/transpose.inc"

#undef SPJIT_TRANSPOSE_TARGET
#undef SPJIT_TRANSPOSE_INLINE
}  // namespace transpose_generic

}  // namespace

void transpose(const IntoPanels& task, HostIsa isa) {
  // Half of a wider tile would be missing.
  const bool is_narrow = task.to.width <= Avx2Tile::k_rows;
  if (isa == HostIsa::avx512 && !is_narrow) {
    transpose_avx512::transpose_into_panels<Avx512Tile>(task, transpose_avx512::Unchanged());
  } else if (isa != HostIsa::generic) {
    transpose_avx2::transpose_into_panels<Avx2Tile>(task, transpose_avx2::Unchanged());
  } else {
    transpose_generic::transpose_into_panels<GenericTile>(task, transpose_generic::Unchanged());
  }
}

void transpose(const OutOfPanels& task, HostIsa isa) {
  if (isa == HostIsa::avx512) {
    transpose_avx512::transpose_out_of_panels<Avx512Tile>(task, transpose_avx512::Unchanged());
  } else if (isa == HostIsa::avx2) {
    transpose_avx2::transpose_out_of_panels<Avx2Tile>(task, transpose_avx2::Unchanged());
  } else {
    transpose_generic::transpose_out_of_panels<GenericTile>(task, transpose_generic::Unchanged());
  }
}

}  // namespace spjit
