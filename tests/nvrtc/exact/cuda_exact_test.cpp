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
#include <vector>

#include "kernels/unrolled_cuda/cuda_build.hpp"
#include "kernels/unrolled_cuda/cuda_emitter.hpp"
#include "kernels/unrolled_cuda/cuda_libraries.hpp"
#include "kernels/unrolled_cuda/nvrtc.hpp"
#include "spjit/error.hpp"
#include "spjit/matrix_io.hpp"
#include "tests/support/cuda_cases.hpp"
#include "tests/support/cuda_convolutions.hpp"
#include "tests/support/cuda_layers.hpp"
#include "tests/support/cuda_proxy_cases.hpp"
#include "tests/support/far_cases.hpp"
#include "tests/support/real_matrices.hpp"
#include "tests/support/scoped_variable.hpp"
#include "tests/support/text_edit.hpp"

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
    for (const FarCase& far : far_cases_in_all_forms()) {
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

/// Both texts give C the bits of the host's `reference`.
TEST_F(CudaExact, HasTheTokensOfTheReference) {
  const ScopedVariable driver("SPJIT_CUDA_DRIVER", SPJIT_EMULATED_CUDA);
  unsigned bits = 0;
  for (const auto& [b_layout, c_layout] : {std::pair{Layout::row_major, Layout::tokens_major},
                                           std::pair{Layout::tokens_major, Layout::row_major},
                                           std::pair{Layout::tokens_major, Layout::tokens_major}}) {
    for (const std::int64_t n1 : {32, 160, 512}) {
      for (const CsrMatrix& matrix :
           {with_empty_rows(70), random_matrix(37, 45, 0.7), random_matrix(1, 1, 0)}) {
        ++bits;
        CudaKernelSpec spec = cuda_spec(36, 85);
        spec.layer = {{.scale = bits % 2 == 0,
                       .bias = bits % 3 == 0,
                       .residual = bits % 4 == 0,
                       .activation = bits % 5 == 0 ? Activation::gelu_tanh : Activation::none},
                      b_layout,
                      c_layout};
        spec.tile.n1 = n1;
        spec.tile.tiles_a_block = n1 == 32 ? 4 : n1 == 160 ? 2 : 1;
        spec.tile.unit_nonzeros = bits % 2 == 0 ? 200 : 100'000;
        spec.tile.runtime_sizes = bits % 3 == 0;
        spec.ldb = std::max<std::int64_t>(85, matrix.cols) + 1;
        spec.ldc = 87;
        LayerCase item = layer_case(matrix, spec);
        item.sizes.batch = 2;
        item.sizes.b_distance = 30;
        item.reorder = bits % 2 == 0 ? ReorderAlgorithm::similarity : ReorderAlgorithm::none;
        item.sizes.c_distance = 90 * 90;
        SCOPED_TRACE(bits);
        const LayerOperands operands(item);

        const Kernel kernel = layer_kernel(item, ptx_of_cuda(plan_of(item), spec));

        const std::vector<float> c = launch_layer(kernel, operands);
        EXPECT_TRUE(same_layer(c, reference_layer(item, operands), spec.layer.epilogue.activation));
        EXPECT_TRUE(same_bits(c, launch_layer(layer_kernel(item), operands)));
      }
    }
  }
}

TEST_F(CudaExact, HasTheValuesOfARun) {
  const ScopedVariable driver("SPJIT_CUDA_DRIVER", SPJIT_EMULATED_CUDA);
  for (const auto& [name, planted] : planted_cases()) {
    CudaCase item = planted;
    item.spec.layer.runtime_values = true;
    item.spec.tile.unit_nonzeros = std::max<std::int64_t>(item.spec.tile.unit_nonzeros, 50);
    SCOPED_TRACE(name + ", tile " + to_string(item.spec.tile));
    expect_right(item);
  }
  for (const bool has_tokens : {false, true}) {
    CudaKernelSpec spec = cuda_spec(20, 37);
    spec.layer.runtime_values = true;
    spec.layer.epilogue = {.bias = true, .residual = true, .activation = Activation::relu};
    spec.tile.unit_nonzeros = has_tokens ? 200 : 100'000;
    spec.tile.runtime_sizes = !has_tokens;
    if (has_tokens) spec.layer.b_layout = spec.layer.c_layout = Layout::tokens_major;
    spec.ldb = spec.ldc = 50;
    LayerCase item = layer_case(random_matrix(50, 45, 0.7), spec);
    item.reorder = ReorderAlgorithm::none;
    const LayerOperands operands(item);

    const Kernel kernel = layer_kernel(item, ptx_of_cuda(plan_of(item), spec));

    EXPECT_TRUE(same_bits(launch_layer(kernel, operands), reference_layer(item, operands)));
  }
}

/// Both texts of a convolution give C the bits of the host's `reference`.
TEST_F(CudaExact, HasTheConvolutionsOfTheReference) {
  const ScopedVariable driver("SPJIT_CUDA_DRIVER", SPJIT_EMULATED_CUDA);
  unsigned bits = 0;
  for (const Convolution& of : geometries()) {
    ++bits;
    Problem problem = problem_of_convolution(of, 16);
    problem.b.layout = bits % 2 == 0 ? Layout::tokens_major : Layout::row_major;
    problem.c.layout = bits % 3 == 0 ? Layout::tokens_major : Layout::row_major;
    problem.runtime_values = bits % 4 == 0;
    if (bits % 5 == 0) problem.epilogue = {.bias = true, .activation = Activation::relu};
    LayerCase item = convolution_case(problem, 9);
    if (!item.spec.layer.convolution) continue;
    item.spec.tile.unit_nonzeros = bits % 2 == 0 ? 300 : 100'000;
    item.spec.tile.tiles_a_block = std::int64_t{1} << bits % 3;
    item.sizes.batch = 2;
    item.sizes.b_distance = 30;
    item.sizes.c_distance = 16 * item.sizes.n;
    SCOPED_TRACE(to_string(of));
    const LayerOperands operands(item);

    const Kernel kernel = layer_kernel(item, ptx_of_cuda(plan_of(item), item.spec));

    const std::vector<float> c = launch_layer(kernel, operands);
    EXPECT_TRUE(same_bits(c, reference_layer(item, operands)));
    EXPECT_TRUE(same_bits(c, launch_layer(layer_kernel(item), operands)));
  }
}

TEST_F(CudaExact, HasTheEpiloguesOfTheReference) {
  const ScopedVariable driver("SPJIT_CUDA_DRIVER", SPJIT_EMULATED_CUDA);
  unsigned bits = 0;
  for (const Activation activation : {Activation::none, Activation::relu, Activation::gelu_erf,
                                      Activation::gelu_tanh, Activation::silu, Activation::clamp}) {
    for (const bool has_units : {false, true}) {
      CudaKernelSpec spec = cuda_spec(8, 37);
      spec.tile.unit_nonzeros = has_units ? 60 : 100'000;
      spec.tile.runtime_sizes = has_units;
      ++bits;
      spec.layer.epilogue = {.scale = bits % 2 == 0,
                             .bias = bits % 3 == 0,
                             .residual = bits % 4 < 2,
                             .activation = activation};
      if (activation == Activation::clamp) {
        spec.layer.epilogue.low = -0.5F;
        spec.layer.epilogue.high = 0.25F;
      }
      LayerCase item = layer_case(with_empty_rows(30), spec);
      item.sizes.batch = 2;
      item.sizes.b_distance = 6 * 37;
      item.sizes.c_distance = item.sizes.residual_distance = 30 * 37;
      item.in_place = spec.layer.epilogue.residual && has_units;
      SCOPED_TRACE(std::string(to_string(activation)) + (has_units ? " in units" : ""));
      const LayerOperands operands(item);

      const Kernel kernel = layer_kernel(item, ptx_of_cuda(plan_of(item), spec));

      const std::vector<float> c = launch_layer(kernel, operands);
      EXPECT_TRUE(same_layer(c, reference_layer(item, operands), activation));
      EXPECT_TRUE(same_bits(c, launch_layer(layer_kernel(item), operands)));
    }
  }
}

TEST_F(CudaExact, HasTheBitsOfTheEvaluatorOnRealMatrices) {
  if (matrix_files("").empty()) GTEST_SKIP() << "no " << data_directory();
  int compared = 0;
  int left_out = 0;
  for (const std::string folder : {"dlmc", "weights", "suitesparse"}) {
    for (const auto& file : matrix_files(folder)) {
      SCOPED_TRACE(file.string());
      CsrMatrix matrix = load_matrix(file);
      matrix.sort_columns();
      if (matrix.rows < 1 || matrix.nnz() > k_most_nonzeros) {
        ++left_out;
        continue;
      }
      expect_right(make_cuda_case(matrix, cuda_spec(compared % 2 == 0 ? 8 : 32, 9),
                                  ReorderAlgorithm::similarity));
      ++compared;
    }
  }
  RecordProperty("compared", compared);
  RecordProperty("left_out", left_out);
  EXPECT_GT(compared, 10);
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
