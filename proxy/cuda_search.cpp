#include "proxy/cuda_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/elapsed.hpp"
#include "kernels/unrolled_cuda/cuda_prior.hpp"
#include "plan/kernel_plan.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using Clock = std::chrono::steady_clock;

/// What compiling may use of the time; the rest is for timing.
constexpr double k_compile_share = 0.7;
constexpr int k_rounds = 16;
/// A launch takes a few microseconds of its own: a sample has many.
constexpr double k_cuda_error_goal = 0.005;

std::span<const std::byte> bytes_of(const std::string& image) {
  return std::as_bytes(std::span(image));
}

TuningResult failed(std::string reason) {
  TuningResult result;
  result.outcome = TuningOutcome::failed;
  result.failure = std::move(reason);
  return result;
}

/// What a time suffers from; or empty.
std::string note_of(std::int64_t spilled_bytes, const std::string& launch_note) {
  if (spilled_bytes == 0) return launch_note;
  return fmt::format("spills {} bytes a thread{}{}", spilled_bytes, launch_note.empty() ? "" : "; ",
                     launch_note);
}

/// One search on its way.
class CudaSearch {
 public:
  CudaSearch(const CudaSearchInput& input, std::span<const CudaCandidate> ranked)
      : input_(input), options_(input.options), ranked_(ranked), start_(Clock::now()) {
    trace_.mode = options_.search;
    trace_.ranked_by = k_cuda_prior_name;
    trace_.budget_ms = options_.search_budget_ms;
    for (const CudaCandidate& candidate : ranked) {
      trace_.entries.push_back({to_string(candidate.tile),
                                candidate.tile.m1,
                                candidate.tile.n1,
                                candidate.score,
                                {},
                                {}});
    }
  }

  SearchTrace run(const CudaSearchTools& tools, const CudaReductions& reductions) {
    if (input_.matrix.nnz() == 0 || ranked_.empty()) return std::move(trace_);
    if (options_.search == SearchMode::exhaustive) {
      time_kernels(tools);
    } else {
      time_proxies(tools, reductions);
    }
    return std::move(trace_);
  }

 private:
  [[nodiscard]] Clock::time_point after(double share) const {
    return start_ +
           std::chrono::duration_cast<Clock::duration>(
               std::chrono::duration<double, std::milli>(options_.search_budget_ms * share));
  }

  /// When compiling candidates ends: with its share of the budget, or with all.
  [[nodiscard]] Cancellation compile_deadline() const {
    Cancellation cancel = input_.watch.cancel;
    const Clock::time_point share = after(k_compile_share);
    cancel.deadline = std::min(cancel.deadline.value_or(share), share);
    return cancel;
  }

  void report(std::string_view stage, std::size_t done, std::size_t total) const {
    if (!options_.on_search_progress) return;
    SearchProgress progress;
    progress.stage = stage;
    progress.done = done;
    progress.total = total;
    const std::chrono::duration<double> left = after(1) - Clock::now();
    progress.seconds_left = std::max(0.0, left.count());
    options_.on_search_progress(progress);
  }

  // Proxies.

  std::vector<CudaProxyGroup> groups_of(std::span<const CudaCandidate> candidates,
                                        bool one_for_all_widths) const {
    if (one_for_all_widths) return group_candidates(candidates);
    std::vector<CudaProxyGroup> groups;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      groups.push_back({candidates[i].tile.m1, {i}});
    }
    return groups;
  }

  CudaProxy make_proxy(const CudaProxyGroup& group, const CudaReductions& reductions) {
    std::vector<CudaCandidate> members;
    for (const std::size_t member : group.members) members.push_back(ranked_[member]);
    CudaProxyOptions options;
    options.ldb = options_.ldb;
    options.ldc = options_.ldc;
    options.reduce_blocks = reductions.blocks;
    options.reduce_iterations = reductions.iterations;
    const KernelPlan plan =
        build_plan(input_.matrix, input_.groupings.at(group.m1),
                   std::max<std::int64_t>(input_.matrix.cols, 1), input_.watch.cancel);
    return make_cuda_proxy(plan, members, input_.limits, options);
  }

  /// In the order of the proxies, by several threads; this one reports what is done, and if that
  /// throws stops the others. None where the time was up before one had compiled.
  std::vector<std::optional<CompiledCudaProxy>> compile(const std::vector<CudaProxy>& proxies,
                                                        const CudaSearchTools& tools) const {
    std::vector<std::optional<CompiledCudaProxy>> made(proxies.size());
    std::stop_source stop;
    Cancellation cancel = compile_deadline();
    const std::stop_callback forward(cancel.stop, [&stop] { stop.request_stop(); });
    cancel.stop = stop.get_token();
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t next = 0;
    std::size_t done = 0;
    const auto work = [&] {
      while (true) {
        std::size_t mine = 0;
        {
          const std::lock_guard lock(mutex);
          if (next == proxies.size()) return;
          mine = next++;
        }
        if (!cancel.reached()) made[mine] = tools.compile_proxy(proxies[mine], cancel);
        if (made[mine] && !made[mine]->failure.empty() && cancel.reached()) made[mine].reset();
        {
          const std::lock_guard lock(mutex);
          ++done;
        }
        changed.notify_one();
      }
    };
    std::vector<std::jthread> workers;
    const auto count =
        std::min(static_cast<std::size_t>(std::max(tools.compile_threads, 1)), proxies.size());
    for (std::size_t i = 0; i < count; ++i) workers.emplace_back(work);
    std::unique_lock lock(mutex);
    for (std::size_t seen = 0; seen < proxies.size();) {
      changed.wait(lock, [&] { return done > seen; });
      seen = done;
      try {
        report("compiling", seen, proxies.size());
      } catch (...) {
        stop.request_stop();
        throw;
      }
    }
    input_.watch.check();
    return made;
  }

  void time_proxies(const CudaSearchTools& tools, const CudaReductions& reductions) {
    std::size_t contenders = ranked_.size();
    if (options_.search == SearchMode::ranked) {
      contenders = std::min(contenders, static_cast<std::size_t>(options_.search_contenders));
    }
    const std::vector<CudaProxyGroup> groups =
        groups_of(ranked_.first(contenders), reductions.kernels);
    std::vector<CudaProxy> proxies;
    proxies.reserve(groups.size());
    for (const CudaProxyGroup& group : groups) proxies.push_back(make_proxy(group, reductions));
    const std::vector<std::optional<CompiledCudaProxy>> compiled = compile(proxies, tools);

    std::vector<CudaTuningCandidate> contestants;
    std::vector<std::size_t> entries;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      for (const std::size_t member : groups[i].members) {
        if (!compiled[i] || !compiled[i]->failure.empty()) {
          trace_.entries[member].proxy =
              compiled[i] ? failed(compiled[i]->failure) : TuningResult{};
          continue;
        }
        CudaProxyLaunch launch = launch_of(ranked_[member], compiled[i]->registers, input_.limits);
        trace_.entries[member].note = note_of(compiled[i]->spilled_bytes, launch.note);
        if (!reductions.occupancy) launch.dynamic_shared_bytes = 0;
        contestants.push_back(
            {trace_.entries[member].tile, bytes_of(compiled[i]->cubin), std::move(launch)});
        entries.push_back(member);
      }
    }
    race(contestants, entries, tools, &SearchTraceEntry::proxy);
    trace_.proxies = true;
    trace_.proxy_ms = ms_since(start_);
  }

  // Whole kernels.

  void time_kernels(const CudaSearchTools& tools) {
    const Cancellation cancel = compile_deadline();
    std::vector<CudaKernelImage> images(ranked_.size());
    std::vector<CudaTuningCandidate> contestants;
    std::vector<std::size_t> entries;
    for (std::size_t i = 0; i < ranked_.size(); ++i) {
      if (cancel.reached()) {
        trace_.entries[i].full = TuningResult{};
        continue;
      }
      try {
        images[i] = tools.compile_kernel(ranked_[i], cancel);
      } catch (const Error& error) {
        input_.watch.check();
        trace_.entries[i].full = cancel.reached() ? TuningResult{} : failed(error.what());
      }
      report("compiling", i + 1, ranked_.size());
      if (trace_.entries[i].full) continue;
      trace_.entries[i].note = note_of(images[i].spilled_bytes, "");
      CudaProxyLaunch launch;
      launch.grid_x = images[i].blocks_x;
      launch.grid_y = ranked_[i].column_tiles;
      launch.threads = ranked_[i].tile.n1;
      contestants.push_back({trace_.entries[i].tile, bytes_of(images[i].cubin), std::move(launch)});
      entries.push_back(i);
    }
    race(contestants, entries, tools, &SearchTraceEntry::full);
    trace_.full_ms = ms_since(start_);
  }

  void race(const std::vector<CudaTuningCandidate>& contestants,
            const std::vector<std::size_t>& entries, const CudaSearchTools& tools,
            std::optional<TuningResult> SearchTraceEntry::*member) {
    if (contestants.empty()) return;
    // What is left of the budget does not shrink while others time.
    const std::chrono::duration<double, std::milli> left = after(1) - Clock::now();
    const Turns::Place turn = input_.watch.take_timing_turn();
    TuningOptions race_options;
    race_options.max_rounds = k_rounds;
    race_options.relative_error_goal = k_cuda_error_goal;
    race_options.check = [this] { input_.watch.check(); };
    race_options.budget_ms = std::max(0.0, left.count());
    if (options_.on_search_progress) {
      race_options.progress = [&](const TuningProgress& progress) {
        SearchProgress now;
        now.stage = member == &SearchTraceEntry::proxy ? "proxies" : "kernels";
        now.done = progress.settled;
        now.total = progress.entries;
        now.best = progress.best;
        now.best_us = progress.best_us;
        now.seconds_left = progress.ms_left / 1e3;
        options_.on_search_progress(now);
      };
    }
    const std::vector<TuningResult> results = tools.race(contestants, race_options);
    for (std::size_t i = 0; i < results.size(); ++i) {
      trace_.entries[entries[i]].*member = results[i];
    }
    const std::ptrdiff_t winner = winner_of(results);
    if (winner == k_no_winner) return;
    trace_.timed = true;
    trace_.chosen = entries[static_cast<std::size_t>(winner)];
  }

  const CudaSearchInput& input_;
  const CompileOptions& options_;
  std::span<const CudaCandidate> ranked_;
  Clock::time_point start_;
  SearchTrace trace_;
};

}  // namespace

SearchTrace search_cuda_tile(const CudaSearchInput& input, std::span<const CudaCandidate> ranked,
                             const CudaSearchTools& tools, const CudaReductions& reductions) {
  return CudaSearch(input, ranked).run(tools, reductions);
}

std::vector<TuningResult> time_cuda_kernels(std::span<const CudaTuningCandidate> contestants,
                                            const TuningOptions& options, CudaTimer& timer) {
  std::vector<TuningResult> results(contestants.size());
  std::map<const std::byte*, CudaFunction> loaded;
  std::vector<TuningEntry> entries;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < contestants.size(); ++i) {
    const CudaTuningCandidate& contestant = contestants[i];
    if (options.check) options.check();
    try {
      auto found = loaded.find(contestant.image.data());
      if (found == loaded.end()) {
        found = loaded.emplace(contestant.image.data(), timer.load(contestant.image)).first;
      }
      entries.push_back(
          {contestant.name, [&timer, function = found->second, &contestant](std::int64_t calls) {
             return timer.time_us(function, contestant.launch, calls) * static_cast<double>(calls);
           }});
      places.push_back(i);
    } catch (const DeviceError& error) {
      results[i] = failed(error.what());
    }
  }
  std::vector<TuningResult> raced = run_tuning(entries, options);
  for (std::size_t i = 0; i < raced.size(); ++i) results[places[i]] = std::move(raced[i]);
  return results;
}

}  // namespace spjit
