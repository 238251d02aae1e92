#include "proxy/kernel_race.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include "base/pinned_thread.hpp"
#include "kernels/timing_operands.hpp"
#include "plan/problem.hpp"

namespace spjit {

std::vector<TuningResult> race_kernels(std::span<const RaceEntry> entries, const Problem& problem,
                                       const RaceOptions& options, const CompileContext& context) {
  if (!too_large_to_time(problem).empty()) return {};
  const Turns::Place turn = context.take_timing_turn();
  const auto start = std::chrono::steady_clock::now();
  TuningOptions tuning;
  tuning.check = [&] { context.check(); };
  tuning.relative_error_goal = 0.01;
  const std::int64_t n = problem.n.value;
  std::unique_ptr<TimingOperands> operands;
  try {
    operands = std::make_unique<TimingOperands>(
        TimingShape{problem.a->rows, problem.a->cols, n, problem.ldb(), problem.ldc()},
        options.between_bytes, options.pool, tuning.check);
  } catch (const NoMemory&) {
    return {};
  }
  const Arguments arguments{operands->b(), problem.ldb(), operands->c(), problem.ldc(), n};
  std::vector<TuningEntry> runners;
  runners.reserve(entries.size());
  for (const RaceEntry& entry : entries) {
    runners.push_back({entry.name, [&, kernel = entry.kernel](std::int64_t calls) {
                         return operands->timer().us(calls, [&] { kernel->run(arguments); });
                       }});
  }
  const std::optional<PinnedThread> pinned = pinned_if_alone(options.pool);
  tuning.budget_ms = std::max(options.budget_ms - ms_since(start), 0.0);
  return run_tuning(runners, paced(tuning, options.between_bytes == 0));
}

}  // namespace spjit
