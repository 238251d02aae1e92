/// @file
/// Row grouping: what it gains on real patterns, what it costs, and what the work limits give away.
///   gain/ALGORITHM/m1:M/FILE            every DLMC pattern; counters fmas_per_load, nnc_sum, ...
///   cost/ALGORITHM/m1:M/nnz:NNZ         time against nnz: uniform, 512 columns, 90 % sparse
///   ablation/ALGORITHM/similarity:R/ratio:Q
///                                       Figure 6 of LO-SpMM (paired_blocks.hpp), n = 1024: runs of
///                                       the family `unrolled` on this CPU, hot, measured; counters
///                                       modelled_2080ti and modelled_v100 are cycles by the
///                                       formula that ranks CUDA tiles, of its first tile, and
///                                       clock_2080ti the clock's of the best of its first three
///                                       (0 without NVIDIA's compiler libraries): no GPU ran them
///   limit/ALGORITHM/m1:M/FILE/shards:S  what dealing the rows into S shards gives away; counters
///   are
///                                       ratios to one shard, and the shards of the default limits

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/float_buffer.hpp"
#include "bench/paired_blocks.hpp"
#include "kernels/cuda/unrolled/cuda_prior.hpp"
#include "kernels/cuda/unrolled/cuda_tile_space.hpp"
#include "reorder/algorithms.hpp"
#include "reorder/row_grouping.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "spjit/generate.hpp"
#include "spjit/matrix_io.hpp"

namespace {

namespace fs = std::filesystem;
using spjit::CsrMatrix;
using spjit::ReorderAlgorithm;
using spjit::RowGrouping;
using spjit::reorder::GroupingLimits;

constexpr ReorderAlgorithm k_algorithms[] = {ReorderAlgorithm::none, ReorderAlgorithm::balanced,
                                             ReorderAlgorithm::similarity};
constexpr std::int64_t k_unlimited = std::numeric_limits<std::int64_t>::max();

fs::path data_folder() {
  const char* const set = std::getenv("SPJIT_TEST_DATA");
  return set != nullptr ? fs::path(set) : fs::path(SPJIT_SOURCE_DIR "/../shared/data");
}

std::vector<fs::path> list_patterns() {
  std::vector<fs::path> files;
  const fs::path folder = data_folder() / "dlmc";
  if (!fs::exists(folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".smtx") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string name_of(const fs::path& file) {
  return fs::relative(file, data_folder() / "dlmc").replace_extension().string();
}

void add_counters(benchmark::State& state, const CsrMatrix& matrix, const RowGrouping& grouping) {
  const spjit::GroupingStatistics statistics = spjit::compute_statistics(matrix, grouping);
  state.counters["nnz"] = static_cast<double>(matrix.nnz());
  state.counters["fmas_per_load"] = statistics.fmas_per_load;
  state.counters["nnc_sum"] = static_cast<double>(statistics.nnc_sum);
  state.counters["nnc_max"] = static_cast<double>(statistics.nnc_max);
  state.counters["tile_nnz_cv"] = statistics.tile_nnz_cv;
}

void measure_gain(benchmark::State& state, const fs::path& file, std::int64_t m1,
                  ReorderAlgorithm algorithm) {
  const CsrMatrix matrix = spjit::load_matrix(file);
  RowGrouping grouping;
  for (auto _ : state) grouping = spjit::group_rows(matrix, m1, algorithm);
  add_counters(state, matrix, grouping);
}

CsrMatrix generate_of_size(std::int64_t nnz) {
  spjit::GenerateOptions options;
  options.cols = 512;
  options.sparsity = 0.9;
  options.rows = std::max<std::int64_t>(1, nnz * 10 / options.cols);
  return spjit::generate_matrix(options);
}

void measure_cost(benchmark::State& state, std::int64_t nnz, std::int64_t m1,
                  ReorderAlgorithm algorithm) {
  const CsrMatrix matrix = generate_of_size(nnz);
  RowGrouping grouping;
  for (auto _ : state) grouping = spjit::group_rows(matrix, m1, algorithm);
  add_counters(state, matrix, grouping);
  state.counters["time_per_nonzero"] = benchmark::Counter(
      static_cast<double>(matrix.nnz()),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

RowGrouping to_grouping(std::int64_t m1, const spjit::reorder::RowTiles& tiles) {
  RowGrouping grouping;
  grouping.m1 = m1;
  for (const auto& tile : tiles) {
    grouping.rows.insert(grouping.rows.end(), tile.begin(), tile.end());
    grouping.tile_ptrs.push_back(static_cast<std::int64_t>(grouping.rows.size()));
  }
  return grouping;
}

std::vector<std::int32_t> rows_by_nnz(const CsrMatrix& matrix) {
  std::vector<std::int32_t> rows = spjit::group_rows(matrix, 1, ReorderAlgorithm::none).rows;
  std::stable_sort(rows.begin(), rows.end(), [&](std::int32_t left, std::int32_t right) {
    const auto nnz = [&](std::int32_t row) {
      const auto r = static_cast<std::size_t>(row);
      return matrix.row_ptrs[r + 1] - matrix.row_ptrs[r];
    };
    return nnz(left) < nnz(right);
  });
  return rows;
}

/// The formula's cycles of the tile that it ranks first. [cycles]
double modelled_cycles(const spjit::Problem& problem, ReorderAlgorithm algorithm,
                       const char* target) {
  const spjit::CudaDeviceInfo limits = spjit::parse_cuda_target(target);
  spjit::RowGroupings groupings(*problem.a, algorithm);
  const auto space = spjit::enumerate_cuda_tiles(problem, {}, limits, groupings);
  return -spjit::rank_by_prior(space.survivors(), limits).front().score;
}

/// The clock's cycles of the best of the three tiles that the formula ranks first; 0: it has none.
/// [cycles]
double clock_cycles(const spjit::Problem& problem, ReorderAlgorithm algorithm, const char* target) {
  spjit::CompileOptions options;
  options.target = spjit::Target::parse(target);
  options.policy.reorder = algorithm;
  options.policy.family = "unrolled";
  options.policy.search = spjit::SearchMode::ranked;
  options.policy.top_k = 3;
  options.policy.rank_model = "prior";
  options.policy.search_budget_ms = 1e9;
  double least = 0;
  try {
    const spjit::Kernel kernel =
        spjit::Compiler(options, {.enabled = false, .directory = {}}).compile(problem);
    const auto record = nlohmann::json::parse(kernel.artifact().record);
    for (const nlohmann::json& entry : record.at("search").at("entries")) {
      if (!entry.contains("modelled") || !entry["modelled"].contains("cycles")) continue;
      const double cycles = entry["modelled"]["cycles"].get<double>();
      if (least == 0 || cycles < least) least = cycles;
    }
  } catch (const spjit::NotSupported& error) {
    fmt::print(stderr, "{}\n", error.what());
  }
  return least;
}

void measure_ablation(benchmark::State& state, const spjit::bench::PairedBlocks& blocks,
                      ReorderAlgorithm algorithm, const std::string& name) {
  constexpr std::int64_t k_n = 1024;
  spjit::Problem problem;
  problem.a = spjit::bench::paired_blocks(blocks);
  problem.n = k_n;
  state.counters["modelled_2080ti"] = modelled_cycles(problem, algorithm, "sm_75:rtx2080ti");
  state.counters["modelled_v100"] = modelled_cycles(problem, algorithm, "sm_70:v100");
  // This function is called again for each number of iterations that is tried.
  static std::map<std::string, double> modelled;
  const auto [found, is_new] = modelled.try_emplace(name);
  if (is_new) found->second = clock_cycles(problem, algorithm, "sm_75:rtx2080ti");
  state.counters["clock_2080ti"] = found->second;
  spjit::CompileOptions options;
  options.policy.reorder = algorithm;
  options.policy.family = "unrolled";
  options.policy.hot = true;
  const spjit::Kernel kernel =
      spjit::Compiler(options, {.enabled = false, .directory = {}}).compile(problem);
  spjit::FloatBuffer b(static_cast<std::size_t>(problem.a->cols * k_n));
  spjit::FloatBuffer c(static_cast<std::size_t>(problem.a->rows * k_n));
  std::ranges::fill(b.span(), 1.0F);
  for (auto _ : state) kernel.run(b.data(), c.data());
  state.SetLabel(kernel.info().tile);
}

/// The argument is how many shards the limits are set to make.
void measure_limit(benchmark::State& state, const CsrMatrix& matrix, std::int64_t m1,
                   bool balanced) {
  const std::vector<std::int32_t> rows = rows_by_nnz(matrix);
  if (rows.empty()) {
    state.SkipWithError("the matrix has no nonzeros");
    return;
  }
  const std::int64_t shards = state.range(0);
  const auto subset = spjit::reorder::take_rows(matrix, rows);
  const std::int64_t tiles = (subset.rows() - 1) / m1 + 1;
  const std::int64_t work = balanced ? spjit::reorder::estimate_balanced_work(subset, tiles)
                                     : spjit::reorder::estimate_similarity_work(subset, m1);
  const auto group = [&](const GroupingLimits& limits) {
    return to_grouping(m1, balanced ? spjit::reorder::group_balanced(matrix, rows, m1, limits)
                                    : spjit::reorder::group_similar(matrix, rows, m1, limits));
  };
  RowGrouping grouping;
  for (auto _ : state) grouping = group({(work + shards - 1) / shards, 0});
  const auto exact = spjit::compute_statistics(matrix, group({k_unlimited, 0}));
  const auto limited = spjit::compute_statistics(matrix, grouping);
  state.counters["nnc_sum_ratio"] =
      static_cast<double>(limited.nnc_sum) / static_cast<double>(exact.nnc_sum);
  state.counters["nnc_max_ratio"] =
      static_cast<double>(limited.nnc_max) / static_cast<double>(exact.nnc_max);
  state.counters["default_shards"] = static_cast<double>(
      spjit::reorder::count_shards(work, subset.nnz(), tiles, GroupingLimits{}));
}

void register_gain(const std::vector<fs::path>& files) {
  for (const fs::path& file : files) {
    for (const std::int64_t m1 : {2, 6, 8, 14, 28}) {
      for (const ReorderAlgorithm algorithm : k_algorithms) {
        benchmark::RegisterBenchmark(
            fmt::format("gain/{}/m1:{}/{}", spjit::to_string(algorithm), m1, name_of(file)).c_str(),
            [=](benchmark::State& state) { measure_gain(state, file, m1, algorithm); })
            ->Unit(benchmark::kMillisecond);
      }
    }
  }
}

void register_cost() {
  for (const ReorderAlgorithm algorithm : k_algorithms) {
    for (const std::int64_t m1 : {2, 8, 28, 128}) {
      for (const std::int64_t nnz : {1'000, 10'000, 100'000, 500'000, 2'000'000}) {
        benchmark::RegisterBenchmark(
            fmt::format("cost/{}/m1:{}/nnz:{}", spjit::to_string(algorithm), m1, nnz).c_str(),
            [=](benchmark::State& state) { measure_cost(state, nnz, m1, algorithm); })
            ->Unit(benchmark::kMillisecond);
      }
    }
  }
}

void register_ablation() {
  for (const double ratio : {1.0, 2.0, 3.0}) {
    for (const double similarity : {0.0, 0.3, 0.6, 0.9}) {
      for (const ReorderAlgorithm algorithm : k_algorithms) {
        const spjit::bench::PairedBlocks blocks{.similarity = similarity, .nnz_ratio = ratio};
        const std::string name = fmt::format("ablation/{}/similarity:{}/ratio:{}",
                                             spjit::to_string(algorithm), similarity, ratio);
        benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
          measure_ablation(state, blocks, algorithm, name);
        })->Unit(benchmark::kMicrosecond);
      }
    }
  }
}

void register_limit(const std::string& name, const std::function<CsrMatrix()>& make_matrix) {
  for (const std::int64_t m1 : {2, 8, 28}) {
    for (const bool balanced : {true, false}) {
      benchmark::RegisterBenchmark(
          fmt::format("limit/{}/m1:{}/{}", balanced ? "balanced" : "similarity", m1, name).c_str(),
          [=](benchmark::State& state) { measure_limit(state, make_matrix(), m1, balanced); })
          ->ArgName("shards")
          ->Arg(1)
          ->Arg(2)
          ->Arg(4)
          ->Iterations(1)
          ->Unit(benchmark::kMillisecond);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<fs::path> files = list_patterns();
  if (files.empty()) {
    fmt::print(
        stderr,
        "no DLMC patterns under {}: only cost/ and ablation/ are measured; set SPJIT_TEST_DATA\n",
        data_folder().string());
  }
  register_gain(files);
  register_cost();
  register_ablation();
  for (const fs::path& file : files) {
    register_limit(name_of(file), [file] { return spjit::load_matrix(file); });
  }
  register_limit("uniform_2M", [] { return generate_of_size(2'000'000); });
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
