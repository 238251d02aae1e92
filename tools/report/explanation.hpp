#pragma once

/// @file
/// The findings of `spjit explain` about one matrix.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/tuning/search_trace.hpp"
#include "reorder/row_grouping.hpp"
#include "spjit/matrix.hpp"
#include "spjit/reorder.hpp"
#include "tools/options/kernel_options.hpp"
#include "tools/report/terminal.hpp"

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
  Problem problem;                        ///< without its matrix
  Json record;                            ///< explain_problem()
  SearchTrace search;                     ///< no entries where nothing was searched
  std::vector<GroupingReport> groupings;  ///< none, balanced, similarity; of families with an M1

  /// The tile space, or null.
  [[nodiscard]] Json space() const;
  /// The chosen tile's name; empty for families without.
  [[nodiscard]] std::string tile() const;
};

enum class Detail : std::uint8_t {
  choice,  ///< matrix, problem and record
  all,     ///< `groupings`, too, which take a while
};

/// Goes through the compiler's stages for one input, without the cache. Never throws for what is
/// wrong with it: `error` says it.
[[nodiscard]] Explanation explain(const Input& input, const KernelOptions& options,
                                  Detail detail = Detail::all);

/// The whole explanation as text.
[[nodiscard]] std::string explanation_text(const Explanation& explanation,
                                           const Terminal& terminal);

/// The search as a picture, or where there was none the tile space; empty without both.
[[nodiscard]] std::string explanation_svg(const Explanation& explanation);

[[nodiscard]] Json describe(const Explanation& explanation);

}  // namespace spjit::cli
