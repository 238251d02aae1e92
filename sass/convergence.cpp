#include "sass/convergence.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace spjit::sass {

namespace {

[[noreturn]] void fail(const std::string& message) { throw ConvergenceError(message); }

}  // namespace

void Convergence::branch(LaneMask lanes, std::uint32_t target) {
  const LaneMask others = active_ & ~lanes;
  if (lanes == 0) {
    go_on();
    return;
  }
  if (others != 0) ready_.push_back({lanes, target});
  active_ = others != 0 ? others : lanes;
  place_ = others != 0 ? place_ + 1 : target;
}

void Convergence::scatter(const std::vector<Group>& groups) {
  LaneMask others = active_;
  for (const Group& group : groups) {
    ready_.push_back(group);
    others &= ~group.lanes;
  }
  if (others != 0) ready_.push_back({others, place_ + 1});
  resume(ready_.back());
  ready_.pop_back();
}

void Convergence::exit(LaneMask lanes) {
  live_ &= ~lanes;
  active_ &= ~lanes;
  go_on();
}

void Convergence::open(unsigned barrier, std::uint32_t target) {
  Barrier& opened = barriers_[barrier];
  if ((opened.waiting & live_) != 0) {
    fail(fmt::format("B{} begins anew, but lanes {:#x} wait for it", barrier, opened.waiting));
  }
  opened = {.members = active_, .waiting = 0, .target = target};
  go_on();
}

void Convergence::leave(unsigned barrier, LaneMask lanes) {
  barriers_[barrier].members &= ~lanes;
  go_on();
}

void Convergence::meet(unsigned barrier) {
  Barrier& met = barriers_[barrier];
  if ((active_ & ~met.members) != 0) {
    fail(fmt::format("lanes {:#x} wait for B{}, whose lanes are {:#x}", active_, barrier,
                     met.members));
  }
  if (met.target != 0 && place_ + 1 != met.target) {
    fail(fmt::format("waits for B{}, whose BSSY names another place", barrier));
  }
  met.waiting |= active_;
  met.target = place_ + 1;
  active_ = 0;
}

void Convergence::meet_all(LaneMask mask) {
  if ((active_ & ~mask) != 0) {
    fail(fmt::format("lanes {:#x} wait for lanes {:#x}, without themselves", active_, mask));
  }
  syncs_.push_back({mask, {active_, place_ + 1}});
  active_ = 0;
}

void Convergence::resume(const Group& group) {
  active_ = group.lanes;
  place_ = group.place;
}

bool Convergence::resume_barrier() {
  for (Barrier& barrier : barriers_) {
    const LaneMask expected = barrier.members & live_;
    const LaneMask waiting = barrier.waiting & live_;
    if (waiting == 0 || waiting != expected) continue;
    resume({waiting, barrier.target});
    barrier = {};
    return true;
  }
  return false;
}

bool Convergence::resume_sync() {
  for (const Sync& first : syncs_) {
    const LaneMask mask = first.mask;
    LaneMask waiting = 0;
    for (const Sync& sync : syncs_) waiting |= sync.mask == mask ? sync.group.lanes : 0;
    if ((mask & live_ & ~waiting) != 0) continue;
    // Those at one place go on together.
    std::vector<Group> groups;
    for (const Sync& sync : syncs_) {
      if (sync.mask != mask) continue;
      const auto same = std::ranges::find(groups, sync.group.place, &Group::place);
      if (same == groups.end()) {
        groups.push_back(sync.group);
      } else {
        same->lanes |= sync.group.lanes;
      }
    }
    std::erase_if(syncs_, [mask](const Sync& sync) { return sync.mask == mask; });
    ready_.insert(ready_.end(), groups.begin(), groups.end());
    resume(ready_.back());
    ready_.pop_back();
    return true;
  }
  return false;
}

std::string Convergence::waiting_text() const {
  std::string text;
  for (std::size_t i = 0; i < barriers_.size(); ++i) {
    const Barrier& barrier = barriers_[i];
    if ((barrier.waiting & live_) == 0) continue;
    text += fmt::format(" lanes {:#x} for B{} of {:#x};", barrier.waiting & live_, i,
                        barrier.members & live_);
  }
  for (const Sync& sync : syncs_) {
    text += fmt::format(" lanes {:#x} for {:#x};", sync.group.lanes, sync.mask);
  }
  return text;
}

bool Convergence::next() {
  if (active_ != 0) return true;
  if (live_ == 0) return false;
  // Lanes that have met go on before others: they are what the region after them waits for.
  if (resume_barrier()) return true;
  if (!ready_.empty()) {
    resume(ready_.back());
    ready_.pop_back();
    return true;
  }
  if (resume_sync()) return true;
  fail(fmt::format("no lane can go on:{}", waiting_text()));
}

}  // namespace spjit::sass
