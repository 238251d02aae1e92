#pragma once

/// @file
/// The family `reference`: slow, on the host, and takes every problem. A new operation, layout or
/// type of data starts here.

#include "kernels/host_family.hpp"

namespace spjit {

class ReferenceFamily final : public HostFamily {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "reference"; }
  [[nodiscard]] ProblemFeatures features() const noexcept override {
    return {ProblemFeature::runtime_n, ProblemFeature::panels};
  }
  [[nodiscard]] BuiltKernel build(const BuildRequest& request) const override;
  [[nodiscard]] LoadedKernel open(const HostObject& object,
                                  const Cancellation& cancel) const override;
};

}  // namespace spjit
