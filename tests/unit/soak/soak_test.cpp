#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <csignal>
#include <limits>
#include <stdexcept>
#include <string>

#include "tests/soak/isolated.hpp"
#include "tests/soak/shrink.hpp"
#include "tests/soak/soak_check.hpp"
#include "tests/support/sparse_floats.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::soak;

SoakCase small_case() {
  SoakCase item;
  item.seed = 5;
  item.matrix = testing_support::small_matrix();
  item.isa = HostIsa::avx2;  // its arithmetic; the kernels of these tests are plain loops
  item.n = 3;
  item.ldb = 4;
  item.ldc = 6;
  return item;
}

/// What a right kernel does.
void multiply(const SoakCase& item, const float* b, float* c) {
  const CsrMatrix& matrix = item.matrix;
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    for (std::int64_t j = 0; j < item.n; ++j) {
      float sum = 0;
      for (auto i = static_cast<std::size_t>(matrix.row_ptrs[static_cast<std::size_t>(row)]);
           i < static_cast<std::size_t>(matrix.row_ptrs[static_cast<std::size_t>(row) + 1]); ++i) {
        sum = std::fmaf(matrix.values[i], b[matrix.col_idxs[i] * item.ldb + j], sum);
      }
      c[row * item.ldc + j] = sum;
    }
  }
}

/// A right kernel that then does something more to C.
template <class More>
RunCase wrong_by(const More& more) {
  return [more](const SoakCase& item, const float* b, float* c) {
    multiply(item, b, c);
    more(item, c);
  };
}

TEST(SoakCheck, PassesAKernelThatIsRight) { EXPECT_EQ(check_case(small_case(), multiply), ""); }

TEST(SoakCheck, SeesTheLastBitOfAnElement) {
  const RunCase run = wrong_by([](const SoakCase& item, float* c) {
    float& element = c[3 * item.ldc + 1];
    element = std::nextafter(element, 100.0F);
  });

  EXPECT_EQ(check_case(small_case(), run).substr(0, 7), "C[3][1]");
}

TEST(SoakCheck, SeesAnElementThatIsNotWritten) {
  const RunCase run = wrong_by([](const SoakCase& item, float* c) {
    c[item.ldc] = std::numeric_limits<float>::quiet_NaN();  // as all of C is before the run
  });

  EXPECT_EQ(check_case(small_case(), run).substr(0, 14), "C[1][0] is nan");
}

TEST(SoakCheck, SeesMinusZeroInAnEmptyRow) {
  const RunCase run = wrong_by([](const SoakCase& item, float* c) { c[item.ldc + 2] = -0.0F; });

  EXPECT_EQ(check_case(small_case(), run).substr(0, 13), "C[1][2] is -0");
}

TEST(SoakCheck, SeesAFloatBetweenRowsThatWasTouched) {
  const RunCase run = wrong_by([](const SoakCase& item, float* c) { c[2 * item.ldc + 5] = 0; });

  EXPECT_EQ(check_case(small_case(), run), "C was touched between rows, 2 floats behind row 2");
}

TEST(SoakCheck, ComparesWithFloat64WithinTheBound) {
  const Expected expected{.bits = 1, .value = 1, .bound = 0x1p-20};
  constexpr double k_infinity = std::numeric_limits<double>::infinity();
  constexpr float k_most = std::numeric_limits<float>::max();

  EXPECT_TRUE(is_near(1 + 0x1p-20F, expected));
  EXPECT_FALSE(is_near(1 + 0x1p-19F, expected));
  EXPECT_FALSE(is_near(1 - 0x1p-19F, expected));
  EXPECT_FALSE(is_near(std::numeric_limits<float>::quiet_NaN(), expected));
  EXPECT_FALSE(is_near(1, {.bits = 0, .value = k_infinity, .bound = k_infinity}));
  EXPECT_TRUE(is_near(HUGE_VALF, {.bits = 0, .value = double{k_most}, .bound = 1e30}));
  EXPECT_FALSE(is_near(HUGE_VALF, {.bits = 0, .value = double{k_most} / 2, .bound = 1e30}));
}

TEST(SoakCheck, TellsWhatAKernelThrows) {
  const RunCase run = [](const SoakCase&, const float*, float*) {
    throw std::runtime_error("no kernel");
  };

  EXPECT_EQ(check_case(small_case(), run), "exception: no kernel");
}

TEST(SoakCheck, RoundsProductAndSumOfTheGenericTargetSeparately) {
  SoakCase item = small_case();
  item.isa = HostIsa::generic;
  item.matrix = {1, 3, {0, 3}, {0, 1, 2}, {0.3F, 0.7F, -0.9F}};

  EXPECT_NE(check_case(item, multiply), "");
}

TEST(SoakRun, TheKernelsAreRightOnASmallCase) {
  const testing_support::TemporaryDirectory directory;
  for (const Route route : {Route::rows, Route::cached, Route::object, Route::ptx}) {
    SoakCase item = small_case();
    item.isa = testing_support::isas_here().front();
    item.route = route;

    EXPECT_EQ(check_case(item, run_kernel((directory.path() / "cache").string())), "")
        << to_string(route);
  }
}

TEST(SoakDraw, GivesTheSameCaseForTheSameSeed) {
  for (const std::uint64_t seed : {1U, 2U, 3U, 40U}) {
    EXPECT_EQ(describe(draw_case(seed)), describe(draw_case(seed)));
    EXPECT_EQ(draw_case(seed).matrix.col_idxs, draw_case(seed).matrix.col_idxs);
  }
}

TEST(SoakDraw, DrawsWhatIsHardToGetRight) {
  bool empty = false;
  bool far = false;
  bool wide = false;
  bool unsorted = false;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    const SoakCase item = draw_case(seed);
    item.matrix.validate();
    empty |= item.matrix.nnz() == 0;
    wide |= item.matrix.cols == (std::int64_t{1} << 31) - 1;
    far |= item.ldb > (std::int64_t{1} << 28) || item.ldc > (std::int64_t{1} << 28);
    CsrMatrix sorted = item.matrix;
    sorted.sort_columns();
    unsorted |= sorted != item.matrix;
  }

  EXPECT_TRUE(empty && far && wide && unsorted) << empty << far << wide << unsorted;
}

TEST(Shrink, LeavesWhatTheFailureNeeds) {
  SoakCase item = small_case();
  item.matrix = testing_support::random_matrix(40, 50, 0.7);
  item.n = 90;
  item.ldb = 95;
  item.ldc = 117;
  item.threads = 3;
  item.route = Route::cached;
  // Fails as soon as there are two rows, four entries and five columns of B.
  const Fails fails = [](const SoakCase& candidate) {
    return candidate.matrix.rows >= 2 && candidate.matrix.nnz() >= 4 && candidate.n >= 5;
  };

  const SoakCase small = shrink(item, fails);

  EXPECT_EQ(small.matrix.rows, 2);
  EXPECT_EQ(small.matrix.nnz(), 4);
  EXPECT_EQ(small.n, 5);
  EXPECT_EQ(small.ldb, 5);
  EXPECT_EQ(small.ldc, 5);
  EXPECT_EQ(small.threads, 1);
  EXPECT_EQ(small.route, Route::rows);
  EXPECT_LE(small.matrix.cols, 4);
  small.matrix.validate();
}

TEST(Shrink, KeepsAnOptionThatTheFailureNeeds) {
  SoakCase item = small_case();
  item.threads = 4;
  item.ldc = 20;

  const SoakCase small = shrink(item, [](const SoakCase& candidate) {
    return candidate.threads == 4 && candidate.ldc > candidate.n;
  });

  EXPECT_EQ(small.threads, 4);
  EXPECT_GT(small.ldc, small.n);
  EXPECT_EQ(small.matrix.nnz(), 0);
}

TEST(Shrink, StopsAfterItsTries) {
  int asked = 0;

  (void)shrink(
      small_case(), [&](const SoakCase&) { return ++asked > 0; }, 3);

  EXPECT_LE(asked, 3);
}

TEST(Isolated, ReturnsTheAnswer) {
  EXPECT_EQ(isolated([] { return std::string("four"); }), "four");
  EXPECT_EQ(isolated([] { return std::string(); }), "");
}

TEST(Isolated, TellsASignal) {
  EXPECT_EQ(isolated([]() -> std::string {
              (void)std::raise(SIGKILL);
              return "";
            }),
            "killed by signal 9 (Killed)");
}

TEST(Isolated, TellsAnExitWithoutAnAnswer) {
  EXPECT_EQ(isolated([]() -> std::string { ::_exit(7); }), "exit status 7 without an answer");
}

TEST(Isolated, CutsALongAnswer) {
  EXPECT_EQ(isolated([] { return std::string(10'000, 'x'); }).size(), 3999);
}

TEST(SparseFloats, TakesNoMemoryForWhatIsNotTouched) {
  const testing_support::SparseFloats floats(std::int64_t{1} << 36);  // 256 GiB

  floats.data()[(std::int64_t{1} << 36) - 1] = 1.5F;

  EXPECT_EQ(floats.data()[(std::int64_t{1} << 36) - 1], 1.5F);
  EXPECT_EQ(floats.data()[0], 0.0F);
}

}  // namespace
