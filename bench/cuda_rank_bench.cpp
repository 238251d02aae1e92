/// @file
/// How well the prior and rank models order tiles of GPUs: against samples of `spjit collect`. Says
/// what the times are.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/json_text.hpp"
#include "bench/rank/cuda_rank.hpp"
#include "kernels/cuda/unrolled/cuda_features.hpp"
#include "kernels/tuning/sample_reader.hpp"
#include "spjit/error.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;

struct Options {
  std::vector<std::string> samples;
  std::vector<std::string> models;
};

std::vector<JudgedTiles> load(const Options& options) {
  std::vector<JudgedTiles> groups;
  for (const std::string& file : options.samples) {
    for (const CudaSampleGroup& group : read_sample_file(file, read_cuda_samples)) {
      groups.push_back(judged_samples(group));
    }
  }
  return groups;
}

void print_row(const std::string& way, const CudaRankQuality& quality) {
  fmt::print("| {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.3f} |\n", way, 100 * quality.first.mean,
             100 * quality.first.worst, 100 * quality.best_of_ten.mean,
             100 * quality.best_of_ten.worst, quality.tau);
}

void report(const Options& options) {
  const std::vector<JudgedTiles> groups = load(options);
  if (groups.empty()) throw InvalidArgument("no groups: name files of samples");
  std::set<std::string> kinds;
  std::size_t tiles = 0;
  for (const JudgedTiles& group : groups) {
    kinds.insert(group.kind);
    tiles += group.tiles.size();
  }
  if (kinds.size() > 1) {
    throw InvalidArgument(fmt::format("times are {}: expected one kind", fmt::join(kinds, ", ")));
  }
  fmt::print("{} groups, {} tiles; times are {}\n\n", groups.size(), tiles, *kinds.begin());
  fmt::print(
      "| way | first [%]: mean | worst | best of 10 [%]: mean | worst | tau |\n"
      "|---|---|---|---|---|---|\n");
  print_row(k_prior_name, evaluate_cuda(groups, score_by_cuda_prior));
  for (const std::string& file : options.models) {
    const LoadedRankModel loaded{read_rank_model(read_text_file(file, k_longest_rank_model_bytes)),
                                 file};
    check_schema(loaded.model, cuda_feature_schema().name, cuda_feature_schema().version,
                 cuda_feature_schema().names());
    print_row(ranked_by(&loaded), evaluate_cuda(groups, [&](const JudgedTiles& judged) {
                return score_by_cuda_model(judged, loaded.model);
              }));
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("How well the prior and rank models order tiles of GPUs.");
  app.add_option("SAMPLES", options.samples, "Files of samples that 'spjit collect' made.");
  app.add_option("--rank-model", options.models, "Models to judge beside the prior.");
  CLI11_PARSE(app, argc, argv);
  try {
    report(options);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "cuda_rank_bench: error: {}\n", error.what());
    return 1;
  }
}
