#include "kernels/host/layer/recurrent_cell.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/host/layer/activation.hpp"
#include "tests/support/guarded_memory.hpp"
#include "tests/support/host/vector_isas.hpp"

namespace spjit {
namespace {

using testing_support::GuardedFloats;
using testing_support::GuardPlacement;
using testing_support::k_placements;
using testing_support::vector_isas;

constexpr float k_infinite = std::numeric_limits<float>::infinity();
constexpr float k_not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr float k_largest = std::numeric_limits<float>::max();
constexpr float k_smallest = std::numeric_limits<float>::denorm_min();
constexpr std::array k_cells = {RecurrentCell::lstm, RecurrentCell::gru,
                                RecurrentCell::gru_reset_first, RecurrentCell::rnn_tanh,
                                RecurrentCell::rnn_relu};

/// NaNs are all the same.
bool same_float(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

/// The arithmetic of the cells, with activations of AVX2, whose bits all vectors have.
struct InFloats {
  using Number = float;
  static float sigmoid(float x) { return activated(x, Activation::sigmoid); }
  static float tanh(float x) { return activated(x, Activation::tanh); }
  static float fma(float a, float b, float c) { return std::fma(a, b, c); }

 private:
  static float activated(float x, Activation activation) {
    activate({&x, 1}, activation, {}, HostIsa::avx2);
    return x;
  }
};

struct InDoubles {
  using Number = double;
  static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
  static double tanh(double x) { return std::tanh(x); }
  static double fma(double a, double b, double c) { return a * b + c; }
};

template <class Number>
struct State {
  Number h;
  Number c;
};

/// One hidden unit, written after the definition. x and h: its gates.
template <class In>
State<typename In::Number> expected_cell(RecurrentCell cell,
                                         const std::array<typename In::Number, 4>& x,
                                         const std::array<typename In::Number, 4>& h,
                                         State<typename In::Number> before) {
  using Number = typename In::Number;
  switch (cell) {
    case RecurrentCell::lstm: {
      const Number kept = In::sigmoid(x[1] + h[1]) * before.c;
      const Number c = In::fma(In::sigmoid(x[0] + h[0]), In::tanh(x[2] + h[2]), kept);
      return {In::sigmoid(x[3] + h[3]) * In::tanh(c), c};
    }
    case RecurrentCell::gru:
    case RecurrentCell::gru_reset_first: {
      const Number r = cell == RecurrentCell::gru ? In::sigmoid(x[0] + h[0]) : 1;
      const Number fresh = cell == RecurrentCell::gru ? In::fma(r, h[2], x[2]) : x[2] + h[2];
      const Number n = In::tanh(fresh);
      return {In::fma(In::sigmoid(x[1] + h[1]), before.h - n, n), before.c};
    }
    case RecurrentCell::rnn_tanh:
      return {In::tanh(x[0] + h[0]), before.c};
    case RecurrentCell::rnn_relu:
      return {x[0] + h[0] < 0 ? 0 : x[0] + h[0], before.c};
  }
  return before;
}

/// Operands of a step.
struct Operands {
  std::int64_t hidden = 0;
  std::vector<float> input;
  std::vector<float> recurrent;
  std::vector<float> state;
  std::vector<float> memory;
};

/// `value(i)` of each place of all arrays in turn.
template <class Value>
Operands operands_of(RecurrentCell cell, std::int64_t hidden, const Value& value) {
  Operands made;
  made.hidden = hidden;
  std::uint64_t next = 0;
  const auto fill = [&](std::vector<float>& floats, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) floats.push_back(value(next++));
  };
  fill(made.input, gates_of(cell) * hidden);
  fill(made.recurrent, gates_of(cell) * hidden);
  fill(made.state, hidden);
  fill(made.memory, hidden);
  return made;
}

/// With a step's results in the place of h and c.
Operands after_step(RecurrentCell cell, HostIsa isa, Operands operands) {
  std::vector<float> output(operands.state.size(), -7.0F);
  cell_function(cell, isa)({.input = operands.input.data(),
                            .recurrent = operands.recurrent.data(),
                            .state = operands.state.data(),
                            .memory = operands.memory.data(),
                            .output = output.data(),
                            .hidden = operands.hidden});
  EXPECT_TRUE(std::ranges::equal(output, operands.state, same_float)) << to_string(isa);
  return operands;
}

template <class In>
State<typename In::Number> cell_at(RecurrentCell cell, const Operands& given, std::size_t at) {
  std::array<typename In::Number, 4> x{};
  std::array<typename In::Number, 4> h{};
  const auto hidden = static_cast<std::size_t>(given.hidden);
  for (std::size_t gate = 0; gate < static_cast<std::size_t>(gates_of(cell)); ++gate) {
    x[gate] = given.input[gate * hidden + at];
    h[gate] = given.recurrent[gate * hidden + at];
  }
  return expected_cell<In>(cell, x, h, {given.state[at], given.memory[at]});
}

void expect_bits(RecurrentCell cell, const Operands& given) {
  for (const HostIsa isa : vector_isas()) {
    const Operands result = after_step(cell, isa, given);

    for (std::size_t i = 0; i < result.state.size(); ++i) {
      const State<float> expected = cell_at<InFloats>(cell, given, i);
      ASSERT_TRUE(same_float(result.state[i], expected.h))
          << to_string(isa) << " " << static_cast<int>(cell) << " " << i;
      ASSERT_TRUE(same_float(result.memory[i], expected.c))
          << to_string(isa) << " " << static_cast<int>(cell) << " " << i;
    }
  }
}

float special_float(std::uint64_t i) {
  constexpr std::array k_special = {k_not_a_number, -k_not_a_number, k_infinite, -k_infinite,
                                    0.0F,           -0.0F,           k_largest,  -k_largest,
                                    k_smallest,     -k_smallest,     1.0F,       -1.0F,
                                    1e-20F,         -90.0F,          0.625F};
  return k_special[i % k_special.size()];
}

/// Scrambles; each number once.
std::uint32_t scrambled_bits(std::uint64_t i) {
  return static_cast<std::uint32_t>(i) * 2654435761U ^ 0x5bd1e995U;
}

/// In [-range, range).
float number_within(std::uint64_t i, float range) {
  return (static_cast<float>(scrambled_bits(i) >> 8) * 0x1p-23F - 1) * range;
}

std::string no_avx2() {
  return Target(HostIsa::avx2).runs_here() ? "" : "this CPU has no AVX2, whose bits are expected";
}

TEST(RecurrentCell, HasTheBitsOfItsDefinitionForFloatsOfAllBits) {
  if (!no_avx2().empty()) GTEST_SKIP() << no_avx2();
  for (const RecurrentCell cell : k_cells) {
    expect_bits(cell, operands_of(cell, 50'000, [](std::uint64_t i) {
                  return std::bit_cast<float>(scrambled_bits(i));
                }));
  }
}

TEST(RecurrentCell, HasTheBitsOfItsDefinitionForUsualNumbers) {
  if (!no_avx2().empty()) GTEST_SKIP() << no_avx2();
  for (const RecurrentCell cell : k_cells) {
    for (const float range : {0.01F, 0.6F, 4.0F, 30.0F, 120.0F}) {
      expect_bits(cell, operands_of(cell, 30'000,
                                    [range](std::uint64_t i) { return number_within(i, range); }));
    }
  }
}

TEST(RecurrentCell, HasTheBitsOfItsDefinitionForSpecialNumbers) {
  if (!no_avx2().empty()) GTEST_SKIP() << no_avx2();
  for (const RecurrentCell cell : k_cells) {
    expect_bits(cell, operands_of(cell, 4001, [](std::uint64_t i) {
                  return special_float(i + scrambled_bits(i) % 7);
                }));
  }
}

TEST(RecurrentCell, IsAsExactAsFp32) {
  for (const RecurrentCell cell : k_cells) {
    const Operands given =
        operands_of(cell, 20'000, [](std::uint64_t i) { return number_within(i, 3.0F); });
    for (const HostIsa isa : vector_isas()) {
      const Operands result = after_step(cell, isa, given);

      double worst = 0;
      for (std::size_t i = 0; i < result.state.size(); ++i) {
        const State<double> expected = cell_at<InDoubles>(cell, given, i);
        worst = std::max({worst, std::abs(result.state[i] - expected.h),
                          std::abs(result.memory[i] - expected.c)});
      }
      EXPECT_LE(worst, 2e-6) << to_string(isa) << " " << static_cast<int>(cell);
      EXPECT_GT(worst, 0) << to_string(isa) << " " << static_cast<int>(cell);
    }
  }
}

/// Copies of operands between pages that cannot be touched.
struct GuardedStep {
  GuardedStep(const Operands& operands, GuardPlacement placement)
      : input(std::ssize(operands.input), placement),
        recurrent(std::ssize(operands.recurrent), placement),
        state(operands.hidden, placement),
        memory(operands.hidden, placement),
        output(operands.hidden, placement),
        hidden(operands.hidden) {
    std::ranges::copy(operands.input, input.data());
    std::ranges::copy(operands.recurrent, recurrent.data());
    std::ranges::copy(operands.state, state.data());
    std::ranges::copy(operands.memory, memory.data());
  }
  [[nodiscard]] CellStep step() const {
    return {input.data(), recurrent.data(), state.data(), memory.data(), output.data(), hidden};
  }
  [[nodiscard]] bool intact() const {
    return input.intact() && recurrent.intact() && state.intact() && memory.intact() &&
           output.intact();
  }

  GuardedFloats input;
  GuardedFloats recurrent;
  GuardedFloats state;
  GuardedFloats memory;
  GuardedFloats output;
  std::int64_t hidden;
};

TEST(RecurrentCell, TakesAnyCountAndTouchesNothingElse) {
  if (!no_avx2().empty()) GTEST_SKIP() << no_avx2();
  for (const RecurrentCell cell : k_cells) {
    for (std::int64_t hidden = 0; hidden <= 70; ++hidden) {
      const Operands given = operands_of(cell, hidden, [](std::uint64_t i) {
        return i % 11 == 5 ? special_float(i / 11) : number_within(i, 2.0F);
      });
      for (const HostIsa isa : vector_isas()) {
        for (const GuardPlacement placement : k_placements) {
          const GuardedStep guarded(given, placement);

          cell_function(cell, isa)(guarded.step());

          EXPECT_TRUE(guarded.intact());
          for (std::size_t i = 0; i < given.state.size(); ++i) {
            const State<float> expected = cell_at<InFloats>(cell, given, i);
            ASSERT_TRUE(same_float(guarded.state.span()[i], expected.h))
                << to_string(isa) << hidden;
            ASSERT_TRUE(same_float(guarded.output.span()[i], expected.h))
                << to_string(isa) << hidden;
            ASSERT_TRUE(same_float(guarded.memory.span()[i], expected.c))
                << to_string(isa) << hidden;
          }
        }
      }
    }
  }
}

TEST(RecurrentCell, ResetKeepsTheStateAndGivesItsProductWithTheGate) {
  if (!no_avx2().empty()) GTEST_SKIP() << no_avx2();
  for (std::int64_t hidden = 0; hidden <= 70; ++hidden) {
    const Operands given = operands_of(RecurrentCell::gru_reset_first, hidden, [](std::uint64_t i) {
      return i % 11 == 5 ? special_float(i / 11) : number_within(i, 2.0F);
    });
    for (const HostIsa isa : vector_isas()) {
      for (const GuardPlacement placement : k_placements) {
        const GuardedStep guarded(given, placement);

        reset_function(isa)(guarded.step());

        EXPECT_TRUE(guarded.intact());
        for (std::size_t i = 0; i < given.state.size(); ++i) {
          const float gate = InFloats::sigmoid(given.input[i] + given.recurrent[i]);
          ASSERT_TRUE(same_float(guarded.output.span()[i], gate * given.state[i]))
              << to_string(isa);
          ASSERT_TRUE(same_float(guarded.state.span()[i], given.state[i])) << to_string(isa);
        }
      }
    }
  }
}

}  // namespace
}  // namespace spjit
