#pragma once

/// @file
/// Candidates that are names and numbers: a search builds and times them at no cost.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kernels/tuning/tunable_space.hpp"

namespace spjit::testing_support {

/// A build that says whom it serves.
struct MadeUpBuild : TunableBuild {
  std::vector<std::size_t> serves;
  Fidelity fidelity = Fidelity::full;
  std::shared_ptr<std::atomic<int>> alive;  ///< builds that there are
  ~MadeUpBuild() override {
    if (alive != nullptr) --*alive;
  }
};

[[nodiscard]] inline TuningResult made_up_time(double us) {
  TuningResult result;
  result.timing = summarize_samples("made up", {us});
  result.outcome = TuningOutcome::finished;
  return result;
}

[[nodiscard]] inline TuningResult made_up_failure(const std::string& reason) {
  TuningResult result;
  result.outcome = TuningOutcome::failed;
  result.failure = reason;
  return result;
}

/// A space without kernels. Its public members say what shall happen, or what has happened.
class MadeUpSpace final : public TunableSpace {
 public:
  explicit MadeUpSpace(std::size_t count) : count_(count) {}

  [[nodiscard]] std::string ranked_by() const override { return "made up"; }
  [[nodiscard]] std::vector<SearchCandidate> candidates() const override {
    std::vector<SearchCandidate> all;
    for (std::size_t i = 0; i < count_; ++i) {
      const auto number = static_cast<std::int64_t>(i);
      all.push_back({"c" + std::to_string(i), number, 10 * number, -static_cast<double>(i)});
    }
    return all;
  }
  [[nodiscard]] TuningTraits traits() const override { return given; }
  [[nodiscard]] bool share_build(std::size_t left, std::size_t right, Fidelity) const override {
    return left % groups == right % groups;
  }

  [[nodiscard]] std::shared_ptr<const TunableBuild> build(std::span<const std::size_t> candidates,
                                                          Fidelity fidelity,
                                                          const Cancellation& cancel) override {
    auto made = std::make_shared<MadeUpBuild>();
    made->serves.assign(candidates.begin(), candidates.end());
    made->fidelity = fidelity;
    made->bytes = bytes;
    made->alive = alive_;
    ++*alive_;
    ++building_;
    if (during_build) during_build(candidates.front(), cancel);
    const auto& failing = fidelity == Fidelity::full ? failing_in_full : failing_stand_ins;
    if (const auto found = failing.find(candidates.front()); found != failing.end()) {
      made->failure = found->second;
    }
    if (cancel.reached()) made->failure = "given up";
    const std::lock_guard lock(mutex_);
    --building_;
    built.emplace_back(fidelity, candidates.front());
    return made;
  }

  [[nodiscard]] std::vector<TuningResult> time(std::span<const TuningJob> jobs,
                                               const TuningOptions& options) override {
    built_while_timing = built_while_timing || building_ != 0;
    most_alive = std::max(most_alive, alive_->load());
    batches.emplace_back();
    budgets_ms.push_back(options.budget_ms);
    if (during_timing) during_timing(options);
    std::vector<TuningResult> results;
    for (const TuningJob& job : jobs) {
      const auto& build = static_cast<const MadeUpBuild&>(*job.build);
      right_builds = right_builds && build.fidelity == job.fidelity && build.failure.empty() &&
                     std::ranges::count(build.serves, job.candidate) == 1;
      batches.back().push_back(job.candidate);
      results.push_back(result_of(job));
    }
    return results;
  }

  [[nodiscard]] std::string note(const TuningJob& job) const override {
    const auto found = notes.find({job.fidelity, job.candidate});
    return found == notes.end() ? "" : found->second;
  }

  TuningTraits given;
  std::size_t groups = std::size_t{1} << 30;  ///< candidates share builds modulo this
  std::size_t bytes = 1;                      ///< of a build
  std::map<std::size_t, std::string> failing_stand_ins;
  std::map<std::size_t, std::string> failing_in_full;
  std::map<std::pair<Fidelity, std::size_t>, std::string> notes;
  std::function<void(std::size_t candidate, const Cancellation&)> during_build;
  std::function<void(const TuningOptions&)> during_timing;
  std::function<TuningResult(const TuningJob&)> result_of = [](const TuningJob& job) {
    return made_up_time(static_cast<double>(job.candidate) + 1);
  };

  std::vector<std::pair<Fidelity, std::size_t>> built;  ///< in the order in which they were done
  std::vector<std::vector<std::size_t>> batches;        ///< candidates of each
  std::vector<double> budgets_ms;                       ///< of each batch
  bool built_while_timing = false;
  bool right_builds = true;  ///< jobs had the builds that are theirs
  int most_alive = 0;        ///< builds, when a batch was timed

 private:
  std::size_t count_;
  std::mutex mutex_;
  std::atomic<int> building_ = 0;
  std::shared_ptr<std::atomic<int>> alive_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace spjit::testing_support
