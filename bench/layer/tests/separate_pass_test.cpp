#include "bench/layer/separate_pass.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/arithmetic.hpp"
#include "kernels/host/layer/activation.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;
using namespace spjit::testing_support;

/// Element by element.
std::vector<float> expected_of(std::vector<float> c, const SeparatePass& pass, HostIsa isa) {
  for (std::int64_t feature = 0; feature < pass.features; ++feature) {
    for (std::int64_t token = 0; token < pass.shape.n; ++token) {
      float& element = c[to_size(pass.shape.offset(pass.features, feature, token))];
      element += pass.bias[feature];
      activate({&element, 1}, pass.activation, {}, isa);
    }
  }
  return c;
}

TEST(SeparatePass, HasTheBitsOfElementsFinishedOneByOne) {
  for (const HostIsa isa : {HostIsa::avx512, HostIsa::avx2, HostIsa::generic}) {
    if (!Target(isa).runs_here()) continue;
    for (const auto& [features, n] : {std::pair{1, 1}, {37, 1}, {1, 37}, {20, 35}}) {
      for (const Layout layout : {Layout::row_major, Layout::tokens_major}) {
        for (const int threads : {1, 3}) {
          const std::vector<float> bias = dense_values(features, 1);
          std::vector<float> c = dense_values(std::int64_t{features} * n, 2);
          c.front() = std::numeric_limits<float>::quiet_NaN();
          SeparatePass pass{c.data(), features, {n, layout}, bias.data(), Activation::gelu_erf};
          const std::vector<float> expected = expected_of(c, pass, isa);
          WorkerPool pool(threads);

          run_separate_pass(pass, isa, pool);

          for (std::size_t i = 0; i < c.size(); ++i) {
            ASSERT_EQ(std::bit_cast<std::uint32_t>(c[i]), std::bit_cast<std::uint32_t>(expected[i]))
                << features << "x" << n << " at " << i << ", " << threads << " threads";
          }
        }
      }
    }
  }
}

}  // namespace
