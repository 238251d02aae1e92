#pragma once

/// @file
/// Who can have written what lies in a cache. An entry is code that runs, so what another user can
/// write is not believed.

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "base/file_descriptor.hpp"

namespace spjit {

/// Why a file or directory with this owner and mode can have been written by somebody else than
/// user `self`, in a few words; empty if it cannot. Root is trusted: it needs no cache to run code
/// as anyone. A mode with write permission for the group or for all is not; a POSIX ACL that lets
/// others write shows as the group's permission.
[[nodiscard]] std::string distrust(uid_t owner, mode_t mode, uid_t self);

/// Why user `self` should not keep a cache in `directory`, which is `home` (what HOME or
/// XDG_CACHE_HOME names) or below it, in a few words: root in a home of another user, as sudo can
/// leave it, would write files there that the user cannot replace. Empty if `self` may. Looked at
/// are all folders from `home` to `directory` that exist, links followed; if none does, the one
/// that they would be made in.
[[nodiscard]] std::string foreign_home(const std::filesystem::path& home,
                                       const std::filesystem::path& directory, uid_t self);

/// Throws CacheError, in one line with what to do, if `distrust()` of this open cache directory has
/// a reason for the process's effective user. `path` is its name for the message.
void require_safe_directory(const FileDescriptor& directory, const std::filesystem::path& path);

/// Throws CacheError if `distrust()` of a file or directory of an entry has a reason.
void require_trusted(const FileDescriptor& file, std::string_view name);

}  // namespace spjit
