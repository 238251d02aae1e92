#pragma once

/// @file
/// The family `unrolled` for CPUs as a family that is tuned by samples.

#include "kernels/tuning/training/tuned_family.hpp"

namespace spjit {

class HostTunedFamily final : public TunedFamily {
 public:
  [[nodiscard]] const FeatureSchema& schema() const noexcept override;
  [[nodiscard]] SampledTiles read(const SampleLine& line) const override;
};

}  // namespace spjit
