#pragma once

/// @file
/// From RemoteCacheOptions, their file and the environment to the settings of a server.

#include <optional>

#include "base/environment.hpp"
#include "runtime/cache/remote_server.hpp"
#include "spjit/compiler.hpp"

namespace spjit {

/// The server of the environment or of the default file; nothing without either. Throws as
/// read_remote_cache().
[[nodiscard]] std::optional<RemoteCacheOptions> default_remote(
    const RemoteEnvironment& environment);

/// Reads the keys and secrets that options name. Throws InvalidArgument for an option that is none
/// and for a file with a secret that others can read; IoError; NotSupported for keys where there is
/// no libcrypto. No message has a secret.
[[nodiscard]] RemoteSettings remote_settings(const RemoteCacheOptions& options);

}  // namespace spjit
