#pragma once

/// @file
/// Searches for host tiles whose kernels a formula times.

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "kernels/host/unrolled/host_choice.hpp"
#include "kernels/host/unrolled/host_tunable.hpp"
#include "proxy/search.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/host/host_tuning_testing.hpp"
#include "tests/support/spmm_testing.hpp"

namespace spjit::testing_support {

constexpr std::size_t k_all = k_every_candidate;

/// The stages of a search of host tiles, and its tuning.
struct HostSearchStages : SearchStages, HostTuning {};

/// Facts about a tile when the search is over.
struct SearchedHostTile {
  HostTile tile;
  GroupingStatistics grouping;
  double score = 0;
  std::optional<TuningResult> proxy;
  std::optional<TuningResult> full;
};

/// The outcome of a search.
struct HostSearch {
  TileSpace space;
  std::vector<SearchedHostTile> tiles;  ///< best-ranked first
  std::size_t chosen = 0;
  std::shared_ptr<const HostArtifact> artifact;  ///< of the chosen one
  bool proxies = false;
  bool timed = false;
};

/// The search with its parts put together.
[[nodiscard]] inline HostSearch search_host_tile(const HostSearchInput& input,
                                                 const HostSearchStages& stages,
                                                 const TimeHostKernels& timer,
                                                 const CompileContext& context = {}) {
  SearchSettings settings;
  settings.mode = input.options.policy.search;
  settings.budget_ms = input.options.policy.search_budget_ms;
  settings.stages = stages;
  HostTunable space(input, timer, stages);
  const SearchOutcome outcome = search(space, settings, context);
  HostSearch found;
  found.space = space.space();
  for (std::size_t i = 0; i < outcome.trace.entries.size(); ++i) {
    const SearchTraceEntry& entry = outcome.trace.entries[i];
    found.tiles.push_back({space.tile(i), space.grouping(i), entry.score, entry.proxy, entry.full});
  }
  found.chosen = outcome.trace.chosen;
  found.artifact =
      std::make_shared<HostArtifact>(space.artifact(found.chosen, outcome.build.get()));
  found.proxies = outcome.trace.proxies;
  found.timed = outcome.trace.timed;
  return found;
}

/// Whole kernels of the `top_k` best-ranked.
[[nodiscard]] inline HostSearchStages in_full(std::size_t top_k) {
  HostSearchStages stages;
  stages.top_k = top_k;
  stages.stand_ins = false;
  return stages;
}

/// Proxies of the `top_k` best-ranked, then `finalists` in full.
[[nodiscard]] inline HostSearchStages with_proxies(std::size_t top_k, std::size_t finalists) {
  HostSearchStages stages;
  stages.top_k = top_k;
  stages.finalists = finalists;
  return stages;
}

/// A search of a small matrix whose kernels a formula times.
class HostTileSearch : public testing::Test {
 protected:
  /// The result of a candidate of a batch; batches count from 0.
  using Formula = std::function<TuningResult(std::size_t batch, const HostTuningCandidate&)>;

  HostTileSearch() {
    options_.target = Target(HostIsa::avx512);
    options_.policy.search = SearchMode::exhaustive;
    limits_.isa = HostIsa::avx512;
    limits_.lanes = 16;
    limits_.registers = 32;
    choose_by_rules();
  }

  void choose_by_rules() {
    const DeviceInfo device = limits_;
    heuristic_ = host_choice_by_rules({problem_, options_, device, {}}).tile;
  }

  [[nodiscard]] HostSearchInput input() const { return {problem_, options_, limits_, heuristic_}; }

  HostSearch search(const HostSearchStages& stages, const Formula& formula) {
    const auto timer = [&](std::span<const HostTuningCandidate> candidates,
                           const TuningOptions& options) {
      std::vector<TuningResult> results;
      for (const HostTuningCandidate& candidate : candidates) {
        results.push_back(formula(batches_.size(), candidate));
      }
      batches_.emplace_back(candidates.begin(), candidates.end());
      tuning_options_.push_back(options);
      return results;
    };
    return search_host_tile(input(), stages, timer);
  }

  /// Different times, the later a tile is first seen the less.
  [[nodiscard]] Formula later_is_faster() {
    return [this](std::size_t, const HostTuningCandidate& candidate) {
      const auto count = static_cast<double>(seen_.size());
      return finished_in(seen_.emplace(to_string(candidate.tile), 1000 - count).first->second);
    };
  }

  [[nodiscard]] std::set<std::string> timed_in(std::size_t batch) const {
    std::set<std::string> names;
    for (const HostTuningCandidate& candidate : batches_.at(batch)) {
      names.insert(to_string(candidate.tile));
    }
    return names;
  }

  Problem problem_ = problem_of(random_matrix(60, 300, 0.8), 96);
  CompileOptions options_;
  HostDeviceInfo limits_;
  HostTile heuristic_;
  std::vector<std::vector<HostTuningCandidate>> batches_;
  std::vector<TuningOptions> tuning_options_;
  std::map<std::string, double> seen_;
};

[[nodiscard]] inline bool same_code(const HostArtifact& left, const HostArtifact& right) {
  return left.text == right.text && left.weights == right.weights;
}

/// Tiles that have such a result.
[[nodiscard]] inline std::set<std::string> names_of(
    const HostSearch& search, std::optional<TuningResult> SearchedHostTile::*member) {
  std::set<std::string> names;
  for (const SearchedHostTile& tile : search.tiles) {
    if (tile.*member) names.insert(to_string(tile.tile));
  }
  return names;
}

}  // namespace spjit::testing_support
