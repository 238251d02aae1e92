#pragma once

/// @file
/// Times compiled host kernels on this machine.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "compiler/host_program.hpp"
#include "compiler/host_tile.hpp"
#include "proxy/race.hpp"
#include "runtime/thread_pool.hpp"

namespace spjit {

/// A kernel to be timed: code, and how it is walked.
struct HostContestant {
  std::shared_ptr<const HostArtifact> artifact;  ///< may serve several contestants; loaded once
  HostTile tile;                                 ///< share_code() with the artifact's
  /// Columns of B and C that a call works on, each call on the next ones; 0: all of them. Times
  /// are those of all n columns.
  std::int64_t columns = 0;
};

/// Races kernels of one shape; handed in, so that the search itself runs nothing. The i-th result
/// belongs to the i-th contestant.
using RaceHostKernels = std::function<std::vector<RaceResult>(
    std::span<const HostContestant> contestants, const RaceOptions& options)>;

/// Loads every artifact and races all contestants on the same B and C, row-major with leading
/// dimensions `ldb` (0: n) and n. Where one thread runs it stays on one CPU meanwhile
/// (PinnedThread). One whose artifact cannot be loaded has failed. Throws as run_race() does.
[[nodiscard]] std::vector<RaceResult> race_host_kernels(std::span<const HostContestant> contestants,
                                                        const RaceOptions& options,
                                                        std::int64_t ldb,
                                                        const std::shared_ptr<ThreadPool>& pool);

}  // namespace spjit
