#pragma once

/// @file
/// The family `packed`, for GPUs: products with one to sixteen columns, and A in few bytes.

#include "kernels/cuda/launch/cuda_reading.hpp"

namespace spjit {

class PackedFamily final : public ReadingCudaFamily {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "packed"; }
  [[nodiscard]] std::string version() const override;
  [[nodiscard]] ProblemFeatures features() const noexcept override {
    return {ProblemFeature::spmm,     ProblemFeature::runtime_n,      ProblemFeature::layouts,
            ProblemFeature::epilogue, ProblemFeature::runtime_values, ProblemFeature::numerics};
  }
  /// A of fp32, bf16 or f16; the rest as by default.
  [[nodiscard]] Refusal numerics_refusal(const Numerics& numerics) const override;
  [[nodiscard]] Refusal refusal(const FamilyRequest& request) const override;
  [[nodiscard]] double bytes_of_a(const FamilyRequest& request) const override;
  [[nodiscard]] ReadingCode code(const FamilyRequest& request) const override;
  [[nodiscard]] ReadingChoice choice(const FamilyRequest& request) const override;

 protected:
  [[nodiscard]] LoadedKernel open(const CudaObject& object) const override;
};

}  // namespace spjit
