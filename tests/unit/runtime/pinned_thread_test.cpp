#include "base/pinned_thread.hpp"

#include <gtest/gtest.h>
#include <sched.h>

namespace {

cpu_set_t allowed_now() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  EXPECT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  return allowed;
}

TEST(PinnedThread, StaysOnOneCpuAndMayUseTheOthersAfterwards) {
  const cpu_set_t before = allowed_now();
  {
    const spjit::PinnedThread pinned;
    if (!pinned.is_pinned()) GTEST_SKIP() << "this system does not let threads be pinned";

    const cpu_set_t now = allowed_now();
    EXPECT_EQ(CPU_COUNT(&now), 1);
    EXPECT_TRUE(CPU_ISSET(static_cast<unsigned>(sched_getcpu()), &now));
  }
  const cpu_set_t after = allowed_now();
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

}  // namespace
