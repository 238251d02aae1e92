#pragma once

/// @file
/// What a search for the fastest candidate asks of a family of kernels: its candidates, their code
/// and their times. The search (proxy/search.hpp) is the same for every family and knows nothing
/// else of it.
///
/// What differs between families, and why:
///
/// - Who shares one build. `unrolled_host`: tiles that differ in their walk, which is a run-time
///   number. `unrolled_cuda`: of stand-ins all N1 of an M1, which is a launch's; in full nobody.
/// - How many are timed at once. Host: batches of 512 MB of code; the best of one runs in the next.
///   GPU: all, since one context holds them.
/// - Loads of the same code. Host: 5 of the few, the middle one counts, since physical pages
/// differ.
///   GPU: 1, code has no pages that differ.
/// - Do stand-ins pay. Host: from 1e7 nonzeros x n on, since emitting is cheap. GPU: always, since
///   compiling is what takes long.
/// - Who decides. Host: whole kernels only. GPU: stand-ins too, where the time is up before a whole
///   kernel ran.
/// - What is always timed in full. Host: the choice of mode instant. GPU: nothing; one more kernel
///   costs as much as all stand-ins.
/// - Rounds and error goal. Host: 8 for stand-ins, 16; 1 %. GPU: 16; 0.5 %, since a sample has many
///   launches.
/// - Time for building. Host: until the stage's time is up. GPU: 70 % of the stage's time.
/// - Builders. Host: a thread each. GPU: stand-ins a thread each; whole kernels one by one, since
/// the
///   units of each are compiled in parallel.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.hpp"
#include "base/tuning.hpp"

namespace spjit {

/// A candidate as a search sees it.
struct SearchCandidate {
  std::string tile;     ///< its name
  std::int64_t m1 = 0;  ///< rows a tile
  std::int64_t n1 = 0;  ///< columns a panel or block
  double score = 0;     ///< of the ranking, larger is better
};

/// What is built of a candidate.
enum class Fidelity : std::uint8_t {
  stand_in,  ///< a proxy: costs less to make and to time, and ranks the same
  full,      ///< the kernel itself
};

/// Code of one candidate, or of several that share it. Families derive theirs.
struct TunableBuild {
  TunableBuild() = default;
  TunableBuild(const TunableBuild&) = delete;
  TunableBuild& operator=(const TunableBuild&) = delete;
  virtual ~TunableBuild() = default;

  std::string failure;    ///< why there is no code to time; empty: there is
  std::size_t bytes = 0;  ///< code and data that a run goes through
};

/// One thing to be timed.
struct TuningJob {
  std::size_t candidate = 0;
  Fidelity fidelity = Fidelity::full;
  std::shared_ptr<const TunableBuild> build;  ///< without a failure
  std::size_t load = 0;  ///< jobs of one candidate differ in it: each is loaded by itself
};

/// How candidates of a family are timed. See the table above.
struct TuningTraits {
  bool nothing_to_time = false;  ///< every candidate costs the same, e.g. without nonzeros
  bool stand_ins_pay = true;     ///< they cost clearly less than the kernels they stand for
  /// Stand-ins choose where nothing was timed in full; else the first candidate is taken then.
  bool stand_ins_decide = false;
  std::optional<std::size_t> favourite = {};  ///< a candidate that is always timed in full
  /// Bytes of builds that are timed at once. More waits for the next batch, which the best so far
  /// runs in too.
  std::size_t batch_bytes = std::numeric_limits<std::size_t>::max();
  /// Of few candidates each is loaded so often, and the load with the middle time counts; of more
  /// the best are timed again like that.
  std::size_t loads = 1;
  std::size_t few = 0;
  int stand_in_rounds = 16;  ///< of timing, at most
  int full_rounds = 16;
  double relative_error_goal = 0.01;  ///< of a median
  double build_share = 1;             ///< of a stage's time; the rest is for timing
  /// What progress is reported under while a stage builds; empty: it is not reported.
  std::string_view build_stage = {};
  int stand_in_builders = 1;  ///< threads that build at once, while nobody times
  int full_builders = 1;
};

/// The candidates of one problem, for one search at a time. What build() and time() do not say
/// otherwise is asked by one thread.
class TunableSpace {
 public:
  TunableSpace() = default;
  TunableSpace(const TunableSpace&) = delete;
  TunableSpace& operator=(const TunableSpace&) = delete;
  virtual ~TunableSpace() = default;

  /// What made the order: "prior", a model's name.
  [[nodiscard]] virtual std::string ranked_by() const = 0;
  /// Best first; a candidate is its index from then on.
  [[nodiscard]] virtual std::vector<SearchCandidate> candidates() const = 0;
  [[nodiscard]] virtual TuningTraits traits() const = 0;

  /// Whether one build serves both; an equivalence.
  [[nodiscard]] virtual bool share_build(std::size_t left, std::size_t right,
                                         Fidelity fidelity) const = 0;

  /// Code that serves `candidates`, of which there is at least one, all of which share a build. Its
  /// contents depend on nothing else. Thread-safe. What goes wrong, `cancel` included, is a failure
  /// of the build; out of here comes what is nobody's failure, such as std::bad_alloc.
  [[nodiscard]] virtual std::shared_ptr<const TunableBuild> build(
      std::span<const std::size_t> candidates, Fidelity fidelity, const Cancellation& cancel) = 0;

  /// Times jobs against each other; the i-th result belongs to the i-th job. Nothing is built
  /// meanwhile. Throws what the options' callbacks throw.
  [[nodiscard]] virtual std::vector<TuningResult> time(std::span<const TuningJob> jobs,
                                                       const TuningOptions& options) = 0;

  /// What a job's time suffers from: spills, another occupancy; or empty.
  [[nodiscard]] virtual std::string note(const TuningJob& job) const {
    static_cast<void>(job);
    return {};
  }
};

}  // namespace spjit
