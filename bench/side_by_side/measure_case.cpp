#include "bench/side_by_side/measure_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "base/call_timer.hpp"
#include "base/host_cpu.hpp"
#include "bench/side_by_side/waiting.hpp"
#include "spjit/error.hpp"
#include "tools/peers/machine_peak.hpp"

namespace spjit::side_by_side {
namespace {

constexpr double k_most_dense_bytes = 2e9;
constexpr double k_peak_ms = 15;
constexpr int k_least_samples = 7;
constexpr int k_least_long_samples = 3;

/// Every library that was to be timed is right, and that is all.
void leave_untimed(CaseResult& result) {
  for (PeerTiming& timing : result.timings) {
    timing.prepare_ms = 0;
    if (timing.failed.empty()) timing.failed = k_not_timed;
  }
}

double elements_of(const CsrMatrix& matrix) {
  return static_cast<double>(matrix.rows) * static_cast<double>(matrix.cols);
}

/// A library that may be timed.
struct Contestant {
  std::unique_ptr<Runnable> runnable;
  PeerTiming* timing = nullptr;
  double first_us = 0;  ///< its first run, the one that was checked
};

double us_of(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

/// Without a runnable if it cannot compute the problem or its result is wrong; `timing` says why.
Contestant prepare_checked(Peer& peer, Operands& operands, int threads, PeerTiming& timing) {
  using Clock = std::chrono::steady_clock;
  try {
    const Problem problem = operands.problem(threads);
    const auto begin = Clock::now();
    std::unique_ptr<Runnable> runnable = peer.prepare(problem);
    const auto end = Clock::now();
    timing.prepare_kind = peer.info().prepare_kind;
    if (!timing.prepare_kind.empty()) timing.prepare_ms = us_of(end - begin) / 1e3;
    timing.detail = runnable->detail();
    operands.spoil_c();
    const auto before_run = Clock::now();
    runnable->run();
    const double first_us = us_of(Clock::now() - before_run);
    runnable->publish();
    timing.failed = operands.check_c(peer.info().rounding);
    if (threads > 1) end_turn(*runnable);
    if (!timing.failed.empty()) runnable.reset();
    return {std::move(runnable), &timing, first_us};
  } catch (const Error& error) {
    timing.failed = error.what();
    return {};
  }
}

TimingResult of_one_product(TimingResult run, int products) {
  run.median_us /= products;
  run.min_us /= products;
  run.mean_us /= products;
  return run;
}

/// Of the CPUs used, of which each has `isa`; 0 if there is none to measure. [GFLOP/s]
double measure_peak(const std::optional<HostIsa>& isa, int threads) {
  if (!isa) return 0;
  return measure_fma_peak_gflops(*isa, k_peak_ms) * std::min(threads, usable_cpus());
}

/// Whether one round takes a large part of the budget: few of such long runs say enough.
bool are_long(const std::vector<Contestant>& contestants, double budget_ms) {
  double runs_us = 0;
  for (const Contestant& contestant : contestants) runs_us += contestant.first_us;
  // A sample is a run to warm up and one that counts.
  return 2 * runs_us / 1e3 > budget_ms / k_least_samples;
}

std::vector<TimingCandidate> candidates_of(const std::vector<Contestant>& contestants,
                                           int threads) {
  std::vector<TimingCandidate> candidates;
  for (const Contestant& contestant : contestants) {
    Runnable* const runnable = contestant.runnable.get();
    TimingCandidate candidate{contestant.timing->library, [runnable] { runnable->run(); }};
    if (threads > 1) candidate.after_sample = [runnable] { end_turn(*runnable); };
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

void time_warm(std::vector<Contestant>& contestants, const MeasureOptions& options, int threads,
               const TimingClock& clock) {
  TimingOptions timing;
  timing.budget_ms = options.budget_ms;
  timing.warm_up_ms = options.warm_up_ms;
  timing.min_batch_us = options.min_batch_us;
  timing.min_samples =
      are_long(contestants, options.budget_ms) ? k_least_long_samples : k_least_samples;
  timing.clock = clock;
  const std::vector<TimingResult> results =
      measure_interleaved(candidates_of(contestants, threads), timing);
  for (std::size_t i = 0; i < results.size(); ++i) {
    contestants[i].timing->warm = of_one_product(results[i], contestants[i].runnable->products());
  }
}

void time_cold(std::vector<Contestant>& contestants, int runs, int threads,
               const CallTimer& timer) {
  if (runs == 0) return;
  std::vector<TimingCandidate> candidates = candidates_of(contestants, threads);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    Runnable* const runnable = contestants[i].runnable.get();
    candidates[i].before_sample = [runnable] { runnable->forget(); };
  }
  const std::vector<TimingResult> results =
      measure_single_calls(candidates, timer, {.min_samples = runs, .max_samples = runs});
  for (std::size_t i = 0; i < results.size(); ++i) {
    contestants[i].timing->cold_us = results[i].median_us;
  }
}

}  // namespace

double CaseResult::sparsity() const noexcept {
  const double elements = static_cast<double>(rows) * static_cast<double>(cols);
  return elements > 0 ? 1 - static_cast<double>(nnz) / elements : 0;
}

double CaseResult::gflops(const PeerTiming& timing) const noexcept {
  const double operations = 2 * static_cast<double>(nnz) * static_cast<double>(n);
  return timing.warm.median_us > 0 ? operations / (timing.warm.median_us * 1e3) : 0;
}

bool CaseResult::any_timed() const {
  return std::any_of(timings.begin(), timings.end(),
                     [](const PeerTiming& timing) { return timing.failed.empty(); });
}

bool CaseResult::all_right() const {
  return !timings.empty() &&
         std::all_of(timings.begin(), timings.end(),
                     [](const PeerTiming& timing) { return timing.failed == k_not_timed; });
}

double CaseResult::traffic_bytes() const noexcept {
  const auto dense = static_cast<double>(rows + cols) * static_cast<double>(n);
  return 4 * dense + 8 * static_cast<double>(nnz) + 4 * static_cast<double>(rows + 1);
}

Operands::Operands(CsrMatrix matrix, std::int64_t n)
    : matrix_(std::move(matrix)), n_(n), b_(matrix_.cols * n, 0.0F), c_(matrix_.rows * n, 0.0F) {
  if (4 * elements_of(matrix_) <= k_most_dense_bytes) dense_ = bench::dense_of(matrix_);
  bench::fill_operand(b_.data(), matrix_.cols, n_);
  expected_ = evaluate_float64(matrix_, {b_.data(), n_, c_.data(), n_, n_});
}

Problem Operands::problem(int threads) {
  return {&matrix_, dense_.empty() ? nullptr : dense_.data(), n_, threads, b_.data(), c_.data()};
}

void Operands::spoil_c() {
  std::fill_n(c_.data(), matrix_.rows * n_, std::numeric_limits<float>::quiet_NaN());
}

std::string Operands::check_c(double rounding) const {
  for (std::size_t i = 0; i < expected_.values.size(); ++i) {
    const auto given = static_cast<double>(c_.data()[i]);
    const double expected = expected_.values[i];
    // Written so that a NaN is none of both.
    const double bound = rounding * expected_.bounds[i];
    if (given == expected || std::abs(given - expected) <= bound) continue;
    const auto at = static_cast<std::int64_t>(i);
    return fmt::format("wrong: C[{}][{}] is {:.9g}, expected {:.9g} within {:.2g}", at / n_,
                       at % n_, given, expected, bound);
  }
  return {};
}

TimingClock without_overhead(TimingClock clock, std::vector<const Runnable*> runnables) {
  return [clock = std::move(clock), runnables = std::move(runnables)] {
    std::chrono::nanoseconds now = clock();
    for (const Runnable* runnable : runnables) now -= runnable->overhead();
    return now;
  };
}

CaseResult measure_case(const std::vector<std::unique_ptr<Peer>>& peers, Operands& operands,
                        int threads, const MeasureOptions& options, CacheFlush& caches) {
  CaseResult result;
  const CsrMatrix& matrix = operands.matrix();
  result.rows = matrix.rows;
  result.cols = matrix.cols;
  result.nnz = matrix.nnz();
  result.n = operands.n();
  result.threads = threads;
  for (const auto& peer : peers) {
    if (!peer->info().missing.empty()) continue;
    result.timings.push_back({peer->info().name, {}, {}, 0, {}, {}, {}});
  }
  std::vector<Contestant> contestants;
  std::vector<const Runnable*> runnables;
  auto timing = result.timings.begin();
  for (const auto& peer : peers) {
    if (!peer->info().missing.empty()) continue;
    const int cpus = usable_cpus();
    Contestant contestant = prepare_checked(*peer, operands, threads, *timing);
    if (usable_cpus() != cpus) {
      throw Error(
          fmt::format("{} bound the calling thread to {} of {} CPUs, and with it all threads "
                      "made after that: what follows cannot be compared",
                      peer->info().name, usable_cpus(), cpus));
    }
    if (contestant.runnable != nullptr) {
      runnables.push_back(contestant.runnable.get());
      contestants.push_back(std::move(contestant));
    }
    ++timing;
  }
  result.checked =
      std::none_of(result.timings.begin(), result.timings.end(),
                   [](const PeerTiming& t) { return t.failed.rfind("wrong", 0) == 0; });

  if (options.check_only) {
    leave_untimed(result);
    return result;
  }
  const TimingClock clock = without_overhead(options.clock, runnables);
  result.peak_gflops = measure_peak(options.isa, threads);
  time_warm(contestants, options, threads, clock);
  result.peak_gflops = std::max(result.peak_gflops, measure_peak(options.isa, threads));
  const bool few = are_long(contestants, options.budget_ms);
  time_cold(contestants, few ? std::min(1, options.cold_runs) : options.cold_runs, threads,
            CallTimer([&] { caches.flush(); }, {}, clock));
  return result;
}

}  // namespace spjit::side_by_side
