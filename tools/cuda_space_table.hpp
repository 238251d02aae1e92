#pragma once

/// @file
/// The CUDA tile space as text.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/unrolled_cuda/cuda_candidate.hpp"
#include "terminal.hpp"

namespace spjit::cli {

/// What a picture of the space shows.
struct CudaSpaceView {
  const CudaTileSpace& space;
  std::span<const CudaCandidate> ranked;  ///< survivors, best first
  std::optional<CudaTile> chosen;         ///< none: nothing was chosen
};

/// A place in the M1 x N1 grid that has a candidate.
struct CudaSpaceCell {
  const CudaCandidate* candidate = nullptr;  ///< one of the space's
  std::size_t row = 0;                       ///< index into `heights`
  std::size_t column = 0;                    ///< index into `widths`
  std::int64_t rank = 0;                     ///< 1 is the best; 0: dropped, or not ranked
  bool chosen = false;
};

struct CudaSpaceGrid {
  std::vector<std::int64_t> heights;  ///< M1, ascending
  std::vector<std::int64_t> widths;   ///< N1, ascending
  std::vector<CudaSpaceCell> cells;   ///< as the space's candidates
};

[[nodiscard]] CudaSpaceGrid make_grid(const CudaSpaceView& view);

/// R registers, C code budget, O occupancy, B balance.
[[nodiscard]] char letter_of(CudaRule rule);

/// What a cell says: the letter of the rule that dropped it, its rank, or "?" without one.
[[nodiscard]] std::string label_of(const CudaSpaceCell& cell);

/// The grid, a line that explains it, then every candidate: ranked ones best first, then the
/// dropped ones, each with its numbers. The chosen one is marked with '*'.
[[nodiscard]] std::string cuda_space_table(const CudaSpaceView& view, const Terminal& terminal);

}  // namespace spjit::cli
