#pragma once

/// @file
/// The family `unrolled` for GPUs: A's positions are instructions.

#include "kernels/cuda/cuda_family.hpp"
#include "kernels/cuda/unrolled/cuda_choice.hpp"

namespace spjit {

class UnrolledCudaFamily final : public CudaFamily {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "unrolled"; }
  [[nodiscard]] std::string version() const override;
  [[nodiscard]] ProblemFeatures features() const noexcept override {
    return {ProblemFeature::spmm,     ProblemFeature::runtime_n,      ProblemFeature::layouts,
            ProblemFeature::epilogue, ProblemFeature::runtime_values, ProblemFeature::convolution};
  }
  /// More code than the budget, columns or distances than a launch takes, and convolutions that
  /// convolution_refusal() is of.
  [[nodiscard]] Refusal refusal(const FamilyRequest& request) const override;
  /// A tile of its own, and how it is compiled.
  [[nodiscard]] std::span<const NamedOption* const> options() const noexcept override;
  [[nodiscard]] std::shared_ptr<const LoadedRankModel> rank_model(
      const CompileOptions& options) const override;
  [[nodiscard]] BuiltKernel build(const BuildRequest& request) const override;
  /// Chooses and compiles nothing: sizes are estimates, and no library is needed.
  [[nodiscard]] BuiltKernel explain(const BuildRequest& request) const override;

 protected:
  [[nodiscard]] LoadedKernel open(const CudaObject& object) const override;

 private:
  /// Throws Declined.
  [[nodiscard]] BuiltKernel build_code(const BuildRequest& request) const;
  [[nodiscard]] static BuiltKernel explain_choice(const CudaChoice& choice,
                                                  const FamilyRequest& what);
};

}  // namespace spjit
