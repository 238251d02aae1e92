#pragma once

/// @file
/// The family `csr` for GPUs: a loop over the entries of each row. It takes every size and every
/// pattern with one code, and over where unrolled code would be too big.

#include "kernels/cuda/launch/cuda_reading.hpp"

namespace spjit {

class CsrCudaFamily final : public ReadingCudaFamily {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "csr"; }
  [[nodiscard]] std::string version() const override;
  [[nodiscard]] ProblemFeatures features() const noexcept override {
    return {ProblemFeature::spmm,     ProblemFeature::runtime_n,      ProblemFeature::layouts,
            ProblemFeature::epilogue, ProblemFeature::runtime_values, ProblemFeature::convolution};
  }
  [[nodiscard]] Refusal refusal(const FamilyRequest& request) const override;
  [[nodiscard]] ReadingCode code(const FamilyRequest& request) const override;
  [[nodiscard]] ReadingChoice choice(const FamilyRequest& request) const override;

 protected:
  [[nodiscard]] LoadedKernel open(const CudaObject& object) const override;
};

}  // namespace spjit
