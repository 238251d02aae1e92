#include <algorithm>
#include <memory>
#include <string>

#include "artifact/families.hpp"
#include "bench/gpu/changed_space.hpp"
#include "bench/search_cost/way.hpp"
#include "kernels/built_kernel.hpp"
#include "proxy/search.hpp"
#include "runtime/device.hpp"
#include "spjit/error.hpp"

namespace spjit::bench {
namespace {

/// How many tiles were made code for.
std::size_t candidates_of(const SearchTrace& trace, const CompileOptions& options) {
  const std::size_t survivors = std::max<std::size_t>(trace.entries.size(), 1);
  if (options.policy.search != SearchMode::ranked) return survivors;
  return std::min(survivors, static_cast<std::size_t>(options.policy.top_k));
}

std::string note_of(const SearchTrace& trace, CostWay way) {
  if (way == CostWay::instant) return {};
  if (is_full(way)) return "every tile emitted by itself and timed, none dropped";
  return trace.proxies ? "proxies, then finalists in full"
                       : "whole kernels: proxies do not pay for so little work";
}

}  // namespace

BuiltKernel build_unrolled(BuildRequest request) {
  const CompileOptions& options = request.what.options;
  const KernelFamily& family = find_family("unrolled", options.target.backend());
  request.rank_model = family.rank_model(options);
  BuiltKernel built = family.build(request);
  if (built.declined) throw Error(built.declined.reason());
  return built;
}

std::int64_t run_host_way(const Problem& problem, const Target& target, CostWay way,
                          const CostSettings& settings, CostReporter& reporter) {
  if (is_full(way) && way != CostWay::full_undivided) {
    throw InvalidArgument("the host has no units: its full kernels are undivided");
  }
  CompileOptions options = way_options(way, settings);
  options.target = target;
  options.resources.parallel_compiles = settings.threads;
  const DeviceInfo device = device_info_of(target);
  const CompileContext context;
  const FamilyRequest request{problem, options, device, context.cancel};
  BuildRequest build{request, context};
  SearchTrace trace;
  build.search = [&](TunableSpace& of, std::chrono::steady_clock::time_point begin) {
    SpaceChanges changes;
    changes.shares_builds = !is_full(way);
    if (is_full(way)) changes.timing = without_drops;
    ChangedSpace space(of, std::move(changes));
    SearchOutcome found = search(space, settings_of(options.policy, space, begin), context);
    trace = found.trace;
    return found;
  };
  const BuiltKernel built = build_unrolled(build);
  reporter.set_candidates(candidates_of(trace, options));
  reporter.say(note_of(trace, way));
  return built.record.at("code_bytes").get<std::int64_t>();
}

}  // namespace spjit::bench
