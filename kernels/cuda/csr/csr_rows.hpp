#pragma once

/// @file
/// A as the kernels of the family `csr` for GPUs read it.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/cancel.hpp"
#include "spjit/convolution.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// A's rows, longest first, so that neighbours of a warp take equally long and the longest begin
/// first. The entries of each are in ascending column and begin at a multiple of
/// k_csr_cuda_group; those between rows, and as many behind the last, are zeros that nothing is
/// computed of.
struct CsrRows {
  /// Throws what `cancel` throws soon after it is reached.
  CsrRows(const CsrMatrix& matrix, const std::optional<Convolution>& convolution,
          const Cancellation& cancel = {});

  /// `values` in CSR order as `values` below.
  [[nodiscard]] std::vector<float> arrange(std::span<const float> values) const;

  std::vector<std::uint32_t> order;    ///< [rows] row of C
  std::vector<std::int64_t> begins;    ///< [rows] of its entries
  std::vector<std::uint32_t> lengths;  ///< [rows]
  std::vector<std::uint32_t> columns;  ///< [entries] row of B, or channel of X
  std::vector<std::uint32_t> down;     ///< [entries] of a convolution: pixels from the first tap
  std::vector<std::uint32_t> right;    ///< [entries] the same
  std::vector<std::int64_t> sources;   ///< [rows] of a row's first entry in CSR order
  std::int64_t entries = 0;            ///< with those between rows and behind the last
};

}  // namespace spjit
