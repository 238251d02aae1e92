#pragma once

/// @file
/// The epilogue of a kernel that CudaCode writes, as the unrolled kernels have it.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/code/cuda_code.hpp"
#include "kernels/cuda/code/cuda_layer.hpp"

namespace spjit {

/// Reads the parameters of C and what the epilogue has: the pointers `c` and, moved to the block's
/// product `item`, a variable, `residual`, `scale` and `bias`.
void read_operands_of_c(CudaCode& code, const CudaLayer& layer, std::string_view item);

/// Loads what the epilogue has for a row, a variable, once for all its columns. Of several rows
/// each has a number.
void load_row_operands(CudaCode& code, const CudaLayer& layer, std::string_view row,
                       std::int64_t number = 0);

/// Sums c`first` to c`first + count - 1`, which lie side by side in C, all of one row or each of
/// the next. `c` and `residual` are pointers to the first; the latter is not looked at without a
/// residual.
struct SumsOfRow {
  std::int64_t first = 0;
  std::int64_t count = 1;
  CodePlace c;
  CodePlace residual = {};
  std::string guard = {};  ///< whether C has them; empty: it has
  std::int64_t row = 0;    ///< its number in load_row_operands(), or the first one's
  bool has_rows = false;   ///< each sum is of another row
};
/// The epilogue of sums of rows whose operands were loaded, and their stores. A residual may be C:
/// all of it is read before any is written.
void finish_sums(CudaCode& code, const CudaLayer& layer, std::span<const SumsOfRow> all);

/// "c3", "c4": names of so many sums from one on.
[[nodiscard]] std::vector<std::string> sum_names(std::int64_t first, std::int64_t count);

}  // namespace spjit
