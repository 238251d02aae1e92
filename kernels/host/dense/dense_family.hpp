#pragma once

/// @file
/// The family `dense`: A with its zeros, for matrices that have too few of them (AVX-512 and AVX2).

#include "kernels/host/object/host_family.hpp"

namespace spjit {

class DenseFamily final : public LayerFamily {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "dense"; }
  [[nodiscard]] ProblemFeatures features() const noexcept override {
    return {ProblemFeature::spmm,           ProblemFeature::runtime_n,   ProblemFeature::panels,
            ProblemFeature::layouts,        ProblemFeature::epilogue,    ProblemFeature::bias_first,
            ProblemFeature::runtime_values, ProblemFeature::convolution, ProblemFeature::numerics};
  }
  [[nodiscard]] Refusal refusal(const FamilyRequest& request) const override;
  [[nodiscard]] double bytes_of_a(const FamilyRequest& request) const override;
  [[nodiscard]] BuiltKernel build(const BuildRequest& request) const override;
  [[nodiscard]] LoadedKernel open(const HostObject& object,
                                  const Cancellation& cancel) const override;
};

}  // namespace spjit
