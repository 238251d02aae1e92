#include "compiler/cuda_compile_record.hpp"

#include <fmt/format.h>

#include "base/json_text.hpp"
#include "compiler/compile_record.hpp"
#include "kernels/unrolled_cuda/cuda_artifact.hpp"
#include "kernels/unrolled_cuda/cuda_prior.hpp"
#include "kernels/unrolled_cuda/cuda_record.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"

namespace spjit {
namespace {

using nlohmann::json;

json device_json(const CudaDeviceInfo& limits) {
  return {{"name", limits.name()},
          {"product", limits.product},
          {"arch", limits.arch},
          {"sms", limits.sms},
          {"l2_bytes", limits.l2_bytes}};
}

json attempts_json(const std::vector<CudaAttempt>& attempts) {
  json list = json::array();
  for (const CudaAttempt& attempt : attempts) {
    list.push_back({{"min_blocks", attempt.min_blocks},
                    {"register_cap", attempt.register_cap},
                    {"registers", attempt.registers},
                    {"spilled_bytes", attempt.spilled_bytes},
                    {"build_ms", attempt.build_ms}});
  }
  return list;
}

json search_json(const CompileOptions& options, const CudaTrace& trace) {
  json search;
  if (trace.choice.search.entries.empty()) {
    search = {{"mode", std::string(to_string(options.search))},
              {"ranked_by", k_cuda_prior_name},
              {"timed", false}};
  } else {
    search = to_json(trace.choice.search);
  }
  search["reason"] = trace.choice.reason;
  search["space"] = to_json(trace.choice.space);
  return search;
}

json resources_json(const CudaTrace& trace) {
  const CudaAttempt& kept = trace.attempts.back();
  const RegisterPrediction& predicted = trace.choice.chosen.registers;
  return {{"predicted_registers", predicted.total()},
          {"predicted",
           {{"accumulators", predicted.accumulators},
            {"b_in_flight", predicted.b_in_flight},
            {"addressing", predicted.addressing}}},
          {"registers", kept.registers},
          {"register_cap", kept.register_cap},
          {"spilled_bytes", kept.spilled_bytes},
          {"active_blocks", trace.occupancy.active_blocks},
          {"active_warps", trace.occupancy.active_warps},
          {"code_bytes", trace.code_bytes},
          {"estimated_code_bytes", trace.choice.chosen.code_bytes}};
}

double build_ms(const CudaTrace& trace) {
  double total = 0;
  for (const CudaAttempt& attempt : trace.attempts) total += attempt.build_ms;
  return total;
}

std::int64_t count_in(const json& resources, const char* key) {
  constexpr std::int64_t k_most = std::int64_t{1} << 48;
  return json_integer(resources.at(key), key, 0, k_most);
}

}  // namespace

json make_cuda_record(const CsrMatrix& matrix, const CompileOptions& options,
                      const CudaDeviceInfo& limits, const CompiledCuda& compiled,
                      const Cancellation& cancel) {
  const CudaTrace& trace = compiled.trace;
  return {
      {"spjit", SPJIT_VERSION},
      {"target", options.target.name()},
      {"device", device_json(limits)},
      {"matrix", matrix_json(matrix, cancel)},
      {"kind", "cuda"},
      {"program", to_json(compiled.program)},
      {"tile", to_json(trace.choice.chosen.tile)},
      {"grouping", to_json(trace.choice.chosen.grouping)},
      {"reorder", std::string(to_string(options.reorder))},
      {"search", search_json(options, trace)},
      {"resources", resources_json(trace)},
      {"attempts", attempts_json(trace.attempts)},
      {"compiled_from", trace.compiled_from},
      {"toolchain", trace.toolchain},
      {"units", trace.units},
      {"code_budget_bytes", options.code_budget_bytes},
      {"note", trace.note},
      {"compile_ms",
       {{"group", trace.choice.group_ms}, {"emit", trace.emit_ms}, {"build", build_ms(trace)}}}};
}

CudaKernelInfo read_cuda_record(const json& record) {
  try {
    const CudaProgram program = read_cuda_program(record.at("program"));
    const json& resources = record.at("resources");
    CudaKernelInfo info;
    info.target = Target::parse(fmt::format("sm_{}", program.arch));
    info.device = record.at("device").at("product").get<std::string>();
    info.arch = static_cast<int>(program.arch);
    info.rows = program.rows;
    info.cols = program.cols;
    info.n = program.n;
    info.ldb = program.ldb;
    info.ldc = program.ldc;
    info.nnz = program.nnz;
    info.runtime_sizes = program.runtime_sizes;
    info.tile = record.at("tile").at("name").get<std::string>();
    info.reason = record.at("search").at("reason").get<std::string>();
    info.compiled_from = record.at("compiled_from").get<std::string>();
    info.toolchain = record.at("toolchain").get<std::string>();
    info.threads = program.threads;
    info.blocks_x = program.blocks_x;
    info.blocks_y = program.blocks_y(program.n);
    info.predicted_registers = count_in(resources, "predicted_registers");
    info.registers = count_in(resources, "registers");
    info.spilled_bytes = count_in(resources, "spilled_bytes");
    info.active_blocks = count_in(resources, "active_blocks");
    info.code_bytes = count_in(resources, "code_bytes");
    info.note = record.at("note").get<std::string>();
    return info;
  } catch (const json::exception& error) {
    throw Error(fmt::format("the record is not one of a CUDA kernel: {}", error.what()));
  }
}

}  // namespace spjit
