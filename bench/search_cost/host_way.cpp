#include <algorithm>
#include <memory>
#include <string>

#include "artifact/families.hpp"
#include "bench/search_cost/way.hpp"
#include "kernels/host/unrolled/host_choice.hpp"
#include "kernels/host/unrolled/host_timer.hpp"
#include "kernels/host/unrolled/shipped_models.hpp"
#include "proxy/search.hpp"
#include "runtime/device.hpp"
#include "spjit/error.hpp"

namespace spjit::bench {
namespace {

/// How many tiles were made code for.
std::size_t candidates_of(const HostChoiceTrace& trace, const CompileOptions& options) {
  const std::size_t survivors = std::max<std::size_t>(trace.search.entries.size(), 1);
  if (options.policy.search != SearchMode::ranked) return survivors;
  return std::min(survivors, static_cast<std::size_t>(options.policy.top_k));
}

std::string note_of(const HostChoiceTrace& trace, CostWay way) {
  if (way == CostWay::instant) return {};
  if (is_full(way)) return "every tile emitted by itself and timed, none dropped";
  return trace.search.proxies ? "proxies, then finalists in full"
                              : "whole kernels: proxies do not pay for so little work";
}

}  // namespace

std::int64_t run_host_way(const Problem& problem, const Target& target, CostWay way,
                          const CostSettings& settings, CostReporter& reporter) {
  if (is_full(way) && way != CostWay::full_undivided) {
    throw InvalidArgument("the host has no units: its full kernels are undivided");
  }
  CompileOptions options = way_options(way, settings);
  options.target = target;
  HostTuning tuning;
  tuning.builders = settings.threads;
  if (is_full(way)) {
    tuning.reductions.kernels = false;
  }
  const TimeHostKernels timer = [way](std::span<const HostTuningCandidate> candidates,
                                      const TuningOptions& given) {
    return time_host_kernels(candidates, is_full(way) ? without_drops(given) : given,
                             {.between_bytes = 0});
  };
  const DeviceInfo device = device_info_of(target);
  const CompileContext context;
  const FamilyRequest request{problem, options, device, context.cancel};
  BuildRequest build{request, context};
  build.rank_model = shipped_host_model(target.isa());
  build.search = [&](TunableSpace& space, std::chrono::steady_clock::time_point begin) {
    return search(space, settings_of(options.policy, space, begin), context);
  };
  const BuiltHost compiled = build_host_choice(build, timer, tuning);
  reporter.set_candidates(candidates_of(compiled.trace, options));
  reporter.say(note_of(compiled.trace, way));
  return static_cast<std::int64_t>(compiled.artifact.text.size());
}

}  // namespace spjit::bench
