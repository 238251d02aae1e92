#pragma once

/// @file
/// Which family the rules choose for a drawn product, given the caches. Nothing is compiled.

#include <cstdint>
#include <string>

#include "artifact/families.hpp"
#include "runtime/host/host_device_info.hpp"
#include "spjit/compiler.hpp"
#include "spjit/generate.hpp"
#include "tests/support/compile_testing.hpp"

namespace spjit::testing_support {

/// C [rows x n] = A [rows x cols] * B.
struct Product {
  std::int64_t rows;
  std::int64_t cols;
  double sparsity;
  std::int64_t n;
};

inline CsrMatrix matrix_of(const Product& product) {
  GenerateOptions options;
  options.rows = product.rows;
  options.cols = product.cols;
  options.sparsity = product.sparsity;
  return generate_matrix(options);
}

inline std::string chosen(const HostDeviceInfo& limits, const Problem& problem, bool hot,
                          std::int64_t network_nnz = 0) {
  CompileOptions options;
  options.target = Target(limits.isa);
  options.policy.hot = hot;
  options.policy.network_nnz = network_nnz;
  const DeviceInfo device = limits;
  return std::string(chosen_family({problem, options, device, {}})->name());
}

inline std::string chosen(const HostDeviceInfo& limits, const Product& product, bool hot) {
  return chosen(limits, problem_of(matrix_of(product), product.n), hot);
}

inline std::string hot(const HostDeviceInfo& limits, const Product& product) {
  return chosen(limits, product, true);
}

inline std::string cold(const HostDeviceInfo& limits, const Product& product) {
  return chosen(limits, product, false);
}

}  // namespace spjit::testing_support
