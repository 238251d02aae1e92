#pragma once

/// @file
/// Where a name leads, and who can change that. What is found by searching and then run (libraries)
/// has to lie where nobody but root and this user can put anything else. So has a cache: an entry
/// is code that runs.

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "base/file_descriptor.hpp"
#include "base/refusal.hpp"

namespace spjit {

/// Where a name leads.
struct SafePath {
  /// The folder or regular file: absolute, without links. Empty if there is none that can be
  /// looked at, or if it is not safe.
  std::filesystem::path path;
  /// Which folder, link or file on the way others can change, and how; empty if they can change
  /// none.
  std::string problem;
};

/// Follows `path` from the root on, folder by folder and link by link. Each folder must be writable
/// by root and the process's effective user alone, or sticky (as /tmp is). In a sticky folder, what
/// the name leads to must belong to root or that user. So must the file at the end, and the group
/// and others must not be able to write to it. Nobody else can then change where `SafePath::path`
/// leads, also not later.
[[nodiscard]] SafePath find_safely(const std::filesystem::path& path);

/// Why a file or directory with this owner and mode can have been written by somebody else than
/// user `self`, in a few words. Root is trusted: it needs no cache to run code as anyone. A mode
/// with write permission for the group or for all is not; a POSIX ACL that lets others write shows
/// as the group's permission.
[[nodiscard]] Refusal distrust(uid_t owner, mode_t mode, uid_t self);

/// Why user `self` should not keep a cache in `directory`, in a few words. The directory is `home`
/// (what HOME or XDG_CACHE_HOME names) or below it. Root in another user's home, as sudo can leave
/// it, would write files there that the user cannot replace. Looked at are all folders from `home`
/// to `directory` that exist, links followed; if none does, the one that they would be made in.
[[nodiscard]] Refusal foreign_home(const std::filesystem::path& home,
                                   const std::filesystem::path& directory, uid_t self);

/// Throws CacheError, in one line with what to do, if `distrust()` of this open cache directory has
/// a reason for the process's effective user. `path` is its name for the message.
void require_safe_directory(const FileDescriptor& directory, const std::filesystem::path& path);

/// Throws CacheError if `distrust()` of a file or directory of an entry has a reason.
void require_trusted(const FileDescriptor& file, std::string_view name);

}  // namespace spjit
