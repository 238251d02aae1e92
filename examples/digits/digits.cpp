// Classifies handwritten digits with a pruned three-layer network, once through kernels that spjit
// compiles for exactly these weights and once through plain dense loops in double precision. Fails
// if the two are not equally accurate. README.md here says where the weights come from.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "spjit/spjit.hpp"

namespace {

constexpr int k_layers = 3;
constexpr int k_timed_runs = 50;

// A feature-major matrix `[features x samples]`: a column is a sample.
template <typename T>
struct Activations {
  std::int64_t features = 0;
  std::int64_t samples = 0;
  std::vector<T> values;
};

struct Layer {
  spjit::CsrMatrix weight;  // [out x in]
  std::vector<float> bias;  // [out]
};

std::vector<Layer> load_layers(const std::filesystem::path& folder) {
  std::vector<Layer> layers;
  for (int i = 1; i <= k_layers; ++i) {
    const std::string name = "fc" + std::to_string(i);
    layers.push_back({spjit::load_matrix(folder / (name + ".npz")),
                      spjit::load_dense(folder / (name + "_bias.npy")).values});
  }
  return layers;
}

template <typename T>
void add_bias(Activations<T>& x, const std::vector<float>& bias, bool with_relu) {
  for (std::int64_t i = 0; i < x.features; ++i) {
    T* row = x.values.data() + i * x.samples;
    for (std::int64_t j = 0; j < x.samples; ++j) {
      row[j] += static_cast<T>(bias[static_cast<std::size_t>(i)]);
      row[j] = with_relu ? std::max(row[j], T{0}) : row[j];
    }
  }
}

// What one way to multiply makes of the network.
template <typename T>
struct Result {
  Activations<T> logits;         // [10 x samples]
  std::vector<double> layer_us;  // the product alone, best of the timed runs
};

// `multiply(layer, b, c)` computes c[out x samples] = weight * b[in x samples].
template <typename T, typename Multiply>
Result<T> run_network(const std::vector<Layer>& layers, const Activations<T>& inputs,
                      int timed_runs, const Multiply& multiply) {
  Result<T> result{inputs, {}};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    Activations<T> out{layers[i].weight.rows, inputs.samples, {}};
    out.values.resize(static_cast<std::size_t>(out.features * out.samples));
    double best_us = INFINITY;
    for (int run = 0; run < timed_runs; ++run) {
      const auto start = std::chrono::steady_clock::now();
      multiply(i, result.logits.values.data(), out.values.data());
      const std::chrono::duration<double, std::micro> took =
          std::chrono::steady_clock::now() - start;
      best_us = std::min(best_us, took.count());
    }
    result.layer_us.push_back(best_us);
    add_bias(out, layers[i].bias, i + 1 < layers.size());
    result.logits = std::move(out);
  }
  return result;
}

// All that a user of spjit writes: compile once, run on his own row-major arrays.
Result<float> run_sparse(const std::vector<Layer>& layers, const Activations<float>& inputs) {
  std::vector<spjit::Kernel> kernels;
  kernels.reserve(layers.size());
  for (const Layer& layer : layers) {
    kernels.push_back(spjit::compile({.a = layer.weight, .n = inputs.samples}));
  }
  return run_network(layers, inputs, k_timed_runs,
                     [&](std::size_t i, const float* b, float* c) { kernels[i].run(b, c); });
}

Result<double> run_dense(const std::vector<Layer>& layers, const Activations<float>& inputs) {
  const std::int64_t n = inputs.samples;
  std::vector<std::vector<double>> dense;
  for (const Layer& layer : layers) {
    const spjit::CsrMatrix& a = layer.weight;
    std::vector<double>& full = dense.emplace_back(static_cast<std::size_t>(a.rows * a.cols), 0.0);
    for (std::size_t row = 0; row + 1 < a.row_ptrs.size(); ++row) {
      for (auto e = static_cast<std::size_t>(a.row_ptrs[row]);
           e < static_cast<std::size_t>(a.row_ptrs[row + 1]); ++e) {
        full[row * static_cast<std::size_t>(a.cols) + static_cast<std::size_t>(a.col_idxs[e])] =
            static_cast<double>(a.values[e]);
      }
    }
  }
  const auto multiply = [&](std::size_t i, const double* b, double* c) {
    const spjit::CsrMatrix& a = layers[i].weight;
    std::fill_n(c, a.rows * n, 0.0);
    for (std::int64_t row = 0; row < a.rows; ++row) {
      for (std::int64_t col = 0; col < a.cols; ++col) {
        const double weight = dense[i][static_cast<std::size_t>(row * a.cols + col)];
        for (std::int64_t j = 0; j < n; ++j) {
          c[row * n + j] += weight * b[col * n + j];
        }
      }
    }
  };
  const Activations<double> wide{inputs.features, n, {inputs.values.begin(), inputs.values.end()}};
  return run_network(layers, wide, 3, multiply);
}

template <typename T>
std::int64_t count_right(const Activations<T>& logits, const std::vector<float>& labels) {
  std::int64_t right = 0;
  for (std::int64_t j = 0; j < logits.samples; ++j) {
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < logits.features; ++i) {
      const T* values = logits.values.data() + j;
      best = values[i * logits.samples] > values[best * logits.samples] ? i : best;
    }
    right += static_cast<float>(best) == labels[static_cast<std::size_t>(j)] ? 1 : 0;
  }
  return right;
}

double max_difference(const Activations<float>& a, const Activations<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a.values[i]) - b.values[i]));
  }
  return largest;
}

/// Times of spjit's kernels alone: the dense loops are the reference for correctness, and too slow
/// to be compared with. `spjit compile` times the layers beside a tuned dense library.
void print_times(const std::vector<Layer>& layers, const Result<float>& sparse) {
  std::printf("\n%-6s %11s %9s %12s\n", "layer", "shape", "sparsity", "spjit [us]");
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const spjit::MatrixStatistics shape = spjit::compute_statistics(layers[i].weight);
    const std::string text = std::to_string(shape.rows) + " x " + std::to_string(shape.cols);
    std::printf("fc%-4zu %11s %7.1f %% %12.1f\n", i + 1, text.c_str(), 100 * shape.sparsity,
                sparse.layer_us[i]);
  }
}

bool run(const std::filesystem::path& folder) {
  const std::vector<Layer> layers = load_layers(folder);
  spjit::DenseMatrix loaded = spjit::load_dense(folder / "test_inputs.npy");
  const std::vector<float> labels = spjit::load_dense(folder / "test_labels.npy").values;
  const Activations<float> inputs{loaded.rows, loaded.cols, std::move(loaded.values)};
  if (inputs.features != layers.front().weight.cols ||
      inputs.samples != static_cast<std::int64_t>(labels.size())) {
    std::printf("%s: inputs, labels and weights do not fit together\n", folder.c_str());
    return false;
  }

  const Result<float> sparse = run_sparse(layers, inputs);
  const Result<double> dense = run_dense(layers, inputs);

  const std::int64_t sparse_right = count_right(sparse.logits, labels);
  const std::int64_t dense_right = count_right(dense.logits, labels);
  const auto percent = [&](std::int64_t right) {
    return 100.0 * static_cast<double>(right) / static_cast<double>(labels.size());
  };
  std::printf("spjit: %lld of %zu digits right, %.2f %%\n", static_cast<long long>(sparse_right),
              labels.size(), percent(sparse_right));
  std::printf("dense: %lld of %zu digits right, %.2f %%\n", static_cast<long long>(dense_right),
              labels.size(), percent(dense_right));
  std::printf("largest difference of a logit (fp32 against double): %.2e\n",
              max_difference(sparse.logits, dense.logits));
  print_times(layers, sparse);
  if (sparse_right != dense_right) {
    std::printf("the accuracies differ: spjit's kernels are wrong\n");
    return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::printf("usage: digits FOLDER, as in: digits examples/digits/weights\n");
    return 2;
  }
  try {
    return run(argv[1]) ? 0 : 1;
  } catch (const std::exception& error) {
    std::printf("digits: %s\n", error.what());
    return 1;
  }
}
