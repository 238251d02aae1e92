#pragma once

/// @file
/// Emptying the caches, for cold runs.

#include <cstdint>
#include <vector>

#include "base/thread_pool.hpp"

namespace spjit::side_by_side {

/// Fills the caches of every CPU this process may use with data that nobody else wants: each of its
/// threads writes memory of its own, together twice the L3, each at least four times the L2.
class CacheFlush {
 public:
  CacheFlush(std::int64_t l2_bytes, std::int64_t l3_bytes, int cpus);

  void flush();

 private:
  ThreadPool pool_;
  std::vector<std::vector<std::uint64_t>> words_;
  std::uint64_t round_ = 0;
};

}  // namespace spjit::side_by_side
