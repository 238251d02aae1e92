#pragma once

/// @file
/// What a Compiler counts.

#include <mutex>
#include <string>
#include <string_view>

#include "base/fork_safe_mutex.hpp"
#include "runtime/cache/cache_layer.hpp"
#include "runtime/cache/remote_server.hpp"
#include "spjit/compiler.hpp"

namespace spjit {

/// Thread-safe.
class MetricsCounter {
 public:
  /// All are there, and 0.
  MetricsCounter();

  void add(std::string_view sample, double count = 1);
  void add_hit(CachePlace place);

  [[nodiscard]] Metrics all() const;

 private:
  mutable ForkSafeMutex mutex_;
  Metrics counts_;
};

/// Adds the samples of a server.
void add_remote(const RemoteServer& server, Metrics& metrics);

// Samples that are no hits.
inline constexpr std::string_view k_absent = "spjit_cache_misses_total{reason=\"absent\"}";
inline constexpr std::string_view k_unusable = "spjit_cache_misses_total{reason=\"unusable\"}";
inline constexpr std::string_view k_refused = "spjit_kernels_refused_total";
inline constexpr std::string_view k_compiled = "spjit_kernels_compiled_total";
inline constexpr std::string_view k_hit_seconds = "spjit_cache_hit_seconds_total";
inline constexpr std::string_view k_compile_seconds = "spjit_compile_seconds_total";

}  // namespace spjit
