#pragma once

/// @file
/// A way to compute: what a family of kernels answers to the pipeline.

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/cancel.hpp"
#include "kernels/executable.hpp"
#include "plan/problem.hpp"
#include "runtime/device.hpp"
#include "spjit/kernel.hpp"
#include "spjit/options.hpp"

namespace spjit {

/// What is to be compiled. Refers to all of it.
struct FamilyRequest {
  const Problem& problem;  ///< checked
  const CompileOptions& options;
  const DeviceInfo& device;
  const Cancellation& cancel;
};

/// A loaded artifact.
struct LoadedKernel {
  /// What the artifact and its record say: all but key, from_cache and what follows it.
  KernelInfo info;
  /// Null for a kernel of a GPU that was not to be loaded into one.
  std::shared_ptr<const Executable> executable;
};

/// Each family is a folder of kernels/ and one line in kernels/families.cpp. How it chooses and builds
/// is declared beside it and known to compiler/pipeline, which has the search.
class KernelFamily {
 public:
  KernelFamily() = default;
  KernelFamily(const KernelFamily&) = delete;
  KernelFamily& operator=(const KernelFamily&) = delete;
  virtual ~KernelFamily() = default;

  /// "csr": in KernelInfo::family and records; at most 16 of a-z and _.
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// Whether its kernels run on GPUs; else on the host.
  [[nodiscard]] virtual bool is_cuda() const noexcept = 0;
  /// Versions of what it emits and writes, for the cache key.
  [[nodiscard]] virtual std::string version() const = 0;
  /// Which features of a problem it knows.
  [[nodiscard]] virtual ProblemFeatures features() const noexcept = 0;

  /// Why it takes no such problem for that device, in one line; empty: it accepts. It is not asked
  /// about other devices and about problems with features it does not know (why_not()).
  [[nodiscard]] virtual std::string refusal(const FamilyRequest& request) const = 0;

  /// The kernel of an artifact that it built, for a host device or, if the device is a GPU, in it.
  /// `record` is the artifact's. Throws Error if it is damaged, NotSupported if the device cannot
  /// run it, DeviceError, what `cancel` throws.
  [[nodiscard]] virtual LoadedKernel load(const Artifact& artifact, const nlohmann::json& record,
                                          const Device& device,
                                          const Cancellation& cancel) const = 0;
};

/// Why a family takes no such problem; empty: it accepts.
[[nodiscard]] std::string why_not(const KernelFamily& family, const FamilyRequest& request);

}  // namespace spjit
