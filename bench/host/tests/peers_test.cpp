#include "tools/peers/peers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/host/read_bandwidth.hpp"
#include "spjit/error.hpp"
#include "spjit/generate.hpp"
#include "spjit/target.hpp"
#include "tests/support/float64_check.hpp"

namespace {

using spjit::CsrMatrix;
using spjit::HostIsa;
using spjit::Target;

constexpr HostIsa k_isas[] = {HostIsa::avx512, HostIsa::avx2, HostIsa::generic};

CsrMatrix small_matrix() {
  spjit::GenerateOptions options;
  options.rows = 33;
  options.cols = 21;
  options.sparsity = 0.7;
  return spjit::generate_matrix(options);
}

std::vector<float> operand(std::int64_t floats) {
  std::vector<float> values(static_cast<std::size_t>(floats));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 13) - 6.0F;
  return values;
}

std::vector<float> dense_of(const CsrMatrix& matrix) {
  std::vector<float> dense(static_cast<std::size_t>(matrix.rows * matrix.cols), 0.0F);
  for (std::size_t row = 0; row + 1 < matrix.row_ptrs.size(); ++row) {
    for (auto i = static_cast<std::size_t>(matrix.row_ptrs[row]);
         i < static_cast<std::size_t>(matrix.row_ptrs[row + 1]); ++i) {
      dense[row * static_cast<std::size_t>(matrix.cols) +
            static_cast<std::size_t>(matrix.col_idxs[i])] = matrix.values[i];
    }
  }
  return dense;
}

TEST(MachinePeak, EveryInstructionSetHereHasOne) {
  for (const HostIsa isa : k_isas) {
    if (!Target(isa).runs_here()) continue;

    EXPECT_GT(spjit::measure_fma_peak_gflops(isa, 1), 0);
    EXPECT_GT(spjit::bench::measure_read_bandwidth(isa, 32 << 10, 1), 0);
    EXPECT_GT(spjit::bench::measure_read_bandwidth(isa, 1, 1), 0);
  }
}

TEST(MachinePeak, AnInstructionSetThatIsNotHereIsRefused) {
  if (Target(HostIsa::avx512).runs_here()) GTEST_SKIP() << "this CPU has every instruction set";
  for (const HostIsa isa : k_isas) {
    if (Target(isa).runs_here()) continue;

    EXPECT_THROW((void)spjit::measure_fma_peak_gflops(isa), spjit::NotSupported);
    EXPECT_THROW((void)spjit::bench::measure_read_bandwidth(isa, 4096), spjit::NotSupported);
  }
}

TEST(OpenBlas, MultipliesRowMajorMatrices) {
  const auto loaded = spjit::OpenBlas::load();
  if (!loaded.library) GTEST_SKIP() << loaded.reason;
  const CsrMatrix matrix = small_matrix();
  const std::vector<float> a = dense_of(matrix);
  const std::int64_t n = 17;
  const std::vector<float> b = operand(matrix.cols * n);
  std::vector<float> c(static_cast<std::size_t>(matrix.rows * n), -1.0F);

  for (const int threads : {1, 2}) {
    loaded.library->set_threads(threads);
    loaded.library->multiply({matrix.rows, matrix.cols, n, a.data(), b.data(), c.data()});

    EXPECT_TRUE(spjit::compare_with_float64(matrix, {b.data(), n, c.data(), n, n}).within_bound());
  }
  EXPECT_FALSE(loaded.library->version().empty());
}

TEST(OpenBlas, EveryWayMultipliesFewColumns) {
  const auto loaded = spjit::OpenBlas::load();
  if (!loaded.library) GTEST_SKIP() << loaded.reason;
  const CsrMatrix matrix = small_matrix();
  const std::vector<float> a = dense_of(matrix);
  for (const std::int64_t n : {1, 2, 3, 4, 5, 16, 17}) {
    const std::vector<float> b = operand(matrix.cols * n);
    std::vector<float> c(static_cast<std::size_t>(matrix.rows * n));
    const spjit::DenseProblem problem{matrix.rows, matrix.cols, n, a.data(), b.data(), c.data()};
    for (spjit::DenseCall& call : loaded.library->calls(problem)) {
      spjit::FastestCall only({std::move(call)}, problem);
      std::ranges::fill(c, -1.0F);

      only.run();
      only.publish();

      EXPECT_TRUE(spjit::compare_with_float64(matrix, {b.data(), n, c.data(), n, n}).within_bound())
          << only.way() << ", n = " << n;
    }
  }
}

TEST(FastestCall, TakesTheFastestAndReadsBAnew) {
  const std::vector<float> a = {2, 3};
  std::vector<float> b = {1, 10, 2, 20};  // [2 x 2]
  std::vector<float> c(2);
  const spjit::DenseProblem problem{1, 2, 2, a.data(), b.data(), c.data()};
  const auto slow = [](const float* /*b*/, float* /*c*/) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  };
  const auto tokens = [&](const float* of_b, float* of_c) {
    for (int token = 0; token < 2; ++token) {
      of_c[token] = a[0] * of_b[2 * token] + a[1] * of_b[2 * token + 1];
    }
  };

  spjit::FastestCall fastest({{"slow", false, slow}, {"tokens", true, tokens}}, problem);
  fastest.run();
  fastest.publish();
  const std::vector<float> first = c;
  b = {0, 1, 0, 0};
  fastest.receive();
  fastest.run();
  fastest.publish();

  EXPECT_EQ(fastest.way(), "tokens");
  EXPECT_EQ(first, (std::vector<float>{8, 80}));
  EXPECT_EQ(c, (std::vector<float>{0, 2}));
}

TEST(OpenBlas, EitherLoadsOrSaysWhatToInstall) {
  const auto loaded = spjit::OpenBlas::load();

  EXPECT_EQ(loaded.library.has_value(), loaded.reason.empty());
  if (!loaded.library) {
    EXPECT_NE(loaded.reason.find("apt-get install"), std::string::npos);
  }
}

TEST(OpenBlas, SizesBeyondItsInterfaceAreRefused) {
  const auto loaded = spjit::OpenBlas::load();
  if (!loaded.library) GTEST_SKIP() << loaded.reason;

  EXPECT_THROW(loaded.library->multiply({std::int64_t{1} << 31, 1, 1, nullptr, nullptr, nullptr}),
               spjit::InvalidArgument);
}

TEST(CsrPeer, ThreadsDoNotChangeTheBits) {
  const CsrMatrix matrix = small_matrix();
  const std::int64_t n = 19;
  const std::vector<float> b = operand(matrix.cols * n);
  const auto floats = static_cast<std::size_t>(matrix.rows * n);
  for (const HostIsa isa : k_isas) {
    if (!Target(isa).runs_here()) continue;
    std::vector<float> one(floats, -1.0F);
    std::vector<float> many(floats, -2.0F);

    spjit::CsrPeer(matrix, isa, 1).run({b.data(), n, one.data(), n, n});
    spjit::CsrPeer(matrix, isa, 5).run({b.data(), n, many.data(), n, n});

    EXPECT_EQ(std::memcmp(one.data(), many.data(), floats * sizeof(float)), 0);
    EXPECT_TRUE(
        spjit::compare_with_float64(matrix, {b.data(), n, one.data(), n, n}).within_bound());
  }
}

TEST(CsrPeer, RefusesNoThreads) {
  const CsrMatrix matrix = small_matrix();

  EXPECT_THROW(spjit::CsrPeer(matrix, HostIsa::generic, 0), spjit::InvalidArgument);
}

}  // namespace
