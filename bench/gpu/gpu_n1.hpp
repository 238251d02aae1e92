#pragma once

/// @file
/// One matrix at several N1: whether fetching code or L2 limits its kernel.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/gpu/fetch_fit.hpp"
#include "bench/gpu/gpu_case.hpp"

namespace spjit::bench {

/// The N1 that are compared: 1, 2, 4 and 8 warps a block.
inline constexpr std::int64_t k_compared_n1[] = {32, 64, 128, 256};

/// One of them: a tile of 32 rows, one a block.
struct N1Point {
  std::int64_t n1 = 0;
  std::string tile;
  double us = 0;  ///< 0: not timed
  std::int64_t code_bytes = 0;
  /// Code that all blocks fetch, each the code of its row tile once. [bytes] Counted, not measured.
  double fetched_bytes = 0;
  /// B that all blocks load, each row of B that a row tile needs once. [bytes] Counted.
  double loaded_bytes = 0;
  std::string problem;  ///< why it has no time; or empty
};

struct N1Result {
  std::string name;
  std::int64_t nnz = 0;
  std::int64_t n = 0;
  bool timed = true;  ///< false: rehearsed
  std::vector<N1Point> points;
  std::optional<FetchFit> fit;
  std::string failure;  ///< why there is no result; or empty
};

/// Times the matrix's kernels against each other; in a folder that is to be filled it only compiles
/// them. A failure is a result. That kernels are right the `gpu` tests say: their results are not
/// compared here.
[[nodiscard]] N1Result run_n1(const GpuCase& item, const GpuBenchOptions& options);

/// 2048x512 at 90 %, n = 4096: 2 MB of code; with `check_only` a small one.
[[nodiscard]] std::vector<GpuCase> n1_cases(const CompileOptions& base, bool check_only);

[[nodiscard]] nlohmann::json to_json(const N1Result& result);
[[nodiscard]] std::string n1_table(const N1Result& result);

}  // namespace spjit::bench
