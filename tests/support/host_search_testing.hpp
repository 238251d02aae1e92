#pragma once

/// @file
/// Searches for host tiles whose kernels a formula times.

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "compiler/pipeline.hpp"
#include "proxy/host_search.hpp"
#include "tests/support/host_tuning_testing.hpp"
#include "tests/support/spmm_testing.hpp"

namespace spjit::testing_support {

constexpr std::size_t k_all = 0;

/// Whole kernels of the `contenders` best-ranked.
[[nodiscard]] inline HostSearchStages in_full(std::size_t contenders) {
  HostSearchStages stages;
  stages.contenders = contenders;
  stages.proxies = false;
  return stages;
}

/// Proxies of the `contenders` best-ranked, then `finalists` in full.
[[nodiscard]] inline HostSearchStages with_proxies(std::size_t contenders, std::size_t finalists) {
  HostSearchStages stages;
  stages.contenders = contenders;
  stages.finalists = finalists;
  return stages;
}

/// A search of a small matrix whose kernels a formula times.
class HostTileSearch : public testing::Test {
 protected:
  /// What a contestant of a heat gets; heats count from 0.
  using Formula = std::function<TuningResult(std::size_t heat, const HostTuningCandidate&)>;

  HostTileSearch() {
    options_.n = 96;
    options_.target = Target(HostIsa::avx512);
    options_.policy.search = SearchMode::exhaustive;
    limits_.isa = HostIsa::avx512;
    limits_.lanes = 16;
    limits_.registers = 32;
    heuristic_ = plan_choice(matrix_, options_, limits_).tile;
  }

  HostSearch search(const HostSearchStages& stages, const Formula& formula) {
    const auto race = [&](std::span<const HostTuningCandidate> contestants,
                          const TuningOptions& options) {
      std::vector<TuningResult> results;
      for (const HostTuningCandidate& contestant : contestants) {
        results.push_back(formula(heats_.size(), contestant));
      }
      heats_.emplace_back(contestants.begin(), contestants.end());
      race_options_.push_back(options);
      return results;
    };
    return search_host_tile({matrix_, options_, limits_, heuristic_}, stages, race);
  }

  /// Different times, the later a tile is first seen the less.
  [[nodiscard]] Formula later_is_faster() {
    return [this](std::size_t, const HostTuningCandidate& contestant) {
      const auto count = static_cast<double>(seen_.size());
      return finished_in(seen_.emplace(to_string(contestant.tile), 1000 - count).first->second);
    };
  }

  [[nodiscard]] std::set<std::string> raced_in(std::size_t heat) const {
    std::set<std::string> names;
    for (const HostTuningCandidate& contestant : heats_.at(heat)) {
      names.insert(to_string(contestant.tile));
    }
    return names;
  }

  CsrMatrix matrix_ = random_matrix(60, 300, 0.8);
  CompileOptions options_;
  HostDeviceInfo limits_;
  HostTile heuristic_;
  std::vector<std::vector<HostTuningCandidate>> heats_;
  std::vector<TuningOptions> race_options_;
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
