#pragma once

/// @file
/// The family `unrolled` for GPUs as a family that is tuned by samples.

#include "kernels/tuning/training/tuned_family.hpp"

namespace spjit {

class CudaTunedFamily final : public TunedFamily {
 public:
  [[nodiscard]] const FeatureSchema& schema() const noexcept override;
  [[nodiscard]] SampledTiles read(const SampleLine& line) const override;
  [[nodiscard]] SampleRecipe draw(std::uint64_t seed, std::int64_t i) const override;
  [[nodiscard]] std::string device_name(const CompileOptions& options) const override;
  [[nodiscard]] std::unique_ptr<TileFolder> open(
      const std::filesystem::path& folder) const override;
  /// Reductions are "blocks", "iterations" and "occupancy" (CudaReductions).
  [[nodiscard]] std::shared_ptr<TunableSpace> space(const FamilyRequest& request,
                                                    const SpaceOptions& options) const override;
};

}  // namespace spjit
