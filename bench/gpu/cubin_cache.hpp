#pragma once

/// @file
/// Kernels for one card in a cache directory (docs/design/cache-format.md), compiled where there is
/// no GPU and loaded where there is one.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>

#include "kernels/tuning/training/tuned_family.hpp"
#include "runtime/cache/cache_store.hpp"
#include "runtime/cuda/cuda_device_info.hpp"
#include "spjit/compiler.hpp"
#include "spjit/kernel.hpp"

namespace spjit::bench {

/// How many cubins were there and how many were compiled, in this process.
struct CubinCounts {
  std::size_t found = 0;
  std::size_t compiled = 0;
};

/// Thread-safe. What is missing or damaged is compiled when it is asked for.
class CubinCache {
 public:
  /// `target`: what tiles are chosen for, "sm_90:h100". Throws as Target::parse().
  CubinCache(const std::filesystem::path& folder, const std::string& target);

  /// The card of the target.
  [[nodiscard]] const CudaDeviceInfo& card() const noexcept { return card_; }
  /// Throws InvalidArgument for a device of another architecture or number of SMs than the card:
  /// its tiles would be others.
  void require(const CudaDeviceInfo& device) const;

  /// The kernel of a problem for the target, as Compiler::compile().
  [[nodiscard]] Kernel kernel(const Problem& problem, CompileOptions options);

  /// The cubin of that key, a SHA-256 of all that it is made of; what `make` gives where it is not
  /// there. Throws what `make` throws.
  [[nodiscard]] StoredCubin cubin(const std::string& key, const std::function<StoredCubin()>& make);

  [[nodiscard]] CubinCounts counts() const;

 private:
  void count(bool was_there);

  std::filesystem::path folder_;
  Target target_;
  CudaDeviceInfo card_;
  CacheStore store_;
  mutable std::mutex mutex_;
  CubinCounts counts_;
};

/// "128 cubins found in the folder, 3 compiled"
[[nodiscard]] std::string to_string(const CubinCounts& counts);

}  // namespace spjit::bench
