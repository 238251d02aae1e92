#include "kernels/cuda/unrolled/training/cuda_collector.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "base/hash.hpp"
#include "base/timing.hpp"
#include "clock/clock_constants.hpp"
#include "clock/cubin_clock.hpp"
#include "kernels/cuda/launch/cuda_program.hpp"
#include "kernels/cuda/unrolled/cuda_builder.hpp"
#include "kernels/cuda/unrolled/cuda_family.hpp"
#include "kernels/cuda/unrolled/cuda_modelled.hpp"
#include "kernels/cuda/unrolled/cuda_prior.hpp"
#include "kernels/cuda/unrolled/cuda_tile_space.hpp"
#include "kernels/cuda/unrolled/cuda_timer.hpp"
#include "matrix/random.hpp"
#include "plan/kernel_plan.hpp"
#include "plan/problem.hpp"
#include "plan/workload.hpp"
#include "reorder/row_groupings.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "runtime/device.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"

namespace spjit {
namespace {

using Clock = std::chrono::steady_clock;

/// Of the tiles that are not drawn: what the ranking in use tries first has to be there.
constexpr std::int64_t k_best_share = 4;

std::filesystem::path made(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw IoError(fmt::format("{}: cannot be made: {}", folder.string(), error.message()));
  }
  return folder;
}

/// The first quarter of the ranking's, the others drawn; in the order of the ranking.
std::vector<CudaCandidate> draw_tiles(std::vector<CudaCandidate> ranked, std::int64_t count,
                                      std::uint64_t seed) {
  if (count <= 0 || count >= std::ssize(ranked)) return ranked;
  RandomStream random(seed);
  std::vector<std::size_t> places(ranked.size());
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = i;
  const auto best = static_cast<std::size_t>((count + k_best_share - 1) / k_best_share);
  for (std::size_t i = best; i < static_cast<std::size_t>(count); ++i) {
    std::swap(places[i], places[i + random.below(places.size() - i)]);
  }
  places.resize(static_cast<std::size_t>(count));
  std::ranges::sort(places);
  std::vector<CudaCandidate> drawn;
  drawn.reserve(places.size());
  for (const std::size_t place : places) drawn.push_back(std::move(ranked[place]));
  return drawn;
}

std::string key_of(const Problem& problem, const CudaDeviceInfo& limits, const CudaTile& tile,
                   CudaSource source) {
  KeyBuilder key;
  key.field("compiled tile", UnrolledCudaFamily().version()).field("spjit", SPJIT_VERSION);
  add_to_key(problem, key);
  add_to_key(DeviceInfo(limits), key);
  key.field("tile", to_string(tile)).field("source", to_string(source));
  return key.hex();
}

/// Keeps a compiled tile.
void keep(const std::string& key, const CudaCandidate& candidate, const BuiltCuda& built,
          const CudaDeviceInfo& limits, const CacheStore& cubins) {
  const CudaAttempt& kept = built.trace.attempts.back();
  const std::vector<CacheFile> files = {
      {k_cubin_file, std::as_bytes(std::span(built.artifact.cubin))}};
  cubins.publish(key, files,
                 {{"tile", to_string(candidate.tile)},
                  {"device", limits.name()},
                  {"blocks_x", built.program.blocks_x},
                  {"registers", kept.registers},
                  {"spilled_bytes", kept.spilled_bytes},
                  {"code_bytes", built.trace.code_bytes},
                  {"toolchain", built.trace.toolchain}});
}

/// How a kept kernel is launched.
CudaProxyLaunch launch_of(const CudaCandidate& candidate, const CacheEntry& entry) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  return spjit::launch_of(candidate, read_cuda_integer(entry.record.kernel, "blocks_x", 1, most));
}

/// Why a cubin was not found.
std::string reason_of(const CacheLookup& lookup) {
  return lookup.miss_reason.empty() ? "its cubin is not there" : lookup.miss_reason;
}

/// A problem with such operands: timing needs no entries of A.
Problem operands_of(const Workload& work) {
  CsrMatrix a;
  a.rows = work.m;
  a.cols = work.cols;
  a.row_ptrs.assign(static_cast<std::size_t>(work.m) + 1, 0);
  Problem problem;
  problem.a = std::move(a);
  problem.n = work.n;
  return checked_problem(problem);
}

}  // namespace

CompiledTiles::CompiledTiles(const std::filesystem::path& folder)
    : groups_(made(folder) / "tiles.jsonl", k_cuda_samples, TimeKind::none),
      cubins_(folder / "cubins", SPJIT_VERSION) {}

Refusal CompiledTiles::refusal(const CudaSample& sample) const {
  if (sample.key.empty()) return Refusal::none();
  const CacheLookup found = cubins_.lookup(sample.key);
  return found.entry ? Refusal::none() : Refusal(reason_of(found));
}

CacheEntry CompiledTiles::entry_of(const CudaSample& sample) const {
  CacheLookup found = cubins_.lookup(sample.key);
  if (found.entry) return std::move(*found.entry);
  throw Error(fmt::format("tile {}: {}; 'spjit collect --compile-only' compiles it again",
                          to_string(sample.candidate.tile), reason_of(found)));
}

CudaSampleGroup compile_tiles(const Problem& problem, const CollectOptions& options,
                              const CompiledTiles& folder) {
  const auto start = Clock::now();
  const CsrMatrix& matrix = *problem.a;
  const SearchPolicy& policy = options.compile.policy;
  CudaSampleGroup group;
  group.times = TimeKind::none;
  group.limits = cuda_device_info_of(options.compile.target);
  group.work = workload_of(problem, 1);
  RowGroupings groupings(matrix, policy.reorder);
  CudaTileSpace space = enumerate_cuda_tiles(problem, policy, group.limits, groupings);
  std::string failure = "the rules leave none";
  for (CudaCandidate& candidate :
       draw_tiles(rank_by_prior(space.survivors(), group.limits), options.tiles, options.seed)) {
    CudaSample sample;
    sample.key = key_of(problem, group.limits, candidate.tile, source_of(policy, k_source_option));
    if (!folder.cubins().lookup(sample.key).entry) {
      try {
        const KernelPlan plan =
            build_plan(matrix, groupings.at(candidate.tile.m1, candidate.tile.reorder),
                       std::max<std::int64_t>(matrix.cols, 1));
        keep(sample.key, candidate,
             build_cuda_kernel(plan, candidate, options.compile, group.limits), group.limits,
             folder.cubins());
      } catch (const CompileFailed& error) {
        failure = fmt::format("{}: {}", to_string(candidate.tile), error.what());
        sample.key.clear();
      }
    }
    sample.candidate = std::move(candidate);
    group.samples.push_back(std::move(sample));
  }
  if (std::ranges::all_of(group.samples, &std::string::empty, &CudaSample::key)) {
    throw Error("no tile was compiled: " + failure);
  }
  group.seconds = ms_since(start) / 1e3;
  return group;
}

CudaSampleGroup time_tiles(CudaSampleGroup group, const CompiledTiles& folder, int ordinal,
                           double budget_ms) {
  const auto start = Clock::now();
  std::vector<CacheEntry> entries;  // what the candidates' images lie in
  std::vector<CudaTuningCandidate> candidates;
  std::vector<std::size_t> places;
  entries.reserve(group.samples.size());
  for (std::size_t i = 0; i < group.samples.size(); ++i) {
    const CudaSample& sample = group.samples[i];
    if (sample.key.empty()) continue;
    entries.push_back(folder.entry_of(sample));
    candidates.push_back({to_string(sample.candidate.tile), entries.back().file(k_cubin_file),
                          launch_of(sample.candidate, entries.back())});
    places.push_back(i);
  }
  const Problem problem = operands_of(group.work);
  CudaTimer timer(ordinal, problem);
  TuningOptions tuning;
  tuning.budget_ms = budget_ms;
  const std::vector<TuningResult> results = time_cuda_kernels(candidates, tuning, timer);
  std::vector<CudaSample> timed;
  bool ran = false;
  for (std::size_t i = 0; i < results.size(); ++i) {
    // A tile that the budget did not suffice for says nothing; one that failed does.
    if (results[i].outcome == TuningOutcome::not_reached) continue;
    CudaSample sample = std::move(group.samples[places[i]]);
    if (results[i].outcome != TuningOutcome::failed) {
      const TimingResult& timing = results[i].timing;
      sample.us = timing.median_us;
      sample.noise = timing.noise;
      sample.samples = timing.samples;
      ran = ran || timing.samples > 0;
    }
    timed.push_back(std::move(sample));
  }
  if (!ran) {
    const auto failed = std::ranges::find(results, TuningOutcome::failed, &TuningResult::outcome);
    throw Error("no tile could be timed: " + (failed == results.end()
                                                  ? std::string("the budget was spent before")
                                                  : failed->failure));
  }
  group.samples = std::move(timed);
  group.times = TimeKind::measured;
  group.seconds = ms_since(start) / 1e3;
  return group;
}

CudaSampleGroup model_tiles(CudaSampleGroup group, const CompiledTiles& folder) {
  const auto start = Clock::now();
  const ClockConstants constants = required_clock_constants(group.limits.arch);
  const Problem problem = operands_of(group.work);
  std::vector<CudaSample> modelled;
  std::string failure = "none was compiled";
  for (CudaSample& sample : group.samples) {
    if (sample.key.empty()) continue;
    const CacheEntry entry = folder.entry_of(sample);
    const std::span<const std::byte> cubin = entry.file(k_cubin_file);
    try {
      const ClockLaunch launch = clock_launch(problem, cubin, launch_of(sample.candidate, entry));
      sample.us = modelled_time(cubin, launch, group.limits, constants).us;
      sample.samples = 1;
      modelled.push_back(std::move(sample));
    } catch (const Error& error) {  // also an instruction that the decoder does not know
      failure = fmt::format("{}: {}", to_string(sample.candidate.tile), error.what());
    }
  }
  if (modelled.empty()) throw Error("no tile could be modelled: " + failure);
  group.samples = std::move(modelled);
  group.times = TimeKind::modelled;
  group.seconds = ms_since(start) / 1e3;
  return group;
}

int timing_gpu_of(const CudaDeviceInfo& limits) {
  const TimingGpu gpu = find_timing_gpu(Target::parse(fmt::format("sm_{}", limits.arch)), limits);
  if (gpu.ordinal) return *gpu.ordinal;
  throw NotSupported(
      fmt::format("tiles of {} cannot be timed here: {}", limits.name(), gpu.problem));
}

}  // namespace spjit
