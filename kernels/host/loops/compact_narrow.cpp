// The loops of the family `compact` over values that are no floats.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/arithmetic.hpp"
#include "kernels/host/loops/compact_panels.hpp"
#include "kernels/host/operands/simd.hpp"

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 says it of the registers that its own header leaves undefined (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace spjit::compact {
namespace {

/// A shuffle of bytes that makes a float in each four of them of the bf16 of a lane.
constexpr std::int32_t bytes_of_lane(int lane) {
  constexpr std::int32_t k_zeros = 0x8080;
  return k_zeros | (2 * lane) << 16 | (2 * lane + 1) << 24;
}

template <class Bits>
SPJIT_AVX2_INLINE std::int64_t bits_of_four(const Bits* from) {
  std::int64_t bits = 0;
  std::memcpy(&bits, from, 4 * sizeof(Bits));
  return bits;
}
template <class Bits>
SPJIT_AVX2_INLINE __m128i four_of(const Bits* from) {
  return _mm_cvtsi64_si128(bits_of_four(from));
}

SPJIT_AVX2_INLINE float widened_bf16(std::uint16_t value) {
  return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(value << 16)));
}
SPJIT_AVX2_INLINE float widened_f16(std::uint16_t value) {
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(value)));
}

namespace narrow_avx512 {
#define SPJIT_COMPACT_TARGET SPJIT_AVX512BW_TARGET
#define SPJIT_COMPACT_INLINE SPJIT_AVX512BW_INLINE

using Zmm = Avx512Zmm;
using Ymm = Avx512Ymm;
constexpr std::size_t k_vectors_of_eight_rows = 2;
constexpr bool k_fma_broadcasts = true;
constexpr bool k_has_masks = true;

#include "kernels/host/loops/compact_rows.inc"
#include "kernels/host/loops/compact_wide.inc"

/// bf16, of which one shuffle makes the floats of a lane.
template <class Isa>
struct Bf16;

template <>
struct Bf16<Zmm> : Zmm {
  using Value = std::uint16_t;
  using Zmm::broadcast;
  SPJIT_COMPACT_INLINE static Vector broadcast(Value value) {
    return Zmm::broadcast(widened_bf16(value));
  }
  SPJIT_COMPACT_INLINE static __m512i weights(const Value* step) {
    return _mm512_castsi128_si512(_mm_load_si128(reinterpret_cast<const __m128i*>(step)));
  }
  SPJIT_COMPACT_INLINE static Vector weight(__m512i weights, int lane) {
    const __m512i lanes = _mm512_set1_epi16(static_cast<std::int16_t>(lane));
    return _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xAAAAAAAA, lanes, weights));
  }
  SPJIT_COMPACT_INLINE static __m512i four(const Value* from) {
    return _mm512_set1_epi64(bits_of_four(from));
  }
  SPJIT_COMPACT_INLINE static Vector weight_of_four(__m512i four, int lane) {
    return _mm512_castsi512_ps(_mm512_shuffle_epi8(four, _mm512_set1_epi32(bytes_of_lane(lane))));
  }
};

template <>
struct Bf16<Ymm> : Ymm {
  using Value = std::uint16_t;
  using Ymm::broadcast;
  SPJIT_COMPACT_INLINE static Vector broadcast(Value value) {
    return Ymm::broadcast(widened_bf16(value));
  }
  SPJIT_COMPACT_INLINE static __m256i weights(const Value* step) {
    return _mm256_castsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(step)));
  }
  SPJIT_COMPACT_INLINE static Vector weight(__m256i weights, int lane) {
    const __m256i lanes = _mm256_set1_epi16(static_cast<std::int16_t>(lane));
    return _mm256_castsi256_ps(_mm256_maskz_permutexvar_epi16(0xAAAA, lanes, weights));
  }
  SPJIT_COMPACT_INLINE static __m256i four(const Value* from) {
    return _mm256_set1_epi64x(bits_of_four(from));
  }
  SPJIT_COMPACT_INLINE static Vector weight_of_four(__m256i four, int lane) {
    return _mm256_castsi256_ps(_mm256_shuffle_epi8(four, _mm256_set1_epi32(bytes_of_lane(lane))));
  }
};

SPJIT_COMPACT_INLINE __m512 as_weights(__m256 eight, Zmm /*isa*/) {
  return _mm512_castps256_ps512(eight);
}
SPJIT_COMPACT_INLINE __m256 as_weights(__m256 eight, Ymm /*isa*/) { return eight; }
SPJIT_COMPACT_INLINE __m512 as_four(__m128 four, Zmm /*isa*/) {
  return _mm512_broadcast_f32x4(four);
}
SPJIT_COMPACT_INLINE __m256 as_four(__m128 four, Ymm /*isa*/) {
  return _mm256_broadcast_f32x4(four);
}

/// f16, widened as they are loaded.
template <class Isa>
struct F16 : Isa {
  using Value = std::uint16_t;
  using Vector = typename Isa::Vector;
  using Isa::broadcast;
  SPJIT_COMPACT_INLINE static Vector broadcast(Value value) {
    return Isa::broadcast(widened_f16(value));
  }
  SPJIT_COMPACT_INLINE static Vector weights(const Value* step) {
    const __m128i eight = _mm_load_si128(reinterpret_cast<const __m128i*>(step));
    return as_weights(_mm256_cvtph_ps(eight), Isa());
  }
  SPJIT_COMPACT_INLINE static Vector four(const Value* from) {
    return as_four(_mm_cvtph_ps(four_of(from)), Isa());
  }
};

/// Integers, widened as they are loaded.
template <class Isa>
struct I8 : Isa {
  using Value = std::int8_t;
  using Vector = typename Isa::Vector;
  using Isa::broadcast;
  SPJIT_COMPACT_INLINE static Vector broadcast(Value value) {
    return Isa::broadcast(static_cast<float>(value));
  }
  SPJIT_COMPACT_INLINE static Vector weights(const Value* step) {
    const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(step));
    return as_weights(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight)), Isa());
  }
  SPJIT_COMPACT_INLINE static Vector four(const Value* from) {
    return as_four(_mm_cvtepi32_ps(_mm_cvtepi8_epi32(four_of(from))), Isa());
  }
};

template <template <class> class Of, bool HasGroups = false>
RunBlock kernel_for(std::int64_t columns) {
  if (columns <= 8) return run_block<Of<Ymm>, Packed, 1, HasGroups>;
  if (columns <= 16) return run_block<Of<Zmm>, Packed, 1, HasGroups>;
  if (columns <= 32) return run_block<Of<Zmm>, Packed, 2, HasGroups>;
  if (columns <= 48) return run_block<Of<Zmm>, Packed, 3, HasGroups>;
  return run_block<Of<Zmm>, Packed, 4, HasGroups>;
}

/// Rows of packed B are as long as a panel of so many columns has them.
template <template <class> class Of, bool HasGroups = false>
RunBlock wide_kernel_for(std::int64_t columns) {
  if (columns <= 8) return run_block_of_rows<Of<Ymm>, PackedRows<8>, 1, HasGroups>;
  if (columns <= 16) return run_block_of_rows<Of<Zmm>, PackedRows<16>, 1, HasGroups>;
  if (columns <= 32) return run_block_of_rows<Of<Zmm>, PackedRows<32>, 2, HasGroups>;
  if (columns <= 48) return run_block_of_rows<Of<Zmm>, PackedRows<64>, 3, HasGroups>;
  return run_block_of_rows<Of<Zmm>, PackedRows<64>, 4, HasGroups>;
}

template <template <class> class Of>
constexpr Kernels k_kernels = {whole_panels, 16,      in_planes, kernel_for<Of>,
                               nullptr,      nullptr, nullptr,   nullptr};
template <template <class> class Of>
constexpr Kernels k_wide_kernels = {even_panels<Zmm::k_floats>,
                                    16,
                                    in_rows,
                                    wide_kernel_for<Of>,
                                    nullptr,
                                    nullptr,
                                    nullptr,
                                    nullptr};
constexpr Kernels k_integer_kernels = with_groups(k_kernels<I8>, kernel_for<I8, true>);
constexpr Kernels k_wide_integer_kernels =
    with_groups(k_wide_kernels<I8>, wide_kernel_for<I8, true>);

template <template <class> class Of>
const Kernels& kernels_of(CompactOrder order) {
  return order == CompactOrder::rows ? k_wide_kernels<Of> : k_kernels<Of>;
}

const Kernels& kernels_of(HeldType type, CompactOrder order) {
  if (type == HeldType::bf16) return kernels_of<Bf16>(order);
  if (type == HeldType::f16) return kernels_of<F16>(order);
  return order == CompactOrder::rows ? k_wide_integer_kernels : k_integer_kernels;
}

#undef SPJIT_COMPACT_TARGET
#undef SPJIT_COMPACT_INLINE
}  // namespace narrow_avx512

namespace narrow_avx2 {
#define SPJIT_COMPACT_TARGET SPJIT_AVX2_TARGET
#define SPJIT_COMPACT_INLINE SPJIT_AVX2_INLINE

using Ymm = Avx2Ymm;
constexpr std::size_t k_vectors_of_eight_rows = 1;
constexpr bool k_fma_broadcasts = false;
constexpr bool k_has_masks = false;

#include "kernels/host/loops/compact_rows.inc"
#include "kernels/host/loops/compact_wide.inc"

/// Four floats each in both halves.
SPJIT_COMPACT_INLINE Ymm::Weights in_both_halves(__m256 eight) {
  return {_mm256_permute2f128_ps(eight, eight, 0x00), _mm256_permute2f128_ps(eight, eight, 0x11)};
}
SPJIT_COMPACT_INLINE __m256 in_both_halves(__m128 four) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(four), four, 1);
}

/// bf16, of which a shuffle of bytes makes floats.
struct Bf16 : Ymm {
  using Value = std::uint16_t;
  using Ymm::broadcast;
  SPJIT_COMPACT_INLINE static Vector broadcast(Value value) {
    return Ymm::broadcast(widened_bf16(value));
  }
  /// Four from a lane on.
  SPJIT_COMPACT_INLINE static Vector widened(__m256i halves, int lane) {
    const __m128i bytes = _mm_setr_epi32(bytes_of_lane(lane), bytes_of_lane(lane + 1),
                                         bytes_of_lane(lane + 2), bytes_of_lane(lane + 3));
    return _mm256_castsi256_ps(_mm256_shuffle_epi8(halves, _mm256_broadcastsi128_si256(bytes)));
  }
  SPJIT_COMPACT_INLINE static Weights weights(const Value* step) {
    const __m256i eight =
        _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(step)));
    return {widened(eight, 0), widened(eight, 4)};
  }
  SPJIT_COMPACT_INLINE static Vector four(const Value* from) {
    return widened(_mm256_set1_epi64x(bits_of_four(from)), 0);
  }
};

/// f16, widened as they are loaded.
struct F16 : Ymm {
  using Value = std::uint16_t;
  using Ymm::broadcast;
  SPJIT_COMPACT_INLINE static Vector broadcast(Value value) {
    return Ymm::broadcast(widened_f16(value));
  }
  SPJIT_COMPACT_INLINE static Weights weights(const Value* step) {
    const __m128i eight = _mm_load_si128(reinterpret_cast<const __m128i*>(step));
    return in_both_halves(_mm256_cvtph_ps(eight));
  }
  SPJIT_COMPACT_INLINE static Vector four(const Value* from) {
    return in_both_halves(_mm_cvtph_ps(four_of(from)));
  }
};

/// Integers, widened as they are loaded.
struct I8 : Ymm {
  using Value = std::int8_t;
  using Ymm::broadcast;
  SPJIT_COMPACT_INLINE static Vector broadcast(Value value) {
    return Ymm::broadcast(static_cast<float>(value));
  }
  SPJIT_COMPACT_INLINE static Weights weights(const Value* step) {
    const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(step));
    return in_both_halves(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight)));
  }
  SPJIT_COMPACT_INLINE static Vector four(const Value* from) {
    return in_both_halves(_mm_cvtepi32_ps(_mm_cvtepi8_epi32(four_of(from))));
  }
};

template <class Of, bool HasGroups = false>
RunBlock kernel_for(std::int64_t columns) {
  return columns <= 8 ? run_block<Of, Packed, 1, HasGroups> : run_block<Of, Packed, 2, HasGroups>;
}

/// Rows of packed B are as long as a panel of so many columns has them.
template <class Of, bool HasGroups = false>
RunBlock wide_kernel_for(std::int64_t columns) {
  static constexpr std::array<RunBlock, 8> k_of_vectors = {
      run_block_of_rows<Of, PackedRows<8>, 1, HasGroups>,
      run_block_of_rows<Of, PackedRows<16>, 2, HasGroups>,
      run_block_of_rows<Of, PackedRows<32>, 3, HasGroups>,
      run_block_of_rows<Of, PackedRows<32>, 4, HasGroups>,
      run_block_of_rows<Of, PackedRows<64>, 5, HasGroups>,
      run_block_of_rows<Of, PackedRows<64>, 6, HasGroups>,
      run_block_of_rows<Of, PackedRows<64>, 7, HasGroups>,
      run_block_of_rows<Of, PackedRows<64>, 8, HasGroups>};
  return k_of_vectors[to_size(ceil_div(columns, Ymm::k_floats) - 1)];
}

template <class Of>
constexpr Kernels k_kernels = {narrow_panels, 8,       in_planes, kernel_for<Of>,
                               nullptr,       nullptr, nullptr,   nullptr};
template <class Of>
constexpr Kernels k_wide_kernels = {even_panels<Ymm::k_floats>,
                                    8,
                                    in_rows,
                                    wide_kernel_for<Of>,
                                    nullptr,
                                    nullptr,
                                    nullptr,
                                    nullptr};
constexpr Kernels k_integer_kernels = with_groups(k_kernels<I8>, kernel_for<I8, true>);
constexpr Kernels k_wide_integer_kernels =
    with_groups(k_wide_kernels<I8>, wide_kernel_for<I8, true>);

template <class Of>
const Kernels& kernels_of(CompactOrder order) {
  return order == CompactOrder::rows ? k_wide_kernels<Of> : k_kernels<Of>;
}

const Kernels& kernels_of(HeldType type, CompactOrder order) {
  if (type == HeldType::bf16) return kernels_of<Bf16>(order);
  if (type == HeldType::f16) return kernels_of<F16>(order);
  return order == CompactOrder::rows ? k_wide_integer_kernels : k_integer_kernels;
}

#undef SPJIT_COMPACT_TARGET
#undef SPJIT_COMPACT_INLINE
}  // namespace narrow_avx2

}  // namespace

const Kernels& narrow_kernels_of(HostIsa isa, HeldType type, CompactOrder order) {
  return isa == HostIsa::avx512 ? narrow_avx512::kernels_of(type, order)
                                : narrow_avx2::kernels_of(type, order);
}

}  // namespace spjit::compact
