#pragma once

/// @file
/// Memory that runs of a kernel borrow.

#include <cstdint>
#include <mutex>
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

/// Lends 64-byte-aligned float buffers; returned ones are kept for the next borrower.
class WorkspacePool {
 public:
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
  mutable std::mutex mutex_;
  mutable std::vector<FloatBuffer> idle_;
};

}  // namespace spjit
