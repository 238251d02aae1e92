#pragma once

/// @file
/// One case of the soak: a matrix, what a kernel is made for and how it is run. A value, so that a
/// failing case can be made smaller member by member.

#include <cstdint>
#include <string>

#include "spjit/compiler.hpp"
#include "spjit/matrix.hpp"
#include "spjit/reorder.hpp"
#include "spjit/target.hpp"

namespace spjit::soak {

/// How B and C lie, and by which way the kernel is reached.
enum class Route : std::uint8_t {
  rows,    ///< row-major operands with leading dimensions
  panels,  ///< panel-major operands
  cached,  ///< row-major; the kernel is published, and loaded by a second Compiler
  object,  ///< row-major; the kernel is written to an object and loaded from it
  ptx,     ///< CUDA: PTX on the emulated driver
};

[[nodiscard]] const char* to_string(Route route);

/// Properties that only PTX kernels have.
struct PtxTile {
  std::int64_t m1 = 8;
  std::int64_t n1 = 32;
  std::int64_t unit_nonzeros = 2048;
  bool runtime_sizes = false;
};

struct SoakCase {
  std::uint64_t seed = 0;  ///< of the operands' values; also what the case was drawn from
  CsrMatrix matrix;
  Route route = Route::rows;
  HostIsa isa = HostIsa::generic;  ///< not of ptx
  std::int64_t n = 1;
  std::int64_t compiled_ldb = 0;  ///< what the kernel is told to expect; 0: n
  std::int64_t ldb = 1;           ///< of the run
  std::int64_t ldc = 1;
  int threads = 1;
  std::int64_t panel_vectors = 0;  ///< fixes the panel's width; 0: chosen
  bool no_code = false;            ///< no code budget: the CSR kernel
  bool hot = false;                ///< the choice is for warm caches
  bool special_values = false;     ///< infinities, NaN, -0, denormals among A and B
  ReorderAlgorithm reorder = ReorderAlgorithm::none;
  SearchMode search = SearchMode::instant;
  PtxTile ptx;
};

/// The case of a seed: the same on every machine that has the same instruction sets.
[[nodiscard]] SoakCase draw_case(std::uint64_t seed);

/// B's element in this row and column.
[[nodiscard]] float b_value(const SoakCase& item, std::int64_t row, std::int64_t column);

/// "avx512 rows 12 x 40 nnz 31 n 17 ldb 17 ldc 20 threads 2 ..." in one line.
[[nodiscard]] std::string describe(const SoakCase& item);

}  // namespace spjit::soak
