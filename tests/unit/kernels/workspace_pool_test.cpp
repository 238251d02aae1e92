#include "kernels/workspace_pool.hpp"

#include <gtest/gtest.h>

#include "matrix/limits.hpp"

namespace {

using spjit::WorkspacePool;

TEST(WorkspacePool, GivesABufferBackThatIsLongEnough) {
  const WorkspacePool pool;
  const float* small = nullptr;
  {
    const WorkspacePool::Loan loan(pool, {64, 64});
    small = loan.data();
  }

  const WorkspacePool::Loan longer(pool, {4096, 4096});
  const WorkspacePool::Loan as_long(pool, {64, 64});

  EXPECT_NE(longer.data(), small);
  EXPECT_EQ(as_long.data(), small);
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

}  // namespace
