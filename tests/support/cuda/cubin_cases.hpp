#pragma once

/// @file
/// Programs of all kinds that spjit emits for a GPU, to be compiled to cubins.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/build/cuda_build.hpp"
#include "kernels/cuda/unrolled/cuda_emitter.hpp"
#include "tests/support/cuda/cuda_cases.hpp"
#include "tests/support/cuda/cuda_layer_cases.hpp"
#include "tests/support/cuda/cuda_proxy_cases.hpp"

namespace spjit::testing_support {

struct ProgramCase {
  std::string name;
  KernelPlan plan;
  CudaKernelSpec spec;
};

[[nodiscard]] inline ProgramCase program_of(const NamedLayer& layer) {
  return {layer.name, plan_of(layer.item), layer.item.spec};
}

inline void add_proxies(std::vector<ProgramCase>& cases) {
  for (const std::int64_t unit_nonzeros : {200, 100'000}) {
    ProxyCase given = proxy_case(random_matrix(600, 90, 0.85), 8, 100, {32, 96, 256});
    for (CudaCandidate& member : given.candidates) member.tile.unit_nonzeros = unit_nonzeros;
    const CudaProxy made = make_cuda_proxy(given.plan, given.candidates, given.limits);
    cases.push_back({"proxy", made.proxy.plan, made.spec});
  }
}

/// All of it: small programs, of every kind.
[[nodiscard]] inline std::vector<ProgramCase> program_cases() {
  std::vector<ProgramCase> cases;
  for (const auto& [name, item] : planted_cases()) {
    // A unit for every function of a large case is hundreds of compilations.
    if (item.spec.tile.unit_nonzeros == 1 && item.plan.grouping.tiles() > 6) continue;
    cases.push_back({name, item.plan, item.spec});
  }
  for (const auto& layers :
       {epilogue_cases(), token_cases(), value_cases(), convolution_layers()}) {
    for (const NamedLayer& layer : layers) cases.push_back(program_of(layer));
  }
  add_proxies(cases);
  return cases;
}

/// The texts of a program.
[[nodiscard]] inline std::vector<SourceUnit> units_of(const ProgramCase& item, CudaSource source,
                                                      int arch) {
  return source == CudaSource::ptx ? emit_ptx(item.plan, item.spec, arch)
                                   : emit_cuda(item.plan, item.spec);
}

/// The cubin of a program, with as few registers as its launch bounds leave.
[[nodiscard]] inline std::string build_program(const ProgramCase& item, CudaSource source, int arch,
                                               const CudaToolchain& toolchain) {
  constexpr std::int64_t registers_of_a_scheduler = 16384;
  constexpr std::int64_t warps_of_four_schedulers = 4 * 32;
  constexpr std::int64_t most = 255;
  const std::int64_t threads =
      item.spec.runtime_threads ? 2048 : item.spec.tile.n1 * item.spec.tile.tiles_a_block;
  const std::int64_t warps = (threads + warps_of_four_schedulers - 1) / warps_of_four_schedulers;
  CudaBuildOptions options;
  options.arch = arch;
  options.max_registers = std::min(most, registers_of_a_scheduler / (warps * 32) / 8 * 8);
  return build_cubin(units_of(item, source, arch), toolchain, options);
}

}  // namespace spjit::testing_support
