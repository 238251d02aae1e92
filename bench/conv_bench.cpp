/// @file
/// The layers of convolutional networks beside other libraries' dense and sparse convolutions.
/// bench/README.md says how it is called and how to read the result.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
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
#include "bench/convolution/case.hpp"
#include "bench/convolution/conv_peer.hpp"
#include "bench/convolution/goals.hpp"
#include "bench/convolution/measure.hpp"
#include "bench/convolution/network.hpp"
#include "bench/host/report.hpp"
#include "bench/host/surroundings.hpp"
#include "bench/json_file.hpp"
#include "bench/side_by_side/peers.hpp"
#include "bench/side_by_side/result_file.hpp"
#include "spjit/error.hpp"
#include "spjit/generate.hpp"

namespace {

namespace fs = std::filesystem;
using namespace spjit;
using bench::ConvCase;
using bench::ConvConditions;
using bench::ConvLayer;
using bench::ConvNetwork;
using bench::ConvOperands;

constexpr const char* k_schema = "spjit-conv-bench-1";

struct Options {
  bench::ConvNetworkOptions networks;
  std::vector<std::int64_t> batch = {1, 8};
  std::vector<int> threads = {1, 2};
  std::vector<std::string> peers = bench::all_conv_peer_names();
  std::vector<std::string> families = {"dense", "compact", "unrolled", "csr"};
  bench::ConvPeerSettings settings;
  bench::SequenceOptions timing;
  bool hot = false;
  bool quick = false;
  bool append = false;
  double max_minutes = 0;       ///< 0: as long as it takes
  std::size_t most_worst = 10;  ///< layers in each list of the worst
  fs::path json;
  std::string command;
};

void add_options(CLI::App& app, Options& options) {
  app.add_option("--data", options.networks.data, "Folder with dlmc and weights");
  app.add_option("--networks", options.networks.networks,
                 "Folders of scripts/data/make_networks.sh");
  app.add_option("--sparsity", options.networks.sparsities, "Of the networks, in percent")
      ->delimiter(',')
      ->check(CLI::Range(0, 99));
  app.add_option("--only", options.networks.only,
                 "Only networks whose name, such as resnet50-90, contains one of these")
      ->delimiter(',');
  app.add_option("--batch", options.batch, "Images at once")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  app.add_option("--threads", options.threads, "Numbers of threads")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  app.add_option("--peers", options.peers, "Libraries to measure")->delimiter(',');
  app.add_option("--families", options.families,
                 "Families of spjit to measure by themselves; with -nhwc behind in that layout")
      ->delimiter(',');
  app.add_option("--onnxruntime", options.settings.onnxruntime_folder,
                 "Folder with libonnxruntime.so.1");
  app.add_option("--onednn", options.settings.onednn_folder, "Folder with libdnnl.so.3");
  app.add_option_function<std::string>(
      "--target",
      [&options](const std::string& name) { options.settings.target = Target::parse(name); },
      "What spjit compiles for, such as host-avx2");
  app.add_option("--budget-ms", options.timing.budget_ms, "Timing of a network and batch");
  app.add_flag("--hot", options.hot, "Also time one layer of each shape alone, again and again");
  app.add_option("--worst", options.most_worst, "How many of the worst layers are listed");
  app.add_option("--json", options.json, "The result (default: conv-CPU.json here)");
  app.add_flag("--append", options.append, "Keep the cases of --json's file, measure the others");
  app.add_option("--max-minutes", options.max_minutes,
                 "Begin no other network or batch after this long; 0: go on to the end")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--quick", options.quick,
               "Seconds: a small generated network, few samples: no time means anything");
}

/// For a quick run: a stem, strides, groups, a depthwise and a 1x1 layer.
std::vector<ConvLayer> generated_layers() {
  std::vector<ConvLayer> layers;
  const auto add = [&](std::int64_t filters, const Convolution& shape, double sparsity) {
    GenerateOptions options;
    options.rows = filters;
    options.cols = shape.channels / shape.groups * shape.kernel_height * shape.kernel_width;
    options.sparsity = sparsity;
    options.seed = layers.size() + 1;
    layers.push_back({fmt::format("{}", layers.size()), shape, generate_matrix(options),
                      fmt::format("generated, seed {}", options.seed)});
  };
  const auto shape = [](std::int64_t channels, std::int64_t size, std::int64_t kernel,
                        std::int64_t stride, std::int64_t groups) {
    const std::int64_t pad = kernel / 2;
    return Convolution{channels, size, size, kernel, kernel, stride, stride,
                       pad,      pad,  pad,  pad,    1,      1,      groups};
  };
  add(16, shape(3, 20, 7, 2, 1), 0.5);
  add(16, shape(16, 10, 3, 1, 1), 0.8);
  add(32, shape(16, 10, 1, 1, 1), 0.8);
  add(32, shape(32, 10, 3, 1, 32), 0.3);
  add(32, shape(32, 10, 3, 2, 2), 0.8);
  add(64, shape(32, 10, 1, 2, 1), 0.9);
  return layers;
}

std::vector<ConvNetwork> networks_of(const Options& options) {
  if (options.quick) return {{"generated", 80, generated_layers}};
  std::vector<ConvNetwork> networks = bench::list_conv_networks(options.networks);
  if (networks.empty()) throw Error("no network matches");
  return networks;
}

/// What is measured with, and how far it is.
struct Bench {
  const Options& options;
  nlohmann::json document;
  std::vector<ConvCase> cases = {};
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  int wrong = 0;  ///< results
  int left = 0;   ///< networks, batches and threads that there was no time for

  [[nodiscard]] bool has_time() const {
    return options.max_minutes == 0 || ms_since(begin) < options.max_minutes * 60e3;
  }
  [[nodiscard]] bool has(const ConvNetwork& network, std::int64_t batch,
                         const ConvConditions& conditions) const {
    return std::ranges::any_of(cases, [&](const ConvCase& other) {
      return other.network == network.name && other.sparsity == network.sparsity &&
             other.batch == batch && other.threads == conditions.threads &&
             other.hot == conditions.hot;
    });
  }
};

/// All of a kind: those of choices that hold for cold runs are not those of hot ones.
std::vector<std::unique_ptr<bench::ConvPeer>> make_all_peers(const Options& options, bool hot) {
  bench::ConvPeerSettings settings = options.settings;
  settings.hot = hot;
  std::vector<std::string> names = options.peers;
  names.insert(names.end(), options.families.begin(), options.families.end());
  return make_conv_peers(settings, names);
}

/// Milliseconds of all layers of each library, as far as it has them.
std::string summary_of(const std::vector<ConvCase>& cases) {
  std::string text;
  if (cases.empty()) return text;
  for (const bench::ConvTiming& library : cases.front().timings) {
    double ms = 0;
    std::int64_t layers = 0;
    std::int64_t all_layers = 0;
    for (const ConvCase& one : cases) {
      all_layers += one.layers;
      const bench::ConvTiming* const timing = one.find(library.library);
      if (timing == nullptr) continue;
      ms += timing->time.median_us / 1e3 * static_cast<double>(one.layers);
      layers += one.layers;
    }
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {:.2f}", library.library, ms);
    if (layers < all_layers) text += fmt::format(" ({} layers)", layers);
  }
  return text;
}

void save(Bench& bench) {
  bench.document["goals"] = nlohmann::json::array();
  for (const bench::GoalResult& goal : bench::evaluate_conv_goals(bench.cases)) {
    bench.document["goals"].push_back(to_json(goal));
  }
  bench::save_json(bench.options.json, bench.document);
}

void run_case(Bench& bench, const ConvNetwork& network, ConvOperands& operands,
              const ConvConditions& conditions) {
  bench::ConvPeerSettings settings = bench.options.settings;
  settings.hot = conditions.hot;
  std::vector<ConvCase> cases =
      measure_convolutions(make_all_peers(bench.options, conditions.hot), operands, conditions,
                           settings, bench.options.timing);
  fmt::print("{} batch={} threads={} {}, ms: {}\n", to_string(network), operands.batch(),
             conditions.threads, conditions.hot ? "hot" : "cold", summary_of(cases));
  for (ConvCase& one : cases) {
    one.network = network.name;
    one.sparsity = network.sparsity;
    for (const bench::ConvTiming& timing : one.timings) {
      if (!timing.failed.starts_with("wrong")) continue;
      ++bench.wrong;
      fmt::print("  FAILED: {}: {}\n", timing.library, timing.failed);
    }
    bench.document["cases"].push_back(to_json(one));
    bench.cases.push_back(std::move(one));
  }
  std::fflush(stdout);
}

/// All that the document does not have.
void run_network(Bench& bench, const ConvNetwork& network) {
  for (const std::int64_t batch : bench.options.batch) {
    std::optional<ConvOperands> operands;
    for (const int threads : bench.options.threads) {
      for (const bool hot : {false, true}) {
        const ConvConditions conditions{threads, hot};
        if ((hot && !bench.options.hot) || bench.has(network, batch, conditions)) continue;
        if (!bench.has_time()) {
          ++bench.left;
          continue;
        }
        if (!operands) operands.emplace(network.load(), batch);
        run_case(bench, network, *operands, conditions);
      }
    }
    if (operands) save(bench);
  }
}

void print_result(const Bench& bench) {
  const auto print_worst = [](const char* title, const std::vector<bench::ConvSpeedup>& worst) {
    if (!worst.empty()) fmt::print("\n{}\n", title);
    for (const auto& one : worst) fmt::print("  {:>6.2f}  {}\n", one.speedup, one.where);
  };
  print_worst("Least times oneDNN's fastest:",
              worst_against_dense(bench.cases, bench.options.most_worst));
  print_worst("Least times the fastest family by itself:",
              worst_choices(bench.cases, bench.options.most_worst));
  fmt::print("\n");
  for (const bench::GoalResult& goal : bench::evaluate_conv_goals(bench.cases)) {
    fmt::print("{}\n", goal_row(goal));
  }
  if (bench.left > 0) {
    fmt::print("stopped after {} minutes: {} cases are left, --append goes on\n",
               bench.options.max_minutes, bench.left);
  }
}

int run(Options options) {
  side_by_side::prepare_environment();
  const nlohmann::json device =
      side_by_side::host_device(host_cpu(), options.settings.target, bench::load_average());
  const std::vector<side_by_side::PeerInfo> peers =
      side_by_side::infos_of(make_all_peers(options, false));
  if (options.json.empty()) {
    options.json = "conv-" + bench::file_name_of(device.at("name").get<std::string>()) + ".json";
  }
  Bench bench{options, side_by_side::new_document(options.command, device, peers)};
  bench.document["schema"] = k_schema;
  if (options.append) {
    bench.document["cases"] =
        side_by_side::earlier_document(options.json, bench.document).at("cases");
    for (const nlohmann::json& record : bench.document["cases"]) {
      bench.cases.push_back(bench::conv_case_of(record));
    }
  }
  side_by_side::print_peers(peers);
  for (const ConvNetwork& network : networks_of(options)) run_network(bench, network);
  save(bench);
  print_result(bench);
  fmt::print("wrote {}\n", options.json.string());
  return bench.wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const fs::path repository = SPJIT_SOURCE_DIR;
  Options options;
  options.networks.data = repository / "../shared/data";
  options.networks.networks = repository / "build/networks";
  options.settings.onnxruntime_folder = repository / "build/peers/onnxruntime/lib";
  options.settings.onednn_folder = repository / "build/peers/onednn/lib";
  options.timing.budget_ms = 20'000;  // a pass of all libraries takes seconds
  for (int i = 0; i < argc; ++i) {
    options.command += i == 0 ? fs::path(argv[0]).filename().string() : ' ' + std::string(argv[i]);
  }
  CLI::App app{"Convolutional networks, layer after layer, on this CPU."};
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  if (options.quick) {
    options.timing.budget_ms = 0;
    options.timing.min_samples = 2;
  }
  try {
    return run(std::move(options));
  } catch (const std::exception& error) {
    fmt::print(stderr, "conv_bench: {}\n", error.what());
    return 2;
  }
}
