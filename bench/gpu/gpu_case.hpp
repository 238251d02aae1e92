#pragma once

/// @file
/// A multiplication whose tiles are searched on a GPU.

#include <cstddef>
#include <memory>
#include <string>

#include "bench/gpu/cubin_cache.hpp"
#include "spjit/compiler.hpp"

namespace spjit::bench {

struct GpuCase {
  std::string name;
  Problem problem;
  CompileOptions options;
};

struct GpuBenchOptions {
  int device = 0;
  bool check_only = false;    ///< launch and compare, time nothing
  bool compile_only = false;  ///< into `cubins`; needs no GPU
  /// Where cubins come from, or are compiled to; null: they are compiled when they are needed.
  std::shared_ptr<CubinCache> cubins = nullptr;
  std::size_t most_tiles = 0;  ///< of a search, spread over the ranking; 0: all
};

}  // namespace spjit::bench
