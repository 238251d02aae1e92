#include "kernels/host/layer/activation.hpp"

#include <cmath>
#include <cstdint>
#include <numbers>

#include "kernels/activation_constants.hpp"
#include "kernels/host/layer/activation_vectors.hpp"
#include "kernels/host/operands/simd.hpp"

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 says it of the registers that its own header leaves undefined (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace spjit {
namespace {

using Run = void (*)(float*, std::int64_t, const ActivationParameters&);

template <Activation Kind>
SPJIT_AVX512_TARGET void run_avx512(float* values, std::int64_t count,
                                    const ActivationParameters& parameters) {
  using Zmm = Avx512Zmm;
  using Ymm = Avx512Ymm;
  using activation_avx512::activate;
  for (; count >= Zmm::k_floats; values += Zmm::k_floats, count -= Zmm::k_floats) {
    Zmm::Vector x[] = {Zmm::load(values)};
    activate<Zmm, Kind>(x, parameters);
    Zmm::store(values, x[0]);
  }
  if (count == 0) return;
  if (count > Ymm::k_floats) {
    const Zmm::Mask mask = Zmm::mask(count);
    Zmm::Vector x[] = {Zmm::load(values, mask)};
    activate<Zmm, Kind>(x, parameters);
    Zmm::store(values, x[0], mask);
  } else {
    const Ymm::Mask mask = Ymm::mask(count);
    Ymm::Vector x[] = {Ymm::load(values, mask)};
    activate<Ymm, Kind>(x, parameters);
    Ymm::store(values, x[0], mask);
  }
}

template <Activation Kind>
SPJIT_AVX2_TARGET void run_avx2(float* values, std::int64_t count,
                                const ActivationParameters& parameters) {
  using Ymm = Avx2Ymm;
  using activation_avx2::activate;
  constexpr auto k_together = static_cast<std::int64_t>(Ymm::k_together) * Ymm::k_floats;
  for (; count >= k_together; values += k_together, count -= k_together) {
    Ymm::Vector x[Ymm::k_together];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < Ymm::k_together; ++i) x[i] = Ymm::load(values + i * Ymm::k_floats);
    activate<Ymm, Kind>(x, parameters);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < Ymm::k_together; ++i) Ymm::store(values + i * Ymm::k_floats, x[i]);
  }
  for (; count >= Ymm::k_floats; values += Ymm::k_floats, count -= Ymm::k_floats) {
    Ymm::Vector x[] = {Ymm::load(values)};
    activate<Ymm, Kind>(x, parameters);
    Ymm::store(values, x[0]);
  }
  if (count == 0) return;
  const Ymm::Mask mask = Ymm::mask(count);
  Ymm::Vector x[] = {Ymm::load(values, mask)};
  activate<Ymm, Kind>(x, parameters);
  Ymm::store(values, x[0], mask);
}

template <Activation Kind>
void run_generic(float* values, std::int64_t count, const ActivationParameters& parameters) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = activate(values[i], Kind, parameters);
}

template <Activation Kind>
Run run_of(HostIsa isa) {
  if (isa == HostIsa::avx512) return run_avx512<Kind>;
  return isa == HostIsa::avx2 ? run_avx2<Kind> : run_generic<Kind>;
}

/// Null where nothing is to be done.
Run run_of(Activation activation, HostIsa isa) {
  switch (activation) {
    case Activation::none:
      return nullptr;
    case Activation::relu:
      return run_of<Activation::relu>(isa);
    case Activation::gelu_erf:
      return run_of<Activation::gelu_erf>(isa);
    case Activation::gelu_tanh:
      return run_of<Activation::gelu_tanh>(isa);
    case Activation::silu:
      return run_of<Activation::silu>(isa);
    case Activation::clamp:
      return run_of<Activation::clamp>(isa);
    case Activation::hard_swish:
      return run_of<Activation::hard_swish>(isa);
    case Activation::leaky_relu:
      return run_of<Activation::leaky_relu>(isa);
    case Activation::hard_sigmoid:
      return run_of<Activation::hard_sigmoid>(isa);
    case Activation::sigmoid:
      return run_of<Activation::sigmoid>(isa);
    case Activation::tanh:
      return run_of<Activation::tanh>(isa);
  }
  return nullptr;
}

/// NaN stays NaN.
float clamped(float x, float low, float high) {
  const float raised = x < low ? low : x;
  return raised > high ? high : raised;
}

}  // namespace

float activate(float x, Activation activation, const ActivationParameters& parameters) {
  const double wide = x;
  // In double nothing overflows before the result does.
  const auto times_sigmoid = [wide](double z) {
    return static_cast<float>(wide / (1 + std::exp(-z)));
  };
  switch (activation) {
    case Activation::none:
      break;
    case Activation::relu:
      return x < 0 ? 0 : x;
    case Activation::gelu_erf:
      return static_cast<float>(0.5 * wide * std::erfc(-wide / std::numbers::sqrt2));
    case Activation::gelu_tanh: {
      const double scale = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
      return times_sigmoid(scale * (wide + 0.044715 * wide * wide * wide));
    }
    case Activation::silu:
      return times_sigmoid(wide);
    case Activation::clamp:
      return clamped(x, parameters.low, parameters.high);
    case Activation::hard_swish: {
      // The steps of the vectors, and so their bits.
      const float raised = x + 3 > 0 ? x + 3 : 0;
      return x * ((raised < 6 ? raised : 6) * k_sixth);
    }
    case Activation::leaky_relu:
      return x < 0 ? parameters.alpha * x : x;
    case Activation::hard_sigmoid:
      return clamped(parameters.alpha * x + parameters.beta, 0, 1);
    case Activation::sigmoid:
      return static_cast<float>(1 / (1 + std::exp(-wide)));
    case Activation::tanh:
      return static_cast<float>(std::tanh(wide));
  }
  return x;
}

void activate(std::span<float> values, Activation activation,
              const ActivationParameters& parameters, HostIsa isa) {
  const Run run = run_of(activation, isa);
  if (run != nullptr) run(values.data(), std::ssize(values), parameters);
}

}  // namespace spjit
