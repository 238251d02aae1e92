#pragma once

/// @file
/// Ways to a finished kernel, of which search_way takes one. bench/python/search_cost_bench.py
/// starts it.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

#include "base/tuning.hpp"
#include "kernels/built_kernel.hpp"
#include "spjit/compiler.hpp"
#include "spjit/problem.hpp"

namespace spjit::bench {

enum class CostWay : std::uint8_t {
  full_undivided,  ///< every survivor in full; on a GPU target each undivided through NVRTC
  full_units,      ///< GPU targets: the same in bounded units
  full_ptx_units,  ///< GPU targets: the same from PTX through nvJitLink
  proxies,         ///< mode proxy
  ranked,          ///< mode ranked
  instant,         ///< mode instant
};

/// As in result files: "full undivided".
[[nodiscard]] std::string to_string(CostWay way);
/// Throws InvalidArgument for a name that there is not.
[[nodiscard]] CostWay way_named(const std::string& name);
/// All there are for a GPU or the host, in the order of the enumeration.
[[nodiscard]] std::vector<CostWay> cost_ways(bool cuda);
/// Whether every survivor is compiled.
[[nodiscard]] bool is_full(CostWay way);

struct CostSettings {
  double limit_s = 60;     ///< of a way; the search's own budget is beyond it
  int threads = 1;         ///< that compile or emit; 0: one a CPU
  std::uint64_t seed = 1;  ///< of the order in which survivors are compiled in full
};

/// Options of a way, without the target.
[[nodiscard]] CompileOptions way_options(CostWay way, const CostSettings& settings);

/// `tuning` with seven rounds for every candidate: the cost of timing in full if none is dropped.
[[nodiscard]] TuningOptions without_drops(const TuningOptions& tuning);

/// Tells how far a way is, in lines of JSON: who kills the process knows it. Thread-safe.
///
///     {"candidates": 30}                    ; tiles that code is made for, or their proxies
///     {"begun_s": 2.5}                      ; the first of them is begun, from the start on
///     {"done_s": 5.1, "failed": false}      ; one more is done
///     {"note": "from PTX"}
class CostReporter {
 public:
  /// `out`: null counts alone.
  explicit CostReporter(std::FILE* out = nullptr) : out_(out) {}

  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }
  void set_candidates(std::size_t count);
  void begin();
  void done(bool failed);
  void say(const std::string& note);

  [[nodiscard]] std::int64_t candidates() const { return candidates_; }
  [[nodiscard]] std::int64_t compiled() const { return compiled_; }  ///< failures among them
  [[nodiscard]] std::int64_t failed() const { return failed_; }

 private:
  using Clock = std::chrono::steady_clock;

  void tell(const std::string& line);

  std::FILE* out_;
  std::mutex mutex_;
  Clock::time_point start_ = Clock::now();
  std::atomic<std::int64_t> candidates_{0};
  std::atomic<std::int64_t> compiled_{0};
  std::atomic<std::int64_t> failed_{0};
};

/// Builds with the family `unrolled` of the target. Throws Error where it declines, and as it does.
[[nodiscard]] BuiltKernel build_unrolled(BuildRequest request);

/// Compiles the problem for a host target, as the modes do. `full_undivided` is the exhaustive
/// search without what makes it cheaper: every survivor emitted by itself and timed in seven
/// rounds, none dropped early. There are no units on the host. One thread runs the kernels. Returns
/// bytes of code.
std::int64_t run_host_way(const Problem& problem, const Target& target, CostWay way,
                          const CostSettings& settings, CostReporter& reporter);

/// A GPU target on this machine.
struct CudaCostTarget {
  std::string name;              ///< as asked for: "sm_90"
  std::optional<int> ordinal{};  ///< of the GPU that times; none: nothing is timed
  bool rehearsal = false;        ///< that GPU is the emulated driver's: no time of it is real
};

/// Ranks, then compiles (and where there is a GPU times) whole kernels or proxies as the shipped
/// search does, and leaves with a finished kernel: of full ways the fastest is one, others compile
/// it; where nothing was timed the first of the ranking is it. Whole kernels are compiled in an
/// order drawn with `settings.seed`, so that those done before a kill are a sample of all, and are
/// timed in seven rounds, none dropped early. Throws Error if no candidate compiled, or on a GPU
/// none could be timed. Returns bytes of code, of full ways 0.
std::int64_t run_cuda_way(const Problem& problem, const CudaCostTarget& target, CostWay way,
                          const CostSettings& settings, CostReporter& reporter);

}  // namespace spjit::bench
