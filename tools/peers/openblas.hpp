#pragma once

/// @file
/// The dense peer: OpenBLAS, if it is installed.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace spjit {

/// C `[m x n]` = A `[m x k]` * B `[k x n]`, all row-major and contiguous.
struct DenseProblem {
  std::int64_t m = 0;
  std::int64_t k = 0;
  std::int64_t n = 0;
  const float* a = nullptr;
  const float* b = nullptr;
  float* c = nullptr;
};

/// OpenBLAS, loaded at run time so that nothing needs it to build. Copies share one library.
/// Its number of threads is a setting of the process: not thread-safe.
class OpenBlas {
 public:
  struct Loaded;

  /// Loads libopenblas.so.0. Where it is absent or not what it should be: `library` is empty and
  /// `reason` says what is missing and how to install it.
  ///
  /// Sets OPENBLAS_THREAD_TIMEOUT=18 for this process unless it is set, so call it before there are
  /// other threads: OpenBLAS's own then spin for 0.1 ms instead of 25 ms after a call, which would
  /// be taken from whatever is measured next.
  [[nodiscard]] static Loaded load();

  /// What OpenBLAS says of its version and kernels, e.g. "OpenBLAS 0.3.21 ... Cooperlake
  /// MAX_THREADS=64".
  [[nodiscard]] const std::string& version() const noexcept;

  void set_threads(int threads) const;

  /// cblas_sgemm with alpha = 1, beta = 0. Throws InvalidArgument for a size over 2^31 - 1.
  void sgemm(const DenseProblem& problem) const;

 private:
  struct Library;
  explicit OpenBlas(std::shared_ptr<const Library> library) : library_(std::move(library)) {}

  std::shared_ptr<const Library> library_;
};

struct OpenBlas::Loaded {
  std::optional<OpenBlas> library;
  std::string reason;  ///< empty: loaded
};

}  // namespace spjit
