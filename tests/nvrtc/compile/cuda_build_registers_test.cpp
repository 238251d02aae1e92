// The registers and the spills of linked kernels under CudaBuildOptions::max_registers, and builds
// of emitted kernels that are given up.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compiler_libraries.hpp"
#include "kernels/cuda/unrolled/cuda_builder.hpp"
#include "kernels/cuda/unrolled/cuda_candidate.hpp"
#include "kernels/cuda/unrolled/cuda_emitter.hpp"
#include "kernels/cuda/unrolled/ptx_emitter.hpp"
#include "runtime/cuda/cubin_info.hpp"
#include "runtime/cuda/cuda_device_info.hpp"
#include "spjit/matrix_io.hpp"
#include "tests/support/cuda/emitter_cases.hpp"
#include "tests/support/files/real_matrices.hpp"
#include "tests/support/long_tests.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using spjit::test::k_both;
using spjit::test::toolchain;

constexpr int k_arch = 90;

/// The least that code with calls is given, whatever the cap.
constexpr std::int64_t k_least_linked = 24;

/// Enough for several units of each matrix, little enough to assemble in seconds.
constexpr std::int64_t k_most_nonzeros = 12'000;
constexpr std::int64_t k_unit_nonzeros = 1024;

struct Kernel {
  KernelPlan plan;
  CudaKernelSpec spec;

  /// The cap that the prediction asks for: registers are handed out in eights.
  [[nodiscard]] std::int64_t predicted_cap() const {
    return (predict_registers(plan.grouping, spec.tile, spec.layer).total() + 7) / 8 * 8;
  }
};

Kernel kernel_of(const CsrMatrix& matrix, std::int64_t m1,
                 std::int64_t unit_nonzeros = k_unit_nonzeros) {
  Kernel kernel{
      .plan = build_plan(matrix, group_rows(matrix, m1, ReorderAlgorithm::similarity), matrix.cols),
      .spec = cuda_spec(m1, 256)};
  kernel.spec.tile.n1 = 128;
  kernel.spec.tile.unit_nonzeros = unit_nonzeros;
  return kernel;
}

std::vector<SourceUnit> units_of(const Kernel& kernel, SourceLanguage language) {
  return language == SourceLanguage::ptx ? emit_ptx(kernel.plan, kernel.spec, k_arch)
                                         : emit_cuda(kernel.plan, kernel.spec);
}

CubinKernel build_kernel(const std::vector<SourceUnit>& units,
                         std::optional<std::int64_t> max_registers) {
  CudaBuildOptions options{.arch = k_arch};
  options.max_registers = max_registers;
  const std::string cubin = build_cubin(units, toolchain(), options);
  const CubinInfo info = read_cubin_info(std::as_bytes(std::span(cubin)));
  const CubinKernel* kernel = info.find_kernel(k_cuda_kernel_name);
  if (kernel == nullptr) throw Error("the cubin has no kernel");
  return *kernel;
}

std::size_t count_threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

TEST(CudaBuildRegisters, LinkedKernelsOfRealMatricesStayAtTheirCapWithoutSpills) {
  SPJIT_SKIP_WITHOUT_TOOLCHAIN(k_both);
  if (matrix_files("dlmc").empty()) GTEST_SKIP() << "no " << data_directory();
  struct Linked {
    std::string file;
    std::shared_ptr<const CsrMatrix> matrix;
    int m1;
    bool values;
  };
  std::vector<Linked> all;
  for (const std::filesystem::path& file : matrix_files("dlmc")) {
    CsrMatrix matrix = load_matrix(file);
    matrix.sort_columns();
    if (matrix.nnz() > k_most_nonzeros) continue;
    const auto shared = std::make_shared<const CsrMatrix>(std::move(matrix));
    for (const auto& [m1, values] : {std::pair{8, false}, {32, false}, {64, false}, {32, true}}) {
      all.push_back({file.stem().string(), shared, m1, values});
    }
  }
  // Of four kernels a matrix every third: in each run all kinds of them.
  const std::vector<Linked> taken = in_turn(3, all);
  for (const auto& [file, matrix, m1, values] : taken) {
    Kernel kernel = kernel_of(*matrix, m1);
    kernel.spec.layer.runtime_values = values;
    SCOPED_TRACE(file + ", tile " + to_string(kernel.spec.tile));
    const std::int64_t cap = kernel.predicted_cap();

    const CubinKernel linked = build_kernel(units_of(kernel, SourceLanguage::ptx), cap);

    EXPECT_LE(linked.registers, std::max(cap, k_least_linked));
    EXPECT_LE(linked.stack_bytes, values ? k_tolerated_spill_bytes : 0);
    RecordProperty(
        file + "_" + std::to_string(m1) + (values ? "_values" : ""),
        "predicted " + std::to_string(cap) + ", linked " + std::to_string(linked.registers));
  }
  EXPECT_GE(taken.size(), 6U);
}

class CudaBuildRegistersOf : public ::testing::TestWithParam<SourceLanguage> {};

TEST_P(CudaBuildRegistersOf, TheCapHoldsInEveryUnit) {
  SPJIT_SKIP_WITHOUT_TOOLCHAIN(k_both);
  const Kernel kernel = kernel_of(random_matrix(96, 96, 0.7), 32);
  const std::vector<SourceUnit> units = units_of(kernel, GetParam());
  ASSERT_GT(units.size(), 2U);
  const std::int64_t cap = kernel.predicted_cap();

  const CubinKernel capped = build_kernel(units, cap);
  const CubinKernel uncapped = build_kernel(units, std::nullopt);

  EXPECT_LE(capped.registers, cap);
  EXPECT_EQ(capped.stack_bytes, 0);
  EXPECT_GT(uncapped.registers, cap);
}

// NVRTC lets the launch bounds of a kernel come before the cap, so they have to agree.
TEST_P(CudaBuildRegistersOf, AWholeProgramStaysAtTheCapOfItsLaunchBounds) {
  SPJIT_SKIP_WITHOUT_TOOLCHAIN(k_both);
  Kernel kernel = kernel_of(random_matrix(32, 96, 0.7), 32);
  kernel.spec.min_blocks = 65536 / (kernel.spec.tile.n1 * kernel.predicted_cap());
  const std::vector<SourceUnit> units = units_of(kernel, GetParam());
  ASSERT_EQ(units.size(), 1U);
  const std::int64_t cap =
      register_cap(parse_cuda_target("sm_90"), kernel.spec.tile.n1, kernel.spec.min_blocks);
  ASSERT_GE(cap, kernel.predicted_cap());

  const CubinKernel capped = build_kernel(units, cap);
  const CubinKernel bounded = build_kernel(units, std::nullopt);

  EXPECT_LE(capped.registers, cap);
  EXPECT_EQ(capped.stack_bytes, 0);
  EXPECT_EQ(capped.registers, bounded.registers);
}

TEST_P(CudaBuildRegistersOf, ACapThatIsTooSmallShowsAsStack) {
  SPJIT_SKIP_WITHOUT_TOOLCHAIN(k_both);
  const Kernel kernel = kernel_of(random_matrix(192, 64, 0.7), 64);
  const std::vector<SourceUnit> units = units_of(kernel, GetParam());
  ASSERT_GT(units.size(), 2U);
  ASSERT_GT(kernel.predicted_cap(), 64);

  const CubinKernel spilling = build_kernel(units, 40);

  EXPECT_LE(spilling.registers, 40);
  EXPECT_GT(spilling.stack_bytes, 0);
}

TEST_P(CudaBuildRegistersOf, ADeadlineStopsABuildOfManyUnitsAndLeavesNothing) {
  SPJIT_SKIP_WITHOUT_TOOLCHAIN(k_both);
  // Seconds of work on any machine; the deadline passes within it.
  const Kernel kernel = kernel_of(random_matrix(1024, 512, 0.9), 32);
  const std::vector<SourceUnit> units = units_of(kernel, GetParam());
  ASSERT_GT(units.size(), 20U);
  const CudaToolchain libraries = toolchain();
  const Kernel small = kernel_of(random_matrix(8, 8, 0.5), 8);
  static_cast<void>(build_kernel(units_of(small, GetParam()), std::nullopt));
  const std::size_t threads_before = count_threads();
  CudaBuildOptions options{.arch = k_arch, .threads = 2};
  options.cancel.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);

  EXPECT_THROW(static_cast<void>(build_cubin(units, libraries, options)), CompileCancelled);

  EXPECT_EQ(count_threads(), threads_before);
  EXPECT_EQ(build_kernel(units_of(small, GetParam()), std::nullopt).stack_bytes, 0);
}

INSTANTIATE_TEST_SUITE_P(Languages, CudaBuildRegistersOf,
                         ::testing::Values(SourceLanguage::cuda, SourceLanguage::ptx),
                         [](const auto& language) {
                           return language.param == SourceLanguage::ptx ? "ptx" : "cuda";
                         });

}  // namespace
