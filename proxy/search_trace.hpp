#pragma once

/// @file
/// What a search did, in one form for host and GPU: for the record, for `spjit explain`.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "proxy/host_search.hpp"
#include "proxy/tuning.hpp"
#include "spjit/compiler.hpp"

namespace spjit {

/// One tile that the rules left.
struct SearchTraceEntry {
  std::string tile;
  std::int64_t m1 = 0;                ///< rows a tile
  std::int64_t n1 = 0;                ///< columns a panel or block
  double score = 0;                   ///< of the ranking, larger is better
  std::optional<TuningResult> proxy;  ///< none: no proxy was to be timed
  std::optional<TuningResult> full;   ///< none: not to be timed in full
  std::string note = {};  ///< what its times suffer from: spills, another occupancy; or empty
};

struct SearchTrace {
  SearchMode mode = SearchMode::instant;
  std::string ranked_by;  ///< "prior", ...
  bool timed = false;     ///< else the choice is by rank: "ranked, not timed"
  bool proxies = false;   ///< proxies were timed
  double budget_ms = 0;
  double rank_ms = 0;                     ///< groupings, tile space, scores
  double proxy_ms = 0;                    ///< making and timing proxies
  double full_ms = 0;                     ///< making and timing whole kernels
  std::vector<SearchTraceEntry> entries;  ///< best-ranked first
  std::size_t chosen = 0;                 ///< index into entries
};

[[nodiscard]] SearchTrace trace_of(const HostSearch& search, const CompileOptions& options);

/// docs/cache-format.md lists the members. Without `entries` where there are none.
[[nodiscard]] nlohmann::json to_json(const SearchTrace& trace);
[[nodiscard]] nlohmann::json to_json(const TuningResult& result);

}  // namespace spjit
