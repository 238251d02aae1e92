#pragma once

/// @file
/// A kernel as a folder: an entry of a cache, in a place of the user's.

#include <filesystem>

#include "spjit/kernel.hpp"

namespace spjit {

/// Writes the files of a kernel and then record.json (docs/design/cache-format.md); the folder is
/// made if need be, files of these names are replaced. Throws IoError.
void save_kernel(const Kernel& kernel, const std::filesystem::path& folder);

/// Where and how a kernel of a folder is loaded.
struct KernelFolder {
  std::filesystem::path path;
  bool any_owner = false;  ///< also files that other users can write to
  int threads = 1;
  ParallelFor parallel_for = {};
};

/// A kernel of such a folder. Throws IoError if there is none; CacheError if a file or the record
/// is missing or damaged or another user can write to it; what Kernel::from_artifact() throws.
[[nodiscard]] Kernel load_kernel(KernelFolder folder);

}  // namespace spjit
