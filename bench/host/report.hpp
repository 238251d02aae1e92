#pragma once

/// @file
/// What the host benchmark prints and writes. bench/README.md documents both.

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "bench/host/case.hpp"
#include "bench/host/goals.hpp"

namespace spjit::bench {

/// The machine and the libraries of a run.
struct RunDescription {
  std::string cpu;
  std::string isa;
  int cpus = 1;
  std::int64_t l1d_bytes = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t l3_bytes = 0;
  double l2_gbytes_per_s = 0;
  double load_average = 0;  ///< of the last minute before the run: other work on the machine
  std::string openblas;     ///< its version, or why it is left out
};

[[nodiscard]] std::string table_header();
[[nodiscard]] std::string table_row(const CaseResult& result);
[[nodiscard]] std::string goal_row(const GoalResult& goal);

/// {"goal", "measured", "wanted", "unit", "where", "state"}
[[nodiscard]] nlohmann::json to_json(const GoalResult& goal);

[[nodiscard]] nlohmann::json to_json(const RunDescription& run, std::span<const CaseResult> cases,
                                     std::span<const GoalResult> goals);

/// "AMD EPYC 9354" becomes "amd-epyc-9354": a file name.
[[nodiscard]] std::string file_name_of(const std::string& cpu);

}  // namespace spjit::bench
