#pragma once

/// @file
/// The family `compact`: a loop over A as data, eight rows at once, for every n (AVX-512
/// and AVX2).

#include "kernels/host/object/host_family.hpp"

namespace spjit {

class CompactFamily final : public LayerFamily {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "compact"; }
  [[nodiscard]] ProblemFeatures features() const noexcept override {
    return {ProblemFeature::spmm,           ProblemFeature::runtime_n,   ProblemFeature::panels,
            ProblemFeature::layouts,        ProblemFeature::epilogue,    ProblemFeature::bias_first,
            ProblemFeature::runtime_values, ProblemFeature::convolution, ProblemFeature::numerics,
            ProblemFeature::group_scales};
  }
  [[nodiscard]] Refusal refusal(const FamilyRequest& request) const override;
  [[nodiscard]] BuiltKernel build(const BuildRequest& request) const override;
  [[nodiscard]] LoadedKernel open(const HostObject& object,
                                  const Cancellation& cancel) const override;
};

}  // namespace spjit
