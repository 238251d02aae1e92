#pragma once

/// @file
/// What the CUDA driver says about its devices.

#include <cstdint>
#include <string>

#include "runtime/cuda/cuda_driver.hpp"

namespace spjit {

/// One device, as the driver describes it.
struct CudaDeviceAttributes {
  int ordinal = 0;   ///< as CUDA_VISIBLE_DEVICES numbers them
  std::string name;  ///< e.g. "NVIDIA H200"
  int arch = 0;      ///< compute capability, 10 * major + minor

  int sms = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t memory_bytes = 0;  ///< all of the device's

  int registers_per_block = 0;  ///< 32-bit registers
  int registers_per_sm = 0;     ///< 32-bit registers
  int warp_size = 0;            ///< threads
  int threads_per_block = 0;
  int threads_per_sm = 0;
  int blocks_per_sm = 0;

  int shared_per_block_bytes = 0;        ///< without opting in
  int shared_per_block_optin_bytes = 0;  ///< with the kernel's attribute set
  int shared_per_sm_bytes = 0;
  int reserved_shared_per_block_bytes = 0;  ///< the driver's own, on top of the block's

  /// `device 0 ("NVIDIA H200")`, for messages.
  [[nodiscard]] std::string label() const;
};

/// How many devices the driver has.
[[nodiscard]] int cuda_device_count(const CudaDriver& driver);

/// Device `ordinal`. Throws InvalidArgument if there is none.
[[nodiscard]] CudaDeviceAttributes cuda_device_attributes(const CudaDriver& driver, int ordinal);

}  // namespace spjit
