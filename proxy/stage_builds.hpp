#pragma once

/// @file
/// The builds of one stage of a search, made by several threads.

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "base/cancel.hpp"
#include "kernels/tuning/tunable_space.hpp"

namespace spjit {

/// Candidates that share a build, in the order in which they shall be timed.
using BuildGroup = std::vector<std::size_t>;

/// Candidates by who shares a build: groups in the order of their first members.
[[nodiscard]] std::vector<BuildGroup> group_by_build(const TunableSpace& space, Fidelity fidelity,
                                                     std::vector<std::size_t> candidates);

/// Who builds.
struct Builders {
  int threads = 1;
  /// The caller builds alone until threads pay, and then beside them; else it waits for them and
  /// reports.
  bool short_builds = false;
};

/// One build for each group. The threads only live within make(), so that nothing is built while
/// something is timed; what is made does not depend on how many there are.
class StageBuilds {
 public:
  /// Told, by the thread that calls make(), how many are made so far.
  using Report = std::function<void(std::size_t made)>;

  StageBuilds(TunableSpace& space, Fidelity fidelity, std::vector<BuildGroup> groups,
              Builders builders);

  [[nodiscard]] const std::vector<BuildGroup>& groups() const noexcept { return groups_; }
  /// Null before it is made, where its time was up, and after it was dropped.
  [[nodiscard]] std::shared_ptr<const TunableBuild> at(std::size_t group) const {
    return made_[group];
  }
  /// Whether a later group has a build.
  [[nodiscard]] bool any_after(std::size_t group) const;

  /// Makes `first` and what follows, until builds of `bytes` are made or `cancel` is reached; what
  /// that cuts off stays null. Several threads may make some more than `bytes`. What `report`
  /// throws stops the others.
  void make(std::size_t first, std::size_t bytes, const Cancellation& cancel, const Report& report);
  /// Nobody needs it any more.
  void drop(std::size_t group) { made_[group].reset(); }

 private:
  [[nodiscard]] std::shared_ptr<const TunableBuild> build(std::size_t group,
                                                          const Cancellation& cancel) const;
  /// The part that is left of `wanted` and `bytes` after `limit`.
  struct Rest {
    std::vector<std::size_t> wanted;  ///< groups
    std::size_t bytes = 0;
  };
  [[nodiscard]] Rest make_here(Rest rest, std::chrono::steady_clock::duration limit,
                               const Cancellation& cancel, const Report& report);
  struct Crew;
  /// The work of each thread.
  void work(Crew& crew, const Rest& rest, const Cancellation& cancel);
  void make_by_threads(const Rest& rest, const Cancellation& cancel, const Report& report);

  TunableSpace& space_;
  Fidelity fidelity_;
  std::vector<BuildGroup> groups_;
  Builders builders_;
  std::vector<std::shared_ptr<const TunableBuild>> made_;
  std::size_t count_ = 0;  ///< made so far
};

}  // namespace spjit
