#include "base/cache_flush.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace {

using spjit::CacheFlush;
using spjit::HostCpu;
using spjit::WorkerPool;

constexpr std::int64_t k_mib = std::int64_t{1} << 20;

HostCpu cpu_of(std::int64_t l2_bytes, std::int64_t l3_bytes) {
  HostCpu cpu;
  cpu.l2_bytes = l2_bytes;
  cpu.l3_bytes = l3_bytes;
  return cpu;
}

TEST(CacheFlush, EveryFlushReadsTwiceTheL3) {
  CacheFlush caches(cpu_of(4096, k_mib), nullptr);
  EXPECT_EQ(caches.bytes_read(), 0);

  caches.flush();
  EXPECT_EQ(caches.bytes_read(), 2 * k_mib);

  caches.flush();
  EXPECT_EQ(caches.bytes_read(), 4 * k_mib);
}

TEST(CacheFlush, ThreadsShareTheL3AndFillAnL2Each) {
  WorkerPool pool(4);
  CacheFlush of_l3(cpu_of(4096, k_mib), &pool);
  CacheFlush of_l2(cpu_of(k_mib / 4, 0x1000), &pool);

  of_l3.flush();
  of_l2.flush();

  EXPECT_EQ(of_l3.bytes_read(), 2 * k_mib);
  EXPECT_EQ(of_l2.bytes_read(), 4 * k_mib);
}

TEST(CacheFlush, ReadsNoMoreThanItIsTold) {
  WorkerPool pool(4);
  CacheFlush caches(cpu_of(4096, k_mib), &pool, 8000);
  CacheFlush more(cpu_of(4096, k_mib), nullptr, 2 * k_mib + 8);
  CacheFlush nothing(cpu_of(4096, k_mib), nullptr, 0);

  for (CacheFlush* flush : {&caches, &more, &nothing}) flush->flush();

  EXPECT_EQ(caches.bytes_read(), 8000);
  EXPECT_EQ(more.bytes_read(), 2 * k_mib);
  EXPECT_EQ(nothing.bytes_read(), 0);
}

TEST(CacheFlush, TakesFourTimesTheL2AThreadWhereThatIsMore) {
  EXPECT_EQ(CacheFlush::bytes_of_thread(cpu_of(k_mib, 32 * k_mib), 2), 32 * k_mib);
  EXPECT_EQ(CacheFlush::bytes_of_thread(cpu_of(k_mib, 32 * k_mib), 32), 4 * k_mib);
}

TEST(CacheFlush, KnowsWhatToTakeWithoutAnL3AndWithAHugeOne) {
  EXPECT_EQ(CacheFlush::bytes_of_thread(cpu_of(k_mib, 0), 1), 32 * k_mib);
  EXPECT_EQ(CacheFlush::bytes_of_thread(cpu_of(k_mib, 1024 * k_mib), 1), 128 * k_mib);
}

}  // namespace
