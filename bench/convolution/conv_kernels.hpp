#pragma once

/// @file
/// spjit's kernels for the plug-ins that run some.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "bench/convolution/conv_peer.hpp"
#include "spjit/compiler.hpp"
#include "spjit/kernel.hpp"
#include "spjit/problem.hpp"

namespace spjit::bench {

/// Compiles for a number of threads and a network, whose kernels share a pool of threads.
class ConvKernels {
 public:
  /// `family`: the only one that is asked; empty: one is chosen.
  ConvKernels(const ConvPeerSettings& settings, const std::string& family) {
    options_.target = settings.target;
    options_.policy.hot = settings.hot;
    options_.policy.family = family;
  }

  /// `problem`, as a part of `layer`.
  [[nodiscard]] Kernel compile(const Problem& problem, const ConvProblem& layer) {
    const std::pair key{layer.threads, layer.network_nnz};
    auto found = compilers_.find(key);
    if (found == compilers_.end()) {
      CompileOptions options = options_;
      options.resources.threads = layer.threads;
      options.policy.network_nnz = layer.network_nnz;
      CacheOptions no_cache;
      no_cache.enabled = false;
      found = compilers_.emplace(key, Compiler(options, no_cache)).first;
    }
    return found->second.compile(problem);
  }

 private:
  CompileOptions options_;
  std::map<std::pair<int, std::int64_t>, Compiler> compilers_;  // by threads and network
};

[[nodiscard]] inline Problem with_bias_and_relu() {
  Problem problem;
  problem.epilogue.bias = true;
  problem.epilogue.activation = Activation::relu;
  return problem;
}

/// Not a copy; `matrix` must outlive it.
[[nodiscard]] inline std::shared_ptr<const CsrMatrix> borrowed(const CsrMatrix& matrix) {
  return {std::shared_ptr<const void>(), &matrix};
}

/// "unrolled: rows=28 ..." or "compact".
[[nodiscard]] inline std::string describe_choice(const Kernel& kernel) {
  const KernelInfo& info = kernel.info();
  return info.tile.empty() ? info.family : info.family + ": " + info.tile;
}

}  // namespace spjit::bench
