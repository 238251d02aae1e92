#include "kernels/host/operands/finish.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "kernels/host/layer/activation_vectors.hpp"
#include "kernels/host/operands/simd_transpose.hpp"

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 says it of the registers that its own header leaves undefined (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace spjit {
namespace {

namespace finish_avx512 {
#define SPJIT_TRANSPOSE_TARGET SPJIT_AVX512_TARGET
#define SPJIT_TRANSPOSE_INLINE SPJIT_AVX512_INLINE
#define SPJIT_MAP_ROWS_TARGET SPJIT_AVX512_TARGET
#define SPJIT_MAP_ROWS_INLINE SPJIT_AVX512_INLINE
#define SPJIT_FINISH_TARGET SPJIT_AVX512_TARGET
#define SPJIT_FINISH_INLINE SPJIT_AVX512_INLINE

using activation_avx512::activate;

#include "kernels/host/operands/finish.inc"
#include "kernels/host/operands/map_rows.inc"
#include "kernels/host/operands/transpose.inc"

#undef SPJIT_TRANSPOSE_TARGET
#undef SPJIT_TRANSPOSE_INLINE
#undef SPJIT_MAP_ROWS_TARGET
#undef SPJIT_MAP_ROWS_INLINE
#undef SPJIT_FINISH_TARGET
#undef SPJIT_FINISH_INLINE
}  // namespace finish_avx512

namespace finish_avx2 {
#define SPJIT_TRANSPOSE_TARGET SPJIT_AVX2_TARGET
#define SPJIT_TRANSPOSE_INLINE SPJIT_AVX2_INLINE
#define SPJIT_MAP_ROWS_TARGET SPJIT_AVX2_TARGET
#define SPJIT_MAP_ROWS_INLINE SPJIT_AVX2_INLINE
#define SPJIT_FINISH_TARGET SPJIT_AVX2_TARGET
#define SPJIT_FINISH_INLINE SPJIT_AVX2_INLINE

using activation_avx2::activate;

#include "kernels/host/operands/finish.inc"
#include "kernels/host/operands/map_rows.inc"
#include "kernels/host/operands/transpose.inc"

#undef SPJIT_TRANSPOSE_TARGET
#undef SPJIT_TRANSPOSE_INLINE
#undef SPJIT_MAP_ROWS_TARGET
#undef SPJIT_MAP_ROWS_INLINE
#undef SPJIT_FINISH_TARGET
#undef SPJIT_FINISH_INLINE
}  // namespace finish_avx2

namespace finish_generic {
#define SPJIT_TRANSPOSE_TARGET
#define SPJIT_TRANSPOSE_INLINE inline
#define SPJIT_MAP_ROWS_TARGET
#define SPJIT_MAP_ROWS_INLINE inline
#define SPJIT_FINISH_TARGET
#define SPJIT_FINISH_INLINE inline

template <class Isa, Activation Kind, std::size_t Count>
void activate(typename Isa::Vector (&vectors)[Count], const ActivationParameters& parameters) {
  if (Kind == Activation::none) return;
  for (typename Isa::Vector& vector : vectors) {
    std::array<float, Isa::k_floats> floats{};
    Isa::store(floats.data(), vector);
    for (float& value : floats) value = spjit::activate(value, Kind, parameters);
    vector = Isa::load(floats.data());
  }
}

#include "kernels/host/operands/finish.inc"
#include "kernels/host/operands/map_rows.inc"
#include "kernels/host/operands/transpose.inc"

#undef SPJIT_TRANSPOSE_TARGET
#undef SPJIT_TRANSPOSE_INLINE
#undef SPJIT_MAP_ROWS_TARGET
#undef SPJIT_MAP_ROWS_INLINE
#undef SPJIT_FINISH_TARGET
#undef SPJIT_FINISH_INLINE
}  // namespace finish_generic

}  // namespace

void finish(const Finish& task, HostIsa isa) {
  if (isa == HostIsa::avx512) {
    finish_avx512::finish_with<Avx512Tile>(task);
  } else if (isa == HostIsa::avx2) {
    finish_avx2::finish_with<Avx2Tile>(task);
  } else {
    finish_generic::finish_with<GenericTile>(task);
  }
}

}  // namespace spjit
