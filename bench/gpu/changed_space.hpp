#pragma once

/// @file
/// The candidates of a problem with some of them left out, or built and timed in another way.

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/tuning/tunable_space.hpp"

namespace spjit::bench {

struct SpaceChanges {
  std::vector<std::size_t> order = {};  ///< which candidates, in that order; empty: all as they are
  bool shares_builds = true;            ///< off: each candidate is built by itself
  std::function<TuningOptions(const TuningOptions&)> timing = {};  ///< other rounds; may be empty
  std::function<void(const TunableBuild&)> built = {};  ///< is told of each build; may be empty
};

/// Refers to the space. A candidate is its place in the order.
class ChangedSpace final : public TunableSpace {
 public:
  ChangedSpace(TunableSpace& of, SpaceChanges changes);

  [[nodiscard]] std::string ranked_by() const override { return of_.ranked_by(); }
  [[nodiscard]] std::vector<SearchCandidate> candidates() const override;
  [[nodiscard]] TuningTraits traits() const override;
  [[nodiscard]] bool share_build(std::size_t left, std::size_t right,
                                 Fidelity fidelity) const override;
  [[nodiscard]] std::shared_ptr<const TunableBuild> build(std::span<const std::size_t> candidates,
                                                          Fidelity fidelity,
                                                          const Cancellation& cancel) override;
  [[nodiscard]] std::vector<TuningResult> time(std::span<const TuningJob> jobs,
                                               const TuningOptions& options) override;
  [[nodiscard]] std::string note(const TuningJob& job) const override;

 private:
  [[nodiscard]] TuningJob inner(TuningJob job) const;

  TunableSpace& of_;
  SpaceChanges changes_;
};

/// `tuning` with the fewest launches, for the emulated driver: every step of a search is taken, no
/// time of it means anything.
[[nodiscard]] TuningOptions rehearsed(const TuningOptions& tuning);

}  // namespace spjit::bench
