// Layers: every family of the host with every layout and epilogue.

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "artifact/families.hpp"
#include "spjit/error.hpp"
#include "tests/support/activations.hpp"
#include "tests/support/guarded_buffers.hpp"
#include "tests/support/layer_testing.hpp"
#include "tests/support/long_tests.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

constexpr std::array k_layouts = {Layout::row_major, Layout::panel_major, Layout::tokens_major};

/// `operands`: 1 (scale) + 2 (bias) + 4 (residual).
Epilogue epilogue_of(Activation activation, int operands) {
  Epilogue epilogue{(operands & 1) != 0, (operands & 2) != 0, (operands & 4) != 0, activation};
  if (activation == Activation::clamp) {
    epilogue.low = -0.75F;
    epilogue.high = 1.5F;
  }
  set_line(epilogue);
  return epilogue;
}

Epilogue whole_epilogue() { return epilogue_of(Activation::gelu_erf, 7); }

/// Dense enough for every family, with rows that have no entries, all, and one.
CsrMatrix planted_matrix(std::int64_t rows, std::int64_t cols) {
  CsrMatrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  const std::vector<float> values = dense_values(rows * cols, 11);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t col = 0; col < cols; ++col) {
      const bool is_entry = row % 7 == 2   ? false
                            : row % 7 == 3 ? true
                            : row % 7 == 4 ? col == row % cols
                                           : (row * 31 + col * 17) % 10 < 8;
      if (!is_entry) continue;
      matrix.col_idxs.push_back(static_cast<std::int32_t>(col));
      matrix.values.push_back(values[index(row * cols + col)]);
    }
    matrix.row_ptrs.push_back(matrix.nnz());
  }
  return matrix;
}

/// A family and an instruction set that it has.
using FamilyAndIsa = std::tuple<const char*, HostIsa>;

class Layers : public testing::TestWithParam<FamilyAndIsa> {
 protected:
  void SetUp() override {
    if (!Target(isa()).runs_here()) GTEST_SKIP() << "no " << to_string(isa()) << " on this CPU";
    if (family() == "unrolled" && !compiles_and_runs(isa())) GTEST_SKIP() << "no LLVM here";
  }
  static std::string family() { return std::get<0>(GetParam()); }
  static HostIsa isa() { return std::get<1>(GetParam()); }
  static bool knows_any_n() {
    return family() != "windows" &&  // which takes it only with scales of groups
           find_family(family()).features().has(ProblemFeature::runtime_n);
  }
  static bool knows_panel_widths() {
    return find_family(family()).features().has(ProblemFeature::panels);
  }
  /// A number of tokens that the family takes.
  static std::int64_t some_n() { return family() == "windows" ? 3 : 40; }

  /// Compiled for the layouts where the family can be.
  static Problem problem(const CsrMatrix& matrix, const LayerShape& shape,
                         const Epilogue& epilogue) {
    Problem problem = problem_of(matrix, shape.n);
    problem.epilogue = epilogue;
    if (knows_panel_widths()) problem.panel_columns = lanes_of(isa()) * 2;
    if (problem.panel_columns || shape.b_layout != Layout::panel_major) {
      problem.b.layout = shape.b_layout;
    }
    if (problem.panel_columns || shape.c_layout != Layout::panel_major) {
      problem.c.layout = shape.c_layout;
    }
    return problem;
  }
  static LayerKernels kernels(const CsrMatrix& matrix, const LayerShape& shape,
                              const Epilogue& epilogue, int threads = 1) {
    return {problem(matrix, shape, epilogue), family(), isa(), threads};
  }
  static LayerKernels kernels_of_any_n(const CsrMatrix& matrix, const Epilogue& epilogue,
                                       int threads = 1) {
    Problem any = problem(matrix, {.n = 16}, epilogue);
    any.n.runtime = true;
    return {any, family(), isa(), threads};
  }
  /// What the family is run with: some few tokens, tokens-major.
  static LayerShape tokens_shape() {
    return {.n = some_n(), .b_layout = Layout::tokens_major, .c_layout = Layout::tokens_major};
  }

 private:
  GuardedBuffers guarded_{GuardPlacement::at_end};
};

TEST_P(Layers, OfEveryLayoutAndActivationComputeTheEpilogue) {
  const CsrMatrix matrix = planted_matrix(37, 43);
  int operands = 0;
  for (const Layout b : k_layouts) {
    for (const Layout c : k_layouts) {
      for (const Activation activation : k_activations) {
        const LayerShape shape{.n = some_n(), .b_layout = b, .c_layout = c};
        // Each of the eight meets each activation and layout.
        const LayerKernels layer = kernels(matrix, shape, epilogue_of(activation, operands++ % 8));

        EXPECT_EQ(layer.run(shape), "");
      }
      ++operands;
    }
  }
}

TEST_P(Layers, TakeEveryLayoutWhateverTheyWereCompiledFor) {
  const CsrMatrix matrix = planted_matrix(37, 43);
  for (const Layout compiled : k_layouts) {
    LayerShape shape{.n = some_n(), .b_layout = compiled, .c_layout = compiled};
    const LayerKernels layer = kernels(matrix, shape, whole_epilogue());
    for (const Layout b : k_layouts) {
      for (const Layout c : k_layouts) {
        shape.b_layout = b;
        shape.c_layout = c;
        EXPECT_EQ(layer.run(shape), "") << static_cast<int>(compiled);
      }
    }
  }
}

TEST_P(Layers, OfTokensComputeEveryEpilogue) {
  const CsrMatrix matrix = planted_matrix(19, 23);
  for (const Activation activation : k_activations) {
    for (int operands = 0; operands < 8; ++operands) {
      const LayerKernels layer = kernels(matrix, tokens_shape(), epilogue_of(activation, operands));

      EXPECT_EQ(layer.run(tokens_shape()), "");
    }
  }
}

TEST_P(Layers, TakeAnyLeadingDimensions) {
  const CsrMatrix matrix = planted_matrix(21, 34);
  const std::int64_t n = some_n();
  for (const Layout b : {Layout::row_major, Layout::tokens_major}) {
    for (const Layout c : {Layout::row_major, Layout::tokens_major}) {
      LayerShape shape{.n = n, .b_layout = b, .c_layout = c};
      const LayerKernels layer = kernels(matrix, shape, whole_epilogue());
      const std::int64_t b_width = b == Layout::tokens_major ? 34 : n;
      const std::int64_t c_width = c == Layout::tokens_major ? 21 : n;
      for (const std::int64_t gap : {1, 5, 16}) {
        shape.ldb = b_width + gap;
        shape.ldc = c_width + gap + 1;
        shape.ldr = c_width + 17 - gap;
        EXPECT_EQ(layer.run(shape), "");
        shape.in_place = true;
        EXPECT_EQ(layer.run(shape), "");
        shape.in_place = false;
      }
    }
  }
}

TEST_P(Layers, TakeTokensOfBAndOfAResidualThatOverlap) {
  const CsrMatrix matrix = planted_matrix(21, 34);
  for (const Layout c : {Layout::row_major, Layout::tokens_major}) {
    LayerShape shape = tokens_shape();
    shape.c_layout = c;
    const LayerKernels layer = kernels(matrix, shape, whole_epilogue());
    for (const std::int64_t ldb : {1, 7, 33}) {
      shape.ldb = ldb;
      shape.ldr = c == Layout::tokens_major ? ldb % 20 + 1 : 0;
      EXPECT_EQ(layer.run(shape), "");
    }
  }
}

TEST_P(Layers, TakeCAsTheResidual) {
  const CsrMatrix matrix = planted_matrix(37, 43);
  for (const Layout c : k_layouts) {
    for (const Activation activation : {Activation::none, Activation::silu}) {
      const LayerShape shape{
          .n = some_n(), .b_layout = Layout::tokens_major, .c_layout = c, .in_place = true};
      for (const int operands : {4, 7}) {
        EXPECT_EQ(kernels(matrix, shape, epilogue_of(activation, operands)).run(shape), "");
      }
    }
  }
}

TEST_P(Layers, OfOneTokenOrFewOrManyAreRight) {
  const CsrMatrix matrix = planted_matrix(18, 25);
  const std::vector<std::int64_t> all = {1,  2,  3,  4,   5,   7,   8,   9,   15,  16, 17,
                                         31, 33, 63, 127, 128, 129, 255, 256, 257, 300};
  for (const std::int64_t n : all) {
    if (family() == "windows" && n > 4) break;
    for (const Layout b : {Layout::row_major, Layout::tokens_major}) {
      for (const Layout c : {Layout::row_major, Layout::tokens_major}) {
        const LayerShape shape{.n = n, .b_layout = b, .c_layout = c};
        EXPECT_EQ(kernels(matrix, shape, epilogue_of(Activation::silu, 6)).run(shape), "");
      }
    }
  }
}

TEST_P(Layers, OfManyTokensAreSharedByThreads) {
  if (family() == "windows") GTEST_SKIP() << "it is for few tokens";
  const CsrMatrix matrix = planted_matrix(18, 25);
  for (const std::int64_t n : in_turn_if_emulated<std::int64_t>(2, {513, 1030})) {
    for (const int threads : {2, 3}) {
      for (const Layout b : {Layout::row_major, Layout::tokens_major}) {
        for (const Layout c : k_layouts) {
          LayerShape shape{.n = n, .b_layout = b, .c_layout = c};
          const LayerKernels layer = kernels(matrix, shape, whole_epilogue(), threads);
          EXPECT_EQ(layer.run(shape, GuardPlacement::at_end), "");
          shape.batch = 3;
          EXPECT_EQ(layer.run(shape, GuardPlacement::at_start), "");
        }
      }
    }
  }
}

TEST_P(Layers, OfARunTimeNTakeEveryNumberOfTokens) {
  if (!knows_any_n()) GTEST_SKIP() << family() << " is for one n";
  const CsrMatrix matrix = planted_matrix(18, 25);
  const LayerKernels layer = kernels_of_any_n(matrix, whole_epilogue());
  for (const Layout b : k_layouts) {
    for (const Layout c : k_layouts) {
      for (const std::int64_t n : {0, 1, 3, 8, 15, 16, 17, 31, 32, 33, 127, 128, 129, 255, 257}) {
        EXPECT_EQ(layer.run({.n = n, .b_layout = b, .c_layout = c}), "");
      }
    }
  }
}

TEST_P(Layers, OfNoTokensTouchNothing) {
  if (!knows_any_n()) GTEST_SKIP() << family() << " is for one n";
  const LayerKernels layer = kernels_of_any_n(planted_matrix(18, 25), whole_epilogue());
  const std::vector<float> vector(18, 1.0F);
  for (const Layout layout : k_layouts) {
    EXPECT_NO_THROW(layer.kernel.run({.b = {nullptr, {.layout = layout}},
                                      .c = {nullptr, {.layout = layout}},
                                      .n = 0,
                                      .scale = vector.data(),
                                      .bias = vector.data()}));
  }
}

TEST_P(Layers, RefuseAWorkspaceThatIsTooSmall) {
  const LayerShape shape = tokens_shape();
  const LayerKernels layer = kernels(planted_matrix(18, 25), shape, whole_epilogue());
  const LayerOperands operands(layer.problem, shape, GuardPlacement::at_end);
  Arguments arguments = operands.arguments();
  const std::int64_t bytes = layer.kernel.workspace_bytes(arguments);
  std::vector<std::byte> workspace(index(bytes) + 1);
  arguments.workspace = workspace.data();
  arguments.workspace_bytes = bytes - 1;

  if (family() == "reference") {
    EXPECT_EQ(bytes, 0);
    return;
  }
  EXPECT_GT(bytes, 0);
  EXPECT_THROW(layer.kernel.run(arguments), InvalidArgument);
  EXPECT_THROW(static_cast<void>(layer.kernel.workspace_bytes({.b = {nullptr, {.ld = -1}}})),
               InvalidArgument);
}

TEST_P(Layers, NeedAsMuchWorkspaceWhereverTheirOperandsAre) {
  const LayerShape shape = tokens_shape();
  const LayerKernels layer = kernels(planted_matrix(18, 25), shape, whole_epilogue());
  const LayerOperands operands(layer.problem, shape, GuardPlacement::at_end);

  EXPECT_EQ(layer.kernel.workspace_bytes({}), layer.kernel.workspace_bytes(operands.arguments()));
}

INSTANTIATE_TEST_SUITE_P(
    Families, Layers,
    testing::Values(
        FamilyAndIsa{"compact", HostIsa::avx512}, FamilyAndIsa{"compact", HostIsa::avx2},
        FamilyAndIsa{"dense", HostIsa::avx512}, FamilyAndIsa{"dense", HostIsa::avx2},
        FamilyAndIsa{"windows", HostIsa::avx512}, FamilyAndIsa{"windows", HostIsa::avx2},
        FamilyAndIsa{"unrolled", HostIsa::avx512}, FamilyAndIsa{"unrolled", HostIsa::avx2},
        FamilyAndIsa{"unrolled", HostIsa::generic}, FamilyAndIsa{"csr", HostIsa::avx512},
        FamilyAndIsa{"csr", HostIsa::avx2}, FamilyAndIsa{"csr", HostIsa::generic},
        FamilyAndIsa{"reference", HostIsa::avx512}, FamilyAndIsa{"reference", HostIsa::avx2},
        FamilyAndIsa{"reference", HostIsa::generic}),
    [](const auto& of) {
      return std::get<0>(of.param) + ("_" + to_string(std::get<1>(of.param)));
    });

}  // namespace
