#pragma once

/// @file
/// Ways to call the layers of a network, which the kind `layer` compares.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "spjit/layout.hpp"
#include "spjit/target.hpp"

namespace spjit::bench {

/// Who adds the bias and takes the GELU (erf).
enum class Finishing : std::uint8_t {
  none,   ///< nobody: C is the product
  fused,  ///< the kernel, as its epilogue
  apart,  ///< a pass over C after the kernel
};

/// How the layers of a network are called.
struct Way {
  std::string name;
  Layout layout = Layout::row_major;           ///< of B and of C
  std::optional<std::int64_t> typical_n = {};  ///< of a run-time n; none: compiled for this n
  std::int64_t batch = 1;                      ///< products of n / batch tokens each
  Finishing finishing = Finishing::none;
  bool runtime_values = false;        ///< each run brings A's values
  std::optional<Target> target = {};  ///< compiled for; none: what the bench is for
};

/// Ways to compute the same, each held against the first.
struct Comparison {
  std::string name;  ///< "layout"; of tokens-major B and C "batch-tokens"
  std::vector<Way> ways;
  std::vector<std::int64_t> n;  ///< tokens
};

/// In the order in which they are measured:
/// - `layout`: tokens-major B and C against feature-major ones;
/// - `runtime-n`: a kernel for any n, made for a typical n of 16, 128 or 512, against one for n;
/// - `epilogue`: bias and GELU fused and apart, against the product alone;
/// - `batch`: eight products of 128 tokens against one of 1024;
/// - `values`: A's values in a buffer of the run's against those of the kernel;
/// and those but the first again, with all of their ways tokens-major: `runtime-n-tokens` and so
/// on. With names, only those; throws InvalidArgument for one that there is not.
[[nodiscard]] std::vector<Comparison> list_comparisons(const std::vector<std::string>& names = {});

}  // namespace spjit::bench
