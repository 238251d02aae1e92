#include "kernels/host/unrolled/host_timer.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/pinned_thread.hpp"
#include "kernels/host/operands/timing_operands.hpp"
#include "kernels/host/unrolled/unrolled_executable.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// Calls until caches have settled. Code and weights of 3 MB run at a fifth of their speed in the
/// first call and at full speed from the sixth on, those of 9 MB from the eighth on at eight times
/// that of the first three; below 1 MB the second call is within a tenth (Zen 5, 1 MB of L2).
int settling_calls(const HostArtifact& artifact) {
  constexpr std::size_t k_long_bytes = std::size_t{1} << 20;
  constexpr int k_calls = 8;
  return artifact.run_bytes() > k_long_bytes ? k_calls : 0;
}

/// One candidate on its way through the windows.
class WindowedKernel {
 public:
  WindowedKernel(std::shared_ptr<const UnrolledMultiplier> kernel,
                 const HostTuningCandidate& candidate, int threads)
      : kernel_(std::move(kernel)), n_(kernel_->columns()) {
    program_ = kernel_->in_order_of(candidate.tile);
    split_ = choose_split(program_, n_, threads);
    if (candidate.columns > 0) split_.n = std::min(candidate.columns, n_);
    windows_ = n_ / split_.n;
    workspace_ = {workspace_floats(program_, split_), touched_floats(program_, split_)};
  }

  double run_us(const TimingOperands& operands, std::int64_t ldb, ThreadPool* pool,
                std::int64_t calls) {
    const WorkspacePool::Loan workspace(operands.workspaces(), workspace_);
    return operands.timer().us(calls, [&] {
      const std::int64_t column = window_ * split_.n;
      execute(program_, split_,
              {.b = operands.b() + column,
               .ldb = ldb,
               .c = operands.c() + column,
               .ldc = n_,
               .n = split_.n},
              workspace.data(), pool);
      window_ = (window_ + 1) % windows_;
    });
  }

  /// Of a run that a call does.
  [[nodiscard]] double part() const {
    return static_cast<double>(split_.n) / static_cast<double>(n_);
  }

 private:
  std::shared_ptr<const UnrolledMultiplier> kernel_;
  HostProgram program_;
  HostSplit split_;
  WorkspaceSize workspace_;
  std::int64_t n_;
  std::int64_t windows_ = 1;
  std::int64_t window_ = 0;
};

/// Each artifact's kernel, or why there is none.
struct Loaded {
  std::shared_ptr<const UnrolledMultiplier> kernel;
  std::string failure;
};

Loaded load(const HostArtifact& artifact, const std::shared_ptr<ThreadPool>& pool) {
  try {
    const HostImage image = artifact.image();
    return {std::make_shared<const UnrolledMultiplier>(HostObject{image, nullptr, pool},
                                                       read_program(image)),
            ""};
  } catch (const Error& error) {
    return {nullptr, error.what()};
  }
}

/// Null if B and C do not fit the memory: then that is what all results failed of.
std::unique_ptr<TimingOperands> make_operands(const TimingShape& shape, const HostTiming& timing,
                                              const std::function<void()>& check,
                                              std::vector<TuningResult>& results) {
  try {
    return std::make_unique<TimingOperands>(shape, timing.between_bytes, timing.pool.get(), check);
  } catch (const NoMemory& error) {
    for (TuningResult& result : results) {
      result.outcome = TuningOutcome::failed;
      result.failure = error.what();
    }
    return nullptr;
  }
}

}  // namespace

std::vector<TuningResult> time_host_kernels(std::span<const HostTuningCandidate> candidates,
                                            const TuningOptions& options,
                                            const HostTiming& timing) {
  const std::shared_ptr<ThreadPool>& pool = timing.pool;
  std::vector<TuningResult> results(candidates.size());
  std::map<const HostArtifact*, Loaded> loaded;
  std::vector<WindowedKernel> runners;
  std::vector<std::size_t> places;
  const HostProgram* shape = nullptr;
  std::int64_t n = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (options.check) options.check();
    const HostArtifact* artifact = candidates[i].artifact.get();
    const auto [found, is_new] = loaded.try_emplace(artifact);
    if (is_new) found->second = load(*artifact, pool);
    if (found->second.kernel == nullptr) {
      results[i].outcome = TuningOutcome::failed;
      results[i].failure = found->second.failure;
      continue;
    }
    shape = &found->second.kernel->program();
    n = found->second.kernel->columns();
    runners.emplace_back(found->second.kernel, candidates[i],
                         pool == nullptr ? 1 : pool->threads());
    places.push_back(i);
  }
  if (runners.empty()) return results;

  const std::int64_t ldb = timing.ldb == 0 ? n : timing.ldb;
  const auto operands = make_operands(
      {.rows = shape->rows, .cols = shape->cols, .n = n, .b_columns = n, .ldb = ldb, .ldc = n},
      timing, options.check, results);
  if (operands == nullptr) return results;
  const bool is_hot = timing.between_bytes == 0;
  std::vector<TuningEntry> entries;
  entries.reserve(runners.size());
  for (std::size_t i = 0; i < runners.size(); ++i) {
    entries.push_back({to_string(candidates[places[i]].tile),
                       [&, i](std::int64_t calls) {
                         return runners[i].run_us(*operands, ldb, pool.get(), calls);
                       },
                       runners[i].part(),
                       is_hot ? settling_calls(*candidates[places[i]].artifact) : 0});
  }
  const std::optional<PinnedThread> pinned = pinned_if_alone(pool.get());
  std::vector<TuningResult> timed = run_tuning(entries, paced(options, is_hot));
  for (std::size_t i = 0; i < timed.size(); ++i) results[places[i]] = std::move(timed[i]);
  return results;
}

}  // namespace spjit
