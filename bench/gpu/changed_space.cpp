#include "bench/gpu/changed_space.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace spjit::bench {

ChangedSpace::ChangedSpace(TunableSpace& of, SpaceChanges changes)
    : of_(of), changes_(std::move(changes)) {
  if (!changes_.order.empty()) return;
  changes_.order.resize(of.candidates().size());
  std::iota(changes_.order.begin(), changes_.order.end(), std::size_t{0});
}

std::vector<SearchCandidate> ChangedSpace::candidates() const {
  const std::vector<SearchCandidate> all = of_.candidates();
  std::vector<SearchCandidate> chosen;
  chosen.reserve(changes_.order.size());
  for (const std::size_t candidate : changes_.order) chosen.push_back(all[candidate]);
  return chosen;
}

TuningTraits ChangedSpace::traits() const {
  TuningTraits traits = of_.traits();
  if (!traits.favourite) return traits;
  const auto found = std::ranges::find(changes_.order, *traits.favourite);
  traits.favourite.reset();
  if (found != changes_.order.end()) {
    traits.favourite = static_cast<std::size_t>(found - changes_.order.begin());
  }
  return traits;
}

bool ChangedSpace::share_build(std::size_t left, std::size_t right, Fidelity fidelity) const {
  if (!changes_.shares_builds) return left == right;
  return of_.share_build(changes_.order[left], changes_.order[right], fidelity);
}

std::shared_ptr<const TunableBuild> ChangedSpace::build(std::span<const std::size_t> candidates,
                                                        Fidelity fidelity,
                                                        const Cancellation& cancel) {
  std::vector<std::size_t> members;
  members.reserve(candidates.size());
  for (const std::size_t candidate : candidates) members.push_back(changes_.order[candidate]);
  auto made = of_.build(members, fidelity, cancel);
  if (changes_.built) changes_.built(*made);
  return made;
}

std::vector<TuningResult> ChangedSpace::time(std::span<const TuningJob> jobs,
                                             const TuningOptions& options) {
  std::vector<TuningJob> timed;
  timed.reserve(jobs.size());
  for (const TuningJob& job : jobs) timed.push_back(inner(job));
  return of_.time(timed, changes_.timing ? changes_.timing(options) : options);
}

std::string ChangedSpace::note(const TuningJob& job) const { return of_.note(inner(job)); }

TuningJob ChangedSpace::inner(TuningJob job) const {
  job.candidate = changes_.order[job.candidate];
  return job;
}

TuningOptions rehearsed(const TuningOptions& tuning) {
  TuningOptions options = tuning;
  options.min_rounds = options.max_rounds = 1;
  options.min_sample_us = 1;
  options.call_limit_ms = 60'000;
  return options;
}

}  // namespace spjit::bench
