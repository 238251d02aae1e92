/// @file
/// Seconds and memory to a finished kernel, way by way to search: the paper's table 2, for the host
/// and for a GPU target, of which without a GPU only the compiling is measured. bench/README.md
/// says how to read it.

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/host/surroundings.hpp"
#include "bench/search_cost/cost_cases.hpp"
#include "bench/search_cost/cost_row.hpp"
#include "bench/search_cost/cuda_way.hpp"
#include "bench/search_cost/host_way.hpp"
#include "bench/search_cost/measure_way.hpp"
#include "runtime/host_cpu.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"

namespace {

namespace fs = std::filesystem;
using namespace spjit;
using namespace spjit::bench;

struct Options {
  fs::path data = SPJIT_SOURCE_DIR "/../shared/data/dlmc";
  fs::path json;
  std::vector<std::string> matrices = default_cost_matrices();
  std::vector<std::int64_t> n = {512};
  std::vector<std::string> targets = {"host", "sm_90"};
  std::vector<std::string> ways;  ///< only these; empty: all
  CostSettings settings;
};

/// What a run leaves behind.
struct Outcome {
  std::vector<CostRow> rows;
  std::vector<CudaCostTarget> cuda_targets;
  std::vector<std::string> left_out;  ///< what there are no rows of, and why
};

bool wanted(CostWay way, const Options& options) {
  return options.ways.empty() ||
         std::ranges::find(options.ways, to_string(way)) != options.ways.end();
}

void add(Outcome& outcome, CostRow row) {
  fmt::print("{}", cost_line(row));
  std::fflush(stdout);
  if (row.failure.empty()) {
    outcome.rows.push_back(std::move(row));
  } else {
    outcome.left_out.push_back(
        fmt::format("{}, n = {}, {}, {}: {}", row.matrix, row.n, row.target, row.way, row.failure));
  }
}

void run_host(const std::vector<CostCase>& cases, const Target& target, const Options& options,
              Outcome& outcome) {
  for (const CostCase& item : cases) {
    for (const CostWay way : cost_ways(false)) {
      if (!wanted(way, options)) continue;
      add(outcome, measure_way({item, target.name(), way, false, ""}, options.settings,
                               [&](CostReporter& reporter) {
                                 return run_host_way(item, target, way, options.settings, reporter);
                               }));
    }
  }
}

void run_cuda(const std::vector<CostCase>& cases, const CudaCostTarget& target,
              const Options& options, Outcome& outcome) {
  fmt::print("{}: {}, {}\n", target.card, target.toolchain,
             target.ordinal ? "timed on " + target.product : "nothing is timed: " + target.problem);
  outcome.cuda_targets.push_back(target);
  for (const CostCase& item : cases) {
    for (const CostWay way : cost_ways(true)) {
      if (!wanted(way, options)) continue;
      add(outcome, measure_way({item, target.card, way, !target.ordinal, note_of(target, way)},
                               options.settings, [&](CostReporter& reporter) {
                                 return run_cuda_way(item, target, way, options.settings, reporter);
                               }));
    }
  }
}

/// A target that cannot be compiled for is left out.
void run_target(const std::string& name, const std::vector<CostCase>& cases, const Options& options,
                Outcome& outcome) {
  try {
    const Target target = name == "host" ? Target() : Target::parse(name);
    if (target.is_cuda()) {
      run_cuda(cases, examine_cuda_target(name), options, outcome);
    } else if (target.runs_here()) {
      run_host(cases, target, options, outcome);
    } else {
      throw NotSupported("this CPU cannot run its kernels");
    }
  } catch (const NotSupported& error) {
    outcome.left_out.push_back(name + ": " + error.what());
    fmt::print("{}: left out: {}\n", name, error.what());
  }
}

nlohmann::json describe_device() {
  const HostCpu& cpu = host_cpu();
  return {{"kind", "host"},           {"name", cpu_name(cpu)},         {"isa", Target().name()},
          {"cpus", usable_cpus()},    {"l1d_bytes", cpu.l1d_bytes},    {"l2_bytes", cpu.l2_bytes},
          {"l3_bytes", cpu.l3_bytes}, {"load_average", load_average()}};
}

nlohmann::json to_json(const CudaCostTarget& target) {
  nlohmann::json json = {
      {"target", target.card}, {"toolchain", target.toolchain}, {"timed_on", nullptr}};
  if (target.ordinal) {
    json["timed_on"] = target.product;
  } else {
    json["problem"] = target.problem;
  }
  return json;
}

nlohmann::json to_document(const nlohmann::json& device, const Outcome& outcome,
                           const Options& options) {
  nlohmann::json document = {
      {"schema", "spjit-search-cost-1"},
      {"created", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
      {"spjit", SPJIT_VERSION},
      {"device", device},
      {"limit_s", options.settings.limit_s},
      {"compile_threads", options.settings.threads},
      {"seed", options.settings.seed},
      {"cuda_targets", nlohmann::json::array()},
      {"left_out", outcome.left_out},
      {"rows", nlohmann::json::array()}};
  for (const CudaCostTarget& target : outcome.cuda_targets) {
    document["cuda_targets"].push_back(to_json(target));
  }
  for (const CostRow& row : outcome.rows) document["rows"].push_back(to_json(row));
  return document;
}

int run(const Options& options) {
  const nlohmann::json device = describe_device();
  const std::vector<CostCase> cases = load_cost_cases(options.data, options.matrices, options.n);
  fmt::print("{}\n{}", device.dump(), cost_header());
  Outcome outcome;
  for (const std::string& target : options.targets) run_target(target, cases, options, outcome);
  if (outcome.rows.empty()) throw Error("nothing could be measured");
  if (!options.json.empty()) {
    std::ofstream file(options.json);
    file << to_document(device, outcome, options).dump(1) << '\n';
    if (!file.flush()) throw IoError(options.json.string() + ": cannot be written");
  }
  return outcome.left_out.empty() ? 0 : 1;
}

void add_options(CLI::App& app, Options& options) {
  std::vector<std::string> ways;
  for (const CostWay way : cost_ways(true)) ways.push_back(to_string(way));
  app.add_option("--data", options.data, "folder with .smtx files; generated matrices without it");
  app.add_option("--json", options.json, "write the results there");
  app.add_option("--matrices", options.matrices, "paths below --data, without .smtx")
      ->delimiter(',');
  app.add_option("--n", options.n, "columns of B")->check(CLI::PositiveNumber)->delimiter(',');
  app.add_option("--targets", options.targets, "host, host-avx2, sm_90, ...")->delimiter(',');
  app.add_option("--ways", options.ways, "only these ways")
      ->delimiter(',')
      ->check(CLI::IsMember(ways));
  app.add_option("--limit", options.settings.limit_s, "seconds after which a way is killed")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--repeats", options.settings.repeats, "of a way that takes little time")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--threads", options.settings.threads, "that compile for a GPU; 0: one a CPU")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--seed", options.settings.seed, "of the order whole kernels are compiled in")
      ->capture_default_str();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Seconds and memory to a finished kernel, way by way to search."};
  Options options;
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "search_cost_bench: {}\n", error.what());
    return 2;
  }
}
