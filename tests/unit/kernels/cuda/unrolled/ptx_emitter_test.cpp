#include "kernels/cuda/unrolled/ptx_emitter.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/code/source_text.hpp"
#include "kernels/cuda/unrolled/cuda_emitter.hpp"
#include "spjit/error.hpp"
#include "tests/support/cuda/emitter_cases.hpp"
#include "tests/support/files/golden.hpp"

namespace {

using spjit::CudaKernelSpec;
using spjit::KernelPlan;
using spjit::SourceUnit;
using spjit::testing_support::cuda_plan;
using spjit::testing_support::cuda_spec;
using spjit::testing_support::EmittedProgram;
using spjit::testing_support::executes_as_evaluated;
using spjit::testing_support::execution_cases;
using spjit::testing_support::ExecutionCase;
using spjit::testing_support::random_matrix;
using spjit::testing_support::read_emitted;
using spjit::testing_support::unusual_values;

TEST(PtxEmitter, LiteralsAreTheBits) {
  for (const float value : unusual_values()) {
    spjit::SourceText text(0);
    spjit::append_ptx_literal(text, value);
    const std::string literal = std::move(text).take();

    ASSERT_EQ(literal.size(), 10U);
    EXPECT_EQ(std::stoul(literal.substr(2), nullptr, 16), std::bit_cast<std::uint32_t>(value));
  }
}

TEST(PtxEmitter, TheTextExecutesAsThePlanIsEvaluated) {
  for (const ExecutionCase& c : execution_cases()) {
    const KernelPlan plan = cuda_plan(c.matrix, c.spec.tile.m1);

    EXPECT_TRUE(executes_as_evaluated(spjit::emit_ptx(plan, c.spec, 90), plan, c.spec))
        << to_string(c.spec.tile);
  }
}

TEST(PtxEmitter, OffsetsStayWithinAnInstructionsReach) {
  CudaKernelSpec spec = cuda_spec(2, 3);
  spec.ldb = (1 << 21) - 1;
  const KernelPlan plan = cuda_plan(random_matrix(20, 30, 0.3), 2);
  // Rows of C a little farther apart than an offset reaches, and much.
  for (const std::int64_t ldc : {(std::int64_t{1} << 21) + 1, (std::int64_t{1} << 30) - 1}) {
    spec.ldc = ldc;

    const std::vector<SourceUnit> units = spjit::emit_ptx(plan, spec, 75);

    std::int64_t offsets = 0;
    for (const SourceUnit& unit : units) {
      for (std::size_t at = 0; (at = unit.text.find('+', at)) != std::string::npos; ++at) {
        const std::int64_t offset = std::stoll(unit.text.substr(at + 1));
        EXPECT_GE(offset, 0);
        EXPECT_LT(offset, 1 << 23);
        ++offsets;
      }
    }
    EXPECT_GT(offsets, 20);
  }
}

TEST(PtxEmitter, SaysTheSameAsTheCudaEmitter) {
  CudaKernelSpec spec = cuda_spec(8, 40);
  spec.tile.unit_nonzeros = 100;
  const KernelPlan plan = cuda_plan(random_matrix(50, 60, 0.7), 8);

  const std::vector<SourceUnit> ptx_units = spjit::emit_ptx(plan, spec, 80);
  const std::vector<SourceUnit> cuda_units = spjit::emit_cuda(plan, spec);

  ASSERT_EQ(ptx_units.size(), cuda_units.size());
  for (std::size_t i = 0; i < ptx_units.size(); ++i) {
    EXPECT_EQ(ptx_units[i].name, cuda_units[i].name);
    EXPECT_EQ(ptx_units[i].functions, cuda_units[i].functions);
    EXPECT_EQ(ptx_units[i].nonzeros, cuda_units[i].nonzeros);
  }
  const EmittedProgram ptx = read_emitted(ptx_units);
  const EmittedProgram cuda = read_emitted(cuda_units);
  EXPECT_EQ(ptx.targets, cuda.targets);
  EXPECT_EQ(ptx.bound, cuda.bound);
  EXPECT_EQ(ptx.threads, cuda.threads);
  for (const auto& [name, operations] : cuda.functions) {
    const auto& other = ptx.functions.at(name);
    ASSERT_EQ(other.size(), operations.size());
    for (std::size_t i = 0; i < operations.size(); ++i) {
      EXPECT_EQ(other[i].kind, operations[i].kind);
      EXPECT_EQ(other[i].accumulator, operations[i].accumulator);
      EXPECT_EQ(other[i].offset, operations[i].offset);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(other[i].value),
                std::bit_cast<std::uint32_t>(operations[i].value));
    }
  }
}

TEST(PtxEmitter, StatesVersionTargetAndLaunchBounds) {
  CudaKernelSpec spec = cuda_spec(8, 40);
  spec.tile.n1 = 96;
  spec.min_blocks = 3;

  const std::string text =
      spjit::emit_ptx(cuda_plan(random_matrix(9, 9, 0.5), 8), spec, 120).front().text;

  for (const std::string_view part :
       {".version 8.7\n", ".target sm_120\n", ".maxntid 96, 1, 1\n", ".minnctapersm 3\n"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
}

TEST(PtxEmitter, RefusesArchitecturesItDoesNotKnow) {
  const KernelPlan plan = cuda_plan(random_matrix(9, 9, 0.5), 8);

  EXPECT_THROW(static_cast<void>(spjit::emit_ptx(plan, cuda_spec(8, 40), 61)), spjit::NotSupported);
  EXPECT_THROW(static_cast<void>(spjit::emit_ptx(plan, cuda_spec(8, 0), 75)),
               spjit::InvalidArgument);
}

TEST(PtxEmitter, TheOutputChangesOnlyWithItsVersion) {
  for (const auto& [name, plan, spec] : spjit::testing_support::golden_cases()) {
    spjit::testing_support::expect_golden(name + ".ptx", spjit::emit_ptx(plan, spec, 75),
                                          spjit::k_ptx_emitter_version);
  }
}

}  // namespace
