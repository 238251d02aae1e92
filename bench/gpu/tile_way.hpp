#pragma once

/// @file
/// The tiles of one matrix on one GPU, compiled and timed in one way, whole or by proxies.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "bench/gpu/cubin_cache.hpp"
#include "kernels/tuning/search_trace.hpp"
#include "spjit/problem.hpp"

namespace spjit::bench {

struct TileWayOptions {
  std::string way = "oracle";
  int device = 0;
  bool rehearse = false;       ///< the fewest launches: no time means anything
  bool compile_only = false;   ///< into `cubins`; needs no GPU
  std::size_t most_tiles = 0;  ///< spread over the ranking; 0: all
  /// Where cubins come from, or are compiled to; null: they are compiled when they are needed.
  std::shared_ptr<CubinCache> cubins = nullptr;
};

/// In the order in which they are run:
///   oracle       whole kernels of all tiles, seven rounds, none dropped early
///   proxy-alone  proxies of all, from PTX; they decide, without finalists in full
///   proxy-c++    the same, compiled from CUDA C++ by NVRTC
///   -kernels, -blocks, -iterations, -occupancy   `proxy-alone` without that reduction
[[nodiscard]] std::vector<std::string> tile_way_names();

/// Tiles are those that the rules leave for the card of the cubins, else for the GPU; entries are
/// best-ranked first. Throws Error if there is none, InvalidArgument for another name of a way.
[[nodiscard]] SearchTrace run_tile_way(const Problem& problem, const TileWayOptions& options);

/// `count` of `all` at even distances, the first and the last among them; all of them where there
/// are no more, or for a count of 0.
template <typename Item>
[[nodiscard]] std::vector<Item> spread_sample(std::vector<Item> all, std::size_t count) {
  if (count == 0 || all.size() <= count) return all;
  std::vector<Item> sample;
  sample.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    sample.push_back(all[count == 1 ? 0 : i * (all.size() - 1) / (count - 1)]);
  }
  return sample;
}

}  // namespace spjit::bench
