#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/code/ptx_text.hpp"
#include "kernels/cuda/unrolled/cuda_builder.hpp"
#include "kernels/cuda/unrolled/cuda_candidate.hpp"
#include "kernels/cuda/unrolled/cuda_emitter.hpp"
#include "kernels/cuda/unrolled/ptx_emitter.hpp"
#include "tests/nvrtc/emit/compiler_process.hpp"
#include "tests/support/cuda/emitter_cases.hpp"
#include "tests/support/files/golden.hpp"
#include "tests/support/long_tests.hpp"

namespace {

using spjit::CudaKernelSpec;
using spjit::KernelPlan;
using spjit::SourceUnit;
using spjit::testing_support::compile_unit;
using spjit::testing_support::cuda_plan;
using spjit::testing_support::cuda_spec;
using spjit::testing_support::find_cuda_tool;
using spjit::testing_support::golden_cases;
using spjit::testing_support::in_turn;
using spjit::testing_support::ProcessResult;
using spjit::testing_support::random_matrix;
using spjit::testing_support::TemporaryDirectory;
using spjit::testing_support::text_bytes;

std::string arch(int sm) { return "-arch=sm_" + std::to_string(sm); }

TEST(EmittedPtx, PtxasTakesItForEveryArchitecture) {
  const auto ptxas = find_cuda_tool("ptxas");
  if (!ptxas) GTEST_SKIP() << "no ptxas in CUDA_HOME, PATH or /usr/local/cuda";
  const TemporaryDirectory directory;

  for (const int sm : {75, 80, 86, 89, 90, 100, 120}) {
    for (const auto& [name, plan, spec] : golden_cases()) {
      for (const SourceUnit& unit : spjit::emit_ptx(plan, spec, sm)) {
        const ProcessResult result = compile_unit(*ptxas, directory.path(), unit, arch(sm));

        EXPECT_EQ(result.status, 0) << name << " " << unit.name << "\n" << result.output;
      }
    }
  }
}

TEST(EmittedPtx, ItsVersionIsTheLowestThatPtxasTakes) {
  const auto ptxas = find_cuda_tool("ptxas");
  if (!ptxas) GTEST_SKIP() << "no ptxas in CUDA_HOME, PATH or /usr/local/cuda";
  const TemporaryDirectory directory;
  const auto [name, plan, spec] = golden_cases().front();
  struct Case {
    int sm;
    const char* version_below;
  };

  for (const Case& c : {Case{75, "6.3"}, Case{80, "6.5"}, Case{86, "7.0"}, Case{89, "7.7"},
                        Case{90, "7.7"}, Case{100, "8.5"}, Case{120, "8.6"}}) {
    SourceUnit unit = spjit::emit_ptx(plan, spec, c.sm).front();
    const std::string version(spjit::ptx_version(c.sm));
    unit.text.replace(unit.text.find(".version " + version), 9 + version.size(),
                      std::string(".version ") + c.version_below);

    const ProcessResult result = compile_unit(*ptxas, directory.path(), unit, arch(c.sm));

    EXPECT_NE(result.status, 0) << "sm_" << c.sm << " also with " << c.version_below;
  }
}

TEST(EmittedCuda, NvccTakesItWithoutWarnings) {
  const auto nvcc = find_cuda_tool("nvcc");
  if (!nvcc) GTEST_SKIP() << "no nvcc in CUDA_HOME, PATH or /usr/local/cuda";
  const TemporaryDirectory directory;

  for (const int sm : in_turn<int>({75, 90})) {
    for (const auto& [name, plan, spec] : golden_cases()) {
      const std::vector<SourceUnit> units = spjit::emit_cuda(plan, spec);
      // One unit of each kind; the others are like the last.
      for (std::size_t i = 0; i < std::min<std::size_t>(units.size(), 2); ++i) {
        const ProcessResult result = compile_unit(*nvcc, directory.path(), units[i], arch(sm));

        EXPECT_EQ(result.status, 0) << name << " " << units[i].name << "\n" << result.output;
      }
    }
  }
}

TEST(EmittedCode, HasAboutTheEstimatedSize) {
  const auto ptxas = find_cuda_tool("ptxas");
  if (!ptxas) GTEST_SKIP() << "no ptxas in CUDA_HOME, PATH or /usr/local/cuda";
  const TemporaryDirectory directory;

  for (const int sm : in_turn<int>({75, 90, 120})) {
    for (const double sparsity : {0.5, 0.9}) {
      for (const auto& [runtime, values] :
           {std::pair{false, false}, {true, false}, {false, true}}) {
        CudaKernelSpec spec = cuda_spec(32, 256);
        spec.tile.runtime_sizes = runtime;
        spec.layer.runtime_values = values;
        spec.tile.unit_nonzeros = 1;
        const KernelPlan plan = cuda_plan(random_matrix(64, 256, sparsity), 32);
        const SourceUnit unit = spjit::emit_ptx(plan, spec, sm)[1];
        const ProcessResult result =
            compile_unit(*ptxas, directory.path(), unit, arch(sm) + " -maxrregcount 96");
        ASSERT_EQ(result.status, 0) << result.output;

        const std::int64_t bytes = text_bytes(directory.path() / (unit.name + ".o"));

        EXPECT_GT(unit.estimated_code_bytes, bytes * 3 / 4) << sm << " " << sparsity;
        EXPECT_LT(unit.estimated_code_bytes, bytes * 5 / 4) << sm << " " << sparsity;
      }
    }
  }
}

struct RegisterCase {
  int sm;
  std::int64_t m1;
  bool runtime;
};

class EmittedRegisters : public testing::TestWithParam<RegisterCase> {};

/// Whether ptxas keeps everything in `registers` registers.
bool fits(const SourceUnit& unit, int sm, std::int64_t registers) {
  const TemporaryDirectory directory;
  const ProcessResult result =
      compile_unit(find_cuda_tool("ptxas").value(), directory.path(), unit,
                   arch(sm) + " -v -maxrregcount " + std::to_string(registers));
  EXPECT_EQ(result.status, 0) << result.output;
  return result.output.find("    0 bytes stack frame, 0 bytes spill stores") != std::string::npos;
}

TEST_P(EmittedRegisters, ThePredictionIsEnoughAndNotFarAboveWhatIsNeeded) {
  if (!find_cuda_tool("ptxas")) GTEST_SKIP() << "no ptxas in CUDA_HOME, PATH or /usr/local/cuda";
  const RegisterCase c = GetParam();
  CudaKernelSpec spec = cuda_spec(c.m1, 512);
  spec.tile.runtime_sizes = c.runtime;
  spec.tile.unit_nonzeros = 1;
  const KernelPlan plan = cuda_plan(random_matrix(2 * c.m1, 256, 0.75), c.m1);
  const SourceUnit unit = spjit::emit_ptx(plan, spec, c.sm)[1];

  const std::int64_t predicted = spjit::predict_registers(plan.grouping, spec.tile).total();

  EXPECT_TRUE(fits(unit, c.sm, predicted)) << predicted << " registers predicted";
  constexpr std::int64_t k_slack = 14;
  EXPECT_FALSE(fits(unit, c.sm, predicted - k_slack)) << predicted << " registers predicted";
}

INSTANTIATE_TEST_SUITE_P(Sweep, EmittedRegisters,
                         testing::Values(RegisterCase{75, 16, false}, RegisterCase{75, 32, false},
                                         RegisterCase{75, 64, false}, RegisterCase{75, 128, false},
                                         RegisterCase{75, 64, true}, RegisterCase{90, 16, false},
                                         RegisterCase{90, 32, false}, RegisterCase{90, 64, false},
                                         RegisterCase{90, 128, false}, RegisterCase{90, 64, true},
                                         RegisterCase{120, 32, false}, RegisterCase{120, 64, false},
                                         RegisterCase{120, 128, false}));

/// Bytes a thread that ptxas spills to keep to so many registers.
std::int64_t spilled_bytes(const SourceUnit& unit, int sm, std::int64_t registers) {
  const TemporaryDirectory directory;
  const ProcessResult result =
      compile_unit(find_cuda_tool("ptxas").value(), directory.path(), unit,
                   arch(sm) + " -v -maxrregcount " + std::to_string(registers));
  EXPECT_EQ(result.status, 0) << result.output;
  const std::size_t end = result.output.find(" bytes spill stores");
  if (end == std::string::npos) throw std::runtime_error(result.output);
  const std::size_t begin = result.output.find_last_not_of("0123456789", end - 1) + 1;
  return std::stoll(result.output.substr(begin, end - begin));
}

TEST(EmittedRegistersOfValuesAtRunTime, SpillNoMoreThanIsToleratedAtThePrediction) {
  if (!find_cuda_tool("ptxas")) GTEST_SKIP() << "no ptxas in CUDA_HOME, PATH or /usr/local/cuda";
  for (const RegisterCase& c : in_turn<RegisterCase>(3, {{75, 64, false},
                                                         {80, 32, false},
                                                         {90, 16, false},
                                                         {90, 64, false},
                                                         {90, 64, true},
                                                         {120, 64, false}})) {
    CudaKernelSpec spec = cuda_spec(c.m1, 512);
    spec.tile.runtime_sizes = c.runtime;
    spec.layer.runtime_values = true;
    spec.tile.unit_nonzeros = 1;
    const KernelPlan plan = cuda_plan(random_matrix(2 * c.m1, 256, 0.75), c.m1);
    const SourceUnit unit = spjit::emit_ptx(plan, spec, c.sm)[1];

    const std::int64_t predicted =
        spjit::predict_registers(plan.grouping, spec.tile, spec.layer).total();

    EXPECT_LE(spilled_bytes(unit, c.sm, predicted), spjit::k_tolerated_spill_bytes)
        << predicted << " registers predicted for sm_" << c.sm << ", " << c.m1 << " rows";
    constexpr std::int64_t k_far_below = 14;
    EXPECT_GT(spilled_bytes(unit, c.sm, predicted - k_far_below), 0) << c.sm << " " << c.m1;
  }
}

}  // namespace
