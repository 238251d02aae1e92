#pragma once

/// @file
/// Compilations that tests hold up at a stage, and what they leave behind.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "artifact/families.hpp"
#include "artifact/kernel_impl.hpp"
#include "kernels/host/object/host_family.hpp"
#include "kernels/host/unrolled/host_program.hpp"
#include "spjit/compiler.hpp"
#include "tests/support/spmm_testing.hpp"

namespace spjit::testing_support {

/// A product with n columns of B, everything else as it is by default.
[[nodiscard]] inline Problem problem_of(CsrMatrix matrix, std::int64_t n) {
  Problem problem;
  problem.a = std::move(matrix);
  problem.n = n;
  return problem;
}

/// A small one.
[[nodiscard]] inline Problem small_problem(CsrMatrix matrix) {
  constexpr std::int64_t k_columns = 24;
  return problem_of(std::move(matrix), k_columns);
}

/// Options that choose unrolled code, which goes through all stages of a compilation.
[[nodiscard]] inline CompileOptions hot_options() {
  CompileOptions options;
  options.policy.hot = true;
  return options;
}

/// Hot ones for so many compilations at once.
[[nodiscard]] inline CompileOptions small_options(int parallel_compiles = 0) {
  CompileOptions options = hot_options();
  options.resources.parallel_compiles = parallel_compiles;
  return options;
}

/// Hot ones of a kernel for this CPU, or for one of another instruction set.
[[nodiscard]] inline CompileOptions options_of(HostIsa isa = Target().isa()) {
  CompileOptions options = hot_options();
  options.target = Target(isa);
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

/// An image as its family opens it; the image must outlive what comes out.
[[nodiscard]] inline LoadedKernel open_image(const HostImage& image,
                                             const std::shared_ptr<ThreadPool>& pool = nullptr) {
  WordReader reader(image.program);
  const auto& family = dynamic_cast<const HostFamily&>(find_family(read_header(reader).family));
  return family.open({.image = image, .pool = pool}, {});
}

/// A host kernel of an artifact that no Compiler made.
[[nodiscard]] inline Kernel kernel_of(const HostArtifact& artifact,
                                      const std::shared_ptr<ThreadPool>& pool = nullptr) {
  WordReader reader(artifact.image().program);
  const KernelFamily& family = find_family(read_header(reader).family);
  auto code = std::make_shared<const BuiltFiles>(
      family, std::vector<Artifact::File>{object_file(artifact.image())});
  LoadedKernel loaded = code->load(nlohmann::json::object(), HostDevice{pool}, {});
  return Kernel(std::make_shared<const Kernel::Impl>(family, std::move(loaded), std::move(code),
                                                     nlohmann::json::object()));
}

/// A kernel of a tile that the heuristic would not choose. `ldb`: that B is read in place with; 0:
/// it is packed.
[[nodiscard]] inline Kernel kernel_of(const CsrMatrix& matrix, const HostTile& tile, HostIsa isa,
                                      std::int64_t n, std::int64_t ldb) {
  const KernelPlan plan =
      build_plan(matrix, group_rows(matrix, tile.m1, ReorderAlgorithm::similarity),
                 tile.k_block > 0 ? tile.k_block : std::max<std::int64_t>(matrix.cols, 1));
  Problem problem;
  problem.n = n;
  problem.b.leading_dimension = ldb;
  return kernel_of(make_unrolled_artifact(plan, tile, problem, isa));
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
[[nodiscard]] inline bool is_kernel_of(const Kernel& kernel, const CsrMatrix& matrix) {
  const std::vector<float> b = dense_values(matrix.cols * kernel.n());
  std::vector<float> c(index(matrix.rows * kernel.n()), -7.0F);
  kernel.run(b.data(), c.data());
  return same_bits(
      c, reference_product(matrix, kernel.info().target.isa(), b.data(), kernel.n(), kernel.n()));
}

/// Whether `work` throws an `Expected`.
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
