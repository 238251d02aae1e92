#pragma once

/// @file
/// Archives of a cache, read kernel by kernel. docs/cache-format.md has the format.

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "archive_manifest.hpp"
#include "runtime/cache/cache_store.hpp"
#include "tar_archive.hpp"

namespace spjit::cli {

/// Takes a kernel: its record and the files that the record lists, all of which match their
/// checksums. The bytes live as long as the call. May throw.
using TakeKernel = std::function<void(const CacheRecord&, std::span<const CacheFile>)>;

/// Gives the kernels of an archive, one by one, each as soon as all of it was read. The first thing
/// wrong, and any Error that `take` throws, ends it with an IoError of one line: `name`, the
/// member, the reason. Memory: at most about twice the largest kernel, which `limits` bound.
/// Checksums tell damage, not malice.
void read_archive(const std::string& name, ReadBytes read, const ArchiveLimits& limits,
                  const TakeKernel& take);

/// Reads what is in memory already, which must outlive the function.
[[nodiscard]] ReadBytes bytes_in_memory(std::span<const std::byte> bytes);

}  // namespace spjit::cli
