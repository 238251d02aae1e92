#pragma once

/// @file
/// What the CUDA tile space holds: candidates with their statistics, and why some were dropped.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/cuda_limits.hpp"
#include "compiler/cuda_tile.hpp"
#include "compiler/occupancy.hpp"
#include "compiler/register_prediction.hpp"
#include "reorder/row_grouping.hpp"

namespace spjit {

/// The hardware rules (seed 001, section 3.3), in the order they are tried.
enum class CudaRule : std::uint8_t {
  registers,    ///< predicted registers fit a thread, and a block of N1 threads
  code_budget,  ///< estimated machine code fits the budget
  occupancy,    ///< N1 is a multiple of the warp; blocks >= half the SMs
  balance,      ///< spread of nonzeros over row tiles and padding of columns within their limits
};

[[nodiscard]] std::string_view to_string(CudaRule rule);

/// Seed 001's limits of the balance rule: coefficient of variation of nnz over row tiles, padded
/// columns over n.
inline constexpr double k_max_cuda_tile_nnz_cv = 0.25;
inline constexpr double k_max_cuda_padding = 0.25;

/// Why a candidate is out, with the numbers.
struct DroppedCudaCandidate {
  CudaRule rule = CudaRule::registers;
  std::string numbers;  ///< e.g. "301 registers a thread, the device has 255"
};

/// One tile for one matrix on one device.
struct CudaCandidate {
  CudaTile tile;
  std::int64_t min_blocks = 1;    ///< blocks an SM shall hold; the kernel's launch bounds say so
  RegisterPrediction registers;   ///< a thread
  Occupancy occupancy;            ///< with the predicted registers
  std::int64_t blocks_x = 0;      ///< row tiles, and parts of the empty rows
  std::int64_t column_tiles = 0;  ///< ceil(n / N1)
  double column_padding = 0;      ///< padded columns / n
  std::int64_t code_bytes = 0;    ///< estimate of the machine code
  GroupingStatistics grouping;    ///< of the rows at this M1
  double score = 0;               ///< larger is better; what ranked it says in what unit
  std::optional<DroppedCudaCandidate> dropped;

  [[nodiscard]] std::int64_t blocks() const noexcept { return blocks_x * column_tiles; }
};

/// Every candidate, dropped ones included: by M1, then N1, both ascending.
struct CudaTileSpace {
  std::vector<CudaCandidate> candidates;
  std::vector<CudaRule> relaxed;  ///< rules given up because nothing was left, in that order

  /// Those no rule dropped.
  [[nodiscard]] std::vector<CudaCandidate> survivors() const;
};

/// Registers a thread may use so that `min_blocks` blocks of `n1` threads fit an SM: what ptxas
/// makes of the launch bounds, to give to units that are compiled without them. A multiple of 8 up
/// to the device's limit for a thread.
[[nodiscard]] std::int64_t register_cap(const CudaLimits& limits, std::int64_t n1,
                                        std::int64_t min_blocks);

}  // namespace spjit
