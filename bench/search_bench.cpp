/// @file
/// What searching for a tile costs and what it loses, way by way. bench/README.md says how to read
/// it.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/host_cpu.hpp"
#include "bench/host/surroundings.hpp"
#include "bench/host/workloads.hpp"
#include "bench/json_file.hpp"
#include "bench/search/search_case.hpp"
#include "bench/search/search_report.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"

namespace {

namespace fs = std::filesystem;
using namespace spjit;
using namespace spjit::bench;

/// What the goal on search time speaks of.
constexpr std::int64_t k_large_nnz = 100'000;

struct Options {
  fs::path data = SPJIT_SOURCE_DIR "/../shared/data/dlmc";
  fs::path json;
  std::string only;
  std::vector<std::int64_t> n = {32, 128, 512};
  std::vector<std::string> ways = all_ways();
};

nlohmann::json describe_device() {
  const HostCpu cpu = detect_host_cpu();
  return {{"cpu", cpu_name(cpu)},
          {"isa", Target().name()},
          {"l1i_bytes", cpu.l1i_bytes},
          {"l1d_bytes", cpu.l1d_bytes},
          {"l2_bytes", cpu.l2_bytes},
          {"l3_bytes", cpu.l3_bytes},
          {"threads", 1},
          {"load_average", load_average()}};
}

/// A matrix without nonzeros has nothing to choose.
std::vector<SearchCaseResult> run_cases(const Options& options) {
  std::vector<SearchCaseResult> results;
  fmt::print("{}", search_header());
  for (const MatrixSource& workload : list_matrix_sources(options.data)) {
    const bool wanted = workload.source == "dlmc" || !fs::is_directory(options.data);
    if (!wanted || workload.large || workload.name.find(options.only) == std::string::npos) {
      continue;
    }
    for (const std::int64_t n : options.n) {
      SearchCaseResult result = run_search_case(workload, n, options.ways);
      if (result.error.empty() && result.nnz == 0) continue;
      fmt::print("{}", search_row(result));
      std::fflush(stdout);
      results.push_back(std::move(result));
    }
  }
  return results;
}

nlohmann::json to_document(const nlohmann::json& device,
                           const std::vector<SearchCaseResult>& results) {
  nlohmann::json document = {{"schema", "spjit-search-bench-1"},
                             {"spjit", SPJIT_VERSION},
                             {"device", device},
                             {"cases", nlohmann::json::array()},
                             {"all", nlohmann::json::array()},
                             {"large", nlohmann::json::array()}};
  for (const SearchCaseResult& result : results) document["cases"].push_back(to_json(result));
  for (const WaySummary& way : summarize(results, 0)) document["all"].push_back(to_json(way));
  for (const WaySummary& way : summarize(results, k_large_nnz)) {
    document["large"].push_back(to_json(way));
  }
  return document;
}

int run(const Options& options) {
  const nlohmann::json device = describe_device();
  fmt::print("{}\n", device.dump());
  const std::vector<SearchCaseResult> results = run_cases(options);
  if (results.empty()) throw Error("no matrix matches");
  fmt::print("\nAll cases:\n{}", summary_table(summarize(results, 0)));
  fmt::print("\nMore than {} nonzeros:\n{}\n{}", k_large_nnz,
             summary_table(summarize(results, k_large_nnz)), crossover_table(results));
  const fs::path json =
      options.json.empty()
          ? fs::path("search-" + file_name_of(device["cpu"].get<std::string>()) + ".json")
          : options.json;
  save_json(json, to_document(device, results));
  fmt::print("\nwrote {}\n", json.string());
  const auto failed = [](const SearchCaseResult& result) { return !result.error.empty(); };
  return std::any_of(results.begin(), results.end(), failed) ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"What searching for a host tile costs, and what each way to search loses."};
  app.add_option("--data", options.data, "Folder with .smtx files; generated matrices without it");
  app.add_option("--json", options.json, "Where the result goes (default: search-CPU.json here)");
  app.add_option("--only", options.only, "Only matrices whose name contains this");
  app.add_option("--n", options.n, "Columns of B")->check(CLI::PositiveNumber);
  app.add_option("--ways", options.ways, "Ways to search; the oracle is always one")
      ->check(CLI::IsMember(all_ways()));
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "search_bench: {}\n", error.what());
    return 2;
  }
}
