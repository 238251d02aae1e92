#pragma once

/// @file
/// The family `byte_windows`: exact sums of products of bytes. It fetches the bytes of B by
/// shuffles, for a vector of rows of A at once (AVX-512 and AVX2).

#include "kernels/host/object/host_family.hpp"

namespace spjit {

/// Exact sums of products of bytes. The artifact is A.
class ExactBytesFamily : public HostFamily {
 public:
  /// It has A of i8 and i4, B of i8 and u8 or quantised to them, any C, and the promise `integer`.
  [[nodiscard]] Refusal numerics_refusal(const Numerics& numerics) const override;
  [[nodiscard]] BuiltKernel build(const BuildRequest& request) const override;

 protected:
  /// Whether kernels take its columns of A, and its epilogue.
  [[nodiscard]] static Refusal problem_refusal(const Problem& problem);
  /// A kernel of this family. `prefers_masks`: where this CPU has their instructions. Throws as
  /// HostFamily::open().
  [[nodiscard]] LoadedKernel open_bytes(const HostObject& object, bool prefers_masks,
                                        const Cancellation& cancel) const;

 private:
  [[nodiscard]] virtual const char* reason() const noexcept = 0;
};

/// Which instructions a kernel takes beyond its target is found out where it is
/// loaded: with the target avx512 those of VBMI and VNNI, where the CPU has both.
class ByteWindowsFamily final : public ExactBytesFamily {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "byte_windows"; }
  [[nodiscard]] ProblemFeatures features() const noexcept override {
    return {ProblemFeature::spmm,        ProblemFeature::runtime_n,  ProblemFeature::layouts,
            ProblemFeature::epilogue,    ProblemFeature::bias_first, ProblemFeature::runtime_values,
            ProblemFeature::convolution, ProblemFeature::numerics,   ProblemFeature::group_scales};
  }
  [[nodiscard]] Refusal refusal(const FamilyRequest& request) const override;
  [[nodiscard]] LoadedKernel open(const HostObject& object,
                                  const Cancellation& cancel) const override;

 private:
  [[nodiscard]] const char* reason() const noexcept override {
    return "heuristic: bytes of B are fetched by shuffles, four for a row of A at a time";
  }
};

}  // namespace spjit
