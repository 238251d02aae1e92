#include "kernels/cuda/unrolled/training/cuda_tuned_family.hpp"

#include <vector>

#include "kernels/cuda/unrolled/cuda_features.hpp"
#include "kernels/cuda/unrolled/cuda_prior.hpp"
#include "kernels/cuda/unrolled/cuda_samples.hpp"

namespace spjit {

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

}  // namespace spjit
