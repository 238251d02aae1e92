#pragma once

/// @file
/// Output of the search benchmark: text and a file. bench/README.md documents both.

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "bench/search/search_case.hpp"

namespace spjit::bench {

[[nodiscard]] std::string search_header();
[[nodiscard]] std::string search_row(const SearchCaseResult& result);

/// One way over many cases.
struct WaySummary {
  std::string way;
  std::size_t cases = 0;
  double noise = 0;  ///< mean of the judge's
  double loss_mean = 0;
  double loss_p95 = 0;  ///< nearest rank
  double loss_worst = 0;
  double top1_loss_mean = 0;
  double top1_loss_worst = 0;
  double tau_mean = 0;
  double seconds = 0;     ///< summed over the cases
  double times_less = 0;  ///< geometric mean of oracle seconds / its seconds
  double times_less_min = 0;
};

/// Over the cases with more than `least_nnz` nonzeros; none failed.
[[nodiscard]] std::vector<WaySummary> summarize(std::span<const SearchCaseResult> results,
                                                std::int64_t least_nnz);
[[nodiscard]] std::string summary_table(std::span<const WaySummary> summaries);

/// Where proxies begin to pay: seconds of `proxies` over those of `exhaustive`, by decades of
/// nnz x n.
[[nodiscard]] std::string crossover_table(std::span<const SearchCaseResult> results);

[[nodiscard]] nlohmann::json to_json(const SearchCaseResult& result);
[[nodiscard]] nlohmann::json to_json(const WaySummary& summary);

}  // namespace spjit::bench
