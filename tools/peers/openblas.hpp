#pragma once

/// @file
/// The dense peer: OpenBLAS, if it is installed.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/peers/dense_call.hpp"

namespace spjit {

/// OpenBLAS, loaded at run time so that nothing needs it to build. Copies share one library.
/// Its number of threads is a setting of the process: not thread-safe.
class OpenBlas {
 public:
  struct Loaded;

  /// Loads libopenblas.so.0. Where it is absent or not what it should be: `library` is empty and
  /// `reason` says what is missing and how to install it.
  ///
  /// Sets OPENBLAS_THREAD_TIMEOUT=18 for this process unless it is set, so call it before there are
  /// other threads. OpenBLAS's own then spin for 0.1 ms after a call. By default they spin for 25
  /// ms, which would be taken from whatever is measured next.
  [[nodiscard]] static Loaded load();

  /// Version and kernels as OpenBLAS reports them, e.g. "OpenBLAS 0.3.21 ... Cooperlake
  /// MAX_THREADS=64".
  [[nodiscard]] const std::string& version() const noexcept;

  void set_threads(int threads) const;

  /// By cblas_sgemv where n is 1, else by cblas_sgemm. Throws InvalidArgument for a size over 2^31
  /// - 1.
  void multiply(const DenseProblem& problem) const;

  /// Every way that may be the fastest, as blas_calls() has them; the library must outlive them.
  [[nodiscard]] std::vector<DenseCall> calls(const DenseProblem& problem) const;

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
