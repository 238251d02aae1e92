#pragma once

/// @file
/// Times compiled host kernels on this machine.

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "base/thread_pool.hpp"
#include "base/tuning.hpp"
#include "kernels/host/unrolled/host_program.hpp"
#include "kernels/host/unrolled/host_tile.hpp"

namespace spjit {

/// A kernel to be timed: code, and its loop order.
struct HostTuningCandidate {
  std::shared_ptr<const HostArtifact> artifact;  ///< may serve several candidates; loaded once
  HostTile tile;                                 ///< share_code() with the artifact's
  /// Columns of B and C that a call works on, each call on the next ones; 0: all of them. Times
  /// are those of all n columns.
  std::int64_t columns = 0;
};

/// Races kernels of one shape; handed in, so that the search itself runs nothing. The i-th result
/// belongs to the i-th candidate.
using TimeHostKernels = std::function<std::vector<TuningResult>(
    std::span<const HostTuningCandidate> candidates, const TuningOptions& options)>;

/// On what, and how.
struct HostTiming {
  std::int64_t ldb = 0;  ///< of B; 0: n
  std::shared_ptr<ThreadPool> pool = nullptr;
  std::int64_t between_bytes =
      std::numeric_limits<std::int64_t>::max();  ///< bytes_between_runs(); 0: hot
};

/// Loads every artifact and times all candidates on the same B and C, row-major, C without gaps:
/// what tells tiles apart is the product, whatever layouts and epilogue are around it. Families
/// race with all of the layer (Backend::race()). Where one thread runs it stays on one CPU
/// meanwhile (PinnedThread). One whose artifact cannot be loaded has failed. Throws as run_tuning()
/// does.
[[nodiscard]] std::vector<TuningResult> time_host_kernels(
    std::span<const HostTuningCandidate> candidates, const TuningOptions& options,
    const HostTiming& timing);

}  // namespace spjit
