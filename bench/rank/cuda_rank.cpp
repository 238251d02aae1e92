#include "bench/rank/cuda_rank.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "bench/rank_agreement.hpp"
#include "kernels/cuda/unrolled/cuda_features.hpp"
#include "kernels/cuda/unrolled/cuda_prior.hpp"
#include "kernels/cuda/unrolled/cuda_tile_space.hpp"
#include "plan/problem.hpp"
#include "reorder/row_groupings.hpp"
#include "spjit/error.hpp"
#include "spjit/matrix_io.hpp"

namespace spjit::bench {
namespace {

constexpr std::size_t k_ten = 10;
/// Kendall's tau takes no infinite times: later than all others.
constexpr double k_never = 1e30;

Problem load_problem(const std::filesystem::path& file, std::int64_t n) {
  Problem problem;
  problem.a = load_matrix(file);
  problem.n = n;
  return checked_problem(problem);
}

}  // namespace

JudgedTiles judged_samples(const CudaSampleGroup& group) {
  if (group.times == TimeKind::none) throw Error(group.name + ": tiles without times");
  JudgedTiles judged{group.name, std::string(to_string(group.times)), group.limits, {}, {}};
  for (const CudaSample& sample : group.samples) {
    judged.tiles.push_back(sample.candidate);
    judged.times.push_back(sample.us > 0 ? sample.us : std::numeric_limits<double>::infinity());
  }
  return judged;
}

JudgedTiles judged_simulation(const nlohmann::json& document, const std::filesystem::path& matrices,
                              const CudaDeviceInfo& limits) {
  try {
    if (document.at("kind") != "simulated") throw Error("kind is not \"simulated\"");
    const auto matrix = document.at("matrix").get<std::string>();
    const auto n = document.at("n").get<std::int64_t>();
    JudgedTiles judged{
        fmt::format("{} n{} {}", matrix, n, limits.name()), "simulated", limits, {}, {}};
    const Problem problem = load_problem(matrices / matrix, n);
    const SearchPolicy policy;
    // Which grouping `automatic` takes is for the formula to say, which is judged here.
    std::vector<CudaCandidate> left;
    for (const ReorderAlgorithm algorithm :
         {ReorderAlgorithm::similarity, ReorderAlgorithm::balanced}) {
      RowGroupings groupings(*problem.a, algorithm);
      const auto more = enumerate_cuda_tiles(problem, policy, limits, groupings).survivors();
      left.insert(left.end(), more.begin(), more.end());
    }
    for (const nlohmann::json& record : document.at("tiles")) {
      const auto tile = record.at("tile").get<std::string>();
      const auto found = std::ranges::find_if(
          left, [&](const CudaCandidate& candidate) { return to_string(candidate.tile) == tile; });
      if (found == left.end()) {
        throw Error(fmt::format("{}: tile {} is none that the rules leave", judged.name, tile));
      }
      judged.tiles.push_back(*found);
      judged.times.push_back(record.at("cycles").get<double>());
    }
    return judged;
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("no file of simulated cycles: {}", error.what()));
  }
}

std::vector<double> score_by_cuda_prior(const JudgedTiles& judged) {
  std::vector<double> scores;
  scores.reserve(judged.tiles.size());
  for (const CudaCandidate& tile : judged.tiles) {
    scores.push_back(-estimate_cuda_cycles(tile, judged.limits));
  }
  return scores;
}

std::vector<double> score_by_cuda_model(const JudgedTiles& judged, const RankModel& model) {
  return model.scores(cuda_feature_rows(judged.tiles, judged.limits));
}

CudaRankQuality evaluate_cuda(std::span<const JudgedTiles> groups, const ScoreCudaTiles& score) {
  std::vector<double> first;
  std::vector<double> best_of_ten;
  CudaRankQuality quality;
  for (const JudgedTiles& group : groups) {
    const std::vector<double> scores = score(group);
    first.push_back(regret_of_top(1, scores, group.times));
    best_of_ten.push_back(regret_of_top(k_ten, scores, group.times));
    std::vector<double> speeds;
    speeds.reserve(group.times.size());
    for (const double time : group.times) speeds.push_back(-std::min(time, k_never));
    quality.tau += kendall_tau(scores, speeds) / static_cast<double>(groups.size());
  }
  quality.first = percentiles(first);
  quality.best_of_ten = percentiles(best_of_ten);
  return quality;
}

}  // namespace spjit::bench
