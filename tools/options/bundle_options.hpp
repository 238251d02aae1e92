#pragma once

/// @file
/// Options of commands that read or write bundles.

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

#include "runtime/bundle/bundle_file.hpp"

namespace spjit::cli {

struct BundleReadOptions {
  std::filesystem::path file;
  std::string public_key;  ///< path; empty: none
  bool any_owner = false;
};

/// --public-key and --any-owner.
void add_trust(CLI::App& command, std::string& public_key, bool& any_owner);

/// FILE (required) and those.
void add_bundle_file(CLI::App& command, BundleReadOptions& options);

/// Throws as BundleFile::open(), and IoError, InvalidArgument for a key.
[[nodiscard]] BundleFile open_bundle(const BundleReadOptions& options);

/// --key.
void add_signing_key(CLI::App& command, std::string& private_key);

}  // namespace spjit::cli
