/// @file
/// What activations cost: a vector (16 floats, of AVX2 8) loaded, activated and stored, in L1.
/// A line an instruction set and activation: cycles a vector. A cycle is timed beside them, as a
/// third of a product of registers that waits for the one before.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/float_buffer.hpp"
#include "kernels/host/layer/activation.hpp"
#include "runtime/host/host_device_info.hpp"
#include "spjit/epilogue.hpp"
#include "spjit/target.hpp"
#include "tools/peers/best_time.hpp"

namespace {

using spjit::Activation;
using spjit::HostIsa;

constexpr double k_duration_ms = 50;

/// Seconds a vector.
double time_activation(HostIsa isa, Activation activation) {
  constexpr std::int64_t k_floats = 4096;
  constexpr int k_passes = 16;
  spjit::FloatBuffer values(k_floats);
  // Activations leave such values as they are or make 1 of them, so that nothing drifts to NaN.
  std::fill_n(values.data(), k_floats, 24.0F);
  const auto pass = [&] {
    for (int i = 0; i < k_passes; ++i) {
      spjit::activate({values.data(), k_floats}, activation,
                      {.low = -1, .high = 64, .alpha = 1, .beta = 0}, isa);
      asm volatile("" : : "r"(values.data()) : "memory");
    }
  };
  const auto lanes = static_cast<double>(spjit::lanes_of(isa));
  const double vectors = k_passes * static_cast<double>(k_floats) / lanes;
  return spjit::best_time(pass, k_duration_ms) / vectors;
}

/// Products of registers take three cycles on every CPU with AVX2; sums of a constant take none on
/// some, which do them when they rename registers. [s]
double time_cycle() {
  constexpr std::int64_t k_products = 8000;
  constexpr double k_cycles_each = 3;
  std::int64_t product = 3;
  const auto chain = [&] {
    for (std::int64_t i = 0; i < k_products; i += 8) {
#pragma GCC unroll 8
      for (int j = 0; j < 8; ++j) asm volatile("imul %0, %0" : "+r"(product));
    }
  };
  return spjit::best_time(chain, k_duration_ms) / (k_cycles_each * k_products);
}

}  // namespace

int main() {
  for (const HostIsa isa : {HostIsa::avx512, HostIsa::avx2}) {
    if (!spjit::Target(isa).runs_here()) continue;
    for (const Activation activation :
         {Activation::relu, Activation::clamp, Activation::gelu_erf, Activation::gelu_tanh,
          Activation::silu, Activation::hard_swish, Activation::leaky_relu,
          Activation::hard_sigmoid, Activation::sigmoid, Activation::tanh}) {
      const double vector = time_activation(isa, activation);
      fmt::print("{:<12} {:<14} {:5.1f} cycles a vector\n", to_string(isa), to_string(activation),
                 vector / time_cycle());
    }
  }
  return 0;
}
