#pragma once

/// @file
/// The interface that a search for the fastest candidate has to a family of kernels: its
/// candidates, their code and their times. The search (proxy/search.hpp) is the same for every
/// family and knows nothing else of it.
///
/// Differences between families, and why:
///
/// - Shared builds. Host tiles that differ in their loop order share code: it is a run-time number.
///   A CUDA proxy serves all blocks of an M1: they are a launch's. Whole kernels share nothing.
/// - Batches. Host code is timed 512 MB at a time, and the best of a batch runs in the next. On a
///   GPU all candidates are one batch.
/// - Loads. The same host code is faster or slower by its physical pages, so few tiles are loaded 5
///   times and the middle load counts; the best of many are timed again like that. A GPU's once.
/// - Stand-ins pay on the host from 1e7 nonzeros x n on, since emitting is cheap; on a GPU always,
///   since compiling takes long.
/// - Who decides. On the host whole kernels alone, on a GPU stand-ins too, where the time is up
///   before a whole kernel ran. The choice of mode instant is always one of the finalists.
/// - Rounds and error goal. The host: 8 for stand-ins, 16 for kernels, 1 %. A GPU: 16, and 0.5 %,
///   for a sample has many launches.
/// - Time to build. On the host as long as a stage has time; on a GPU 70 % of a stage's time.
/// - Threads that build. The host: one a CPU, once building takes longer than starting them. A GPU:
///   a proxy each; whole kernels one after the other, their units in parallel.

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

/// The build of a candidate.
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

  std::string failure;          ///< why there is no code to time; empty: there is
  std::size_t bytes = 0;        ///< code and data that a run goes through
  std::int64_t code_bytes = 0;  ///< a GPU kernel's machine code that was made now; else 0
};

/// One thing to be timed.
struct TuningJob {
  std::size_t candidate = 0;
  Fidelity fidelity = Fidelity::full;
  std::shared_ptr<const TunableBuild> build;  ///< without a failure
  std::size_t load = 0;  ///< jobs of one candidate differ in it: each is loaded by itself
};

/// How candidates of a family are timed: what differs between families, above.
struct TuningTraits {
  bool nothing_to_time = false;  ///< every candidate costs the same, e.g. without nonzeros
  bool stand_ins_pay = true;     ///< they cost clearly less than the kernels they stand for
  /// Stand-ins choose where nothing was timed in full; else the first candidate is taken then.
  bool stand_ins_decide = false;
  std::optional<std::size_t> favourite = {};  ///< a candidate that is always timed in full
  /// Bytes of builds that are timed at once. More waits for the next batch, which the best so far
  /// runs in too.
  std::size_t batch_bytes = std::numeric_limits<std::size_t>::max();
  /// Loads of a candidate, if there are few: each is loaded so often, and the load with the middle
  /// time counts; of more the best are timed again like that.
  std::size_t loads = 1;
  std::size_t few = 0;
  int stand_in_rounds = 16;  ///< of timing, at most
  int full_rounds = 16;
  double relative_error_goal = 0.01;  ///< of a median
  double build_share = 1;             ///< of a stage's time; the rest is for timing
  /// Name of the stage for progress reports while it builds; empty: none are made.
  std::string_view build_stage = {};
  int stand_in_builders = 1;  ///< threads that build at once, while nobody times
  int full_builders = 1;
  bool short_builds = false;  ///< many a build is done before a thread for it would have started
};

/// The candidates of one problem, for one search at a time. What build() and time() do not say
/// otherwise is asked by one thread.
class TunableSpace {
 public:
  TunableSpace() = default;
  TunableSpace(const TunableSpace&) = delete;
  TunableSpace& operator=(const TunableSpace&) = delete;
  virtual ~TunableSpace() = default;

  /// The source of the order: "prior", or a model's name.
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

  /// A cause that slows a job's kernel, such as spills or another occupancy; or empty.
  [[nodiscard]] virtual std::string note(const TuningJob& job) const {
    static_cast<void>(job);
    return {};
  }
};

}  // namespace spjit
