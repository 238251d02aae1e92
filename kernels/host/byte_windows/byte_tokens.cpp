#include "kernels/host/byte_windows/byte_tokens.hpp"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "kernels/host/operands/simd.hpp"

namespace spjit {
namespace {

constexpr std::int64_t k_block_rows = 16;   // of B: bytes of a token that are stored at once
constexpr std::int64_t k_block_tokens = 8;  // those of a row that are loaded at once

/// Bytes that lie together.
SPJIT_AVX2_TARGET bool copy_bytes(const std::uint8_t* from, std::int64_t count,
                                  std::uint8_t flipped, std::uint8_t* to) {
  const __m256i mask = _mm256_set1_epi8(static_cast<char>(flipped));
  const __m256i least = _mm256_set1_epi8(static_cast<char>(k_byte_bias));
  __m256i seen = _mm256_setzero_si256();
  std::int64_t i = 0;
  for (; i + 32 <= count; i += 32) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
    seen = _mm256_or_si256(seen, _mm256_cmpeq_epi8(bytes, least));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm256_xor_si256(bytes, mask));
  }
  bool found = _mm256_testz_si256(seen, seen) == 0;
  for (; i < count; ++i) {
    found = found || from[i] == k_byte_bias;
    to[i] = static_cast<std::uint8_t>(from[i] ^ flipped);
  }
  return found;
}

/// Eight vectors in `Blocks` blocks, of which each becomes two: one of the first tokens of all
/// vectors and one of the last ones, bytes of both halves of the block in turn.
template <int Blocks>
SPJIT_AVX2_INLINE void halve_tokens(const __m128i* before, __m128i* after) {
  constexpr int k_half = 4 / Blocks;
#pragma GCC unroll 4
  for (int block = 0; block < Blocks; ++block) {
#pragma GCC unroll 4
    for (int i = 0; i < k_half; ++i) {
      const int at = block * 2 * k_half + i;
      after[at] = _mm_unpacklo_epi8(before[at], before[at + k_half]);
      after[at + k_half] = _mm_unpackhi_epi8(before[at], before[at + k_half]);
    }
  }
}

/// Up to eight tokens of sixteen rows of B, whose eight bytes can all be read.
SPJIT_AVX2_TARGET bool copy_block(const std::uint8_t* from, std::int64_t ld, std::uint8_t flipped,
                                  const ByteTokens& to) {
  const __m128i mask = _mm_set1_epi8(static_cast<char>(flipped));
  const __m128i least = _mm_set1_epi8(static_cast<char>(k_byte_bias));
  const auto eight = [&](std::int64_t row) {
    return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + row * ld));
  };
  // Rows i and i + 8, then i + 4 and i + 12 between them, and so on.
  __m128i by_two[8];
  __m128i by_four[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) by_two[i] = _mm_unpacklo_epi8(eight(i), eight(i + 8));
  halve_tokens<1>(by_two, by_four);
  halve_tokens<2>(by_four, by_two);
  halve_tokens<4>(by_two, by_four);  // a token each
  __m128i seen = _mm_setzero_si128();
  for (std::int64_t token = 0; token < to.count; ++token) {
    const __m128i bytes = by_four[token];
    seen = _mm_or_si128(seen, _mm_cmpeq_epi8(bytes, least));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to.data + token * to.stride),
                     _mm_xor_si128(bytes, mask));
  }
  return _mm_testz_si128(seen, seen) == 0;
}

/// Byte by byte.
bool copy_few(const std::uint8_t* from, std::int64_t ld, const RowRange& rows, std::uint8_t flipped,
              const ByteTokens& to) {
  bool found = false;
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    for (std::int64_t token = 0; token < to.count; ++token) {
      const std::uint8_t byte = from[row * ld + token];
      found = found || byte == k_byte_bias;
      to.data[token * to.stride + row] = static_cast<std::uint8_t>(byte ^ flipped);
    }
  }
  return found;
}

template <bool IsSigned>
SPJIT_AVX2_INLINE __m256 widened(const std::uint8_t* eight, __m256i zero_point) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(eight));
  const __m256i ints = IsSigned ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes);
  return _mm256_cvtepi32_ps(_mm256_sub_epi32(ints, zero_point));
}

/// Bytes that lie together, as whole vectors.
template <bool IsSigned>
SPJIT_AVX2_TARGET void widen_bytes(const std::uint8_t* from, std::int64_t count,
                                   std::int32_t zero_point, float* to) {
  const __m256i zero = _mm256_set1_epi32(zero_point);
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) _mm256_storeu_ps(to + i, widened<IsSigned>(from + i, zero));
  if (i == count) return;
  std::array<std::uint8_t, 8> rest{};
  std::copy_n(from + i, count - i, rest.begin());
  _mm256_storeu_ps(to + i, widened<IsSigned>(rest.data(), zero));
}

/// Up to eight tokens of a row-major B.
bool transpose_bytes(const ByteSource& from, const RowRange& rows, std::uint8_t flipped,
                     const ByteTokens& to) {
  const std::uint8_t* const data = from.data + to.first;
  // The eight bytes from here on end with the last of B.
  const std::int64_t last = (from.rows - 1) * from.ld + from.n - k_block_tokens - to.first;
  bool found = false;
  std::int64_t row = rows.begin;
  for (; row + k_block_rows <= rows.end; row += k_block_rows) {
    ByteTokens some = to;
    some.data += row;
    if ((row + k_block_rows - 1) * from.ld <= last) {
      found = copy_block(data + row * from.ld, from.ld, flipped, some) || found;
    } else {
      found = copy_few(data, from.ld, {row, row + k_block_rows}, flipped, to) || found;
    }
  }
  return copy_few(data, from.ld, {row, rows.end}, flipped, to) || found;
}

}  // namespace

bool copy_tokens(const ByteSource& from, const RowRange& rows, std::uint8_t flipped,
                 const ByteTokens& to) {
  bool found = false;
  if (from.has_tokens()) {
    const bool are_together = rows.begin == 0 && rows.end == from.ld && to.stride == from.ld;
    if (are_together) {
      return copy_bytes(from.data + to.first * from.ld, to.count * from.ld, flipped, to.data);
    }
    for (std::int64_t token = 0; token < to.count; ++token) {
      const std::uint8_t* const data = from.data + (to.first + token) * from.ld + rows.begin;
      found = copy_bytes(data, rows.end - rows.begin, flipped,
                         to.data + token * to.stride + rows.begin) ||
              found;
    }
    return found;
  }
  for (std::int64_t token = 0; token < to.count; token += k_block_tokens) {
    const ByteTokens some{to.data + token * to.stride, to.stride, to.first + token,
                          std::min(k_block_tokens, to.count - token)};
    found = transpose_bytes(from, rows, flipped, some) || found;
  }
  return found;
}

void bias_tokens(const ByteTokens& tokens, std::int64_t rows) {
  for (std::int64_t token = 0; token < tokens.count; ++token) {
    std::uint8_t* const data = tokens.data + token * tokens.stride;
    static_cast<void>(copy_bytes(data, rows, k_byte_bias, data));
  }
}

void widen_tokens(const ByteSource& from, bool is_signed, std::int32_t zero_point,
                  const RowRange& lines, const IntegerTokens& to) {
  const auto widen = is_signed ? widen_bytes<true> : widen_bytes<false>;
  const std::int64_t count = from.has_tokens() ? from.rows : to.count;
  const std::int64_t first = to.first * (from.has_tokens() ? from.ld : 1);
  for (std::int64_t line = lines.begin; line < lines.end; ++line) {
    widen(from.data + first + line * from.ld, count, zero_point, to.data + line * to.ld);
  }
}

}  // namespace spjit
