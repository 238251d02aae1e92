#pragma once

// The sparse matrix of the dispatch probe, as the kernels read it: records, and the slow walk over
// them that says what a kernel has to give.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "mma_inputs.hpp"

namespace probe {

struct Csr {
  int m = 0;
  int k = 0;
  std::vector<int> row_ptrs{0};
  std::vector<int> columns;
  std::vector<float> values;
};

/// Random, a share of `sparsity` percent zeros; row 1 is empty, row 2 full.
inline Csr random_matrix(int m, int k, int sparsity) {
  Csr matrix{m, k};
  for (int row = 0; row < m; ++row) {
    for (int column = 0; column < k; ++column) {
      const std::uint64_t bits =
          mix(static_cast<std::uint64_t>(sparsity) << 48 | static_cast<std::uint64_t>(row) << 24 |
              static_cast<std::uint64_t>(column));
      if (row == 1 || (row != 2 && static_cast<int>(bits % 100) < sparsity)) continue;
      const float magnitude = static_cast<float>((bits >> 40 & 0xffff) + 1) / 65536.0f;
      matrix.columns.push_back(column);
      matrix.values.push_back((bits >> 60 & 1) != 0 ? magnitude : -magnitude);
    }
    matrix.row_ptrs.push_back(static_cast<int>(matrix.columns.size()));
  }
  return matrix;
}

inline std::vector<float> to_dense(const Csr& matrix) {
  std::vector<float> dense(static_cast<std::size_t>(matrix.m) * matrix.k);
  for (int row = 0; row < matrix.m; ++row) {
    for (int e = matrix.row_ptrs[row]; e < matrix.row_ptrs[row + 1]; ++e) {
      dense[static_cast<std::size_t>(row) * matrix.k + matrix.columns[e]] = matrix.values[e];
    }
  }
  return dense;
}

/// Of B, in [-1, 1), of 16 bits.
PROBE_HD inline float element_of_b(int row, int column) {
  const std::uint64_t index =
      static_cast<std::uint64_t>(row) << 32 | static_cast<std::uint64_t>(column);
  return static_cast<float>(mix(index) >> 48) / 32768.0f - 1.0f;
}

/// [tile][column] -> a record: `rows` values, zeros too, then a word whose byte g is the mask of
/// the rows g * group and up, then three words. As dispatch_generate.py describes them.
struct Records {
  int rows = 0;
  int group = 0;
  int tiles = 0;  ///< a multiple of 4, the most warps a block
  std::vector<std::uint32_t> words;

  int record_words() const { return rows + 4; }
};

inline Records pack(const Csr& matrix, int rows, int group) {
  Records records{rows, group, (matrix.m + rows * 4 - 1) / (rows * 4) * 4, {}};
  const auto record_words = static_cast<std::size_t>(records.record_words());
  // A kernel reads one record past the end, and does not use it.
  records.words.resize((static_cast<std::size_t>(records.tiles) * matrix.k + 1) * record_words);
  for (int row = 0; row < matrix.m; ++row) {
    const int in_tile = row % rows;
    const std::uint32_t bit = 1u << (8 * (in_tile / group) + in_tile % group);
    for (int e = matrix.row_ptrs[row]; e < matrix.row_ptrs[row + 1]; ++e) {
      std::uint32_t* const record =
          &records.words[(static_cast<std::size_t>(row / rows) * matrix.k + matrix.columns[e]) *
                         record_words];
      std::memcpy(&record[in_tile], &matrix.values[e], sizeof(float));
      record[rows] |= bit;
    }
  }
  return records;
}

/// Column `column` of C by the kernels' walk over the records, rows past m too.
inline std::vector<float> walk(const Records& records, int k, int column) {
  const auto record_words = static_cast<std::size_t>(records.record_words());
  std::vector<float> sums(static_cast<std::size_t>(records.tiles) * records.rows);
  for (int tile = 0; tile < records.tiles; ++tile) {
    for (int c = 0; c < k; ++c) {
      const std::uint32_t* const record =
          &records.words[(static_cast<std::size_t>(tile) * k + c) * record_words];
      const float b = element_of_b(c, column);
      for (int group = 0; group < records.rows / records.group; ++group) {
        const std::uint32_t mask = record[records.rows] >> (8 * group) & 0xff;
        for (int i = 0; i < records.group; ++i) {
          const int row = group * records.group + i;
          float value;
          std::memcpy(&value, &record[row], sizeof(value));
          float& sum = sums[static_cast<std::size_t>(tile) * records.rows + row];
          if ((mask >> i & 1) != 0) sum = std::fma(value, b, sum);
        }
      }
    }
  }
  return sums;
}

/// Column `column` of C by ascending fma over the rows' entries.
inline std::vector<float> ascending(const Csr& matrix, int column) {
  std::vector<float> b;
  for (int row = 0; row < matrix.k; ++row) b.push_back(element_of_b(row, column));
  std::vector<float> sums(static_cast<std::size_t>(matrix.m));
  for (int row = 0; row < matrix.m; ++row) {
    for (int e = matrix.row_ptrs[row]; e < matrix.row_ptrs[row + 1]; ++e) {
      sums[row] = std::fma(matrix.values[e], b[matrix.columns[e]], sums[row]);
    }
  }
  return sums;
}

/// Bits that differ, of the first m.
inline int count_different_bits(const std::vector<float>& a, const std::vector<float>& b, int m) {
  int different = 0;
  for (int i = 0; i < m; ++i) different += std::memcmp(&a[i], &b[i], sizeof(float)) != 0;
  return different;
}

}  // namespace probe
