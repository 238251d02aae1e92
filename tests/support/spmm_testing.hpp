#pragma once

/// @file
/// What the tests of kernels share: operands, the oracle, temporary places, guarded memory.

#include <sys/mman.h>
#include <unistd.h>

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
#include <vector>

#include "compiler/host_tile.hpp"
#include "compiler/kernel_plan.hpp"
#include "compiler/reference.hpp"
#include "reorder/row_grouping.hpp"
#include "spjit/generate.hpp"
#include "spjit/matrix.hpp"
#include "spjit/target.hpp"

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

/// Names the tests of a suite by the instruction set that is their parameter.
inline constexpr auto isa_name = [](const auto& parameter) { return to_string(parameter.param); };

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

/// Floats that end where an unmapped page begins and start right behind another: an access past
/// the last is a crash. The pages' other bytes hold a pattern, which `intact()` checks.
class GuardedFloats {
 public:
  explicit GuardedFloats(std::int64_t count) : count_(index(count)) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t used = (count_ * sizeof(float) + page - 1) / page * page;
    bytes_ = used + 2 * page;
    void* memory = ::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("mmap");
    base_ = static_cast<std::byte*>(memory);
    if (used > 0 && ::mprotect(base_ + page, used, PROT_READ | PROT_WRITE) != 0) {
      throw std::runtime_error("mprotect");
    }
    head_ = {base_ + page, used - count_ * sizeof(float)};
    data_ = reinterpret_cast<float*>(head_.data() + head_.size());
    std::ranges::fill(head_, k_pattern);
  }
  GuardedFloats(const GuardedFloats&) = delete;
  GuardedFloats& operator=(const GuardedFloats&) = delete;
  ~GuardedFloats() { ::munmap(base_, bytes_); }

  [[nodiscard]] std::span<float> span() noexcept { return {data_, count_}; }
  [[nodiscard]] float* data() noexcept { return data_; }
  /// Whether nothing was written in front of the floats.
  [[nodiscard]] bool intact() const {
    return std::ranges::all_of(head_, [](std::byte b) { return b == k_pattern; });
  }

 private:
  static constexpr std::byte k_pattern{0xA5};
  std::size_t count_;
  std::size_t bytes_ = 0;
  std::byte* base_ = nullptr;
  std::span<std::byte> head_;
  float* data_ = nullptr;
};

/// Where the real matrices are; tests skip what is not there.
[[nodiscard]] inline std::filesystem::path data_directory() {
  const char* chosen = std::getenv("SPJIT_TEST_DATA");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  return std::filesystem::path(SPJIT_SOURCE_DIR) / ".." / "shared" / "data";
}

}  // namespace spjit::testing_support
