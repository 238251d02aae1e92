#include "artifact/kernel_json.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "plan/convolution.hpp"
#include "plan/numerics.hpp"
#include "plan/problem.hpp"

namespace spjit {
namespace {

nlohmann::json describe_cuda(const CudaKernelInfo& cuda) {
  return {{"arch", cuda.arch},
          {"compiled_from", cuda.compiled_from},
          {"toolchain", cuda.toolchain},
          {"threads", cuda.threads},
          {"blocks_x", cuda.blocks_x},
          {"blocks_y", cuda.blocks_y},
          {"predicted_registers", cuda.predicted_registers},
          {"registers", cuda.registers},
          {"spilled_bytes", cuda.spilled_bytes},
          {"active_blocks", cuda.active_blocks}};
}

/// JSON has no infinity; null stands for the one of its side, and for what an activation has not.
nlohmann::json parameter(float value, bool has_it) {
  return has_it && std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

nlohmann::json describe_epilogue(const Epilogue& epilogue) {
  const Activation activation = epilogue.activation;
  nlohmann::json json = {{"scale", epilogue.scale},
                         {"bias", epilogue.bias},
                         {"residual", epilogue.residual},
                         {"activation", to_string(activation)},
                         {"low", parameter(epilogue.low, has_bounds(activation))},
                         {"high", parameter(epilogue.high, has_bounds(activation))},
                         {"alpha", parameter(epilogue.alpha, has_alpha(activation))},
                         {"beta", parameter(epilogue.beta, has_beta(activation))}};
  if (epilogue.bias_first) json["bias_first"] = true;
  return json;
}

}  // namespace

nlohmann::json verification_json(const Verification& verification) {
  if (verification.mode == VerifyMode::none) return nullptr;
  return {{"passed", true},  // else there would be no kernel
          {"mode", to_string(verification.mode)},
          {"max_abs_error", verification.max_abs_error},
          {"max_error_over_bound", verification.max_error_over_bound},
          {"rows_checked", verification.rows_checked},
          {"columns_checked", verification.columns_checked},
          {"complete", verification.complete()},
          {"check_ms", verification.check_ms}};
}

nlohmann::json info_json(const KernelInfo& info) {
  const nlohmann::json none(nullptr);
  nlohmann::json json = {
      {"family", info.family},
      {"target", info.target.name()},
      {"device", info.device},
      {"rows", info.rows},
      {"cols", info.cols},
      {"n", info.n},
      {"runtime_n", info.runtime_n},
      {"ldb", info.ldb},
      {"ldc", info.ldc},
      {"b_layout", to_string(info.b_layout)},
      {"c_layout", to_string(info.c_layout)},
      {"epilogue", describe_epilogue(info.epilogue)},
      {"runtime_values", info.runtime_values},
      {"convolution", info.convolution ? to_json(*info.convolution) : none},
      {"numerics", to_json(info.numerics)},
      {"nnz", info.nnz},
      {"threads", info.threads},
      {"tile", info.tile},
      {"reason", info.reason},
      {"code_bytes", info.code_bytes},
      {"weight_bytes", info.weight_bytes},
      {"panel_columns", info.panel_columns},
      {"cuda", info.cuda ? describe_cuda(*info.cuda) : none},
      {"key", info.key},
      {"from_cache", info.from_cache},
      {"cache_directory", info.from_cache ? nlohmann::json(info.cache_directory) : none},
      {"compile_ms", info.compile_ms},
      {"verification", verification_json(info.verification)},
      {"note", info.note},
      {"not_cached", info.not_cached}};
  if (info.group_columns > 0) json["group_columns"] = info.group_columns;
  return json;
}

}  // namespace spjit
