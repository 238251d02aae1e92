#pragma once

/// @file
/// The parameters of every CUDA kernel, in their order, and the values of A among them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/cuda/code/cuda_code.hpp"
#include "runtime/cuda/cuda_memory.hpp"
#include "spjit/arguments.hpp"

namespace spjit {

/// A's values at run time in a GPU's memory, as a kernel of one family reads them.
class CudaValues : public PreparedValues::Stream {
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
/// c_distance, long long residual_distance, const float* values)`, sizes in elements, and what a
/// family adds. A kernel reads those that its code does not hold and that it has a use for. Must
/// outlive the call of the driver.
class CudaParameters {
 public:
  /// Parameters that a family may add, at most.
  static constexpr std::size_t k_most_added = 18;

  /// `values`: A's on the device, unless the arguments bring some, which are CudaValues. `added`:
  /// 64 bits each, of which a parameter of 32 is the low half. Throws InvalidArgument for n and
  /// leading dimensions that are not of 32 bits.
  explicit CudaParameters(const Arguments& arguments, const float* values = nullptr,
                          std::span<const std::uint64_t> added = {});
  CudaParameters(const CudaParameters&) = delete;
  CudaParameters& operator=(const CudaParameters&) = delete;

  /// Where each is, as cuLaunchKernel() takes them.
  [[nodiscard]] void** places() noexcept { return places_.data(); }

 private:
  Arguments arguments_;
  unsigned n_;
  unsigned ldb_;
  unsigned ldc_;
  unsigned ldr_;
  const float* values_;
  std::array<std::uint64_t, k_most_added> added_ = {};
  std::array<void*, 13 + k_most_added> places_ = {};
};

/// The first of a kernel that CudaCode writes, and then those of its family.
[[nodiscard]] std::vector<CudaCode::Parameter> with_common_parameters(
    std::vector<CudaCode::Parameter> added);

}  // namespace spjit
