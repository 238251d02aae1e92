#pragma once

/// @file
/// The trace of a search, in one form for host and GPU: for the record, for `spjit explain`.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/tuning.hpp"
#include "kernels/tuning/tunable_space.hpp"
#include "spjit/options.hpp"

namespace spjit {

/// A clock's time of a whole kernel that no device has run.
struct ModelledResult {
  double us = 0;        ///< modelled, never measured
  double cycles = 0;    ///< of the SM's clock
  std::string bound;    ///< where most of the schedulers' cycles go: to_string(ClockBound)
  std::string failure;  ///< why there is no time; empty: there is
};

/// One tile that the rules left.
struct SearchTraceEntry {
  std::string tile;
  std::int64_t m1 = 0;                          ///< rows a tile
  std::int64_t n1 = 0;                          ///< columns a panel or block
  double score = 0;                             ///< of the ranking, larger is better
  std::optional<TuningResult> proxy;            ///< none: no proxy was to be timed
  std::optional<TuningResult> full;             ///< none: not to be timed in full
  std::optional<ModelledResult> modelled = {};  ///< none: it was not asked of the clock
  std::string note = {};  ///< what its times suffer from: spills, another occupancy; or empty
  /// `full` is of several loads the one with the middle time: more to be trusted than one load's.
  bool confirmed = false;
};

struct SearchTrace {
  SearchMode mode = SearchMode::instant;
  std::string ranked_by;  ///< "prior", ...
  bool timed = false;     ///< else the choice is by rank: "ranked, not timed"
  bool proxies = false;   ///< proxies were timed
  bool modelled = false;  ///< the choice is the clock's: "modelled, not timed"
  double budget_ms = 0;
  double rank_ms = 0;                     ///< tile space, scores
  double proxy_ms = 0;                    ///< making and timing proxies
  double full_ms = 0;                     ///< making and timing whole kernels, or modelling them
  std::vector<SearchTraceEntry> entries;  ///< best-ranked first
  std::size_t chosen = 0;                 ///< index into entries
};

/// The end of a search.
struct SearchOutcome {
  SearchTrace trace;
  /// Build of the chosen candidate, in full; null if that was not timed in full.
  std::shared_ptr<const TunableBuild> build;
};

/// How many entries have a time of that kind.
[[nodiscard]] std::size_t count_timed(const SearchTrace& trace,
                                      std::optional<TuningResult> SearchTraceEntry::*time);

/// docs/design/cache-format.md lists the members. Without `entries` where there are none.
[[nodiscard]] nlohmann::json to_json(const SearchTrace& trace);
[[nodiscard]] nlohmann::json to_json(const TuningResult& result);
[[nodiscard]] nlohmann::json to_json(const ModelledResult& result);

}  // namespace spjit
