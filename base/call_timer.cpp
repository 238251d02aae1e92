#include "base/call_timer.hpp"

#include <chrono>
#include <cstddef>

#include "base/arithmetic.hpp"

namespace spjit {

double CallTimer::us(std::int64_t calls, FunctionRef<void()> call) const {
  std::chrono::nanoseconds sum{0};
  auto start = clock_();
  for (std::int64_t i = 0; i < calls; ++i) {
    if (disturb_) {
      disturb_();
      read_input();
      start = clock_();
    }
    call();
    if (disturb_) sum += clock_() - start;
  }
  if (!disturb_) sum = clock_() - start;
  return std::chrono::duration<double, std::micro>(sum).count();
}

void CallTimer::read_input() const {
  constexpr std::int64_t k_line_floats = 16;
  for (std::int64_t row = 0; row < input_.rows; ++row) {
    const volatile float* const data = input_.data + row * input_.stride;
    for (std::int64_t i = 0; i < input_.columns; i += k_line_floats) static_cast<void>(data[i]);
  }
}

std::vector<TimingResult> measure_single_calls(std::span<const TimingCandidate> candidates,
                                               const CallTimer& timer,
                                               const SingleCallOptions& options) {
  check_sample_counts(options.min_samples, options.max_samples);
  const auto start = timer.clock()();
  const auto in_budget = [&] {
    return std::chrono::duration<double, std::milli>(timer.clock()() - start).count() <
           options.budget_ms;
  };
  std::vector<std::vector<double>> samples(candidates.size());
  for (int round = 0; round < options.min_samples || (round < options.max_samples && in_budget());
       ++round) {
    for (std::size_t turn = 0; turn < candidates.size(); ++turn) {
      const std::size_t i = (to_size(round) + turn) % candidates.size();
      const TimingCandidate& candidate = candidates[i];
      if (candidate.before_sample) candidate.before_sample();
      samples[i].push_back(timer.us(1, candidate.run));
      if (candidate.after_sample) candidate.after_sample();
    }
  }
  std::vector<TimingResult> results;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    results.push_back(summarize_samples(candidates[i].name, samples[i]));
    results.back().batch = 1;
  }
  return results;
}

}  // namespace spjit
