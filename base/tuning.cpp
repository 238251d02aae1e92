#include "base/tuning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <exception>
#include <utility>

#include "spjit/error.hpp"

namespace spjit {
namespace {

/// A first call, cold, that takes so much longer than the best is a slow runner's, if it is long
/// enough that cold misses are the smaller part of it.
constexpr double k_cold_margin = 1.5;
constexpr double k_long_call_us = 500;
/// A call that is longer than this, and not longer by more than this factor than the best, cannot
/// owe that to something else that ran meanwhile.
constexpr double k_sure_call_us = 2000;
constexpr double k_sure_margin = 4;
/// A sample that is worse by this factor than the runner's best was taken with cold caches.
constexpr double k_unsettled = 1.2;

/// A runner while it is timed.
struct Runner {
  std::int64_t batch = 1;
  double call_us = 0;  ///< estimate, first from the warm-up
  std::vector<double> samples_us;
  TimingResult timing;
  TuningOutcome outcome = TuningOutcome::not_reached;
  std::string failure;

  [[nodiscard]] bool runs() const {
    return outcome == TuningOutcome::finished || outcome == TuningOutcome::not_reached;
  }
};

void check(std::span<const TuningEntry> entries, const TuningOptions& options) {
  for (const TuningEntry& entry : entries) {
    if (!entry.run_us) {
      throw InvalidArgument(fmt::format(
          "tuning entry '{}' has no function to run; set TuningEntry::run_us", entry.name));
    }
    if (!(entry.part > 0)) {
      throw InvalidArgument(fmt::format("tuning entry '{}': a call is {} of a run; expected over 0",
                                        entry.name, entry.part));
    }
  }
  if (!options.clock) throw InvalidArgument("tuning options have no clock");
  if (options.min_rounds < 1 || options.max_rounds < options.min_rounds) {
    throw InvalidArgument(
        fmt::format("tuning of {} to {} rounds; expected 1 <= min_rounds <= max_rounds",
                    options.min_rounds, options.max_rounds));
  }
}

class Tuning {
 public:
  Tuning(std::span<const TuningEntry> entries, const TuningOptions& options)
      : entries_(entries), options_(options), runners_(entries.size()) {}

  std::vector<TuningResult> run() {
    end_us_ = now_us() + options_.budget_ms * 1e3;
    for (std::size_t i = 0; i < runners_.size() && !is_over(); ++i) warm_up(i);
    for (int round = 1; wants_round(round); ++round) {
      take_round(round);
      drop_slow(round);
    }
    return results();
  }

 private:
  [[nodiscard]] double now_us() const {
    return std::chrono::duration<double, std::micro>(options_.clock()).count();
  }
  [[nodiscard]] bool is_over() const { return now_us() >= end_us_; }

  /// Runs and, if that throws, takes the runner out; false then.
  bool try_run(std::size_t index, std::int64_t calls, double& us) {
    Runner& runner = runners_[index];
    if (options_.check) options_.check();
    try {
      us = entries_[index].run_us(calls);
      return true;
    } catch (const std::exception& error) {
      runner.outcome = TuningOutcome::failed;
      runner.failure = error.what();
    }
    return false;
  }

  /// The first call meets cold caches and unmapped pages; batches then double until one is long
  /// enough to say how long a call takes.
  void warm_up(std::size_t index) {
    Runner& runner = runners_[index];
    double us = 0;
    if (!try_run(index, 1, us)) return;
    if (us > options_.call_limit_ms * 1e3) {
      runner.outcome = TuningOutcome::failed;
      runner.failure = fmt::format("one call took {:.0f} ms, the limit is {:.0f} ms", us / 1e3,
                                   options_.call_limit_ms);
      return;
    }
    if (!settle(index)) return;
    if (entries_[index].settling_calls == 0 && us > k_long_call_us &&
        is_hopeless(index, us, k_cold_margin)) {
      // Two calls: a neighbour on the machine would have had to hit both.
      double again_us = us;
      if (!is_sure(index, us) && !try_run(index, 1, again_us)) return;
      if (drop_if_hopeless(index, std::min(us, again_us), k_cold_margin)) return;
    }
    if (!size_batch(index)) return;
    if (!is_hopeless(index, runner.call_us, drop_margin(0))) return;
    const double once_us = runner.call_us;
    if (!size_batch(index)) return;
    runner.call_us = std::min(runner.call_us, once_us);
    drop_if_hopeless(index, runner.call_us, drop_margin(0));
  }

  /// Runs as many calls as the caches need; false if the runner failed.
  bool settle(std::size_t index) {
    double us = 0;
    for (int call = 0; call < entries_[index].settling_calls && !is_over(); ++call) {
      if (!try_run(index, 1, us)) return false;
    }
    return true;
  }

  /// Doubles a batch until it is long enough for a sample; false if the runner failed.
  bool size_batch(std::size_t index) {
    Runner& runner = runners_[index];
    std::int64_t calls = 1;
    double us = 0;
    if (!try_run(index, calls, us)) return false;
    while (us < options_.min_sample_us && calls < k_max_batch && !is_over()) {
      calls *= 2;
      if (!try_run(index, calls, us)) return false;
    }
    runner.call_us = us / static_cast<double>(calls);
    const double wanted = std::ceil(options_.min_sample_us / runner.call_us);
    // A call of no measurable time makes `wanted` infinite.
    runner.batch = wanted < static_cast<double>(calls)
                       ? std::max<std::int64_t>(1, static_cast<std::int64_t>(wanted))
                       : calls;
    return true;
  }

  /// Whether one call is enough to say that a runner is slow.
  [[nodiscard]] bool is_sure(std::size_t index, double call_us) const {
    const double run_us = call_us / entries_[index].part;
    return call_us > k_sure_call_us && run_us < k_sure_margin * least_warm_up_us_;
  }

  /// Notes a warm-up call; whether it is so much worse than the best one.
  bool is_hopeless(std::size_t index, double call_us, double margin) {
    const double run_us = call_us / entries_[index].part;
    if (least_warm_up_us_ == 0 || run_us < least_warm_up_us_) least_warm_up_us_ = run_us;
    return options_.drops && run_us > least_warm_up_us_ * (1 + margin);
  }

  /// Drops such a runner; that call is then all that is timed of it.
  bool drop_if_hopeless(std::size_t index, double call_us, double margin) {
    if (!is_hopeless(index, call_us, margin)) return false;
    add_sample(index, call_us / entries_[index].part);
    runners_[index].outcome = TuningOutcome::dropped;
    return true;
  }

  void take_round(int round) {
    const std::size_t count = runners_.size();
    for (std::size_t i = 0; i < count && !is_over(); ++i) {
      const std::size_t index = round % 2 == 1 ? i : count - 1 - i;
      if (!runners_[index].runs()) continue;
      sample(index);
      if (options_.progress) options_.progress(progress(round));
    }
  }

  void sample(std::size_t index) {
    Runner& runner = runners_[index];
    double us = 0;
    if (!try_run(index, 1, us) || !try_run(index, runner.batch, us)) return;
    if (entries_[index].settling_calls > 0 && is_unsettled(index, us)) {
      double settled_us = 0;
      if (!settle(index) || !try_run(index, runner.batch, settled_us)) return;
      us = std::min(us, settled_us);
    }
    const double part = entries_[index].part;
    add_sample(index, us / static_cast<double>(runner.batch) / part);
    runner.outcome = TuningOutcome::finished;
    runner.call_us = runner.timing.median_us * part;
  }

  /// Whether a batch took much longer than the runner's best.
  [[nodiscard]] bool is_unsettled(std::size_t index, double batch_us) const {
    const Runner& runner = runners_[index];
    const double known =
        runner.samples_us.empty() ? runner.call_us : runner.timing.min_us * entries_[index].part;
    return batch_us > k_unsettled * known * static_cast<double>(runner.batch);
  }

  void add_sample(std::size_t index, double run_us) {
    Runner& runner = runners_[index];
    runner.samples_us.push_back(run_us);
    runner.timing = summarize_samples(entries_[index].name, runner.samples_us);
    runner.timing.batch = runner.batch;
  }

  [[nodiscard]] const Runner* best() const {
    const Runner* best = nullptr;
    for (const Runner& runner : runners_) {
      if (runner.outcome != TuningOutcome::finished) continue;
      if (best == nullptr || runner.timing.median_us < best->timing.median_us) best = &runner;
    }
    return best;
  }

  void drop_slow(int round) {
    const Runner* leader = best();
    if (leader == nullptr || !options_.drops) return;
    const double limit = leader->timing.median_us * (1 + drop_margin(round));
    for (Runner& runner : runners_) {
      // In the last, cut short round not all have as many samples.
      const bool full = std::ssize(runner.samples_us) >= round;
      if (runner.outcome == TuningOutcome::finished && full && runner.timing.min_us > limit) {
        runner.outcome = TuningOutcome::dropped;
      }
    }
  }

  [[nodiscard]] double round_us() const {
    double us = 0;
    for (const Runner& runner : runners_) {
      if (runner.runs()) us += static_cast<double>(runner.batch + 1) * runner.call_us;
    }
    return us;
  }

  [[nodiscard]] bool wants_round(int round) const {
    const auto left = std::ranges::count_if(runners_, &Runner::runs);
    if (left == 0 || round > options_.max_rounds || is_over()) return false;
    if (round <= options_.min_rounds) return true;
    if (left == 1) return false;
    return std::ranges::any_of(runners_, [&](const Runner& runner) {
      return runner.runs() && runner.timing.relative_error > options_.relative_error_goal;
    });
  }

  [[nodiscard]] TuningProgress progress(int round) const {
    TuningProgress progress;
    progress.entries = runners_.size();
    progress.settled = static_cast<std::size_t>(
        std::ranges::count_if(runners_, [](const Runner& runner) { return !runner.runs(); }));
    if (const Runner* leader = best()) {
      progress.best = leader->timing.name;
      progress.best_us = leader->timing.median_us;
    }
    const double rounds_us = round_us() * static_cast<double>(options_.max_rounds - round);
    progress.ms_left = std::max(0.0, std::min(end_us_ - now_us(), rounds_us)) / 1e3;
    return progress;
  }

  std::vector<TuningResult> results() {
    std::vector<TuningResult> results;
    for (std::size_t i = 0; i < runners_.size(); ++i) {
      Runner& runner = runners_[i];
      runner.timing.name = entries_[i].name;
      results.push_back({std::move(runner.timing), runner.outcome, std::move(runner.failure)});
    }
    return results;
  }

  std::span<const TuningEntry> entries_;
  const TuningOptions& options_;
  std::vector<Runner> runners_;
  double end_us_ = 0;
  double least_warm_up_us_ = 0;  ///< of a run; 0: none yet
};

}  // namespace

TuningOptions paced(TuningOptions options, bool hot) {
  if (!hot) options.min_sample_us = 0;
  return options;
}

std::string_view to_string(TuningOutcome outcome) {
  switch (outcome) {
    case TuningOutcome::finished:
      return "finished";
    case TuningOutcome::dropped:
      return "dropped";
    case TuningOutcome::failed:
      return "failed";
    case TuningOutcome::not_reached:
      return "not_reached";
  }
  return "?";
}

double drop_margin(int rounds) {
  const auto count = static_cast<double>(rounds);
  if (rounds < 2) return 1 / (count + 1);
  constexpr double k_floor = 0.02;
  constexpr double k_start = 0.5;
  return k_floor + k_start / (count * count);
}

std::vector<TuningResult> run_tuning(std::span<const TuningEntry> entries,
                                     const TuningOptions& options) {
  check(entries, options);
  return Tuning(entries, options).run();
}

std::ptrdiff_t winner_of(std::span<const TuningResult> results) {
  const auto fastest = [&](bool finished_only) {
    std::ptrdiff_t winner = k_no_winner;
    for (std::ptrdiff_t i = 0; i < std::ssize(results); ++i) {
      const TuningResult& result = results[static_cast<std::size_t>(i)];
      if (result.timing.samples == 0 || result.outcome == TuningOutcome::failed) continue;
      if (finished_only && result.outcome != TuningOutcome::finished) continue;
      if (winner == k_no_winner ||
          result.timing.median_us < results[static_cast<std::size_t>(winner)].timing.median_us) {
        winner = i;
      }
    }
    return winner;
  };
  if (const std::ptrdiff_t winner = fastest(true); winner != k_no_winner) return winner;
  // What was dropped while warming up was slower than one that the budget left no sample.
  const bool is_cut_off = std::ranges::any_of(results, [](const TuningResult& result) {
    return result.outcome == TuningOutcome::not_reached;
  });
  return is_cut_off ? k_no_winner : fastest(false);
}

}  // namespace spjit
