#pragma once

/// @file
/// From CacheOptions and the environment to the caches of a Compiler, and from an entry to its
/// kernel.

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "artifact/kernel_impl.hpp"
#include "base/cancel.hpp"
#include "runtime/cache/cache_entry.hpp"
#include "runtime/cache/cache_layers.hpp"
#include "runtime/cache/cache_store.hpp"
#include "spjit/compiler.hpp"
#include "spjit/options.hpp"

namespace spjit {

struct OpenedCache {
  std::optional<LayeredCache> cache;  ///< absent if there is neither a directory nor a layer
  std::string note;                   ///< defaults that cannot be used, and why; or empty
};

/// Opens what the options say, creating a directory that they name. Throws CacheError as
/// CacheOptions says, InvalidArgument for an option or variable that is none, IoError for a file of
/// a server's options.
[[nodiscard]] OpenedCache open_cache(const CacheOptions& options);

/// The writable cache of `options`, or the default one, whatever `enabled` says; creates nothing.
/// Throws CacheError if it cannot be used, InvalidArgument as `open_cache()`.
[[nodiscard]] CacheStore open_cache_directory(const CacheOptions& options);

/// Adds a remark to those of a kernel.
void add_note(std::string& notes, std::string_view note);

/// A kernel of an entry, or why there is none.
struct LoadedEntry {
  std::shared_ptr<Kernel::Impl> kernel = nullptr;
  std::string problem = {};  ///< of the entry, which is of no use then
  std::string note = {};     ///< what else went wrong, for the user
};

/// The kernel of an entry, which is to be for this target and n. Throws Cancelled,
/// DeadlineExceeded.
[[nodiscard]] LoadedEntry load_entry(CacheEntry& entry, const Problem& problem,
                                     const Target& target, const HostDevice& device,
                                     const Cancellation& cancel);

}  // namespace spjit
