#include "tools/peers/openblas.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "tools/peers/blas_calls.hpp"

namespace spjit {
namespace {

constexpr const char* k_file = "libopenblas.so.0";
constexpr const char* k_install = "apt-get install libopenblas0-pthread";
// Cycles as a power of two; see OpenBLAS's runtime variables.
constexpr const char* k_thread_timeout = "18";

using SetThreads = void(int threads);
using GetConfig = char*();

struct Close {
  void operator()(void* handle) const noexcept { dlclose(handle); }
};

template <class Signature>
Signature* find(void* handle, const char* name) {
  return reinterpret_cast<Signature*>(dlsym(handle, name));
}

}  // namespace

struct OpenBlas::Library {
  std::unique_ptr<void, Close> handle;
  BlasFunctions blas = {};
  SetThreads* set_threads = nullptr;
  std::string version;
};

OpenBlas::Loaded OpenBlas::load() {
  setenv("OPENBLAS_THREAD_TIMEOUT", k_thread_timeout, 0);
  auto library = std::make_shared<Library>();
  library->handle.reset(dlopen(k_file, RTLD_NOW | RTLD_LOCAL));
  if (library->handle == nullptr) {
    return {std::nullopt,
            fmt::format("{} cannot be loaded; install it with '{}'", k_file, k_install)};
  }
  library->blas.sgemm = find<BlasFunctions::Sgemm>(library->handle.get(), "cblas_sgemm");
  library->blas.sgemv = find<BlasFunctions::Sgemv>(library->handle.get(), "cblas_sgemv");
  library->set_threads = find<SetThreads>(library->handle.get(), "openblas_set_num_threads");
  if (library->blas.sgemm == nullptr || library->blas.sgemv == nullptr ||
      library->set_threads == nullptr) {
    return {std::nullopt,
            fmt::format("{} has no cblas_sgemm, cblas_sgemv or openblas_set_num_threads; install "
                        "OpenBLAS with its C interface: '{}'",
                        k_file, k_install)};
  }
  auto* const config = find<GetConfig>(library->handle.get(), "openblas_get_config");
  library->version = config != nullptr ? config() : "OpenBLAS of unknown version";
  return {OpenBlas(std::move(library)), {}};
}

const std::string& OpenBlas::version() const noexcept { return library_->version; }

void OpenBlas::set_threads(int threads) const { library_->set_threads(threads); }

std::vector<DenseCall> OpenBlas::calls(const DenseProblem& problem) const {
  return blas_calls(library_->blas, problem);
}

void OpenBlas::multiply(const DenseProblem& problem) const {
  const bool is_vector = problem.n == 1 && problem.m > 0 && problem.k > 0;
  const BlasWay way = is_vector ? BlasWay::gemv : BlasWay::gemm;
  blas_call(library_->blas, way, problem).run(problem.b, problem.c);
}

}  // namespace spjit
