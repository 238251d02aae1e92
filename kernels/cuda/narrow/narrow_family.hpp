#pragma once

/// @file
/// The family `narrow`, for GPUs: products with one to sixteen columns.

#include "kernels/cuda/launch/cuda_reading.hpp"

namespace spjit {

class NarrowFamily final : public ReadingCudaFamily {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "narrow"; }
  [[nodiscard]] std::string version() const override;
  [[nodiscard]] ProblemFeatures features() const noexcept override {
    return {ProblemFeature::spmm, ProblemFeature::runtime_n, ProblemFeature::layouts,
            ProblemFeature::epilogue, ProblemFeature::runtime_values};
  }
  [[nodiscard]] Refusal refusal(const FamilyRequest& request) const override;
  [[nodiscard]] ReadingCode code(const FamilyRequest& request) const override;
  [[nodiscard]] ReadingChoice choice(const FamilyRequest& request) const override;

 protected:
  [[nodiscard]] LoadedKernel open(const CudaObject& object) const override;
};

}  // namespace spjit
