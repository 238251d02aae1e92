#pragma once

/// @file
/// The family `windows`: a loop over A, a vector of rows at once, that fetches the elements of a
/// few columns of B by shuffles (AVX-512 and AVX2).

#include "kernels/host/object/host_family.hpp"

namespace spjit {

class WindowsFamily final : public LayerFamily {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "windows"; }
  /// Whoever wants panels of B has more columns.
  [[nodiscard]] ProblemFeatures features() const noexcept override {
    return {ProblemFeature::spmm,     ProblemFeature::runtime_n,   ProblemFeature::layouts,
            ProblemFeature::epilogue, ProblemFeature::bias_first,  ProblemFeature::runtime_values,
            ProblemFeature::numerics, ProblemFeature::group_scales};
  }
  [[nodiscard]] Refusal refusal(const FamilyRequest& request) const override;
  [[nodiscard]] double bytes_of_a(const FamilyRequest& request) const override;
  [[nodiscard]] BuiltKernel build(const BuildRequest& request) const override;
  [[nodiscard]] LoadedKernel open(const HostObject& object,
                                  const Cancellation& cancel) const override;
};

}  // namespace spjit
