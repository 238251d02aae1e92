#pragma once

/// @file
/// The cost of a finished kernel in one way to search. Makes rows of the result file
/// "spjit-search-cost-1" from measurements. bench/README.md documents the file.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/search_cost/child_run.hpp"
#include "spjit/matrix.hpp"

namespace spjit::bench {

/// A way to a finished kernel.
enum class CostWay : std::uint8_t {
  full_undivided,  ///< every survivor in full; on a GPU target each undivided through NVRTC
  full_units,      ///< GPU targets: the same in bounded units
  full_ptx_units,  ///< GPU targets: the same from PTX through nvJitLink
  proxies,         ///< mode proxy
  ranked,          ///< mode ranked
  instant,         ///< mode instant
};

/// As in the result file: "full undivided".
[[nodiscard]] std::string to_string(CostWay way);
/// All there are for a GPU or the host, in the order of the enumeration.
[[nodiscard]] std::vector<CostWay> cost_ways(bool cuda);
/// Whether every survivor is compiled.
[[nodiscard]] bool is_full(CostWay way);

/// The subject of a search.
struct CostCase {
  std::string name;
  CsrMatrix matrix;  ///< valid, rows sorted
  std::int64_t n = 0;
};

struct CostSettings {
  double limit_s = 60;     ///< of a way; then it is killed
  int repeats = 3;         ///< of a way that takes little time; the median counts
  int threads = 1;         ///< that compile or emit; 0: one a CPU
  std::uint64_t seed = 1;  ///< of the order in which survivors are compiled in full
};

/// Progress of a way until it ended or was killed.
struct CostProgress {
  std::int64_t candidates = 0;  ///< tiles that it makes code for, itself or as a proxy; 0: unknown
  std::int64_t compiled = 0;    ///< kernels or proxies done, failures among them
  std::int64_t failed = 0;      ///< that did not compile
  double begun_s = 0;           ///< from the start to when the first of them was begun
  double latest_s = 0;          ///< from the start to when the latest one was done
  std::string note;             ///< what else there is to say; or empty
};

/// One run of a way.
struct CostRun {
  ChildRun child;
  CostProgress progress;
};

struct CostRow {
  std::string matrix;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t nnz = 0;
  std::int64_t n = 0;
  std::string target;
  std::string way;
  std::optional<std::int64_t> candidates;
  std::optional<std::int64_t> compiled;  ///< of them in full; none for other ways
  double seconds = 0;                    ///< median of the runs; the limit where it was killed
  /// No measurement: what all candidates would take at the mean of those compiled before the kill,
  /// but the limit at least.
  std::optional<double> estimated_seconds;
  double cpu_seconds = 0;
  double peak_mib = 0;  ///< of the process
  bool killed = false;
  bool compile_only = false;  ///< for a GPU that is not there: nothing was timed
  int runs = 0;
  std::string note;
  std::string failure;  ///< why there are no figures; or empty
};

/// For what a row is made.
struct CostRowHead {
  const CostCase& item;
  std::string target;
  CostWay way = CostWay::instant;
  bool compile_only = false;
  std::string note = {};  ///< before the run's own
};

/// The row of at least one run. Of several the one with the median time counts; one that was killed
/// or failed decides over all others.
[[nodiscard]] CostRow make_cost_row(const CostRowHead& head, std::span<const CostRun> runs,
                                    double limit_s);

/// Seconds that all candidates would take at the mean pace of those that were compiled; none where
/// that says nothing.
[[nodiscard]] std::optional<double> estimate_seconds(const CostProgress& progress);

[[nodiscard]] nlohmann::json to_json(const CostRow& row);
[[nodiscard]] std::string cost_header();
[[nodiscard]] std::string cost_line(const CostRow& row);

}  // namespace spjit::bench
