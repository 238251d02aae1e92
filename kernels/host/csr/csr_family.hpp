#pragma once

/// @file
/// The family `csr`: a loop that reads A. It takes every size, and over where unrolled code would
/// be too big or has no emitter.

#include "kernels/host/object/host_family.hpp"

namespace spjit {

class CsrFamily final : public LayerFamily {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "csr"; }
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
