#pragma once

/// @file
/// Options of the cache, and of the server that is asked last.

#include <CLI/CLI.hpp>
#include <string>

#include "spjit/compiler.hpp"

namespace spjit::cli {

/// --cache and --cache-unsafe.
void add_cache_directory(CLI::App& command, CacheOptions& options);
/// --cache-layer.
void add_cache_layers(CLI::App& command, CacheOptions& options);
/// --cache-remote.
void add_cache_remote(CLI::App& command, CacheOptions& options);
/// For commands that compile and have those: --cache-size, --cache-layer, --cache-remote and
/// --no-cache.
void add_cache_use(CLI::App& command, CacheOptions& options);

/// --compile.
void add_compile_when(CLI::App& command, CompileWhen& when);

/// Throws Error if a new kernel (KernelInfo::not_cached) is not in the cache that --cache names.
void require_cached(const std::string& not_cached, const CacheOptions& options);

/// Waits until new kernels are written to a server. Its refusals are a note.
void flush_remote(const Compiler& compiler);

}  // namespace spjit::cli
