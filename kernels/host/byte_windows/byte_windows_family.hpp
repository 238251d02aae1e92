#pragma once

/// @file
/// The family `byte_windows`: exact sums of products of bytes. It fetches the bytes of B by
/// shuffles, for a vector of rows of A at once (AVX-512 and AVX2).

#include "kernels/host/object/host_family.hpp"

namespace spjit {

/// Its artifact is A. Which instructions a kernel takes beyond its target is found out where it is
/// loaded: with the target avx512 those of VBMI and VNNI, where the CPU has both.
class ByteWindowsFamily final : public HostFamily {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "byte_windows"; }
  [[nodiscard]] ProblemFeatures features() const noexcept override {
    return {ProblemFeature::spmm,     ProblemFeature::runtime_n,      ProblemFeature::layouts,
            ProblemFeature::epilogue, ProblemFeature::runtime_values, ProblemFeature::convolution,
            ProblemFeature::numerics, ProblemFeature::group_scales};
  }
  /// It has A of i8 and i4, B of i8 and u8 or quantised to them, any C, and the promise `integer`.
  [[nodiscard]] Refusal numerics_refusal(const Numerics& numerics) const override;
  [[nodiscard]] Refusal refusal(const FamilyRequest& request) const override;
  [[nodiscard]] BuiltKernel build(const BuildRequest& request) const override;
  [[nodiscard]] LoadedKernel open(const HostObject& object,
                                  const Cancellation& cancel) const override;
};

}  // namespace spjit
