#pragma once

/// @file
/// The family `unrolled` for CPUs as a family that is tuned by samples.

#include "kernels/tuning/training/tuned_family.hpp"

namespace spjit {

class HostTunedFamily final : public TunedFamily, public TileTimer {
 public:
  [[nodiscard]] const FeatureSchema& schema() const noexcept override;
  [[nodiscard]] SampledTiles read(const SampleLine& line) const override;
  [[nodiscard]] SampleRecipe draw(std::uint64_t seed, std::int64_t i) const override;
  [[nodiscard]] std::string device_name(const CompileOptions& options) const override;
  [[nodiscard]] const TileTimer* timer() const noexcept override { return this; }

  [[nodiscard]] Refusal refusal(const Target& target) const override;
  [[nodiscard]] SampleLine time(const Problem& problem, const CollectOptions& options,
                                const std::shared_ptr<ThreadPool>& pool,
                                const TimeTiles& time_tiles) const override;
};

}  // namespace spjit
