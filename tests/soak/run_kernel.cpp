#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "kernels/host/object/host_family.hpp"
#include "spjit/compiler.hpp"
#include "tests/soak/soak_check.hpp"
#include "tests/support/cuda/emulated_kernel.hpp"

namespace spjit::soak {
namespace {

constexpr double k_search_ms = 300;

Problem problem_of(const SoakCase& item) {
  Problem problem;
  problem.a = item.matrix;
  problem.n = item.n;
  problem.b.leading_dimension = item.compiled_ldb;
  if (item.panel_vectors > 0) problem.panel_columns = item.panel_vectors * lanes_of(item.isa);
  return problem;
}

CompileOptions options_of(const SoakCase& item) {
  CompileOptions options;
  options.policy.hot = item.hot;
  options.target = Target(item.isa);
  options.resources.threads = item.threads;
  options.policy.reorder = item.reorder;
  options.policy.search = item.search;
  options.policy.search_budget_ms = k_search_ms;
  options.policy.top_k = 3;
  if (item.no_code) options.policy.code_budget_bytes = 0;
  return options;
}

Kernel through_object(const Kernel& kernel, int threads) {
  static constexpr const char* k_name = "soak";
  const std::vector<std::byte> object = kernel.object(k_name);
  const HostImage parts = read_object(object, k_name);
  Artifact artifact;
  artifact.files.push_back(object_file(parts));
  artifact.record = kernel.record();
  return Kernel::from_artifact(std::move(artifact), threads);
}

Kernel through_cache(const SoakCase& item, const std::string& directory) {
  CacheOptions cache;
  cache.directory = directory;
  const Kernel made = Compiler(options_of(item), cache).compile(problem_of(item));
  Kernel loaded = Compiler(options_of(item), cache).compile(problem_of(item));
  if (!loaded.info().from_cache) {
    throw std::runtime_error("a kernel that was just published is not in the cache: " +
                             made.info().note + "; " + loaded.info().note);
  }
  return loaded;
}

Kernel kernel_of(const SoakCase& item, const std::string& directory) {
  if (item.route == Route::cached) return through_cache(item, directory);
  CacheOptions no_cache;
  no_cache.enabled = false;
  Kernel kernel = Compiler(options_of(item), no_cache).compile(problem_of(item));
  return item.route == Route::object ? through_object(kernel, item.threads) : kernel;
}

void run_panels(const Kernel& kernel, const SoakCase& item, const float* b, float* c) {
  std::vector<float> b_panels(to_size(kernel.panel_elements(kernel.cols())));
  std::vector<float> c_panels(to_size(kernel.panel_elements(kernel.rows())));
  kernel.to_panels(b, item.ldb, kernel.cols(), b_panels.data());
  kernel.run_panels(b_panels.data(), c_panels.data());
  kernel.from_panels(c_panels.data(), kernel.rows(), c, item.ldc);
}

void run_ptx_case(const SoakCase& item, const float* b, float* c) {
  using namespace testing_support;
  CsrMatrix matrix = item.matrix;
  matrix.sort_columns();
  CudaKernelSpec spec;
  spec.tile.m1 = item.ptx.m1;
  spec.tile.n1 = item.ptx.n1;
  spec.tile.unit_nonzeros = item.ptx.unit_nonzeros;
  spec.tile.runtime_sizes = item.ptx.runtime_sizes;
  spec.n = item.n;
  spec.ldb = item.ldb;
  spec.ldc = item.ldc;
  CudaCase made = make_cuda_case(matrix, spec, item.reorder);
  std::copy_n(b, made.b.size(), made.b.begin());
  const std::vector<float> found = run_ptx(ptx_of(made), made);
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    std::copy_n(found.begin() + row * item.ldc, item.n, c + row * item.ldc);
  }
}

}  // namespace

RunCase run_kernel(const std::string& directory) {
  return [directory](const SoakCase& item, const float* b, float* c) {
    if (item.route == Route::ptx) {
      run_ptx_case(item, b, c);
      return;
    }
    const Kernel kernel = kernel_of(item, directory);
    if (item.route == Route::panels) {
      run_panels(kernel, item, b, c);
    } else {
      kernel.run(b, item.ldb, c, item.ldc);
    }
  };
}

}  // namespace spjit::soak
