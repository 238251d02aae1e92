/// @file
/// spjit side by side with other libraries on the host: checked, then timed interleaved, warm and
/// cold. bench/README.md says how each is called and how to read the result.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <ratio>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/host/report.hpp"
#include "bench/host/surroundings.hpp"
#include "bench/side_by_side/case_sets.hpp"
#include "bench/side_by_side/cuda/cuda_peers.hpp"
#include "bench/side_by_side/measure_case.hpp"
#include "bench/side_by_side/peers.hpp"
#include "bench/side_by_side/progress.hpp"
#include "bench/side_by_side/result_file.hpp"
#include "compiler/local_gpus.hpp"
#include "runtime/host_cpu.hpp"
#include "spjit/error.hpp"

namespace {

namespace fs = std::filesystem;
using namespace spjit;
using namespace spjit::side_by_side;

struct Options {
  SetOptions sets{SPJIT_SOURCE_DIR "/../shared/data", SPJIT_SOURCE_DIR "/bench/paper_set.json"};
  std::vector<std::string> set = {"dlmc"};
  std::string only;
  std::vector<int> threads = {1, 2};
  std::vector<std::string> peers;  ///< empty: all
  std::optional<int> gpu;          ///< its ordinal; empty: the host
  std::string target = "host";
  std::string search = "instant";
  PeerSettings settings;
  MeasureOptions measure;
  fs::path json;
  fs::path csv;
  bool quick = false;
  bool append = false;
  double max_minutes = 0;  ///< of measuring; 0: as long as it takes
  std::string command;
};

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
      if (entry.name.find(options.only) != std::string::npos) chosen.push_back(std::move(entry));
    }
  }
  if (options.quick) chosen = representative(std::move(chosen));
  if (chosen.empty()) throw Error("no matrix matches");
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

void print_peers(const Peers& peers) {
  for (const auto& peer : peers) {
    const PeerInfo& info = peer->info();
    fmt::print("{:<11} {:<7} {}\n", info.name, info.kind,
               info.missing.empty() ? info.version : "MISSING: " + info.missing);
  }
}

void save(const Options& options, const nlohmann::json& document) {
  write_file(options.json, document.dump(1) + '\n');
  if (!options.csv.empty()) write_file(options.csv, to_csv(document));
}

/// Cases of one matrix and n, which B and the float64 product are the same for. Returns how many
/// of them could not be measured.
int run_group(const Options& options, std::span<const Case> group, const Peers& peers,
              Progress& progress, nlohmann::json& document) {
  const MatrixEntry& entry = *group.front().entry;
  Operands operands(entry.load(), group.front().n);
  const HostCpu& cpu = host_cpu();
  CacheFlush caches(cpu.l2_bytes, cpu.l3_bytes, usable_cpus());
  int failures = 0;
  for (const Case& next : group) {
    CaseResult result = measure_case(peers, operands, next.threads, options.measure, caches);
    result.set = entry.set;
    result.matrix = entry.name;
    result.layer = entry.layer;
    if (!result.checked) ++failures;
    document["cases"].push_back(to_json(result));
    fmt::print("{} {} n={} t={}: {}\n", progress.advance(), entry.name, next.n, next.threads,
               summary_of(result));
    std::fflush(stdout);
  }
  save(options, document);
  return failures;
}

int run_cases(const Options& options, const std::vector<Case>& cases, const Peers& peers,
              nlohmann::json& document) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const std::chrono::duration<double, std::ratio<60>> most(options.max_minutes);
  Progress progress(cases.size());
  int failures = 0;
  for (auto first = cases.begin(); first != cases.end();) {
    if (options.max_minutes > 0 && Clock::now() - begin >= most) {
      fmt::print("stopped after {} minutes: {} of {} cases are left, --append goes on\n",
                 options.max_minutes, cases.end() - first, cases.size());
      break;
    }
    const auto last = std::find_if(first, cases.end(), [&](const Case& other) {
      return other.entry != first->entry || other.n != first->n;
    });
    try {
      failures += run_group(options, {first, last}, peers, progress, document);
    } catch (const Error& error) {
      ++failures;
      fmt::print("FAILED: {} n={}: {}\n", first->entry->name, first->n, error.what());
    }
    first = last;
  }
  return failures;
}

/// The cases of a file that this run goes on with. Throws Error if it is another machine's or was
/// made with other libraries.
nlohmann::json earlier_cases(const Options& options, const nlohmann::json& document) {
  if (!options.append || !fs::exists(options.json)) return nlohmann::json::array();
  nlohmann::json earlier = read_document(options.json);
  const bool same = earlier.at("device").at("name") == document.at("device").at("name") &&
                    earlier.at("libraries") == document.at("libraries");
  if (!same) {
    throw Error(
        fmt::format("{}: made on another machine or with other libraries; choose another "
                    "--json, or the same --peers",
                    options.json.string()));
  }
  return earlier.at("cases");
}

/// Where it is measured, and with what.
struct Bench {
  nlohmann::json device;
  nlohmann::json roofline;
  Peers peers;
};

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

/// One stream, caches warm; a sample is as long as gpu_bench's.
Bench gpu_bench(Options& options) {
  const CudaContext context(local_cuda_driver(), *options.gpu);
  const auto side = std::make_shared<DeviceSide>(context);
  options.threads = {1};
  options.measure.cold_runs = 0;
  options.measure.warm_up_ms = 50;
  options.measure.min_batch_us = 2000;
  options.measure.clock = [side, clock = side->clock()] { return clock(); };
  return {cuda_device(context.device(), bench::load_average()), nullptr,
          make_cuda_peers({side, parse_search(options.search)},
                          chosen(options.peers, all_cuda_peer_names()))};
}

void print_bench(const Bench& bench) {
  fmt::print("on {}\n", bench.device.at("name").get<std::string>());
  print_peers(bench.peers);
  const auto load = bench.device.at("load_average").get<double>();
  if (load > bench::k_busy_load_average) {
    fmt::print("WARNING: load average {:.1f}: other work disturbs these figures\n", load);
  }
  if (!bench.roofline.is_null()) {
    fmt::print("roofline of one core: {}\n", bench.roofline.dump());
  }
}

int run(Options options) {
  prepare_environment();
  const bench::ScratchDirectory scratch("spjit-side-by-side");
  fs::create_directory(scratch.path());
  options.settings.scratch = scratch.path();
  const Bench bench = options.gpu ? gpu_bench(options) : host_bench(options);
  print_bench(bench);
  nlohmann::json document = new_document(options.command, bench.device, bench.peers);
  if (options.json.empty()) {
    options.json =
        "side-by-side-" + bench::file_name_of(bench.device["name"].get<std::string>()) + ".json";
  }
  document["cases"] = earlier_cases(options, document);
  document["roofline"] = bench.roofline;
  const std::vector<MatrixEntry> matrices = choose_matrices(options);
  const std::vector<Case> cases = cases_of(options, matrices, document);
  const int failures = run_cases(options, cases, bench.peers, document);
  save(options, document);
  fmt::print("wrote {}\n", options.json.string());
  return failures == 0 ? 0 : 1;
}

void add_options(CLI::App& app, Options& options) {
  app.add_option("--data", options.sets.data, "Folder with dlmc and weights");
  app.add_option("--paper-set", options.sets.paper_set, "The shapes of the paper's evaluation");
  app.add_option("--set", options.set, "dlmc, paper, weights")
      ->check(CLI::IsMember({"dlmc", "paper", "weights"}));
  app.add_flag("--all", options.sets.all, "Of the paper's set: all sparsities");
  app.add_option("--only", options.only, "Only matrices whose name contains this");
  app.add_option("--n", options.sets.n, "Columns of B")->check(CLI::PositiveNumber);
  app.add_option("--threads", options.threads, "Numbers of threads")->check(CLI::PositiveNumber);
  app.add_option("--peers", options.peers, "Libraries to measure (default: all)");
  app.add_option("--gpu", options.gpu, "Measure on this GPU instead of the host");
  app.add_option("--target", options.target, "host, host-avx512, host-avx2, host-generic");
  app.add_option("--search", options.search, "How spjit chooses: instant, ranked, proxy, ...");
  app.add_option("--mkl", options.settings.mkl_folder, "Folder with libmkl_rt.so");
  app.add_option("--python", options.settings.pythons, "Pythons to look for scipy in");
  app.add_option("--budget-ms", options.measure.budget_ms, "Warm timing of a case");
  app.add_option("--cold-runs", options.measure.cold_runs, "Cold runs of a library; 0: none")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--json", options.json, "The result (default: side-by-side-CPU.json here)");
  app.add_option("--csv", options.csv, "The same as a table");
  app.add_flag("--append", options.append, "Keep the cases of --json's file, measure the others");
  app.add_option("--max-minutes", options.max_minutes,
                 "Begin no other matrix after this long; 0: go on to the end")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--quick", options.quick, "A representative few of DLMC: two minutes");
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.settings.mkl_folder = SPJIT_SOURCE_DIR "/build/peers/mkl/lib";
  options.settings.pythons = {SPJIT_SOURCE_DIR "/build/peers/scipy/bin/python3", "python3"};
  for (int i = 0; i < argc; ++i) {
    options.command += i == 0 ? fs::path(argv[0]).filename().string() : ' ' + std::string(argv[i]);
  }
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
