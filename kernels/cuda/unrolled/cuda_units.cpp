#include "kernels/cuda/unrolled/cuda_units.hpp"

#include <algorithm>

#include "base/arithmetic.hpp"
#include "kernels/cuda/code/activation_code.hpp"
#include "kernels/cuda/cuda_rules.hpp"
#include "kernels/cuda/unrolled/cuda_patches.hpp"
#include "kernels/cuda/unrolled/value_stream.hpp"

namespace spjit {
namespace {

/// Prologue, return, and what code is padded with.
constexpr std::int64_t k_function_instructions = 16;

std::int64_t epilogue_instructions(const Epilogue& epilogue) {
  return (epilogue.scale ? 2 : 0) + (epilogue.bias ? 2 : 0) + (epilogue.residual ? 3 : 0) +
         activation_instructions(epilogue.activation);
}

std::int64_t tile_nonzeros(const KernelPlan& plan, std::int64_t tile) {
  const PlanSegment segment = plan.segment(tile, 0);
  return plan.entry_ptrs[static_cast<std::size_t>(segment.column_end)] -
         plan.entry_ptrs[static_cast<std::size_t>(segment.column_begin)];
}

}  // namespace

std::int64_t count_functions(const KernelPlan& plan) {
  return count_functions(plan.grouping.tiles(), plan.grouping.empty_rows.count());
}

std::int64_t count_functions(std::int64_t row_tiles, std::int64_t empty_rows) {
  return row_tiles + (empty_rows + k_zero_rows - 1) / k_zero_rows;
}

std::string function_name(std::int64_t function) {
  return "spjit_tile_" + std::to_string(function);
}

std::vector<std::int32_t> zero_rows(const KernelPlan& plan, std::int64_t function) {
  return plan.grouping.empty_rows.list((function - plan.grouping.tiles()) * k_zero_rows,
                                       k_zero_rows);
}

std::vector<UnitRange> cut_into_units(const KernelPlan& plan, std::int64_t unit_nonzeros) {
  std::vector<UnitRange> units;
  std::int64_t work = 0;
  for (std::int64_t function = 0; function < count_functions(plan); ++function) {
    const bool zeros = function >= plan.grouping.tiles();
    const std::int64_t nonzeros = zeros ? 0 : tile_nonzeros(plan, function);
    const std::int64_t added = zeros ? std::ssize(zero_rows(plan, function)) : nonzeros;
    if (units.empty() || work + added > unit_nonzeros) {
      units.push_back({function, function, 0});
      work = 0;
    }
    work += added;
    units.back().end = function + 1;
    units.back().nonzeros += nonzeros;
  }
  if (units.size() > 1) units.insert(units.begin(), UnitRange{});
  return units;
}

SourceUnit describe_unit(const KernelPlan& plan, std::span<const UnitRange> units,
                         const UnitRange& range, const CudaKernelSpec& spec) {
  const auto number = &range - units.data();
  SourceUnit unit;
  unit.name = number == 0 ? "spjit_kernel" : "spjit_unit_" + std::to_string(number);
  if (number == 0) unit.kernel = k_cuda_kernel_name;
  for (std::int64_t function = range.begin; function < range.end; ++function) {
    unit.functions.push_back(function_name(function));
  }
  unit.nonzeros = range.nonzeros;
  unit.estimated_code_bytes = estimate_code_bytes(plan, range, spec.tile.runtime_sizes, spec.layer);
  unit.relocatable = units.size() > 1;
  return unit;
}

std::int64_t argument_stack_bytes(const CudaKernelSpec& spec) {
  constexpr std::int64_t k_registers = 12;  // of arguments, with ptxas 13.0 on sm_75 to sm_120
  const Epilogue& epilogue = spec.layer.epilogue;
  const std::int64_t words =
      4 + (spec.layer.has_tokens() ? 2 : 0) + (spec.layer.runtime_values ? 2 : 0) +
      (spec.tile.runtime_sizes ? 2 : 0) + mask_words(spec.layer) + (epilogue.scale ? 2 : 0) +
      (epilogue.bias ? 2 : 0) + (epilogue.residual ? 3 : 0);
  return round_up(std::max<std::int64_t>(words - k_registers, 0) * 4, 8);
}

std::int64_t estimate_code_bytes(const CodeTotals& totals, bool runtime_sizes,
                                 const CudaLayer& layer) {
  const std::int64_t accesses = totals.nnc_sum + totals.rows;
  // The unit of the kernel has no function where others hold them all, but code of its own.
  const std::int64_t functions = std::max<std::int64_t>(totals.functions, 1);
  const std::int64_t loads = layer.runtime_values ? value_loads(totals.nonzeros) : 0;
  const std::int64_t instructions = totals.nonzeros + loads + accesses * (runtime_sizes ? 2 : 1) +
                                    mask_instructions(layer, totals.nnc_sum, functions) +
                                    totals.rows * epilogue_instructions(layer.epilogue) +
                                    functions * k_function_instructions;
  return instructions * k_cuda_instruction_bytes;
}

std::int64_t estimate_code_bytes(const KernelPlan& plan, const UnitRange& range, bool runtime_sizes,
                                 const CudaLayer& layer) {
  CodeTotals totals;
  totals.nonzeros = range.nonzeros;
  totals.functions = range.end - range.begin;
  for (std::int64_t function = range.begin; function < range.end; ++function) {
    if (function >= plan.grouping.tiles()) {
      totals.rows += std::ssize(zero_rows(plan, function));
      continue;
    }
    const PlanSegment segment = plan.segment(function, 0);
    if (layer.has_tokens_of_b()) {
      totals.stages += ceil_div(plan.cols, k_usual_stage_features);
    }
    totals.nnc_sum += segment.column_end - segment.column_begin;
    totals.rows += std::ssize(plan.tile_rows(function));
  }
  return estimate_code_bytes(totals, runtime_sizes, layer);
}

}  // namespace spjit
