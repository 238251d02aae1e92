// Matrices that are wide, tall or lopsided: work and memory follow their entries, and a deadline
// holds all along the way.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "kernels/host/unrolled/host_choice.hpp"
#include "kernels/host/unrolled/tile_space.hpp"
#include "plan/kernel_plan.hpp"
#include "reorder/row_grouping.hpp"
#include "reorder/row_groupings.hpp"
#include "spjit/compiler.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/long_tests.hpp"
#include "tests/support/request_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t k_widest = 2147483647;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool k_sanitized = true;
#else
constexpr bool k_sanitized = false;
#endif

/// Columns of every row moved to the right, the last of them to the last column.
CsrMatrix stretched(CsrMatrix matrix, std::int64_t cols) {
  for (std::int32_t& column : matrix.col_idxs) {
    column = static_cast<std::int32_t>(cols - 1 - (matrix.cols - 1 - column) * (cols / 1024));
  }
  matrix.cols = cols;
  return matrix;
}

/// Runs `work` in a process that gets `bytes` more memory than it has; why it failed, or empty.
std::string problem_within(std::int64_t bytes, const std::function<bool()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    rlimit limit{};
    // Address space, of which a process has more than memory.
    limit.rlim_cur = limit.rlim_max = static_cast<rlim_t>(bytes) + (rlim_t{2} << 30);
    if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(3);
    try {
      ::_exit(work() ? 0 : 1);
    } catch (const std::exception&) {
      ::_exit(2);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? "" : "status " + std::to_string(status);
}

/// Memory of which only what is asked for may be touched.
class GuardedMemory {
 public:
  explicit GuardedMemory(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)) {
    constexpr int k_flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    memory_ = ::mmap(nullptr, bytes_, PROT_NONE, k_flags, -1, 0);
  }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  ~GuardedMemory() { ::munmap(memory_, bytes_); }

  [[nodiscard]] bool mapped() const { return memory_ != MAP_FAILED; }
  [[nodiscard]] float* floats() const { return static_cast<float*>(memory_); }

  /// The pages of `count` floats from the `first` on may be read and written.
  void allow(std::int64_t first, std::int64_t count) const {
    constexpr std::int64_t k_page = 4096;
    const std::int64_t begin = first * 4 / k_page * k_page;
    const std::int64_t end = (first + count) * 4;
    ::mprotect(static_cast<char*>(memory_) + begin, static_cast<std::size_t>(end - begin),
               PROT_READ | PROT_WRITE);
  }

 private:
  std::size_t bytes_;
  void* memory_;
};

TEST(WideMatrix, IsGroupedAndPlannedAsItsColumnsCloseTogether) {
  const CsrMatrix close = random_matrix(200, 1000, 0.97);
  const CsrMatrix wide = stretched(close, k_widest);
  for (const auto algorithm :
       {ReorderAlgorithm::none, ReorderAlgorithm::balanced, ReorderAlgorithm::similarity}) {
    SCOPED_TRACE(to_string(algorithm));
    const RowGrouping grouping = group_rows(close, 14, algorithm);

    const RowGrouping of_wide = group_rows(wide, 14, algorithm);
    const KernelPlan plan = build_plan(close, grouping, close.cols);
    const KernelPlan plan_of_wide = build_plan(wide, of_wide, wide.cols);

    EXPECT_EQ(of_wide.rows, grouping.rows);
    EXPECT_EQ(of_wide.tile_ptrs, grouping.tile_ptrs);
    EXPECT_EQ(compute_statistics(wide, of_wide).nnc_sum,
              compute_statistics(close, grouping).nnc_sum);
    EXPECT_EQ(plan_of_wide.segment_ptrs, plan.segment_ptrs);
    EXPECT_EQ(plan_of_wide.entry_ptrs, plan.entry_ptrs);
    EXPECT_EQ(plan_of_wide.entry_rows, plan.entry_rows);
    EXPECT_EQ(plan_of_wide.entry_values, plan.entry_values);
  }
}

TEST(WideMatrix, TakesMemoryForItsEntriesOnly) {
  if (k_sanitized) GTEST_SKIP() << "a sanitizer reserves address space without limit";
  const CsrMatrix wide = stretched(random_matrix(200, 1000, 0.97), k_widest);
  constexpr std::int64_t k_enough = std::int64_t{256} << 20;

  EXPECT_EQ(problem_within(k_enough,
                           [&] {
                             const RowGrouping grouping =
                                 group_rows(wide, 14, ReorderAlgorithm::similarity);
                             return build_plan(wide, grouping, wide.cols).nnz() == wide.nnz();
                           }),
            "");
  EXPECT_EQ(
      problem_within(k_enough, [&] { return EstimatedGrouping(wide).statistics(14).nnc_sum > 0; }),
      "");
  EXPECT_EQ(problem_within(k_enough,
                           [&] {
                             CompileOptions options = small_options();
                             options.policy.search = SearchMode::exhaustive;
                             const Compiler compiler(options, uncached());
                             return compiler.compile(small_problem(wide)).info().nnz == wide.nnz();
                           }),
            "");
}

TEST(WideMatrix, HasNoTilesOfManyEmptyBlocks) {
  const CsrMatrix wide = stretched(random_matrix(200, 1000, 0.97), 8'000'000);
  const CompileOptions options = hot_options();
  RowGroupings groupings(wide, ReorderAlgorithm::none);

  const TileSpace space =
      enumerate_host_tiles(small_problem(wide), options, host_device_info(options.target.isa()),
                           [&](std::int64_t m1) { return groupings.statistics(m1); });

  EXPECT_FALSE(space.survivors().empty());
  for (const TileCandidate& candidate : space.survivors()) {
    EXPECT_EQ(candidate.tile.k_block, 0) << to_string(candidate.tile);
    EXPECT_FALSE(candidate.tile.pack_b) << to_string(candidate.tile);
  }
}

TEST(WideMatrix, IsNotTimedWhereItsOperandsWouldNotFit) {
  const CsrMatrix matrix{2, k_widest, {0, 2, 3}, {0, 2147483646, 1073741824}, {1.5F, -2.0F, 4.0F}};
  CompileOptions options = hot_options();
  Problem problem = problem_of(matrix, 64);
  problem.panel_columns = lanes_of(options.target.isa());
  options.policy.search = SearchMode::ranked;

  const Kernel kernel = Compiler(options, uncached()).compile(problem);

  EXPECT_EQ(kernel.info().family, "unrolled");
  EXPECT_THAT(kernel.info().reason, testing::HasSubstr("ranked: ranked, not timed: B and C would"));
}

TEST(WideMatrix, RunsWithoutTouchingRowsOfBThatNothingReads) {
  CsrMatrix matrix{2, k_widest, {0, 2, 3}, {0, 2147483646, 1073741824}, {1.5F, -2.0F, 4.0F}};
  for (const std::int64_t n : {1, 3, 5, 16, 33}) {
    SCOPED_TRACE(n);
    const GuardedMemory b(k_widest * n * 4 + 4096);
    if (!b.mapped()) GTEST_SKIP() << "no address space of " << k_widest * n * 4 << " bytes";
    for (const std::int64_t row : {std::int64_t{0}, std::int64_t{1073741824}, k_widest - 1}) {
      b.allow(row * n, n);
      std::iota(b.floats() + row * n, b.floats() + (row + 1) * n, static_cast<float>(row % 7));
    }
    const Kernel kernel = Compiler(hot_options(), uncached()).compile(problem_of(matrix, n));
    std::vector<float> c(index(2 * n), -7.0F);

    kernel.run(b.floats(), c.data());

    const bool in_place = kernel.info().tile.find("in-place") != std::string::npos;
    EXPECT_TRUE(in_place || kernel.info().family == "csr");
    if (!in_place) {
      EXPECT_THAT(kernel.info().reason, testing::HasSubstr("B has 2147483647 rows"));
    }
    for (std::int64_t j = 0; j < n; ++j) {
      const float* const last = b.floats() + (k_widest - 1) * n;
      EXPECT_EQ(c[index(j)], 1.5F * b.floats()[j] - 2.0F * last[j]);
      EXPECT_EQ(c[index(n + j)], 4.0F * b.floats()[1073741824 * n + j]);
    }
  }
}

TEST(WideMatrix, IsCopiedWhereTheCallerAskedForPanels) {
  const CsrMatrix wide = stretched(random_matrix(20, 100, 0.9), 200'000);
  Problem problem = problem_of(wide, 24);
  problem.panel_columns = 8;
  const OwnRequest own(problem, options_of(HostIsa::avx2), host_device_info(HostIsa::avx2));

  EXPECT_EQ(host_choice_by_rules(own.what).tile.pack_b, true);
  EXPECT_EQ(Compiler(own.options, uncached()).compile(problem).info().family, "unrolled");
}

TEST(MisalignedB, IsReadWhereItIsIfThereIsNoRoomForACopy) {
  if (k_sanitized) GTEST_SKIP() << "a sanitizer reserves address space without limit";
  constexpr std::int64_t k_n = 16'384;  // 64 MB of B
  const HostIsa isa = Target().isa();
  const CsrMatrix matrix = random_matrix(16, 1024, 0);
  HostTile tile = host_tile(4);
  tile.pack_b = false;
  const Kernel kernel = kernel_of(matrix, tile, isa, k_n, k_n);
  const std::vector<float> b = dense_values(matrix.cols * k_n + 1);
  const bool is_first_aligned = reinterpret_cast<std::uintptr_t>(b.data()) % 64 == 0;
  const float* const misaligned = b.data() + (is_first_aligned ? 1 : 0);
  const std::vector<float> expected = reference_product(matrix, isa, misaligned, k_n, k_n);
  std::vector<float> c(expected.size());

  const std::string problem = problem_within(0, [&] {
    constexpr std::size_t k_piece = std::size_t{32} << 20;
    void* piece = nullptr;
    do piece = ::mmap(nullptr, k_piece, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    while (piece != MAP_FAILED);
    kernel.run(misaligned, c.data());
    return same_bits(c, expected);
  });

  EXPECT_EQ(problem, "");
}

TEST(TallMatrix, HasItsEmptyRowsAsRangesAndZerosThem) {
  CsrMatrix tall;
  tall.rows = 100'000;
  tall.cols = 4;
  tall.row_ptrs.assign(index(tall.rows) + 1, 2);
  tall.row_ptrs[0] = 0;
  std::fill_n(tall.row_ptrs.begin() + 1, 50'000, 1);
  tall.col_idxs = {1, 3};
  tall.values = {2.0F, 3.0F};

  const RowGrouping grouping = group_rows(tall, 2, ReorderAlgorithm::similarity);

  EXPECT_THAT(grouping.empty_rows.ranges(),
              testing::ElementsAre(RowRange{1, 50'000}, RowRange{50'001, 100'000}));
  for (const std::int64_t n : {1, 24}) {
    EXPECT_TRUE(
        is_kernel_of(Compiler(hot_options(), uncached()).compile(problem_of(tall, n)), tall));
  }
}

struct HostileShape {
  std::string name;
  CsrMatrix matrix;
};

/// `rows` rows of equally many entries each, `entries` in all, at the columns that `column` says.
CsrMatrix shaped(std::int64_t rows, std::int64_t cols, std::int64_t entries,
                 const std::function<std::int64_t(std::int64_t)>& column) {
  CsrMatrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  matrix.row_ptrs.clear();
  for (std::int64_t row = 0; row <= rows; ++row) matrix.row_ptrs.push_back(entries * row / rows);
  for (std::int64_t entry = 0; entry < entries; ++entry) {
    matrix.col_idxs.push_back(static_cast<std::int32_t>(column(entry)));
    matrix.values.push_back(1.0F);
  }
  return matrix;
}

std::vector<HostileShape> hostile_shapes() {
  const std::int64_t many = k_sanitized ? 100'000 : 4'000'000;
  const std::int64_t step = k_widest / many;
  return {{"wide", shaped(1, k_widest, many, [&](std::int64_t i) { return i * step; })},
          {"one dense row", shaped(1, many, many, [](std::int64_t i) { return i; })},
          {"one dense row, backwards", shaped(1, many, many, [&](auto i) { return many - 1 - i; })},
          {"one dense column", shaped(many, 4, many, [](std::int64_t) { return 1; })},
          {"tall", shaped(8 * many, 4, 3, [](std::int64_t) { return 1; })},
          {"every other row", shaped(2 * many, 64, many, [](std::int64_t i) { return i % 64; })}};
}

/// How late a compilation ends that has `time`; 0 if it was done before.
std::chrono::milliseconds lateness(const Compiler& compiler, const Problem& problem,
                                   std::chrono::milliseconds time) {
  CompileControl control;
  control.deadline = Clock::now() + time;
  try {
    static_cast<void>(compiler.compile(problem, control));
  } catch (const DeadlineExceeded&) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - *control.deadline);
  }
  return std::chrono::milliseconds(0);
}

TEST(HostileShape, ADeadlineHoldsAtAnyTime) {
  // The promise is about 100 ms, on a machine that does nothing else. AddressSanitizer takes most
  // of a second to note that the wide matrix's B of 8 GB is there.
  constexpr std::chrono::milliseconds k_generous(k_sanitized ? 4000 : 1000);
  for (const HostileShape& shape : hostile_shapes()) {
    for (const std::int64_t n : {1, 16}) {
      const Problem problem = problem_of(shape.matrix, n);
      CompileOptions options = hot_options();
      options.policy.search = SearchMode::ranked;
      options.policy.search_budget_ms = 50;
      const Compiler instant({}, uncached());
      const Compiler ranked(options, uncached());
      for (const int time : in_turn<int>(2, {0, 5, 20, 60, 150, 400})) {
        SCOPED_TRACE(shape.name + ", n " + std::to_string(n) + ", ms " + std::to_string(time));
        EXPECT_LT(lateness(instant, problem, std::chrono::milliseconds(time)), k_generous);
        EXPECT_LT(lateness(ranked, problem, std::chrono::milliseconds(time)), k_generous);
      }
    }
  }
}

}  // namespace
