#include "kernels/host/layer/activation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "spjit/target.hpp"
#include "tests/support/activation_errors.hpp"
#include "tests/support/activations.hpp"
#include "tests/support/guarded_memory.hpp"
#include "tests/support/host/vector_isas.hpp"

namespace spjit {
namespace {

using testing_support::exact_activation;
using testing_support::GuardedFloats;
using testing_support::GuardPlacement;
using testing_support::Interval;
using testing_support::k_activations;
using testing_support::k_placements;
using testing_support::promises;
using testing_support::vector_isas;
using testing_support::WorstError;

constexpr float k_inf = std::numeric_limits<float>::infinity();
constexpr float k_nan = std::numeric_limits<float>::quiet_NaN();
constexpr float k_max = std::numeric_limits<float>::max();
constexpr float k_denormal = std::numeric_limits<float>::denorm_min();
constexpr ActivationParameters k_parameters = {.low = -1, .high = 6, .alpha = -0.3F, .beta = 0.4F};

constexpr std::array k_bounded = {Activation::gelu_erf,   Activation::gelu_tanh, Activation::silu,
                                  Activation::hard_swish, Activation::sigmoid,   Activation::tanh};
/// Of those, the ones that are x for large x.
constexpr std::array k_gated = {Activation::gelu_erf, Activation::gelu_tanh, Activation::silu,
                                Activation::hard_swish};

std::vector<float> activated(std::vector<float> values, Activation activation, HostIsa isa,
                             ActivationParameters parameters = k_parameters) {
  activate(values, activation, parameters, isa);
  return values;
}

/// NaNs are all the same.
std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }
bool same(float a, float b) { return bits_of(a) == bits_of(b) || (std::isnan(a) && std::isnan(b)); }

/// The largest errors of an instruction set and activation in an interval.
struct Worst : WorstError {
  HostIsa isa = HostIsa::generic;
  Activation activation = Activation::none;
};

std::vector<Worst> nothing_yet() {
  std::vector<Worst> result;
  for (const HostIsa isa : vector_isas()) {
    for (const Activation activation : k_bounded) {
      for (const Interval& interval : promises(activation, isa)) {
        result.push_back({{.interval = interval}, isa, activation});
      }
    }
  }
  return result;
}

void add_errors(const std::vector<float>& xs, std::vector<Worst>& worst) {
  for (const Activation activation : k_bounded) {
    std::vector<double> expected;
    for (const float x : xs) expected.push_back(exact_activation(activation, x));
    for (const HostIsa isa : vector_isas()) {
      const std::vector<float> results = activated(xs, activation, isa);
      for (Worst& of : worst) {
        if (of.isa != isa || of.activation != activation) continue;
        for (std::size_t i = 0; i < xs.size(); ++i) {
          if (of.interval.low <= xs[i] && xs[i] < of.interval.high) {
            of.add(xs[i], results[i], expected[i]);
          }
        }
      }
    }
  }
}

/// Floats in order of their bits: of 2^-20 <= |x| < 16 each `step`-th, of the others each
/// 64 * `step`-th. `part` of two.
void sweep(std::uint32_t step, std::uint32_t part, std::vector<Worst>& worst) {
  constexpr std::uint64_t k_first = 0x35800000;
  constexpr std::uint64_t k_end = 0x41800000;
  constexpr std::uint64_t k_infinity = 0x7F800000;
  std::vector<float> xs;
  const auto flush = [&] {
    add_errors(xs, worst);
    xs.clear();
  };
  std::uint64_t index = 0;
  for (std::uint64_t bits = 0; bits < k_infinity; ++index) {
    if (index % 2 == part) {
      const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
      xs.insert(xs.end(), {x, -x});
    }
    if (xs.size() == 4096) flush();
    bits += bits >= k_first && bits < k_end ? step : std::uint64_t{64} * step;
  }
  flush();
}

/// SPJIT_FLOAT_STEP=1: every float (a minute), with the errors in figures.
std::uint32_t float_step() {
  const char* step = std::getenv("SPJIT_FLOAT_STEP");
  if (step == nullptr) return 211;
  return static_cast<std::uint32_t>(std::max(std::strtoul(step, nullptr, 10), 1UL));
}

TEST(Activation, ErrorsAreAsSmallAsPromised) {
  const std::uint32_t step = float_step();
  std::vector<Worst> worst = nothing_yet();
  std::vector<Worst> others = worst;

  std::thread other([&] { sweep(step, 1, others); });
  sweep(step, 0, worst);
  other.join();

  for (std::size_t i = 0; i < worst.size(); ++i) {
    Worst& of = worst[i];
    if (others[i].ulps > of.ulps) {
      of.ulps = others[i].ulps;
      of.x = others[i].x;
    }
    of.absolute = std::max(of.absolute, others[i].absolute);
    const std::string where = to_string(of.isa) + " " + std::string(to_string(of.activation)) +
                              " below " + std::to_string(of.interval.high);
    EXPECT_LE(of.ulps, of.interval.ulps) << where << " at " << of.x;
    EXPECT_LE(of.absolute, of.interval.absolute) << where;
    if (step == 1) {
      std::cout << where << ": ulps=" << of.ulps << " x=" << of.x << " absolute=" << of.absolute
                << "\n";
    }
  }
}

TEST(Activation, HardSwishHasTheBitsOfItsStepsInEveryInstructionSet) {
  const std::uint32_t step = float_step();
  std::vector<float> xs = {k_nan, k_inf, -k_inf, 0.0F, -0.0F, -3, 3, k_max, -k_max, k_denormal};
  for (std::uint64_t bits = 0; bits <= 0xFFFFFFFF; bits += step) {
    xs.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    if (xs.size() < 4096 && bits + step <= 0xFFFFFFFF) continue;
    for (const HostIsa isa : vector_isas()) {
      const std::vector<float> ys = activated(xs, Activation::hard_swish, isa);

      for (std::size_t i = 0; i < xs.size(); ++i) {
        const float gate = std::fmin(std::fmax(xs[i] + 3.0F, 0.0F), 6.0F) * (1.0F / 6);
        ASSERT_TRUE(same(ys[i], xs[i] * gate)) << to_string(isa) << " " << xs[i];
        if (xs[i] >= 3) {
          ASSERT_EQ(ys[i], xs[i]);
        }
      }
    }
    xs.clear();
  }
}

TEST(Activation, HasTheSameBitsInAvx512AndAvx2WithoutATable) {
  if (!Target(HostIsa::avx512).runs_here()) GTEST_SKIP() << "this CPU has no AVX-512";
  const std::uint32_t step = float_step();
  std::vector<float> xs;
  for (std::uint64_t bits = 0; bits <= 0xFFFFFFFF; bits += step) {
    xs.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    if (xs.size() < 4096 && bits + step <= 0xFFFFFFFF) continue;

    for (const Activation activation : {Activation::silu, Activation::sigmoid, Activation::tanh}) {
      const std::vector<float> a = activated(xs, activation, HostIsa::avx512);
      const std::vector<float> b = activated(xs, activation, HostIsa::avx2);

      for (std::size_t i = 0; i < xs.size(); ++i) {
        ASSERT_TRUE(same(a[i], b[i])) << to_string(activation) << " " << xs[i];
      }
    }
    xs.clear();
  }
}

TEST(Activation, LeakyReluAndHardSigmoidHaveTheBitsOfTheirStepsInEveryInstructionSet) {
  std::vector<float> xs = {k_nan, -k_nan, k_inf, -k_inf, 0.0F,       -0.0F,
                           -3,    3,      k_max, -k_max, k_denormal, -k_denormal};
  for (std::uint64_t bits = 0; bits <= 0xFFFFFFFF; bits += 4001) {
    xs.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  for (const ActivationParameters& parameters : {ActivationParameters{.alpha = 0.01F, .beta = 0},
                                                 {.alpha = 1.0F / 6, .beta = 0.5F},
                                                 {.alpha = 0.2F, .beta = 0.5F},
                                                 {.alpha = -2.5F, .beta = -0.0F},
                                                 {.alpha = 0, .beta = 1},
                                                 {.alpha = 1e30F, .beta = -1e30F}}) {
    for (const HostIsa isa : vector_isas()) {
      const std::vector<float> leaky = activated(xs, Activation::leaky_relu, isa, parameters);
      const std::vector<float> hard = activated(xs, Activation::hard_sigmoid, isa, parameters);

      for (std::size_t i = 0; i < xs.size(); ++i) {
        const float x = xs[i];
        const float leak = parameters.alpha * x;
        ASSERT_TRUE(same(leaky[i], x < 0 ? leak : x)) << to_string(isa) << " " << x;
        const float sum = leak + parameters.beta;
        const float raised = sum < 0 ? 0 : sum;
        ASSERT_TRUE(same(hard[i], raised > 1 ? 1 : raised)) << to_string(isa) << " " << x;
      }
    }
  }
}

TEST(Activation, LeakyReluAndHardSigmoidOfKnownValues) {
  for (const HostIsa isa : vector_isas()) {
    const ActivationParameters leak{.alpha = 0.01F};
    const ActivationParameters torch{.alpha = 1.0F / 6, .beta = 0.5F};
    const auto leaky = [&](float x) {
      return activated({x}, Activation::leaky_relu, isa, leak)[0];
    };
    const auto hard = [&](float x) {
      return activated({x}, Activation::hard_sigmoid, isa, torch)[0];
    };

    EXPECT_EQ(leaky(-2), -0.02F) << to_string(isa);
    EXPECT_EQ(leaky(2), 2) << to_string(isa);
    EXPECT_EQ(leaky(-k_inf), -k_inf) << to_string(isa);
    EXPECT_TRUE(same(leaky(-0.0F), -0.0F)) << to_string(isa);
    EXPECT_TRUE(std::isnan(leaky(k_nan))) << to_string(isa);
    EXPECT_EQ(hard(0), 0.5F) << to_string(isa);
    EXPECT_EQ(hard(3), 1) << to_string(isa);
    EXPECT_EQ(hard(-3), 0) << to_string(isa);
    EXPECT_EQ(hard(k_inf), 1) << to_string(isa);
    EXPECT_EQ(hard(-k_inf), 0) << to_string(isa);
    EXPECT_TRUE(std::isnan(hard(k_nan))) << to_string(isa);
  }
}

TEST(Activation, ReluAndClampHaveTheBitsOfTheirDefinition) {
  std::vector<float> xs = {0.0F, -0.0F, k_nan, -k_nan, k_inf, -k_inf, k_denormal, -k_denormal};
  for (std::uint64_t bits = 0; bits <= 0xFFFFFFFF; bits += 4001) {
    xs.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  // Bounds that are zeros, and the wrong way round: then it is the upper one.
  for (const ActivationParameters parameters :
       {k_parameters, ActivationParameters{0, 6}, ActivationParameters{-0.0F, 0},
        ActivationParameters{2, -3}, ActivationParameters{-k_inf, k_inf}}) {
    for (const HostIsa isa : vector_isas()) {
      const std::vector<float> relu = activated(xs, Activation::relu, isa);
      const std::vector<float> clamp = activated(xs, Activation::clamp, isa, parameters);

      for (std::size_t i = 0; i < xs.size(); ++i) {
        const float x = xs[i];
        ASSERT_TRUE(same(relu[i], x < 0 ? 0.0F : x)) << to_string(isa) << " " << x;
        const float raised = x < parameters.low ? parameters.low : x;
        ASSERT_TRUE(same(clamp[i], raised > parameters.high ? parameters.high : raised))
            << to_string(isa) << " " << x << " in " << parameters.low << ".." << parameters.high;
      }
    }
  }
}

TEST(Activation, OfSpecialValuesIsWhatTheFormulaGives) {
  for (const HostIsa isa : vector_isas()) {
    for (const Activation activation : k_gated) {
      const auto of = [&](float x) { return activated({x}, activation, isa).front(); };

      EXPECT_TRUE(same(of(0.0F), 0.0F)) << to_string(isa) << to_string(activation);
      EXPECT_TRUE(same(of(-0.0F), -0.0F)) << to_string(isa) << to_string(activation);
      EXPECT_TRUE(std::isnan(of(k_nan))) << to_string(isa) << to_string(activation);
      EXPECT_EQ(of(k_inf), k_inf) << to_string(isa) << to_string(activation);
      EXPECT_TRUE(std::isnan(of(-k_inf))) << to_string(isa) << to_string(activation);
      EXPECT_EQ(of(k_max), k_max) << to_string(isa) << to_string(activation);
      EXPECT_EQ(of(100), 100) << to_string(isa) << to_string(activation);
      for (const float x : {-k_max, -1e30F, -1000.0F}) {
        EXPECT_TRUE(same(of(x), -0.0F)) << to_string(isa) << to_string(activation) << x;
      }
    }
  }
}

TEST(Activation, SigmoidAndTanhOfSpecialValuesAreTheirLimits) {
  for (const HostIsa isa : vector_isas()) {
    const auto sigmoid = [&](float x) { return activated({x}, Activation::sigmoid, isa)[0]; };
    const auto tanh = [&](float x) { return activated({x}, Activation::tanh, isa)[0]; };

    for (const float x : {k_inf, k_max, 1000.0F, 20.0F}) {
      EXPECT_EQ(sigmoid(x), 1) << to_string(isa) << x;
      EXPECT_EQ(tanh(x), 1) << to_string(isa) << x;
      EXPECT_EQ(tanh(-x), -1) << to_string(isa) << x;
    }
    for (const float x : {-k_inf, -k_max, -1000.0F}) {
      EXPECT_TRUE(same(sigmoid(x), 0.0F)) << to_string(isa) << x;
    }
    for (const float x : {0.0F, -0.0F, k_denormal, -k_denormal, 1e-30F, -1e-30F}) {
      EXPECT_EQ(sigmoid(x), 0.5F) << to_string(isa) << x;
      EXPECT_TRUE(same(tanh(x), x)) << to_string(isa) << x;
    }
    EXPECT_TRUE(std::isnan(sigmoid(k_nan))) << to_string(isa);
    EXPECT_TRUE(std::isnan(tanh(-k_nan))) << to_string(isa);
  }
}

/// Finite and other values of both signs in no order.
std::vector<float> mixed_values(std::size_t count) {
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(static_cast<int>(i * 37 % 101) - 50) * 0.173F);
  }
  for (std::size_t i = 5; i < count; i += 11) {
    values[i] = std::array{k_nan, -k_inf, k_inf, -0.0F, k_denormal, -1e30F}[i % 6];
  }
  return values;
}

TEST(Activation, TakesAnyCountAndTouchesNothingElse) {
  for (const HostIsa isa : vector_isas()) {
    for (const Activation activation : k_activations) {
      for (const GuardPlacement placement : k_placements) {
        for (std::int64_t count = 0; count <= 70; ++count) {
          const std::vector<float> xs = mixed_values(static_cast<std::size_t>(count));
          const GuardedFloats values(count, placement);
          std::ranges::copy(xs, values.data());

          activate(values.span(), activation, k_parameters, isa);

          EXPECT_TRUE(values.intact());
          for (std::size_t i = 0; i < xs.size(); ++i) {
            // Alone it is another lane of another vector.
            const float alone = activated({xs[i]}, activation, isa).front();
            ASSERT_TRUE(same(values.span()[i], alone))
                << to_string(isa) << to_string(activation) << " " << count << " " << i;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace spjit
