#pragma once

/// @file
/// What the caches of a Compiler know of a problem, without compiling it.

#include <optional>
#include <string>

#include "compiler/cache_miss.hpp"
#include "compiler/kernel_cache.hpp"
#include "spjit/options.hpp"
#include "spjit/problem.hpp"

namespace spjit {

/// The server's part of an answer.
struct RemoteKnowledge {
  std::string url;
  bool has_kernel = false;
  std::string problem = {};  ///< why it cannot be asked; or empty
};

struct CacheAnswer {
  std::string key;
  std::string found_in = {};  ///< the directory or layer that a Compiler takes it from; or empty
  std::string note = {};      ///< what is wrong with entries and layers; or empty
  std::optional<RemoteKnowledge> remote = {};  ///< of a kernel that is not found; else nothing
  std::optional<NearKernel> nearest = {};      ///< if it is not found
};

/// Looks where a Compiler with these options looks. Takes nothing from a server, but asks it. A
/// damaged entry is set aside as by a look-up. Throws as the Compiler and its compile() do of what
/// is asked.
[[nodiscard]] CacheAnswer ask_caches(const OpenedCache& opened, const Problem& problem,
                                     const CompileOptions& options);

}  // namespace spjit
