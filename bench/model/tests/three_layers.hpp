#pragma once

/// @file
/// A small network that tests of networks run.

#include <vector>

#include "bench/model/network.hpp"
#include "tests/support/spmm_testing.hpp"

namespace spjit::testing_support {

/// 20 to 30 features and back.
[[nodiscard]] inline std::vector<bench::NetworkLayer> three_layers() {
  return {{"up", random_matrix(30, 20, 0.5, 1)},
          {"square", random_matrix(30, 30, 0.5, 2)},
          {"down", random_matrix(20, 30, 0.5, 3)}};
}

}  // namespace spjit::testing_support
