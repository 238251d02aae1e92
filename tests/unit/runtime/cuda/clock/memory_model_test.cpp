// What many SMs ask for is served in the order of its times, whatever order it is asked in.

#include "runtime/cuda/clock/memory_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace spjit {
namespace {

TEST(SharedServer, WhatIsLateTakesNothingFromWhatComesBefore) {
  SharedServer server;

  EXPECT_EQ(server.serve(1000, 2), 1002);
  EXPECT_EQ(server.serve(10, 2), 12);
  EXPECT_EQ(server.serve(500.5, 2), 502.5);
}

TEST(SharedServer, RequestsOfOneTimeTakeAsLongAsAllOfThem) {
  SharedServer server;
  double last = 0;
  for (int i = 0; i < 1000; ++i) last = std::max(last, server.serve(100, 0.25));

  // From the slot on that holds cycle 100.
  EXPECT_NEAR(last, 100 + 250, 8);
  EXPECT_NEAR(server.serve(100, 1), 100 + 250, 8);
  EXPECT_EQ(server.serve(500, 1), 501);
}

TEST(SharedServer, ALongRequestFillsSeveralSlots) {
  SharedServer server;

  EXPECT_NEAR(server.serve(0, 100), 100, 1e-9);
  EXPECT_GE(server.serve(3, 1), 101);
  EXPECT_GE(server.serve(50, 1), 101);
  EXPECT_EQ(server.serve(200, 1), 201);
}

}  // namespace
}  // namespace spjit
