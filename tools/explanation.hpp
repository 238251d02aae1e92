#pragma once

/// @file
/// What `spjit explain` finds out about one matrix.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "compiler/pipeline.hpp"
#include "kernel_options.hpp"
#include "kernels/unrolled_host/tile_candidate.hpp"
#include "kernels/search_trace.hpp"
#include "reorder/row_grouping.hpp"
#include "runtime/host/host_device_info.hpp"
#include "spjit/kernel.hpp"
#include "spjit/matrix.hpp"
#include "spjit/reorder.hpp"
#include "terminal.hpp"

namespace spjit::cli {

/// A way to group the rows at the chosen M1.
struct GroupingReport {
  ReorderAlgorithm algorithm = ReorderAlgorithm::none;
  GroupingStatistics statistics;
  double ms = 0;  ///< time it took
};

struct Explanation {
  std::filesystem::path path;
  std::string error;  ///< why there is no explanation
  MatrixStatistics matrix;
  HostDeviceInfo limits;
  std::vector<GroupingReport> groupings;  ///< none, balanced, similarity; empty where all rows are
  TileSpace space;
  CompileTrace trace;                 ///< the choice
  std::optional<SearchTrace> search;  ///< none: instant
  KernelKind kind = "unrolled";
  std::int64_t code_bytes = 0;
};

/// The matrix's numbers, a few lines.
[[nodiscard]] std::string matrix_text(const MatrixStatistics& matrix);
[[nodiscard]] Json describe(const MatrixStatistics& matrix);

/// Goes through the compiler's stages for one file, without the cache. Never throws for what is
/// wrong with the file: `error` says it.
[[nodiscard]] Explanation explain(const std::filesystem::path& path, const KernelOptions& options);

/// The whole explanation as text.
[[nodiscard]] std::string explanation_text(const Explanation& explanation,
                                           const KernelOptions& options, const Terminal& terminal);

[[nodiscard]] Json describe(const Explanation& explanation);

}  // namespace spjit::cli
