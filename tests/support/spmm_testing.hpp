#pragma once

/// @file
/// Helpers of tests of kernels: operands, the oracle, temporary places.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/host/unrolled/host_tile.hpp"
#include "plan/kernel_plan.hpp"
#include "reorder/row_grouping.hpp"
#include "spjit/generate.hpp"
#include "spjit/matrix.hpp"
#include "spjit/target.hpp"
#include "tests/support/evaluate.hpp"
#include "tests/support/guarded_memory.hpp"

namespace spjit::testing_support {

[[nodiscard]] inline std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

/// Whether this build can compile for `isa` and this CPU run it.
[[nodiscard]] inline bool compiles_and_runs(HostIsa isa) {
#ifndef SPJIT_HAVE_LLVM
  if (isa == HostIsa::generic) return false;
#endif
  return Target(isa).runs_here();
}

/// Those of the instruction sets that compile and run here, best first.
[[nodiscard]] inline std::vector<HostIsa> isas_here() {
  std::vector<HostIsa> result;
  for (const HostIsa isa : {HostIsa::avx512, HostIsa::avx2, HostIsa::generic}) {
    if (compiles_and_runs(isa)) result.push_back(isa);
  }
  return result;
}

/// A tile of `m1` rows and `nv` vectors; `k_block` 0: all columns.
[[nodiscard]] inline HostTile host_tile(std::int64_t m1, std::int64_t nv = 1,
                                        std::int64_t k_block = 0) {
  HostTile tile;
  tile.m1 = m1;
  tile.nv = nv;
  tile.k_block = k_block;
  return tile;
}

/// The parameter of a suite whose tests run for instruction sets, with operands against guard pages
/// at either end.
using IsaAndPlacement = std::tuple<HostIsa, GuardPlacement>;

/// "avx512_at_end"
inline constexpr auto isa_and_placement = [](const auto& parameter) {
  const auto& [isa, placement] = parameter.param;
  return to_string(isa) + "_" + to_string(placement);
};

/// Seeded values in [-1, 1), none of them 0.
[[nodiscard]] inline std::vector<float> dense_values(std::int64_t count, std::uint64_t seed = 7) {
  GenerateOptions options;
  options.rows = std::max<std::int64_t>(count, 1);
  options.cols = 1;
  options.sparsity = 0;
  options.seed = seed;
  std::vector<float> values = generate_matrix(options).values;
  values.resize(index(count));
  return values;
}

[[nodiscard]] inline CsrMatrix random_matrix(std::int64_t rows, std::int64_t cols, double sparsity,
                                             std::uint64_t seed = 1) {
  GenerateOptions options;
  options.rows = rows;
  options.cols = cols;
  options.sparsity = sparsity;
  options.seed = seed;
  return generate_matrix(options);
}

/// 5 x 5 with an empty row, an empty column and 7 entries 1 .. 7.
[[nodiscard]] inline CsrMatrix small_matrix() {
  return {5, 5, {0, 2, 2, 3, 6, 7}, {0, 3, 1, 0, 1, 4, 3}, {1, 2, 3, 4, 5, 6, 7}};
}

/// Equal bit for bit, but any NaN equals any NaN: which one comes out is the CPU's business.
[[nodiscard]] inline bool same_value(float left, float right) {
  if (std::isnan(left) || std::isnan(right)) return std::isnan(left) && std::isnan(right);
  return std::bit_cast<std::uint32_t>(left) == std::bit_cast<std::uint32_t>(right);
}

[[nodiscard]] inline bool same_bits(std::span<const float> left, std::span<const float> right) {
  return std::ranges::equal(left, right, same_value);
}

/// The evaluator's C `[rows x n]`, contiguous, from B with a leading dimension. Every plan of a
/// matrix gives the same bits, so the plan is the simplest one.
[[nodiscard]] inline std::vector<float> reference_product(const CsrMatrix& matrix, HostIsa isa,
                                                          const float* b, std::int64_t ldb,
                                                          std::int64_t n) {
  std::vector<float> c(index(matrix.rows * n));
  const KernelPlan plan = build_plan(matrix, group_rows(matrix, 4, ReorderAlgorithm::none),
                                     std::max<std::int64_t>(matrix.cols, 1));
  evaluate(plan, arithmetic_of(isa), {b, ldb, c.data(), n, n});
  return c;
}

/// So that a test may damage what a cache published: that is read-only.
inline void make_writable(const std::filesystem::path& file) {
  std::filesystem::permissions(file, std::filesystem::perms::owner_write,
                               std::filesystem::perm_options::add);
}

/// A directory of its own that vanishes with all it holds.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "spjit-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp: " + name);
    path_ = name;
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// Where the real matrices are; tests skip what is not there.
[[nodiscard]] inline std::filesystem::path data_directory() {
  const char* chosen = std::getenv("SPJIT_TEST_DATA");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  return std::filesystem::path(SPJIT_SOURCE_DIR) / ".." / "shared" / "data";
}

}  // namespace spjit::testing_support
