#pragma once

/// @file
/// Ways to call a library for one dense product, of which the fastest is taken.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/float_buffer.hpp"

namespace spjit {

/// C `[m x n]` = A `[m x k]` * B `[k x n]`, all row-major and contiguous.
struct DenseProblem {
  std::int64_t m = 0;
  std::int64_t k = 0;
  std::int64_t n = 0;
  const float* a = nullptr;
  const float* b = nullptr;
  float* c = nullptr;
};

/// A as W `[k x m]`: what tokens are multiplied with.
[[nodiscard]] FloatBuffer transposed_weights(const DenseProblem& problem);

/// One way.
struct DenseCall {
  std::string way;  ///< as a library's user would call it: "sgemv a token"
  /// Whether it takes B `[n x k]` and C `[n x m]`, a row a token; else both as a DenseProblem has
  /// them.
  bool has_tokens = false;
  std::function<void(const float* b, float* c)> run = {};
};

/// A product by the fastest of some ways, each of which runs a few times when this is made.
class FastestCall {
 public:
  /// Takes the first of ways that are equally fast. Precondition: there is one. B and C of the
  /// problem are borrowed, C is written.
  FastestCall(std::vector<DenseCall> calls, const DenseProblem& problem);

  /// Computes C, or where the way has tokens, a C of its own from the B of the last receive().
  void run();
  /// Conversions that a user of tokens does not need: bring the problem's B into the order of
  /// tokens, and such a C into the problem's. Other ways need none. receive() is called once by
  /// itself.
  void receive();
  void publish() const;

  /// The way that was taken.
  [[nodiscard]] const std::string& way() const noexcept { return call_.way; }

 private:
  [[nodiscard]] double least_us(const DenseCall& call);
  void run(const DenseCall& call);

  DenseProblem problem_;
  FloatBuffer b_tokens_;
  FloatBuffer c_tokens_;
  DenseCall call_;
};

}  // namespace spjit
