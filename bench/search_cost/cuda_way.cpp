#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "artifact/families.hpp"
#include "artifact/tuned_families.hpp"
#include "base/host_cpu.hpp"
#include "bench/gpu/changed_space.hpp"
#include "bench/search_cost/way.hpp"
#include "kernels/built_kernel.hpp"
#include "proxy/search.hpp"
#include "spjit/error.hpp"

namespace spjit::bench {
namespace {

constexpr const char* k_undivided = "1099511627776";  // nonzeros of a unit, the most there are

/// So many candidates as they are ranked, or drawn where all are compiled. std::shuffle draws
/// differently from one standard library to another.
std::vector<std::size_t> order_of(std::size_t count, CostWay way, std::uint64_t seed) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (!is_full(way)) return order;
  std::mt19937_64 random(seed);
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  return order;
}

CompileOptions cuda_options(const CudaCostTarget& target, CostWay way,
                            const CostSettings& settings) {
  CompileOptions options = way_options(way, settings);
  options.target = Target::parse(target.name);
  if (settings.threads <= 0) options.resources.compile_threads = usable_cpus();
  if (way == CostWay::full_undivided) options.policy.values["unit_nonzeros"] = k_undivided;
  return options;
}

SearchOutcome search_by(TunableSpace& space, const SearchPolicy& policy) {
  SearchSettings settings;
  settings.mode = policy.search;
  settings.budget_ms = policy.search_budget_ms;
  settings.stages = search_stages(policy.search, policy.top_k, true);
  return search(space, settings, {});
}

/// What was compiled for the search.
std::string note_of(const SearchTrace& trace, std::int64_t compiled, std::size_t candidates) {
  const std::int64_t whole = std::ranges::count_if(
      trace.entries, [](const SearchTraceEntry& entry) { return entry.full.has_value(); });
  return fmt::format("{} proxies for {} tiles, then whole kernels of {}",
                     compiled - std::min(compiled, whole), candidates,
                     std::max<std::int64_t>(whole, 1));
}

/// Machine code of the chosen kernel, which is compiled unless the search has.
std::int64_t finish(TunableSpace& space, const SearchOutcome& found) {
  std::shared_ptr<const TunableBuild> build = found.build;
  if (build == nullptr) {
    const std::size_t chosen[] = {found.trace.chosen};
    build = space.build(chosen, Fidelity::full, {});
  }
  if (!build->failure.empty()) throw CompileFailed(build->failure);
  return build->code_bytes;
}

}  // namespace

std::int64_t run_cuda_way(const Problem& problem, const CudaCostTarget& target, CostWay way,
                          const CostSettings& settings, CostReporter& reporter) {
  const CompileOptions options = cuda_options(target, way, settings);
  const DeviceInfo device = device_info_of(options.target);
  const CompileContext context;
  const FamilyRequest request{problem, options, device, context.cancel};
  if (way == CostWay::instant) {
    reporter.set_candidates(1);
    return build_unrolled({request, context}).record.at("code_bytes").get<std::int64_t>();
  }
  const auto ranked =
      tuned_family(options.target.backend()).space(request, {.gpu = target.ordinal});
  std::size_t candidates = ranked->candidates().size();
  SpaceChanges changes{.order = order_of(candidates, way, settings.seed)};
  changes.built = [&](const TunableBuild& build) { reporter.done(!build.failure.empty()); };
  if (target.rehearsal) changes.timing = rehearsed;
  if (is_full(way)) {
    changes.timing = [then = changes.timing](const TuningOptions& given) {
      return then ? then(without_drops(given)) : without_drops(given);
    };
  }
  if (way == CostWay::ranked) {
    candidates = std::min(candidates, static_cast<std::size_t>(options.policy.top_k));
  }
  reporter.set_candidates(candidates);
  reporter.begin();
  ChangedSpace space(*ranked, std::move(changes));
  const SearchOutcome found = search_by(space, options.policy);
  if (reporter.compiled() == reporter.failed()) throw Error("no candidate compiled");
  if (target.ordinal && !found.trace.timed) throw Error("no candidate could be timed");
  if (is_full(way)) return 0;
  reporter.say(note_of(found.trace, reporter.compiled(), candidates));
  return finish(*ranked, found);
}

}  // namespace spjit::bench
