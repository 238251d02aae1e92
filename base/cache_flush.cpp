#include "base/cache_flush.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace spjit {
namespace {

constexpr std::int64_t k_unknown_bytes = std::int64_t{32} << 20;  // where the L3 is not known
// What 9 million nonzeros with their code leave behind. Larger networks are rarer than an L3 of 480
// MB, which would take a tenth of a second to fill, each time that a kernel is timed.
constexpr std::int64_t k_most_bytes = std::int64_t{128} << 20;

}  // namespace

CacheFlush::CacheFlush(const HostCpu& cpu, ThreadPool* pool, std::int64_t most_bytes)
    : pool_(pool) {
  const int threads = pool == nullptr ? 1 : pool->threads();
  const std::int64_t bytes_each = std::min(bytes_of_thread(cpu, threads), most_bytes / threads);
  const auto words_each = static_cast<std::size_t>(bytes_each) / sizeof(std::int64_t);
  words_.resize(static_cast<std::size_t>(threads));
  // Not zero: pages that nobody wrote are one page of zeros, which stays in L1.
  for (auto& words : words_) words.assign(words_each, sizeof(std::int64_t));
}

std::int64_t CacheFlush::bytes_of_thread(const HostCpu& cpu, int threads) {
  const std::int64_t all =
      cpu.l3_bytes > 0 ? std::min(2 * cpu.l3_bytes, k_most_bytes) : k_unknown_bytes;
  return std::max(all / threads, 4 * cpu.l2_bytes);
}

void CacheFlush::flush() {
  const auto read = [&](int task, int /*worker*/) {
    const auto& words = words_[static_cast<std::size_t>(task)];
    bytes_read_ += std::reduce(words.begin(), words.end());
  };
  if (pool_ == nullptr) {
    read(0, 0);
    return;
  }
  // As many tasks as threads, each long: a thread has no time for two.
  pool_->run(pool_->threads(), read);
}

}  // namespace spjit
