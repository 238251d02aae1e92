#pragma once

/// @file
/// The tiles of one matrix on one GPU, compiled and timed in several ways.

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "bench/gpu/gpu_case.hpp"
#include "kernels/cuda/unrolled/cuda_tunable.hpp"
#include "proxy/search.hpp"
#include "reorder/row_groupings.hpp"

namespace spjit::bench {

/// The parts of a way to choose a tile. Proxies alone decide, without finalists in full.
struct SearchWay {
  std::string name;
  SearchMode mode = SearchMode::proxy;
  CudaSource source = CudaSource::ptx;  ///< of the proxies
  CudaReductions reductions = {};
};

/// Whole kernels of all tiles, seven rounds, none dropped early: what is held to be true.
[[nodiscard]] SearchWay oracle_way();

/// Times by tile. [us]
using TileTimes = std::map<std::string, double>;

/// `entry`'s time, by proxy where there is one, else in full; 0: it has none.
[[nodiscard]] double time_of(const SearchTraceEntry& entry);
[[nodiscard]] TileTimes times_of(const SearchTrace& trace);

/// `count` of `all` at even distances, the first and the last among them; all of them where there
/// are no more, or for a count of 0.
template <typename Item>
[[nodiscard]] std::vector<Item> spread_sample(std::vector<Item> all, std::size_t count) {
  if (count == 0 || all.size() <= count) return all;
  std::vector<Item> sample;
  for (std::size_t i = 0; i < count; ++i) {
    sample.push_back(all[count == 1 ? 0 : i * (all.size() - 1) / (count - 1)]);
  }
  return sample;
}

/// Refers to the case and the options.
class SearchCase {
 public:
  /// Of the tiles that the rules leave as many as GpuBenchOptions::most_tiles, spread over the
  /// ranking. They are chosen for the card of the options' cubins, else for the GPU.
  SearchCase(const GpuCase& item, const GpuBenchOptions& bench);

  /// Best-ranked first.
  [[nodiscard]] const std::vector<CudaCandidate>& tiles() const noexcept { return tiles_; }

  /// Searches. Where it is only to compile, nothing is timed.
  [[nodiscard]] SearchTrace run(const SearchWay& way);

 private:
  [[nodiscard]] CudaSearchTools tools_of(const CudaSearchInput& input, const SearchWay& way) const;

  const GpuBenchOptions& bench_;
  const Problem& problem_;
  CompileOptions options_;
  CudaDeviceInfo limits_;
  RowGroupings groupings_;
  std::vector<CudaCandidate> tiles_;
};

}  // namespace spjit::bench
