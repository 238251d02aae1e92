#pragma once

/// @file
/// Operands of a layer: B, C and those of its epilogue.

#include <cstdint>
#include <vector>

#include "base/call_timer.hpp"
#include "base/float_buffer.hpp"
#include "compiler/layer_reference.hpp"
#include "spjit/arguments.hpp"
#include "spjit/kernel.hpp"
#include "spjit/problem.hpp"
#include "tools/options/problem_options.hpp"

namespace spjit::cli {

/// Operands of a batch of runs, one after another in memory, contiguous and in the layouts of the
/// problem, which is borrowed. B and what no file gives are pattern_value() of a fixed seed, as the
/// types of the problem have it (in_type()).
class Operands {
 public:
  Operands(const Problem& problem, const OperandFiles& files, std::int64_t batch);

  /// Bytes that they take.
  [[nodiscard]] static double bytes(const Problem& problem, std::int64_t batch);

  /// A run of the whole batch. A kernel that takes A's values has to get them besides.
  [[nodiscard]] Arguments arguments() const;
  /// B and C of one of the batch, as a peer sees them: row-major [k x n] and [m x n]. Precondition:
  /// they are f32.
  [[nodiscard]] const float* b(std::int64_t item) const { return b_.data() + item * b_elements_; }
  [[nodiscard]] float* c(std::int64_t item) const { return c_.data() + item * c_elements_; }
  /// All of B, to be read before a cold run.
  [[nodiscard]] InputRows all_of_b() const;
  [[nodiscard]] std::int64_t batch() const noexcept { return batch_; }

  /// Writes NaN into all of C, of integers the least number: what a kernel does not write shows.
  void spoil_c();
  /// Compares what a run of arguments() has made of C with float64.
  [[nodiscard]] CheckResult compare() const;

 private:
  [[nodiscard]] LayerInputs inputs_of(std::int64_t item) const;
  /// The scale and the zero point of all of B, if it has them.
  [[nodiscard]] std::optional<ByteScale> of_tensor() const;

  const Problem& problem_;
  std::int64_t batch_;
  Placement b_layout_;
  Placement c_layout_;  ///< of the residual too
  std::int64_t b_elements_;
  std::int64_t c_elements_;
  FloatBuffer b_;
  FloatBuffer c_;
  FloatBuffer residual_;
  std::vector<float> scale_;
  std::vector<float> bias_;
};

}  // namespace spjit::cli
