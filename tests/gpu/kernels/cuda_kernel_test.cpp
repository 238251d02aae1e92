// Whole compilations run on a GPU, against the plan's evaluator bit for bit and against float64.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include "runtime/cuda/cuda_context.hpp"
#include "runtime/cuda/cuda_memory.hpp"
#include "runtime/cuda/cuda_stream.hpp"
#include "runtime/cuda/occupancy.hpp"
#include "spjit/error.hpp"
#include "tests/gpu/kernels/gpu_testing.hpp"
#include "tests/support/cuda/cuda_graph.hpp"
#include "tests/support/cuda/emitter_cases.hpp"
#include "tests/support/float64_check.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

/// Fused, columns ascending: what the AVX-512 kernels compute too.
std::vector<float> expected(const CsrMatrix& matrix, const std::vector<float>& b, std::int64_t n) {
  return reference_product(matrix, HostIsa::avx512, b.data(), n, n);
}

double error_over_bound(const CsrMatrix& matrix, const std::vector<float>& b, std::vector<float> c,
                        std::int64_t n) {
  return compare_with_float64(matrix, {b.data(), n, c.data(), n, n}).max_bound_ratio;
}

using CudaKernelOnGpu = GpuTest;

TEST_F(CudaKernelOnGpu, HasTheBitsOfTheEvaluatorForManyShapes) {
  struct Shape {
    std::int64_t rows, cols, n;
    double sparsity;
  };
  for (const Shape& shape :
       {Shape{1, 1, 1, 0}, Shape{1, 70, 3, 0.5}, Shape{70, 1, 33, 0.2}, Shape{64, 64, 32, 0.9},
        Shape{150, 90, 65, 0.8}, Shape{97, 130, 40, 0.97}}) {
    SCOPED_TRACE(testing::Message() << shape.rows << "x" << shape.cols << " n=" << shape.n);
    const CsrMatrix matrix = random_matrix(shape.rows, shape.cols, shape.sparsity);
    const std::vector<float> b = dense_values(shape.cols * shape.n);

    const std::vector<float> c = product(compile_kernel(problem_of(matrix, shape.n), options()), b);

    EXPECT_TRUE(same_bits(c, expected(matrix, b, shape.n)));
    EXPECT_LE(error_over_bound(matrix, b, c, shape.n), 1);
  }
}

TEST_F(CudaKernelOnGpu, TakesBothSources) {
  const CsrMatrix matrix = random_matrix(80, 60, 0.8);
  const std::vector<float> b = dense_values(60 * 50);
  CompileOptions from_cuda = options();
  from_cuda.policy.values["source"] = "cuda";

  const Kernel kernel = Compiler(from_cuda, uncached()).compile(problem_of(matrix, 50));

  EXPECT_EQ(kernel.info().cuda->compiled_from, "cuda");
  EXPECT_TRUE(same_bits(product(kernel, b), expected(matrix, b, 50)));
}

TEST_F(CudaKernelOnGpu, WritesEmptyRowsAndMatricesWithoutEntriesAsZeros) {
  CsrMatrix matrix = small_matrix();
  CsrMatrix nothing{130, 4, std::vector<std::int64_t>(131, 0), {}, {}};
  const std::vector<float> b = dense_values(5 * 9);

  const std::vector<float> c = product(compile_kernel(problem_of(matrix, 9), options()), b);
  const std::vector<float> zeros = product(compile_kernel(problem_of(nothing, 9), options()), b);

  EXPECT_TRUE(same_bits(c, expected(matrix, b, 9)));
  EXPECT_TRUE(same_bits(zeros, std::vector<float>(130 * 9, 0.0F)));
}

TEST_F(CudaKernelOnGpu, KeepsUnusualValues) {
  const std::vector<float> values = unusual_values();
  CsrMatrix matrix{static_cast<std::int64_t>(values.size()), 1, {0}, {}, values};
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    matrix.row_ptrs.push_back(row + 1);
    matrix.col_idxs.push_back(0);
  }
  const std::vector<float> b = {1.0F, -0.0F, 1e-40F, std::numeric_limits<float>::infinity(), 3.0F};

  const std::vector<float> c = product(compile_kernel(problem_of(matrix, 5), options()), b);

  EXPECT_TRUE(same_bits(c, expected(matrix, b, 5)));
}

TEST_F(CudaKernelOnGpu, LeavesWhatLiesPastNAlone) {
  const CsrMatrix matrix = random_matrix(40, 30, 0.7);
  Problem padded = problem_of(matrix, 20);
  padded.b.leading_dimension = 24;
  padded.c.leading_dimension = 29;
  const std::vector<float> b = dense_values(30 * 24);
  std::vector<float> c(40 * 29, -7.0F);

  compile_kernel(padded, options()).load().run(b.data(), c.data());

  const std::vector<float> right = reference_product(matrix, HostIsa::avx512, b.data(), 24, 20);
  for (std::size_t row = 0; row < 40; ++row) {
    for (std::size_t j = 0; j < 29; ++j) {
      const float wanted = j < 20 ? right[row * 20 + j] : -7.0F;
      ASSERT_TRUE(same_value(c[row * 29 + j], wanted)) << row << ", " << j;
    }
  }
}

TEST_F(CudaKernelOnGpu, TakesOtherSizesIfTheyAreParameters) {
  const CsrMatrix matrix = random_matrix(50, 40, 0.8);
  Problem any_size = problem_of(matrix, 64);
  any_size.n = Extent::at_run_time(64);
  const Kernel kernel = compile_kernel(any_size, options()).load();
  const Kernel fixed = compile_kernel(problem_of(matrix, 64), options()).load();
  const CudaContext context(local_cuda_driver(), 0);
  const std::vector<float> b = dense_values(40 * 100);
  DeviceBuffer device_b(context, b.size() * sizeof(float));
  DeviceBuffer device_c(context, 50 * 100 * sizeof(float));
  device_b.upload(std::as_bytes(std::span(b)));
  const Arguments operands{.b = {static_cast<const float*>(device_b.pointer()), {.ld = 100}},
                           .c = {static_cast<float*>(device_c.pointer()), {.ld = 100}},
                           .n = 100};
  std::vector<float> c(50 * 100);

  kernel.launch(operands);
  context.synchronize();
  device_c.download(std::as_writable_bytes(std::span(c)));

  EXPECT_TRUE(same_bits(c, expected(matrix, b, 100)));
  EXPECT_THROW(fixed.launch(operands), InvalidArgument);
}

TEST_F(CudaKernelOnGpu, CanBeCapturedIntoAGraphAndReplayed) {
  const CsrMatrix matrix = random_matrix(60, 40, 0.8);
  const Kernel kernel = compile_kernel(problem_of(matrix, 32), options()).load();
  const CudaContext context(local_cuda_driver(), 0);
  const CudaStream stream(context);
  DeviceBuffer device_b(context, 40 * 32 * sizeof(float));
  DeviceBuffer device_c(context, 60 * 32 * sizeof(float));

  const CudaGraph graph = CudaGraph::capture(stream, [&] {
    kernel.launch(static_cast<const float*>(device_b.pointer()),
                  static_cast<float*>(device_c.pointer()), stream.handle());
  });

  for (const std::uint64_t seed : {1U, 2U}) {
    const std::vector<float> b = dense_values(40 * 32, seed);
    std::vector<float> c(60 * 32);
    device_b.upload(std::as_bytes(std::span(b)));
    graph.launch(stream.handle());
    stream.synchronize();
    device_c.download(std::as_writable_bytes(std::span(c)));
    EXPECT_TRUE(same_bits(c, expected(matrix, b, 32)));
  }
}

TEST_F(CudaKernelOnGpu, IsLaunchedFromManyThreadsAtOnce) {
  const CsrMatrix matrix = random_matrix(60, 40, 0.8);
  const Kernel kernel = compile_kernel(problem_of(matrix, 32), options());
  const Kernel loaded = kernel.load();
  constexpr std::size_t k_threads = 4;
  std::vector<std::vector<float>> results(k_threads, std::vector<float>(60 * 32));
  std::vector<std::thread> threads;

  for (std::size_t i = 0; i < k_threads; ++i) {
    threads.emplace_back([&, i] {
      const std::vector<float> b = dense_values(40 * 32, i);
      loaded.run(b.data(), results[i].data());
    });
  }
  for (std::thread& thread : threads) thread.join();

  for (std::size_t i = 0; i < k_threads; ++i) {
    EXPECT_TRUE(same_bits(results[i], expected(matrix, dense_values(40 * 32, i), 32))) << i;
  }
}

TEST_F(CudaKernelOnGpu, RunsOnEveryGpu) {
  const CsrMatrix matrix = random_matrix(30, 20, 0.5);
  const Kernel kernel = compile_kernel(problem_of(matrix, 8), options());
  const std::vector<float> b = dense_values(20 * 8);

  for (int device = 0; device < gpus_; ++device) {
    EXPECT_TRUE(same_bits(product(kernel, b, device), expected(matrix, b, 8))) << device;
    EXPECT_EQ(kernel.load(device).device(), device);
  }

  EXPECT_THROW(static_cast<void>(kernel.load(gpus_)), InvalidArgument);
}

TEST_F(CudaKernelOnGpu, HasTheOccupancyThatTheDriverReports) {
  for (const std::int64_t n1 : {32, 128, 512, 1024}) {
    CompileOptions fixed = options();
    fixed.policy.values["m1"] = "16";
    fixed.policy.values["n1"] = std::to_string(n1);

    const Kernel kernel = compile_kernel(problem_of(random_matrix(256, 128, 0.8), 1024), fixed);

    EXPECT_EQ(kernel.info().cuda->active_blocks, kernel.load().driver_active_blocks()) << n1;
    EXPECT_EQ(kernel.info().cuda->spilled_bytes, 0) << n1;
  }
}

TEST_F(CudaKernelOnGpu, IsWhatItsArchitecturesTableSays) {
  const CudaDeviceInfo& here = gpu_.limits;
  const auto same_arch = [&](const CudaDeviceInfo& card) { return card.arch == here.arch; };
  const std::vector<CudaDeviceInfo> cards = known_cuda_cards();
  const auto card = std::ranges::find_if(cards, same_arch);
  if (card == cards.end()) GTEST_SKIP() << "no card of sm_" << here.arch << " in the table";

  EXPECT_EQ(card->threads_per_sm, here.threads_per_sm);
  EXPECT_EQ(card->blocks_per_sm, here.blocks_per_sm);
  EXPECT_EQ(card->registers_per_sm, here.registers_per_sm);
  EXPECT_EQ(card->shared_per_sm_bytes, here.shared_per_sm_bytes);
  EXPECT_EQ(card->shared_per_block_optin_bytes, here.shared_per_block_optin_bytes);
  EXPECT_EQ(card->reserved_shared_per_block_bytes, here.reserved_shared_per_block_bytes);
}

TEST_F(CudaKernelOnGpu, IsRefusedByAGpuOfAnotherArchitecture) {
  CompileOptions other = options();
  other.target = Target::parse(gpu_.limits.arch == 75 ? "sm_90" : "sm_75");
  const Kernel kernel =
      Compiler(other, uncached()).compile(problem_of(random_matrix(20, 20, 0.5), 8));

  try {
    static_cast<void>(kernel.load());
    FAIL() << "a kernel for " << other.target.name() << " was loaded";
  } catch (const NotSupported& error) {
    EXPECT_NE(std::string(error.what()).find(other.target.name()), std::string::npos);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  }
}

}  // namespace
