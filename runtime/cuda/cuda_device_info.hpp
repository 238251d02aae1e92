#pragma once

/// @file
/// NVIDIA GPUs as plain data. Cross-compiling needs no GPU: a name such as "sm_90:h200" gives what
/// the tile rules look at. docs/design/cuda-devices.md says where each number comes from.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spjit {

/// One card. Tests fill it by hand, `parse_cuda_target()` from the table, and a loaded GPU's own
/// attributes overwrite it. "SM" is a streaming multiprocessor, "block" a thread block.
struct CudaDeviceInfo {
  std::int64_t arch = 0;  ///< compute capability, 10 * major + minor: 90 is sm_90
  std::string card;       ///< the part of the target name after the colon, e.g. "h200"
  std::string product;    ///< NVIDIA's name, for records, e.g. "H200 SXM"

  std::int64_t sms = 0;
  std::int64_t l2_bytes = 0;  ///< as the driver reports it

  std::int64_t registers_per_thread = 255;      ///< 32-bit registers
  std::int64_t registers_per_block = 65536;     ///< 32-bit registers
  std::int64_t registers_per_sm = 65536;        ///< 32-bit registers
  std::int64_t register_allocation_unit = 256;  ///< registers; a warp gets a multiple of it
  std::int64_t sub_partitions = 4;              ///< of an SM; each holds its share of registers

  std::int64_t warp_size = 32;  ///< threads
  std::int64_t threads_per_block = 1024;
  std::int64_t threads_per_sm = 0;
  std::int64_t blocks_per_sm = 0;

  std::int64_t shared_per_sm_bytes = 0;
  std::int64_t shared_per_block_bytes = 48 << 10;    ///< without opting in; also the static limit
  std::int64_t shared_per_block_optin_bytes = 0;     ///< with the kernel attribute set
  std::int64_t reserved_shared_per_block_bytes = 0;  ///< the driver's own, on top of the block's
  std::int64_t shared_allocation_unit_bytes = 128;

  [[nodiscard]] std::int64_t warps_per_sm() const noexcept { return threads_per_sm / warp_size; }
  /// "sm_90:h200"
  [[nodiscard]] std::string name() const;

  friend bool operator==(const CudaDeviceInfo&, const CudaDeviceInfo&) = default;
};

/// Every card of the table, by architecture; the first of an architecture is its default.
[[nodiscard]] std::vector<CudaDeviceInfo> known_cuda_cards();

/// The first CUDA release that no longer compiles for an architecture: "13.0" for 70; empty: the
/// newest known one does, or there is no such architecture.
[[nodiscard]] std::string_view cuda_that_dropped(std::int64_t arch) noexcept;

/// "sm_90" (the default card of the architecture) or "sm_90:h200" (a named card). Throws
/// NotSupported for an architecture without a card that CUDA has dropped, and InvalidArgument,
/// listing what is known, for any other name.
[[nodiscard]] CudaDeviceInfo parse_cuda_target(std::string_view name);

}  // namespace spjit
