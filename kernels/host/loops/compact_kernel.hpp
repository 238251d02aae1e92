#pragma once

/// @file
/// The loop of the family `compact` (AVX-512 and AVX2): A as data, for every n, eight rows at a
/// time, or row by row.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/cancel.hpp"
#include "kernels/host/loops/compact_cpu.hpp"
#include "kernels/host/object/csr_view.hpp"
#include "kernels/host/operands/held_values.hpp"
#include "kernels/host/operands/product.hpp"

namespace spjit {

/// Some rows of A in blocks of columns; in each block, rows by their length there, eight to a
/// slice.
///
/// A slice has as many steps as the shortest of its rows has entries: a step is eight values and
/// eight 16-bit column numbers, one of each row. What longer rows have beyond that, the tail, is
/// stored row by row. So no product is computed that A does not have, and a row's entries are added
/// in ascending column, from +0: the bits are those of every other kernel, as KernelPlan states
/// them. The first block has every row, those without entries too: it writes C, the others add.
///
/// CompactOrder::rows has no slices: the entries of a row follow one another.
///
/// Where groups of columns have scales, each is a block. Its sums begin at +0, and C becomes
/// fma(scale, sum, C). The last block has every row, too: for a group without entries C of -0
/// becomes +0. In a group before another no such C is left.
class CompactMatrix {
 public:
  static constexpr std::size_t k_lanes = 8;

  /// Copies the entries of rows [rows.begin, rows.end), without values if the matrix has none,
  /// which each run must bring then. A block has `blocks.columns`, at most k_most_block_columns;
  /// with more than k_most_packed_columns B is read in place, else in packed pieces. Throws Error
  /// if the columns of a row do not ascend; what `cancel` throws soon after it is reached.
  CompactMatrix(const CsrView& matrix, RowRange rows, CompactBlocks blocks,
                const Cancellation& cancel = {});

  static constexpr std::int64_t k_most_block_columns = 8191;  // times eight: a 16-bit number
  static constexpr std::int64_t k_most_packed_columns = 512;
  /// A column number is stored times eight, or times the bytes of eight floats where B is packed.
  static constexpr int k_in_place_shift = 3;
  static constexpr int k_packed_shift = 5;
  /// Floats of packed B that run() needs, whatever the matrix, and room for a vector past them.
  static constexpr std::int64_t k_workspace_floats =
      k_most_packed_columns * k_compact_panel_columns + 16;

  /// A's values in the order of the steps and of the tails.
  struct Values {
    HeldValues steps;  ///< [steps x 8], or entries of the order `rows`
    std::vector<float> tails;
  };

  /// Whether run() takes a B that is tokens-major or in runs of columns.
  [[nodiscard]] bool takes_tokens() const noexcept {
    return block_columns_ <= k_most_packed_columns;
  }

  /// Computes these rows of C `[rows x n]`, row-major, with other values than those of the matrix
  /// if `values` is not null; `workspace` is aligned to 64 bytes. Thread-safe with a workspace a
  /// thread. Precondition: this CPU has `cpu.isa`, which is avx512 or avx2.
  void run(const Product& operands, const CompactCpu& cpu, float* workspace,
           const Values* values = nullptr) const;

  /// Some rows of A and their values.
  struct Part {
    const CompactMatrix* matrix;
    const Values* values;  ///< null: those of the matrix
  };
  /// Runs parts of one A with blocks of as many columns: B is packed once for all.
  static void run(std::span<const Part> parts, const Product& operands, const CompactCpu& cpu,
                  float* workspace);

  /// `values` of all of A in CSR order as run() takes them: of these rows.
  [[nodiscard]] Values arrange(std::span<const float> values) const;

  /// Bytes of A that a run reads.
  [[nodiscard]] std::int64_t bytes() const noexcept;

  /// Eight rows of a block.
  struct Slice {
    std::array<std::int32_t, k_lanes> rows;  ///< of C; where there are fewer, the last again
    /// Entries of each row after the steps: no row has more than the one before it.
    std::array<std::uint16_t, k_lanes> tails;
    std::uint16_t tail_entries;  ///< of all rows
    std::uint16_t steps;
    std::uint16_t lanes;  ///< with a row of their own, 1 to 8
  };

  /// A row of a block, in the order `rows`.
  struct Row {
    std::int32_t row;  ///< of C
    std::int32_t entries;
  };

  struct Block {
    std::int64_t first_column = 0;
    std::int64_t columns = 0;
    std::size_t first_slice = 0;
    std::size_t end_slice = 0;
    std::size_t first_row = 0;
    std::size_t end_row = 0;
    std::size_t first_entry = 0;  ///< but of tails
    std::size_t first_tail = 0;
  };

 private:
  /// The entries [begin, end) of a row of C in a block.
  struct Lane {
    std::int32_t row;
    std::size_t begin;
    std::size_t end;
  };

  static void run_blocks(std::span<const Part> parts, const Product& operands,
                         const CompactCpu& cpu, float* workspace);
  /// The block that begins with a column; null: none of these rows has entries there.
  [[nodiscard]] const Block* block_at(std::int64_t first_column) const;
  /// Those of a block; of none no matter what.
  [[nodiscard]] const float* scales_of(const Block& block) const noexcept;

  [[nodiscard]] std::vector<std::vector<Lane>> lanes_by_block(const CsrView& matrix, RowRange rows,
                                                              CancelPace& pace) const;
  static void sort_by_length(std::span<const Lane> lanes, std::int64_t longest,
                             std::vector<Lane>& sorted);
  /// `lanes` are 1 to 8 rows, the shortest last.
  void add_slice(const CsrView& matrix, std::int64_t first_column, std::span<const Lane> lanes);
  void add_row(const CsrView& matrix, std::int64_t first_column, const Lane& lane);
  void add_scales(const CsrView& matrix, std::int64_t group);
  [[nodiscard]] std::uint16_t offset_of(std::int64_t column) const noexcept;
  [[nodiscard]] Values arrange_rows(std::span<const float> values) const;

  std::int64_t block_columns_;
  CompactOrder order_;
  HeldType held_;
  std::vector<Block> blocks_;
  std::vector<Slice> slices_;
  /// [slices] entry of A that each lane begins with
  std::vector<std::array<std::int64_t, k_lanes>> entries_;
  std::vector<Row> rows_;
  std::vector<std::int64_t> row_entries_;  ///< [rows] entry of A that each begins with
  /// [steps x 8], or of entries in the order `rows`: column - the block's first, shifted
  std::vector<std::uint16_t> offsets_;
  std::vector<std::uint16_t> tail_offsets_;
  std::vector<float> scales_;  ///< of groups: [slices x 8], or [rows] in the order `rows`
  Values values_;
};

}  // namespace spjit
