#include "kernels/cuda/unrolled/cuda_ranking.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "kernels/cuda/unrolled/cuda_features.hpp"
#include "kernels/cuda/unrolled/cuda_prior.hpp"
#include "kernels/tuning/rank_models.hpp"
#include "rankmodel/rank_model.hpp"

namespace spjit {

CudaRanking rank_cuda_tiles(std::vector<CudaCandidate> survivors, const CudaDeviceInfo& limits,
                            const LoadedRankModel* model) {
  CudaRanking ranking{rank_by_prior(std::move(survivors), limits)};
  std::vector<CudaCandidate>& tiles = ranking.tiles;
  if (model == nullptr || tiles.empty()) return ranking;
  const CudaTile first = tiles.front().tile;
  const std::vector<double> scores = model->model.scores(cuda_feature_rows(tiles, limits));
  for (std::size_t i = 0; i < tiles.size(); ++i) tiles[i].score = scores[i];
  std::ranges::stable_sort(tiles, std::greater<>(), &CudaCandidate::score);
  const auto favourite = std::ranges::find(tiles, first, &CudaCandidate::tile);
  ranking.favourite = static_cast<std::size_t>(favourite - tiles.begin());
  return ranking;
}

std::shared_ptr<const LoadedRankModel> cuda_rank_model(const CompileOptions& options) {
  return find_rank_model(options.policy.rank_model, cuda_feature_schema(), nullptr);
}

}  // namespace spjit
