#pragma once

/// @file
/// The parameters of every CUDA kernel, in their order, and the values of A among them.

#include <cstdint>
#include <utility>

#include "runtime/cuda/cuda_memory.hpp"
#include "spjit/arguments.hpp"

namespace spjit {

/// A's values at run time (value_stream.hpp) in a GPU's memory.
class CudaValues final : public PreparedValues::Stream {
 public:
  CudaValues(std::uint64_t kernel_id, DeviceBuffer floats)
      : Stream(kernel_id), floats_(std::move(floats)) {}

  /// On the device, a multiple of 256 bytes; null where there are none.
  [[nodiscard]] const float* data() const noexcept {
    return static_cast<const float*>(floats_.pointer());
  }

 private:
  DeviceBuffer floats_;
};

/// `(const float* b, float* c, const float* scale, const float* bias, const float* residual,
/// unsigned n, unsigned ldb, unsigned ldc, unsigned ldr, long long b_distance, long long
/// c_distance, long long residual_distance, const float4* values)`, sizes in floats. A kernel reads
/// those that its code does not hold and that it has a use for. Must outlive the call of the
/// driver.
class CudaParameters {
 public:
  /// Values, if any, are CudaValues. Throws InvalidArgument for n and leading dimensions that are
  /// not of 32 bits.
  explicit CudaParameters(const Arguments& arguments);
  CudaParameters(const CudaParameters&) = delete;
  CudaParameters& operator=(const CudaParameters&) = delete;

  /// Where each is, as cuLaunchKernel() takes them.
  [[nodiscard]] void** places() noexcept { return places_; }

 private:
  Arguments arguments_;
  unsigned n_;
  unsigned ldb_;
  unsigned ldc_;
  unsigned ldr_;
  const float* values_;
  void* places_[13];  // NOLINT(modernize-use-default-member-init): beside what decides the values
};

}  // namespace spjit
