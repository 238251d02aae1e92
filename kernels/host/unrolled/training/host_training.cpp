#include "kernels/host/unrolled/training/host_training.hpp"

#include "kernels/host/unrolled/host_features.hpp"

namespace spjit {

std::vector<TrainingGroup> host_training_groups(std::span<const HostSampleGroup> samples) {
  return training_groups(samples, host_feature_schema(), [](const HostSampleGroup& group) {
    std::vector<float> rows;
    for (const HostSample& sample : group.samples) {
      const std::vector<float> row = host_feature_row(sample.candidate, group.work, group.limits);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    return rows;
  });
}

TrainingOptions host_training_options(const std::string& name) {
  return training_options(name, host_feature_schema());
}

}  // namespace spjit
