#pragma once

/// @file
/// The GPUs of this machine, as the driver describes them and the tile rules see them.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cuda/cuda_device_info.hpp"
#include "runtime/cuda/cuda_driver.hpp"
#include "spjit/target.hpp"

namespace spjit {

struct LocalGpu {
  int ordinal = 0;        ///< as CUDA_VISIBLE_DEVICES numbers them
  CudaDeviceInfo limits;  ///< the driver's own numbers; `card` is "gpu0", `product` its name
  std::int64_t memory_bytes = 0;  ///< all of the device's

  /// `device 0 ("NVIDIA H200")`, for messages.
  [[nodiscard]] std::string label() const;
};

/// How many devices the driver has.
[[nodiscard]] int cuda_device_count(const CudaDriver& driver);

/// Device `ordinal`. Throws InvalidArgument if there is none.
[[nodiscard]] LocalGpu describe_cuda_device(const CudaDriver& driver, int ordinal);

struct LocalGpus {
  std::vector<LocalGpu> gpus;  ///< by ordinal
  std::string driver;          ///< "CUDA driver 13.0, /usr/lib/.../libcuda.so.1"; or empty
  std::string problem;         ///< why there are none, one line; or empty
};

/// The CUDA driver that this process uses: the library that SPJIT_CUDA_DRIVER names, else
/// libcuda.so.1. Throws as CudaDriver::load().
[[nodiscard]] std::shared_ptr<const CudaDriver> local_cuda_driver();

/// Asks the driver, each time. Never throws: a machine without a GPU is an answer.
[[nodiscard]] LocalGpus find_local_gpus();

/// One GPU's limits. Throws NotSupported with the problem if there are none, InvalidArgument for an
/// ordinal that is not there.
[[nodiscard]] CudaDeviceInfo local_gpu_info(int ordinal);

/// 1 for "gpu1"; nothing for any other card's name.
[[nodiscard]] std::optional<int> gpu_ordinal(std::string_view card) noexcept;

/// Whether a device of one architecture runs cubins of another: the same major version, and at
/// least the minor one (CUDA C++ Programming Guide, "Binary Compatibility").
[[nodiscard]] constexpr bool runs_code_of(std::int64_t device_arch,
                                          std::int64_t code_arch) noexcept {
  return device_arch / 10 == code_arch / 10 && device_arch >= code_arch;
}

/// The device that tiles for a GPU target are chosen for: the named card, or the GPU of this
/// machine that the target names. For a bare architecture it is a GPU of this machine that has it,
/// else the architecture's default card.
[[nodiscard]] CudaDeviceInfo cuda_device_info_of(const Target& target);

/// A GPU whose times mean something for a target.
struct TimingGpu {
  std::optional<int> ordinal;
  std::string product;  ///< e.g. "NVIDIA H200"; empty without one
  std::string problem;  ///< why there is none, one line
};

/// The GPU that the target names (gpu1), else the first one of its architecture with as many SMs:
/// another card ranks tiles differently. Never throws.
[[nodiscard]] TimingGpu find_timing_gpu(const Target& target, const CudaDeviceInfo& limits);

}  // namespace spjit
