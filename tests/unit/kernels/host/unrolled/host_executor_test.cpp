#include "kernels/host/unrolled/host_executor.hpp"

#include <gtest/gtest.h>
#include <immintrin.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "base/host_cpu.hpp"
#include "base/pinned_thread.hpp"
#include "spjit/error.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::HostProgram;
using spjit::HostSplit;
using spjit::testing_support::Guarded;
using spjit::testing_support::GuardedFloats;
using spjit::testing_support::GuardPlacement;
using spjit::testing_support::index;
using spjit::testing_support::k_placements;

// The executor knows nothing of sparsity, so its segments here are plain functions: a tile has one
// row and lanes are 4, and a segment adds weights[0] * B[k] for every row k of its block.
// `weights` points at: weight, row of C, rows of B in the block, first block?, last block?.
constexpr std::int64_t k_lanes = 4;
constexpr std::int64_t k_vectors = 2;

void sum_segment(const float* b, const float* weights, float* partial,
                 const spjit::SegmentArguments* arguments) {
  constexpr std::int64_t k_width = k_vectors * k_lanes;
  const auto* lane_masks = static_cast<const std::uint32_t*>(arguments->masks);
  const auto row = static_cast<std::int64_t>(weights[1]);
  const auto rows_of_b = static_cast<std::int64_t>(weights[2]);
  for (std::int64_t j = 0; j < k_width; ++j) {
    float sum = weights[3] != 0 ? 0.0F : partial[j];
    for (std::int64_t k = 0; k < rows_of_b; ++k) sum += weights[0] * b[k * k_width + j];
    if (weights[4] == 0) {
      partial[j] = sum;
    } else if (lane_masks == nullptr || lane_masks[j] != 0) {
      arguments->c[row * (arguments->ldc_bytes / 4) + j] = sum;
    }
  }
}

constexpr std::int64_t k_weights_a_segment = 5;

/// Rows of C: (row + 1) * the sum of B's column; the last row is empty.
struct SumProgram {
  HostProgram program;
  std::int64_t n;
  std::vector<float> weights;

  SumProgram(std::int64_t rows, std::int64_t cols, std::int64_t columns, std::int64_t k_block)
      : n(columns) {
    program.rows = rows;
    program.cols = cols;
    program.isa = spjit::HostIsa::avx2;
    program.lanes = k_lanes;
    program.nv = k_vectors;
    program.m1 = 1;
    program.tiles = rows - 1;
    program.k_block = k_block;
    program.k_blocks = (cols + k_block - 1) / k_block;
    for (std::int64_t tile = 0; tile < program.tiles; ++tile) {
      for (std::int64_t block = 0; block < program.k_blocks; ++block) {
        const std::int64_t block_rows = std::min(k_block, cols - block * k_block);
        for (const float word : {static_cast<float>(tile + 1), static_cast<float>(tile),
                                 static_cast<float>(block_rows), block == 0 ? 1.0F : 0.0F,
                                 block + 1 == program.k_blocks ? 1.0F : 0.0F}) {
          weights.push_back(word);
        }
        program.segments.push_back(sum_segment);
        program.segment_bytes.push_back(64);
      }
      program.tile_weight_ends.push_back((tile + 1) * 10);
    }
    program.weights = weights.data();
    for (std::size_t i = 0; i < program.segments.size(); ++i) {
      program.weight_offsets.push_back(static_cast<std::int64_t>(i) * k_weights_a_segment);
    }
    program.empty_rows.add(rows - 1, rows);
    program.rows_of_b.add(0, cols);
  }
};

/// A row of C in a cache line of its own.
struct alignas(64) AlignedLine {
  std::array<int, 16> words{};

  [[nodiscard]] float* floats() noexcept { return reinterpret_cast<float*>(words.data()); }
};

std::vector<float> whole_numbers(std::int64_t count) {
  std::vector<float> values(index(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7 % 11) - 5.0F;
  return values;
}

std::vector<float> expected_product(const SumProgram& sum_program, const std::vector<float>& b,
                                    std::int64_t ldb, std::int64_t ldc) {
  const HostProgram& program = sum_program.program;
  std::vector<float> c(index(program.rows * ldc), -7.0F);
  for (std::int64_t row = 0; row < program.rows; ++row) {
    for (std::int64_t j = 0; j < sum_program.n; ++j) {
      float sum = 0;
      for (std::int64_t k = 0; k < program.cols; ++k) sum += b[index(k * ldb + j)];
      const bool empty = row + 1 == program.rows;
      c[index(row * ldc + j)] = empty ? 0.0F : sum * static_cast<float>(row + 1);
    }
  }
  return c;
}

/// C `[rows x ldc]`. Runs on exactly the workspace that is asked for, and on B and C without
/// padding behind their last rows: the pages around each catch a float more, at either end.
std::vector<float> run(const HostProgram& program, const HostSplit& split,
                       const std::vector<float>& b, std::int64_t ldc, spjit::ThreadPool* pool) {
  const std::int64_t ldb = std::ssize(b) / program.cols;
  const std::span<const float> exact_b(b.data(), index((program.cols - 1) * ldb + split.n));
  std::vector<float> result;
  for (const GuardPlacement placement : k_placements) {
    const Guarded<float> guarded_b(exact_b, placement);
    const GuardedFloats c((program.rows - 1) * ldc + split.n, placement);
    const GuardedFloats workspace(spjit::workspace_floats(program, split), placement);
    std::ranges::fill(c.span(), -7.0F);
    spjit::execute(program, split,
                   {.b = guarded_b.data(), .ldb = ldb, .c = c.data(), .ldc = ldc, .n = split.n},
                   workspace.data(), pool);
    EXPECT_TRUE(workspace.intact() && c.intact());
    EXPECT_TRUE(result.empty() ||
                std::ranges::equal(c.span(), std::span(result).first(c.span().size())));
    result.assign(c.span().begin(), c.span().end());
    result.resize(index(program.rows * ldc), -7.0F);
  }
  return result;
}

TEST(HostExecutor, GivesTheProductForEveryLoopNest) {
  for (const std::int64_t n : {1, 7, 8, 9, 64, 70}) {
    for (const std::int64_t k_block : {1, 5, 20}) {
      for (const std::int64_t panel_group : {1, 2, 4, 100}) {
        for (const std::int64_t row_group : {0, 1, 3, 100}) {
          SumProgram sum(9, 20, n, k_block);
          sum.program.panel_group = panel_group;
          sum.program.row_group = row_group;
          const std::vector<float> b = whole_numbers(20 * (n + 3));

          const std::vector<float> c = run(sum.program, HostSplit{sum.n}, b, n + 2, nullptr);

          ASSERT_EQ(c, expected_product(sum, b, n + 3, n + 2))
              << "n " << n << " k_block " << k_block << " g " << panel_group << " r " << row_group;
        }
      }
    }
  }
}

// What calls for a panel have in common is kept for sixteen panels of a group. Of 34 and 51 panels
// also later groups have 17.
TEST(HostExecutor, GivesTheProductWhereAGroupHasMorePanelsThanAreKept) {
  for (const std::int64_t n : {128, 136, 150, 272, 301, 408}) {
    for (const std::int64_t panel_group : {16, 17, 18, 100}) {
      SumProgram sum(4, 20, n, 6);
      sum.program.panel_group = panel_group;
      const std::vector<float> b = whole_numbers(20 * n);

      const std::vector<float> c = run(sum.program, HostSplit{sum.n}, b, n, nullptr);

      ASSERT_EQ(c, expected_product(sum, b, n, n)) << "n " << n << " g " << panel_group;
    }
  }
}

TEST(HostExecutor, EverySplitBetweenThreadsGivesTheSame) {
  for (const std::int64_t threads : {1, 2, 3, 5}) {
    spjit::WorkerPool pool(static_cast<int>(threads));
    for (const bool by_panels : {true, false}) {
      for (const std::int64_t row_group : {0, 2}) {
        for (const std::int64_t panel_group : {1, 3}) {
          SumProgram sum(9, 20, 77, 6);
          sum.program.row_group = row_group;
          sum.program.panel_group = panel_group;
          const HostSplit split{sum.n, threads, by_panels};
          const std::vector<float> b = whole_numbers(1540);
          const auto expected = expected_product(sum, b, 77, 77);

          EXPECT_EQ(run(sum.program, split, b, 77, &pool), expected);
          EXPECT_EQ(run(sum.program, split, b, 77, nullptr), expected);
        }
      }
    }
  }
}

// B of k = 20 in blocks of 6 rows: kept are 6 rows of a group of two panels of 8 columns.
TEST(HostExecutor, PacksABlockOfRowsAtATimeWhereNobodyElseReadsIt) {
  SumProgram sum(9, 20, 64, 6);
  sum.program.panel_group = 2;
  const std::int64_t row = 8;
  const std::int64_t spare = spjit::PanelLayout::k_spare_floats;
  const auto packed_floats = [&](const HostSplit& split) {
    HostProgram without = sum.program;
    without.in_place_ldb = 64;
    return spjit::workspace_floats(sum.program, split) - spjit::workspace_floats(without, split);
  };

  EXPECT_EQ(packed_floats({64, 1, true}), 2 * (6 * row + spare));
  EXPECT_EQ(packed_floats({64, 3, true}), 6 * (6 * row + spare));
  EXPECT_EQ(packed_floats({64, 3, false}), 8 * (20 * row + spare));  // threads share all of B
  sum.program.row_group = 2;
  EXPECT_EQ(packed_floats({64, 1, true}),
            8 * (20 * row + spare));  // later row groups read it again
}

TEST(HostExecutor, PacksOfABlockOnlyTheRowsThatAreRead) {
  SumProgram sum(9, 20, 8, 6);
  sum.program.rows_of_b = {};
  sum.program.rows_of_b.add(0, 18);
  sum.program.rows_of_b.add(19, 20);
  const std::vector<float> b = whole_numbers(160);
  std::vector<float> c(index(sum.program.rows * 8));
  std::vector<float> workspace(index(spjit::workspace_floats(sum.program, HostSplit{sum.n})),
                               -7.0F);

  spjit::execute(sum.program, HostSplit{8}, {b.data(), 8, c.data(), 8, 8}, workspace.data(),
                 nullptr);

  // The last block, of rows 18 and 19, leaves what it does not pack of the one before, 12 to 17.
  const std::array<std::int64_t, 6> left = {12, 19, 14, 15, 16, 17};
  for (std::size_t row = 0; row < left.size(); ++row) {
    const auto of_b = b.begin() + std::int64_t{8} * left.at(row);
    EXPECT_TRUE(
        std::equal(of_b, of_b + 8, workspace.begin() + static_cast<std::ptrdiff_t>(8 * row)))
        << row;
  }
}

TEST(HostExecutor, PanelMajorOperandsAreUsedWhereTheyAre) {
  SumProgram sum(9, 20, 21, 6);
  const spjit::PanelLayout b_layout = sum.program.b_layout(sum.n);
  const spjit::PanelLayout c_layout = sum.program.c_layout(sum.n);
  const std::vector<float> b = whole_numbers(420);
  const std::vector<float> expected = expected_product(sum, b, 21, 21);
  for (const GuardPlacement placement : k_placements) {
    // The spare line behind the last panel is nobody's.
    const GuardedFloats b_panels(b_layout.size() - spjit::PanelLayout::k_spare_floats, placement);
    const GuardedFloats c_panels(c_layout.size() - spjit::PanelLayout::k_spare_floats, placement);
    const GuardedFloats workspace(spjit::workspace_floats(sum.program, HostSplit{sum.n}),
                                  placement);
    std::ranges::fill(b_panels.span(), 0.0F);
    for (std::int64_t row = 0; row < 20; ++row) {
      for (std::int64_t j = 0; j < 21; ++j) {
        b_panels.span()[index(j / 8 * b_layout.stride() + row * 8 + j % 8)] =
            b[index(row * 21 + j)];
      }
    }
    b_panels.seal();
    std::ranges::fill(c_panels.span(), -7.0F);

    spjit::execute(sum.program, HostSplit{sum.n},
                   {.b = b_panels.data(),
                    .c = c_panels.data(),
                    .n = sum.n,
                    .layout = spjit::Layout::panel_major},
                   workspace.data(), nullptr);

    for (std::int64_t row = 0; row < 9; ++row) {
      for (std::int64_t j = 0; j < 24; ++j) {
        const float actual = c_panels.span()[index(j / 8 * c_layout.stride() + row * 8 + j % 8)];
        EXPECT_EQ(actual, j < 21 ? expected[index(row * 21 + j)] : 0.0F) << row << ", " << j;
      }
    }
    EXPECT_TRUE(c_panels.intact() && workspace.intact());
  }
}

TEST(HostExecutor, ARunWithoutTilesZeroesTheEmptyRows) {
  SumProgram sum(1, 20, 9, 6);
  const std::vector<float> b = whole_numbers(180);

  const std::vector<float> c = run(sum.program, HostSplit{sum.n}, b, 10, nullptr);

  EXPECT_EQ(std::count(c.begin(), c.end(), 0.0F), 9);
  EXPECT_EQ(c.back(), -7.0F);
}

/// Streams one float to each row of C, a part of a cache line: what a CPU keeps back longest.
void stream_segment(const float* /*b*/, const float* weights, float* /*partial*/,
                    const spjit::SegmentArguments* arguments) {
  const auto row = static_cast<std::int64_t>(weights[1]);
  _mm_stream_si32(reinterpret_cast<int*>(arguments->c + row * (arguments->ldc_bytes / 4)),
                  static_cast<int>(weights[0]));
}

constexpr int k_stop = -1;

/// Waits for a value or `k_stop`; which it was. Without letting others run, which would make the
/// stores visible.
int wait_for(const std::atomic<int>& flag, int value) {
  int now = 0;
  do now = flag.load(std::memory_order_acquire);
  while (now != value && now != k_stop);
  return now;
}

/// Rows of C that do not hold the round's number yet although the caller has said that they do.
std::int64_t count_missed(std::vector<AlignedLine>& c, std::int64_t rows,
                          const std::atomic<int>& done, std::atomic<int>& seen) {
  std::int64_t missed = 0;
  for (int round = 1; wait_for(done, round) != k_stop; ++round) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const volatile int& stored = c[index(row)].words[0];
      missed += stored == round ? 0 : 1;
    }
    seen.store(round, std::memory_order_release);
  }
  return missed;
}

// Without the fence nearly every round fails in which both threads have a CPU.
TEST(HostExecutor, StreamedStoresAreSeenByWhoeverSeesWhatTheCallerDoesNext) {
  if (spjit::usable_cpus() < 2) GTEST_SKIP() << "one CPU alone sees its own stores in order";
  constexpr int k_rounds = 5000;
  SumProgram streaming(9, 1, 8, 1);
  HostProgram& program = streaming.program;
  program.stream_c = true;
  std::ranges::fill(program.segments, stream_segment);
  std::vector<AlignedLine> c(index(program.rows));
  const std::vector<float> b(8);
  const GuardedFloats workspace(spjit::workspace_floats(program, HostSplit{8}));
  std::atomic<int> done = 0;
  std::atomic<int> seen = 0;
  std::int64_t missed = 0;
  cpu_set_t others;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(others), &others), 0);
  const spjit::PinnedThread pinned;
  CPU_CLR(static_cast<unsigned>(::sched_getcpu()), &others);
  // On a busy machine a round takes milliseconds.
  const auto enough = std::chrono::steady_clock::now() + std::chrono::seconds(2);

  std::thread observer([&] {
    static_cast<void>(::sched_setaffinity(0, sizeof(others), &others));
    missed = count_missed(c, program.tiles, done, seen);
  });
  for (int round = 1; round <= k_rounds && std::chrono::steady_clock::now() < enough; ++round) {
    for (std::int64_t tile = 0; tile < program.tiles; ++tile) {
      streaming.weights[index(tile * k_weights_a_segment)] = static_cast<float>(round);
    }
    spjit::execute(program, HostSplit{8}, {b.data(), 8, c.front().floats(), 16, 8},
                   workspace.data(), nullptr);
    done.store(round, std::memory_order_release);
    wait_for(seen, round);
  }
  done.store(k_stop, std::memory_order_release);
  observer.join();

  EXPECT_EQ(missed, 0);
}

TEST(HostExecutor, RefusesAWorkspaceThatCannotBeCounted) {
  SumProgram sum(9, 20, 64, 6);
  const auto refuses = [](const HostProgram& program, std::int64_t n, std::int64_t threads) {
    EXPECT_THROW(static_cast<void>(spjit::workspace_floats(program, {n, threads, true})),
                 spjit::InvalidArgument);
  };
  constexpr std::int64_t k_most = (std::int64_t{1} << 31) - 1;
  HostProgram packed = sum.program;
  packed.k_blocks = 1;
  packed.cols = k_most;
  packed.panel_group = k_most;
  HostProgram partial = sum.program;
  partial.panel_group = k_most + 1;
  partial.tiles = std::int64_t{1} << 31;
  partial.m1 = 64;

  EXPECT_NO_THROW(static_cast<void>(spjit::workspace_floats(packed, {k_most, 1, true})));
  refuses(packed, k_most, 4);
  refuses(partial, k_most + 1, 1);
}

TEST(ChooseSplit, OneThreadTakesAllPanels) {
  const SumProgram sum(9, 20, 64, 20);

  EXPECT_TRUE(spjit::choose_split(sum.program, sum.n, 1).by_panels);
  EXPECT_EQ(spjit::choose_split(sum.program, sum.n, 1).threads, 1);
}

TEST(ChooseSplit, CutsPanelsWhereTheyDivideAndTilesWhereTheyDoNot) {
  const SumProgram eight_panels(9, 20, 64, 20);
  const SumProgram one_panel(9, 20, 8, 20);
  const SumProgram one_panel_one_tile(2, 20, 8, 20);

  EXPECT_TRUE(spjit::choose_split(eight_panels.program, eight_panels.n, 4).by_panels);
  EXPECT_FALSE(spjit::choose_split(one_panel.program, one_panel.n, 4).by_panels);
  EXPECT_TRUE(spjit::choose_split(one_panel_one_tile.program, one_panel_one_tile.n, 4).by_panels);
}

TEST(ChooseSplit, CountsPanelGroupsNotPanels) {
  SumProgram sum(9, 20, 64, 20);
  sum.program.panel_group = 8;

  EXPECT_FALSE(spjit::choose_split(sum.program, sum.n, 2).by_panels);
}

}  // namespace
