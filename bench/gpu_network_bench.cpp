/// @file
/// Networks on a GPU: each library's layers in one CUDA graph. bench/README.md says how it is
/// called and how to read the result.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/timing.hpp"
#include "bench/host/surroundings.hpp"
#include "bench/model/gpu_network.hpp"
#include "bench/run_options.hpp"
#include "bench/side_by_side/cuda/cuda_peers.hpp"
#include "bench/side_by_side/result_file.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/error.hpp"

namespace {

namespace fs = std::filesystem;
using namespace spjit;
using bench::GpuNetworkTiming;
using nlohmann::json;
using side_by_side::Peer;

constexpr const char* k_schema = "spjit-gpu-network-1";

struct Options {
  int gpu = 0;
  std::vector<std::string> networks = {"minilm-90", "bert-90"};
  std::vector<std::int64_t> n = {128, 512};
  std::vector<std::string> peers = {"spjit",       "row-split",     "cublas",
                                    "cublas-tf32", "cusparse-csr2", "cusparse-csr3"};
  bench::GpuNetworkOptions measure;
  double max_minutes = 0;  ///< 0: as long as it takes
  int part = 0;
  int parts = 0;  ///< not 0: only compiles, of the layers each `parts`-th from `part` on
  fs::path cache;
  fs::path out;
};

void add_options(CLI::App& app, Options& options) {
  app.add_option("--gpu", options.gpu, "The GPU's ordinal");
  app.add_option("--networks", options.networks,
                 "minilm-PERCENT, bert-PERCENT: encoders with that percentage of zeros")
      ->delimiter(',');
  app.add_option("--n", options.n, "Columns of B")->delimiter(',')->check(CLI::PositiveNumber);
  app.add_option("--peers", options.peers, "Libraries to measure")->delimiter(',');
  app.add_option("--budget-ms", options.measure.budget_ms, "Timing of a network's passes");
  app.add_option("--hot-budget-ms", options.measure.hot_budget_ms, "Timing of one layer alone");
  app.add_flag("--check-only", options.measure.check_only, "Check, time nothing");
  app.add_option("--max-minutes", options.max_minutes,
                 "Begin no other network after this long; 0: go on to the end")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--cache", options.cache, "Cache directory of compiled kernels")->required();
  CLI::Option* parts =
      app.add_option("--parts", options.parts,
                     "Only compile spjit's kernels into --cache, one of so many parts of them; "
                     "processes may compile at once")
          ->check(CLI::PositiveNumber);
  app.add_option("--part", options.part, "Which part, from 0")
      ->needs(parts)
      ->check(CLI::NonNegativeNumber);
  app.add_option("--out", options.out,
                 "Append a line of JSON a network and n; those that the file has are left out");
}

bench::Network network_named(const std::string& name) {
  auto network = bench::encoder_network(name);
  if (network) return *std::move(network);
  throw InvalidArgument(
      fmt::format("no network '{}'; expected minilm-PERCENT or bert-PERCENT, as bert-90", name));
}

/// "bert-90 512" of each line that is whole and of this device.
std::set<std::string> done_in(const fs::path& file, const std::string& device) {
  std::set<std::string> done;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const json result = json::parse(line, nullptr, false);
    if (result.is_discarded() || result.value("schema", "") != k_schema) {
      throw IoError(fmt::format("{}: expected lines of schema {}", file.string(), k_schema));
    }
    if (result.at("device").at("name") != device) {
      throw IoError(fmt::format("{}: has results of {}, this is {}", file.string(),
                                result.at("device").at("name").get<std::string>(), device));
    }
    done.insert(fmt::format("{} {}", result.at("network").get<std::string>(),
                            result.at("n").get<std::int64_t>()));
  }
  return done;
}

json to_json(const GpuNetworkTiming& timing) {
  json result = {{"library", timing.library},
                 {"failed", timing.failed.empty() ? json() : json(timing.failed)}};
  if (!timing.failed.empty()) return result;
  result["a_bytes"] = timing.a_bytes;
  result["prepare_ms"] = timing.prepare_ms;
  result["details"] = timing.details;
  if (timing.pass.samples == 0) return result;
  result["pass_us"] = timing.pass.median_us;
  result["pass_noise"] = timing.pass.noise;
  result["samples"] = timing.pass.samples;
  result["hot_us"] = std::accumulate(timing.hot_us.begin(), timing.hot_us.end(), 0.0);
  result["hot_layers_us"] = timing.hot_us;
  return result;
}

std::string summary_of(const std::vector<GpuNetworkTiming>& timings) {
  std::vector<std::string> texts;
  for (const GpuNetworkTiming& timing : timings) {
    if (!timing.failed.empty()) {
      texts.push_back(fmt::format("{}: {}", timing.library, timing.failed));
    } else if (timing.pass.samples == 0) {
      texts.push_back(timing.library + " right");
    } else {
      texts.push_back(
          fmt::format("{} {:.1f} us ({:.1f} hot)", timing.library, timing.pass.median_us,
                      std::accumulate(timing.hot_us.begin(), timing.hot_us.end(), 0.0)));
    }
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

void append_line(const fs::path& file, const json& result) {
  if (file.empty()) return;
  std::ofstream out(file, std::ios::app);
  out << result.dump() << '\n';
  if (!out.flush()) throw IoError(fmt::format("{}: cannot be written", file.string()));
}

/// Compiles a part of what measuring takes from the cache.
int compile_part(const Options& options, const std::vector<std::unique_ptr<Peer>>& peers) {
  int index = 0;
  for (const std::string& name : options.networks) {
    const std::vector<bench::NetworkLayer> layers = network_named(name).load();
    for (const std::int64_t n : options.n) {
      for (const bench::NetworkLayer& layer : layers) {
        if (index++ % options.parts != options.part) continue;
        const side_by_side::Problem problem{.matrix = &layer.matrix, .n = n};
        for (const auto& peer : peers) {
          auto* const own = dynamic_cast<side_by_side::CudaPeer*>(peer.get());
          if (own != nullptr) static_cast<void>(own->maker(problem));
        }
      }
    }
  }
  return 0;
}

int measure(const Options& options, const std::shared_ptr<side_by_side::DeviceSide>& side,
            const std::vector<std::unique_ptr<Peer>>& peers) {
  const auto begin = std::chrono::steady_clock::now();
  const json device =
      side_by_side::cuda_device(side->context().device(), bench::load_average(), false);
  const std::set<std::string> done = done_in(options.out, device.at("name"));
  const json document = side_by_side::new_document("", device, side_by_side::infos_of(peers));
  int failures = 0;
  for (const std::string& name : options.networks) {
    for (const std::int64_t n : options.n) {
      if (done.contains(fmt::format("{} {}", name, n))) continue;
      if (!bench::has_time(options.max_minutes, begin)) {
        fmt::print("stopped after {} minutes: {} n={} and what follows are left\n",
                   options.max_minutes, name, n);
        return failures == 0 ? 0 : 1;
      }
      bench::GpuNetwork network(network_named(name).load(), n, side);
      const std::vector<GpuNetworkTiming> timings = network.measure(peers, options.measure);
      json result = {{"schema", k_schema},       {"created", document.at("created")},
                     {"device", device},         {"libraries", document.at("libraries")},
                     {"network", name},          {"n", n},
                     {"layers", network.size()}, {"nnz", network.nnz()},
                     {"timings", json::array()}};
      for (const GpuNetworkTiming& timing : timings) {
        result["timings"].push_back(to_json(timing));
        if (!timing.failed.empty()) ++failures;
      }
      append_line(options.out, result);
      fmt::print("{} n={}: {}\n", name, n, summary_of(timings));
      std::fflush(stdout);
    }
  }
  return failures == 0 ? 0 : 1;
}

int run(const Options& options) {
  if (options.part >= std::max(options.parts, 1)) {
    throw InvalidArgument(fmt::format("--part is {}, expected less than --parts, which is {}",
                                      options.part, options.parts));
  }
  for (const std::string& name : options.networks) static_cast<void>(network_named(name));
  const auto side =
      std::make_shared<side_by_side::DeviceSide>(CudaContext(local_cuda_driver(), options.gpu));
  side_by_side::CudaPeerSettings settings{side};
  const LocalGpu& gpu = side->context().device();
  settings.cubins = std::make_shared<bench::CubinCache>(
      options.cache, fmt::format("sm_{}:gpu{}", gpu.limits.arch, gpu.ordinal));
  std::vector<std::string> names = options.peers;
  if (options.parts > 0) std::erase_if(names, [](const auto& name) { return name != "spjit"; });
  const auto peers = side_by_side::make_cuda_peers(settings, names);
  return options.parts > 0 ? compile_part(options, peers) : measure(options, side, peers);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Networks on a GPU, a library's layers in one CUDA graph."};
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpu_network_bench: {}\n", error.what());
    return 2;
  }
}
