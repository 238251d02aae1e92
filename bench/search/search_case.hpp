#pragma once

/// @file
/// One matrix and n, searched in every way, and what each way's choice is worth.

#include <cstdint>
#include <string>
#include <vector>

#include "bench/host/workloads.hpp"
#include "kernels/host/unrolled/host_tile.hpp"
#include "spjit/compiler.hpp"
#include "spjit/matrix.hpp"

namespace spjit::bench {

/// A way to choose a tile, and what came of it.
struct WayResult {
  std::string way;  ///< k_ways[].name
  HostTile tile;    ///< its choice
  /// Of the choice: its time over that of the best of all choices, less 1. The best is picked on
  /// one half of the loads and timed on the other, both ways; so a loss may be negative.
  double loss = 0;
  /// Of the best by proxy time alone, without timing finalists in full; the choice's where there
  /// are no proxies.
  double top1_loss = 0;
  double tau = 0;  ///< Kendall's, of its times (proxies, else whole kernels) and the oracle's
  bool proxies = false;
  double rank_ms = 0;   ///< groupings, tile space, scores
  double proxy_ms = 0;  ///< making and timing proxies
  double full_ms = 0;   ///< making and timing whole kernels

  [[nodiscard]] double seconds() const noexcept { return (rank_ms + proxy_ms + full_ms) / 1e3; }
};

struct SearchCaseResult {
  std::string matrix;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t nnz = 0;
  std::int64_t n = 0;
  std::size_t survivors = 0;  ///< tiles that the rules leave
  double best_us = 0;         ///< of the fastest choice
  std::string best_tile;
  double noise = 0;  ///< of the judge: the two halves of its loads differ by this share on average
  std::vector<WayResult> ways;
  std::string error;  ///< why there is no result

  [[nodiscard]] const WayResult* find(const std::string& way) const;
};

/// Every way, in the order in which they are run:
///   oracle       every survivor emitted by itself and timed in full, 7 rounds, none dropped
///   instant      the heuristic
///   ranked       mode ranked: 10 contenders
///   proxy        mode proxy as shipped
///   exhaustive   mode exhaustive: in full, but emitted once a shape, and racing
///   proxies      proxies of all survivors wherever they pay or not, then finalists in full
[[nodiscard]] std::vector<std::string> all_ways();

/// Runs the ways named; `oracle` is always run. Never throws for what goes wrong with the matrix.
[[nodiscard]] SearchCaseResult run_search_case(const MatrixSource& workload, std::int64_t n,
                                               const std::vector<std::string>& ways);

}  // namespace spjit::bench
