#include "kernels/host/operands/workspace_pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/memory_bytes.hpp"
#include "spjit/data_type.hpp"

namespace spjit {
namespace {

/// From here on a workspace of which a run touches less than half is mapped sparsely.
constexpr std::int64_t k_sparse_floats = std::int64_t{1} << 28;

FloatBuffer workspace_of(const WorkspaceSize& wanted) {
  try {
    // Pages are promised before they are there: who takes more than there is gets killed.
    if (wanted.touched > memory_bytes() / bytes_of(DataType::f32)) throw std::bad_alloc();
    if (wanted.floats < k_sparse_floats || wanted.touched > wanted.floats / 2) {
      return FloatBuffer(to_size(wanted.floats));
    }
    return FloatBuffer::sparse(to_size(wanted.floats));
  } catch (const std::bad_alloc&) {
    throw NoMemory(
        fmt::format("a run needs a workspace of {:.2f} GB, and addresses for {:.2f} GB: more than "
                    "there are; use fewer columns, or B with the leading dimension that the kernel "
                    "was compiled for",
                    4e-9 * as_double(wanted.touched), 4e-9 * as_double(wanted.floats)));
  }
}

/// Of a slot, in whole cache lines: threads write to neighbours.
std::int64_t slot_bytes(std::int64_t floats) {
  constexpr std::int64_t k_line_bytes = 64;
  const std::int64_t bytes =
      checked_multiply(floats, std::int64_t{sizeof(float)}, "bytes of a workspace");
  return checked_add(bytes, k_line_bytes - 1, "bytes of a workspace") / k_line_bytes * k_line_bytes;
}

}  // namespace

std::int64_t WorkspaceNeed::bytes() const {
  return checked_multiply(loans, slot_bytes(floats), "bytes of a workspace");
}

WorkspaceNeed WorkspaceNeed::joined(const WorkspaceNeed& other) const noexcept {
  return {std::max(loans, other.loans), std::max(floats, other.floats)};
}

void check_workspace(std::int64_t bytes, std::int64_t needed) {
  if (bytes >= needed) return;
  throw InvalidArgument(
      fmt::format("the workspace has {} bytes; expected {} or more (Kernel::workspace_bytes())",
                  bytes, needed));
}

WorkspaceSlots::WorkspaceSlots(std::byte* memory, const WorkspaceNeed& need)
    : floats_(need.floats) {
  if (need.floats == 0) return;
  for (std::int64_t slot = need.loans - 1; slot >= 0; --slot) {
    std::byte* at = memory + slot * slot_bytes(need.floats);
    std::memcpy(at, &free_, sizeof(free_));
    free_ = at;
  }
}

float* WorkspaceSlots::take(std::int64_t floats) {
  const std::lock_guard lock(mutex_);
  if (floats > floats_ || free_ == nullptr) {
    throw std::logic_error("a run needs more workspace than it said");
  }
  std::byte* slot = free_;
  std::memcpy(&free_, slot, sizeof(free_));
  return reinterpret_cast<float*>(slot);
}

void WorkspaceSlots::give_back(float* slot) noexcept {
  const std::lock_guard lock(mutex_);
  std::memcpy(slot, &free_, sizeof(free_));
  free_ = reinterpret_cast<std::byte*>(slot);
}

std::shared_ptr<const WorkspacePool> WorkspacePool::shared() {
  static ForkSafeMutex mutex;
  static std::weak_ptr<const WorkspacePool> last;
  // Made and destroyed outside of the lock, as it has such a mutex, too.
  const auto made = std::make_shared<const WorkspacePool>();
  const std::lock_guard lock(mutex);
  std::shared_ptr<const WorkspacePool> pool = last.lock();
  if (pool == nullptr) last = pool = made;
  return pool;
}

FloatBuffer WorkspacePool::take(std::size_t floats) const {
  const std::thread::id thread = std::this_thread::get_id();
  const auto find = [&](const auto& suits) {
    const auto found = std::find_if(idle_.rbegin(), idle_.rend(), suits);
    return found == idle_.rend() ? idle_.end() : std::prev(found.base());
  };
  const auto is_large = [&](const Idle& idle) { return idle.buffer.size() >= floats; };
  const auto is_own = [&](const Idle& idle) { return idle.user == thread; };
  auto found = find([&](const Idle& idle) { return is_own(idle) && is_large(idle); });
  if (found == idle_.end()) found = find(is_large);
  if (found == idle_.end()) {
    const auto given_up = find(is_own);
    if (!idle_.empty()) idle_.erase(given_up == idle_.end() ? std::prev(given_up) : given_up);
    return {};
  }
  FloatBuffer buffer = std::move(found->buffer);
  idle_.erase(found);
  return buffer;
}

WorkspacePool::Loan::Loan(const WorkspacePool& pool, const WorkspaceSize& wanted,
                          WorkspaceSlots* slots)
    : pool_(pool), slots_(slots) {
  if (wanted.floats == 0) return;
  if (slots_ != nullptr) {
    data_ = slots_->take(wanted.floats);
    return;
  }
  {
    const std::lock_guard lock(pool.mutex_);
    buffer_ = pool.take(to_size(wanted.floats));
  }
  if (buffer_.data() == nullptr) buffer_ = workspace_of(wanted);
  data_ = buffer_.data();
}

WorkspacePool::Loan::~Loan() {
  if (data_ == nullptr) return;
  if (slots_ != nullptr) {
    slots_->give_back(data_);
    return;
  }
  const std::lock_guard lock(pool_.mutex_);
  try {
    pool_.idle_.push_back({std::move(buffer_), std::this_thread::get_id()});
  } catch (const std::bad_alloc&) {  // then it is freed
  }
}

}  // namespace spjit
