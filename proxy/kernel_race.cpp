#include "proxy/kernel_race.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include "base/pinned_thread.hpp"
#include "base/timing.hpp"
#include "kernels/cuda/launch/cuda_timing.hpp"
#include "kernels/host/operands/timing_operands.hpp"
#include "plan/problem.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

PreparedValues values_for(const Executable& kernel, const Problem& problem) {
  if (!problem.runtime_values) return {};
  return PreparedValues(kernel.prepare_values(problem.a->values));
}

std::vector<PreparedValues> values_for_all(std::span<const RaceEntry> entries,
                                           const Problem& problem) {
  std::vector<PreparedValues> values;
  for (const RaceEntry& entry : entries) values.push_back(values_for(*entry.kernel, problem));
  return values;
}

/// A launch takes a few microseconds of its own: a sample has many.
constexpr double k_gpu_error_goal = 0.005;

std::vector<TuningResult> race_on_gpu(std::span<const RaceEntry> entries, const Problem& problem,
                                      const RaceOptions& options, const CompileContext& context) {
  const Turns::Place turn = context.take_timing_turn();
  const auto start = std::chrono::steady_clock::now();
  try {
    CudaTimingOperands operands(CudaContext(local_cuda_driver(), *options.gpu), problem);
    const std::vector<PreparedValues> values = values_for_all(entries, problem);
    std::vector<TuningEntry> runners;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      Arguments arguments = operands.arguments();
      if (problem.runtime_values) arguments.values = &values[i];
      runners.push_back(
          {entries[i].name, [&operands, arguments, kernel = entries[i].kernel](std::int64_t calls) {
             return operands.time_us(calls, [&] { kernel->launch(arguments); }) *
                    static_cast<double>(calls);
           }});
    }
    TuningOptions tuning;
    tuning.check = [&] { context.check(); };
    tuning.relative_error_goal = k_gpu_error_goal;
    tuning.budget_ms = std::max(options.budget_ms - ms_since(start), 0.0);
    return run_tuning(runners, tuning);
  } catch (const DeviceError&) {
    return {};
  }
}

}  // namespace

std::vector<TuningResult> race_kernels(std::span<const RaceEntry> entries, const Problem& problem,
                                       const RaceOptions& options, const CompileContext& context) {
  if (options.gpu) return race_on_gpu(entries, problem, options, context);
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
    values = values_for_all(entries, problem);
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
