#include "kernels/host/unrolled/llvm_emitter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/executable_code.hpp"
#include "kernels/host/unrolled/disassembler.hpp"
#include "kernels/host/unrolled/segment_arguments.hpp"
#include "spjit/error.hpp"
#include "tests/support/guarded_memory.hpp"
#include "tests/support/spmm_testing.hpp"

namespace spjit {
namespace {

#ifdef SPJIT_HAVE_LLVM

using testing_support::Guarded;
using testing_support::GuardedFloats;
using testing_support::GuardPlacement;

using Segment = std::remove_pointer_t<HostSegment>;
using Lanes = std::vector<std::int32_t>;

constexpr std::int64_t k_lanes = 4;
constexpr float k_guard = 1234.5F;

RowGrouping group_in_order(const CsrMatrix& matrix, std::int64_t m1) {
  RowGrouping grouping;
  grouping.m1 = m1;
  for (std::int32_t row = 0; row < matrix.rows; ++row) {
    const auto index = static_cast<std::size_t>(row);
    const bool empty = matrix.row_ptrs[index] == matrix.row_ptrs[index + 1];
    if (empty) {
      grouping.empty_rows.add(row, row + 1);
    } else {
      grouping.rows.push_back(row);
    }
  }
  // Any order is legal; the reverse shows rows that are taken for their places.
  std::reverse(grouping.rows.begin(), grouping.rows.end());
  const std::int64_t rows = std::ssize(grouping.rows);
  for (std::int64_t end = 0; end < rows;) {
    end = std::min(end + m1, rows);
    grouping.tile_ptrs.push_back(end);
  }
  return grouping;
}

/// Draws numbers of which a share is special: zeros, denormals, NaN, infinities, huge and tiny.
class Numbers {
 public:
  explicit Numbers(unsigned seed, bool special = true) : random_(seed), special_(special) {}

  std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  float value() {
    using Limits = std::numeric_limits<float>;
    const std::vector<float> specials = {
        0.0F,          -0.0F,          Limits::denorm_min(), -Limits::denorm_min(), Limits::min(),
        Limits::max(), -Limits::max(), Limits::infinity(),   Limits::quiet_NaN(),   1e-30F};
    if (special_ && between(0, 19) == 0) {
      return specials[static_cast<std::size_t>(between(0, std::ssize(specials) - 1))];
    }
    return std::uniform_real_distribution<float>(-1, 1)(random_);
  }
  CsrMatrix matrix(std::int64_t rows, std::int64_t cols, double density) {
    CsrMatrix matrix;
    matrix.rows = rows;
    matrix.cols = cols;
    std::bernoulli_distribution is_entry(density);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int32_t col = 0; col < cols; ++col) {
        if (!is_entry(random_)) continue;
        matrix.col_idxs.push_back(col);
        matrix.values.push_back(value());
      }
      matrix.row_ptrs.push_back(matrix.nnz());
    }
    return matrix;
  }
  std::vector<float> values(std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& element : values) element = value();
    return values;
  }

 private:
  std::mt19937 random_;
  bool special_;
};

/// One multiplication: a matrix, a tile, and B and C of one panel with leading dimensions.
struct Multiplication {
  CsrMatrix matrix;
  HostTile tile;
  std::int64_t k_block = 1;
  std::int64_t ldb = 0;  ///< floats
  std::int64_t ldc = 0;  ///< floats
  std::vector<float> b;  ///< [k x ldb]
  Lanes masks;           ///< [nv * 4], or empty for whole stores

  std::int64_t width() const { return tile.nv * k_lanes; }
  bool stores(std::int64_t lane) const {
    return masks.empty() || masks[static_cast<std::size_t>(lane)] != 0;
  }
};

Multiplication random_problem(Numbers& numbers) {
  Multiplication problem;
  problem.matrix = numbers.matrix(numbers.between(1, 40), numbers.between(1, 120),
                                  static_cast<double>(numbers.between(2, 80)) / 100);
  problem.tile.nv = numbers.between(1, 3);
  problem.tile.m1 = numbers.between(1, 14);
  problem.k_block = numbers.between(1, problem.matrix.cols + 10);
  problem.ldb = problem.width() + numbers.between(0, 3);
  problem.ldc = problem.width() + numbers.between(0, 9);
  problem.b = numbers.values(problem.matrix.cols * problem.ldb);
  if (numbers.between(0, 1) == 1) {
    problem.masks.assign(static_cast<std::size_t>(problem.width()), 0);
    for (std::int32_t& mask : problem.masks)
      mask = -static_cast<std::int32_t>(numbers.between(0, 1));
  }
  return problem;
}

/// The definition, element by element; elements that the kernel does not store keep `k_guard`.
std::vector<float> reference(const Multiplication& problem) {
  const CsrMatrix& a = problem.matrix;
  std::vector<float> c(static_cast<std::size_t>(a.rows * problem.ldc), k_guard);
  for (std::int64_t row = 0; row < a.rows; ++row) {
    const auto begin = static_cast<std::size_t>(a.row_ptrs[static_cast<std::size_t>(row)]);
    const auto end = static_cast<std::size_t>(a.row_ptrs[static_cast<std::size_t>(row) + 1]);
    if (begin == end) continue;  // empty rows are not the emitter's
    for (std::int64_t j = 0; j < problem.width(); ++j) {
      float sum = 0;
      for (std::size_t entry = begin; entry < end; ++entry) {
        const auto at = static_cast<std::size_t>(a.col_idxs[entry] * problem.ldb + j);
        const volatile float product = a.values[entry] * problem.b[at];  // rounded by itself
        sum = sum + product;
      }
      if (problem.stores(j)) c[static_cast<std::size_t>(row * problem.ldc + j)] = sum;
    }
  }
  return c;
}

/// Runs all segments on `c`. What they read, and the tiles' accumulators, lie against pages that
/// cannot be touched.
void run(const Multiplication& problem, float* c, GuardPlacement placement) {
  const KernelPlan plan =
      build_plan(problem.matrix, group_in_order(problem.matrix, problem.tile.m1), problem.k_block);
  const HostCode code = emit_generic(plan, problem.tile, problem.ldb * 4);
  if (plan.segments() == 0) return;
  const ExecutableCode executable(std::as_bytes(std::span(code.text)));
  const Guarded<float> b(problem.b, placement);
  const Guarded<float> weights(code.weights, placement);
  const Guarded<std::int32_t> masks(problem.masks, placement);
  const Guarded<SegmentArguments> arguments(
      std::vector<SegmentArguments>{
          {c, problem.ldc * 4, problem.masks.empty() ? nullptr : masks.data()}},
      placement);
  for (std::int64_t tile = 0; tile < plan.grouping.tiles(); ++tile) {
    const GuardedFloats partial(problem.tile.m1 * problem.width(), placement);
    for (std::int64_t block = 0; block < plan.k_blocks; ++block) {
      const auto index = static_cast<std::size_t>(tile * plan.k_blocks + block);
      executable.function<Segment>(static_cast<std::size_t>(code.segment_offsets[index]))(
          b.data() + block * plan.k_block * problem.ldb,
          weights.data() + code.weight_offsets[index],
          plan.k_blocks == 1 ? nullptr : partial.data(),
          block + 1 == plan.k_blocks ? arguments.data() : nullptr);
    }
    EXPECT_TRUE(partial.intact());
  }
}

/// C, whole rows of it, with either placement.
std::vector<float> run(const Multiplication& problem) {
  std::vector<float> result;
  for (const GuardPlacement placement : testing_support::k_placements) {
    const GuardedFloats c(problem.matrix.rows * problem.ldc, placement);
    std::ranges::fill(c.span(), k_guard);
    run(problem, c.data(), placement);
    EXPECT_TRUE(c.intact());
    EXPECT_TRUE(result.empty() || testing_support::same_bits(c.span(), result)) << placement;
    result.assign(c.span().begin(), c.span().end());
  }
  return result;
}

/// All NaN are one value here: which operand's payload survives is not defined.
testing::AssertionResult same_bits(const std::vector<float>& actual,
                                   const std::vector<float>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const bool both_nan = std::isnan(actual[i]) && std::isnan(expected[i]);
    if (!both_nan &&
        std::bit_cast<std::uint32_t>(actual[i]) != std::bit_cast<std::uint32_t>(expected[i])) {
      return testing::AssertionFailure()
             << "element " << i << ": " << actual[i] << ", expected " << expected[i];
    }
  }
  return testing::AssertionSuccess();
}

TEST(LlvmEmitter, EqualsTheDefinitionBitForBitOverRandomPlans) {
  Numbers numbers(11);

  for (int round = 0; round < 60; ++round) {
    const Multiplication problem = random_problem(numbers);

    ASSERT_TRUE(same_bits(run(problem), reference(problem)))
        << "round " << round << ", tile " << to_string(problem.tile) << ", k_block "
        << problem.k_block << ", " << problem.matrix.rows << " x " << problem.matrix.cols;
  }
}

TEST(LlvmEmitter, CutsLongSegmentsIntoBlocksOfTheSameArithmetic) {
  Numbers numbers(12, false);
  Multiplication problem;
  problem.matrix = numbers.matrix(14, 2000, 0.5);  // 14 000 entries in one segment
  problem.tile.m1 = 14;
  problem.tile.nv = 2;
  problem.k_block = 2000;
  problem.ldb = problem.ldc = problem.width();
  problem.b = numbers.values(2000 * problem.ldb);

  EXPECT_TRUE(same_bits(run(problem), reference(problem)));
}

TEST(LlvmEmitter, KeepsTheSegmentsOfManyModulesInOrder) {
  Numbers numbers(13, false);
  Multiplication problem;
  problem.matrix = numbers.matrix(120, 400, 0.6);  // about 29 000 entries: several modules
  problem.tile.m1 = 5;
  problem.k_block = 150;
  problem.ldb = problem.ldc = problem.width();
  problem.b = numbers.values(400 * problem.ldb);

  EXPECT_TRUE(same_bits(run(problem), reference(problem)));
}

TEST(LlvmEmitter, WritesSegmentsWithoutEntries) {
  Numbers numbers(14, false);
  Multiplication problem;
  problem.matrix.rows = 1;
  problem.matrix.cols = 10;
  problem.matrix.row_ptrs = {0, 1};
  problem.matrix.col_idxs = {4};
  problem.matrix.values = {-0.0F};
  problem.tile.m1 = 1;
  problem.k_block = 2;  // five segments, one of which has the entry
  problem.ldb = problem.ldc = problem.width();
  problem.b = std::vector<float>(40, 3.0F);

  // +0 + (-0 * 3) = +0
  EXPECT_TRUE(same_bits(run(problem), {0.0F, 0.0F, 0.0F, 0.0F}));
}

TEST(LlvmEmitter, RoundsProductAndSumSeparately) {
  Multiplication problem;
  problem.matrix.rows = 1;
  problem.matrix.cols = 2;
  problem.matrix.row_ptrs = {0, 2};
  problem.matrix.col_idxs = {0, 1};
  const float x = 1.0F + std::ldexp(1.0F, -12);
  problem.matrix.values = {-1.0F, x};
  problem.tile.m1 = 1;
  problem.k_block = 2;
  problem.ldb = problem.ldc = 4;
  const float square = x * x;
  problem.b = {square, square, square, square, x, x, x, x};

  // A fused multiply-add would leave 2^-24 here, the error of the rounded product.
  EXPECT_TRUE(same_bits(run(problem), {0.0F, 0.0F, 0.0F, 0.0F}));
}

/// The last row's stored lanes end where a page that cannot be touched begins.
TEST(LlvmEmitter, TouchesNoMemoryBehindMaskedLanes) {
  Numbers numbers(15);
  Multiplication problem;
  problem.matrix = numbers.matrix(6, 20, 0.7);
  problem.tile.m1 = 4;
  problem.tile.nv = 2;
  problem.k_block = 20;
  problem.ldb = problem.width();
  problem.b = numbers.values(20 * problem.ldb);

  for (std::int64_t stored = 1; stored <= 8; ++stored) {
    problem.ldc = stored;  // rows of n = `stored` floats, nothing between them
    problem.masks.assign(8, 0);
    std::fill_n(problem.masks.begin(), stored, -1);
    const GuardedFloats guarded(6 * stored);
    const float* c = guarded.data();

    run(problem, guarded.data(), GuardPlacement::at_end);

    Multiplication wide = problem;
    wide.ldc = 8;
    const std::vector<float> expected = reference(wide);
    for (std::size_t row = 0; row < 6; ++row) {
      const auto count = static_cast<std::ptrdiff_t>(stored);
      const std::vector<float> actual(c + static_cast<std::ptrdiff_t>(row) * count,
                                      c + static_cast<std::ptrdiff_t>(row + 1) * count);
      const auto begin = expected.begin() + static_cast<std::ptrdiff_t>(row * 8);
      EXPECT_TRUE(same_bits(actual, {begin, begin + count})) << "row " << row;
    }
  }
}

TEST(LlvmEmitter, PlacesFunctionsAtMultiplesOf64AndWeightsFourTimes) {
  Numbers numbers(16, false);
  const CsrMatrix matrix = numbers.matrix(9, 30, 0.4);
  const KernelPlan plan = build_plan(matrix, group_in_order(matrix, 4), 16);
  HostTile tile;
  tile.m1 = 4;

  const HostCode code = emit_generic(plan, tile, 16);

  ASSERT_EQ(std::ssize(code.segment_offsets), plan.segments());
  ASSERT_EQ(std::ssize(code.weight_offsets), plan.segments());
  for (const std::int64_t offset : code.segment_offsets) EXPECT_EQ(offset % 64, 0);
  ASSERT_EQ(std::ssize(code.weights), 4 * plan.nnz());
  for (std::size_t i = 0; i < code.weights.size(); ++i) {
    EXPECT_EQ(code.weights[i], plan.entry_values[i / 4]);
  }
}

/// Baseline x86-64 only, and accumulators that stay in registers: what goes to the stack does not
/// grow with the entries.
TEST(LlvmEmitter, EmitsSse2AndSpillsNoAccumulators) {
  Numbers numbers(17, false);
  const auto emit = [&](double density) {
    const CsrMatrix matrix = numbers.matrix(14, 280, density);
    HostTile tile;
    tile.m1 = 14;
    return disassemble(
        emit_generic(build_plan(matrix, group_in_order(matrix, 14), 280), tile, 16).text);
  };
  const auto stack_stores = [](const std::vector<DisassembledInstruction>& code) {
    return std::count_if(code.begin(), code.end(), [](const DisassembledInstruction& instruction) {
      const std::size_t stack = instruction.text.find("(%rsp");
      return stack != std::string::npos && stack > instruction.text.rfind(", ");
    });
  };

  const std::vector<DisassembledInstruction> sparse = emit(0.1);
  const std::vector<DisassembledInstruction> dense = emit(1);

  EXPECT_LE(stack_stores(dense), stack_stores(sparse) + 14);
  for (const DisassembledInstruction& instruction : dense) {
    EXPECT_NE(instruction.text, "(bad)");
    EXPECT_NE(instruction.text.front(), 'v') << instruction.text;
  }
}

TEST(LlvmEmitter, GivesTheSameBytesEveryTimeAndFromManyThreads) {
  Numbers numbers(18, false);
  const CsrMatrix matrix = numbers.matrix(30, 100, 0.3);
  const KernelPlan plan = build_plan(matrix, group_in_order(matrix, 6), 50);
  HostTile tile;
  tile.m1 = 6;
  tile.nv = 2;
  std::vector<HostCode> codes(3);

  {
    std::vector<std::jthread> threads;
    for (HostCode& code : codes) threads.emplace_back([&] { code = emit_generic(plan, tile, 32); });
  }

  EXPECT_EQ(codes[0].text, codes[1].text);
  EXPECT_EQ(codes[0].text, codes[2].text);
  EXPECT_EQ(codes[0].segment_offsets, codes[2].segment_offsets);
}

TEST(LlvmEmitter, OfNoTilesIsEmpty) {
  CsrMatrix matrix;
  matrix.rows = 2;
  matrix.cols = 2;
  matrix.row_ptrs = {0, 0, 0};
  HostTile tile;
  tile.m1 = 2;

  const HostCode code = emit_generic(build_plan(matrix, group_in_order(matrix, 2), 2), tile, 16);

  EXPECT_TRUE(code.text.empty());
  EXPECT_TRUE(code.segment_offsets.empty());
}

TEST(LlvmEmitter, RefusesTilesAndStridesItCannotServe) {
  Numbers numbers(19, false);
  const CsrMatrix matrix = numbers.matrix(4, 4, 1);
  const KernelPlan plan = build_plan(matrix, group_in_order(matrix, 2), 4);
  HostTile tile;
  tile.m1 = 15;
  HostTile no_columns;
  no_columns.m1 = 2;
  no_columns.nv = 0;
  HostTile good;
  good.m1 = 2;

  EXPECT_THROW(static_cast<void>(emit_generic(plan, tile, 16)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(emit_generic(plan, no_columns, 16)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(emit_generic(plan, good, 0)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(emit_generic(plan, good, (1 << 20) + 4)), InvalidArgument);
}

#else

TEST(LlvmEmitter, SaysThatItNeedsLlvm) {
  const KernelPlan plan;

  EXPECT_THROW(static_cast<void>(emit_generic(plan, HostTile{}, 16)), NotSupported);
}

#endif

}  // namespace
}  // namespace spjit
