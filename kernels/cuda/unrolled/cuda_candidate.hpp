#pragma once

/// @file
/// Candidates of the CUDA tile space. Their statistics include the registers that each is predicted
/// to need, and why some were dropped. Values only, from counts; nothing here needs a CUDA library
/// or a device.

#include <cstdint>
#include <optional>
#include <string_view>

#include "kernels/cuda/unrolled/cuda_tile.hpp"
#include "kernels/tuning/candidate_space.hpp"
#include "plan/workload.hpp"
#include "reorder/row_grouping.hpp"
#include "runtime/cuda/cuda_device_info.hpp"
#include "runtime/cuda/occupancy.hpp"

namespace spjit {

/// The terms of the prediction, for the register rule's numbers.
struct RegisterPrediction {
  std::int64_t accumulators = 0;  ///< rows of the fullest tile
  /// Elements of B that were loaded and not used up; of patches, also those of each tap, and masks.
  std::int64_t b_in_flight = 0;
  std::int64_t values = 0;      ///< of A at run time: their pointer and those in flight
  std::int64_t addressing = 0;  ///< pointers, what the calling convention keeps, temporaries

  [[nodiscard]] std::int64_t total() const noexcept {
    return accumulators + b_in_flight + values + addressing;
  }
};

/// Registers a thread that ptxas needs so as not to spill: what to cap the kernel at. (Without a
/// cap it takes all it can get, up to 255, to issue loads earlier still.) May exceed 255: such a
/// tile spills.
///
/// The constants are fitted to ptxas 13.0: the smallest `-maxrregcount` without spills over sm_75,
/// sm_90 and sm_120, 16 to 128 rows. With constant sizes the prediction is one above it everywhere,
/// with run-time sizes 6 to 13: how many addresses are on their way differs between architectures.
[[nodiscard]] RegisterPrediction predict_registers(const RowGrouping& grouping,
                                                   const CudaTile& tile,
                                                   const CudaLayer& layer = {});

/// The hardware rules, in the order they are tried.
enum class CudaRule : std::uint8_t {
  registers,    ///< a thread's registers fit the thread's limit, a block's the block's
  code_budget,  ///< estimated machine code fits the budget
  occupancy,    ///< N1 is a multiple of the warp, and there are SMs / 2 blocks or more
  balance,      ///< nnz varies little over row tiles, and few columns are padding; where an SM has
                ///< one block at most
};

[[nodiscard]] std::string_view to_string(CudaRule rule);

/// Limits of the balance rule: coefficient of variation of nnz over row tiles, and padded columns /
/// n (LO-SpMM).
inline constexpr double k_cuda_max_nnz_variation = 0.25;
inline constexpr double k_cuda_max_padding = 0.25;

using DroppedCudaCandidate = DroppedBy<CudaRule>;

/// One tile for one matrix on one device.
struct CudaCandidate {
  CudaTile tile;
  Workload work;  ///< the same for all candidates of a space
  CudaLayer layer = {};
  std::int64_t ldb = 0;  ///< of CudaKernelSpec; 0: n
  std::int64_t ldc = 0;
  /// Blocks an SM shall hold at once, as the tile's cap says, at least 1.
  std::int64_t min_blocks = 1;
  std::int64_t register_cap = 0;  ///< a thread's, with so many blocks: register_cap()
  RegisterPrediction registers;   ///< a thread
  std::int64_t row_tiles = 0;     ///< of non-empty rows
  std::int64_t column_tiles = 0;  ///< ceil(n / n1)
  /// Blocks of a launch: (row tiles + functions that write empty rows) x column tiles.
  std::int64_t blocks = 0;
  double column_padding = 0;    ///< padded columns / n
  std::int64_t code_bytes = 0;  ///< estimate of the machine code
  Occupancy occupancy;          ///< at the predicted registers, without shared memory
  double waves = 0;             ///< blocks / (SMs x active blocks); 0 where none can be active
  GroupingStatistics grouping;  ///< of the rows at this m1
  double score = 0;             ///< of the ranking, larger is better; 0 before
  std::optional<DroppedCudaCandidate> dropped;
};

/// Floats of B, or of the image that it is patches of, and of C.
[[nodiscard]] double floats_of_b(const CudaCandidate& candidate) noexcept;
[[nodiscard]] double floats_of_c(const CudaCandidate& candidate) noexcept;

/// By m1, then by n1, then by tiles a block.
using CudaTileSpace = CandidateSpace<CudaCandidate, CudaRule>;

/// Most registers a thread with which an SM holds `min_blocks` blocks of so many threads: a
/// multiple of 8, or 255 (`registers_per_thread`) where that is less. What units are compiled with
/// as
/// `-maxrregcount`. 0 where the SM cannot hold so many. Throws InvalidArgument unless both are
/// >= 1.
[[nodiscard]] std::int64_t register_cap(const CudaDeviceInfo& limits, std::int64_t threads,
                                        std::int64_t min_blocks);

}  // namespace spjit
