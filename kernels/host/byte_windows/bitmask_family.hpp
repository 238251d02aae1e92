#pragma once

/// @file
/// The family `bitmask`: exact sums of products of bytes, for so few columns of B that a run waits
/// for A. It has a bit for each column of A, and values alone (AVX-512).

#include "kernels/host/byte_windows/byte_windows_family.hpp"

namespace spjit {

/// Where the CPU that loads it lacks VBMI2 or VNNI, a kernel is as one of `byte_windows`.
class BitmaskFamily final : public ExactBytesFamily {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "bitmask"; }
  [[nodiscard]] ProblemFeatures features() const noexcept override {
    return {ProblemFeature::spmm,        ProblemFeature::runtime_n,  ProblemFeature::layouts,
            ProblemFeature::epilogue,    ProblemFeature::bias_first, ProblemFeature::numerics,
            ProblemFeature::group_scales};
  }
  [[nodiscard]] Refusal refusal(const FamilyRequest& request) const override;
  [[nodiscard]] LoadedKernel open(const HostObject& object,
                                  const Cancellation& cancel) const override;

 private:
  [[nodiscard]] const char* reason() const noexcept override {
    return "heuristic: A comes from memory, of which a bit a column and values take the least";
  }
};

}  // namespace spjit
