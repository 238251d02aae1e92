#include "bench/host/surroundings.hpp"

#include <gtest/gtest.h>

namespace {

TEST(FileNameOf, ComesFromTheCpu) {
  EXPECT_EQ(spjit::bench::file_name_of("AMD EPYC 9354 32-Core"), "amd-epyc-9354-32-core");
  EXPECT_EQ(spjit::bench::file_name_of("Intel(R) Xeon(R)"), "intel-r-xeon-r");
  EXPECT_EQ(spjit::bench::file_name_of(" "), "unknown");
}

}  // namespace
