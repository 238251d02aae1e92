#pragma once

/// @file
/// Kernels timed on a GPU.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/timing.hpp"
#include "bench/gpu/cubin_folder.hpp"
#include "spjit/compiler.hpp"
#include "spjit/kernel.hpp"
#include "spjit/matrix.hpp"

namespace spjit::bench {

/// One multiplication to time.
struct GpuCase {
  std::string name;
  Problem problem;
  CompileOptions options;
};

/// What became of it.
struct GpuResult {
  std::string name;
  KernelInfo info;
  std::int64_t driver_active_blocks = 0;
  TimingResult timing;   ///< of one launch
  double max_error = 0;  ///< largest |C - float64| over its rounding bound; at most 1 if right
  std::string failure;   ///< why there is no time; or empty
};

struct GpuBenchOptions {
  int device = 0;
  double budget_ms = 300;   ///< of timing, a case
  bool check_only = false;  ///< launch and compare, time nothing
  /// Where cubins come from, or are compiled to; null: they are compiled when they are needed.
  std::shared_ptr<CubinFolder> cubins = nullptr;
  std::size_t most_tiles = 0;  ///< of a search, spread over the ranking; 0: all
};

/// Compiles, checks against float64 and times one case. A failure is a result.
[[nodiscard]] GpuResult run_case(const GpuCase& item, const GpuBenchOptions& options);

/// Compiles the kernel of a case into the options' folder. Throws as Compiler::compile().
void fill_case(const GpuCase& item, const GpuBenchOptions& options);

/// Time against code bytes at the same FLOPs: m = 64 .. 8192 rows of 128 nonzeros out of k = 256
/// columns, m n constant, so that blocks, loads, FMAs and C stay the same while code grows
/// 128-fold. For N1 = 128 and 512: the more warps share a block, the less fetching code should
/// cost.
[[nodiscard]] std::vector<GpuCase> code_bytes_cases(const CompileOptions& base);

/// Shapes of the DLMC collection at 50 to 98 % sparsity, uniform patterns.
[[nodiscard]] std::vector<GpuCase> shape_cases(const CompileOptions& base);

/// 2 nnz n / time. [GFLOP/s]
[[nodiscard]] double gflops(const GpuResult& result);

[[nodiscard]] nlohmann::json to_json(const GpuResult& result);
[[nodiscard]] std::string result_table(const std::string& title,
                                       const std::vector<GpuResult>& results);

}  // namespace spjit::bench
