#pragma once

/// @file
/// Golden files: emitted text in tests/golden/. Text that changes without its version fails; run
/// the test with SPJIT_UPDATE_GOLDEN=1 after raising the version.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/cuda/emitter_cases.hpp"

namespace spjit::testing_support {

struct GoldenCase {
  std::string name;
  KernelPlan plan;
  CudaKernelSpec spec;
};

/// Small matrices: one unit, several units, run-time sizes with unusual values, values at run
/// time, and several tiles a block that pass tokens.
[[nodiscard]] inline std::vector<GoldenCase> golden_cases() {
  std::vector<GoldenCase> cases;
  CudaKernelSpec small = cuda_spec(2, 48);
  small.min_blocks = 4;
  cases.push_back({"small", cuda_plan(small_matrix(), 2), small});
  CudaKernelSpec units = cuda_spec(4, 40);
  units.ldb = 64;
  units.tile.unit_nonzeros = 12;
  cases.push_back({"units", cuda_plan(random_matrix(9, 12, 0.7), 4), units});
  CsrMatrix matrix{3, 8, {0, 8, 8, 16}, {}, unusual_values()};
  matrix.values.resize(16);
  for (std::int32_t i = 0; i < 16; ++i) matrix.col_idxs.push_back(i % 8);
  CudaKernelSpec runtime = cuda_spec(2, 40);
  runtime.tile.runtime_sizes = true;
  cases.push_back({"runtime", cuda_plan(matrix, 2), runtime});
  CudaKernelSpec values = cuda_spec(4, 40);
  values.tile.unit_nonzeros = 20;
  values.layer.runtime_values = true;
  cases.push_back({"values", cuda_plan(random_matrix(9, 12, 0.7), 4), values});
  CudaKernelSpec tiles = cuda_spec(2, 40);
  tiles.tile.tiles_a_block = 2;
  tiles.layer.b_layout = tiles.layer.c_layout = Layout::tokens_major;
  cases.push_back({"tiles", cuda_plan(small_matrix(), 2), tiles});
  return cases;
}

[[nodiscard]] inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Compares the units' texts, one after another, with the golden file; its first line is the
/// version it was written with.
inline void expect_golden(const std::string& name, const std::vector<SourceUnit>& units,
                          int version) {
  const std::filesystem::path path =
      std::filesystem::path(SPJIT_SOURCE_DIR) / "tests" / "golden" / name;
  const std::string first_line = "// golden: emitter version " + std::to_string(version) + "\n";
  std::string actual = first_line;
  for (const SourceUnit& unit : units) actual += "// unit " + unit.name + "\n" + unit.text;

  const std::string expected = read_text(path);
  const bool same_version = expected.starts_with(first_line);
  const char* update = std::getenv("SPJIT_UPDATE_GOLDEN");
  if (update != nullptr && *update != '\0' && !same_version) {
    std::ofstream(path, std::ios::binary) << actual;
    return;
  }
  ASSERT_TRUE(same_version) << path << " is of another version than " << version
                            << "; look at the change, then run with SPJIT_UPDATE_GOLDEN=1";
  EXPECT_EQ(actual, expected) << path << ": the text changed but the emitter's version did not; "
                              << "raise it, then run with SPJIT_UPDATE_GOLDEN=1";
}

}  // namespace spjit::testing_support
