#pragma once

/// @file
/// The family `reference`: slow, on the host, and takes every problem. A new operation, layout or
/// type of data starts here.
///
/// Sums are made as `spjit/numerics.hpp` says: `ordered` in fp32, `bounded` and `integer` in
/// float64, which holds the sums of `integer` exactly. A quantised B becomes bytes number by number
/// each time that it is read. C of bf16 and f16 is rounded to nearest
/// even; integers are, too, they saturate, and NaN becomes 0.

#include <cstdint>
#include <string>

#include "kernels/host/object/host_family.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// How `a * b + c` is rounded.
enum class Arithmetic : std::uint8_t {
  fused,     ///< once: avx512, avx2
  separate,  ///< the product, then the sum: generic
};

[[nodiscard]] Arithmetic arithmetic_of(HostIsa isa) noexcept;

/// c[j] += value * b[j] for j < n, rounded as a kernel rounds it.
using AddScaledRow = void (*)(float value, const float* b, float* c, std::int64_t n);
[[nodiscard]] AddScaledRow add_scaled_row_of(Arithmetic arithmetic) noexcept;

class ReferenceFamily final : public HostFamily {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "reference"; }
  [[nodiscard]] ProblemFeatures features() const noexcept override {
    return {ProblemFeature::spmm,           ProblemFeature::runtime_n,   ProblemFeature::panels,
            ProblemFeature::layouts,        ProblemFeature::epilogue,    ProblemFeature::bias_first,
            ProblemFeature::runtime_values, ProblemFeature::convolution, ProblemFeature::numerics,
            ProblemFeature::group_scales};
  }
  /// It has all types, and all promises but `tensor`.
  [[nodiscard]] Refusal numerics_refusal(const Numerics& numerics) const override;
  [[nodiscard]] bool races() const noexcept override { return false; }
  [[nodiscard]] BuiltKernel build(const BuildRequest& request) const override;
  [[nodiscard]] LoadedKernel open(const HostObject& object,
                                  const Cancellation& cancel) const override;
};

}  // namespace spjit
