/// @file
/// Times of the tiles of one generated matrix on a GPU, a line of JSON a way.
/// bench/python/gpu_ranks_bench.py starts it, a process a matrix: a fault does not end the others.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
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

#include "bench/gpu/tile_way.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/error.hpp"
#include "spjit/generate.hpp"
#include "spjit/version.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;
using nlohmann::json;

struct Options {
  GenerateOptions matrix;
  std::int64_t n = 512;
  std::filesystem::path cubins;
  std::string target;
  bool describe = false;
  std::vector<std::string> ways = tile_way_names();
  TileWayOptions way;
};

json describe(int device) {
  const LocalGpus local = find_local_gpus();
  if (local.gpus.empty()) throw NotSupported("no GPU: " + local.problem);
  const CudaDeviceInfo limits = local_gpu_info(device);
  return {{"spjit", SPJIT_VERSION}, {"device", limits.product},    {"target", limits.name()},
          {"sms", limits.sms},      {"l2_bytes", limits.l2_bytes}, {"driver", local.driver}};
}

/// Of its proxy where there is one, else in full; null: it has no time, for that reason.
json tile_json(const SearchTraceEntry& entry) {
  const std::optional<TuningResult>& result = entry.proxy ? entry.proxy : entry.full;
  const bool failed = result && result->outcome == TuningOutcome::failed;
  const bool is_timed = result && !failed && result->timing.samples > 0;
  return {{"tile", entry.tile},
          {"us", is_timed ? json(result->timing.median_us) : json()},
          {"failure", failed ? json(result->failure) : json()}};
}

json line_of(const SearchTrace& trace) {
  json tiles = json::array();
  for (const SearchTraceEntry& entry : trace.entries) tiles.push_back(tile_json(entry));
  return {{"seconds", (trace.proxy_ms + trace.full_ms) / 1e3},
          {"chosen", trace.timed ? json(trace.entries[trace.chosen].tile) : json()},
          {"tiles", std::move(tiles)}};
}

void open_cubins(Options& options) {
  if (options.cubins.empty()) return;
  options.way.cubins = std::make_shared<CubinCache>(options.cubins, options.target);
  if (options.way.compile_only) return;
  options.way.cubins->require(local_gpu_info(options.way.device));
}

void run(Options& options) {
  Problem problem;
  problem.a = generate_matrix(options.matrix);
  problem.n = options.n;
  json last = {{"nnz", problem.a->nnz()}, {"found", 0}, {"compiled", 0}};
  for (const std::string& name : options.ways) {
    options.way.way = name;
    json line = line_of(run_tile_way(problem, options.way));
    line["way"] = name;
    fmt::print("{}\n", line.dump());
    std::fflush(stdout);
  }
  if (options.way.cubins) {
    const CubinCounts counts = options.way.cubins->counts();
    last.update({{"found", counts.found}, {"compiled", counts.compiled}});
  }
  fmt::print("{}\n", last.dump());
}

void add_options(CLI::App& app, Options& options) {
  app.add_option("--rows", options.matrix.rows, "Of A");
  app.add_option("--cols", options.matrix.cols, "Of A");
  app.add_option("--sparsity", options.matrix.sparsity, "Of A");
  app.add_option_function<std::string>(
      "--pattern",
      [&options](const std::string& name) { options.matrix.pattern = parse_pattern(name); },
      "Of A: uniform, power-law, ...");
  app.add_option("--n", options.n, "Columns of B");
  app.add_option("--ways", options.ways, "oracle, proxy-alone, ...")->delimiter(',');
  app.add_option("--tiles", options.way.most_tiles, "So many, spread over the ranking; 0: all");
  app.add_option("--device", options.way.device, "The GPU")->check(CLI::NonNegativeNumber);
  CLI::Option* target =
      app.add_option("--target", options.target, "What cubins are compiled for: sm_90:h100");
  CLI::Option* cubins = app.add_option("--cubins", options.cubins,
                                       "Load cubins from there; what it lacks is compiled")
                            ->needs(target);
  app.add_flag("--compile-only", options.way.compile_only, "Into --cubins; needs no GPU")
      ->needs(cubins);
  app.add_flag("--rehearse", options.way.rehearse, "On the emulated driver: the fewest launches");
  app.add_flag("--describe", options.describe, "Only say what the GPU is");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Times of the tiles of one matrix on a GPU."};
  Options options;
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  try {
    open_cubins(options);
    if (options.describe) {
      fmt::print("{}\n", describe(options.way.device).dump());
    } else {
      run(options);
    }
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
