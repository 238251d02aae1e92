#pragma once

/// @file
/// Constants of a GPU that a clock of machine code takes, measured by small kernels.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/gpu_constants/micro_device.hpp"
#include "bench/gpu_constants/readings.hpp"
#include "runtime/cuda/cuda_context.hpp"

namespace spjit::bench {

/// One number. Cycles are the SM's.
struct Constant {
  std::string name;             ///< "fp32_interval"
  std::optional<double> value;  ///< none: rehearsed, or `failure`
  std::string unit;             ///< "cycles"
  std::string source;           ///< how it was measured
  double low = 0;               ///< least and
  double high = 0;              ///< greatest of the launches that `value` is the median of
  std::string failure;          ///< why there is no value; or empty
};

struct ConstantsResult {
  std::vector<Constant> constants;
  /// Cycles an instruction of a warp takes in straight lines: one warp, and one a partition.
  std::vector<FetchPoint> one_warp;
  std::vector<FetchPoint> four_warps;
  FetchPoint one_sm;  ///< the longest line, four warps on one SM alone
  /// Copies of the longest line in turn, one warp a partition: `code_bytes` is of all copies.
  std::vector<FetchPoint> in_turn;
};

/// Measures on the device. What fails is in its constant; after a fault of the device all that
/// follow fail. With `rehearse` every kernel runs and its clocks are looked at, no value is kept.
[[nodiscard]] ConstantsResult measure_constants(const CudaContext& context,
                                                const std::vector<std::string>& cubins,
                                                const ConstantSizes& sizes, bool rehearse);

/// The members `constants`, `spread`, `fetch_curve` and `fetch_in_turn` of schema
/// "spjit-gpu-constants-1".
[[nodiscard]] nlohmann::json to_json(const ConstantsResult& result);
[[nodiscard]] std::string constants_table(const ConstantsResult& result);

}  // namespace spjit::bench
