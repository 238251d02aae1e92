#pragma once

/// @file
/// Compilations that tests hold up at a stage, and what they leave behind.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "spjit/compiler.hpp"
#include "tests/support/spmm_testing.hpp"

namespace spjit::testing_support {

/// Options of a small host kernel.
[[nodiscard]] inline CompileOptions small_options(int parallel_compiles = 0) {
  CompileOptions options;
  options.n = 24;
  options.parallel_compiles = parallel_compiles;
  return options;
}

[[nodiscard]] inline CacheOptions uncached() {
  CacheOptions cache;
  cache.enabled = false;
  return cache;
}

[[nodiscard]] inline CacheOptions cached_in(const std::filesystem::path& directory) {
  CacheOptions cache;
  cache.directory = directory;
  return cache;
}

/// Calls `action` whenever `stage` begins or goes on.
[[nodiscard]] inline CompileControl at_stage(std::string stage, std::function<void()> action) {
  CompileControl control;
  control.progress = [stage = std::move(stage),
                      action = std::move(action)](const SearchProgress& progress) {
    if (progress.stage == stage) action();
  };
  return control;
}

/// Files and directories of a cache besides its tag and empty directories of its own: entries,
/// temporary and damaged ones.
[[nodiscard]] inline std::vector<std::string> left_in(const std::filesystem::path& cache) {
  namespace fs = std::filesystem;
  std::vector<std::string> left;
  for (const auto& entry : fs::recursive_directory_iterator(cache)) {
    const fs::path path = fs::relative(entry.path(), cache);
    const bool own = path == "CACHEDIR.TAG" || path == "tmp" || path == "damaged";
    const bool shard = entry.is_directory() && path.native().size() == 2;
    if (!own && !shard) left.push_back(path.native());
  }
  return left;
}

/// Whether the kernel computes what the matrix says.
[[nodiscard]] inline bool is_kernel_of(const SpmmKernel& kernel, const CsrMatrix& matrix) {
  const std::vector<float> b = dense_values(matrix.cols * kernel.n());
  std::vector<float> c(index(matrix.rows * kernel.n()), -7.0F);
  kernel.run(b.data(), c.data());
  return same_bits(
      c, reference_product(matrix, kernel.info().target.isa(), b.data(), kernel.n(), kernel.n()));
}

/// What `work` throws is an `Expected`.
template <class Expected, class Work>
[[nodiscard]] bool throws(const Work& work) {
  try {
    static_cast<void>(work());
  } catch (const Expected&) {
    return true;
  } catch (...) {
  }
  return false;
}

}  // namespace spjit::testing_support
