#pragma once

/// @file
/// Times launches of kernels and proxies on one GPU.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/tuning.hpp"
#include "kernels/unrolled_cuda/cuda_proxy.hpp"
#include "runtime/cuda/cuda_context.hpp"
#include "runtime/cuda/cuda_memory.hpp"
#include "runtime/cuda/cuda_module.hpp"
#include "runtime/cuda/cuda_stream.hpp"
#include "spjit/arguments.hpp"
#include "spjit/problem.hpp"

namespace spjit {

/// One B, or the image that it is patches of, and one C on a device, and the stream and events that
/// launches on them are timed with. Kernels have CudaParameters; what an epilogue reads is zero,
/// A's values at run time are multiples of 1/8 in [-1, 1]. A proxy reads and writes no more rows
/// than the kernel it stands for, so the problem is that kernel's. Move-only; one thread at a time.
/// All that the driver refuses is a DeviceError, also a kernel that faults: the device's context is
/// of no use afterwards.
class CudaTimer {
 public:
  /// On device `ordinal` of local_cuda_driver(). Allocates and fills B with multiples of 1/8 in
  /// [-1, 1] and C with zeros. Throws InvalidArgument for a problem without rows or columns of C or
  /// with a leading dimension below what a row or token of C or a row of B has, for B or C of 2^63
  /// bytes or more, and for an ordinal that is not there; DeviceError.
  CudaTimer(int ordinal, const Problem& problem);
  /// The same on a given device.
  CudaTimer(const CudaContext& context, const Problem& problem);

  [[nodiscard]] const CudaContext& context() const noexcept { return stream_.context(); }

  /// The kernel k_cuda_kernel_name of a cubin (or PTX, where the driver takes it), with its code on
  /// the device already. The image is not needed afterwards. Throws DeviceError.
  [[nodiscard]] CudaFunction load(std::span<const std::byte> image) const;

  /// Mean microseconds a launch over `calls` launches one right after the other, between two events
  /// of the device (their resolution is about 0.5 us). The first launch is not warmed up. Throws
  /// InvalidArgument for calls < 1; DeviceError.
  [[nodiscard]] double time_us(const CudaFunction& function, const CudaProxyLaunch& launch,
                               std::int64_t calls);

 private:
  std::int64_t n_;
  std::int64_t ldb_;
  std::int64_t ldc_;
  DeviceBuffer b_;
  DeviceBuffer c_;
  DeviceBuffer epilogue_;  ///< scale, bias and residual all at once
  PreparedValues values_;  ///< of A at run time, as many as any tile needs
  CudaStream stream_;
  CudaEvent begin_;
  CudaEvent end_;
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
