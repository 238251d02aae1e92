/// @file
/// The clock against simulated cycles of the same kernels, or against times that a GPU took:
/// Kendall's tau and what its first choice loses, beside those of the prior. Needs NVIDIA's
/// compiler libraries, no GPU. bench/README.md says how to read it.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "base/json_text.hpp"
#include "base/timing.hpp"
#include "bench/clock/agreement.hpp"
#include "bench/clock/measured_tiles.hpp"
#include "bench/clock/tile_clock.hpp"
#include "bench/json_file.hpp"
#include "clock/cubin_clock.hpp"
#include "kernels/cuda/unrolled/cuda_prior.hpp"
#include "kernels/cuda/unrolled/cuda_samples.hpp"
#include "kernels/tuning/sample_reader.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;
namespace fs = std::filesystem;
using nlohmann::json;

struct Options {
  fs::path measured;  ///< samples; empty: simulated cycles count
  fs::path simulated = SPJIT_SOURCE_DIR "/bench/results/clock";
  fs::path data = SPJIT_SOURCE_DIR "/../shared/data";
  fs::path out;
  std::string only;
  std::string target = "sm_75:rtx2080ti";
  bool limited_fetch = false;
  bool verbose = false;
};

/// Goals: of every matrix, and of the mean over them.
constexpr double k_least_tau = 0.8;
/// Of the clock as it is used, whose waits are not the simulator's: no goal, a floor.
constexpr double k_floor_tau = 0.6;
constexpr double k_most_loss = 0.05;
/// With fewer tiles an order says nothing.
constexpr std::size_t k_least_tiles = 10;

struct TileResult {
  std::string tile;
  double simulated = 0;    ///< cycles
  double modelled = 0;     ///< cycles
  double by_register = 0;  ///< cycles, where waits are for registers, as the simulator has them
  double prior = 0;        ///< estimated cycles of the formula
  std::string bound;
  double clock_ms = 0;
  std::string failed;  ///< why it has no modelled cycles; empty: it has
};

struct MatrixResult {
  std::string matrix;
  std::vector<TileResult> tiles;
  Agreement clock;
  Agreement by_register;
  Agreement prior;
  std::map<std::string, double> others;  ///< simulated cycles of kernels without tiles
};

Agreement agreement_of(const std::vector<TileResult>& tiles, double TileResult::*estimate) {
  std::vector<double> simulated;
  std::vector<double> estimates;
  for (const TileResult& tile : tiles) {
    simulated.push_back(tile.simulated);
    estimates.push_back(tile.*estimate);
  }
  return agreement(simulated, estimates);
}

class Comparison {
 public:
  Comparison(const json& document, const Options& options)
      : options_(options),
        device_(parse_cuda_target(options.target)),
        clock_(options.data / document.at("matrix").get<std::string>(),
               document.at("n").get<std::int64_t>(), device_) {
    result_.matrix = document.at("matrix").get<std::string>();
    for (const json& family : document.at("families")) {
      result_.others[family.at("family")] = family.at("cycles").get<double>();
    }
  }

  MatrixResult run(const json& tiles) {
    const char* const member = options_.limited_fetch ? "cycles_limited_fetch" : "cycles";
    for (const json& tile : tiles) {
      if (tile.contains(member)) add(tile.at("tile"), tile.at(member).get<double>());
    }
    std::vector<TileResult> modelled = result_.tiles;
    std::erase_if(modelled, [](const TileResult& tile) { return !tile.failed.empty(); });
    if (modelled.size() < 2) {
      throw Error(fmt::format("{}: fewer than two tiles have {}", result_.matrix, member));
    }
    result_.clock = agreement_of(modelled, &TileResult::modelled);
    result_.by_register = agreement_of(modelled, &TileResult::by_register);
    result_.prior = agreement_of(modelled, &TileResult::prior);
    return std::move(result_);
  }

 private:
  void add(const std::string& name, double simulated) {
    TileResult result;
    result.tile = name;
    result.simulated = simulated;
    try {
      model(result);
    } catch (const Error& error) {
      result.failed = error.what();
    }
    if (options_.verbose) {
      fmt::print(
          "  {:52} simulated {:8.0f} modelled {:8.0f} by register {:8.0f} bound {:8} {:5.0f} ms "
          "{}\n",
          result.tile, result.simulated, result.modelled, result.by_register, result.bound,
          result.clock_ms, result.failed);
    }
    result_.tiles.push_back(std::move(result));
  }

  void model(TileResult& result) {
    const CudaCandidate& candidate = clock_.candidate(result.tile);
    const BuiltCuda built = clock_.build(candidate);
    const auto begin = std::chrono::steady_clock::now();
    // What is called `cycles` was simulated with every instruction where it is needed.
    ClockLimits limits{.instructions_at_hand = !options_.limited_fetch};
    const ModelledTime time = clock_.model(built, candidate, limits);
    result.clock_ms = ms_since(begin);
    limits.waits_by_register = true;
    result.by_register = clock_.model(built, candidate, limits).cycles;
    result.modelled = time.cycles;
    result.bound = to_string(time.bound);
    result.prior = estimate_cuda_cycles(candidate, device_);
  }

  const Options& options_;
  CudaDeviceInfo device_;
  TileClock clock_;
  MatrixResult result_;
};

json to_json(const MatrixResult& result) {
  json tiles = json::array();
  for (const TileResult& tile : result.tiles) {
    json entry = {{"tile", tile.tile}, {"simulated_cycles", tile.simulated}};
    if (tile.failed.empty()) {
      entry.update({{"modelled_cycles", std::round(tile.modelled)},
                    {"by_register_cycles", std::round(tile.by_register)},
                    {"prior_cycles", std::round(tile.prior)},
                    {"bound", tile.bound}});
    } else {
      entry["failed"] = tile.failed;
    }
    tiles.push_back(std::move(entry));
  }
  return {{"matrix", result.matrix},
          {"clock", to_json(result.clock)},
          {"clock_by_register", to_json(result.by_register)},
          {"prior", to_json(result.prior)},
          {"chosen_simulated_cycles", result.clock.chosen},
          {"others_simulated_cycles", result.others},
          {"tiles", std::move(tiles)}};
}

json read_simulated(const fs::path& file) {
  const std::vector<std::byte> bytes = read_file(file);
  json document = parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!document.is_object() || document.value("kind", "") != "simulated") {
    throw Error(fmt::format("{}: expected an object of kind \"simulated\"", file.string()));
  }
  return document;
}

std::vector<fs::path> files_of(const Options& options) {
  if (fs::is_regular_file(options.simulated)) return {options.simulated};
  std::vector<fs::path> files;
  if (fs::is_directory(options.simulated)) {
    for (const auto& entry : fs::directory_iterator(options.simulated)) {
      const std::string name = entry.path().filename().string();
      if (name.ends_with("-simulated.json") && name.find(options.only) != std::string::npos) {
        files.push_back(entry.path());
      }
    }
  }
  std::ranges::sort(files);
  if (files.empty()) {
    throw Error(fmt::format("{}: no file MATRIX-simulated.json", options.simulated.string()));
  }
  return files;
}

/// How many times the simulated cycles of the clock's first choice other kernels take.
void print_others(const std::vector<MatrixResult>& results) {
  std::map<std::string, std::vector<double>> logarithms;
  for (const MatrixResult& result : results) {
    for (const auto& [family, cycles] : result.others) {
      logarithms[family].push_back(std::log(cycles / result.clock.chosen));
      fmt::print("{}: {} takes {:.2f} times as long, simulated\n", result.matrix, family,
                 cycles / result.clock.chosen);
    }
  }
  for (const auto& [family, values] : logarithms) {
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    fmt::print("{}: {:.2f} times as long, simulated, geometric mean of {} matrices\n", family,
               std::exp(sum / static_cast<double>(values.size())), values.size());
  }
}

/// Tau is like with like: the simulator's waits. The loss is that of the clock as it is used.
/// 0: all goals are met. 1: one is missed, or a tile could not be modelled.
int summarize(const std::vector<MatrixResult>& results) {
  double loss = 0;
  double prior_loss = 0;
  bool is_met = true;
  for (const MatrixResult& result : results) {
    const auto share = 1 / static_cast<double>(results.size());
    loss += result.clock.loss * share;
    prior_loss += result.prior.loss * share;
    is_met =
        is_met && ((result.by_register.tau >= k_least_tau && result.clock.tau >= k_floor_tau) ||
                   result.tiles.size() < k_least_tiles);
    for (const TileResult& tile : result.tiles) {
      if (tile.failed.empty()) continue;
      is_met = false;
      fmt::print("{}: {}: {}\n", result.matrix, tile.tile, tile.failed);
    }
  }
  is_met = is_met && loss <= k_most_loss;
  fmt::print("mean loss of the first choice {:.1f} %, of the prior's {:.1f} %\n", 100 * loss,
             100 * prior_loss);
  fmt::print("goals: tau {:.2f} by register ({:.2f} as used) of every matrix, loss {:.0f} %: {}\n",
             k_least_tau, k_floor_tau, 100 * k_most_loss, is_met ? "met" : "missed");
  return is_met ? 0 : 1;
}

void print_tiles(const MeasuredMatrix& matrix) {
  for (const MeasuredTile& tile : matrix.tiles) {
    fmt::print("  {:52} measured {:7.2f} us modelled {:7.2f} us bound {:8} {}\n", tile.tile,
               tile.measured_us, tile.modelled_us, tile.bound, tile.failed);
  }
}

/// No goals: 0, or 1 where a tile could not be modelled.
int run_measured(const Options& options) {
  std::vector<MeasuredMatrix> results;
  bool has_failed = false;
  for (const CudaSampleGroup& group : read_sample_file(options.measured, read_cuda_samples)) {
    if (group.name.find(options.only) == std::string::npos) continue;
    std::optional<TileClock> clock;  // made for groups that are not refused
    results.push_back(judge_measured(group, [&](const CudaCandidate& candidate) {
      if (!clock) {
        clock.emplace(options.data / group.recipe.value("file", ""), group.work.n, group.limits);
      }
      return clock->model(clock->build(candidate), candidate, {});
    }));
    const MeasuredMatrix& result = results.back();
    fmt::print("{}\n", to_string(result));
    if (options.verbose) print_tiles(result);
    for (const MeasuredTile& tile : result.tiles) {
      if (tile.failed.empty()) continue;
      has_failed = true;
      fmt::print("{}: {}: {}\n", result.matrix, tile.tile, tile.failed);
    }
  }
  if (results.empty()) {
    throw Error(fmt::format("{}: no group's name contains \"{}\"", options.measured.string(),
                            options.only));
  }
  const Agreement clock = mean_agreement(results, &MeasuredMatrix::clock);
  const Agreement prior = mean_agreement(results, &MeasuredMatrix::prior);
  fmt::print(
      "mean of {} matrices, measured ({}): tau {:.2f} (prior {:.2f}), loss {:.1f} % (prior "
      "{:.1f} %)\n",
      results.size(), results.front().card, clock.tau, prior.tau, 100 * clock.loss,
      100 * prior.loss);
  if (!options.out.empty()) {
    json matrices = json::array();
    for (const MeasuredMatrix& result : results) matrices.push_back(to_json(result));
    save_json(options.out, {{"kind", "modelled against measured"},
                            {"spjit", SPJIT_VERSION},
                            {"device", results.front().card + ", modelled and measured"},
                            {"matrices", std::move(matrices)}});
  }
  return has_failed ? 1 : 0;
}

int run_simulated(const Options& options) {
  std::vector<MatrixResult> results;
  for (const fs::path& file : files_of(options)) {
    const json document = read_simulated(file);
    results.push_back(Comparison(document, options).run(document.at("tiles")));
    const MatrixResult& result = results.back();
    fmt::print(
        "{} n={}: {} tiles, tau {:.3f} (by register {:.3f}, prior {:.3f}), loss {:.1f} % (by "
        "register {:.1f} %, prior {:.1f} %)\n",
        result.matrix, document.at("n").get<std::int64_t>(), result.tiles.size(), result.clock.tau,
        result.by_register.tau, result.prior.tau, 100 * result.clock.loss,
        100 * result.by_register.loss, 100 * result.prior.loss);
  }
  if (!options.out.empty()) {
    json matrices = json::array();
    for (const MatrixResult& result : results) matrices.push_back(to_json(result));
    save_json(options.out, {{"kind", "modelled against simulated"},
                            {"spjit", SPJIT_VERSION},
                            {"device", options.target + ", modelled and simulated"},
                            {"limited_fetch", options.limited_fetch},
                            {"matrices", std::move(matrices)}});
  }
  print_others(results);
  return summarize(results);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{
      "The clock against simulated cycles or measured times of the same kernels, without a GPU."};
  CLI::Option* const simulated =
      app.add_option("--simulated", options.simulated, "File or folder with simulated cycles");
  CLI::Option* const measured =
      app.add_option("--measured", options.measured,
                     "File of samples that a GPU was timed for, instead of simulated cycles")
          ->excludes(simulated);
  app.add_option("--data", options.data, "Folder that the files' matrices lie below");
  app.add_option("--json", options.out, "Where the result goes (default: nowhere)");
  app.add_option("--only", options.only,
                 "Only files or groups of samples whose name contains this");
  app.add_option("--target", options.target, "What was simulated")->excludes(measured);
  app.add_flag("--limited-fetch", options.limited_fetch,
               "Against the cycles with a limited instruction cache, the clock with its own")
      ->excludes(measured);
  app.add_flag("--verbose", options.verbose, "A line a tile");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    return options.measured.empty() ? run_simulated(options) : run_measured(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "clock_bench: {}\n", error.what());
    return 2;
  }
}
