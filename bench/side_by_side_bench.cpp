/// @file
/// spjit side by side with other libraries on the host: checked, then timed interleaved, warm and
/// cold. bench/README.md says how each is called and how to read the result.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <ratio>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/host_cpu.hpp"
#include "bench/gpu/cubin_cache.hpp"
#include "bench/host/surroundings.hpp"
#include "bench/json_file.hpp"
#include "bench/side_by_side/bench_options.hpp"
#include "bench/side_by_side/case_sets.hpp"
#include "bench/side_by_side/cuda/cuda_peers.hpp"
#include "bench/side_by_side/measure_case.hpp"
#include "bench/side_by_side/peers.hpp"
#include "bench/side_by_side/progress.hpp"
#include "bench/side_by_side/result_file.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/error.hpp"

namespace {

namespace fs = std::filesystem;
using namespace spjit;
using namespace spjit::side_by_side;

using Peers = std::vector<std::unique_ptr<Peer>>;

/// A case to be measured.
struct Case {
  const MatrixEntry* entry;
  std::int64_t n;
  int threads;

  [[nodiscard]] CaseName name() const { return {entry->set, entry->name, n, threads}; }
};

std::vector<MatrixEntry> choose_matrices(const Options& options) {
  std::vector<MatrixEntry> chosen;
  for (const std::string& set : options.set) {
    for (MatrixEntry& entry : list_matrices(set, options.sets)) {
      if (bench::is_wanted(entry.name, options.only)) chosen.push_back(std::move(entry));
    }
  }
  if (options.quick) chosen = representative(std::move(chosen));
  if (chosen.empty()) throw Error("no matrix matches");
  if (options.shuffle) chosen = in_drawn_order(std::move(chosen), *options.shuffle);
  return chosen;
}

std::vector<Case> cases_of(const Options& options, const std::vector<MatrixEntry>& matrices,
                           const nlohmann::json& document) {
  std::vector<Case> cases;
  for (const MatrixEntry& entry : matrices) {
    for (const std::int64_t n : options.quick ? options.sets.n : entry.n) {
      for (const int threads : options.threads) {
        const Case next{&entry, n, threads};
        if (!has_case(document, next.name())) cases.push_back(next);
      }
    }
  }
  return cases;
}

/// Where it is measured, and with what.
struct Bench {
  nlohmann::json device;
  nlohmann::json roofline;
  Peers peers;
  /// Throws Error once the device cannot go on: after a fault every call fails. Empty on the host.
  std::function<void()> probe = {};
  std::shared_ptr<bench::CubinCache> cubins = nullptr;  ///< where cubins come from, or null
};

/// Cases of one matrix and n, which B and the float64 product are the same for. Returns how many
/// of them could not be measured.
int run_group(const Options& options, std::span<const Case> group, const Bench& bench,
              Progress& progress, nlohmann::json& document) {
  const MatrixEntry& entry = *group.front().entry;
  Operands operands(entry.load(), group.front().n);
  WorkerPool all_cpus(usable_cpus(), std::chrono::nanoseconds::zero());  // they do not spin
  CacheFlush caches(host_cpu(), &all_cpus);
  int failures = 0;
  for (const Case& next : group) {
    CaseResult result = measure_case(bench.peers, operands, next.threads, options.measure, caches);
    result.set = entry.set;
    result.matrix = entry.name;
    result.layer = entry.layer;
    const bool is_done = options.rehearse ? result.all_right() : result.any_timed();
    if (!result.checked || !is_done) ++failures;
    document["cases"].push_back(to_json(result));
    fmt::print("{} {} n={} t={}: {}\n", progress.advance(), entry.name, next.n, next.threads,
               summary_of(result));
    std::fflush(stdout);
  }
  bench::save_json(options.json, document);
  return failures;
}

/// Of Bench::probe.
bool has_passed(const std::function<void()>& probe) {
  try {
    probe();
    return true;
  } catch (const Error& error) {
    fmt::print("stopped: the GPU cannot go on: {}; --append begins with the next case\n",
               error.what());
    return false;
  }
}

int run_cases(const Options& options, const std::vector<Case>& cases, const Bench& bench,
              nlohmann::json& document) {
  const auto begin = std::chrono::steady_clock::now();
  Progress progress(cases.size());
  int failures = 0;
  for (auto first = cases.begin(); first != cases.end();) {
    if (!bench::has_time(options.max_minutes, begin)) {
      fmt::print("stopped after {} minutes: {} of {} cases are left, --append goes on\n",
                 options.max_minutes, cases.end() - first, cases.size());
      break;
    }
    const auto last = std::find_if(first, cases.end(), [&](const Case& other) {
      return other.entry != first->entry || other.n != first->n;
    });
    try {
      failures += run_group(options, {first, last}, bench, progress, document);
    } catch (const Error& error) {
      ++failures;
      fmt::print("FAILED: {} n={}: {}\n", first->entry->name, first->n, error.what());
    }
    first = last;
    if (bench.probe && !has_passed(bench.probe)) return failures + 1;
  }
  return failures;
}

std::vector<std::string> chosen(const std::vector<std::string>& peers,
                                const std::vector<std::string>& all) {
  return peers.empty() ? all : peers;
}

Bench host_bench(Options& options) {
  options.settings.target = Target::parse(options.target);
  options.settings.search = parse_search(options.search);
  const HostIsa isa = options.settings.target.isa();
  options.measure.isa = isa;
  return {host_device(host_cpu(), options.settings.target, bench::load_average()),
          measure_roofline(host_cpu(), isa),
          make_peers(options.settings, chosen(options.peers, all_peer_names()))};
}

std::shared_ptr<bench::CubinCache> cubins_of(const Options& options, const CudaContext& context) {
  if (options.cubins.empty()) return nullptr;
  if (parse_search(options.search) != SearchMode::instant) {
    throw InvalidArgument("--cubins holds what `instant` chooses; --search " + options.search);
  }
  const auto cubins = std::make_shared<bench::CubinCache>(options.cubins, options.target);
  cubins->require(context.device().limits);
  return cubins;
}

/// Of DeviceSide. A rehearsal has few copies: it computes all of them.
std::int64_t between_bytes(const Options& options, const CudaContext& context) {
  constexpr std::int64_t k_rehearsal_bytes = 4096;
  if (!options.is_cold) return 0;
  return options.rehearse ? k_rehearsal_bytes : 2 * context.device().limits.l2_bytes;
}

/// One stream; a sample is 2 ms. Warm, or cold by copies of A that take turns.
Bench gpu_bench(Options& options) {
  const CudaContext context(local_cuda_driver(), *options.gpu);
  const auto side = std::make_shared<DeviceSide>(context, between_bytes(options, context));
  const auto cubins = cubins_of(options, context);
  options.threads = {1};
  options.measure.cold_runs = 0;
  options.measure.check_only = options.rehearse;
  options.measure.warm_up_ms = 50;
  options.measure.min_batch_us = 2000;
  options.measure.clock = [side, clock = side->clock()] { return clock(); };
  nlohmann::json device = cuda_device(context.device(), bench::load_average(), options.rehearse);
  device["caches"] = options.is_cold ? "cold" : "hot";
  return {std::move(device), nullptr,
          make_cuda_peers({side, parse_search(options.search), cubins},
                          chosen(options.peers, all_cuda_peer_names())),
          [side] { side->stream().synchronize(); }, cubins};
}

void print_bench(const Bench& bench) {
  fmt::print("on {}\n", bench.device.at("name").get<std::string>());
  print_peers(infos_of(bench.peers));
  const auto load = bench.device.at("load_average").get<double>();
  if (!bench.probe && load > bench::k_busy_load_average) {
    fmt::print("WARNING: load average {:.1f}: other work disturbs these figures\n", load);
  }
  if (!bench.roofline.is_null()) {
    fmt::print("roofline of one core: {}\n", bench.roofline.dump());
  }
}

/// Compiles what the cases of a GPU need; nothing is measured.
int precompile(const Options& options) {
  bench::CubinCache cubins(options.precompile, options.target);
  const std::vector<std::string> peers = chosen(options.peers, all_cuda_peer_names());
  const std::vector<MatrixEntry> matrices = choose_matrices(options);
  Progress progress(matrices.size());
  for (const MatrixEntry& entry : matrices) {
    CsrMatrix matrix = entry.load();
    matrix.sort_columns();
    for (const std::int64_t n : entry.n) {
      fill_cuda_peers(peers, matrix, n, cubins);
    }
    fmt::print("{} {}: {}\n", progress.advance(), entry.name, to_string(cubins.counts()));
    std::fflush(stdout);
  }
  return 0;
}

int run(Options options) {
  if (!options.precompile.empty()) return precompile(options);
  prepare_environment();
  const bench::ScratchDirectory scratch("spjit-side-by-side");
  fs::create_directory(scratch.path());
  options.settings.scratch = scratch.path();
  const Bench bench = options.gpu ? gpu_bench(options) : host_bench(options);
  print_bench(bench);
  nlohmann::json document = new_document(options.command, bench.device, infos_of(bench.peers));
  if (options.json.empty()) {
    options.json =
        "side-by-side-" + bench::file_name_of(bench.device["name"].get<std::string>()) + ".json";
  }
  if (options.append) document["cases"] = earlier_document(options.json, document).at("cases");
  document["roofline"] = bench.roofline;
  const std::vector<MatrixEntry> matrices = choose_matrices(options);
  const std::vector<Case> cases = cases_of(options, matrices, document);
  document["cases_in_all"] = document["cases"].size() + cases.size();
  const int failures = run_cases(options, cases, bench, document);
  bench::save_json(options.json, document);
  if (bench.cubins) fmt::print("{}\n", to_string(bench.cubins->counts()));
  fmt::print("wrote {}\n", options.json.string());
  return failures == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options = default_options(SPJIT_SOURCE_DIR);
  options.command = bench::command_line(argc, argv);
  CLI::App app{"spjit side by side with other libraries on this CPU."};
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  try {
    return run(std::move(options));
  } catch (const std::exception& error) {
    fmt::print(stderr, "side_by_side_bench: {}\n", error.what());
    return 2;
  }
}
