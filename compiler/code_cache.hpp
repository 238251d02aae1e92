#pragma once

/// @file
/// Machine code that kernels of many matrices share: compiled once a process, and once a cache.

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/single_flight.hpp"
#include "kernels/kernel_family.hpp"
#include "plan/compile_context.hpp"
#include "runtime/cache/cache_layers.hpp"

namespace spjit {

/// Thread-safe.
class CodeCache {
 public:
  /// Code of that key: what this has, else what `cache` has, else what `make` gives, which is
  /// published there then. A cache that cannot be read or written to is as good as none: the kernel
  /// that the code is part of says so itself. Throws what `make` and the context throw.
  [[nodiscard]] SharedCode find(const std::string& key, const std::function<SharedCode()>& make,
                                const std::optional<LayeredCache>& cache,
                                const CompileContext& context);

 private:
  [[nodiscard]] std::shared_ptr<const SharedCode> known(const std::string& key) const;

  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const SharedCode>> codes_;
  SingleFlight<const SharedCode> flights_;
};

}  // namespace spjit
