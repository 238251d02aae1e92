#include <gtest/gtest.h>

#include "compiler/spmm_kernel_impl.hpp"

namespace {

using spjit::WorkspacePool;

TEST(WorkspacePool, GivesABufferBackThatIsLongEnough) {
  const WorkspacePool pool;
  const float* small = nullptr;
  {
    const WorkspacePool::Loan loan(pool, 64);
    small = loan.data();
  }

  const WorkspacePool::Loan longer(pool, 4096);
  const WorkspacePool::Loan as_long(pool, 64);

  EXPECT_NE(longer.data(), small);
  EXPECT_EQ(as_long.data(), small);
}

TEST(WorkspacePool, TwoLoansShareNothing) {
  const WorkspacePool pool;
  const WorkspacePool::Loan one(pool, 64);

  const WorkspacePool::Loan other(pool, 64);

  EXPECT_NE(one.data(), other.data());
}

TEST(WorkspacePool, NothingIsLentForNothing) {
  const WorkspacePool pool;

  EXPECT_EQ(WorkspacePool::Loan(pool, 0).data(), nullptr);
}

}  // namespace
