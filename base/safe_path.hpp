#pragma once

/// @file
/// Where a name leads, and who can change that. What is found by searching and then run (libraries)
/// has to lie where nobody but root and this user can put anything else.

#include <filesystem>
#include <string>

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

/// Follows `path` from the root on, folder by folder and link by link. Each folder has to be one
/// that only root and the process's effective user can write to; where others can, it must be
/// sticky (as /tmp is) and what the name leads to in it must belong to root or that user. So must
/// the file at the end, and the group and others must not be able to write to it. Nobody else can
/// then change where `SafePath::path` leads, also not later.
[[nodiscard]] SafePath find_safely(const std::filesystem::path& path);

}  // namespace spjit
