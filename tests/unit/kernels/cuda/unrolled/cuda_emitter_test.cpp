#include "kernels/cuda/unrolled/cuda_emitter.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "kernels/cuda/code/source_text.hpp"
#include "kernels/cuda/unrolled/cuda_units.hpp"
#include "spjit/error.hpp"
#include "tests/support/cuda/emitter_cases.hpp"
#include "tests/support/files/golden.hpp"

namespace {

using spjit::CsrMatrix;
using spjit::CudaKernelSpec;
using spjit::KernelPlan;
using spjit::SourceUnit;
using spjit::testing_support::cuda_plan;
using spjit::testing_support::cuda_spec;
using spjit::testing_support::EmittedOperation;
using spjit::testing_support::EmittedProgram;
using spjit::testing_support::executes_as_evaluated;
using spjit::testing_support::execution_cases;
using spjit::testing_support::ExecutionCase;
using spjit::testing_support::random_matrix;
using spjit::testing_support::read_emitted;
using spjit::testing_support::unusual_values;

TEST(CudaEmitter, LiteralsAreExact) {
  for (const float value : unusual_values()) {
    spjit::SourceText text(0);
    spjit::append_cuda_literal(text, value);
    const std::string literal = std::move(text).take();

    const float back = spjit::testing_support::detail::parse_cuda_literal(literal);

    EXPECT_EQ(std::bit_cast<std::uint32_t>(back), std::bit_cast<std::uint32_t>(value)) << literal;
  }
}

TEST(CudaEmitter, LiteralsOfRandomBitsAreExact) {
  std::uint32_t bits = 12345;
  for (int i = 0; i < 20000; ++i) {
    bits = bits * 1664525U + 1013904223U;
    spjit::SourceText text(0);
    spjit::append_cuda_literal(text, std::bit_cast<float>(bits));
    const std::string literal = std::move(text).take();

    const float back = spjit::testing_support::detail::parse_cuda_literal(literal);

    ASSERT_EQ(std::bit_cast<std::uint32_t>(back), bits) << literal;
  }
}

TEST(CudaEmitter, TheTextExecutesAsThePlanIsEvaluated) {
  for (const ExecutionCase& c : execution_cases()) {
    const KernelPlan plan = cuda_plan(c.matrix, c.spec.tile.m1);

    EXPECT_TRUE(executes_as_evaluated(spjit::emit_cuda(plan, c.spec), plan, c.spec))
        << to_string(c.spec.tile);
  }
}

TEST(CudaEmitter, UnusualValuesReachTheTextBitForBit) {
  CsrMatrix matrix{1, 0, {0}, {}, unusual_values()};
  matrix.cols = std::ssize(matrix.values);
  matrix.row_ptrs.push_back(matrix.cols);
  for (std::int32_t i = 0; i < matrix.cols; ++i) matrix.col_idxs.push_back(i);

  const EmittedProgram program =
      read_emitted(spjit::emit_cuda(cuda_plan(matrix, 4), cuda_spec(4, 8)));

  std::vector<std::uint32_t> bits;
  for (const EmittedOperation& op : program.functions.at("spjit_tile_0")) {
    if (op.kind == EmittedOperation::Kind::fma) {
      bits.push_back(std::bit_cast<std::uint32_t>(op.value));
    }
  }
  ASSERT_EQ(bits.size(), matrix.values.size());
  for (std::size_t i = 0; i < bits.size(); ++i) {
    EXPECT_EQ(bits[i], std::bit_cast<std::uint32_t>(matrix.values[i]));
  }
}

TEST(CudaEmitter, LoadsEachColumnOnceBeforeItsFmas) {
  const KernelPlan plan = cuda_plan(random_matrix(4, 30, 0.5), 4);

  const EmittedProgram program = read_emitted(spjit::emit_cuda(plan, cuda_spec(4, 8)));

  std::int64_t loads = 0;
  std::int64_t columns = 0;
  std::string column;
  for (const EmittedOperation& op : program.functions.at("spjit_tile_0")) {
    if (op.kind == EmittedOperation::Kind::load) ++loads;
    if (op.kind != EmittedOperation::Kind::fma || op.b == column) continue;
    column = op.b;
    ++columns;
    EXPECT_EQ(loads, columns);
  }
  EXPECT_EQ(columns, std::ssize(plan.columns));
  EXPECT_EQ(loads, columns);
}

TEST(CudaEmitter, TheKernelChecksColumnsAndCallsEveryFunction) {
  CudaKernelSpec spec = cuda_spec(4, 100);
  const KernelPlan plan = cuda_plan(random_matrix(30, 20, 0.9), 4);

  const EmittedProgram program = read_emitted(spjit::emit_cuda(plan, spec));

  EXPECT_EQ(program.bound, 100);
  EXPECT_EQ(program.threads, 32);
  EXPECT_EQ(std::ssize(program.targets), spjit::cuda_grid(plan, spec.tile, spec.n).x);
  EXPECT_EQ(spjit::cuda_grid(plan, spec.tile, spec.n).y, 4);
  spec.tile.runtime_sizes = true;
  EXPECT_FALSE(read_emitted(spjit::emit_cuda(plan, spec)).bound.has_value());
}

TEST(CudaEmitter, UnitsAreBoundedAndAlikeInBothUses) {
  CudaKernelSpec spec = cuda_spec(4, 8);
  spec.tile.unit_nonzeros = 300;
  const KernelPlan plan = cuda_plan(random_matrix(100, 60, 0.6), 4);

  const std::vector<SourceUnit> units = spjit::emit_cuda(plan, spec);

  ASSERT_GT(units.size(), 3U);
  EXPECT_EQ(units.front().kernel, spjit::k_cuda_kernel_name);
  EXPECT_TRUE(units.front().functions.empty());
  std::int64_t nonzeros = 0;
  for (const SourceUnit& unit : units) {
    EXPECT_LE(unit.nonzeros, 300);
    EXPECT_TRUE(unit.relocatable);
    EXPECT_EQ(unit.kernel.empty(), &unit != &units.front());
    EXPECT_GE(unit.estimated_code_bytes, 16 * unit.nonzeros);
    nonzeros += unit.nonzeros;
  }
  EXPECT_EQ(nonzeros, plan.nnz());
}

TEST(CudaEmitter, ATileLargerThanAUnitStaysWhole) {
  CudaKernelSpec spec = cuda_spec(8, 8);
  spec.tile.unit_nonzeros = 10;
  const KernelPlan plan = cuda_plan(random_matrix(16, 60, 0.5), 8);

  const std::vector<SourceUnit> units = spjit::emit_cuda(plan, spec);

  EXPECT_EQ(units.size(), 3U);
  EXPECT_EQ(units[1].functions, std::vector<std::string>{"spjit_tile_0"});
}

TEST(CudaEmitter, IsDeterministic) {
  const KernelPlan plan = cuda_plan(random_matrix(50, 60, 0.7), 8);

  const std::vector<SourceUnit> first = spjit::emit_cuda(plan, cuda_spec(8, 40));
  const std::vector<SourceUnit> second = spjit::emit_cuda(plan, cuda_spec(8, 40));

  ASSERT_EQ(first.size(), second.size());
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i].text, second[i].text);
}

TEST(CudaEmitter, RefusesWhatItCannotEmit) {
  const CsrMatrix matrix = random_matrix(20, 20, 0.5);
  const KernelPlan plan = cuda_plan(matrix, 8);
  const auto refuses = [&](const KernelPlan& given, const auto& change) {
    CudaKernelSpec spec = cuda_spec(8, 40);
    change(spec);
    EXPECT_THROW(static_cast<void>(spjit::emit_cuda(given, spec)), spjit::InvalidArgument);
  };

  EXPECT_NO_THROW(static_cast<void>(spjit::emit_cuda(plan, cuda_spec(8, 40))));
  refuses(plan, [](CudaKernelSpec& spec) { spec.n = 0; });
  refuses(plan, [](CudaKernelSpec& spec) { spec.ldb = 39; });
  refuses(plan, [](CudaKernelSpec& spec) { spec.ldc = 39; });
  refuses(plan, [](CudaKernelSpec& spec) { spec.ldc = std::int64_t{1} << 30; });
  refuses(plan, [](CudaKernelSpec& spec) { spec.tile.m1 = 7; });
  refuses(plan, [](CudaKernelSpec& spec) { spec.tile.n1 = 1025; });
  refuses(plan, [](CudaKernelSpec& spec) { spec.tile.n1 = 0; });
  refuses(plan, [](CudaKernelSpec& spec) { spec.tile.unit_nonzeros = 0; });
  refuses(plan, [](CudaKernelSpec& spec) { spec.min_blocks = 0; });
  refuses(plan,
          [](CudaKernelSpec& spec) { spec.n = spec.ldb = spec.ldc = std::int64_t{65536} * 32; });
  const auto in_tokens = [](CudaKernelSpec& spec) {
    spec.layer.b_layout = spec.layer.c_layout = spjit::Layout::tokens_major;
  };
  refuses(plan, [&](CudaKernelSpec& spec) { in_tokens(spec), spec.ldb = 0; });
  refuses(plan, [&](CudaKernelSpec& spec) { in_tokens(spec), spec.ldc = plan.rows - 1; });
  refuses(plan, [&](CudaKernelSpec& spec) { in_tokens(spec), spec.tile.n1 = 48; });
  refuses(plan, [&](CudaKernelSpec& spec) { in_tokens(spec), spec.runtime_threads = true; });
  refuses(plan, [](CudaKernelSpec& spec) { spec.layer.c_layout = spjit::Layout::panel_major; });
  const auto unchanged = [](CudaKernelSpec& /*spec*/) {};
  refuses(spjit::build_plan(matrix, plan.grouping, 10), unchanged);
  refuses(cuda_plan(CsrMatrix{}, 8), unchanged);
}

TEST(CudaEmitter, MatricesOfEmptyRowsAreWrittenAsZeros) {
  const KernelPlan plan = cuda_plan(CsrMatrix{2, 3, {0, 0, 0}, {}, {}}, 8);

  EXPECT_TRUE(
      executes_as_evaluated(spjit::emit_cuda(plan, cuda_spec(8, 4)), plan, cuda_spec(8, 4)));
}

TEST(CudaEmitter, TheOutputChangesOnlyWithItsVersion) {
  for (const auto& [name, plan, spec] : spjit::testing_support::golden_cases()) {
    spjit::testing_support::expect_golden(name + ".cu", spjit::emit_cuda(plan, spec),
                                          spjit::k_cuda_emitter_version);
  }
}

TEST(CudaStage, HasNoTwoThreadsOfAWarpInOneBank) {
  const spjit::CudaLayer layer = {.b_layout = spjit::Layout::tokens_major};
  for (std::int64_t n1 = 32; n1 <= 1024; n1 += 32) {
    const spjit::CudaStage stage = stage_of(layer, n1);
    std::set<std::int64_t> banks;
    for (std::int64_t thread = 0; thread < 32; ++thread) {
      const std::int64_t token = thread / stage.features;
      banks.insert((thread % stage.features * stage.pitch + token) % 32);
      EXPECT_LT(token, n1);
    }

    EXPECT_EQ(banks.size(), 32U) << n1;
    EXPECT_EQ(stage.step * stage.features, n1);
    EXPECT_LE(stage.bytes, 48 << 10) << "of which every launch may have so much";
    EXPECT_EQ(stage.bytes, stage.features * stage.pitch * 4);
  }
  EXPECT_EQ(spjit::stage_of({}, 128).bytes, 0);
}

}  // namespace
