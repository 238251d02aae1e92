#pragma once

/// @file
/// How the code of a CUDA kernel is divided: into functions, one a value of blockIdx.x, and the
/// functions into units of bounded size, each a source text for NVIDIA's compilers. Both emitters
/// divide alike.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/cancel.hpp"
#include "kernels/cuda/build/cuda_build.hpp"
#include "kernels/cuda/unrolled/cuda_tile.hpp"
#include "plan/kernel_plan.hpp"

namespace spjit {

/// Empty rows one function writes as zeros: enough that its block is not all overhead.
inline constexpr std::int64_t k_zero_rows = 64;

/// Functions 0 .. tiles - 1 are the row tiles, those after them write the empty rows, k_zero_rows
/// each.
[[nodiscard]] std::int64_t count_functions(const KernelPlan& plan);

/// Number of functions, from counts alone.
[[nodiscard]] std::int64_t count_functions(std::int64_t row_tiles, std::int64_t empty_rows);

/// "spjit_tile_7": a name made of nothing but the function's number.
[[nodiscard]] std::string function_name(std::int64_t function);

/// The empty rows that function `function` >= tiles writes.
[[nodiscard]] std::vector<std::int32_t> zero_rows(const KernelPlan& plan, std::int64_t function);

/// Functions [begin, end) that are compiled together.
struct UnitRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t nonzeros = 0;
};

/// Cuts the functions, in their order, into units of at most `unit_nonzeros` FMAs and stores of
/// zeros; a function that has more by itself is a unit of its own. One range where all of them fit;
/// else the first range is empty: the unit of the kernel, which only calls.
[[nodiscard]] std::vector<UnitRange> cut_into_units(const KernelPlan& plan,
                                                    std::int64_t unit_nonzeros);

/// The unit of one of the ranges: all but language and text.
[[nodiscard]] SourceUnit describe_unit(const KernelPlan& plan, std::span<const UnitRange> units,
                                       const UnitRange& range, const CudaKernelSpec& spec);

/// Units of emitting, as CancelPace counts them, of a column with its entries and of a unit
/// besides.
inline constexpr std::int64_t k_cuda_column_work = 64;
inline constexpr std::int64_t k_cuda_unit_work = 1024;

/// The units of all ranges, in their order. `emit` makes one.
template <class Emit>
[[nodiscard]] std::vector<SourceUnit> emit_units(std::span<const UnitRange> ranges,
                                                 CancelPace& pace, const Emit& emit) {
  std::vector<SourceUnit> units;
  for (const UnitRange& range : ranges) {
    pace.spend(k_cuda_unit_work);
    units.push_back(emit(range));
  }
  return units;
}

/// Features of a stage for most n1: what code is estimated with.
inline constexpr std::int64_t k_usual_stage_features = 16;

/// Counts that the size of code depends on.
struct CodeTotals {
  std::int64_t nonzeros = 0;
  std::int64_t nnc_sum = 0;    ///< non-empty columns, over row tiles
  std::int64_t rows = 0;       ///< written, empty ones among them
  std::int64_t functions = 0;  ///< row tiles and parts of the empty rows
  std::int64_t stages = 0;     ///< times that tokens of B pass through shared memory
};

/// Bytes of a thread's stack that arguments of a tile function take: those beyond the registers of
/// the calling convention. Of functions that are called, as all of PTX and those of several units.
[[nodiscard]] std::int64_t argument_stack_bytes(const CudaKernelSpec& spec);

/// Bytes of machine code, 16 for each instruction (sm_70 and later): 16 to 32 for a nonzero.
/// Counted are
/// - an FMA a nonzero; of values at run time also a load for four of them
/// - a load a column and a store a row; with runtime sizes also an address for each
/// - predicates of a convolution's loads
/// - the epilogue a row, and a fixed part a function
[[nodiscard]] std::int64_t estimate_code_bytes(const CodeTotals& totals, bool runtime_sizes,
                                               const CudaLayer& layer = {});

/// Estimated bytes of functions [begin, end) of a plan.
[[nodiscard]] std::int64_t estimate_code_bytes(const KernelPlan& plan, const UnitRange& range,
                                               bool runtime_sizes, const CudaLayer& layer = {});

}  // namespace spjit
