#include "bench/side_by_side/cache_flush.hpp"

#include <algorithm>
#include <cstddef>

namespace spjit::side_by_side {
namespace {

constexpr std::int64_t k_least_bytes = std::int64_t{32} << 20;  // where the L3 is not known

}  // namespace

CacheFlush::CacheFlush(std::int64_t l2_bytes, std::int64_t l3_bytes, int cpus) : pool_(cpus) {
  const std::int64_t share = std::max(2 * l3_bytes, k_least_bytes) / cpus;
  const std::int64_t bytes = std::max(share, 4 * l2_bytes);
  words_.resize(static_cast<std::size_t>(cpus));
  for (auto& words : words_) words.resize(static_cast<std::size_t>(bytes) / sizeof(std::uint64_t));
}

void CacheFlush::flush() {
  ++round_;
  // As many tasks as threads, each long: a thread has no time for two.
  pool_.run(pool_.threads(), [&](int task, int /*worker*/) {
    auto& words = words_[static_cast<std::size_t>(task)];
    std::fill(words.begin(), words.end(), round_);
    asm volatile("" : : "r"(words.data()) : "memory");
  });
}

}  // namespace spjit::side_by_side
