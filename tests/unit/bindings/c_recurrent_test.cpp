// Recurrent layers of the C interface do what those of the C++ one do.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "spjit/recurrent.hpp"
#include "tests/support/recurrent_testing.hpp"
#include "tests/unit/bindings/c_testing.hpp"

namespace {

using spjit::CsrMatrix;
using spjit::RecurrentCell;
using spjit::RecurrentLayer;
using spjit::testing_support::arguments_of;
using spjit::testing_support::CCompiler;
using spjit::testing_support::CKernel;
using spjit::testing_support::compiler_of;
using spjit::testing_support::CRecurrent;
using spjit::testing_support::expect_error;
using spjit::testing_support::input_of;
using spjit::testing_support::matrix_of;
using spjit::testing_support::RecurrentInput;
using spjit::testing_support::RecurrentResult;
using spjit::testing_support::RecurrentShape;
using spjit::testing_support::RecurrentWeights;
using spjit::testing_support::same_bits;
using spjit::testing_support::sized;
using spjit::testing_support::weights_of;

/// Kernels of a layer of both directions, or of one.
class CRecurrentLayer {
 public:
  explicit CRecurrentLayer(const RecurrentShape& shape)
      : shape_(shape), weights_(weights_of(shape)) {
    layer_.cell = static_cast<std::int32_t>(shape.cell) + SPJIT_LSTM;
    layer_.direction = static_cast<std::int32_t>(shape.direction);
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      layer_.input[i] = kernel(weights_[i].input, shape.has_bias);
      layer_.recurrent[i] = kernel(weights_[i].recurrent, shape.has_bias);
      if (shape.resets_first()) layer_.candidate[i] = kernel(weights_[i].candidate, shape.has_bias);
      if (shape.projected > 0) layer_.projection[i] = kernel(weights_[i].projection, false);
    }
  }

  [[nodiscard]] spjit_recurrent_layer& layer() { return layer_; }
  [[nodiscard]] const RecurrentShape& shape() const { return shape_; }
  [[nodiscard]] const std::vector<RecurrentWeights>& weights() const { return weights_; }
  void destroy_kernels() { kernels_.clear(); }

  [[nodiscard]] CRecurrent make() const {
    spjit_recurrent* made = nullptr;
    EXPECT_EQ(spjit_recurrent_create(&layer_, &made), SPJIT_OK) << spjit_last_error();
    return CRecurrent(made);
  }

  /// Of C++ arguments.
  [[nodiscard]] spjit_recurrent_arguments arguments(const RecurrentInput& input,
                                                    RecurrentResult<float>& result) const {
    const spjit::RecurrentArguments of = arguments_of(shape_, weights_, input, result);
    auto given = sized<spjit_recurrent_arguments>();
    given.steps = of.steps;
    given.batch = of.batch;
    given.x = of.x;
    given.y = of.y;
    given.lengths = of.lengths;
    given.h0 = of.h0;
    given.c0 = of.c0;
    given.h_n = of.h_n;
    given.c_n = of.c_n;
    for (std::size_t i = 0; i < 2; ++i) {
      given.input_bias[i] = of.biases[i].input;
      given.recurrent_bias[i] = of.biases[i].recurrent;
      given.candidate_bias[i] = of.biases[i].candidate;
    }
    return given;
  }

 private:
  const spjit_kernel* kernel(const CsrMatrix& a, bool has_bias) {
    auto problem = sized<spjit_problem>();
    problem.n = 1;
    problem.runtime_n = 1;
    problem.b_layout = problem.c_layout = SPJIT_LAYOUT_TOKENS;
    problem.has_bias = has_bias ? 1 : 0;
    const auto matrix = matrix_of(a);
    kernels_.push_back(spjit::testing_support::kernel_of(compiler_.get(), matrix.get(), problem));
    return kernels_.back().get();
  }

  RecurrentShape shape_;
  std::vector<RecurrentWeights> weights_;
  CCompiler compiler_ = compiler_of();
  std::vector<CKernel> kernels_;
  spjit_recurrent_layer layer_ = sized<spjit_recurrent_layer>();
};

TEST(CRecurrent, HasTheBitsOfTheCxxInterface) {
  for (const RecurrentShape& shape :
       {RecurrentShape{}, RecurrentShape{.projected = 3},
        RecurrentShape{.cell = RecurrentCell::gru, .direction = RecurrentLayer::Direction::reverse},
        RecurrentShape{.cell = RecurrentCell::gru_reset_first,
        .direction = RecurrentLayer::Direction::both},
        RecurrentShape{.cell = RecurrentCell::rnn_tanh, .has_bias = false},
        RecurrentShape{.cell = RecurrentCell::rnn_relu}}) {
    CRecurrentLayer of(shape);
    const CRecurrent layer = of.make();
    of.destroy_kernels();
    const RecurrentInput input = input_of(shape, 5, 3, {5, 0, 2});
    RecurrentResult<float> result;
    const spjit_recurrent_arguments arguments = of.arguments(input, result);

    EXPECT_EQ(spjit_recurrent_run(layer.get(), &arguments), SPJIT_OK) << spjit_last_error();

    RecurrentResult<float> expected;
    RecurrentLayer(shape.cell, shape.direction, kernels_of(shape, of.weights()))
        .run(arguments_of(shape, of.weights(), input, expected));
    EXPECT_TRUE(same_bits(result.y, expected.y));
    EXPECT_TRUE(same_bits(result.h_n, expected.h_n));
    EXPECT_TRUE(same_bits(result.c_n, expected.c_n));
  }
}

TEST(CRecurrent, TakesStrides) {
  CRecurrentLayer of({.direction = RecurrentLayer::Direction::both});
  const CRecurrent layer = of.make();
  const RecurrentInput input = input_of(of.shape(), 2, 1);
  RecurrentResult<float> expected;
  spjit_recurrent_arguments arguments = of.arguments(input, expected);
  ASSERT_EQ(spjit_recurrent_run(layer.get(), &arguments), SPJIT_OK) << spjit_last_error();
  RecurrentResult<float> result;
  arguments = of.arguments(input, result);
  std::vector<float> x(14, 9.0F);
  std::copy_n(input.x.begin(), 5, x.begin());
  std::copy_n(input.x.begin() + 5, 5, x.begin() + 9);
  arguments.x = x.data();
  arguments.x_step = 9;
  arguments.x_batch = 5;
  arguments.y_step = 7;
  arguments.y_batch = 7;
  arguments.y_direction = 14;

  EXPECT_EQ(spjit_recurrent_run(layer.get(), &arguments), SPJIT_OK) << spjit_last_error();

  for (std::size_t i = 0; i < 28; ++i) {  // step, direction, place
    EXPECT_EQ(result.y[i / 7 % 2 * 14 + i / 14 * 7 + i % 7], expected.y[i]) << i;
  }
}

TEST(CRecurrentErrors, NameWhatIsWrongWithALayer) {
  CRecurrentLayer of(RecurrentShape{});
  spjit_recurrent* made = nullptr;
  const auto refuse = [&](spjit_recurrent_layer layer, const std::string& text) {
    expect_error(spjit_recurrent_create(&layer, &made), SPJIT_INVALID_ARGUMENT, text);
    EXPECT_EQ(made, nullptr);
  };

  spjit_recurrent_layer layer = of.layer();
  layer.cell = 0;
  refuse(layer, "cell is 0; expected 1 to 5: SPJIT_LSTM, _GRU");
  layer.cell = 6;
  refuse(layer, "cell is 6; expected 1 to 5");
  layer = of.layer();
  layer.direction = 3;
  refuse(layer, "direction is 3; expected 0 to 2: SPJIT_FORWARD");
  layer = of.layer();
  layer.input[0] = nullptr;
  refuse(layer, "an input kernel is NULL");
  layer = of.layer();
  layer.recurrent[0] = nullptr;
  refuse(layer, "a recurrent kernel is NULL");
  layer = of.layer();
  layer.direction = SPJIT_BOTH_DIRECTIONS;
  refuse(layer, "an input kernel is NULL");
  layer = of.layer();
  layer.projection[1] = layer.input[0];
  refuse(layer, "kernels of two directions are given; expected one");
  layer = of.layer();
  layer.recurrent[0] = layer.input[0];
  refuse(layer, "the recurrent kernel is [28 x 5]; expected [28 x 7]");
  layer.struct_size = 8;
  refuse(layer, "struct_size of spjit_recurrent_layer is 8");
  expect_error(spjit_recurrent_create(nullptr, &made), SPJIT_INVALID_ARGUMENT,
               "spjit_recurrent_layer is NULL");
  expect_error(spjit_recurrent_create(&of.layer(), nullptr), SPJIT_INVALID_ARGUMENT,
               "recurrent is NULL");
}

TEST(CRecurrentErrors, NameWhatIsWrongWithARun) {
  CRecurrentLayer of(RecurrentShape{});
  const CRecurrent layer = of.make();
  const RecurrentInput input = input_of(of.shape(), 2, 1);
  RecurrentResult<float> result;
  spjit_recurrent_arguments arguments = of.arguments(input, result);

  arguments.steps = -1;
  expect_error(spjit_recurrent_run(layer.get(), &arguments), SPJIT_INVALID_ARGUMENT,
               "steps is -1; expected 0 to");
  expect_error(spjit_recurrent_run(layer.get(), nullptr), SPJIT_INVALID_ARGUMENT,
               "spjit_recurrent_arguments is NULL");
  expect_error(spjit_recurrent_run(nullptr, &arguments), SPJIT_INVALID_ARGUMENT,
               "recurrent is NULL");
  spjit_recurrent_destroy(nullptr);
}

}  // namespace
