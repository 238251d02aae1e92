#include "kernels/host/byte_windows/byte_mask_loops.hpp"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/arithmetic.hpp"
#include "kernels/host/byte_windows/byte_masks.hpp"

#define SPJIT_MASKS_TARGET                                                           \
  __attribute__((                                                                    \
      target("avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,avx512vnni," \
             "avx2,fma,popcnt")))
#define SPJIT_MASKS_INLINE SPJIT_MASKS_TARGET __attribute__((always_inline)) inline
#define SPJIT_MASKS_LAMBDA SPJIT_MASKS_TARGET __attribute__((always_inline))

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 says it of the registers that its own header leaves undefined (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace spjit {
namespace {

using Mask = ColumnMask;

constexpr std::size_t k_block_bytes = MaskedBytes::k_block;  // of a token
constexpr std::size_t k_lanes = k_scaled_lanes;

/// Values of two rows in their places; in those of none there is `empty`.
struct RowPair {
  __m512i first;
  __m512i second;
};

/// A row's values follow those of the row before it.
struct Bytes {
  static constexpr int k_factor_bits = 0;  ///< of what values are taken times

  SPJIT_MASKS_INLINE static RowPair load(const std::uint8_t* from, Mask first, Mask second,
                                         __m512i empty) {
    const __m512i values = _mm512_loadu_si512(from);
    const __m512i next = _mm512_loadu_si512(from + _mm_popcnt_u64(first));
    return {_mm512_mask_expand_epi8(empty, first, values),
            _mm512_mask_expand_epi8(empty, second, next)};
  }
  SPJIT_MASKS_INLINE static std::ptrdiff_t size(Mask first, Mask second) {
    return static_cast<std::ptrdiff_t>(_mm_popcnt_u64(first) + _mm_popcnt_u64(second));
  }
};

/// A byte has a value of one row in its low four bits and one of another row in its high ones. Both
/// are taken times 16.
struct Nibbles {
  static constexpr int k_factor_bits = 4;

  SPJIT_MASKS_INLINE static RowPair load(const std::uint8_t* from, Mask first, Mask second,
                                         __m512i empty) {
    const __m512i high = _mm512_set1_epi8(static_cast<char>(0xF0));
    const __m512i values = _mm512_loadu_si512(from);
    const __m512i low = _mm512_and_si512(_mm512_slli_epi16(values, 4), high);
    return {_mm512_mask_expand_epi8(empty, first, low),
            _mm512_mask_expand_epi8(empty, second, _mm512_and_si512(values, high))};
  }
  SPJIT_MASKS_INLINE static std::ptrdiff_t size(Mask first, Mask second) {
    return static_cast<std::ptrdiff_t>(std::max(_mm_popcnt_u64(first), _mm_popcnt_u64(second)));
  }
};

/// Asks for a line long before its use. It need not be there. Nearer ones come from memory too
/// late: with 2 KB a pass takes 1.1 times as long.
__attribute__((always_inline)) inline void fetch_masked(const std::uint8_t* bytes) {
  constexpr std::ptrdiff_t k_bytes_ahead = 4096;
  _mm_prefetch(bytes + k_bytes_ahead, _MM_HINT_T0);
}

SPJIT_MASKS_INLINE Mask mask_at(const std::uint8_t* masks, std::size_t row) {
  Mask mask = 0;
  std::memcpy(&mask, masks + row * sizeof(Mask), sizeof(Mask));
  return mask;
}

/// Of int32 the sums wrap around, and back, as a whole sum fits.
void store_sum(const MaskedPass& pass, std::int64_t row, std::size_t token, std::int32_t products) {
  const auto correction =
      static_cast<std::uint32_t>(pass.zero_point) * static_cast<std::uint32_t>(pass.row_sums[row]);
  const auto sum = static_cast<std::int32_t>(static_cast<std::uint32_t>(products) - correction);
  const auto bits = pass.has_floats ? std::bit_cast<std::int32_t>(static_cast<float>(sum)) : sum;
  std::memcpy(pass.c + row * pass.row_bytes + static_cast<std::int64_t>(token) * pass.token_bytes,
              &bits, sizeof(bits));
}

/// The masks of a block.
template <std::size_t Lanes>
__attribute__((always_inline)) inline void fetch_masks(const std::uint8_t* masks) {
  constexpr std::size_t k_line = 64;
  for (std::size_t at = 0; at < Lanes * sizeof(Mask); at += k_line) fetch_masked(masks + at);
}
/// The values of two rows, at most.
template <class Values>
__attribute__((always_inline)) inline void fetch_values(const std::uint8_t* values) {
  fetch_masked(values);
  if constexpr (Values::k_factor_bits == 0) fetch_masked(values + 64);
}

template <class Values, std::size_t Lanes, std::size_t Tokens>
SPJIT_MASKS_TARGET void run_masks(const MaskedPass& pass) {
  const std::uint8_t* at = pass.stream;
  for (std::int64_t group = 0; group < pass.groups; ++group) {
    __m512i sums[Lanes][Tokens];
    for (auto& of_row : sums) {
      for (__m512i& sum : of_row) sum = _mm512_setzero_si512();
    }
    const std::uint8_t* b = pass.b;
    for (std::int64_t block = 0; block < pass.blocks; ++block, b += k_block_bytes) {
      __m512i x[Tokens];
#pragma GCC unroll 4
      for (std::size_t j = 0; j < Tokens; ++j) {
        x[j] = _mm512_loadu_si512(b + static_cast<std::ptrdiff_t>(j) * pass.distance);
      }
      const std::uint8_t* values = at + Lanes * sizeof(Mask);
      fetch_masks<Lanes>(at);
#pragma GCC unroll 4
      for (std::size_t row = 0; row < Lanes; row += 2) {
        const Mask first = mask_at(at, row);
        const Mask second = mask_at(at, row + 1);
        fetch_values<Values>(values);
        const RowPair w = Values::load(values, first, second, _mm512_setzero_si512());
        values += Values::size(first, second);
#pragma GCC unroll 4
        for (std::size_t j = 0; j < Tokens; ++j) {
          sums[row][j] = _mm512_dpbusd_epi32(sums[row][j], x[j], w.first);
          sums[row + 1][j] = _mm512_dpbusd_epi32(sums[row + 1][j], x[j], w.second);
        }
      }
      at = values;
    }
    const std::int64_t first = pass.first_row + group * static_cast<std::int64_t>(Lanes);
    const std::int64_t rows = std::min(static_cast<std::int64_t>(Lanes), pass.rows - first);
    alignas(64) std::array<std::int32_t, Lanes * Tokens> totals;
#pragma GCC unroll 8
    for (std::size_t row = 0; row < Lanes; ++row) {
#pragma GCC unroll 4
      for (std::size_t j = 0; j < Tokens; ++j) {
        totals[row * Tokens + j] = _mm512_reduce_add_epi32(sums[row][j]) >> Values::k_factor_bits;
      }
    }
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::size_t j = 0; j < Tokens; ++j) {
        store_sum(pass, first + row, j, totals[to_size(row) * Tokens + j]);
      }
    }
  }
}

/// Sums of 16 vectors, of the columns of each half of a block.
struct HalfSums {
  __m512i first;
  __m512i second;
};

SPJIT_MASKS_INLINE __m512i pair_sums(__m512i a, __m512i b) {
  return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}
SPJIT_MASKS_INLINE __m512i four_sums(const __m512i* of) {
  const __m512i low = pair_sums(of[0], of[1]);
  const __m512i high = pair_sums(of[2], of[3]);
  return _mm512_add_epi32(_mm512_unpacklo_epi64(low, high), _mm512_unpackhi_epi64(low, high));
}
/// Quarters of two, each the sum of two that are neighbours.
SPJIT_MASKS_INLINE __m512i quarter_sums(__m512i a, __m512i b) {
  return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xDD));
}
/// Lane i has the sums of vector i.
SPJIT_MASKS_INLINE HalfSums sums_of_rows(const __m512i* of) {
  const __m512i low = quarter_sums(four_sums(of), four_sums(of + 4));
  const __m512i high = quarter_sums(four_sums(of + 8), four_sums(of + 12));
  return {_mm512_shuffle_i32x4(low, high, 0x88), _mm512_shuffle_i32x4(low, high, 0xDD)};
}

SPJIT_MASKS_INLINE __m512 scales_at(const MaskedScales& scales, std::int64_t index) {
  const std::int64_t first = index * static_cast<std::int64_t>(k_lanes);
  if (scales.type == DataType::f32) return _mm512_loadu_ps(scales.data + first * 4);
  const __m256i halves =
      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(scales.data + first * 2));
  if (scales.type == DataType::f16) return _mm512_cvtph_ps(halves);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

/// A token's bytes of a block as a loop multiplies them, and what its sums begin with.
struct TokenBlock {
  __m512i x;
  __m512i begin;
};

/// The products of bytes less a zero point with weights that have k_empty added.
///
/// A zero point of 128 makes B i8. Its products with weights as unsigned bytes have k_empty times B
/// in excess, whatever the row. Else weights are signed, and products of each row with the zero
/// point are in excess.
template <bool IsCentred>
struct ScaledProducts {
  static constexpr char k_empty = static_cast<char>(0x80);

  __m512i zero_points;

  SPJIT_MASKS_INLINE TokenBlock read(const std::uint8_t* b) const {
    const __m512i bytes = _mm512_loadu_si512(b);
    if constexpr (!IsCentred) return {bytes, _mm512_setzero_si512()};
    const __m512i x = _mm512_xor_si512(bytes, _mm512_set1_epi8(k_empty));
    const __m512i excess =
        _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(k_empty), x);
    return {x, _mm512_sub_epi32(_mm512_setzero_si512(), excess)};
  }
  SPJIT_MASKS_INLINE __m512i add(__m512i sums, const TokenBlock& token, __m512i w) const {
    if constexpr (IsCentred) return _mm512_dpbusd_epi32(sums, w, token.x);
    const __m512i is_signed = _mm512_xor_si512(w, _mm512_set1_epi8(k_empty));
    const __m512i excess = _mm512_dpbusd_epi32(_mm512_setzero_si512(), zero_points, is_signed);
    return _mm512_sub_epi32(_mm512_dpbusd_epi32(sums, token.x, is_signed), excess);
  }
};

/// The weights of a block, row after row, to `on_pair(row, weights of it and of the next one)`.
template <class Values, class OnPair>
SPJIT_MASKS_INLINE const std::uint8_t* read_block(const std::uint8_t* at, const OnPair& on_pair) {
  const std::uint8_t* values = at + k_lanes * sizeof(Mask);
  fetch_masks<k_lanes>(at);
  const __m512i empty = _mm512_set1_epi8(ScaledProducts<true>::k_empty);
#pragma GCC unroll 8
  for (std::size_t row = 0; row < k_lanes; row += 2) {
    const Mask first = mask_at(at, row);
    const Mask second = mask_at(at, row + 1);
    fetch_values<Values>(values);
    on_pair(row, Values::load(values, first, second, empty));
    values += Values::size(first, second);
  }
  return values;
}

/// The scales of a block's one group of columns, or of its two.
struct BlockScales {
  __m512 first;
  __m512 second;
  bool has_halves;
  bool has_second;

  /// Adds the sums of 16 rows times them, each product by one FMA.
  template <class Values>
  SPJIT_MASKS_INLINE __m512 add(const __m512i* sums, __m512 totals) const {
    const HalfSums halves = sums_of_rows(sums);
    if (!has_halves) {
      return added<Values>(first, _mm512_add_epi32(halves.first, halves.second), totals);
    }
    totals = added<Values>(first, halves.first, totals);
    return has_second ? added<Values>(second, halves.second, totals) : totals;
  }

 private:
  template <class Values>
  SPJIT_MASKS_INLINE static __m512 added(__m512 scales, __m512i sums, __m512 totals) {
    const __m512i whole = _mm512_srai_epi32(sums, Values::k_factor_bits);
    return _mm512_fmadd_ps(scales, _mm512_cvtepi32_ps(whole), totals);
  }
};

/// Of the block that begins with the columns of scale `first`.
SPJIT_MASKS_INLINE BlockScales block_scales(const MaskedScales& scales, std::int64_t first,
                                            std::int64_t end) {
  const bool has_halves = scales.group_columns == MaskedBytes::k_block / 2;
  BlockScales result{scales_at(scales, first), _mm512_setzero_ps(), has_halves,
                     has_halves && first + 1 < end};
  if (result.has_second) result.second = scales_at(scales, first + 1);
  return result;
}

/// The rows' scaled sums of a token to C.
SPJIT_MASKS_INLINE void store_scaled(const MaskedPass& pass, std::int64_t group, std::size_t token,
                                     __m512 totals) {
  const std::int64_t first = pass.first_row + group * k_scaled_lanes;
  const std::int64_t rows = std::min(k_scaled_lanes, pass.rows - first);
  alignas(64) std::array<float, k_lanes> of_rows;
  _mm512_store_ps(of_rows.data(), totals);
  std::byte* c =
      pass.c + first * pass.row_bytes + static_cast<std::int64_t>(token) * pass.token_bytes;
  for (std::int64_t row = 0; row < rows; ++row, c += pass.row_bytes) {
    std::memcpy(c, &of_rows[to_size(row)], sizeof(float));
  }
}

/// Groups of columns in order. Those of two blocks are summed up before the second one's scale.
template <class Values, bool IsCentred>
SPJIT_MASKS_TARGET void run_scaled_masks(const MaskedPass& pass, const MaskedScales& scales) {
  const std::uint8_t* at = pass.stream;
  const ScaledProducts<IsCentred> products{_mm512_set1_epi8(static_cast<char>(pass.zero_point))};
  const std::size_t tokens = to_size(pass.tokens);
  const bool has_halves = scales.group_columns == MaskedBytes::k_block / 2;
  const bool has_pairs = scales.group_columns == MaskedBytes::k_block * 2;
  for (std::int64_t group = 0; group < pass.groups; ++group) {
    __m512 totals[k_scaled_pass];
    __m512i sums[k_scaled_pass][k_lanes];
    for (std::size_t j = 0; j < tokens; ++j) totals[j] = _mm512_setzero_ps();
    std::int64_t scale = group * scales.column_groups;
    const std::int64_t last_scale = scale + scales.column_groups;
    const std::uint8_t* b = pass.b;
    for (std::int64_t block = 0; block < pass.blocks; ++block, b += k_block_bytes) {
      const bool is_second = has_pairs && block % 2 == 1;
      const bool goes_on = has_pairs && !is_second && block + 1 < pass.blocks;
      __m512i w[k_lanes];
      at = read_block<Values>(at, [&](std::size_t row, const RowPair& pair) SPJIT_MASKS_LAMBDA {
        w[row] = pair.first;
        w[row + 1] = pair.second;
      });
      const BlockScales of_block = block_scales(scales, scale, last_scale);
      for (std::size_t j = 0; j < tokens; ++j) {
        const TokenBlock token = products.read(b + static_cast<std::ptrdiff_t>(j) * pass.distance);
#pragma GCC unroll 16
        for (std::size_t row = 0; row < k_lanes; ++row) {
          const __m512i begin =
              is_second ? _mm512_add_epi32(sums[j][row], token.begin) : token.begin;
          sums[j][row] = products.add(begin, token, w[row]);
        }
        if (!goes_on) totals[j] = of_block.add<Values>(sums[j], totals[j]);
      }
      if (!goes_on) scale += has_halves ? 2 : 1;
    }
    for (std::size_t j = 0; j < tokens; ++j) store_scaled(pass, group, j, totals[j]);
  }
}

/// The same for one token, whose sums stay in registers.
template <class Values, bool IsCentred>
SPJIT_MASKS_TARGET void run_scaled_masks_once(const MaskedPass& pass, const MaskedScales& scales) {
  const std::uint8_t* at = pass.stream;
  const ScaledProducts<IsCentred> products{_mm512_set1_epi8(static_cast<char>(pass.zero_point))};
  const bool has_halves = scales.group_columns == MaskedBytes::k_block / 2;
  const bool has_pairs = scales.group_columns == MaskedBytes::k_block * 2;
  for (std::int64_t group = 0; group < pass.groups; ++group) {
    __m512 totals = _mm512_setzero_ps();
    __m512i sums[k_lanes];
    std::int64_t scale = group * scales.column_groups;
    const std::int64_t last_scale = scale + scales.column_groups;
    const std::uint8_t* b = pass.b;
    for (std::int64_t block = 0; block < pass.blocks; ++block, b += k_block_bytes) {
      const TokenBlock token = products.read(b);
      const bool is_second = has_pairs && block % 2 == 1;
#pragma GCC unroll 16
      for (__m512i& sum : sums) sum = is_second ? _mm512_add_epi32(sum, token.begin) : token.begin;
      at = read_block<Values>(at, [&](std::size_t row, const RowPair& w) SPJIT_MASKS_LAMBDA {
        sums[row] = products.add(sums[row], token, w.first);
        sums[row + 1] = products.add(sums[row + 1], token, w.second);
      });
      if (has_pairs && !is_second && block + 1 < pass.blocks) continue;
      const BlockScales of_block = block_scales(scales, scale, last_scale);
      totals = of_block.add<Values>(sums, totals);
      scale += has_halves ? 2 : 1;
    }
    store_scaled(pass, group, 0, totals);
  }
}

template <class Values>
RunScaledMasks scaled_kernel_of_values(const MaskedPass& pass) {
  const bool is_centred = pass.zero_point == 128;
  if (pass.tokens == 1) {
    return is_centred ? run_scaled_masks_once<Values, true> : run_scaled_masks_once<Values, false>;
  }
  return is_centred ? run_scaled_masks<Values, true> : run_scaled_masks<Values, false>;
}

template <class Values>
RunMasks kernel_of_values(std::int64_t lanes, std::int64_t tokens) {
  if (lanes == k_many_lanes) {
    return tokens == 1 ? run_masks<Values, k_many_lanes, 1> : run_masks<Values, k_many_lanes, 2>;
  }
  constexpr std::array<RunMasks, k_pass_of_few_lanes> k_kernels = {
      run_masks<Values, k_few_lanes, 1>, run_masks<Values, k_few_lanes, 2>,
      run_masks<Values, k_few_lanes, 3>, run_masks<Values, k_few_lanes, 4>};
  return k_kernels[to_size(tokens - 1)];
}

}  // namespace

RunMasks masks_kernel(bool has_nibbles, std::int64_t lanes, std::int64_t tokens) {
  return has_nibbles ? kernel_of_values<Nibbles>(lanes, tokens)
                     : kernel_of_values<Bytes>(lanes, tokens);
}

RunScaledMasks scaled_masks_kernel(bool has_nibbles, const MaskedPass& pass) {
  return has_nibbles ? scaled_kernel_of_values<Nibbles>(pass)
                     : scaled_kernel_of_values<Bytes>(pass);
}

}  // namespace spjit
