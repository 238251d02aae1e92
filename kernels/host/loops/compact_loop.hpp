#pragma once

/// @file
/// The loop of the family `compact` as an executable: all of that family, and of unrolled kernels
/// of a run-time n the part for few columns.

#include <cstdint>
#include <memory>

#include "base/cancel.hpp"
#include "kernels/host/object/csr_image.hpp"
#include "kernels/host/object/host_executable.hpp"
#include "runtime/host/host_device_info.hpp"

namespace spjit {

/// Up to so many columns the loop is faster than unrolled code that comes from memory
/// (docs/results/host.md). It reads every row of B again for each entry of A. From a far L3 that
/// takes longer than code from n of 256 on.
[[nodiscard]] constexpr std::int64_t most_loop_columns(const HostDeviceInfo& device) noexcept {
  return device.l3_is_far ? 255 : 768;
}

/// Throws Error for an A that is none; what `cancel` throws soon after it is reached. Precondition:
/// this CPU has the header's instruction set, AVX-512 or AVX2.
[[nodiscard]] std::shared_ptr<const HostExecutable> make_compact_loop(const HostObject& object,
                                                                      CsrImage read,
                                                                      const Cancellation& cancel);

}  // namespace spjit
