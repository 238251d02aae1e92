#pragma once

/// @file
/// Memory that runs of kernels borrow.

#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/float_buffer.hpp"
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
    /// Throws NoMemory if the machine has not so much memory.
    Loan(const WorkspacePool& pool, const WorkspaceSize& wanted);
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    ~Loan();

    [[nodiscard]] float* data() const noexcept { return buffer_.data(); }

   private:
    const WorkspacePool& pool_;
    FloatBuffer buffer_;
  };

 private:
  struct Idle {
    FloatBuffer buffer;
    std::thread::id user;
  };

  /// An idle one that is large enough, or none; then the one that this thread had last, or another
  /// one, is given up. Precondition: mutex_ is held.
  [[nodiscard]] FloatBuffer take(std::size_t floats) const;

  mutable std::mutex mutex_;
  mutable std::vector<Idle> idle_;  ///< the one returned last at the end
};

}  // namespace spjit
