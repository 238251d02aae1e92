#include "kernels/host/operands/workspace_pool.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/memory_bytes.hpp"
#include "tests/support/allocation_counter.hpp"
#include "tests/support/forked_child.hpp"

namespace {

using spjit::WorkspaceNeed;
using spjit::WorkspacePool;
using spjit::WorkspaceSlots;
using spjit::testing_support::allocations_so_far;
using spjit::testing_support::ends_in_a_child;

/// Buffers that one loan after another of so many floats makes.
std::int64_t buffers_made(const WorkspacePool& pool, const std::vector<std::int64_t>& floats) {
  const std::int64_t before = allocations_so_far();
  for (const std::int64_t wanted : floats) {
    const WorkspacePool::Loan loan(pool, {wanted, wanted});
  }
  return allocations_so_far() - before;
}

TEST(WorkspacePool, GivesABufferBackThatIsLongEnough) {
  const WorkspacePool pool;
  const float* first = nullptr;
  {
    const WorkspacePool::Loan loan(pool, {4096, 4096});
    first = loan.data();
  }

  const WorkspacePool::Loan shorter(pool, {64, 64});

  EXPECT_EQ(shorter.data(), first);
}

TEST(WorkspacePool, LendsInAChildThatIsForkedWhileThreadsBorrow) {
  const std::shared_ptr<const WorkspacePool> pool = WorkspacePool::shared();
  std::atomic<bool> stop = false;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop) const WorkspacePool::Loan loan(*WorkspacePool::shared(), {64, 64});
    });
  }

  bool all_end = true;
  for (int i = 0; i < 300 && all_end; ++i) {
    all_end = ends_in_a_child([&] {
      const WorkspacePool::Loan loan(*WorkspacePool::shared(), {64, 64});
      return loan.data() != nullptr;
    });
  }

  stop = true;
  EXPECT_TRUE(all_end);
}

TEST(WorkspacePool, OneThatIsTooSmallMakesRoomForALargerOne) {
  const WorkspacePool pool;
  buffers_made(pool, {64});

  EXPECT_EQ(buffers_made(pool, {4096}), 1);
  EXPECT_EQ(buffers_made(pool, {64, 4096, 64}), 0);
  {
    const WorkspacePool::Loan large(pool, {4096, 4096});
    EXPECT_EQ(buffers_made(pool, {64}), 1);  // the first small one is gone
  }
}

TEST(WorkspacePool, KeepsAsManyAsWereLentAtOnce) {
  const WorkspacePool pool;
  {
    const WorkspacePool::Loan one(pool, {64, 64});
    const WorkspacePool::Loan other(pool, {64, 64});
  }
  const std::int64_t before = allocations_so_far();
  {
    const WorkspacePool::Loan one(pool, {64, 64});
    const WorkspacePool::Loan other(pool, {64, 64});
  }

  EXPECT_EQ(allocations_so_far(), before);
}

TEST(WorkspacePool, PrefersTheBufferThatAThreadHadLast) {
  const WorkspacePool pool;
  auto own = std::make_unique<WorkspacePool::Loan>(pool, spjit::WorkspaceSize{64, 64});
  const float* const first = own->data();
  std::promise<void> lent;
  std::promise<void> returned;
  std::thread other([&] {
    const WorkspacePool::Loan theirs(pool, {64, 64});
    lent.set_value();
    returned.get_future().wait();
  });
  lent.get_future().wait();
  own.reset();
  returned.set_value();
  other.join();  // its buffer came back last

  const WorkspacePool::Loan again(pool, {64, 64});

  EXPECT_EQ(again.data(), first);
}

TEST(WorkspacePool, IsOneForAllWhoShareItAtATime) {
  const auto one = WorkspacePool::shared();

  EXPECT_EQ(WorkspacePool::shared(), one);
}

TEST(WorkspacePool, TwoLoansShareNothing) {
  const WorkspacePool pool;
  const WorkspacePool::Loan one(pool, {64, 64});

  const WorkspacePool::Loan other(pool, {64, 64});

  EXPECT_NE(one.data(), other.data());
}

TEST(WorkspacePool, NothingIsLentForNothing) {
  const WorkspacePool pool;

  EXPECT_EQ(WorkspacePool::Loan(pool, {0, 0}).data(), nullptr);
}

TEST(WorkspacePool, LendsMoreThanTheMemoryWhereLittleOfItIsTouched) {
  const std::int64_t floats = spjit::memory_bytes() / 2;  // twice the memory
  const WorkspacePool pool;

  const WorkspacePool::Loan loan(pool, {floats, 1000});
  loan.data()[floats - 1] = 2;

  EXPECT_EQ(loan.data()[floats - 1], 2.0F);
}

TEST(WorkspacePool, RefusesToLendMoreThanTheMemory) {
  const std::int64_t floats = spjit::memory_bytes() / 2;
  const WorkspacePool pool;
  const auto lend = [&](const spjit::WorkspaceSize& wanted) {
    const WorkspacePool::Loan loan(pool, wanted);
  };

  EXPECT_THROW(lend({4 * floats, floats}), spjit::NoMemory);
  EXPECT_THROW(lend({floats, floats}), spjit::NoMemory);
}

TEST(WorkspaceSlots, LendsItsMemoryAndNoMore) {
  const WorkspaceNeed need{2, 20};
  alignas(64) std::array<std::byte, 256> memory{};
  WorkspaceSlots slots(memory.data(), need);
  const std::int64_t before = allocations_so_far();

  float* one = slots.take(20);
  float* other = slots.take(1);

  EXPECT_EQ(need.bytes(), 256);  // whole cache lines
  EXPECT_EQ(allocations_so_far() - before, 0);
  EXPECT_EQ(std::abs(one - other), 32);
  EXPECT_THROW(static_cast<void>(slots.take(1)), std::logic_error);
  slots.give_back(one);
  EXPECT_EQ(slots.take(3), one);
  slots.give_back(one);
  EXPECT_THROW(static_cast<void>(slots.take(21)), std::logic_error);
}

TEST(WorkspaceSlots, ALoanOfThemLeavesThePoolAlone) {
  const WorkspaceNeed need{1, 64};
  alignas(64) std::array<std::byte, 256> memory{};
  WorkspaceSlots slots(memory.data(), need);
  const WorkspacePool pool;
  for (int i = 0; i < 3; ++i) {
    const WorkspacePool::Loan loan(pool, {64, 64}, &slots);
    EXPECT_EQ(loan.data(), reinterpret_cast<float*>(memory.data()));
  }

  EXPECT_GT(buffers_made(pool, {64}), 0);  // it was given none
}

TEST(WorkspaceSlots, OfNothingNeedNothing) {
  EXPECT_EQ((WorkspaceNeed{4, 0}.bytes()), 0);
  EXPECT_EQ((WorkspaceNeed{0, 64}.bytes()), 0);
  EXPECT_THROW(static_cast<void>(WorkspaceNeed{1 << 20, std::int64_t{1} << 44}.bytes()),
               spjit::InvalidArgument);
}

}  // namespace
