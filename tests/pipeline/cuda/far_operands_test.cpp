// Rows of B and C that lie 2^31 bytes and more apart, from the texts to the launch. The emulated
// driver's memory faults for a wrong address, and takes only what is written.

#include <gtest/gtest.h>

#include <limits>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/unrolled/cuda_emitter.hpp"
#include "kernels/cuda/unrolled/cuda_timer.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/kernel.hpp"
#include "tests/support/cuda/cuda_artifacts.hpp"
#include "tests/support/cuda/cuda_proxy_cases.hpp"
#include "tests/support/far_cases.hpp"
#include "tests/support/scoped_variable.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

constexpr std::int64_t k_most = std::numeric_limits<std::int64_t>::max();

std::string far_ptx(const FarCase& far) {
  return join_texts(emit_ptx(far_plan(far), far.spec, 90));
}

TEST(FarOperands, HaveTheBitsOfTheEvaluator) {
  for (const FarCase& far : far_cases_in_all_forms()) {
    SCOPED_TRACE(far.name + ", tile " + to_string(far.spec.tile));

    EXPECT_TRUE(same_bits(run_far_ptx(far_ptx(far), far), near_c(far)));
  }
}

/// One row and column in the middle of the largest matrix that there may be, and its last ones.
FarCase largest_case(bool runtime_sizes) {
  CudaKernelSpec spec = cuda_spec(2, 3);
  spec.ldb = spec.ldc = k_cuda_max_leading_dimension;
  spec.tile.runtime_sizes = runtime_sizes;
  const std::vector<std::int32_t> numbers = {0, 1 << 30,
                                             std::numeric_limits<std::int32_t>::max() - 1};
  return {"largest", random_matrix(3, 3, 0), spec, numbers, numbers};
}

/// Rows of B and then of C, as numbers of rows or as offsets in floats.
std::vector<std::int64_t> places_in(const std::vector<SourceUnit>& units) {
  const EmittedProgram program = read_emitted(units);
  std::vector<std::int64_t> places;
  for (const std::string& target : program.targets) {
    for (const EmittedOperation& op : program.functions.at(target)) {
      if (op.kind != EmittedOperation::Kind::fma) places.push_back(op.row + op.offset);
    }
  }
  return places;
}

TEST(FarOperands, AreExactInBothTextsUpToTheLastOfTheLargestMatrix) {
  for (const bool runtime_sizes : {false, true}) {
    const FarCase far = largest_case(runtime_sizes);
    const std::int64_t unit = runtime_sizes ? 1 : k_cuda_max_leading_dimension;
    const std::int64_t middle = far.columns[1] * unit;
    const std::int64_t last = far.columns[2] * unit;
    // Tiles of two rows and of one.
    const std::vector<std::int64_t> expected = {0, middle, last, 0, middle, 0, middle, last, last};
    const KernelPlan plan =
        build_plan(far.matrix, group_rows(far.matrix, 2, ReorderAlgorithm::none), 3);

    EXPECT_EQ(plan.grouping.tiles(), 2);
    EXPECT_EQ(places_in(emit_ptx(far_plan(far), far.spec, 90)), expected);
    EXPECT_EQ(places_in(emit_cuda(far_plan(far), far.spec)), expected);
  }
}

TEST(FarOperands, OfMoreRowsOrColumnsThanNumbersCanNameAreRefused) {
  const FarCase far = largest_case(false);
  KernelPlan tall = far_plan(far);
  tall.rows = k_cuda_max_rows + 1;
  KernelPlan wide = far_plan(far);
  wide.cols = k_cuda_max_rows + 1;

  EXPECT_NO_THROW(check_cuda_spec(far_plan(far), far.spec));
  EXPECT_THROW(check_cuda_spec(tall, far.spec), InvalidArgument);
  EXPECT_THROW(check_cuda_spec(wide, far.spec), InvalidArgument);
}

class FarLaunch : public ::testing::Test {
 protected:
  [[nodiscard]] static Kernel load(const FarCase& far) {
    const UnrolledProgram program = make_program(far_plan(far), far.spec, 90);
    return Kernel::from_artifact(
               ptx_artifact(far_ptx(far), record_of(program, far.spec.tile).dump()))
        .load();
  }

  ScopedVariable driver_{"SPJIT_CUDA_DRIVER", SPJIT_EMULATED_CUDA};
};

TEST_F(FarLaunch, OfALoadedKernelHasTheBitsOfTheEvaluator) {
  for (const FarCase& far : far_cases_in_all_forms()) {
    SCOPED_TRACE(far.name + ", tile " + to_string(far.spec.tile));
    const Kernel kernel = load(far);
    const CudaContext context(local_cuda_driver(), 0);
    const CudaKernelSpec& spec = far.spec;
    FarRows b(context, far.columns, spec.n, spec.ldb);
    const FarRows c(context, far.rows, spec.n, spec.ldc);
    b.upload(near_b(far));

    kernel.launch({.b = {static_cast<const float*>(b.pointer()), {.ld = spec.ldb}},
                   .c = {static_cast<float*>(c.pointer()), {.ld = spec.ldc}},
                   .n = spec.n});
    context.synchronize();

    EXPECT_TRUE(same_bits(c.download(), near_c(far)));
  }
}

TEST_F(FarLaunch, OfSizesThatDoNotFitAreRefused) {
  const FarCase far = largest_case(true);
  const Kernel kernel = load(far);
  float nothing = 0;
  const auto launch = [&](std::int64_t n, std::int64_t ldb, std::int64_t ldc) {
    kernel.launch({.b = {&nothing, {.ld = ldb}}, .c = {&nothing, {.ld = ldc}}, .n = n});
  };

  constexpr std::int64_t k_beyond = k_cuda_max_leading_dimension + 1;
  EXPECT_THROW(launch(3, k_beyond, 3), InvalidArgument);
  EXPECT_THROW(launch(3, 3, k_beyond), InvalidArgument);
  EXPECT_THROW(launch(3, (std::int64_t{1} << 32) + 3, 3), InvalidArgument);
  EXPECT_THROW(launch(k_most, k_most, k_most), InvalidArgument);
  // One column more than a grid has.
  const std::int64_t n = k_cuda_max_grid_y * 32 + 1;
  EXPECT_THROW(launch(n, n, n), InvalidArgument);
}

TEST(FarTimer, RefusesOperandsOfMoreBytesThanThereAreNumbers) {
  const CudaContext context = emulated_context();
  constexpr std::int64_t k_rows = std::int64_t{1} << 31;

  EXPECT_THROW(CudaTimer(context, timed_problem(1, k_rows, 1, k_rows, 1)), InvalidArgument);
  EXPECT_THROW(CudaTimer(context, timed_problem(k_rows, 1, 1, 1, k_most)), InvalidArgument);
  EXPECT_THROW(CudaTimer(context, timed_problem(1, k_rows, 1, k_rows / 4, 1)), DeviceError);
}

TEST(FarTimer, FillsAllOfABThatIsCopiedInParts) {
  const CudaContext context = emulated_context();
  // 4 456 448 bytes are copied at once: both sides of two such borders, and the last row.
  FarCase far{"parts",
              random_matrix(4, 6, 0),
              cuda_spec(4, 32),
              {0, 34815, 34816, 69631, 69632, 70000},
              first_numbers()};
  CudaTimer timer(context, timed_problem(6, 70001, 32, 32, 32));
  const std::string ptx = far_ptx(far);
  const CudaFunction function = timer.load(std::as_bytes(std::span(ptx)));

  EXPECT_NO_THROW(static_cast<void>(timer.time_us(function, {1, 1, 32, 0, ""}, 1)));
}

}  // namespace
