#include "tools/peers/openblas.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "spjit/error.hpp"

namespace spjit {
namespace {

constexpr const char* k_file = "libopenblas.so.0";
constexpr const char* k_install = "apt-get install libopenblas0-pthread";
// Cycles as a power of two; see OpenBLAS's runtime variables.
constexpr const char* k_thread_timeout = "18";

// From cblas.h: the C interface is the same in every BLAS.
constexpr int k_row_major = 101;
constexpr int k_no_transpose = 111;
using Sgemm = void(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                   const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc);
using SetThreads = void(int threads);
using GetConfig = char*();

struct Close {
  void operator()(void* handle) const noexcept { dlclose(handle); }
};

template <class Signature>
Signature* find(void* handle, const char* name) {
  return reinterpret_cast<Signature*>(dlsym(handle, name));
}

int to_int(std::int64_t size) {
  if (size > std::numeric_limits<int>::max()) {
    throw InvalidArgument(
        fmt::format("a dense matrix with a side of {}: OpenBLAS takes 2^31 - 1 at most", size));
  }
  return static_cast<int>(size);
}

}  // namespace

struct OpenBlas::Library {
  std::unique_ptr<void, Close> handle;
  Sgemm* sgemm = nullptr;
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
  library->sgemm = find<Sgemm>(library->handle.get(), "cblas_sgemm");
  library->set_threads = find<SetThreads>(library->handle.get(), "openblas_set_num_threads");
  if (library->sgemm == nullptr || library->set_threads == nullptr) {
    return {std::nullopt, fmt::format("{} has no cblas_sgemm or openblas_set_num_threads; install "
                                      "OpenBLAS with its C interface: '{}'",
                                      k_file, k_install)};
  }
  auto* const config = find<GetConfig>(library->handle.get(), "openblas_get_config");
  library->version = config != nullptr ? config() : "OpenBLAS of unknown version";
  return {OpenBlas(std::move(library)), {}};
}

const std::string& OpenBlas::version() const noexcept { return library_->version; }

void OpenBlas::set_threads(int threads) const { library_->set_threads(threads); }

void OpenBlas::sgemm(const DenseProblem& problem) const {
  const int m = to_int(problem.m);
  const int n = to_int(problem.n);
  const int k = to_int(problem.k);
  // Leading dimensions must be 1 at least even where there is nothing to read.
  library_->sgemm(k_row_major, k_no_transpose, k_no_transpose, m, n, k, 1.0F, problem.a,
                  std::max(1, k), problem.b, std::max(1, n), 0.0F, problem.c, std::max(1, n));
}

}  // namespace spjit
