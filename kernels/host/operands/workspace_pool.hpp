#pragma once

/// @file
/// Memory that runs of kernels borrow, from a pool or from their caller.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/float_buffer.hpp"
#include "base/fork_safe_mutex.hpp"
#include "spjit/error.hpp"

namespace spjit {

/// A workspace that cannot be allocated.
class NoMemory : public Error {
 public:
  using Error::Error;
};

struct WorkspaceSize {
  std::int64_t floats = 0;
  std::int64_t touched = 0;  ///< how many of them a run touches at most
};

/// Loans that one run has at once at most, and the floats of each.
struct WorkspaceNeed {
  std::int64_t loans = 0;
  std::int64_t floats = 0;  ///< the largest

  /// Bytes of memory that begins at a cache line. Throws InvalidArgument if it is 2^63 or more.
  [[nodiscard]] std::int64_t bytes() const;
  /// Whichever is larger.
  [[nodiscard]] WorkspaceNeed joined(const WorkspaceNeed& other) const noexcept;
};

/// Throws InvalidArgument if a caller's workspace has fewer bytes than a run needs.
void check_workspace(std::int64_t bytes, std::int64_t needed);

/// Lends a caller's memory to one run, whose threads share it, in equal slots. Free ones are linked
/// through their own first bytes: nothing is allocated.
class WorkspaceSlots {
 public:
  /// `memory` has need.bytes() bytes from a cache line on and outlives this.
  WorkspaceSlots(std::byte* memory, const WorkspaceNeed& need);
  WorkspaceSlots(const WorkspaceSlots&) = delete;
  WorkspaceSlots& operator=(const WorkspaceSlots&) = delete;

  /// Throws std::logic_error if there are more or larger loans than the need said.
  [[nodiscard]] float* take(std::int64_t floats);
  void give_back(float* slot) noexcept;

 private:
  std::mutex mutex_;
  std::int64_t floats_;
  std::byte* free_ = nullptr;
};

/// Lends 64-byte-aligned float buffers. Returned ones are kept for the next borrower, one for each
/// of the most loans there were at once: preferably the thread that had it last, in whose caches it
/// is. One that is too small makes room for a larger one.
class WorkspacePool {
 public:
  /// The one that all kernels of this process share while there are any: a network's kernels run
  /// one after another in the same memory, which stays in the caches.
  [[nodiscard]] static std::shared_ptr<const WorkspacePool> shared();

  class Loan {
   public:
    /// From `slots`, if there are any, else from the pool. Throws NoMemory if the machine has not
    /// so much memory.
    Loan(const WorkspacePool& pool, const WorkspaceSize& wanted, WorkspaceSlots* slots = nullptr);
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    ~Loan();

    [[nodiscard]] float* data() const noexcept { return data_; }

   private:
    const WorkspacePool& pool_;
    WorkspaceSlots* slots_;
    FloatBuffer buffer_;  ///< of the pool
    float* data_ = nullptr;
  };

 private:
  struct Idle {
    FloatBuffer buffer;
    std::thread::id user;
  };

  /// An idle one that is large enough, or none; then the one that this thread had last, or another
  /// one, is given up. Precondition: mutex_ is held.
  [[nodiscard]] FloatBuffer take(std::size_t floats) const;

  mutable ForkSafeMutex mutex_;
  mutable std::vector<Idle> idle_;  ///< the one returned last at the end
};

}  // namespace spjit
