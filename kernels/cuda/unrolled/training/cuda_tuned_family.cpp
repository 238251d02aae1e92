#include "kernels/cuda/unrolled/training/cuda_tuned_family.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/cuda/unrolled/cuda_features.hpp"
#include "kernels/cuda/unrolled/cuda_prior.hpp"
#include "kernels/cuda/unrolled/cuda_samples.hpp"
#include "kernels/cuda/unrolled/training/cuda_collector.hpp"
#include "kernels/cuda/unrolled/training/cuda_space.hpp"
#include "runtime/cuda/local_gpus.hpp"

namespace spjit {
namespace {

class CudaTileFolder final : public TileFolder {
 public:
  explicit CudaTileFolder(const std::filesystem::path& folder) : tiles_(folder) {}

  [[nodiscard]] SampleFile& groups() override { return tiles_.groups(); }
  [[nodiscard]] bool is_complete(const SampleLine& line) const override {
    return std::ranges::all_of(cuda_samples_of(line).samples,
                               [&](const CudaSample& sample) { return !tiles_.refusal(sample); });
  }
  [[nodiscard]] SampleLine compile(const Problem& problem, const CollectOptions& options) override {
    return to_line(compile_tiles(problem, options, tiles_));
  }
  [[nodiscard]] SampleLine time(const SampleLine& line, double budget_ms) const override {
    CudaSampleGroup group = cuda_samples_of(line);
    const int ordinal = timing_gpu_of(group.limits);
    return to_line(time_tiles(std::move(group), tiles_, ordinal, budget_ms));
  }
  [[nodiscard]] SampleLine model(const SampleLine& line) const override {
    return to_line(model_tiles(cuda_samples_of(line), tiles_));
  }

 private:
  CompiledTiles tiles_;
};

}  // namespace

const FeatureSchema& CudaTunedFamily::schema() const noexcept { return cuda_feature_schema(); }

SampledTiles CudaTunedFamily::read(const SampleLine& line) const {
  const CudaSampleGroup group = cuda_samples_of(line);
  SampledTiles tiles = tiles_of(group);
  tiles.device = group.limits.name();
  std::vector<CudaCandidate> candidates;
  candidates.reserve(group.samples.size());
  for (const CudaSample& sample : group.samples) {
    candidates.push_back(sample.candidate);
    tiles.prior.push_back(-estimate_cuda_cycles(sample.candidate, group.limits));
  }
  tiles.features = cuda_feature_rows(candidates, group.limits);
  return tiles;
}

SampleRecipe CudaTunedFamily::draw(std::uint64_t seed, std::int64_t i) const {
  return draw_cuda_recipe(seed, i);
}

std::string CudaTunedFamily::device_name(const CompileOptions& options) const {
  return cuda_device_info_of(options.target).name();
}

std::unique_ptr<TileFolder> CudaTunedFamily::open(const std::filesystem::path& folder) const {
  return std::make_unique<CudaTileFolder>(folder);
}

std::shared_ptr<TunableSpace> CudaTunedFamily::space(const FamilyRequest& request,
                                                     const SpaceOptions& options) const {
  return make_cuda_space(request, options);
}

}  // namespace spjit
