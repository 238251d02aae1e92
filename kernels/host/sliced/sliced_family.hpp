#pragma once

/// @file
/// The family `sliced`: a loop over A, sixteen rows at once, for a few columns of B (AVX-512).

#include "kernels/host/object/host_family.hpp"

namespace spjit {

class SlicedFamily final : public HostFamily {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "sliced"; }
  /// Whoever wants panels of B has more columns.
  [[nodiscard]] ProblemFeatures features() const noexcept override {
    return {ProblemFeature::spmm, ProblemFeature::layouts, ProblemFeature::epilogue,
            ProblemFeature::runtime_values};
  }
  [[nodiscard]] Refusal refusal(const FamilyRequest& request) const override;
  [[nodiscard]] double bytes_of_a(const FamilyRequest& request) const override;
  [[nodiscard]] BuiltKernel build(const BuildRequest& request) const override;
  [[nodiscard]] LoadedKernel open(const HostObject& object,
                                  const Cancellation& cancel) const override;
};

}  // namespace spjit
