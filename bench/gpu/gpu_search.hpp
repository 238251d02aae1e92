#pragma once

/// @file
/// The search for a tile on a GPU: what each way to search costs and loses.

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/gpu/gpu_case.hpp"

namespace spjit::bench {

/// A way to choose a tile, and what came of it. The ways, in the order in which they are run:
///   oracle       whole kernels of all survivors, none dropped early
///   ranked       proxies of the 10 best-ranked, then the finalists in full
///   proxy        proxies of all, then the finalists in full
///   ranked-alone, proxy-alone   the same without finalists: the proxies decide
///   proxy-c++    `proxy-alone`, compiled from CUDA C++ by NVRTC
///   -kernels, -blocks, -iterations, -occupancy   `proxy-alone` without that reduction
struct GpuSearchWay {
  std::string way;           ///< its name
  std::string tile;          ///< its choice; empty: it timed nothing
  std::size_t timed = 0;     ///< tiles with a time
  std::size_t failed = 0;    ///< tiles that did not compile or run
  double loss = 0;           ///< of the choice, by the oracle's times: time / least time - 1
  double tau = 0;            ///< Kendall's, of its proxies' times and the oracle's
  double seconds = 0;        ///< compiling and timing; without ranking, which all have
  std::string problem = {};  ///< why it has no choice
};

struct GpuSearchResult {
  std::string name;
  std::int64_t nnz = 0;
  std::size_t survivors = 0;  ///< tiles that the rules leave
  double best_us = 0;         ///< of the oracle
  double instant_loss = 0;    ///< of the first of the ranking
  std::vector<GpuSearchWay> ways;
  std::string failure;  ///< why there is no result; or empty
};

/// Searches for one case in every way; with `check_only` only as `ranked` and `proxy`, and times
/// mean nothing. A failure is a result.
[[nodiscard]] GpuSearchResult run_search(const GpuCase& item, const GpuBenchOptions& options);

/// Uneven and even rows from 6k to 300k nonzeros.
[[nodiscard]] std::vector<GpuCase> search_cases(const CompileOptions& base);

[[nodiscard]] nlohmann::json to_json(const GpuSearchResult& result);
[[nodiscard]] std::string search_table(const std::vector<GpuSearchResult>& results);

}  // namespace spjit::bench
