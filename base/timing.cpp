#include "base/timing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

#include "spjit/error.hpp"

namespace spjit {
namespace {

// Median absolute deviation to standard deviation, and standard deviation of a mean to that of a
// median, both for normal samples: 1 / Phi^-1(3/4) and sqrt(pi / 2).
constexpr double k_deviation_of_mad = 1.4826;
constexpr double k_error_of_median = 1.2533;

/// One candidate while it is being measured.
struct Series {
  std::int64_t batch = 1;
  double call_us = 0;  ///< estimate from the warm-up
  std::vector<double> samples_us;
};

/// Median; reorders `values`, which must not be empty.
double median_of(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

void check(std::span<const TimingCandidate> candidates, const TimingOptions& options) {
  for (const TimingCandidate& candidate : candidates) {
    if (!candidate.run) {
      throw InvalidArgument(
          fmt::format("timing candidate '{}' has no function to run; set TimingCandidate::run",
                      candidate.name));
    }
  }
  if (!options.clock) {
    throw InvalidArgument("timing options have no clock; use steady_timing_clock()");
  }
  check_sample_counts(options.min_samples, options.max_samples);
}

/// The policy: warm up, then rounds until enough is known.
class Measurement {
 public:
  Measurement(std::span<const TimingCandidate> candidates, const TimingOptions& options)
      : candidates_(candidates), options_(options), series_(candidates.size()) {}

  std::vector<TimingResult> run() {
    start_us_ = now_us();
    for (std::size_t i = 0; i < candidates_.size(); ++i) warm_up(i);
    for (int round = 0; wants_round(round); ++round) take_round(round);
    return results();
  }

 private:
  [[nodiscard]] double now_us() const {
    return std::chrono::duration<double, std::micro>(options_.clock()).count();
  }

  double time_batch(std::size_t candidate, std::int64_t calls) {
    const auto& run = candidates_[candidate].run;
    const double begin = now_us();
    for (std::int64_t call = 0; call < calls; ++call) run();
    return now_us() - begin;
  }

  /// Batches that double until one is long enough and the warm-up is over. The last one says how
  /// long a call takes: the first ones pay for page faults, cold caches and sleeping cores.
  void warm_up(std::size_t candidate) {
    Series& series = series_[candidate];
    begin_sample(candidate);
    candidates_[candidate].run();
    const double end = now_us() + options_.warm_up_ms * 1e3;
    std::int64_t calls = 1;
    double elapsed = time_batch(candidate, calls);
    while (calls < k_max_batch && (elapsed < options_.min_batch_us || now_us() < end)) {
      if (elapsed < options_.min_batch_us) calls *= 2;
      elapsed = time_batch(candidate, calls);
    }
    series.call_us = elapsed / static_cast<double>(calls);
    const double wanted = std::ceil(options_.min_batch_us / series.call_us);
    // A call of no measurable time makes `wanted` infinite.
    series.batch = wanted < static_cast<double>(calls)
                       ? std::max<std::int64_t>(1, static_cast<std::int64_t>(wanted))
                       : calls;
    end_sample(candidate);
  }

  void begin_sample(std::size_t candidate) {
    const auto& before_sample = candidates_[candidate].before_sample;
    if (before_sample) before_sample();
  }

  void end_sample(std::size_t candidate) {
    const auto& after_sample = candidates_[candidate].after_sample;
    if (after_sample) after_sample();
  }

  void take_round(int round) {
    const std::size_t count = candidates_.size();
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t candidate = round % 2 == 0 ? i : count - 1 - i;
      Series& series = series_[candidate];
      begin_sample(candidate);
      // Brings its data back into the caches that the candidate before has filled.
      candidates_[candidate].run();
      const double elapsed = time_batch(candidate, series.batch);
      series.samples_us.push_back(elapsed / static_cast<double>(series.batch));
      end_sample(candidate);
    }
  }

  [[nodiscard]] double round_us() const {
    return std::accumulate(series_.begin(), series_.end(), 0.0,
                           [](double sum, const Series& series) {
                             return sum + static_cast<double>(series.batch + 1) * series.call_us;
                           });
  }

  [[nodiscard]] bool wants_round(int round) const {
    if (candidates_.empty() || round >= options_.max_samples) return false;
    if (round < options_.min_samples) return true;
    if (now_us() + round_us() > start_us_ + options_.budget_ms * 1e3) return false;
    const auto results_so_far = results();
    return std::any_of(results_so_far.begin(), results_so_far.end(),
                       [&](const TimingResult& result) {
                         return result.relative_error > options_.relative_error_goal;
                       });
  }

  [[nodiscard]] std::vector<TimingResult> results() const {
    std::vector<TimingResult> results;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      results.push_back(summarize_samples(candidates_[i].name, series_[i].samples_us));
      results.back().batch = series_[i].batch;
    }
    return results;
  }

  std::span<const TimingCandidate> candidates_;
  const TimingOptions& options_;
  std::vector<Series> series_;
  double start_us_ = 0;
};

}  // namespace

TimingClock steady_timing_clock() {
  return [] {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::steady_clock::now().time_since_epoch());
  };
}

TimingResult summarize_samples(std::string name, std::vector<double> samples_us) {
  TimingResult result;
  result.name = std::move(name);
  result.samples = static_cast<int>(samples_us.size());
  const auto count = static_cast<double>(samples_us.size());
  result.min_us = *std::min_element(samples_us.begin(), samples_us.end());
  result.mean_us = std::accumulate(samples_us.begin(), samples_us.end(), 0.0) / count;
  result.median_us = median_of(samples_us);
  if (result.median_us <= 0) return result;
  for (double& sample : samples_us) sample = std::abs(sample - result.median_us);
  result.noise = k_deviation_of_mad * median_of(samples_us) / result.median_us;
  result.relative_error = k_error_of_median * result.noise / std::sqrt(count);
  return result;
}

void check_sample_counts(int min_samples, int max_samples) {
  if (min_samples >= 1 && max_samples >= min_samples) return;
  throw InvalidArgument(
      fmt::format("timing with {} to {} samples; expected 1 <= min_samples <= max_samples",
                  min_samples, max_samples));
}

std::vector<TimingResult> measure_interleaved(std::span<const TimingCandidate> candidates,
                                              const TimingOptions& options) {
  check(candidates, options);
  return Measurement(candidates, options).run();
}

}  // namespace spjit
