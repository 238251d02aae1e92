#pragma once

/// @file
/// Layers of all kinds that kernels for a GPU are compared on with the family `reference`.

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/activations.hpp"
#include "tests/support/cuda/cuda_convolutions.hpp"
#include "tests/support/cuda/cuda_layers.hpp"

namespace spjit::testing_support {

struct NamedLayer {
  std::string name;
  LayerCase item;
};

/// Every activation and operand of the epilogue, fixed and run-time n, one unit and several.
[[nodiscard]] inline std::vector<NamedLayer> epilogue_cases() {
  std::vector<NamedLayer> cases;
  unsigned bits = 0;
  for (const Activation activation : k_activations) {
    for (const bool has_units : {false, true}) {
      CudaKernelSpec spec = cuda_spec(8, 37);
      spec.tile.unit_nonzeros = has_units ? 60 : 100'000;
      spec.tile.runtime_sizes = has_units;
      ++bits;
      spec.layer.epilogue = {.scale = bits % 2 == 0,
                             .bias = bits % 3 == 0,
                             .residual = bits % 4 < 2,
                             .activation = activation};
      if (activation == Activation::clamp) {
        spec.layer.epilogue.low = -0.5F;
        spec.layer.epilogue.high = 0.25F;
      }
      set_line(spec.layer.epilogue);
      LayerCase item = layer_case(with_empty_rows(30), spec);
      item.sizes.batch = 2;
      item.sizes.b.distance = 6 * 37;
      item.sizes.c.distance = item.sizes.residual.distance = 30 * 37;
      item.in_place = spec.layer.epilogue.residual && has_units;
      cases.push_back({std::string(to_string(activation)) + (has_units ? " in units" : ""), item});
    }
  }
  return cases;
}

/// The layouts of B and C, blocks of one to four tiles, a batch.
[[nodiscard]] inline std::vector<NamedLayer> token_cases() {
  std::vector<NamedLayer> cases;
  unsigned bits = 0;
  for (const auto& [b_layout, c_layout] : {std::pair{Layout::row_major, Layout::tokens_major},
                                           std::pair{Layout::tokens_major, Layout::row_major},
                                           std::pair{Layout::tokens_major, Layout::tokens_major}}) {
    for (const std::int64_t n1 : {32, 160, 512}) {
      for (const CsrMatrix& matrix :
           {with_empty_rows(70), random_matrix(37, 45, 0.7), random_matrix(1, 1, 0)}) {
        ++bits;
        CudaKernelSpec spec = cuda_spec(36, 85);
        spec.layer = {{.scale = bits % 2 == 0,
                       .bias = bits % 3 == 0,
                       .residual = bits % 4 == 0,
                       .activation = bits % 5 == 0 ? Activation::gelu_tanh : Activation::none},
                      b_layout,
                      c_layout};
        spec.tile.n1 = n1;
        spec.tile.tiles_a_block = n1 == 32 ? 4 : n1 == 160 ? 2 : 1;
        spec.tile.unit_nonzeros = bits % 2 == 0 ? 200 : 100'000;
        spec.tile.runtime_sizes = bits % 3 == 0;
        spec.ldb = std::max<std::int64_t>(85, matrix.cols) + 1;
        spec.ldc = 87;
        LayerCase item = layer_case(matrix, spec);
        item.sizes.batch = 2;
        item.sizes.b.distance = 30;
        item.reorder = bits % 2 == 0 ? ReorderAlgorithm::similarity : ReorderAlgorithm::none;
        item.sizes.c.distance = 90 * 90;
        cases.push_back({"tokens " + std::to_string(bits), item});
      }
    }
  }
  return cases;
}

/// Values at run time, in rows and in tokens.
[[nodiscard]] inline std::vector<NamedLayer> value_cases() {
  std::vector<NamedLayer> cases;
  for (const bool has_tokens : {false, true}) {
    CudaKernelSpec spec = cuda_spec(20, 37);
    spec.layer.runtime_values = true;
    spec.layer.epilogue = {.bias = true, .residual = true, .activation = Activation::relu};
    spec.tile.unit_nonzeros = has_tokens ? 200 : 100'000;
    spec.tile.runtime_sizes = !has_tokens;
    if (has_tokens) spec.layer.b_layout = spec.layer.c_layout = Layout::tokens_major;
    spec.ldb = spec.ldc = 50;
    LayerCase item = layer_case(random_matrix(50, 45, 0.7), spec);
    item.reorder = ReorderAlgorithm::none;
    cases.push_back({has_tokens ? "values, tokens" : "values, rows", item});
  }
  return cases;
}

/// Every geometry, in both layouts of pixels; some with values at run time.
[[nodiscard]] inline std::vector<NamedLayer> convolution_layers() {
  std::vector<NamedLayer> cases;
  unsigned bits = 0;
  for (const Convolution& of : geometries()) {
    ++bits;
    Problem problem = problem_of_convolution(of, 16);
    problem.b.layout = bits % 2 == 0 ? Layout::tokens_major : Layout::row_major;
    problem.c.layout = bits % 3 == 0 ? Layout::tokens_major : Layout::row_major;
    problem.runtime_values = bits % 4 == 0;
    if (bits % 5 == 0) problem.epilogue = {.bias = true, .activation = Activation::relu};
    LayerCase item = convolution_case(problem, 9);
    if (!item.spec.layer.convolution) continue;
    item.spec.tile.unit_nonzeros = bits % 2 == 0 ? 300 : 100'000;
    item.spec.tile.tiles_a_block = std::int64_t{1} << bits % 3;
    item.sizes.batch = 2;
    item.sizes.b.distance = 30;
    item.sizes.c.distance = 16 * item.sizes.n;
    cases.push_back({std::string(to_string(of)), item});
  }
  return cases;
}

}  // namespace spjit::testing_support
