#include "kernels/host/unrolled/host_emitter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/executable_code.hpp"
#include "kernels/host/operands/packing.hpp"
#include "kernels/host/unrolled/disassembler.hpp"
#include "kernels/host/unrolled/host_executor.hpp"
#include "spjit/error.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::CsrMatrix;
using spjit::HostCode;
using spjit::HostIsa;
using spjit::HostTile;
using spjit::KernelPlan;
using spjit::ReorderAlgorithm;
using spjit::SegmentArguments;
using spjit::WeightForm;
using spjit::testing_support::dense_values;
using spjit::testing_support::Guarded;
using spjit::testing_support::GuardedFloats;
using spjit::testing_support::GuardPlacement;
using spjit::testing_support::host_tile;
using spjit::testing_support::index;
using spjit::testing_support::isa_and_placement;
using spjit::testing_support::IsaAndPlacement;
using spjit::testing_support::k_placements;
using spjit::testing_support::random_matrix;
using spjit::testing_support::reference_product;
using spjit::testing_support::same_bits;
using testing::Contains;
using testing::Not;

KernelPlan plan_of(const CsrMatrix& matrix, const HostTile& tile) {
  const std::int64_t block =
      tile.k_block > 0 ? tile.k_block : std::max<std::int64_t>(matrix.cols, 1);
  return spjit::build_plan(matrix, spjit::group_rows(matrix, tile.m1, ReorderAlgorithm::balanced),
                           block);
}

TEST(HostEmitter, RefusesTilesThatNeedMoreRegistersThanThereAre) {
  const CsrMatrix matrix = random_matrix(40, 20, 0.5);
  struct Case {
    HostIsa isa;
    std::int64_t m1;
    std::int64_t nv;
    bool good;
  };
  for (const Case& c : {Case{HostIsa::avx512, 30, 1, true}, Case{HostIsa::avx512, 31, 1, false},
                        Case{HostIsa::avx512, 7, 4, false}, Case{HostIsa::avx2, 14, 1, true},
                        Case{HostIsa::avx2, 15, 1, false}, Case{HostIsa::avx2, 0, 1, false},
                        Case{HostIsa::avx512, 4, 0, false}}) {
    HostTile tile;
    tile.m1 = 4;
    const KernelPlan plan = plan_of(matrix, tile);
    tile.m1 = c.m1;
    tile.nv = c.nv;

    if (c.good) {
      EXPECT_NO_THROW(static_cast<void>(spjit::emit_host(plan, tile, c.isa, 64)));
    } else {
      EXPECT_THROW(static_cast<void>(spjit::emit_host(plan, tile, c.isa, 64)),
                   spjit::InvalidArgument)
          << to_string(tile);
    }
  }
}

TEST(HostEmitter, SaysHowManyRegistersAreMissing) {
  HostTile tile;
  const KernelPlan plan = plan_of(random_matrix(9, 9, 0.5), tile);
  tile.m1 = 31;
  try {
    static_cast<void>(spjit::emit_host(plan, tile, HostIsa::avx512, 64));
    FAIL() << "33 registers were taken";
  } catch (const spjit::InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("needs 33 vector registers; avx512 has 32"),
              std::string::npos)
        << error.what();
  }
}

TEST(HostEmitter, RefusesRowDistancesOutOfRangeAndTheGenericTarget) {
  const HostTile tile;
  const KernelPlan plan = plan_of(random_matrix(9, 9, 0.5), tile);
  const auto emit = [&](HostIsa isa, std::int64_t stride) {
    static_cast<void>(spjit::emit_host(plan, tile, isa, stride));
  };

  EXPECT_THROW(emit(HostIsa::avx512, 3), spjit::InvalidArgument);
  EXPECT_THROW(emit(HostIsa::avx512, (1 << 20) + 1), spjit::InvalidArgument);
  EXPECT_NO_THROW(emit(HostIsa::avx512, 1 << 20));
  EXPECT_THROW(emit(HostIsa::generic, 64), spjit::InvalidArgument);
}

TEST(HostEmitter, FunctionsStartAtCacheLinesAndWeightsFollowThePlan) {
  const CsrMatrix matrix = random_matrix(50, 70, 0.8);
  HostTile tile;
  tile.m1 = 9;
  tile.k_block = 32;
  const KernelPlan plan = plan_of(matrix, tile);
  for (const HostIsa isa : {HostIsa::avx512, HostIsa::avx2}) {
    const HostCode code = spjit::emit_host(plan, tile, isa, 64);

    ASSERT_EQ(std::ssize(code.segment_offsets), plan.segments());
    ASSERT_EQ(std::ssize(code.weight_offsets), plan.segments());
    EXPECT_EQ(code.weights, plan.entry_values);
    for (std::size_t i = 0; i < code.segment_offsets.size(); ++i) {
      EXPECT_EQ(code.segment_offsets[i] % 64, 0);
      EXPECT_LT(code.segment_offsets[i], std::ssize(code.text));
      const auto first_column = index(plan.segment_ptrs[i]);
      EXPECT_EQ(code.weight_offsets[i], plan.entry_ptrs[first_column]);
    }
  }
}

TEST(HostEmitter, JoinsNeighbouringTilesUpToTheBytes) {
  const CsrMatrix matrix = random_matrix(60, 200, 0.9);
  HostTile tile = host_tile(4);
  const KernelPlan plan = plan_of(matrix, tile);
  const std::int64_t tiles = plan.grouping.tiles();
  const auto emit = [&](std::int64_t bytes) {
    tile.join_bytes = bytes;
    return spjit::emit_host(plan, tile, HostIsa::avx512, 64);
  };

  const HostCode apart = emit(0);
  const HostCode joined = emit(8000);
  const HostCode one = emit(1 << 20);

  EXPECT_EQ(std::ssize(apart.tile_ends), tiles);
  EXPECT_EQ(one.tile_ends, (std::vector<std::int64_t>{tiles}));
  ASSERT_GT(joined.tile_ends.size(), 1U);
  ASSERT_LT(std::ssize(joined.tile_ends), tiles);
  EXPECT_EQ(joined.tile_ends.back(), tiles);
  for (std::size_t i = 1; i < joined.segment_offsets.size(); ++i) {
    EXPECT_LE(joined.segment_offsets[i] - joined.segment_offsets[i - 1], 8000);
  }
  EXPECT_EQ(joined.weights, plan.entry_values);
}

TEST(HostEmitter, TheSamePlanGivesTheSameBytes) {
  const HostTile tile;
  const KernelPlan plan = plan_of(random_matrix(50, 70, 0.8), tile);

  const HostCode one = spjit::emit_host(plan, tile, HostIsa::avx512, 64);
  const HostCode two = spjit::emit_host(plan, tile, HostIsa::avx512, 64);

  EXPECT_EQ(one.text, two.text);
  EXPECT_EQ(one.weights, two.weights);
}

/// One row with entries in columns 0 and `gap`.
CsrMatrix two_columns(std::int32_t gap) {
  return {1, std::int64_t{gap} + 1, {0, 2}, {0, gap}, {1.5F, 2.5F}};
}

/// The plan of a matrix of few rows, without tables as long as k.
KernelPlan plan_of_two_columns(std::int32_t gap) {
  KernelPlan plan = plan_of(two_columns(1), host_tile(1));
  plan.cols = std::int64_t{gap} + 1;
  plan.k_block = plan.cols;
  plan.columns[1] = gap;
  return plan;
}

std::vector<std::string> instructions_of(const HostCode& code) {
  std::vector<std::string> texts;
  for (const auto& instruction : spjit::disassemble(code.text)) texts.push_back(instruction.text);
  return texts;
}

// A base register moves to the offset it goes to plus its reach: 8192 bytes (zmm), 128 (ymm).
TEST(HostEmitter, MovesItsBaseByOneInstructionIfTheDistanceFits32Bits) {
#ifndef SPJIT_HAVE_LLVM
  GTEST_SKIP() << "this build has no LLVM to decode with";
#else
  constexpr std::int64_t k_stride = 64;
  constexpr std::int64_t k_limit = std::int64_t{1} << 31;
  for (const HostIsa isa : {HostIsa::avx512, HostIsa::avx2}) {
    const std::int64_t reach = isa == HostIsa::avx512 ? 8192 : 128;
    for (const std::int64_t distance : {k_limit - k_stride, k_limit, 2 * k_limit}) {
      const auto gap = static_cast<std::int32_t>((distance - reach) / k_stride);

      const std::vector<std::string> code =
          instructions_of(spjit::emit_host(plan_of_two_columns(gap), host_tile(1), isa, k_stride));

      if (distance < k_limit) {
        EXPECT_THAT(code, Contains("addq $" + std::to_string(distance) + ", %rdi"));
        EXPECT_THAT(code, Not(Contains("addq %rax, %rdi")));
      } else {
        EXPECT_THAT(code, Contains("movabsq $" + std::to_string(distance) + ", %rax"));
        EXPECT_THAT(code, Contains("addq %rax, %rdi"));
      }
    }
  }
#endif
}

/// A mask for every vector of a panel in the form its segments take, the first `columns` lanes on.
std::vector<std::uint8_t> lane_masks(HostIsa isa, std::int64_t nv, std::int64_t columns) {
  std::vector<std::uint8_t> bytes;
  for (std::int64_t v = 0; v < nv; ++v) {
    unsigned bits = 0;
    for (std::int64_t lane = 0; lane < spjit::lanes_of(isa); ++lane) {
      const bool on = v * spjit::lanes_of(isa) + lane < columns;
      bits |= on ? 1U << lane : 0U;
      if (isa != HostIsa::avx512) bytes.insert(bytes.end(), 4, on ? 0xFF : 0x00);
    }
    if (isa == HostIsa::avx512) {
      bytes.push_back(static_cast<std::uint8_t>(bits & 0xFFU));
      bytes.push_back(static_cast<std::uint8_t>(bits >> 8U));
    }
  }
  return bytes;
}

/// One panel of B and C, how many of its columns are stored, and where all the code touches lies.
struct Panel {
  const float* b = nullptr;
  std::int64_t ldb = 0;
  float* c = nullptr;
  std::int64_t ldc = 0;
  std::int64_t columns = 0;
  GuardPlacement placement = GuardPlacement::at_end;
};

/// Calls every segment in the plan's order, as the executor would; those that store no C get no
/// SegmentArguments.
void run_code(const KernelPlan& plan, const HostTile& tile, HostIsa isa, const HostCode& code,
              const Panel& panel) {
  const std::int64_t width = tile.nv * spjit::lanes_of(isa);
  const Guarded<std::uint8_t> masks(lane_masks(isa, tile.nv, panel.columns), panel.placement);
  const Guarded<float> weights(code.weights, panel.placement);
  const spjit::ExecutableCode pages(std::as_bytes(std::span(code.text)));
  std::int64_t most_tiles = 0;
  for (std::size_t i = 0; i < code.tile_ends.size(); ++i) {
    most_tiles = std::max(most_tiles, code.tile_ends[i] - (i > 0 ? code.tile_ends[i - 1] : 0));
  }
  const GuardedFloats partial(most_tiles * tile.m1 * width, panel.placement);
  const Guarded<SegmentArguments> arguments(
      std::vector<SegmentArguments>{
          {panel.c, panel.ldc * 4, panel.columns == width ? nullptr : masks.data()}},
      panel.placement);
  for (std::int64_t t = 0; t < std::ssize(code.tile_ends); ++t) {
    std::ranges::fill(partial.span(), -77.0F);
    for (std::int64_t block = 0; block < plan.k_blocks; ++block) {
      const auto segment = index(t * plan.k_blocks + block);
      auto* const function = pages.function<std::remove_pointer_t<spjit::HostSegment>>(
          index(code.segment_offsets[segment]));
      function(panel.b + block * plan.k_block * panel.ldb,
               weights.data() + code.weight_offsets[segment], partial.data(),
               block + 1 == plan.k_blocks ? arguments.data() : nullptr);
    }
  }
  EXPECT_TRUE(partial.intact());
}

/// Compares a panel with the evaluator; columns that are masked off must keep their content. C ends
/// with the last column that is stored.
void expect_reference(const CsrMatrix& matrix, const HostTile& tile, HostIsa isa,
                      std::int64_t columns, GuardPlacement placement) {
  constexpr float k_untouched = -7.0F;
  const std::int64_t width = tile.nv * spjit::lanes_of(isa);
  const std::int64_t ldc = width + 3;
  const KernelPlan plan = plan_of(matrix, tile);
  const Guarded<float> b(dense_values(matrix.cols * width), placement);
  const GuardedFloats c((matrix.rows - 1) * ldc + columns, placement);
  std::ranges::fill(c.span(), k_untouched);

  run_code(plan, tile, isa, spjit::emit_host(plan, tile, isa, width * 4),
           {b.data(), width, c.data(), ldc, columns, placement});

  std::vector<float> expected(index(matrix.rows * ldc), k_untouched);
  const std::vector<float> product = reference_product(matrix, isa, b.data(), width, width);
  for (const std::int32_t row : plan.grouping.rows) {
    std::copy_n(product.begin() + row * width, columns, expected.begin() + row * ldc);
  }
  expected.resize(c.span().size());
  EXPECT_TRUE(same_bits(c.span(), expected) && c.intact())
      << to_string(tile) << ", columns " << columns;
}

class EmittedCode : public testing::TestWithParam<IsaAndPlacement> {
 protected:
  void SetUp() override {
    if (!spjit::Target(isa()).runs_here()) GTEST_SKIP() << "this CPU has no " << to_string(isa());
  }
  static HostIsa isa() { return std::get<HostIsa>(GetParam()); }
  static GuardPlacement placement() { return std::get<GuardPlacement>(GetParam()); }
};

TEST_P(EmittedCode, GivesTheReferencesBitsForEveryShapeAndForm) {
  const CsrMatrix matrix = random_matrix(45, 150, 0.8);
  const std::int64_t registers = spjit::registers_of(isa());
  for (std::int64_t nv = 1; nv <= 8; ++nv) {
    const std::int64_t most = (registers - 1 - nv) / nv;
    for (const WeightForm form :
         {WeightForm::broadcast, WeightForm::register_, WeightForm::balanced}) {
      for (const std::int64_t memory_rows : {0, 1, 3}) {
        if (most < 1) continue;
        HostTile tile;
        tile.nv = nv;
        tile.m1 = most;
        tile.form = form;
        tile.memory_rows = memory_rows;

        expect_reference(matrix, tile, isa(), nv * spjit::lanes_of(isa()), placement());
      }
    }
  }
}

TEST_P(EmittedCode, CarriesPartialSumsFromBlockToBlock) {
  const CsrMatrix matrix = random_matrix(31, 130, 0.7);
  for (const std::int64_t nv : {1, 2, 3}) {
    for (const std::int64_t k_block : {1, 17, 64, 129, 130}) {
      HostTile tile;
      tile.nv = nv;
      tile.m1 = 4;
      tile.k_block = k_block;

      expect_reference(matrix, tile, isa(), nv * spjit::lanes_of(isa()), placement());
    }
  }
}

TEST_P(EmittedCode, StoresOnlyTheColumnsOfItsMasks) {
  const CsrMatrix matrix = random_matrix(23, 60, 0.7);
  for (std::int64_t nv = 1; nv <= spjit::widest_panel_vectors(isa()); ++nv) {
    for (std::int64_t columns = 1; columns < nv * spjit::lanes_of(isa()); ++columns) {
      HostTile tile;
      tile.nv = nv;
      tile.m1 = std::min<std::int64_t>((spjit::registers_of(isa()) - 1 - nv) / nv, 4);
      tile.k_block = columns % 2 == 0 ? 0 : 25;

      expect_reference(matrix, tile, isa(), columns, placement());
    }
  }
}

TEST_P(EmittedCode, JoinsTilesWithTheSameResult) {
  const CsrMatrix matrix = random_matrix(47, 130, 0.9);
  const std::int64_t lanes = spjit::lanes_of(isa());
  for (const std::int64_t join_bytes : {1, 1500, 4000, 1 << 20}) {
    for (const std::int64_t nv : {1, 2}) {
      for (const std::int64_t k_block : {0, 40}) {
        for (const std::int64_t columns : {lanes * nv, lanes * nv - 3}) {
          HostTile tile = host_tile(5, nv, k_block);
          tile.join_bytes = join_bytes;

          expect_reference(matrix, tile, isa(), columns, placement());
        }
      }
    }
  }
}

TEST_P(EmittedCode, ReadsBInPlaceAtAnyDistanceBetweenRows) {
  const CsrMatrix matrix = random_matrix(19, 200, 0.8);
  HostTile tile;
  tile.m1 = 8;
  tile.pack_b = false;
  const std::int64_t width = spjit::lanes_of(isa());
  const KernelPlan plan = plan_of(matrix, tile);
  for (const std::int64_t ldb : {std::int64_t{17}, std::int64_t{128}, std::int64_t{1001}}) {
    const Guarded<float> b(dense_values((matrix.cols - 1) * ldb + width), placement());
    const GuardedFloats c(matrix.rows * width, placement());
    std::ranges::fill(c.span(), 0.0F);

    run_code(plan, tile, isa(), spjit::emit_host(plan, tile, isa(), ldb * 4),
             {b.data(), ldb, c.data(), width, width, placement()});

    EXPECT_TRUE(same_bits(c.span(), reference_product(matrix, isa(), b.data(), ldb, width)) &&
                c.intact())
        << "ldb " << ldb;
  }
}

INSTANTIATE_TEST_SUITE_P(DirectIsas, EmittedCode,
                         testing::Combine(testing::Values(HostIsa::avx512, HostIsa::avx2),
                                          testing::ValuesIn(k_placements)),
                         isa_and_placement);

/// How long one segment takes to emit whose deadline is in `limit`; less than none: it was given
/// up.
std::chrono::nanoseconds emit_one_segment(std::optional<std::chrono::nanoseconds> limit) {
  constexpr std::int64_t k_entries = 1'000'000;
  CsrMatrix row{1, k_entries, {0, k_entries}, {}, std::vector<float>(index(k_entries), 1.0F)};
  row.col_idxs.resize(row.values.size());
  std::iota(row.col_idxs.begin(), row.col_idxs.end(), 0);
  const HostTile tile = host_tile(1);
  const KernelPlan plan = plan_of(row, tile);
  spjit::Cancellation cancel;
  const auto start = std::chrono::steady_clock::now();
  if (limit) cancel.deadline = start + *limit;
  try {
    static_cast<void>(spjit::emit_host(plan, tile, HostIsa::avx2, 32, cancel));
  } catch (const spjit::DeadlineExceeded&) {
    return std::chrono::nanoseconds(-1);
  }
  return std::chrono::steady_clock::now() - start;
}

// What asks only before a segment begins asks long before these deadlines.
TEST(HostEmitter, AsksForTheDeadlineAmidASegment) {
  std::chrono::nanoseconds whole = emit_one_segment({});
  for (int i = 0; i < 3; ++i) whole = std::min(whole, emit_one_segment({}));
  bool given_up = false;
  for (const int percent : {80, 70, 60, 50}) {
    given_up = given_up || emit_one_segment(whole * percent / 100).count() < 0;
  }

  EXPECT_TRUE(given_up);
}

}  // namespace
