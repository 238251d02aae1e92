#pragma once

/// @file
/// The parameters of every CUDA kernel, in their order.

#include "spjit/arguments.hpp"

namespace spjit {

/// `(const float* b, float* c, const float* scale, const float* bias, const float* residual,
/// unsigned n, unsigned ldb, unsigned ldc, unsigned ldr, long long b_distance, long long
/// c_distance, long long residual_distance)`, sizes in floats. A kernel reads those that its code
/// does not hold and that it has a use for. Must outlive the call of the driver.
class CudaParameters {
 public:
  /// Throws InvalidArgument for n and leading dimensions that are not of 32 bits.
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
  void* places_[12];
};

}  // namespace spjit
