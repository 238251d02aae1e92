#pragma once

/// @file
/// The family `unrolled`: A's positions are instructions.

#include "kernels/host/object/host_family.hpp"

namespace spjit {

class UnrolledHostFamily final : public LayerFamily {
 public:
  [[nodiscard]] std::string_view name() const noexcept override;
  [[nodiscard]] ProblemFeatures features() const noexcept override {
    return {ProblemFeature::spmm,           ProblemFeature::runtime_n,   ProblemFeature::panels,
            ProblemFeature::layouts,        ProblemFeature::epilogue,    ProblemFeature::bias_first,
            ProblemFeature::runtime_values, ProblemFeature::convolution, ProblemFeature::numerics};
  }
  [[nodiscard]] Refusal refusal(const FamilyRequest& request) const override;
  [[nodiscard]] std::shared_ptr<const LoadedRankModel> rank_model(
      const CompileOptions& options) const override;
  [[nodiscard]] BuiltKernel build(const BuildRequest& request) const override;
  /// Builds: the code is what takes least. Without a search the candidates have real groupings, not
  /// estimated ones.
  [[nodiscard]] std::string listing(const Artifact& artifact) const override;
  [[nodiscard]] BuiltKernel explain(const BuildRequest& request) const override;
  [[nodiscard]] LoadedKernel open(const HostObject& object,
                                  const Cancellation& cancel) const override;

 private:
  struct BuiltWithSpace;
  [[nodiscard]] BuiltWithSpace build_with_space(const BuildRequest& request) const;
  /// Where values are those of a run, of a problem whose A has their positions.
  [[nodiscard]] BuiltWithSpace build_code(const BuildRequest& request) const;
};

}  // namespace spjit
