#pragma once

/// @file
/// From an entry of the cache to its kernel.

#include <memory>
#include <string>

#include "base/cancel.hpp"
#include "kernels/kernel_impl.hpp"
#include "runtime/cache/cache_entry.hpp"
#include "spjit/options.hpp"

namespace spjit {

/// A kernel of an entry, or why there is none.
struct LoadedEntry {
  std::shared_ptr<Kernel::Impl> kernel = nullptr;
  std::string problem = {};  ///< of the entry, which is of no use then
  std::string note = {};     ///< what else went wrong, for the user
};

/// The kernel of built code and its record, for the host or for a GPU and in none. Throws as
/// KernelFamily::load().
[[nodiscard]] std::shared_ptr<Kernel::Impl> load_kernel(const KernelFamily& family,
                                                        std::shared_ptr<const BuiltCode> code,
                                                        nlohmann::json record, const Device& device,
                                                        const Cancellation& cancel);

/// The kernel of an entry, which is to be for this target and n. Throws Cancelled,
/// DeadlineExceeded.
[[nodiscard]] LoadedEntry load_entry(CacheEntry& entry, const Problem& problem,
                                     const Target& target, const HostDevice& device,
                                     const Cancellation& cancel);

}  // namespace spjit
