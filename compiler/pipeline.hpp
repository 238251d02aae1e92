#pragma once

/// @file
/// The order of the stages: matrix -> groupings -> tile space -> choice -> plan -> artifact.

#include <functional>
#include <string>
#include <vector>

#include "compiler/device_limits.hpp"
#include "compiler/host_program.hpp"
#include "compiler/tile_candidate.hpp"
#include "spjit/compiler.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// One candidate that was timed, or why it was not.
struct TimedCandidate {
  HostTile tile;
  double median_us = 0;  ///< of one run; 0 if it was not timed
  double min_us = 0;
  double noise = 0;  ///< median absolute deviation / median
  std::int64_t samples = 0;
  std::string failure;  ///< empty: timed
};

/// Times candidate kernels on this machine; handed in, so that the pipeline itself runs nothing.
/// The i-th result belongs to the i-th artifact.
using TimeArtifacts =
    std::function<std::vector<TimedCandidate>(const std::vector<HostArtifact>& artifacts)>;

/// What a compilation did, for the record and for `spjit explain`.
struct CompileTrace {
  HostTile tile;  ///< the choice (meaningless for csr)
  std::string reason;
  std::vector<TimedCandidate> timed;  ///< exhaustive search only
  TileSpace space;                    ///< exhaustive search only
  GroupingStatistics grouping;        ///< of the choice
  double group_ms = 0;
  double emit_ms = 0;  ///< plan and code
};

struct CompiledArtifact {
  HostArtifact artifact;
  CompileTrace trace;
};

/// Compiles a valid matrix with sorted rows. Throws CompileFailed, NotSupported.
[[nodiscard]] CompiledArtifact compile_host(const CsrMatrix& matrix, const CompileOptions& options,
                                            const HostLimits& limits,
                                            const TimeArtifacts& time_artifacts);

/// The heuristic's choice and its reason, without compiling.
[[nodiscard]] CompileTrace plan_choice(const CsrMatrix& matrix, const CompileOptions& options,
                                       const HostLimits& limits);

}  // namespace spjit
