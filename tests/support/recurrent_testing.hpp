#pragma once

/// @file
/// Recurrent layers with random weights, and loops in float64 that say what they compute.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "spjit/compiler.hpp"
#include "spjit/recurrent.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/spmm_testing.hpp"

namespace spjit::testing_support {

/// What a recurrent layer is, apart from its weights.
struct RecurrentShape {
  RecurrentCell cell = RecurrentCell::lstm;
  std::int64_t inputs = 5;
  std::int64_t hidden = 7;
  std::int64_t projected = 0;  ///< outputs of an LSTM with a projection
  RecurrentLayer::Direction direction = RecurrentLayer::Direction::forward;
  bool has_bias = true;

  [[nodiscard]] std::int64_t gates() const {
    if (cell == RecurrentCell::lstm) return 4;
    return cell == RecurrentCell::gru || cell == RecurrentCell::gru_reset_first ? 3 : 1;
  }
  [[nodiscard]] bool resets_first() const { return cell == RecurrentCell::gru_reset_first; }
  [[nodiscard]] std::int64_t recurrent_gates() const { return resets_first() ? 2 : gates(); }
  [[nodiscard]] std::int64_t outputs() const { return projected > 0 ? projected : hidden; }
  [[nodiscard]] std::int64_t directions() const {
    return direction == RecurrentLayer::Direction::both ? 2 : 1;
  }
  [[nodiscard]] bool is_reverse(std::int64_t index) const {
    return index > 0 || direction == RecurrentLayer::Direction::reverse;
  }
};

/// Of one direction.
struct RecurrentWeights {
  CsrMatrix input;
  CsrMatrix recurrent;
  CsrMatrix candidate;
  CsrMatrix projection;
  std::vector<float> input_bias;
  std::vector<float> recurrent_bias;
  std::vector<float> candidate_bias;
};

[[nodiscard]] inline CsrMatrix random_weights(std::int64_t rows, std::int64_t cols,
                                              std::uint64_t seed) {
  GenerateOptions options;
  options.rows = rows;
  options.cols = cols;
  options.sparsity = 0.6;
  options.seed = seed;
  return generate_matrix(options);
}

[[nodiscard]] inline std::vector<RecurrentWeights> weights_of(const RecurrentShape& shape) {
  std::vector<RecurrentWeights> all;
  for (std::int64_t i = 0; i < shape.directions(); ++i) {
    const auto seed = static_cast<std::uint64_t>(100 * i);
    RecurrentWeights one;
    one.input = random_weights(shape.gates() * shape.hidden, shape.inputs, seed + 1);
    one.recurrent =
        random_weights(shape.recurrent_gates() * shape.hidden, shape.outputs(), seed + 2);
    one.candidate = random_weights(shape.hidden, shape.hidden, seed + 3);
    one.projection = random_weights(shape.outputs(), shape.hidden, seed + 4);
    if (shape.has_bias) {
      one.input_bias = dense_values(one.input.rows, seed + 5);
      one.recurrent_bias = dense_values(one.recurrent.rows, seed + 6);
      one.candidate_bias = dense_values(one.candidate.rows, seed + 7);
    }
    all.push_back(std::move(one));
  }
  return all;
}

/// As a recurrent layer takes it, but for `problem`'s other members.
[[nodiscard]] inline Problem recurrent_problem(const CsrMatrix& a, std::int64_t typical,
                                               bool has_bias) {
  Problem problem;
  problem.a = a;
  problem.n = Extent::at_run_time(typical);
  problem.b.layout = Layout::tokens_major;
  problem.c.layout = Layout::tokens_major;
  problem.epilogue.bias = has_bias;
  return problem;
}

[[nodiscard]] inline std::vector<RecurrentKernels> kernels_of(
    const RecurrentShape& shape, const std::vector<RecurrentWeights>& weights,
    const CompileOptions& options = {}) {
  const Compiler compiler(options, uncached());
  const auto kernel = [&](const CsrMatrix& a, std::int64_t typical, bool has_bias) {
    return compiler.compile(recurrent_problem(a, typical, has_bias));
  };
  std::vector<RecurrentKernels> all;
  for (const RecurrentWeights& one : weights) {
    RecurrentKernels kernels{.input = kernel(one.input, 16, shape.has_bias),
                             .recurrent = kernel(one.recurrent, 1, shape.has_bias)};
    if (shape.resets_first()) kernels.candidate = kernel(one.candidate, 1, shape.has_bias);
    if (shape.projected > 0) kernels.projection = kernel(one.projection, 1, false);
    all.push_back(std::move(kernels));
  }
  return all;
}

/// Sequences and states of a run in contiguous arrays; results in float or float64.
template <class Number>
struct RecurrentResult {
  std::vector<Number> y;
  std::vector<Number> h_n;
  std::vector<Number> c_n;
};

struct RecurrentInput {
  std::int64_t steps = 6;
  std::int64_t batch = 3;
  std::vector<std::int64_t> lengths = {};  ///< empty: all steps
  std::vector<float> x = {};
  std::vector<float> h0 = {};
  std::vector<float> c0 = {};

  [[nodiscard]] std::int64_t length(std::int64_t sequence) const {
    return lengths.empty() ? steps : lengths[index(sequence)];
  }
};

[[nodiscard]] inline RecurrentInput input_of(const RecurrentShape& shape, std::int64_t steps,
                                             std::int64_t batch,
                                             std::vector<std::int64_t> lengths = {}) {
  const std::int64_t rows = shape.directions() * batch;
  return {.steps = steps,
          .batch = batch,
          .lengths = std::move(lengths),
          .x = dense_values(steps * batch * shape.inputs, 21),
          .h0 = dense_values(rows * shape.outputs(), 22),
          .c0 = dense_values(rows * shape.hidden, 23)};
}

/// Also with the results as operands; the vectors are resized.
[[nodiscard]] inline RecurrentArguments arguments_of(const RecurrentShape& shape,
                                                     const std::vector<RecurrentWeights>& weights,
                                                     const RecurrentInput& input,
                                                     RecurrentResult<float>& result) {
  const std::int64_t rows = shape.directions() * input.batch;
  result.y.assign(index(input.steps * rows * shape.outputs()), -7.0F);
  result.h_n.assign(index(rows * shape.outputs()), -7.0F);
  const bool has_memory = shape.cell == RecurrentCell::lstm;
  if (has_memory) result.c_n.assign(index(rows * shape.hidden), -7.0F);
  RecurrentArguments arguments;
  arguments.steps = input.steps;
  arguments.batch = input.batch;
  arguments.x = input.x.data();
  arguments.y = result.y.data();
  arguments.lengths = input.lengths.empty() ? nullptr : input.lengths.data();
  arguments.h0 = input.h0.data();
  arguments.c0 = has_memory ? input.c0.data() : nullptr;
  arguments.h_n = result.h_n.data();
  arguments.c_n = has_memory ? result.c_n.data() : nullptr;
  for (std::size_t i = 0; shape.has_bias && i < weights.size(); ++i) {
    arguments.biases[i] = {weights[i].input_bias.data(), weights[i].recurrent_bias.data(),
                           shape.resets_first() ? weights[i].candidate_bias.data() : nullptr};
  }
  return arguments;
}

/// A layer with its weights.
struct WeightedLayer {
  explicit WeightedLayer(const RecurrentShape& shape_in, const CompileOptions& options = {})
      : shape(shape_in),
        weights(weights_of(shape)),
        layer(shape.cell, shape.direction, kernels_of(shape, weights, options)) {}

  [[nodiscard]] RecurrentResult<float> run(const RecurrentInput& input) const {
    RecurrentResult<float> result;
    layer.run(arguments_of(shape, weights, input, result));
    return result;
  }

  RecurrentShape shape;
  std::vector<RecurrentWeights> weights;
  RecurrentLayer layer;
};

/// With kernels of a step that are for so many sequences alone, or all for one step.
[[nodiscard]] inline RecurrentLayer layer_for_batch(const WeightedLayer& layer, std::int64_t batch,
                                                    bool for_one_step = false) {
  std::vector<RecurrentKernels> kernels = kernels_of(layer.shape, layer.weights);
  const auto fixed = [&](const CsrMatrix& a, bool has_bias) {
    Problem problem = recurrent_problem(a, batch, has_bias);
    problem.n = batch;
    return Compiler({}, uncached()).compile(problem);
  };
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const RecurrentWeights& weights = layer.weights[i];
    if (for_one_step) kernels[i].input = fixed(weights.input, layer.shape.has_bias);
    kernels[i].recurrent = fixed(weights.recurrent, layer.shape.has_bias);
    if (kernels[i].candidate) {
      kernels[i].candidate = fixed(weights.candidate, layer.shape.has_bias);
    }
    if (kernels[i].projection) kernels[i].projection = fixed(weights.projection, false);
  }
  return RecurrentLayer(layer.shape.cell, layer.shape.direction, kernels);
}

/// Loops in float64.
class RecurrentLoops {
 public:
  RecurrentLoops(const RecurrentShape& shape, const std::vector<RecurrentWeights>& weights,
                 const RecurrentInput& input)
      : shape_(shape), weights_(weights), input_(input) {
    const std::int64_t rows = shape.directions() * input.batch;
    result_.y.assign(index(input.steps * rows * shape.outputs()), 0);
    result_.h_n.assign(input.h0.begin(), input.h0.end());
    if (shape.cell == RecurrentCell::lstm) {
      result_.c_n.assign(input.c0.begin(), input.c0.end());
    }
    for (std::int64_t i = 0; i < shape.directions(); ++i) {
      for (std::int64_t sequence = 0; sequence < input.batch; ++sequence) run(i, sequence);
    }
  }

  [[nodiscard]] const RecurrentResult<double>& result() const noexcept { return result_; }

 private:
  using Numbers = std::vector<double>;

  static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

  static Numbers product(const CsrMatrix& a, const Numbers& b, const std::vector<float>& bias) {
    Numbers c(bias.begin(), bias.end());
    c.resize(index(a.rows));
    for (std::size_t row = 0; row < c.size(); ++row) {
      for (std::int64_t e = a.row_ptrs[row]; e < a.row_ptrs[row + 1]; ++e) {
        c[row] += double{a.values[index(e)]} * b[index(a.col_idxs[index(e)])];
      }
    }
    return c;
  }

  void run(std::int64_t direction, std::int64_t sequence) {
    const std::int64_t row = direction * input_.batch + sequence;
    const auto h_at = index(row * shape_.outputs());
    const auto c_at = index(row * shape_.hidden);
    const std::int64_t length = input_.length(sequence);
    Numbers h(result_.h_n.begin() + static_cast<std::ptrdiff_t>(h_at),
              result_.h_n.begin() + static_cast<std::ptrdiff_t>(h_at) + shape_.outputs());
    Numbers c(index(shape_.hidden));
    for (std::size_t i = 0; i < c.size() && !result_.c_n.empty(); ++i) c[i] = result_.c_n[c_at + i];
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int64_t step = shape_.is_reverse(direction) ? length - 1 - i : i;
      advance(weights_[index(direction)], step * input_.batch + sequence, h, c);
      for (std::size_t j = 0; j < h.size(); ++j) {
        const std::int64_t place = (step * input_.batch + sequence) * shape_.directions();
        result_.y[index((place + direction) * shape_.outputs()) + j] = h[j];
      }
    }
    std::ranges::copy(h, result_.h_n.begin() + static_cast<std::ptrdiff_t>(h_at));
    if (result_.c_n.empty()) return;
    std::ranges::copy(c, result_.c_n.begin() + static_cast<std::ptrdiff_t>(c_at));
  }

  void advance(const RecurrentWeights& weights, std::int64_t token, Numbers& h, Numbers& c) {
    Numbers x(index(shape_.inputs));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = input_.x[index(token * shape_.inputs) + i];
    const Numbers of_x = product(weights.input, x, weights.input_bias);
    const Numbers of_h = product(weights.recurrent, h, weights.recurrent_bias);
    const std::size_t hidden = index(shape_.hidden);
    const auto gate = [&](std::size_t number, std::size_t i) {
      return of_x[number * hidden + i] + of_h[number * hidden + i];
    };
    Numbers next(hidden);
    if (shape_.cell == RecurrentCell::lstm) {
      for (std::size_t i = 0; i < hidden; ++i) {
        c[i] = sigmoid(gate(1, i)) * c[i] + sigmoid(gate(0, i)) * std::tanh(gate(2, i));
        next[i] = sigmoid(gate(3, i)) * std::tanh(c[i]);
      }
      h = shape_.projected > 0 ? product(weights.projection, next, {}) : next;
      return;
    }
    Numbers of_candidate;
    if (shape_.resets_first()) {
      Numbers reset(hidden);
      for (std::size_t i = 0; i < hidden; ++i) reset[i] = sigmoid(gate(0, i)) * h[i];
      of_candidate = product(weights.candidate, reset, weights.candidate_bias);
    }
    for (std::size_t i = 0; i < hidden; ++i) {
      if (shape_.gates() == 3) {
        const double r_times_h =
            shape_.resets_first() ? of_candidate[i] : sigmoid(gate(0, i)) * of_h[2 * hidden + i];
        const double z = sigmoid(gate(1, i));
        next[i] = (1 - z) * std::tanh(of_x[2 * hidden + i] + r_times_h) + z * h[i];
      } else {
        const double sum = gate(0, i);
        next[i] = shape_.cell == RecurrentCell::rnn_tanh ? std::tanh(sum) : std::max(sum, 0.0);
      }
    }
    h = next;
  }

  const RecurrentShape& shape_;
  const std::vector<RecurrentWeights>& weights_;
  const RecurrentInput& input_;
  RecurrentResult<double> result_;
};

}  // namespace spjit::testing_support
