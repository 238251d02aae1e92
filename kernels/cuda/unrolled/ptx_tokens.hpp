#pragma once

/// @file
/// Tokens of B and C in PTX: they pass through shared memory, where a block transposes them.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kernels/cuda/code/source_text.hpp"
#include "kernels/cuda/unrolled/cuda_tile.hpp"

namespace spjit {

/// Writes what a tile function does with tokens. Every thread of a tile comes to every barrier. The
/// function has the registers
/// - `pb`: the thread's first token and feature of B
/// - `pc`, `pr`: the thread's first token of C and of the residual
/// - `ldb`, `ldc`, `ldr`: bytes
/// - `left`: the block's tokens and those that follow
/// - `shared`: where the tile's shared memory begins
class PtxTokens {
 public:
  /// Text for A with so many columns. Refers to the spec.
  PtxTokens(const CudaKernelSpec& spec, std::int64_t cols)
      : spec_(spec), cols_(cols), stage_(stage_of(spec.layer, spec.tile.n1)) {}

  /// Writes the table of the rows of C that a function writes, if they are not neighbours.
  void table(SourceText& text, std::int64_t function, std::span<const std::int32_t> rows) const;
  /// Declares and sets a function's registers.
  void registers(SourceText& text) const;

  /// Loads the element of B of this thread's token at a column, which never falls in a function,
  /// into the register `b`.
  void load(SourceText& text, std::int64_t column);

  /// Rows of C, whose epilogue it computes, from the registers c0, c1, ..., or of zeros; c`spare`
  /// to c`spare + 3` are free.
  struct Rows {
    std::int64_t function;
    std::span<const std::int32_t> rows;
    std::int64_t spare;
    bool are_zeros;
  };
  void store(SourceText& text, const Rows& rows);

  /// Leaves where the thread has no token; for C in rows.
  static void leave_outside(SourceText& text);

 private:
  void stage(SourceText& text, std::int64_t base);
  void store_part(SourceText& text, const Rows& rows, std::int64_t begin, std::int64_t count);
  void address_part(SourceText& text, const Rows& rows, std::int64_t begin,
                    std::int64_t count) const;
  void operand_of_row(SourceText& text, std::string_view name) const;
  void finish_step(SourceText& text, const Rows& rows) const;
  /// Barrier of the threads of this tile; where a block has several, the tile's number is the
  /// barrier's.
  [[nodiscard]] std::string barrier() const;
  void stride(SourceText& text, std::string_view name, std::int64_t fixed, bool is_fixed,
              std::string_view leading_dimension) const;

  const CudaKernelSpec& spec_;
  std::int64_t cols_;
  CudaStage stage_;
  std::int64_t labels_ = 0;
  std::int64_t base_ = -1;  ///< first feature in shared memory; -1: none
};

/// Whether each row is one more than the one before.
[[nodiscard]] bool are_neighbours(std::span<const std::int32_t> rows);

}  // namespace spjit
