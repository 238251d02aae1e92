#pragma once

// A sparse matrix as bitmaps of 32 columns and packed values, in chunks that 32 lanes read at once.
//
//   packed := begin[chunks + 1]   uint32, of each chunk, in units of 16 bytes from the start
//             chunk*              each at a multiple of 16 bytes
//   chunk  := bitmap[words][32]   bit c of a lane's word: its row has a nonzero in column c of it
//             value*              for each word, for j = 0, 1, ...: the j-th nonzero of each lane
//                                 that has one, by ascending lane
//
// `by_rows`: the lanes are 32 rows, a chunk is `words` words of each; the chunks of 32 rows follow
// each other. `by_columns`: the lanes are the 32 words of 1024 columns of one row, `words` is 1.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "mma_inputs.hpp"

namespace probe {

struct SparseMatrix {
  int m = 0;
  int k = 0;
  std::vector<int> row_ptrs;
  std::vector<int> col_idxs;
  std::vector<float> values;           // each of them a bf16 value
  std::vector<std::uint32_t> bitmaps;  // [m x k / 32]
  std::vector<int> word_begins;        // [m x k / 32]: of each word's first value

  int words_of_row() const { return k / 32; }
  std::size_t word(int row, int index) const {
    return static_cast<std::size_t>(row) * words_of_row() + index;
  }
};

/// A random element from two 32-bit halves of `bits`: whether it is nonzero, and its value.
inline bool is_nonzero(std::uint64_t bits, int zeros_percent) {
  return (bits >> 32) * 100 >= static_cast<std::uint64_t>(zeros_percent) << 32;
}

inline float bf16_value(std::uint64_t bits) {
  const std::uint32_t pattern = static_cast<std::uint32_t>(bits & 1) << 31 |
                                (126 + static_cast<std::uint32_t>(bits >> 1 & 1)) << 23 |
                                static_cast<std::uint32_t>(bits >> 2 & 127) << 16;
  float value;
  std::memcpy(&value, &pattern, sizeof(value));
  return value;
}

/// With `planted`, row 1 is empty and row 2 dense, whatever the share of zeros is.
inline SparseMatrix random_matrix(int m, int k, int zeros_percent, bool planted) {
  SparseMatrix matrix{m, k, {0}, {}, {}, {}, {}};
  const auto expected = static_cast<std::size_t>(m) * k * (101 - zeros_percent) / 100 + 2 * k;
  matrix.col_idxs.reserve(expected);
  matrix.values.reserve(expected);
  for (int row = 0; row < m; ++row) {
    for (int begin = 0; begin < k; begin += 32) {
      std::uint32_t bitmap = 0;
      matrix.word_begins.push_back(static_cast<int>(matrix.values.size()));
      for (int c = 0; c < 32; ++c) {
        const std::uint64_t bits =
            mix(static_cast<std::uint64_t>(row) * static_cast<std::uint64_t>(k) + begin + c);
        const bool nonzero =
            planted && row <= 2 && row > 0 ? row == 2 : is_nonzero(bits, zeros_percent);
        if (!nonzero) continue;
        bitmap |= 1u << c;
        matrix.col_idxs.push_back(begin + c);
        matrix.values.push_back(bf16_value(bits));
      }
      matrix.bitmaps.push_back(bitmap);
    }
    matrix.row_ptrs.push_back(static_cast<int>(matrix.values.size()));
  }
  return matrix;
}

enum class Lanes { by_rows, by_columns };

struct Packed {
  Lanes lanes = Lanes::by_rows;
  int words = 1;
  bool bf16 = false;
  int chunks = 0;
  std::size_t max_chunk_bytes = 0;
  std::vector<unsigned char> bytes;

  std::uint32_t begin_of(int chunk) const {
    std::uint32_t begin;
    std::memcpy(&begin, bytes.data() + static_cast<std::size_t>(chunk) * 4, 4);
    return begin;
  }
};

/// The word of the matrix that lane `lane` has as its word `s` of chunk `chunk`.
inline std::size_t word_of(const SparseMatrix& matrix, const Packed& packed, int chunk, int s,
                           int lane) {
  if (packed.lanes == Lanes::by_columns) return static_cast<std::size_t>(chunk) * 32 + lane;
  const int turns = matrix.words_of_row() / packed.words;
  return matrix.word(chunk / turns * 32 + lane, chunk % turns * packed.words + s);
}

/// Writes the values of word `s` of a chunk at `to`, and returns their end.
inline unsigned char* write_values(const SparseMatrix& matrix, const Packed& packed, int chunk,
                                   int s, unsigned char* to) {
  int counts[32];
  const float* values[32];
  for (int lane = 0; lane < 32; ++lane) {
    const std::size_t word = word_of(matrix, packed, chunk, s, lane);
    counts[lane] = __builtin_popcount(matrix.bitmaps[word]);
    values[lane] = matrix.values.data() + matrix.word_begins[word];
  }
  const int steps = *std::max_element(counts, counts + 32);
  for (int j = 0; j < steps; ++j) {
    for (int lane = 0; lane < 32; ++lane) {
      if (j >= counts[lane]) continue;
      std::uint32_t pattern;
      std::memcpy(&pattern, values[lane] + j, 4);
      if (packed.bf16) pattern >>= 16;
      std::memcpy(to, &pattern, packed.bf16 ? 2 : 4);
      to += packed.bf16 ? 2 : 4;
    }
  }
  return to;
}

inline void append_chunk(const SparseMatrix& matrix, int chunk, Packed& packed) {
  const std::size_t begin = packed.bytes.size();
  std::size_t nonzeros = 0;
  packed.bytes.resize(begin + static_cast<std::size_t>(packed.words) * 128);
  for (int s = 0; s < packed.words; ++s) {
    for (int lane = 0; lane < 32; ++lane) {
      const std::uint32_t bitmap = matrix.bitmaps[word_of(matrix, packed, chunk, s, lane)];
      std::memcpy(packed.bytes.data() + begin + (s * 32 + lane) * 4, &bitmap, 4);
      nonzeros += static_cast<std::size_t>(__builtin_popcount(bitmap));
    }
  }
  const std::size_t size =
      static_cast<std::size_t>(packed.words) * 128 + nonzeros * (packed.bf16 ? 2 : 4);
  packed.bytes.resize((begin + size + 15) / 16 * 16);
  unsigned char* to = packed.bytes.data() + begin + packed.words * 128;
  for (int s = 0; s < packed.words; ++s) to = write_values(matrix, packed, chunk, s, to);
}

/// m is a multiple of 32, k of 32 * words, by columns of 1024.
inline Packed pack(const SparseMatrix& matrix, Lanes lanes, int words, bool bf16) {
  Packed packed{lanes, words, bf16, 0, 0, {}};
  packed.chunks = lanes == Lanes::by_rows ? matrix.m / 32 * (matrix.words_of_row() / words)
                                          : matrix.m * (matrix.words_of_row() / 32);
  const std::size_t header = (static_cast<std::size_t>(packed.chunks) + 1) * 4;
  packed.bytes.reserve(header + matrix.bitmaps.size() * 4 + matrix.values.size() * 4 +
                       static_cast<std::size_t>(packed.chunks) * 16 + 64);
  packed.bytes.resize((header + 15) / 16 * 16);
  for (int chunk = 0; chunk <= packed.chunks; ++chunk) {
    const auto begin = static_cast<std::uint32_t>(packed.bytes.size() / 16);
    std::memcpy(packed.bytes.data() + static_cast<std::size_t>(chunk) * 4, &begin, 4);
    if (chunk == packed.chunks) break;
    append_chunk(matrix, chunk, packed);
    packed.max_chunk_bytes =
        std::max(packed.max_chunk_bytes, packed.bytes.size() - std::size_t{begin} * 16);
  }
  return packed;
}

/// y[q * m + row] by a walk over the packed bytes as the kernels do it; by rows the sum of a row is
/// one chain over ascending columns, by columns each lane has a chain of its own.
inline std::vector<float> walk(const SparseMatrix& matrix, const Packed& packed,
                               const std::vector<float>& x, int n) {
  std::vector<float> y(static_cast<std::size_t>(matrix.m) * n, 0.0f);
  const int turns = packed.chunks / (packed.lanes == Lanes::by_rows ? matrix.m / 32 : matrix.m);
  for (int chunk = 0; chunk < packed.chunks; ++chunk) {
    const unsigned char* const base =
        packed.bytes.data() + std::size_t{packed.begin_of(chunk)} * 16;
    const unsigned char* value = base + packed.words * 128;
    for (int s = 0; s < packed.words; ++s) {
      std::uint32_t left[32];
      std::memcpy(left, base + s * 128, 128);
      for (bool any = true; any;) {
        any = false;
        for (int lane = 0; lane < 32; ++lane) {
          if (left[lane] == 0) continue;
          any = true;
          const bool by_rows = packed.lanes == Lanes::by_rows;
          const int row = by_rows ? chunk / turns * 32 + lane : chunk / turns;
          const int word = by_rows ? chunk % turns * packed.words + s : chunk % turns * 32 + lane;
          const int column = word * 32 + __builtin_ctz(left[lane]);
          std::uint32_t pattern = 0;
          std::memcpy(&pattern, value, packed.bf16 ? 2 : 4);
          if (packed.bf16) pattern <<= 16;
          float a;
          std::memcpy(&a, &pattern, 4);
          value += packed.bf16 ? 2 : 4;
          left[lane] &= left[lane] - 1;
          for (int q = 0; q < n; ++q) {
            float& sum = y[static_cast<std::size_t>(q) * matrix.m + row];
            sum = std::fma(a, x[static_cast<std::size_t>(q) * matrix.k + column], sum);
          }
        }
      }
    }
  }
  return y;
}

}  // namespace probe
