#pragma once

/// @file
/// Times launches of kernels and proxies on one GPU.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/tuning.hpp"
#include "kernels/cuda/launch/cuda_timing.hpp"
#include "kernels/cuda/unrolled/cuda_proxy.hpp"
#include "runtime/cuda/cuda_context.hpp"
#include "runtime/cuda/cuda_module.hpp"
#include "spjit/arguments.hpp"
#include "spjit/problem.hpp"

namespace spjit {

/// CudaTimingOperands for kernels and proxies that are not loaded otherwise; A's values at run time
/// are multiples of 1/8 in [-1, 1]. A proxy reads and writes no more rows than the kernel it stands
/// for, so the problem is that kernel's.
class CudaTimer {
 public:
  /// On device `ordinal` of local_cuda_driver(). Throws as CudaTimingOperands, and InvalidArgument
  /// for an ordinal that is not there.
  CudaTimer(int ordinal, const Problem& problem);
  /// Times on a given device.
  CudaTimer(const CudaContext& context, const Problem& problem);

  [[nodiscard]] const CudaContext& context() const noexcept { return operands_.context(); }

  /// The kernel k_cuda_kernel_name of a cubin (or PTX, where the driver takes it), with its code on
  /// the device already. The image is not needed afterwards. Throws DeviceError.
  [[nodiscard]] CudaFunction load(std::span<const std::byte> image) const;

  /// CudaTimingOperands::time_us() of such launches.
  [[nodiscard]] double time_us(const CudaFunction& function, const CudaProxyLaunch& launch,
                               std::int64_t calls);

 private:
  CudaTimingOperands operands_;
  Arguments arguments_;
  PreparedValues values_;  ///< of A at run time, as many as any tile needs
};

/// Code to be timed, and how it is launched.
struct CudaTuningCandidate {
  std::string name;
  std::span<const std::byte> image;  ///< several may share one: it is loaded once
  CudaProxyLaunch launch;
};

/// Loads every image and times the candidates against each other on the timer's device. One that
/// cannot be loaded has failed; after a kernel that faults the device is of no use and all that
/// follow fail too.
[[nodiscard]] std::vector<TuningResult> time_cuda_kernels(
    std::span<const CudaTuningCandidate> candidates, const TuningOptions& options,
    CudaTimer& timer);

}  // namespace spjit
