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
namespace {

using BuildClock = std::chrono::steady_clock;

/// Building this long takes longer than to start threads for it, on a busy machine too.
constexpr BuildClock::duration k_alone = std::chrono::milliseconds(1);

}  // namespace

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
                         Builders builders)
    : space_(space),
      fidelity_(fidelity),
      groups_(std::move(groups)),
      builders_(builders),
      made_(groups_.size()) {}

bool StageBuilds::any_after(std::size_t group) const {
  return std::any_of(made_.begin() + static_cast<std::ptrdiff_t>(group) + 1, made_.end(),
                     [](const auto& build) { return build != nullptr; });
}

void StageBuilds::make(std::size_t first, std::size_t bytes, const Cancellation& cancel,
                       const Report& report) {
  if (cancel.reached()) return;
  Rest rest;
  rest.bytes = bytes;
  for (std::size_t group = first; group < groups_.size(); ++group) {
    if (made_[group] == nullptr) rest.wanted.push_back(group);
  }
  const bool alone = builders_.threads <= 1 || rest.wanted.size() == 1;
  if (alone || builders_.short_builds) {
    rest =
        make_here(std::move(rest), alone ? BuildClock::duration::max() : k_alone, cancel, report);
  }
  if (rest.bytes > 0 && !rest.wanted.empty() && !cancel.reached()) {
    make_by_threads(rest, cancel, report);
  }
}

std::shared_ptr<const TunableBuild> StageBuilds::build(std::size_t group,
                                                       const Cancellation& cancel) const {
  std::shared_ptr<const TunableBuild> build = space_.build(groups_[group], fidelity_, cancel);
  // Given up is not failed.
  if (!build->failure.empty() && cancel.reached()) build.reset();
  return build;
}

StageBuilds::Rest StageBuilds::make_here(Rest rest, BuildClock::duration limit,
                                         const Cancellation& cancel, const Report& report) {
  const auto begin = BuildClock::now();
  auto next = rest.wanted.begin();
  while (next != rest.wanted.end() && rest.bytes > 0 && !cancel.reached() &&
         BuildClock::now() - begin < limit) {
    const std::size_t group = *next++;
    made_[group] = build(group, cancel);
    if (made_[group] == nullptr) continue;
    rest.bytes -= std::min(rest.bytes, made_[group]->bytes);
    report(++count_);
  }
  rest.wanted.erase(rest.wanted.begin(), next);
  return rest;
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

void StageBuilds::work(Crew& crew, const Rest& rest, const Cancellation& cancel) {
  std::unique_lock lock(crew.mutex);
  while (crew.next < rest.wanted.size() && crew.have < rest.bytes && !cancel.reached()) {
    const std::size_t group = rest.wanted[crew.next++];
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

void StageBuilds::make_by_threads(const Rest& rest, const Cancellation& cancel,
                                  const Report& report) {
  Crew crew;
  const std::stop_callback forward(cancel.stop, [&crew] { crew.stop.request_stop(); });
  Cancellation linked = cancel;
  linked.stop = crew.stop.get_token();
  std::size_t reported = count_;
  std::vector<std::jthread> workers;
  std::unique_lock lock(crew.mutex);
  bool works_too = builders_.short_builds;
  const auto threads = std::min(static_cast<std::size_t>(builders_.threads), rest.wanted.size());
  for (std::size_t i = works_too ? 1 : 0; i < threads; ++i) {
    try {
      workers.emplace_back([&] { work(crew, rest, linked); });
    } catch (const std::system_error&) {
      works_too = true;  // with those that could be started
      break;
    }
    ++crew.at_work;
  }
  if (works_too) {
    ++crew.at_work;
    lock.unlock();
    work(crew, rest, linked);
    lock.lock();
  }
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
