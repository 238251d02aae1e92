/// @file
/// What activations cost: a vector (16 floats, of AVX2 8) loaded, activated and stored, in L1.
///   ISA/ACTIVATION    counter vector: the time of one
///   cycle             counter cycle: the time of one addition that waits for the one before

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/float_buffer.hpp"
#include "kernels/host/layer/activation.hpp"
#include "runtime/host/host_device_info.hpp"
#include "spjit/epilogue.hpp"
#include "spjit/target.hpp"

namespace {

using spjit::Activation;
using spjit::HostIsa;

benchmark::Counter time_of_one(std::int64_t count) {
  return {static_cast<double>(count),
          benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert};
}

void run_activation(benchmark::State& state, HostIsa isa, Activation activation) {
  constexpr std::int64_t k_floats = 4096;
  spjit::FloatBuffer values(k_floats);
  // Activations leave such values as they are or make 1 of them, so that nothing drifts to NaN.
  std::fill_n(values.data(), k_floats, 24.0F);
  for (const auto unused : state) {
    (void)unused;
    spjit::activate({values.data(), k_floats}, activation,
                    {.low = -1, .high = 64, .alpha = 1, .beta = 0}, isa);
    benchmark::DoNotOptimize(values.data());
    benchmark::ClobberMemory();
  }
  state.counters["vector"] = time_of_one(k_floats / spjit::lanes_of(isa));
}

/// Products of registers take three cycles on every CPU with AVX2; sums of a constant take none on
/// some, which do them when they rename registers.
void run_cycle(benchmark::State& state) {
  constexpr std::int64_t k_products = 8000;
  constexpr std::int64_t k_cycles_each = 3;
  std::int64_t product = 3;
  for (const auto unused : state) {
    (void)unused;
    for (std::int64_t i = 0; i < k_products; i += 8) {
#pragma GCC unroll 8
      for (int j = 0; j < 8; ++j) asm volatile("imul %0, %0" : "+r"(product));
    }
  }
  state.counters["cycle"] = time_of_one(k_cycles_each * k_products);
}

}  // namespace

int main(int argc, char** argv) {
  for (const HostIsa isa : {HostIsa::avx512, HostIsa::avx2}) {
    if (!spjit::Target(isa).runs_here()) continue;
    for (const Activation activation :
         {Activation::relu, Activation::clamp, Activation::gelu_erf, Activation::gelu_tanh,
          Activation::silu, Activation::hard_swish, Activation::leaky_relu,
          Activation::hard_sigmoid, Activation::sigmoid, Activation::tanh}) {
      const std::string name = to_string(isa) + "/" + std::string(to_string(activation));
      benchmark::RegisterBenchmark(name.c_str(), run_activation, isa, activation);
    }
  }
  benchmark::RegisterBenchmark("cycle", run_cycle);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
