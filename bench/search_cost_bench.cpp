/// @file
/// Seconds and memory to a finished kernel, way by way to search: the paper's table 2, for the host
/// and for a GPU target, of which without a GPU only the compiling is measured. bench/README.md
/// says how to read it.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/host_cpu.hpp"
#include "bench/host/surroundings.hpp"
#include "bench/json_file.hpp"
#include "bench/run_options.hpp"
#include "bench/search_cost/cost_cases.hpp"
#include "bench/search_cost/cost_row.hpp"
#include "bench/search_cost/cuda_way.hpp"
#include "bench/search_cost/host_way.hpp"
#include "bench/search_cost/measure_way.hpp"
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
  double max_minutes = 0;  ///< of measuring; 0: as long as it takes
  bool rehearse = false;   ///< on the emulated driver: every step, no time that means anything
};

nlohmann::json describe_device(bool rehearse) {
  const HostCpu& cpu = host_cpu();
  return {{"kind", rehearse ? "emulated" : "host"},
          {"name", cpu_name(cpu)},
          {"isa", Target().name()},
          {"cpus", usable_cpus()},
          {"l1d_bytes", cpu.l1d_bytes},
          {"l2_bytes", cpu.l2_bytes},
          {"l3_bytes", cpu.l3_bytes},
          {"load_average", load_average()}};
}

nlohmann::json to_json(const CudaCostTarget& target) {
  nlohmann::json json = {
      {"target", target.card}, {"toolchain", target.toolchain}, {"timed_on", nullptr}};
  if (target.ordinal && !target.rehearsal) {
    json["timed_on"] = target.product;
  } else {
    json["problem"] = target.rehearsal ? "rehearsed on " + target.product : target.problem;
  }
  return json;
}

/// Measures the ways one after another. What there is by then is saved after each.
class CostBench {
 public:
  explicit CostBench(const Options& options)
      : options_(options),
        device_(describe_device(options.rehearse)),
        cases_(options.rehearse ? rehearsal_cost_cases()
                                : load_cost_cases(options.data, options.matrices, options.n)) {}

  /// The exit status.
  int run() {
    fmt::print("{}\n{}", device_.dump(), cost_header());
    for (const std::string& target : options_.targets) run_target(target);
    if (rows_.empty()) throw Error("nothing could be measured");
    save();
    return has_failures_ ? 1 : 0;
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// A target that cannot be compiled for is left out.
  void run_target(const std::string& name) {
    try {
      const Target target = name == "host" ? Target() : Target::parse(name);
      if (target.backend() == "cuda") {
        run_cuda(name);
      } else if (target.runs_here()) {
        run_host(target);
      } else {
        throw NotSupported("this CPU cannot run its kernels");
      }
    } catch (const NotSupported& error) {
      has_failures_ = true;
      leave_out(name + ": " + error.what());
    }
  }

  void run_host(const Target& target) {
    for (const CostCase& item : cases_) {
      for (const CostWay way : cost_ways(false)) {
        measure({item, target.name(), way, false, ""}, [&](CostReporter& reporter) {
          return run_host_way(item, target, way, options_.settings, reporter);
        });
      }
    }
  }

  void run_cuda(const std::string& name) {
    CudaCostTarget target = examine_cuda_target(name);
    target.rehearsal = options_.rehearse;
    if (target.rehearsal && !target.ordinal) throw NotSupported(target.problem);
    if (!target.rehearsal && target.product.starts_with("emulated")) {
      throw NotSupported(target.product + ": has no times; expected a GPU, or --rehearse");
    }
    const std::string where = target.rehearsal ? "rehearsed on " + target.product
                              : target.ordinal ? "timed on " + target.product
                                               : "nothing is timed: " + target.problem;
    fmt::print("{}: {}, {}\n", target.card, target.toolchain, where);
    cuda_targets_.push_back(to_json(target));
    for (const CostCase& item : cases_) {
      for (const CostWay way : cost_ways(true)) {
        measure({item, target.card, way, !target.ordinal, note_of(target, way)},
                [&](CostReporter& reporter) {
                  return run_cuda_way(item, target, way, options_.settings, reporter);
                });
      }
    }
  }

  void measure(const CostRowHead& head, const CostWork& work) {
    const bool wanted =
        options_.ways.empty() ||
        std::ranges::find(options_.ways, to_string(head.way)) != options_.ways.end();
    if (!wanted) return;
    const std::string name = fmt::format("{}, n = {}, {}, {}", head.item.name, head.item.n,
                                         head.target, to_string(head.way));
    if (!has_time(options_.max_minutes, begin_)) {
      leave_out(fmt::format("{}: not begun after {} minutes", name, options_.max_minutes));
      return;
    }
    CostRow row = measure_way(head, options_.settings, work);
    fmt::print("{}", cost_line(row));
    std::fflush(stdout);
    if (row.failure.empty()) {
      rows_.push_back(std::move(row));
    } else {
      has_failures_ = true;
      left_out_.push_back(name + ": " + row.failure);
    }
    save();
  }

  void leave_out(const std::string& what) {
    fmt::print("left out: {}\n", what);
    left_out_.push_back(what);
  }

  void save() const {
    if (options_.json.empty()) return;
    nlohmann::json document = {{"schema", "spjit-search-cost-1"},
                               {"created", utc_now()},
                               {"spjit", SPJIT_VERSION},
                               {"device", device_},
                               {"limit_s", options_.settings.limit_s},
                               {"compile_threads", options_.settings.threads},
                               {"seed", options_.settings.seed},
                               {"cuda_targets", cuda_targets_},
                               {"left_out", left_out_},
                               {"rows", nlohmann::json::array()}};
    for (const CostRow& row : rows_) document["rows"].push_back(bench::to_json(row));
    save_json(options_.json, document);
  }

  const Options& options_;
  nlohmann::json device_;
  std::vector<CostCase> cases_;
  Clock::time_point begin_ = Clock::now();
  std::vector<CostRow> rows_;
  nlohmann::json cuda_targets_ = nlohmann::json::array();
  std::vector<std::string> left_out_;  ///< what there are no rows of, and why
  bool has_failures_ = false;          ///< something is left out that was to be measured
};

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
  app.add_option("--max-minutes", options.max_minutes,
                 "begin no other way after this long; 0: go on to the end")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--rehearse", options.rehearse,
               "a tiny matrix on the emulated driver: no time means anything");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Seconds and memory to a finished kernel, way by way to search."};
  Options options;
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  try {
    return CostBench(options).run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "search_cost_bench: {}\n", error.what());
    return 2;
  }
}
