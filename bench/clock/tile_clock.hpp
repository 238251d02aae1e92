#pragma once

/// @file
/// Tiles of one matrix, compiled without a GPU, and what the clock says of them.

#include <filesystem>
#include <list>
#include <string>

#include "clock/cubin_clock.hpp"
#include "kernels/cuda/unrolled/cuda_builder.hpp"
#include "kernels/cuda/unrolled/cuda_tile_space.hpp"
#include "reorder/row_groupings.hpp"
#include "spjit/problem.hpp"

namespace spjit::bench {

class TileClock {
 public:
  /// Throws what reading the matrix throws, NotSupported for a device without constants.
  TileClock(const std::filesystem::path& matrix, std::int64_t n, const CudaDeviceInfo& device);

  /// Of the tile spaces of both groupings of rows: which of them a search would look at is the
  /// ranking's. Throws Error for a text that is no tile of them.
  [[nodiscard]] const CudaCandidate& candidate(const std::string& tile) const;
  /// Throws as build_cuda_kernel().
  [[nodiscard]] BuiltCuda build(const CudaCandidate& candidate);
  /// Throws as modelled_time().
  [[nodiscard]] ModelledTime model(const BuiltCuda& built, const CudaCandidate& candidate,
                                   const ClockLimits& limits) const;

 private:
  /// Tiles with rows grouped in one way.
  struct Grouped {
    Grouped(const CsrMatrix& matrix, ReorderAlgorithm reorder) : groupings(matrix, reorder) {}

    RowGroupings groupings;
    CudaTileSpace space;
  };

  CudaDeviceInfo device_;
  ClockConstants constants_;
  CompileOptions compile_;
  Problem problem_;
  std::list<Grouped> grouped_;
};

}  // namespace spjit::bench
