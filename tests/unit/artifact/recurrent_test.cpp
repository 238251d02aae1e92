#include "spjit/recurrent.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/allocation_counter.hpp"
#include "tests/support/recurrent_testing.hpp"

namespace {

using spjit::CompileOptions;
using spjit::HostIsa;
using spjit::RecurrentArguments;
using spjit::RecurrentCell;
using spjit::RecurrentLayer;
using spjit::Target;
using spjit::testing_support::arguments_of;
using spjit::testing_support::index;
using spjit::testing_support::input_of;
using spjit::testing_support::isas_here;
using spjit::testing_support::layer_for_batch;
using spjit::testing_support::RecurrentInput;
using spjit::testing_support::RecurrentLoops;
using spjit::testing_support::RecurrentResult;
using spjit::testing_support::RecurrentShape;
using spjit::testing_support::same_bits;
using Directions = RecurrentLayer::Direction;
using Layer = spjit::testing_support::WeightedLayer;

constexpr std::array k_all_cells = {RecurrentCell::lstm, RecurrentCell::gru,
                                    RecurrentCell::gru_reset_first, RecurrentCell::rnn_tanh,
                                    RecurrentCell::rnn_relu};

void expect_near(const std::vector<float>& given, const std::vector<double>& expected,
                 const std::string& what) {
  ASSERT_EQ(given.size(), expected.size()) << what;
  for (std::size_t i = 0; i < given.size(); ++i) {
    ASSERT_NEAR(given[i], expected[i], 2e-5 * (1 + std::abs(expected[i]))) << what << " " << i;
  }
}

void expect_as_loops(const Layer& layer, const RecurrentInput& input) {
  const RecurrentResult<float> result = layer.run(input);
  const RecurrentLoops loops(layer.shape, layer.weights, input);

  const std::string name = "cell " + std::to_string(static_cast<int>(layer.shape.cell));
  expect_near(result.y, loops.result().y, name + " y");
  expect_near(result.h_n, loops.result().h_n, name + " h_n");
  expect_near(result.c_n, loops.result().c_n, name + " c_n");
}

void expect_same(const RecurrentResult<float>& left, const RecurrentResult<float>& right) {
  EXPECT_TRUE(same_bits(left.y, right.y));
  EXPECT_TRUE(same_bits(left.h_n, right.h_n));
  EXPECT_TRUE(same_bits(left.c_n, right.c_n));
}

TEST(Recurrent, ComputesWhatLoopsInFloat64Say) {
  for (const RecurrentCell cell : k_all_cells) {
    for (const Directions direction :
         {Directions::forward, Directions::reverse, Directions::both}) {
      const Layer layer({.cell = cell, .direction = direction});

      expect_as_loops(layer, input_of(layer.shape, 6, 3));
      expect_as_loops(layer, input_of(layer.shape, 9, 1));
    }
  }
}

TEST(Recurrent, ComputesWhatLoopsSayForOddSizes) {
  for (const RecurrentCell cell : k_all_cells) {
    for (const auto& [inputs, hidden] :
         {std::pair{1, 1}, std::pair{33, 17}, std::pair{2, 64}, std::pair{40, 31}}) {
      for (const bool has_bias : {false, true}) {
        const Layer layer({.cell = cell, .inputs = inputs, .hidden = hidden, .has_bias = has_bias});

        for (const auto& [steps, batch] : {std::pair{1, 1}, std::pair{1, 5}, std::pair{4, 17}}) {
          expect_as_loops(layer, input_of(layer.shape, steps, batch));
        }
      }
    }
  }
}

TEST(Recurrent, ProjectsTheStateOfAnLstm) {
  for (const std::int64_t projected : {1, 3, 7, 12}) {
    for (const Directions direction : {Directions::forward, Directions::both}) {
      const Layer layer({.projected = projected, .direction = direction});

      expect_as_loops(layer, input_of(layer.shape, 5, 4));
      expect_as_loops(layer, input_of(layer.shape, 5, 4, {2, 5, 0, 1}));
      EXPECT_EQ(layer.layer.outputs(), projected);
    }
  }
}

TEST(Recurrent, SequencesEndWhereTheirLengthsSay) {
  for (const RecurrentCell cell : k_all_cells) {
    for (const Directions direction :
         {Directions::forward, Directions::reverse, Directions::both}) {
      const Layer layer({.cell = cell, .direction = direction});
      for (const std::vector<std::int64_t>& lengths :
           {std::vector<std::int64_t>{6, 4, 1}, {1, 6, 3}, {0, 0, 0}, {0, 2, 6}, {6, 6, 6}}) {
        expect_as_loops(layer, input_of(layer.shape, 6, 3, lengths));
      }
    }
  }
}

TEST(Recurrent, OfASequenceThatHasEndedNothingIsRead) {
  const Layer layer({.direction = Directions::both});
  const RecurrentInput clean = input_of(layer.shape, 4, 2, {4, 1});
  RecurrentInput spoilt = clean;
  for (std::int64_t step = 1; step < 4; ++step) {
    const std::int64_t begin = (step * 2 + 1) * layer.shape.inputs;
    std::fill_n(spoilt.x.begin() + begin, layer.shape.inputs,
                std::numeric_limits<float>::quiet_NaN());
  }

  expect_same(layer.run(spoilt), layer.run(clean));
}

TEST(Recurrent, NoStepsKeepTheState) {
  for (const RecurrentCell cell : k_all_cells) {
    const Layer layer({.cell = cell, .direction = Directions::both});
    const RecurrentInput input = input_of(layer.shape, 0, 3);

    const RecurrentResult<float> result = layer.run(input);

    EXPECT_TRUE(same_bits(result.h_n, input.h0));
    if (cell == RecurrentCell::lstm) {
      EXPECT_TRUE(same_bits(result.c_n, input.c0));
    }
  }
}

TEST(Recurrent, NoSequencesAreNothing) {
  const Layer layer({.has_bias = false});

  EXPECT_NO_THROW(layer.layer.run({.steps = 5}));
  EXPECT_NO_THROW(layer.layer.run({}));
}

TEST(Recurrent, AMissingStateIsZero) {
  for (const RecurrentCell cell : k_all_cells) {
    const Layer layer({.cell = cell});
    RecurrentInput input = input_of(layer.shape, 5, 2);
    std::ranges::fill(input.h0, 0.0F);
    std::ranges::fill(input.c0, 0.0F);
    RecurrentResult<float> result;
    RecurrentArguments arguments = arguments_of(layer.shape, layer.weights, input, result);
    arguments.h0 = nullptr;
    arguments.c0 = nullptr;

    layer.layer.run(arguments);

    expect_same(result, layer.run(input));
  }
}

TEST(Recurrent, ResultsThatAreNotWantedAreNotWritten) {
  for (const RecurrentCell cell : k_all_cells) {
    const Layer layer({.cell = cell, .direction = Directions::both});
    const RecurrentInput input = input_of(layer.shape, 5, 2, {5, 2});
    const RecurrentResult<float> whole = layer.run(input);
    RecurrentResult<float> result;
    RecurrentArguments arguments = arguments_of(layer.shape, layer.weights, input, result);
    arguments.y = nullptr;

    layer.layer.run(arguments);
    EXPECT_TRUE(same_bits(result.h_n, whole.h_n));
    EXPECT_TRUE(same_bits(result.c_n, whole.c_n));

    arguments = arguments_of(layer.shape, layer.weights, input, result);
    arguments.h_n = nullptr;
    arguments.c_n = nullptr;
    layer.layer.run(arguments);
    EXPECT_TRUE(same_bits(result.y, whole.y));
    EXPECT_EQ(result.h_n[0], -7.0F);
  }
}

TEST(Recurrent, TheStateMayBeReplacedInPlace) {
  const Layer layer({.direction = Directions::both});
  const RecurrentInput input = input_of(layer.shape, 4, 2);
  const RecurrentResult<float> expected = layer.run(input);
  RecurrentResult<float> result;
  RecurrentArguments arguments = arguments_of(layer.shape, layer.weights, input, result);
  result.h_n = input.h0;
  result.c_n = input.c0;
  arguments.h0 = arguments.h_n = result.h_n.data();
  arguments.c0 = arguments.c_n = result.c_n.data();

  layer.layer.run(arguments);

  expect_same(result, expected);
}

/// All steps at once, or one after another with the state between them.
TEST(Recurrent, StepsOneByOneHaveTheSameBits) {
  for (const RecurrentCell cell : k_all_cells) {
    const Layer layer({.cell = cell, .inputs = 11, .hidden = 40});
    RecurrentInput input = input_of(layer.shape, 7, 3);
    const RecurrentResult<float> whole = layer.run(input);

    std::vector<float> y;
    for (std::int64_t step = 0; step < 7; ++step) {
      RecurrentInput one = input_of(layer.shape, 1, 3);
      one.x.assign(input.x.begin() + step * 33, input.x.begin() + (step + 1) * 33);
      one.h0 = input.h0;
      one.c0 = input.c0;
      const RecurrentResult<float> result = layer.run(one);
      y.insert(y.end(), result.y.begin(), result.y.end());
      input.h0 = result.h_n;
      if (cell == RecurrentCell::lstm) input.c0 = result.c_n;
    }

    EXPECT_TRUE(same_bits(y, whole.y));
    EXPECT_TRUE(same_bits(input.h0, whole.h_n));
  }
}

/// Some steps of an input, from a state on.
RecurrentInput part_of(const RecurrentInput& input, std::int64_t first, std::int64_t steps,
                       const RecurrentResult<float>& state) {
  RecurrentInput part = input;
  const std::ptrdiff_t row = std::ssize(input.x) / input.steps;
  part.steps = steps;
  part.x.assign(input.x.begin() + first * row, input.x.begin() + (first + steps) * row);
  part.h0 = state.h_n;
  part.c0 = state.c_n;
  return part;
}

/// So many that the sums of the input's product are not made at once.
TEST(Recurrent, ManyStepsHaveTheBitsOfSomeAfterOthers) {
  constexpr std::int64_t k_steps = 240;
  constexpr std::int64_t k_part = 20;
  for (const Directions direction : {Directions::forward, Directions::reverse}) {
    const Layer layer({.inputs = 3, .hidden = 300, .direction = direction});
    const RecurrentInput input = input_of(layer.shape, k_steps, 2);
    const RecurrentResult<float> whole = layer.run(input);

    RecurrentResult<float> state{.y = {}, .h_n = input.h0, .c_n = input.c0};
    for (std::int64_t done = 0; done < k_steps; done += k_part) {
      const std::int64_t first = direction == Directions::forward ? done : k_steps - done - k_part;
      state = layer.run(part_of(input, first, k_part, state));
      EXPECT_TRUE(std::ranges::equal(
          state.y, std::span(whole.y).subspan(index(first * 600), index(k_part * 600))))
          << first;
    }
    EXPECT_TRUE(same_bits(state.h_n, whole.h_n));
    EXPECT_TRUE(same_bits(state.c_n, whole.c_n));
  }
}

/// With batches first, in wider arrays, with directions outside.
TEST(Recurrent, StridesSayWhereRowsLie) {
  for (const std::vector<std::int64_t>& lengths : {std::vector<std::int64_t>{}, {5, 0, 3, 4}}) {
    const Layer layer({.direction = Directions::both});
    const RecurrentInput input = input_of(layer.shape, 5, 4, lengths);
    const RecurrentResult<float> expected = layer.run(input);
    const std::int64_t inputs = layer.shape.inputs + 2;
    const std::int64_t outputs = layer.shape.outputs() + 3;
    std::vector<float> x(index(5 * 4 * inputs), -3.0F);
    std::vector<float> y(index(5 * 4 * 2 * outputs), -3.0F);
    for (std::int64_t step = 0; step < 5; ++step) {
      for (std::int64_t row = 0; row < 4; ++row) {
        std::copy_n(input.x.begin() + (step * 4 + row) * layer.shape.inputs, layer.shape.inputs,
                    x.begin() + (row * 5 + step) * inputs);
      }
    }
    RecurrentResult<float> result;
    RecurrentArguments arguments = arguments_of(layer.shape, layer.weights, input, result);
    arguments.x = x.data();
    arguments.x_strides = {.step = inputs, .batch = 5 * inputs};
    arguments.y = y.data();
    arguments.y_strides = {.step = outputs, .batch = 5 * outputs, .direction = 20 * outputs};

    layer.layer.run(arguments);

    for (std::int64_t at = 0; at < 5 * 4 * 2; ++at) {
      const std::int64_t step = at / 8;
      const std::int64_t row = at / 2 % 4;
      const auto begin = y.begin() + (at % 2 * 20 + row * 5 + step) * outputs;
      const std::int64_t width = layer.shape.outputs();
      EXPECT_TRUE(std::equal(begin, begin + width, expected.y.begin() + at * width)) << at;
      EXPECT_EQ(std::count(begin + width, begin + outputs, -3.0F), 3) << at;
    }
    EXPECT_TRUE(same_bits(result.h_n, expected.h_n));
  }
}

TEST(Recurrent, HasTheSameBitsInAvx512AndAvx2AndInThreads) {
  if (!Target(HostIsa::avx2).runs_here()) GTEST_SKIP() << "this CPU has no AVX2";
  for (const RecurrentCell cell : k_all_cells) {
    const RecurrentShape shape{.cell = cell, .inputs = 50, .hidden = 130};
    CompileOptions options;
    options.target = Target(HostIsa::avx2);
    const RecurrentInput input = input_of(shape, 6, 5);
    const RecurrentResult<float> expected = Layer(shape, options).run(input);

    expect_same(Layer(shape).run(input), expected);
    options.target = Target();
    options.resources.threads = 3;
    expect_same(Layer(shape, options).run(input), expected);
  }
}

TEST(Recurrent, RunsOnEveryInstructionSetHere) {
  for (const HostIsa isa : isas_here()) {
    CompileOptions options;
    options.target = Target(isa);
    for (const RecurrentCell cell : k_all_cells) {
      const Layer layer({.cell = cell}, options);

      expect_as_loops(layer, input_of(layer.shape, 4, 2));
    }
  }
}

TEST(Recurrent, KernelsForOneBatchHaveTheSameBits) {
  for (const RecurrentShape& shape :
       {RecurrentShape{.inputs = 9, .hidden = 40, .direction = Directions::both},
        RecurrentShape{.hidden = 40, .projected = 12},
        RecurrentShape{.cell = RecurrentCell::gru, .hidden = 40},
        RecurrentShape{.cell = RecurrentCell::gru_reset_first, .hidden = 40}}) {
    const Layer layer(shape);
    for (const std::vector<std::int64_t>& lengths :
         {std::vector<std::int64_t>{}, {5, 1, 0}, {0, 2, 5}, {5}}) {
      const std::int64_t batch = lengths.size() == 1 ? 1 : 3;
      const RecurrentInput input = input_of(shape, 5, batch, lengths);
      RecurrentResult<float> result;

      layer_for_batch(layer, batch).run(arguments_of(shape, layer.weights, input, result));

      expect_same(result, layer.run(input));
    }
  }
}

TEST(Recurrent, KernelsForOneStepHaveTheSameBits) {
  const Layer layer({.inputs = 9, .hidden = 40, .direction = Directions::both});
  const RecurrentLayer fixed = layer_for_batch(layer, 3, true);
  for (const std::int64_t steps : {0, 1}) {
    const RecurrentInput input = input_of(layer.shape, steps, 3);
    RecurrentResult<float> result;
    RecurrentArguments arguments = arguments_of(layer.shape, layer.weights, input, result);
    arguments.x_strides.step = 1000;  // of one step without meaning

    fixed.run(arguments);

    expect_same(result, layer.run(input));
  }
}

TEST(Recurrent, ManyThreadsRunOneLayer) {
  const Layer layer({.hidden = 40});
  const RecurrentInput input = input_of(layer.shape, 20, 2);
  const RecurrentResult<float> expected = layer.run(input);
  std::array<RecurrentResult<float>, 4> results;

  std::vector<std::thread> threads;
  for (RecurrentResult<float>& result : results) {
    threads.emplace_back([&] { result = layer.run(input); });
  }
  for (std::thread& thread : threads) thread.join();

  for (const RecurrentResult<float>& result : results) expect_same(result, expected);
}

TEST(Recurrent, AllocatesNothingInSteadyState) {
  const Layer layer({.hidden = 40, .direction = Directions::both});
  const RecurrentInput input = input_of(layer.shape, 5, 2);
  RecurrentResult<float> result;
  const RecurrentArguments arguments = arguments_of(layer.shape, layer.weights, input, result);
  layer.layer.run(arguments);

  const auto before = spjit::testing_support::allocations_so_far();
  layer.layer.run(arguments);

  EXPECT_EQ(spjit::testing_support::allocations_so_far(), before);
}

}  // namespace
