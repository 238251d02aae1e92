/// @file
/// Layers as networks have them: tokens-major, with any n, an epilogue, in batches, with values
/// that each run brings; each against a plain kernel. bench/README.md says how it is called.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/host_cpu.hpp"
#include "base/timing.hpp"
#include "bench/host/report.hpp"
#include "bench/host/surroundings.hpp"
#include "bench/json_file.hpp"
#include "bench/layer/case.hpp"
#include "bench/layer/goals.hpp"
#include "bench/layer/measure.hpp"
#include "bench/layer/way.hpp"
#include "bench/model/network.hpp"
#include "bench/side_by_side/peers.hpp"
#include "bench/side_by_side/result_file.hpp"
#include "spjit/error.hpp"
#include "spjit/generate.hpp"

namespace {

namespace fs = std::filesystem;
using namespace spjit;
using bench::Comparison;
using bench::ComparisonResult;
using bench::LayerCase;
using bench::LayerConditions;
using bench::LoadedNetwork;
using bench::Network;
using bench::NetworkLayer;

constexpr const char* k_schema = "spjit-layer-bench-2";

struct Options {
  bench::NetworkOptions networks;
  std::vector<std::string> comparisons;
  std::vector<std::int64_t> n;
  std::vector<int> threads = {1, 2};
  bench::LayerBenchSettings settings;
  bool hot = false;
  bool quick = false;
  bool append = false;
  double max_minutes = 0;      ///< 0: as long as it takes
  std::size_t most_worst = 3;  ///< cases below each summary
  fs::path json;
  std::string command;
};

void add_options(CLI::App& app, Options& options) {
  app.add_option("--data", options.networks.data, "Folder with dlmc");
  app.add_option("--networks", options.networks.networks, "Folders of matrices, a network each");
  app.add_option("--only", options.networks.only, "Only networks whose name contains one of these")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--compare", options.comparisons, "Only these comparisons")->delimiter(',');
  app.add_option("--n", options.n, "Only these of the comparisons' numbers of tokens")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  app.add_option("--threads", options.threads, "Numbers of threads")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  app.add_option_function<std::string>(
      "--target",
      [&options](const std::string& name) { options.settings.target = Target::parse(name); },
      "What spjit compiles for, such as host-avx2");
  app.add_option("--budget-ms", options.settings.timing.budget_ms,
                 "Timing of a comparison on a network");
  app.add_flag("--hot", options.hot, "Also time one layer of each shape alone, again and again");
  app.add_option("--worst", options.most_worst, "How many of the worst cases are listed");
  app.add_option("--json", options.json, "The result (default: layer-CPU.json here)");
  app.add_flag("--append", options.append, "Keep the cases of --json's file, measure the others");
  app.add_option("--max-minutes", options.max_minutes,
                 "Begin no other case after this long; 0: go on to the end")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--quick", options.quick,
               "Seconds: a small generated network, few samples: no time means anything");
}

/// For a quick run: layers that every family takes, up to 64 entries a row.
std::vector<NetworkLayer> generated_layers() {
  std::vector<NetworkLayer> layers;
  const auto add = [&](std::int64_t rows, std::int64_t cols, double sparsity) {
    GenerateOptions options;
    options.rows = rows;
    options.cols = cols;
    options.sparsity = sparsity;
    options.seed = layers.size() + 1;
    layers.push_back({fmt::format("{}", layers.size()), generate_matrix(options)});
  };
  add(96, 64, 0.8);
  add(96, 96, 0.3);
  add(64, 96, 0.95);
  add(96, 64, 0.7);
  return layers;
}

std::vector<Network> networks_of(const Options& options) {
  if (options.quick) return {{"generated", generated_layers}};
  std::vector<Network> networks = bench::list_networks(options.networks);
  if (networks.empty()) throw Error("no network matches; scripts/data/make_networks.sh makes some");
  return networks;
}

std::vector<Comparison> comparisons_of(const Options& options) {
  std::vector<Comparison> comparisons = bench::list_comparisons(options.comparisons);
  for (Comparison& comparison : comparisons) {
    std::erase_if(comparison.n, [&](std::int64_t n) {
      return !options.n.empty() && std::ranges::count(options.n, n) == 0;
    });
  }
  return comparisons;
}

/// What is measured with, and how far it is.
struct Bench {
  const Options& options;
  nlohmann::json document;
  std::vector<LayerCase> cases = {};
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  int wrong = 0;  ///< results
  int left = 0;   ///< cases that there was no time for

  [[nodiscard]] bool has_time() const {
    return options.max_minutes == 0 || ms_since(begin) < options.max_minutes * 60e3;
  }
  [[nodiscard]] bool has(const std::string& network, const std::string& comparison,
                         const LayerConditions& conditions) const {
    return std::ranges::any_of(cases, [&](const LayerCase& other) {
      return other.network == network && other.comparison == comparison &&
             other.n == conditions.n && other.threads == conditions.threads &&
             other.hot == conditions.hot;
    });
  }
};

/// "tokens 1.04 (worst 1.10)" of each way but the first, over the shapes.
std::string summary_of(const std::vector<LayerCase>& cases) {
  std::vector<std::string> words;
  for (const bench::LayerSummary& summary : bench::summarize(cases, 1)) {
    words.push_back(fmt::format("{} {:.2f} (worst {:.2f} {})", summary.way, summary.mean.measured,
                                summary.worst.measured, summary.worst_cases.front().where));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

void save(Bench& bench) {
  bench.document["summaries"] = nlohmann::json::array();
  for (const auto& summary : bench::summarize(bench.cases, bench.options.most_worst)) {
    bench.document["summaries"].push_back(to_json(summary));
  }
  bench::save_json(bench.options.json, bench.document);
}

void run_case(Bench& bench, const LoadedNetwork& network, const Comparison& comparison,
              const LayerConditions& conditions) {
  const ComparisonResult result =
      bench::measure_comparison(network, comparison, conditions, bench.options.settings);
  fmt::print("{} {} n={} t={} {}: {}\n", network.name, comparison.name, conditions.n,
             conditions.threads, conditions.hot ? "hot" : "cold", summary_of(result.cases));
  for (const bench::WayFailure& failure : result.failures) {
    fmt::print("  FAILED: {}: {}\n", failure.way, failure.reason);
    bench.wrong += failure.reason.starts_with("wrong") ? 1 : 0;
    bench.document["failures"].push_back(to_json(failure));
  }
  for (const LayerCase& one : result.cases) {
    bench.document["cases"].push_back(to_json(one));
    bench.cases.push_back(one);
  }
  std::fflush(stdout);
}

std::vector<LayerConditions> conditions_of(const Options& options, const Comparison& comparison) {
  std::vector<LayerConditions> all;
  for (const int threads : options.threads) {
    for (const std::int64_t n : comparison.n) {
      all.push_back({n, threads, false});
      if (options.hot) all.push_back({n, threads, true});
    }
  }
  return all;
}

/// All that the document does not have.
void run_network(Bench& bench, const Network& network) {
  std::optional<LoadedNetwork> loaded;
  for (const Comparison& comparison : comparisons_of(bench.options)) {
    for (const LayerConditions& conditions : conditions_of(bench.options, comparison)) {
      if (bench.has(network.name, comparison.name, conditions)) continue;
      if (!bench.has_time()) {
        ++bench.left;
        continue;
      }
      if (!loaded) {
        loaded = {network.name, network.load()};
        bench::normalize(loaded->layers);
      }
      run_case(bench, *loaded, comparison, conditions);
    }
    if (loaded) save(bench);
  }
}

nlohmann::json start_document(const Options& options, const nlohmann::json& device) {
  std::vector<std::unique_ptr<side_by_side::Peer>> subject;
  side_by_side::PeerSettings settings;
  settings.target = options.settings.target;
  subject.push_back(side_by_side::make_spjit_peer(settings));
  nlohmann::json document =
      side_by_side::new_document(options.command, device, side_by_side::infos_of(subject));
  document["schema"] = k_schema;
  document["failures"] = nlohmann::json::array();
  return document;
}

int run(Options options) {
  const nlohmann::json device =
      side_by_side::host_device(host_cpu(), options.settings.target, bench::load_average());
  if (options.json.empty()) {
    options.json = "layer-" + bench::file_name_of(device.at("name").get<std::string>()) + ".json";
  }
  Bench bench{options, start_document(options, device)};
  if (options.append) {
    const nlohmann::json earlier = side_by_side::earlier_document(options.json, bench.document);
    for (const char* list : {"cases", "failures"}) bench.document[list] = earlier.at(list);
    for (const nlohmann::json& record : bench.document["cases"]) {
      bench.cases.push_back(bench::layer_case_of(record));
    }
  }
  for (const Network& network : networks_of(options)) run_network(bench, network);
  save(bench);
  fmt::print("\n{}", to_text(bench::summarize(bench.cases, options.most_worst)));
  if (bench.left > 0) {
    fmt::print("stopped after {} minutes: {} cases are left, --append goes on\n",
               options.max_minutes, bench.left);
  }
  fmt::print("wrote {}\n", options.json.string());
  return bench.wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const fs::path repository = SPJIT_SOURCE_DIR;
  Options options;
  options.networks.data = repository / "../shared/data";
  options.networks.networks = repository / "build/networks";
  options.networks.only = {"minilm-50",      "minilm-80",      "minilm-90", "transformer-70",
                           "transformer-90", "transformer-98", "rn50"};
  for (int i = 0; i < argc; ++i) {
    options.command += i == 0 ? fs::path(argv[0]).filename().string() : ' ' + std::string(argv[i]);
  }
  CLI::App app{"Layers with layouts, any n, epilogues, batches and values, against plain kernels."};
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  if (options.quick) {
    options.settings.timing.budget_ms = 0;
    options.settings.timing.min_samples = 2;
  }
  try {
    return run(std::move(options));
  } catch (const std::exception& error) {
    fmt::print(stderr, "layer_bench: {}\n", error.what());
    return 2;
  }
}
