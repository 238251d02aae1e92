#include "base/turns.hpp"

namespace spjit {

Turns::Place Turns::take(const Cancellation& cancel) {
  std::unique_lock lock(mutex_);
  const std::uint64_t ticket = next_ticket_++;
  waiting_.push_back(ticket);
  const bool mine = wait_until_ready(changed_, lock, cancel,
                                     [&] { return free_ > 0 && waiting_.front() == ticket; });
  waiting_.remove(ticket);
  if (mine) --free_;
  lock.unlock();
  changed_.notify_all();  // the next in line may have become the first
  Place place(mine ? this : nullptr);
  cancel.check();
  return place;
}

Turns::Place Turns::try_take() {
  const std::lock_guard lock(mutex_);
  if (free_ == 0 || !waiting_.empty()) return nullptr;
  --free_;
  return Place(this);
}

std::size_t Turns::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_.size();
}

void Turns::give_back() noexcept {
  {
    const std::lock_guard lock(mutex_);
    ++free_;
  }
  changed_.notify_all();
}

}  // namespace spjit
