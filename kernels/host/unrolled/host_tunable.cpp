#include "kernels/host/unrolled/host_tunable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/host_cpu.hpp"
#include "kernels/host/unrolled/tile_space.hpp"
#include "rankmodel/rank_model.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// The same code is a few percent faster or slower from one load to the next, by which physical
/// pages it gets (docs/design/search.md); so few tiles are loaded this often and the middle one
/// counts. Of more the best are timed again like that, and the heuristic's.
constexpr std::size_t k_candidate_loads = 5;
constexpr std::size_t k_few_tiles = 8;
/// Rounds of timing at most. Proxies only choose the finalists.
constexpr int k_proxy_rounds = 8;
constexpr int k_full_rounds = 16;
/// Loads differ by more than that.
constexpr double k_host_error_goal = 0.01;

int builders(const CompileOptions& options) {
  // LLVM, which emits for the generic target, is given threads of its own.
  if (options.target.isa() == HostIsa::generic) return 1;
  const int cpus = usable_cpus();
  return options.resources.parallel_compiles > 0
             ? std::min(options.resources.parallel_compiles, cpus)
             : cpus;
}

const HostBuild& host_build(const TunableBuild& build) {
  return static_cast<const HostBuild&>(build);
}

}  // namespace

HostTunable::HostTunable(const HostSearchInput& input, TimeHostKernels timer,
                         const HostTuning& tuning)
    : input_(input),
      timer_(std::move(timer)),
      tuning_(tuning),
      groupings_(*input.problem.a, input.options.policy.reorder, input.cancel) {
  rank();
}

/// By estimates: grouping takes longer than anything else here, and only what is timed is worth it.
void HostTunable::rank() {
  const Cancellation& cancel = input_.cancel;
  const CompileOptions& options = input_.options;
  const HostTile& heuristic = input_.heuristic;
  const EstimatedGrouping estimated(*input_.problem.a, cancel);
  const DescribeGrouping describe = [&](std::int64_t m1) { return estimated.statistics(m1); };
  space_ = enumerate_host_tiles(input_.problem, options, input_.limits, describe, cancel);
  std::vector<TileCandidate> survivors = space_.survivors();
  const bool has = std::ranges::any_of(
      survivors, [&](const TileCandidate& candidate) { return candidate.tile == heuristic; });
  if (!has) {
    survivors.push_back(examine_host_tile(input_.problem, heuristic, options, input_.limits,
                                          describe(heuristic.m1)));
  }
  const Workload work = workload_of(input_.problem, options.resources.threads, cancel);
  ranked_ = rank_host_tiles(std::move(survivors), work, input_.limits, input_.model);
  // Not that of std::ranges, whose result clang 14 does not parse.
  std::stable_partition(ranked_.begin(), ranked_.end(), [&](const RankedHostTile& ranked) {
    return ranked.candidate.tile == heuristic;
  });
}

std::string HostTunable::ranked_by() const { return spjit::ranked_by(input_.model); }

std::vector<SearchCandidate> HostTunable::candidates() const {
  const std::int64_t lanes = lanes_of(input_.options.target.isa());
  std::vector<SearchCandidate> candidates;
  candidates.reserve(ranked_.size());
  for (const RankedHostTile& ranked : ranked_) {
    const HostTile& tile = ranked.candidate.tile;
    candidates.push_back({to_string(tile), tile.m1, tile.nv * lanes, ranked.score});
  }
  return candidates;
}

TuningTraits HostTunable::traits() const {
  TuningTraits traits;
  traits.stand_ins_pay = host_proxies_pay(input_.problem.a->nnz(), input_.problem.n.value);
  traits.favourite = 0;
  traits.batch_bytes = tuning_.batch_bytes;
  traits.loads = k_candidate_loads;
  traits.few = k_few_tiles;
  traits.stand_in_rounds = k_proxy_rounds;
  traits.full_rounds = k_full_rounds;
  traits.relative_error_goal = k_host_error_goal;
  traits.stand_in_builders = traits.full_builders =
      tuning_.builders > 0 ? tuning_.builders : builders(input_.options);
  traits.short_builds = true;
  return traits;
}

bool HostTunable::share_build(std::size_t left, std::size_t right, Fidelity fidelity) const {
  static_cast<void>(fidelity);
  return tuning_.reductions.kernels && share_code(tile(left), tile(right));
}

std::shared_ptr<const TunableBuild> HostTunable::build(std::span<const std::size_t> candidates,
                                                       Fidelity fidelity,
                                                       const Cancellation& cancel) {
  auto made = std::make_shared<HostBuild>();
  made->tile = tile(candidates.front());
  try {
    made->artifact = std::make_shared<const HostArtifact>(make(made->tile, fidelity, cancel));
  } catch (const Error& error) {
    made->failure = error.what();
    return made;
  }
  made->bytes = made->artifact->run_bytes();
  const std::int64_t budget = input_.options.policy.code_budget_bytes;
  if (const auto size = std::ssize(made->artifact->text); size > budget) {
    made->failure = fmt::format("{} bytes of code, the budget is {}", size, budget);
  }
  return made;
}

std::vector<TuningResult> HostTunable::time(std::span<const TuningJob> jobs,
                                            const TuningOptions& options) {
  std::vector<HostTuningCandidate> timed;
  timed.reserve(jobs.size());
  for (const TuningJob& job : jobs) {
    if (options.check) options.check();
    std::shared_ptr<const HostArtifact> artifact = host_build(*job.build).artifact;
    if (job.load > 0) artifact = std::make_shared<const HostArtifact>(*artifact);
    const HostTile& wanted = tile(job.candidate);
    const bool windowed = job.fidelity == Fidelity::stand_in;
    timed.push_back({std::move(artifact), wanted, windowed ? window(wanted) : 0});
  }
  return timer_(timed, options);
}

HostArtifact HostTunable::artifact(std::size_t candidate, const TunableBuild* build) {
  const HostTile& wanted = tile(candidate);
  if (build == nullptr) return make(wanted, Fidelity::full, input_.cancel);
  return with_loop_order(*host_build(*build).artifact, wanted);
}

/// Of the plan's m1. Whoever comes while it is being built waits.
const KernelPlan& HostTunable::plan(std::int64_t m1, const Cancellation& cancel) {
  PlanEntry* entry = nullptr;
  {
    const std::lock_guard lock(mutex_);
    entry = &plans_[m1];
  }
  const std::lock_guard lock(entry->mutex);
  if (!entry->plan) {
    const std::int64_t all = std::max<std::int64_t>(input_.problem.a->cols, 1);
    entry->plan = build_plan(*input_.problem.a, groupings_.at(m1), all, cancel);
  }
  return *entry->plan;
}

HostArtifact HostTunable::make(const HostTile& tile, Fidelity fidelity,
                               const Cancellation& cancel) {
  HostProxyOptions options{
      .reductions = {.tiles = false}, .limits = tuning_.limits, .cancel = cancel};
  if (fidelity == Fidelity::stand_in) options.reductions = tuning_.reductions;
  return make_host_proxy(plan(tile.m1, cancel), tile, input_.problem, input_.options.target.isa(),
                         options);
}

/// Columns that a call of the tile's proxy works on.
std::int64_t HostTunable::window(const HostTile& tile) const {
  if (!tuning_.reductions.columns) return 0;
  Workload work;
  work.nnz = input_.problem.a->nnz();
  work.n = input_.problem.n.value;
  work.threads = input_.options.resources.threads;
  return window_columns(tile, tile.nv * lanes_of(input_.options.target.isa()), work,
                        tuning_.limits);
}

}  // namespace spjit
