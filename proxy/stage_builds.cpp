#include "proxy/stage_builds.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>

namespace spjit {

std::vector<BuildGroup> group_by_build(const TunableSpace& space, Fidelity fidelity,
                                       std::vector<std::size_t> candidates) {
  std::vector<BuildGroup> groups;
  while (!candidates.empty()) {
    const std::size_t first = candidates.front();
    // Not that of std::ranges, whose result clang 14 does not parse.
    const auto others =
        std::stable_partition(candidates.begin(), candidates.end(), [&](std::size_t candidate) {
          return candidate == first || space.share_build(first, candidate, fidelity);
        });
    groups.emplace_back(candidates.begin(), others);
    candidates.erase(candidates.begin(), others);
  }
  return groups;
}

StageBuilds::StageBuilds(TunableSpace& space, Fidelity fidelity, std::vector<BuildGroup> groups,
                         int threads)
    : space_(space),
      fidelity_(fidelity),
      groups_(std::move(groups)),
      threads_(static_cast<std::size_t>(std::max(threads, 1))),
      made_(groups_.size()) {}

bool StageBuilds::any_after(std::size_t group) const {
  return std::any_of(made_.begin() + static_cast<std::ptrdiff_t>(group) + 1, made_.end(),
                     [](const auto& build) { return build != nullptr; });
}

void StageBuilds::make(std::size_t first, std::size_t bytes, const Cancellation& cancel,
                       const Report& report) {
  if (cancel.reached()) return;
  std::vector<std::size_t> wanted;
  for (std::size_t group = first; group < groups_.size(); ++group) {
    if (made_[group] == nullptr) wanted.push_back(group);
  }
  if (threads_ == 1 || wanted.size() <= 1) {
    make_here(wanted, bytes, cancel, report);
  } else {
    make_by_threads(wanted, bytes, cancel, report);
  }
}

std::shared_ptr<const TunableBuild> StageBuilds::build(std::size_t group,
                                                       const Cancellation& cancel) const {
  std::shared_ptr<const TunableBuild> build = space_.build(groups_[group], fidelity_, cancel);
  // Given up is not failed.
  if (!build->failure.empty() && cancel.reached()) build.reset();
  return build;
}

void StageBuilds::make_here(const std::vector<std::size_t>& wanted, std::size_t bytes,
                            const Cancellation& cancel, const Report& report) {
  std::size_t have = 0;
  for (const std::size_t group : wanted) {
    if (cancel.reached() || have >= bytes) return;
    made_[group] = build(group, cancel);
    if (made_[group] == nullptr) return;
    have += made_[group]->bytes;
    report(++count_);
  }
}

/// What the threads of one make() share; of StageBuilds they write made_ and count_ under the
/// mutex.
struct StageBuilds::Crew {
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t next = 0;  ///< of the groups that are wanted
  std::size_t have = 0;  ///< bytes made
  std::size_t at_work = 0;
  std::exception_ptr thrown;
  std::stop_source stop;
};

void StageBuilds::work(Crew& crew, const std::vector<std::size_t>& wanted, std::size_t bytes,
                       const Cancellation& cancel) {
  std::unique_lock lock(crew.mutex);
  while (crew.next < wanted.size() && crew.have < bytes && !cancel.reached()) {
    const std::size_t group = wanted[crew.next++];
    lock.unlock();
    std::shared_ptr<const TunableBuild> made;
    std::exception_ptr error;
    try {
      made = build(group, cancel);
    } catch (...) {
      error = std::current_exception();
      crew.stop.request_stop();
    }
    lock.lock();
    if (error != nullptr) crew.thrown = error;
    if (made != nullptr) {
      crew.have += made->bytes;
      ++count_;
    }
    made_[group] = std::move(made);
    crew.changed.notify_one();
  }
  --crew.at_work;
  crew.changed.notify_one();
}

void StageBuilds::make_by_threads(const std::vector<std::size_t>& wanted, std::size_t bytes,
                                  const Cancellation& cancel, const Report& report) {
  Crew crew;
  const std::stop_callback forward(cancel.stop, [&crew] { crew.stop.request_stop(); });
  Cancellation linked = cancel;
  linked.stop = crew.stop.get_token();
  std::size_t reported = count_;
  std::vector<std::jthread> workers;
  std::unique_lock lock(crew.mutex);
  for (std::size_t i = 0; i < std::min(threads_, wanted.size()); ++i) {
    try {
      workers.emplace_back([&] { work(crew, wanted, bytes, linked); });
    } catch (const std::system_error&) {
      break;  // those that could be started do it
    }
    ++crew.at_work;
  }
  if (workers.empty()) return make_here(wanted, bytes, cancel, report);
  while (crew.at_work > 0 || reported < count_) {
    crew.changed.wait(lock, [&] { return crew.at_work == 0 || reported < count_; });
    if (reported == count_) continue;
    ++reported;
    lock.unlock();
    try {
      report(reported);
    } catch (...) {
      crew.stop.request_stop();
      throw;
    }
    lock.lock();
  }
  if (crew.thrown != nullptr) std::rethrow_exception(crew.thrown);
}

}  // namespace spjit
