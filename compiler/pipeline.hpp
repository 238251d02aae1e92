#pragma once

/// @file
/// The order of the stages: matrix -> groupings -> tile space -> choice -> plan -> artifact.

#include <memory>
#include <optional>
#include <string>

#include "kernels/unrolled_host/host_program.hpp"
#include "kernels/unrolled_host/host_timer.hpp"
#include "kernels/unrolled_host/host_tunable.hpp"
#include "kernels/unrolled_host/tile_candidate.hpp"
#include "plan/compile_context.hpp"
#include "proxy/search.hpp"
#include "proxy/search_trace.hpp"
#include "runtime/host/host_device_info.hpp"
#include "spjit/compiler.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// What a compilation did, for the record and for `spjit explain`.
struct CompileTrace {
  KernelKind kind = KernelKind::unrolled;
  HostTile tile;  ///< the choice; of other kinds, what unrolled code would have had
  std::string reason;
  SearchTrace search;           ///< no entries where nothing was searched
  TileSpace space;              ///< of the search
  GroupingStatistics grouping;  ///< of the choice; other kinds have none
  double group_ms = 0;
  double emit_ms = 0;  ///< plan and code
};

struct CompiledArtifact {
  HostArtifact artifact;
  CompileTrace trace;
};

/// What a compilation takes besides its options.
struct HostSearchSetup {
  std::shared_ptr<const HostRankModel> model = nullptr;  ///< what ranks; null: the prior
  std::optional<SearchStages> stages = {};               ///< none: those of the mode
  CompileContext watch = {};                             ///< of every mode
  HostTuning tuning = {};
};

/// Compiles a valid matrix with sorted rows; `race` times candidates where the search mode asks for
/// it, so that the pipeline itself runs nothing. Throws CompileFailed, NotSupported, and what
/// `watch` throws: Cancelled, DeadlineExceeded soon after they are due.
[[nodiscard]] CompiledArtifact compile_host(const CsrMatrix& matrix, const CompileOptions& options,
                                            const HostDeviceInfo& limits,
                                            const TimeHostKernels& race,
                                            const HostSearchSetup& setup = {});

/// The heuristic's choice and its reason, without compiling. Throws what `cancel` throws.
[[nodiscard]] CompileTrace plan_choice(const CsrMatrix& matrix, const CompileOptions& options,
                                       const HostDeviceInfo& limits,
                                       const Cancellation& cancel = {});

}  // namespace spjit
