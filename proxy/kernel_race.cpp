#include "proxy/kernel_race.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include "base/pinned_thread.hpp"
#include "kernels/timing_operands.hpp"
#include "plan/problem.hpp"

namespace spjit {
namespace {

PreparedValues values_for(const Executable& kernel, const Problem& problem) {
  if (!problem.runtime_values) return {};
  return PreparedValues(kernel.prepare_values(problem.a->values));
}

}  // namespace

std::vector<TuningResult> race_kernels(std::span<const RaceEntry> entries, const Problem& problem,
                                       const RaceOptions& options, const CompileContext& context) {
  if (!too_large_to_time(problem).empty()) return {};
  const Turns::Place turn = context.take_timing_turn();
  const auto start = std::chrono::steady_clock::now();
  TuningOptions tuning;
  tuning.check = [&] { context.check(); };
  tuning.relative_error_goal = 0.01;
  std::unique_ptr<TimingOperands> operands;
  std::vector<PreparedValues> values;
  try {
    operands = std::make_unique<TimingOperands>(timing_shape_of(problem), options.between_bytes,
                                                options.pool, tuning.check);
    for (const RaceEntry& entry : entries) values.push_back(values_for(*entry.kernel, problem));
  } catch (const NoMemory&) {
    return {};
  }
  std::vector<TuningEntry> runners;
  runners.reserve(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    Arguments arguments = operands->arguments();
    if (problem.runtime_values) arguments.values = &values[i];
    runners.push_back(
        {entries[i].name, [&operands, arguments, kernel = entries[i].kernel](std::int64_t calls) {
           return operands->timer().us(calls, [&] { kernel->run(arguments); });
         }});
  }
  const std::optional<PinnedThread> pinned = pinned_if_alone(options.pool);
  tuning.budget_ms = std::max(options.budget_ms - ms_since(start), 0.0);
  return run_tuning(runners, paced(tuning, options.between_bytes == 0));
}

}  // namespace spjit
