#pragma once

/// @file
/// Operands of GPU kernels that are timed, and the clock.

#include <cstdint>
#include <functional>
#include <span>

#include "runtime/cuda/cuda_context.hpp"
#include "runtime/cuda/cuda_memory.hpp"
#include "runtime/cuda/cuda_stream.hpp"
#include "spjit/arguments.hpp"
#include "spjit/problem.hpp"

namespace spjit {

/// Fills a buffer with multiples of 1/8 in [-1, 1]. Throws DeviceError.
void fill_with_small_values(DeviceBuffer& buffer);

/// One B, or the image that it is patches of, one C and what an epilogue reads on a device, and the
/// stream and events that launches on them are timed with. B has multiples of 1/8 in [-1, 1], what
/// an epilogue reads is zero. Move-only; one thread at a time. All that the driver refuses is a
/// DeviceError, also a kernel that faults: the device's context is of no use afterwards.
class CudaTimingOperands {
 public:
  /// Allocates and fills. Throws DeviceError. Throws InvalidArgument for a problem without rows or
  /// columns of C, for a leading dimension below what a row or token has, and for B or C of 2^63
  /// bytes or more.
  CudaTimingOperands(const CudaContext& context, const Problem& problem);

  [[nodiscard]] const CudaContext& context() const noexcept { return stream_.context(); }

  /// All that a launch of the problem takes, in the stream of this, but for values of A.
  [[nodiscard]] const Arguments& arguments() const noexcept { return arguments_; }

  /// Mean microseconds of a call over `calls` calls of `launch` one right after the other, between
  /// two events of the device (their resolution is about 0.5 us). The first one is not warmed up.
  /// Throws InvalidArgument for calls < 1; DeviceError, what `launch` throws.
  [[nodiscard]] double time_us(std::int64_t calls, const std::function<void()>& launch);

 private:
  DeviceBuffer b_;
  DeviceBuffer c_;
  DeviceBuffer epilogue_;  ///< scale, bias and residual all at once
  CudaStream stream_;
  CudaEvent begin_;
  CudaEvent end_;
  Arguments arguments_;
};

}  // namespace spjit
