#pragma once

/// @file
/// A dense product in the fastest of a library's ways.

#include <string>
#include <utility>
#include <vector>

#include "bench/side_by_side/peers.hpp"
#include "tools/peers/dense_call.hpp"

namespace spjit::side_by_side {

[[nodiscard]] inline DenseProblem dense_problem(const Problem& problem) {
  return {problem.matrix->rows,
          problem.matrix->cols,
          problem.n,
          require_dense(problem),
          problem.b,
          problem.c};
}

/// The library that the calls are of must outlive it.
class DenseRunnable final : public Runnable {
 public:
  DenseRunnable(std::vector<DenseCall> calls, const DenseProblem& problem)
      : product_(std::move(calls), problem) {}

  void receive() override { product_.receive(); }
  void run() override { product_.run(); }
  void publish() override { product_.publish(); }
  [[nodiscard]] std::string detail() const override { return product_.way(); }

 private:
  FastestCall product_;
};

}  // namespace spjit::side_by_side
