#include "kernels/host/operands/magnitude.hpp"

#include <bit>

#include "kernels/dense_bits.hpp"

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 says it of the registers that its own header leaves undefined (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace spjit {
namespace {

namespace look_avx512 {
#define SPJIT_LOOK_TARGET SPJIT_AVX512_TARGET
#include "kernels/host/operands/magnitude.inc"
#undef SPJIT_LOOK_TARGET
}  // namespace look_avx512

namespace look_avx2 {
#define SPJIT_LOOK_TARGET SPJIT_AVX2_TARGET
#include "kernels/host/operands/magnitude.inc"
#undef SPJIT_LOOK_TARGET
}  // namespace look_avx2

}  // namespace

bool takes(const Magnitude& seen, float least_b) noexcept {
  return seen.least >= std::bit_cast<std::uint32_t>(least_b) && seen.most < k_endless_bits;
}

Magnitude look_at(HostIsa isa, const float* b, std::int64_t ldb, std::int64_t rows,
                  std::int64_t columns) {
  if (isa == HostIsa::avx512) {
    return look_avx512::look_with<Avx512Zmm, Avx512Magnitudes>(b, ldb, rows, columns);
  }
  return look_avx2::look_with<Avx2Ymm, Avx2Magnitudes>(b, ldb, rows, columns);
}

}  // namespace spjit
