#pragma once

/// @file
/// How proxies rank tiles on a GPU, against whole kernels.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/gpu/gpu_case.hpp"
#include "bench/gpu/search_case.hpp"

namespace spjit::bench {

/// In the order in which they are run:
///   oracle       whole kernels of all tiles, none dropped early
///   proxy-alone  proxies of all, from PTX
///   proxy-c++    the same, compiled from CUDA C++ by NVRTC
///   -kernels, -blocks, -iterations, -occupancy   `proxy-alone` without that reduction
[[nodiscard]] std::vector<SearchWay> search_ways();

/// The outcome of a way.
struct GpuSearchWay {
  std::string way;
  std::string tile;        ///< its choice; empty: it timed nothing
  std::size_t timed = 0;   ///< tiles with a time
  std::size_t failed = 0;  ///< tiles that did not compile or run
  double loss = 0;         ///< of the choice, by the oracle's times: time / least time - 1
  double tau = 0;          ///< Kendall's, of its times and the oracle's
  /// Of pairs with different oracle's times, those that its times order alike, 0 to 1.
  double pair_accuracy = 0;
  double seconds = 0;        ///< compiling or loading, and timing; without ranking, which all have
  std::string problem = {};  ///< the first thing that failed; or empty
};

struct GpuSearchResult {
  std::string name;
  std::int64_t nnz = 0;
  std::size_t tiles = 0;    ///< that the rules leave, or the sample of them
  bool timed = true;        ///< false: rehearsed; no number below means anything
  double best_us = 0;       ///< of the oracle; 0: there was none
  double instant_loss = 0;  ///< of the first of the ranking
  TileTimes truth = {};     ///< the oracle's
  TileTimes proxies = {};   ///< of `proxy-alone`, or none
  std::vector<GpuSearchWay> ways;
  std::string failure;  ///< why there is no result; or empty
};

/// Compares a way's times with the oracle's; fills loss, tau and pair_accuracy.
void judge(const TileTimes& times, const TileTimes& truth, GpuSearchWay& way);

/// Searches for one case in every way; with `check_only` in two of them, and times mean nothing. A
/// failure is a result.
[[nodiscard]] GpuSearchResult run_search(const GpuCase& item, const GpuBenchOptions& options);

/// Compiles what run_search() needs into the options' folder; how many tiles failed to compile.
/// Throws CacheError, NotSupported.
std::size_t fill_search(const GpuCase& item, const GpuBenchOptions& options);

/// Uneven and even rows from 6k to 300k nonzeros; with `check_only` one small matrix.
[[nodiscard]] std::vector<GpuCase> search_cases(const CompileOptions& base, bool check_only);

[[nodiscard]] nlohmann::json to_json(const GpuSearchResult& result);
[[nodiscard]] std::string search_table(const GpuSearchResult& result);

}  // namespace spjit::bench
