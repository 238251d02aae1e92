#pragma once

/// @file
/// One matrix, n and number of threads: checked, then measured beside its peers.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/timing.hpp"
#include "bench/host/workloads.hpp"
#include "spjit/matrix.hpp"
#include "spjit/target.hpp"
#include "tests/support/float64_check.hpp"
#include "tools/peers/peers.hpp"

namespace spjit::bench {

/// What is the same for all cases of a run.
struct CaseSettings {
  Target target;
  std::optional<OpenBlas> openblas;
  double budget_ms = 400;                 ///< of timing, a case
  std::filesystem::path cache_directory;  ///< scratch: emptied before each cold compile
};

struct CaseShape {
  std::int64_t n = 0;
  int threads = 1;
};

/// What a case measured.
struct CaseResult {
  std::string matrix;
  std::string source;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t nnz = 0;
  std::int64_t n = 0;
  int threads = 1;
  std::string kind;  ///< "unrolled" or "csr"
  std::string tile;
  std::int64_t code_bytes = 0;
  double peak_gflops = 0;      ///< of one core: the better of before and after the case
  double cold_compile_ms = 0;  ///< Compiler made, nothing cached, entry published, kernel callable;
  ///< median of 3, but for matrices of 500k nonzeros and more of 1
  double encode_ms = 0;               ///< of that: plan and code
  double warm_hit_ms = 0;             ///< compile() with the entry cached; median of several
  TimingResult kernel;                ///< through the public interface, B and C row-major
  TimingResult csr;                   ///< hand-written CSR
  std::optional<TimingResult> dense;  ///< OpenBLAS on A with its zeros
  ErrorReport error;                  ///< of the kernel against float64

  [[nodiscard]] double sparsity() const noexcept;
  /// 2 nnz n / median. [GFLOP/s]
  [[nodiscard]] double gflops(const TimingResult& timing) const noexcept;
  /// The same over the peak of the cores used.
  [[nodiscard]] double peak_share(const TimingResult& timing) const noexcept;
};

/// Compiles, checks the result (against float64 within the rounding bound, and the bits against
/// those of the CSR kernel), then times. Throws Error if a result is wrong or a cached entry is not
/// found again.
[[nodiscard]] CaseResult run_case(const CaseSettings& settings, const Workload& workload,
                                  const CsrMatrix& matrix, const CaseShape& shape);

}  // namespace spjit::bench
