#pragma once

/// @file
/// The progress of a run, printed while it goes on.

#include <chrono>
#include <cstddef>
#include <string>

#include "bench/side_by_side/measure_case.hpp"

namespace spjit::side_by_side {

/// "spjit 12.1 us 183 GFLOP/s; times as long: csr 1.8, openblas 5.2, libxsmm failed"
[[nodiscard]] std::string summary_of(const CaseResult& result);

/// How much of a run is done and how long the rest takes, by the mean of what is done.
class Progress {
 public:
  explicit Progress(std::size_t total);

  /// One more is done. "[ 12/232, 3:05 left]"
  [[nodiscard]] std::string advance();

 private:
  std::chrono::steady_clock::time_point begin_;
  std::size_t total_;
  std::size_t done_ = 0;
};

}  // namespace spjit::side_by_side
