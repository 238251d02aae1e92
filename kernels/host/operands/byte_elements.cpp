#include "kernels/host/operands/byte_elements.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "kernels/host/operands/byte_quotients.hpp"
#include "kernels/host/operands/simd_ints.hpp"

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 says it of the registers that its own header leaves undefined (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace spjit {
namespace {

namespace byte_elements_avx512 {
#define SPJIT_QUOTIENTS_INLINE SPJIT_AVX512_INLINE
#define SPJIT_QUOTIENTS_TARGET SPJIT_AVX512_TARGET

#include "kernels/host/operands/byte_elements.inc"

#undef SPJIT_QUOTIENTS_INLINE
#undef SPJIT_QUOTIENTS_TARGET
}  // namespace byte_elements_avx512

namespace byte_elements_avx2 {
#define SPJIT_QUOTIENTS_INLINE SPJIT_AVX2_INLINE
#define SPJIT_QUOTIENTS_TARGET SPJIT_AVX2_TARGET

#include "kernels/host/operands/byte_elements.inc"

#undef SPJIT_QUOTIENTS_INLINE
#undef SPJIT_QUOTIENTS_TARGET
}  // namespace byte_elements_avx2

template <class Byte>
void widen_bytes_of(const std::uint8_t* from, std::int64_t count, const ByteScale& scale,
                    float* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = number_of(std::bit_cast<Byte>(from[i]), scale);
}

}  // namespace

void quantize_floats(std::span<const float> from, const ByteScale& scale, DataType type,
                     std::uint8_t* to, HostIsa isa) {
  if (isa == HostIsa::generic) {
    for (const float value : from) *to++ = static_cast<std::uint8_t>(quantized(value, scale, type));
    return;
  }
  const QuotientBounds bounds = bounds_of(scale, type);
  if (isa == HostIsa::avx512) {
    byte_elements_avx512::quantize_all<Avx512Ints>(from, scale, bounds, to);
  } else {
    byte_elements_avx2::quantize_all<Avx2Ints>(from, scale, bounds, to);
  }
}

void widen_bytes(const std::uint8_t* from, std::int64_t count, const ByteScale& scale,
                 DataType type, float* to) {
  if (type == DataType::i8) {
    widen_bytes_of<std::int8_t>(from, count, scale, to);
  } else {
    widen_bytes_of<std::uint8_t>(from, count, scale, to);
  }
}

}  // namespace spjit
