// The CUDA C++ that is emitted, compiled to PTX by NVRTC and executed: C has the bits of the
// plan's evaluator and of the direct PTX. Needs NVRTC, but no GPU.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/build/cuda_build.hpp"
#include "kernels/cuda/unrolled/cuda_emitter.hpp"
#include "runtime/cuda/cuda_libraries.hpp"
#include "runtime/cuda/nvrtc.hpp"
#include "spjit/error.hpp"
#include "spjit/matrix_io.hpp"
#include "tests/support/cuda/cuda_cases.hpp"
#include "tests/support/cuda/cuda_layer_cases.hpp"
#include "tests/support/cuda/cuda_proxy_cases.hpp"
#include "tests/support/far_cases.hpp"
#include "tests/support/files/real_matrices.hpp"
#include "tests/support/files/text_edit.hpp"
#include "tests/support/long_tests.hpp"
#include "tests/support/scoped_variable.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

/// NVRTC takes about 0.1 ms a nonzero: matrices up to this size make some 20 seconds. One with
/// more is left out (the direct PTX of it is compared in pipeline_cuda).
constexpr std::int64_t k_most_nonzeros = 10'000;

class CudaExact : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      nvrtc_ = load_cuda_toolchain({.arch = 90, .nvrtc = true, .nvjitlink = false},
                                   found_cuda_libraries())
                   .nvrtc;
    } catch (const NotSupported& error) {
      GTEST_SKIP() << error.what();
    }
  }

  /// PTX of CUDA C++ text.
  [[nodiscard]] std::string compile(const std::string& text, bool relocatable,
                                    const std::vector<std::string>& more = {},
                                    int arch = 90) const {
    NvrtcOptions options;
    options.arch = arch;
    options.output = NvrtcOptions::Output::ptx;
    options.relocatable = relocatable;
    options.more = more;
    return nvrtc_->compile("test", text, options).code;
  }

  [[nodiscard]] std::string ptx_of_cuda(const CudaCase& item) const {
    return ptx_of_cuda(item.plan, item.spec);
  }

  [[nodiscard]] std::string ptx_of_cuda(const KernelPlan& plan, const CudaKernelSpec& spec) const {
    std::string ptx;
    for (const SourceUnit& unit : emit_cuda(plan, spec)) {
      // NVRTC ends its text with a zero byte.
      std::string text = compile(unit.text, unit.relocatable);
      text.erase(std::ranges::find(text, '\0'), text.end());
      ptx += text + "\n";
    }
    return ptx;
  }

  void expect_right(const CudaCase& item) const {
    const std::vector<float> c = run_ptx(ptx_of_cuda(item), item);
    EXPECT_TRUE(same_bits(c, expected_c(item)));
    EXPECT_TRUE(same_bits(c, run_ptx(ptx_of(item), item)));
  }

  void expect_right(const std::vector<NamedLayer>& layers) const {
    const ScopedVariable driver("SPJIT_CUDA_DRIVER", SPJIT_EMULATED_CUDA);
    for (const auto& [name, item] : layers) {
      SCOPED_TRACE(name);
      const LayerOperands operands(item);

      const Kernel kernel = layer_kernel(item, ptx_of_cuda(plan_of(item), item.spec));

      const std::vector<float> c = launch_layer(kernel, operands);
      EXPECT_TRUE(
          same_layer(c, reference_layer(item, operands), item.spec.layer.epilogue.activation));
      EXPECT_TRUE(same_bits(c, launch_layer(layer_kernel(item), operands)));
    }
  }

  std::optional<Nvrtc> nvrtc_;
};

TEST_F(CudaExact, HasTheBitsOfTheEvaluatorOnPlantedCases) {
  for (const auto& [name, item] : planted_cases()) {
    SCOPED_TRACE(name + ", tile " + to_string(item.spec.tile));
    // A unit for every function of a large case is hundreds of compilations.
    if (item.spec.tile.unit_nonzeros == 1 && item.plan.grouping.tiles() > 6) continue;

    expect_right(item);
  }
}

TEST_F(CudaExact, WithRuntimeThreadsHasTheBitsOfTheEvaluatorForEveryN1) {
  for (const std::int64_t unit_nonzeros : {500, 100'000}) {
    CudaKernelSpec spec = cuda_spec(16, 100);
    spec.tile.n1 = 256;
    spec.tile.unit_nonzeros = unit_nonzeros;
    spec.tile.runtime_sizes = unit_nonzeros == 500;
    spec.runtime_threads = true;
    const CudaCase item =
        make_cuda_case(random_matrix(90, 70, 0.8), spec, ReorderAlgorithm::similarity);
    const std::string ptx = ptx_of_cuda(item);
    for (const LaunchedBlock block : {LaunchedBlock{32, 4}, {96, 2}, {256, 1}}) {
      EXPECT_TRUE(same_bits(run_ptx(ptx, item, block), expected_c(item))) << block.n1;
    }
  }
}

TEST_F(CudaExact, ProxiesWriteWhatTheirPlanSays) {
  for (const std::int64_t unit_nonzeros : {200, 100'000}) {
    ProxyCase given = proxy_case(random_matrix(600, 90, 0.85), 8, 100, {32, 96, 256});
    for (CudaCandidate& member : given.candidates) member.tile.unit_nonzeros = unit_nonzeros;
    const CudaProxy made = make_cuda_proxy(given.plan, given.candidates, given.limits);
    const CudaCase item{made.proxy.plan, made.spec,
                        dense_values(extent_of(made.proxy.plan.cols, 100, 100))};
    const std::string ptx = ptx_of_cuda(item);
    for (const LaunchedBlock block : {LaunchedBlock{32, 4}, {96, 2}, {256, 1}}) {
      EXPECT_TRUE(same_bits(run_ptx(ptx, item, block), expected_c(item))) << block.n1;
    }
  }
}

TEST_F(CudaExact, HasTheBitsOfTheEvaluatorWhereRowsAreFarApart) {
  for (const FarCase& far : far_cases_in_all_forms()) {
    SCOPED_TRACE(far.name + ", tile " + to_string(far.spec.tile));

    EXPECT_TRUE(same_bits(run_far_ptx(ptx_of_cuda(far_plan(far), far.spec), far), near_c(far)));
  }
}

TEST_F(CudaExact, HasACubinFromBothTextsWhereRowsAreFarApart) {
  for (const int arch : {75, 90, 120}) {
    if (!nvrtc_->supports(arch)) continue;
    CudaToolchain toolchain;
    try {
      toolchain = load_cuda_toolchain({.arch = arch, .nvrtc = true, .nvjitlink = true},
                                      found_cuda_libraries());
    } catch (const NotSupported& error) {
      GTEST_SKIP() << error.what();
    }
    for (const FarCase& far : in_turn(3, far_cases_in_all_forms())) {
      SCOPED_TRACE(far.name + ", tile " + to_string(far.spec.tile));
      const KernelPlan plan = far_plan(far);
      CudaBuildOptions options;
      options.arch = arch;

      EXPECT_FALSE(build_cubin(emit_ptx(plan, far.spec, arch), toolchain, options).empty());
      if (arch != 90) continue;  // NVRTC takes ten times as long
      EXPECT_FALSE(build_cubin(emit_cuda(plan, far.spec), toolchain, options).empty());
    }
  }
}

TEST_F(CudaExact, IsTheSameForOlderArchitectures) {
  const CudaCase item =
      make_cuda_case(random_matrix(60, 50, 0.8), cuda_spec(8, 5), ReorderAlgorithm::similarity);
  const std::vector<SourceUnit> units = emit_cuda(item.plan, item.spec);
  ASSERT_EQ(units.size(), 1U);
  for (const int arch : {75, 80, 89}) {
    if (!nvrtc_->supports(arch)) continue;
    std::string ptx = compile(units.front().text, false, {}, arch);
    ptx.erase(std::ranges::find(ptx, '\0'), ptx.end());

    EXPECT_TRUE(same_bits(run_ptx(ptx, item), expected_c(item))) << arch;
  }
}

TEST_F(CudaExact, HasTheBitsOfTheEvaluatorOnRandomKernels) {
  std::mt19937_64 random(20240918);
  const auto pick = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (int i = 0; i < 30; ++i) {
    const CsrMatrix matrix =
        random_matrix(pick(1, 60), pick(1, 60), static_cast<double>(pick(0, 100)) / 100, random());
    CudaKernelSpec spec = cuda_spec(pick(1, 40), pick(1, 70));
    spec.ldb = spec.n + pick(0, 3);
    spec.ldc = spec.n + pick(0, 3);
    spec.tile.n1 = 32 * pick(1, 3);
    spec.tile.tiles_a_block = std::int64_t{1} << i % 3;
    spec.tile.unit_nonzeros = pick(500, 3000);
    spec.tile.runtime_sizes = pick(0, 1) == 1;
    const auto reorder = static_cast<ReorderAlgorithm>(pick(0, 2));
    SCOPED_TRACE(testing::Message() << i << ": " << matrix.rows << "x" << matrix.cols << ", n "
                                    << spec.n << ", tile " << to_string(spec.tile));

    expect_right(make_cuda_case(matrix, spec, reorder));
  }
}

/// Both texts of layers give C the bits of the host's `reference`.
TEST_F(CudaExact, HasTheTokensOfTheReference) { expect_right(token_cases()); }

TEST_F(CudaExact, HasTheValuesOfARun) {
  for (const auto& [name, planted] : planted_cases()) {
    CudaCase item = planted;
    item.spec.layer.runtime_values = true;
    item.spec.tile.unit_nonzeros = std::max<std::int64_t>(item.spec.tile.unit_nonzeros, 50);
    SCOPED_TRACE(name + ", tile " + to_string(item.spec.tile));
    expect_right(item);
  }
  expect_right(value_cases());
}

TEST_F(CudaExact, HasTheConvolutionsOfTheReference) { expect_right(convolution_layers()); }

TEST_F(CudaExact, HasTheEpiloguesOfTheReference) { expect_right(epilogue_cases()); }

TEST_F(CudaExact, HasTheBitsOfTheEvaluatorOnRealMatrices) {
  if (matrix_files("").empty()) GTEST_SKIP() << "no " << data_directory();
  struct Compared {
    std::string file;
    CsrMatrix matrix;
    std::int64_t m1;
  };
  std::vector<Compared> all;
  int left_out = 0;
  for (const std::string folder : {"dlmc", "weights", "suitesparse"}) {
    for (const auto& file : matrix_files(folder)) {
      CsrMatrix matrix = load_matrix(file);
      matrix.sort_columns();
      if (matrix.rows < 1 || matrix.nnz() > k_most_nonzeros) {
        ++left_out;
        continue;
      }
      all.push_back({file.string(), std::move(matrix), all.size() % 2 == 0 ? 8 : 32});
    }
  }
  const std::vector<Compared> taken = in_turn(3, all);
  for (const auto& [file, matrix, m1] : taken) {
    SCOPED_TRACE(file);
    expect_right(make_cuda_case(matrix, cuda_spec(m1, 9), ReorderAlgorithm::similarity));
  }
  RecordProperty("compared", static_cast<int>(taken.size()));
  RecordProperty("left_out", left_out);
  EXPECT_GT(all.size(), 10U);
  EXPECT_GT(taken.size(), 3U);
}

/// Two tiles of two rows in one unit, every row with several entries.
class CudaMutation : public CudaExact {
 protected:
  void SetUp() override {
    CudaExact::SetUp();
    if (IsSkipped()) return;
    item_ = make_cuda_case(random_matrix(4, 9, 0.3), cuda_spec(2, 5), ReorderAlgorithm::none);
    text_ = emit_cuda(item_.plan, item_.spec).front().text;
    ASSERT_TRUE(passes(text_));
  }

  [[nodiscard]] bool passes(const std::string& text,
                            const std::vector<std::string>& more = {}) const {
    std::string ptx = compile(text, false, more);
    ptx.erase(std::ranges::find(ptx, '\0'), ptx.end());
    return is_right(ptx, item_);
  }

  CudaCase item_;
  std::string text_;
};

TEST_F(CudaMutation, TheLastBitOfALiteralIsNoticed) {
  // "__fmaf_rn(0x1.8p-1f, ...": one more unit in the last place.
  const std::string line = line_with(text_, "__fmaf_rn(");
  const std::size_t begin = line.find('(') + 1;
  const std::string literal = line.substr(begin, line.find(',') - begin);
  const float value = std::strtof(literal.c_str(), nullptr);
  char next[32];
  std::snprintf(next, sizeof next, "%af",
                static_cast<double>(std::nextafter(value, std::numeric_limits<float>::max())));

  EXPECT_FALSE(passes(replace_first(text_, literal, next)));
}

TEST_F(CudaMutation, ARowThatIsNotStoredIsNoticed) {
  EXPECT_FALSE(passes(drop_line(text_, "] = c0;")));
}

TEST_F(CudaMutation, AMissingProductIsNoticed) {
  EXPECT_FALSE(passes(drop_line(text_, "__fmaf_rn(")));
}

TEST_F(CudaMutation, ExchangedRowsAreNoticed) {
  EXPECT_FALSE(passes(
      replace_first(replace_first(replace_first(text_, "] = c0;", "] = cX;"), "] = c1;", "] = c0;"),
                    "] = cX;", "] = c1;")));
}

TEST_F(CudaMutation, OneColumnTooManyIsNoticed) {
  EXPECT_FALSE(passes(replace_first(text_, "if (j < ", "if (j <= ")));
}

TEST_F(CudaMutation, AnotherOrderOfSumsIsNoticed) {
  // 1 + 2^-24 + 2^-24 depends on the order.
  const CsrMatrix matrix{1, 3, {0, 3}, {0, 1, 2}, {1.0F, 0x1p-24F, 0x1p-24F}};
  item_ = make_cuda_case(matrix, cuda_spec(1, 1), ReorderAlgorithm::none);
  item_.b = {1.0F, 1.0F, 1.0F};
  const std::string right = emit_cuda(item_.plan, item_.spec).front().text;
  ASSERT_TRUE(passes(right));
  const std::string one = line_with(right, "__fmaf_rn(0x1p+0f");
  const std::string store = line_with(right, "] = c0;");

  EXPECT_FALSE(passes(replace_first(replace_first(right, one, ""), store, one + store)));
}

TEST_F(CudaMutation, ARowOfBNextToTheRightOneIsNoticed) {
  EXPECT_FALSE(passes(replace_first(text_, "__ldg(b + ", "__ldg(b + 5 + ")));
}

TEST_F(CudaMutation, TwoRoundingsInsteadOfOneAreNoticed) {
  std::string mutated = text_;
  const std::string fused = "__fmaf_rn(";
  for (std::size_t at = mutated.find(fused); at != std::string::npos; at = mutated.find(fused)) {
    mutated.replace(at, fused.size(), "two_roundings(");
  }
  const std::string function =
      "static __device__ float two_roundings(float a, float b, float c) {\n"
      "  return __fadd_rn(__fmul_rn(a, b), c);\n}\n";

  EXPECT_FALSE(passes(function + mutated));
}

TEST_F(CudaMutation, FlushingDenormalsIsNoticed) {
  item_.b.assign(item_.b.size(), 0x1p-140F);
  ASSERT_TRUE(passes(text_));

  EXPECT_FALSE(passes(text_, {"--ftz=true"}));
}

}  // namespace
