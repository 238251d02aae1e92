// What recurrent layers refuse.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "artifact/families.hpp"
#include "artifact/kernel_impl.hpp"
#include "spjit/error.hpp"
#include "spjit/recurrent.hpp"
#include "tests/support/recurrent_testing.hpp"

namespace {

using spjit::CompileOptions;
using spjit::InvalidArgument;
using spjit::Problem;
using spjit::RecurrentArguments;
using spjit::RecurrentCell;
using spjit::RecurrentKernels;
using spjit::RecurrentLayer;
using spjit::Target;
using spjit::testing_support::arguments_of;
using spjit::testing_support::input_of;
using spjit::testing_support::kernels_of;
using spjit::testing_support::layer_for_batch;
using spjit::testing_support::random_weights;
using spjit::testing_support::recurrent_problem;
using spjit::testing_support::RecurrentInput;
using spjit::testing_support::RecurrentResult;
using spjit::testing_support::RecurrentShape;
using spjit::testing_support::uncached;
using spjit::testing_support::WeightedLayer;
using spjit::testing_support::weights_of;
using Directions = RecurrentLayer::Direction;

/// `make` throws InvalidArgument with the text.
void expect_refusal(const std::function<void()>& make, const std::string& text) {
  try {
    make();
    ADD_FAILURE() << "nothing was thrown; expected \"" << text << "\"";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos)
        << "got \"" << error.what() << "\", expected \"" << text << "\" in it";
  }
}

/// A layer of one LSTM whose kernels are changed before it is made.
void expect_kernels_refused(const RecurrentShape& shape,
                            const std::function<void(RecurrentKernels&)>& change,
                            const std::string& text) {
  std::vector<RecurrentKernels> kernels = kernels_of(shape, weights_of(shape));
  change(kernels.back());
  expect_refusal([&] { RecurrentLayer(shape.cell, shape.direction, kernels); }, text);
}

spjit::Kernel product_kernel(const Problem& problem, const CompileOptions& options = {}) {
  return spjit::Compiler(options, uncached()).compile(problem);
}

TEST(RecurrentErrors, RefusesKernelsOfOtherSizes) {
  const auto of_size = [](std::int64_t rows, std::int64_t cols) {
    return product_kernel(recurrent_problem(random_weights(rows, cols, 1), 1, true));
  };
  const RecurrentShape both{.direction = Directions::both};

  expect_kernels_refused(
      {}, [&](auto& k) { k.input = of_size(27, 5); }, "has 27 rows; expected a multiple of 4");
  expect_kernels_refused(
      {}, [&](auto& k) { k.recurrent = of_size(24, 7); },
      "the recurrent kernel is [24 x 7]; expected [28 x 7]");
  expect_kernels_refused(
      {}, [&](auto& k) { k.recurrent = of_size(28, 6); },
      "the recurrent kernel is [28 x 6]; expected [28 x 7]");
  expect_kernels_refused(
      both, [&](auto& k) { k.input = of_size(28, 6); },
      "the input kernel is [28 x 6]; expected [28 x 5]");
  expect_kernels_refused(
      {.cell = RecurrentCell::gru_reset_first}, [&](auto& k) { k.candidate = of_size(7, 8); },
      "the candidate kernel is [7 x 8]; expected [7 x 7]");
  expect_kernels_refused(
      {.cell = RecurrentCell::gru_reset_first}, [&](auto& k) { k.recurrent = of_size(21, 7); },
      "the recurrent kernel is [21 x 7]; expected [14 x 7]");
  expect_kernels_refused(
      {.projected = 3, .direction = Directions::both},
      [&](auto& k) {
        k.projection = product_kernel(recurrent_problem(random_weights(3, 6, 1), 1, false));
      },
      "the projection kernel is [3 x 6]; expected [3 x 7]");
}

TEST(RecurrentErrors, RefusesMissingAndNeedlessKernels) {
  const auto square = product_kernel(recurrent_problem(random_weights(7, 7, 1), 1, false));

  expect_kernels_refused(
      {}, [&](auto& k) { k.candidate = square; },
      "a candidate kernel is given, which this cell has not");
  expect_kernels_refused(
      {.cell = RecurrentCell::gru}, [&](auto& k) { k.projection = square; },
      "a projection kernel is given, which this cell has not");
  expect_kernels_refused(
      {.cell = RecurrentCell::gru_reset_first}, [&](auto& k) { k.candidate.reset(); },
      "the candidate kernel of this cell is missing");
  expect_kernels_refused(
      {.projected = 3, .direction = Directions::both}, [&](auto& k) { k.projection.reset(); },
      "the projection kernel of this cell is missing");
  const RecurrentShape one;
  expect_refusal(
      [&] { RecurrentLayer(one.cell, Directions::both, kernels_of(one, weights_of(one))); },
      "kernels of 1 directions are given; expected 2");
  expect_refusal([&] { RecurrentLayer(one.cell, Directions::forward, {}); },
                 "kernels of 0 directions are given; expected 1");
}

TEST(RecurrentErrors, RefusesKernelsOfOtherKinds) {
  const RecurrentShape shape;
  const auto refuse = [&](const std::function<void(Problem&)>& change, const std::string& text) {
    Problem problem = recurrent_problem(random_weights(28, 7, 1), 1, true);
    change(problem);
    expect_kernels_refused(
        shape, [&](auto& k) { k.recurrent = product_kernel(problem); }, text);
  };

  refuse([](Problem& p) { p.epilogue.activation = spjit::Activation::relu; },
         "has an epilogue; expected none but a bias");
  refuse([](Problem& p) { p.epilogue.scale = true; }, "has an epilogue");
  refuse([](Problem& p) { p.epilogue.residual = true; }, "has an epilogue");
  refuse([](Problem& p) { p.runtime_values = true; }, "takes A's values at run time");
  refuse(
      [](Problem& p) {
        p.numerics.accumulate = {spjit::Promise::bounded, 1e-3};
      },
      "has other types or sums than fp32 in order");
  expect_kernels_refused(
      {.projected = 3},
      [&](auto& k) {
        k.projection = product_kernel(recurrent_problem(random_weights(3, 7, 1), 1, true));
      },
      "the projection kernel has a bias; expected none");
  Problem image = recurrent_problem(random_weights(28, 9, 1), 1, true);
  image.operation = spjit::Operation::conv2d;
  image.convolution = {
      .channels = 1, .height = 5, .width = 5, .kernel_height = 3, .kernel_width = 3};
  image.n = spjit::Extent::at_run_time(9);
  expect_kernels_refused(
      {}, [&](auto& k) { k.input = product_kernel(image); },
      "the input kernel is a convolution; expected a product");
}

/// Arguments of a layer of both directions, three sequences of four steps, which are then changed.
class RecurrentArgumentErrors : public testing::Test {
 protected:
  void expect_refused(const std::function<void(RecurrentArguments&)>& change,
                      const std::string& text) {
    RecurrentArguments arguments = arguments_of(layer_.shape, layer_.weights, input_, result_);
    change(arguments);
    expect_refusal([&] { layer_.layer.run(arguments); }, text);
  }

  WeightedLayer layer_{{.direction = Directions::both}};
  RecurrentInput input_ = input_of(layer_.shape, 4, 3);
  RecurrentResult<float> result_;
};

TEST_F(RecurrentArgumentErrors, OfSizes) {
  expect_refused([](auto& a) { a.steps = -1; }, "steps is -1; expected 0 to 2147483647");
  expect_refused([](auto& a) { a.batch = -2; }, "batch is -2; expected 0 to 2147483647");
  expect_refused([](auto& a) { a.x = nullptr; }, "x is null; expected 60 floats");
}

TEST_F(RecurrentArgumentErrors, OfStrides) {
  expect_refused([](auto& a) { a.x_strides.batch = 4; },
                 "the batch stride of x is 4; expected at least 5");
  expect_refused([](auto& a) { a.x_strides.step = 14; },
                 "the step stride of x is 14; expected at least 15");
  expect_refused([](auto& a) { a.x_strides.step = -15; }, "the step stride of x is -15");
  expect_refused([](auto& a) { a.y_strides.direction = 6; },
                 "the direction stride of y is 6; expected at least 7");
  expect_refused([](auto& a) { a.y_strides.batch = 13; },
                 "the batch stride of y is 13; expected at least 14");
  expect_refused([](auto& a) { a.y_strides.step = std::int64_t{1} << 60; },
                 "y has 4 1152921504606846976 floats apart, which no 64-bit offsets reach");
}

TEST_F(RecurrentArgumentErrors, OfLengths) {
  const std::array<std::int64_t, 3> above = {4, 5, 0};
  const std::array<std::int64_t, 3> below = {4, 4, -1};

  expect_refused([&](auto& a) { a.lengths = above.data(); },
                 "the length of sequence 1 is 5; expected 0 to 4, the steps");
  expect_refused([&](auto& a) { a.lengths = below.data(); },
                 "the length of sequence 2 is -1; expected 0 to 4, the steps");
}

TEST_F(RecurrentArgumentErrors, OfBiases) {
  expect_refused([](auto& a) { a.biases[0].input = nullptr; },
                 "the input bias is null; expected 28 floats");
  expect_refused([](auto& a) { a.biases[1].recurrent = nullptr; },
                 "the recurrent bias is null; expected 28 floats");
  expect_refused([](auto& a) { a.biases[1].candidate = a.biases[1].input; },
                 "the candidate bias is given; this cell has none");
}

TEST_F(RecurrentArgumentErrors, OfOverlaps) {
  expect_refused([](auto& a) { a.y = const_cast<float*>(a.x); }, "y and x overlap");
  expect_refused([](auto& a) { a.h_n = a.y + 5; }, "y and h_n overlap");
  expect_refused([](auto& a) { a.c_n = a.y; }, "y and c_n overlap");
  expect_refused([](auto& a) { a.c_n = a.h_n; }, "h_n and c_n overlap");
  expect_refused([](auto& a) { a.h0 = a.y + 1; }, "y and h0 overlap");
  expect_refused([](auto& a) { a.c0 = a.h_n; }, "h_n and c0 overlap");
  expect_refused([](auto& a) { a.h0 = a.h_n + 1; }, "h_n and h0 overlap");
  expect_refused([](auto& a) { a.x = a.c_n; }, "c_n and x overlap");
}

TEST(RecurrentErrors, RefusesWhatAnotherLayerWouldTake) {
  const WeightedLayer gru({.cell = RecurrentCell::gru});
  const RecurrentInput input = input_of(gru.shape, 2, 1);
  RecurrentResult<float> result;
  RecurrentArguments arguments = arguments_of(gru.shape, gru.weights, input, result);
  arguments.c0 = input.c0.data();
  expect_refusal([&] { gru.layer.run(arguments); }, "expected them of an LSTM alone");

  arguments.c0 = nullptr;
  arguments.biases[1] = arguments.biases[0];
  expect_refusal([&] { gru.layer.run(arguments); }, "biases of a second direction are given");

  const WeightedLayer plain({.has_bias = false});
  arguments = arguments_of(plain.shape, plain.weights, input, result);
  arguments.biases[0].recurrent = input.x.data();
  expect_refusal([&] { plain.layer.run(arguments); },
                 "the recurrent bias is given; its kernel was compiled without");
}

TEST(RecurrentErrors, RefusesAnotherBatchThanKernelsWereCompiledFor) {
  for (const RecurrentShape& shape :
       {RecurrentShape{.projected = 3}, RecurrentShape{.cell = RecurrentCell::gru_reset_first}}) {
    const WeightedLayer layer(shape);
    const RecurrentLayer fixed = layer_for_batch(layer, 2);
    const RecurrentInput input = input_of(shape, 2, 3);
    RecurrentResult<float> result;
    const RecurrentArguments arguments = arguments_of(shape, layer.weights, input, result);

    expect_refusal([&] { fixed.run(arguments); },
                   "batch is 3; expected 2, which kernels were compiled for");
  }
}

TEST(RecurrentErrors, RefusesMoreStepsThanAnInputKernelOfAFixedNIsFor) {
  const WeightedLayer layer(RecurrentShape{});
  const RecurrentLayer fixed = layer_for_batch(layer, 2, true);
  RecurrentResult<float> result;

  const RecurrentInput steps = input_of(layer.shape, 2, 2);
  expect_refusal([&] { fixed.run(arguments_of(layer.shape, layer.weights, steps, result)); },
                 "steps is 2; expected 1, as n of the input kernel is fixed");
  const RecurrentInput batch = input_of(layer.shape, 1, 3);
  expect_refusal([&] { fixed.run(arguments_of(layer.shape, layer.weights, batch, result)); },
                 "batch is 3; expected 2, which kernels were compiled for");
}

TEST(RecurrentErrors, RefusesAKernelOfAnotherDevice) {
  spjit::KernelInfo info =
      product_kernel(recurrent_problem(random_weights(28, 7, 1), 1, true)).info();
  info.target = Target::parse("sm_90");
  const spjit::Kernel other(std::make_shared<const spjit::Kernel::Impl>(
      spjit::find_family("csr", "cuda"), spjit::LoadedKernel{info, nullptr}, nullptr,
      nlohmann::json::object()));

  expect_kernels_refused(
      {}, [&](auto& k) { k.recurrent = other; },
      "the recurrent kernel is for sm_90; expected one for the host");
}

}  // namespace
