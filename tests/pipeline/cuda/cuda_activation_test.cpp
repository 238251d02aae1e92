// Activations of CUDA kernels, executed on the emulated driver over a dense sweep of all floats:
// within the bounds of docs/use/epilogue.md, and but for SiLU the bits of AVX-512 where this CPU
// has it.

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/host/layer/activation.hpp"
#include "tests/support/activation_errors.hpp"
#include "tests/support/cuda/cuda_layers.hpp"
#include "tests/support/long_tests.hpp"
#include "tests/support/scoped_variable.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

constexpr std::array k_bounded = {Activation::gelu_erf,   Activation::gelu_tanh, Activation::silu,
                                  Activation::hard_swish, Activation::sigmoid,   Activation::tanh};
/// Of those, the ones that are x for large x.
constexpr std::array k_gated = {Activation::gelu_erf, Activation::gelu_tanh, Activation::silu,
                                Activation::hard_swish};

/// What docs/use/epilogue.md promises of GPUs.
std::vector<Interval> promises_of_gpus(Activation activation) {
  if (activation != Activation::silu) return promises(activation, HostIsa::avx512);
  constexpr double k_any = std::numeric_limits<double>::infinity();
  constexpr float k_max = std::numeric_limits<float>::max();
  return {{-k_max, -87.3F, k_any, 1e-42}, {-87.3F, -40, 8, k_any}, {-40, k_max, 6, k_any}};
}

/// SPJIT_FLOAT_STEP=1: every float of 2^-20 <= |x| < 16, which takes 20 minutes.
std::uint32_t float_step() {
  const char* step = std::getenv("SPJIT_FLOAT_STEP");
  if (step == nullptr) return long_tests() ? 211 : 2110;
  return static_cast<std::uint32_t>(std::max(std::strtoul(step, nullptr, 10), 1UL));
}

/// The bits of the first float: another one each turn.
std::uint32_t first_float() {
  if (long_tests() || std::getenv("SPJIT_FLOAT_STEP") != nullptr) return 0;
  return static_cast<std::uint32_t>(211 * turn_of(10));
}

/// y = activation(scale * x) of an array of x, by a kernel of the matrix (1).
class Activate {
 public:
  explicit Activate(const Epilogue& epilogue) : item_(case_of(epilogue)) {
    kernel_ = std::make_unique<Kernel>(layer_kernel(item_));
  }

  [[nodiscard]] std::vector<float> operator()(const std::vector<float>& xs, float scale = 1) const {
    std::vector<float> ys(xs.size());
    kernel_->run({.b = xs.data(),
                  .c = ys.data(),
                  .n = std::ssize(xs),
                  .scale = item_.spec.layer.epilogue.scale ? &scale : nullptr});
    return ys;
  }

 private:
  static LayerCase case_of(const Epilogue& epilogue) {
    CudaKernelSpec spec = cuda_spec(1, 1024);
    spec.tile.n1 = 256;
    spec.tile.runtime_sizes = true;
    spec.layer.epilogue = epilogue;
    return layer_case(CsrMatrix{1, 1, {0, 1}, {0}, {1.0F}}, spec);
  }

  LayerCase item_;
  std::unique_ptr<Kernel> kernel_;
};

class CudaActivation : public ::testing::Test {
 protected:
  ScopedVariable driver_{"SPJIT_CUDA_DRIVER", SPJIT_EMULATED_CUDA};
};

/// Calls `use` with parts of the sweep: floats in order of their bits and of both signs; of 2^-20
/// <= |x| < 16 each `step`-th, of the others each 64 * `step`-th.
template <class Use>
void sweep(std::uint32_t step, const Use& use) {
  std::vector<float> xs;
  for (std::uint64_t bits = first_float(); bits < 0x7F800000;) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    xs.insert(xs.end(), {x, -x});
    if (xs.size() >= 65536) {
      use(xs);
      xs.clear();
    }
    bits += bits >= 0x35800000 && bits < 0x41800000 ? step : std::uint64_t{64} * step;
  }
  use(xs);
}

TEST_F(CudaActivation, HasTheErrorsOfTheHostAndItsBits) {
  for (const Activation activation : k_bounded) {
    const Activate activate_on_gpu({.activation = activation});
    std::vector<WorstError> worst;
    for (const Interval& interval : promises_of_gpus(activation)) {
      worst.push_back({.interval = interval});
    }
    const bool is_gelu = activation == Activation::gelu_erf || activation == Activation::gelu_tanh;
    const bool has_twin =
        activation != Activation::silu && (!is_gelu || like_a_gpu() == HostIsa::avx512);
    std::int64_t others = 0;
    sweep(float_step(), [&](const std::vector<float>& xs) {
      const std::vector<float> ys = activate_on_gpu(xs);
      for (std::size_t i = 0; i < xs.size(); ++i) {
        for (WorstError& of : worst) {
          if (of.interval.low <= xs[i] && xs[i] < of.interval.high) {
            of.add(xs[i], ys[i], exact_activation(activation, xs[i]));
          }
        }
      }
      if (!has_twin) return;
      std::vector<float> zs = xs;
      for (float& z : zs) z += 0.0F;  // a sum that begins at +0 is no -0
      activate(zs, activation, {}, like_a_gpu());
      for (std::size_t i = 0; i < xs.size(); ++i) others += same_value(ys[i], zs[i]) ? 0 : 1;
    });

    EXPECT_EQ(others, 0) << to_string(activation);
    for (const WorstError& of : worst) {
      const std::string where =
          std::string(to_string(activation)) + " below " + std::to_string(of.interval.high);
      EXPECT_LE(of.ulps, of.interval.ulps) << where << " at " << of.x;
      EXPECT_LE(of.absolute, of.interval.absolute) << where;
      RecordProperty(where, std::to_string(of.ulps));
      if (std::getenv("SPJIT_FLOAT_STEP") != nullptr) {
        std::cout << where << ": ulps=" << of.ulps << " x=" << of.x << " absolute=" << of.absolute
                  << "\n";
      }
    }
  }
}

TEST_F(CudaActivation, OfSpecialValuesIsWhatTheFormulaGives) {
  using Limits = std::numeric_limits<float>;
  const float infinity = Limits::infinity();
  const std::vector<float> xs = {-0.0F, Limits::quiet_NaN(), infinity, -infinity, Limits::max(),
                                 100,   -Limits::max(),      -1e30F,   -1000.0F};
  const float nan = Limits::quiet_NaN();
  const std::vector<float> ys = {-0.0F, nan,   infinity, nan,  Limits::max(),
                                 100,   -0.0F, -0.0F,    -0.0F};
  std::vector<float> negative = xs;
  for (float& x : negative) x = -x;
  for (const Activation activation : k_gated) {
    // A sum that begins at +0 is never -0; a scale of -1 makes one of it.
    EXPECT_TRUE(same_bits(Activate({.scale = true, .activation = activation})(negative, -1), ys))
        << to_string(activation);
    EXPECT_TRUE(same_bits(Activate({.activation = activation})({0.0F}), std::vector{0.0F}));
  }
}

TEST_F(CudaActivation, SigmoidAndTanhOfSpecialValuesAreTheirLimits) {
  using Limits = std::numeric_limits<float>;
  const float nan = Limits::quiet_NaN();
  const float infinity = Limits::infinity();
  const std::vector<float> xs = {0.0F,      -0.0F, nan,   infinity,
                                 -infinity, 20,    -1000, Limits::denorm_min()};
  std::vector<float> negative = xs;
  for (float& x : negative) x = -x;
  const auto of = [&](Activation activation) {
    return Activate({.scale = true, .activation = activation})(negative, -1);
  };

  EXPECT_TRUE(same_bits(of(Activation::sigmoid),
                        std::vector{0.5F, 0.5F, nan, 1.0F, 0.0F, 1.0F, 0.0F, 0.5F}));
  // A sum that begins at +0 is never -0; a scale of -1 makes one of it.
  EXPECT_TRUE(same_bits(of(Activation::tanh), std::vector{-0.0F, -0.0F, nan, 1.0F, -1.0F, 1.0F,
                                                          -1.0F, Limits::denorm_min()}));
}

TEST_F(CudaActivation, SimpleOnesHaveTheBitsOfTheirDefinition) {
  using Limits = std::numeric_limits<float>;
  std::vector<float> xs = {0.0F,
                           -0.0F,
                           Limits::quiet_NaN(),
                           Limits::infinity(),
                           -Limits::infinity(),
                           Limits::denorm_min(),
                           -Limits::denorm_min()};
  for (std::uint64_t bits = 0; bits <= 0xFFFFFFFF; bits += 400'009) {
    xs.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  std::vector<float> negative = xs;
  for (float& x : negative) x = -x + 0.0F;
  for (float& x : xs) x = -(-x + 0.0F);
  const auto check = [&](const Epilogue& epilogue, auto define) {
    const std::vector<float> ys = Activate(epilogue)(negative, -1);
    for (std::size_t i = 0; i < xs.size(); ++i) {
      ASSERT_TRUE(same_value(ys[i], define(xs[i]))) << xs[i] << " gives " << ys[i];
    }
  };

  check({.scale = true, .activation = Activation::relu}, [](float x) { return x < 0 ? 0.0F : x; });
  for (const auto& [low, high] :
       {std::array{-1.0F, 6.0F}, std::array{0.0F, 6.0F}, std::array{-0.0F, 0.0F},
        std::array{-Limits::infinity(), Limits::infinity()},
        std::array{-Limits::infinity(), 1.0F}}) {
    check({.scale = true, .activation = Activation::clamp, .low = low, .high = high},
          [low, high](float x) {
            const float raised = x < low ? low : x;
            return raised > high ? high : raised;
          });
  }
  for (const auto& [alpha, beta] : {std::array{0.01F, 0.0F}, std::array{1.0F / 6, 0.5F},
                                    std::array{-2.5F, -0.25F}, std::array{0.0F, 1.0F}}) {
    check({.scale = true, .activation = Activation::leaky_relu, .alpha = alpha},
          [alpha](float x) { return x < 0 ? alpha * x : x; });
    check({.scale = true, .activation = Activation::hard_sigmoid, .alpha = alpha, .beta = beta},
          [alpha, beta](float x) {
            const float sum = alpha * x + beta;
            const float raised = sum < 0 ? 0 : sum;
            return raised > 1 ? 1 : raised;
          });
  }
}

}  // namespace
