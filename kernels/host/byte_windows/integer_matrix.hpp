#pragma once

/// @file
/// A of i8 for many tokens, without VBMI: FMAs of floats that are integers.

#include <cstdint>
#include <span>
#include <vector>

#include "base/cancel.hpp"
#include "kernels/host/loops/compact_cpu.hpp"
#include "kernels/host/loops/compact_kernel.hpp"
#include "kernels/host/object/csr_view.hpp"
#include "kernels/host/operands/product.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// The loop of the family `compact` over integers. A float has those up to 2^24: while no sum is
/// beyond that, it is exact, in any order. Where groups of columns have scales, no sum of a group
/// is, and C has their scaled sums. Thread-safe.
class IntegerMatrix {
 public:
  /// Runs and threads that it is made for.
  struct Use {
    HostIsa isa;
    std::int64_t parts;         ///< at most, of A's rows
    std::int64_t largest_of_b;  ///< no number of B is further from 0; up to 255 with scales
    std::int64_t tokens;        ///< of a run, at most
  };
  /// A's values as the loop takes them.
  struct Values {
    std::vector<CompactMatrix::Values> parts;
    bool are_exact = false;  ///< else they are none: some sum may not be
  };

  /// Copies the entries of `matrix`, without values if it has none. Throws what `cancel` throws.
  /// Preconditions: values are those of i8; this CPU has `use.isa`, which is avx512 or avx2.
  IntegerMatrix(const CsrView& matrix, const Use& use, const Cancellation& cancel = {});

  /// Fewer are no faster: windows take eight tokens at a time, this loop sixteen.
  static constexpr std::int64_t k_least_tokens = 13;
  /// From so many on it is made for many: in runs of fewer it would wait for its sums.
  static constexpr std::int64_t k_many_tokens = 17;

  /// `values` in CSR order.
  [[nodiscard]] Values arrange(std::span<const float> values) const;
  /// Those of the matrix.
  [[nodiscard]] const Values& values() const noexcept { return values_; }

  [[nodiscard]] std::int64_t parts() const noexcept { return std::ssize(parts_); }

  /// About how long a run takes: ns of one core of an AMD EPYC (Zen 4).
  [[nodiscard]] double cost(std::int64_t tokens) const noexcept;

  /// Computes the rows of C of a part, as floats or, in their place, as i32. `workspace` has
  /// CompactMatrix::k_workspace_floats that begin at a cache line. Preconditions: values that are
  /// exact; B has integers, its rows or tokens room for whole vectors.
  void run(std::int64_t part, const Product& product, bool as_ints, const Values& values,
           float* workspace) const;

 private:
  [[nodiscard]] bool are_exact(std::span<const float> values) const;

  CompactCpu cpu_;
  std::int64_t largest_of_b_;
  bool has_scales_;
  std::vector<std::int64_t> row_ptrs_;  ///< of A
  std::int64_t rows_of_blocks_ = 0;     ///< about as many are in all blocks of columns
  std::vector<RowRange> rows_;          ///< of each part
  std::vector<CompactMatrix> parts_;
  Values values_;
};

}  // namespace spjit
