#pragma once

/// @file
/// The family `cuda`: A's positions are instructions of a GPU.

#include "kernels/kernel_family.hpp"

namespace spjit {

/// The files of its artifacts. The texts are compressed by gzip.
inline constexpr const char* k_cubin_file = "kernel.cubin";
inline constexpr const char* k_cuda_file = "kernel.cu.gz";
inline constexpr const char* k_ptx_file = "kernel.ptx.gz";
/// Of values at run time: value_positions(), 32-bit little-endian.
inline constexpr const char* k_positions_file = "kernel.positions";

class UnrolledCudaFamily final : public KernelFamily {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "cuda"; }
  [[nodiscard]] bool is_cuda() const noexcept override { return true; }
  [[nodiscard]] std::string version() const override;
  [[nodiscard]] ProblemFeatures features() const noexcept override {
    return {ProblemFeature::runtime_n, ProblemFeature::layouts, ProblemFeature::epilogue,
            ProblemFeature::runtime_values, ProblemFeature::convolution};
  }
  /// Convolutions of images whose size a run says, or that convolution_refusal() is of.
  [[nodiscard]] std::string refusal(const FamilyRequest& request) const override;
  [[nodiscard]] std::string timed_on(const FamilyRequest& request) const override;
  [[nodiscard]] BuiltKernel build(const BuildRequest& request) const override;
  /// Chooses and compiles nothing: sizes are estimates, and no library is needed.
  [[nodiscard]] BuiltKernel explain(const BuildRequest& request) const override;
  /// PTX for the cubin.
  [[nodiscard]] bool takes_in_place(const Artifact::File& file) const override;
  [[nodiscard]] LoadedKernel load(const Artifact& artifact, const nlohmann::json& record,
                                  const Device& device, const Cancellation& cancel) const override;
};

}  // namespace spjit
