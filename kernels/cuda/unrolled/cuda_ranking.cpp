#include "kernels/cuda/unrolled/cuda_ranking.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <string_view>
#include <utility>

#include "kernels/cuda/unrolled/cuda_features.hpp"
#include "kernels/cuda/unrolled/cuda_prior.hpp"
#include "kernels/tuning/rank_models.hpp"
#include "rankmodel/rank_model.hpp"

namespace spjit {

namespace {

/// About the problem of this row, any tile of which has the same numbers here.
bool can_decide(const RankModel& model, std::span<const float> row) {
  static constexpr std::array<std::string_view, 6> k_of_problem = {
      "sparsity", "cols", "rows", "nnz", "n", "row_nnz_cv"};
  return label_of(model).empty() && model.provenance.contains("ranges") &&
         has_seen(model, row, k_of_problem);
}

}  // namespace

CudaRanking rank_cuda_tiles(std::vector<CudaCandidate> survivors, const CudaDeviceInfo& limits,
                            const LoadedRankModel* model, const RankedProblem& of) {
  CudaRanking ranking{rank_by_prior(std::move(survivors), limits)};
  std::vector<CudaCandidate>& tiles = ranking.tiles;
  if (model == nullptr || tiles.empty()) return ranking;
  const std::vector<float> rows = cuda_feature_rows(tiles, limits);
  ranking.is_decided_by_model =
      of.is_plain && can_decide(model->model, std::span(rows).first(model->model.features.size()));
  if (!of.is_searched && !ranking.is_decided_by_model) return ranking;
  ranking.model = model;
  const CudaTile first = tiles.front().tile;
  const std::vector<double> scores = model->model.scores(rows);
  for (std::size_t i = 0; i < tiles.size(); ++i) tiles[i].score = scores[i];
  std::ranges::stable_sort(tiles, std::greater<>(), &CudaCandidate::score);
  if (ranking.is_decided_by_model) return ranking;
  const auto favourite = std::ranges::find(tiles, first, &CudaCandidate::tile);
  ranking.favourite = static_cast<std::size_t>(favourite - tiles.begin());
  return ranking;
}

bool is_plain_product(const Problem& problem) {
  return problem.numerics.is_default() && !problem.n.runtime && !problem.runtime_values &&
         !problem.convolution && problem.b.layout == Layout::row_major &&
         problem.c.layout == Layout::row_major;
}

std::shared_ptr<const LoadedRankModel> cuda_rank_model(const CompileOptions& options) {
  static const std::shared_ptr<const LoadedRankModel> sm_90 =
      load_shipped_model("cuda-sm_90", cuda_feature_schema());
  constexpr int k_hopper = 90;
  return find_rank_model(options.policy.rank_model, cuda_feature_schema(),
                         options.target.arch() == k_hopper ? sm_90 : nullptr);
}

}  // namespace spjit
