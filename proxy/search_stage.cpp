#include "proxy/search_stage.hpp"

#include <algorithm>
#include <chrono>

namespace spjit {
namespace {

using Clock = SearchClock::Clock;

TuningResult failed(std::string reason) {
  TuningResult result;
  result.outcome = TuningOutcome::failed;
  result.failure = std::move(reason);
  return result;
}

/// A note on a stand-in stays beside one on the kernel.
void add_note(std::string& note, const std::string& more) {
  if (more.empty()) return;
  note = note.empty() ? more : note + "; in full: " + more;
}

}  // namespace

SearchStage::SearchStage(SearchRun& run, const StageLimits& limits,
                         std::vector<std::size_t> candidates)
    : run_(run),
      limits_(limits),
      builds_(run.space, limits.fidelity,
              group_by_build(run.space, limits.fidelity, std::move(candidates)),
              {limits.fidelity == Fidelity::stand_in ? run.traits.stand_in_builders
                                                     : run.traits.full_builders,
               run.traits.short_builds}) {
  for (std::size_t group = 0; group < builds_.groups().size(); ++group) {
    for (const std::size_t candidate : builds_.groups()[group]) {
      order_.emplace_back(candidate, group);
    }
  }
}

void SearchStage::run() {
  while (fill_batch()) time_batch();
  for (const auto& [candidate, group] : order_) {
    if (!result(candidate)) result(candidate) = TuningResult{};
  }
}

std::optional<TuningJob> SearchStage::best() const {
  if (carried_ == 0) return std::nullopt;
  return jobs_.front();
}

std::optional<TuningResult>& SearchStage::result(std::size_t candidate) {
  SearchTraceEntry& entry = run_.trace.entries[candidate];
  return limits_.fidelity == Fidelity::stand_in ? entry.proxy : entry.full;
}

/// Builds candidates until their code is a batch; false if there is nothing new to time.
bool SearchStage::fill_batch() {
  std::size_t bytes = 0;
  std::optional<std::size_t> latest;  // group
  for (; next_ < order_.size() && bytes < run_.traits.batch_bytes; ++next_) {
    run_.context.check();
    const auto [candidate, group] = order_[next_];
    const auto build = build_of(group, run_.traits.batch_bytes - bytes);
    if (build == nullptr && !builds_.any_after(group)) break;
    if (next_ + 1 == order_.size() || order_[next_ + 1].second != group) builds_.drop(group);
    if (build == nullptr) {
      ++left_out_;
      continue;
    }
    if (!build->failure.empty()) {
      ++left_out_;
      result(candidate) = failed(build->failure);
      continue;
    }
    bytes += build->bytes * (limits_.loads - (latest == group ? 1 : 0));
    latest = group;
    enter(candidate, build);
  }
  return jobs_.size() > carried_;
}

std::shared_ptr<const TunableBuild> SearchStage::build_of(std::size_t group, std::size_t bytes) {
  if (builds_.at(group) == nullptr) {
    Cancellation cancel = run_.context.cancel;
    const double share = limits_.begin + (limits_.end - limits_.begin) * run_.traits.build_share;
    const Clock::time_point end = run_.clock.after(share);
    cancel.deadline = std::min(cancel.deadline.value_or(end), end);
    builds_.make(group, bytes, cancel, [this](std::size_t made) { report_building(made); });
    run_.context.check();
  }
  return builds_.at(group);
}

void SearchStage::enter(std::size_t candidate, const std::shared_ptr<const TunableBuild>& build) {
  for (std::size_t load = 0; load < limits_.loads; ++load) {
    jobs_.push_back({candidate, limits_.fidelity, build, load});
  }
  add_note(run_.trace.entries[candidate].note, run_.space.note(jobs_.back()));
}

/// Times those that have entered; only the best stays.
void SearchStage::time_batch() {
  const std::size_t entered = (jobs_.size() - carried_) / limits_.loads;
  std::vector<TuningResult> results = middle_loads(time_jobs());
  earlier_ += entered;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::size_t candidate = jobs_[i].candidate;
    std::optional<TuningResult>& known = result(candidate);
    if (results[i].timing.samples > 0) {
      run_.trace.entries[candidate].confirmed = limits_.loads > 1;
    }
    // The best of the batches before keeps its time where this one ended without any.
    if (known && results[i].outcome == TuningOutcome::not_reached) results[i] = *known;
    known = results[i];
  }
  const std::ptrdiff_t winner = winner_of(results);
  if (winner == k_no_winner) {
    jobs_.clear();
  } else {
    jobs_ = {jobs_[static_cast<std::size_t>(winner)]};
  }
  carried_ = jobs_.size();
}

std::vector<TuningResult> SearchStage::time_jobs() {
  const auto asked = Clock::now();
  const Turns::Place turn = run_.context.take_timing_turn();
  run_.clock.add_pause(Clock::now() - asked);
  TuningOptions options;
  options.check = [this] { run_.context.check(); };
  options.budget_ms = run_.clock.ms_until(limits_.end);
  options.max_rounds = limits_.fidelity == Fidelity::stand_in ? run_.traits.stand_in_rounds
                                                              : run_.traits.full_rounds;
  options.relative_error_goal = run_.traits.relative_error_goal;
  if (run_.context.progress) {
    options.progress = [this](const TuningProgress& progress) { report_timing(progress); };
  }
  return run_.space.time(jobs_, options);
}

/// One result for each candidate: of its loads that with the middle time. Keeps one job each.
std::vector<TuningResult> SearchStage::middle_loads(const std::vector<TuningResult>& results) {
  std::vector<TuningResult> middles;
  std::vector<TuningJob> jobs;
  for (std::size_t i = 0; i < results.size();) {
    std::vector<const TuningResult*> loads;
    jobs.push_back(jobs_[i]);
    for (; i < results.size() && jobs_[i].candidate == jobs.back().candidate; ++i) {
      loads.push_back(&results[i]);
    }
    const auto middle = loads.begin() + std::ssize(loads) / 2;
    std::nth_element(loads.begin(), middle, loads.end(), [](const auto* a, const auto* b) {
      return std::pair(a->timing.samples == 0, a->timing.median_us) <
             std::pair(b->timing.samples == 0, b->timing.median_us);
    });
    middles.push_back(**middle);
  }
  jobs_ = std::move(jobs);
  return middles;
}

void SearchStage::report_building(std::size_t made) const {
  if (!run_.context.progress || run_.traits.build_stage.empty()) return;
  SearchProgress now;
  now.stage = run_.traits.build_stage;
  now.done = made;
  now.total = builds_.groups().size();
  now.seconds_left = run_.clock.ms_until(1) / 1e3;
  run_.context.progress(now);
}

void SearchStage::report_timing(const TuningProgress& progress) const {
  SearchProgress now;
  now.stage = limits_.fidelity == Fidelity::stand_in ? "proxies" : "kernels";
  now.done = earlier_ + progress.settled / limits_.loads;
  now.total = order_.size() - left_out_;
  now.best = progress.best;
  now.best_us = progress.best_us;
  now.seconds_left = progress.ms_left / 1e3;
  run_.context.progress(now);
}

}  // namespace spjit
