#include "kernels/cuda/unrolled/training/cuda_training.hpp"

#include "kernels/cuda/unrolled/cuda_features.hpp"

namespace spjit {

std::vector<TrainingGroup> cuda_training_groups(std::span<const CudaSampleGroup> samples) {
  return training_groups(samples, cuda_feature_schema(), [](const CudaSampleGroup& group) {
    std::vector<CudaCandidate> candidates;
    candidates.reserve(group.samples.size());
    for (const CudaSample& sample : group.samples) candidates.push_back(sample.candidate);
    return cuda_feature_rows(candidates, group.limits);
  });
}

}  // namespace spjit
