/// @file
/// Whole models: their layers one after another, beside other libraries and family by family.
/// bench/README.md says how it is called and how to read the result.

#include <fmt/format.h>
#include <fmt/ranges.h>

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
#include "bench/host/report.hpp"
#include "bench/host/surroundings.hpp"
#include "bench/json_file.hpp"
#include "bench/model/measure_network.hpp"
#include "bench/model/network.hpp"
#include "bench/side_by_side/peers.hpp"
#include "bench/side_by_side/result_file.hpp"
#include "spjit/error.hpp"

namespace {

namespace fs = std::filesystem;
using namespace spjit;
using bench::LayerOperands;
using bench::Network;
using bench::NetworkLayer;
using bench::NetworkTiming;
using side_by_side::Peer;

constexpr const char* k_schema = "spjit-model-bench-1";

struct Options {
  bench::NetworkOptions networks;
  std::vector<std::int64_t> n = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
  std::vector<int> threads = {1, 2};
  std::vector<std::string> families = {"dense", "compact", "unrolled", "csr"};
  std::vector<std::string> peers = {"spjit",     "openblas",   "onednn",
                                    "mkl-dense", "mkl-sparse", "onnxruntime"};
  side_by_side::PeerSettings settings;
  bench::SequenceOptions timing;
  bool hot = false;
  bool append = false;
  double max_minutes = 0;  ///< 0: as long as it takes
  fs::path json;
  std::string command;
};

void add_options(CLI::App& app, Options& options) {
  app.add_option("--data", options.networks.data, "Folder with dlmc");
  app.add_option("--networks", options.networks.networks, "Folders of matrices, a network each");
  app.add_option("--only", options.networks.only, "Only networks whose name contains one of these")
      ->delimiter(',');
  app.add_option("--n", options.n, "Columns of B")->delimiter(',')->check(CLI::PositiveNumber);
  app.add_option("--threads", options.threads, "Numbers of threads")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  app.add_option("--families", options.families, "Families of spjit to measure by themselves")
      ->delimiter(',');
  app.add_option("--peers", options.peers, "Libraries to measure")->delimiter(',');
  app.add_option("--mkl", options.settings.mkl_folder, "Folder with libmkl_rt.so");
  app.add_option("--onednn", options.settings.onednn_folder, "Folder with libdnnl.so.3");
  app.add_option("--onnxruntime", options.settings.onnxruntime_folder,
                 "Folder with libonnxruntime.so.1");
  app.add_option_function<std::string>(
      "--target",
      [&options](const std::string& name) { options.settings.target = Target::parse(name); },
      "What spjit compiles for, such as host-avx2");
  app.add_option("--budget-ms", options.timing.budget_ms, "Timing of a network and n");
  app.add_flag("--hot", options.hot, "Time each layer alone too, again and again");
  app.add_option("--json", options.json, "The result (default: model-CPU.json here)");
  app.add_flag("--append", options.append, "Keep the cases of --json's file, measure the others");
  app.add_option("--max-minutes", options.max_minutes,
                 "Begin no other case after this long; 0: go on to the end")
      ->check(CLI::NonNegativeNumber);
}

std::vector<std::unique_ptr<Peer>> make_all_peers(const Options& options) {
  auto peers = side_by_side::make_peers(options.settings, options.peers);
  for (const std::string& family : options.families) {
    peers.push_back(side_by_side::make_family_peer(options.settings, family));
  }
  return peers;
}

bool needs_zeros(const std::vector<std::unique_ptr<Peer>>& peers) {
  return std::ranges::any_of(peers, [](const auto& peer) {
    return peer->info().kind == "dense" && peer->info().missing.empty();
  });
}

/// {"median_us", "min_us", "noise", "samples"}
nlohmann::json times_of(const TimingResult& result) {
  if (result.samples == 0) return nullptr;
  return {{"median_us", result.median_us},
          {"min_us", result.min_us},
          {"noise", result.noise},
          {"samples", result.samples}};
}

nlohmann::json to_json(const NetworkTiming& timing) {
  nlohmann::json rounded = nlohmann::json::array();
  for (const double us : timing.layers_us) rounded.push_back(std::round(us * 10) / 10);
  return {{"library", timing.library},   {"pass", times_of(timing.pass)},
          {"hot", times_of(timing.hot)}, {"prepare_ms", timing.prepare_ms},
          {"layers", timing.details},    {"layers_us", rounded},
          {"failed", timing.failed}};
}

std::string summary_of(const std::vector<NetworkTiming>& timings) {
  std::vector<std::string> words;
  for (const NetworkTiming& timing : timings) {
    words.push_back(timing.failed.empty()
                        ? fmt::format("{} {:.3f}", timing.library, timing.pass.median_us / 1e3)
                        : fmt::format("{} FAILED: {}", timing.library, timing.failed));
    if (timing.hot.samples > 0)
      words.back() += fmt::format(" ({:.3f})", timing.hot.median_us / 1e3);
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

/// Adds {"network", "shapes": [[rows, cols, nnz] of each layer]} unless it is there.
void describe(const Network& network, const std::vector<NetworkLayer>& layers,
              nlohmann::json& document) {
  nlohmann::json& networks = document.at("networks");
  const bool is_there = std::ranges::any_of(
      networks, [&](const nlohmann::json& other) { return other.at("network") == network.name; });
  if (is_there) return;
  nlohmann::json shapes = nlohmann::json::array();
  for (const NetworkLayer& layer : layers) {
    shapes.push_back({layer.matrix.rows, layer.matrix.cols, layer.matrix.nnz()});
  }
  networks.push_back({{"network", network.name}, {"shapes", std::move(shapes)}});
}

/// Of all layers together.
double sparsity_of(const std::vector<NetworkLayer>& layers) {
  double nnz = 0;
  double places = 0;
  for (const NetworkLayer& layer : layers) {
    nnz += static_cast<double>(layer.matrix.nnz());
    places += static_cast<double>(layer.matrix.rows) * static_cast<double>(layer.matrix.cols);
  }
  return places > 0 ? 1 - nnz / places : 0;
}

bool has_case(const nlohmann::json& document, const std::string& network, std::int64_t n,
              int threads) {
  return std::ranges::any_of(document.at("cases"), [&](const nlohmann::json& other) {
    return other.at("network") == network && other.at("n") == n && other.at("threads") == threads;
  });
}

/// What is measured with, and how far it is.
struct Bench {
  const Options& options;
  std::vector<std::unique_ptr<Peer>> peers;
  nlohmann::json document;
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  int wrong = 0;  ///< results
  int left = 0;   ///< cases that there was no time for

  [[nodiscard]] bool has_time() const {
    return options.max_minutes == 0 || ms_since(begin) < options.max_minutes * 60e3;
  }
};

void run_case(Bench& bench, const Network& network, LayerOperands& operands, double sparsity,
              std::pair<std::int64_t, int> n_and_threads) {
  const auto [n, threads] = n_and_threads;
  const std::vector<NetworkTiming> timings = bench::measure_network(
      bench.peers, operands, threads, bench.options.hot, bench.options.timing);
  nlohmann::json record = {{"network", network.name},
                           {"layers", operands.size()},
                           {"nnz", operands.nnz()},
                           {"sparsity", sparsity},
                           {"n", n},
                           {"threads", threads},
                           {"timings", nlohmann::json::array()}};
  for (const NetworkTiming& timing : timings) {
    bench.wrong += timing.failed.starts_with("wrong") ? 1 : 0;
    record["timings"].push_back(to_json(timing));
  }
  bench.document["cases"].push_back(std::move(record));
  fmt::print("{} n={} t={}, ms: {}\n", network.name, n, threads, summary_of(timings));
  std::fflush(stdout);
}

/// All n and threads of a network that the document does not have.
void run_network(Bench& bench, const Network& network) {
  std::vector<NetworkLayer> layers;
  double sparsity = 0;
  for (const std::int64_t n : bench.options.n) {
    std::optional<LayerOperands> operands;
    for (const int threads : bench.options.threads) {
      if (has_case(bench.document, network.name, n, threads)) continue;
      if (!bench.has_time()) {
        ++bench.left;
        continue;
      }
      if (layers.empty()) {
        layers = network.load();
        bench::normalize(layers);
        sparsity = sparsity_of(layers);
        describe(network, layers, bench.document);
      }
      if (!operands) operands.emplace(layers, n, needs_zeros(bench.peers));
      run_case(bench, network, *operands, sparsity, {n, threads});
    }
    if (operands) bench::save_json(bench.options.json, bench.document);
  }
}

int run(Options options) {
  side_by_side::prepare_environment();
  const bench::ScratchDirectory scratch("spjit-model");
  fs::create_directory(scratch.path());
  options.settings.scratch = scratch.path();
  Bench bench{options, make_all_peers(options), {}};
  const nlohmann::json device =
      side_by_side::host_device(host_cpu(), options.settings.target, bench::load_average());
  bench.document =
      side_by_side::new_document(options.command, device, side_by_side::infos_of(bench.peers));
  bench.document["schema"] = k_schema;
  bench.document["networks"] = nlohmann::json::array();
  if (options.json.empty()) {
    options.json = "model-" + bench::file_name_of(device.at("name").get<std::string>()) + ".json";
  }
  if (options.append) {
    const nlohmann::json earlier = side_by_side::earlier_document(options.json, bench.document);
    for (const char* list : {"cases", "networks"}) bench.document[list] = earlier.at(list);
  }
  side_by_side::print_peers(side_by_side::infos_of(bench.peers));
  const std::vector<Network> networks = bench::list_networks(options.networks);
  if (networks.empty()) throw Error("no network matches; scripts/data/make_networks.sh makes some");
  for (const Network& network : networks) run_network(bench, network);
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
  options.settings.mkl_folder = repository / "build/peers/mkl/lib";
  options.settings.onnxruntime_folder = repository / "build/peers/onnxruntime/lib";
  options.settings.onednn_folder = repository / "build/peers/onednn/lib";
  for (int i = 0; i < argc; ++i) {
    options.command += i == 0 ? fs::path(argv[0]).filename().string() : ' ' + std::string(argv[i]);
  }
  CLI::App app{"Whole models, layer after layer, on this CPU."};
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  try {
    return run(std::move(options));
  } catch (const std::exception& error) {
    fmt::print(stderr, "model_bench: {}\n", error.what());
    return 2;
  }
}
