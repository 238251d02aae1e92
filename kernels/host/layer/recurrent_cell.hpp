#pragma once

/// @file
/// Cells of recurrent layers: what becomes of the sums of a step's two products, in one pass over
/// them while they are in the nearest cache.
///
/// x is a sum of the input's product, h one of the state's, each with its bias; s is the logistic
/// function. All operations are fp32, `fma(a, b, c)` is rounded once:
/// - lstm:            c = fma(s(i), tanh(g), s(f) * c), h = s(o) * tanh(c); each gate is x + h
/// - gru:             n = tanh(fma(s(r), h_n, x_n)), h = fma(s(z), h - n, n)
/// - gru_reset_first: n = tanh(x_n + h_n), the rest as gru; h_n is a product with s(r) * h
/// - rnn_tanh, rnn_relu: h = tanh(x + h), or x + h but 0 below 0
///
/// s and tanh are those of kernels/host/layer/activation_vectors.inc. Every instruction set gives
/// the same bits, `generic` too, whatever the lane.

#include <cstdint>

#include "spjit/recurrent_cell.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// One sequence at one step. Gates follow one another in the order of PyTorch, `hidden` floats
/// each: i, f, g, o; r, z, n. What is written overlaps nothing that is read, but itself.
struct CellStep {
  const float* input;      ///< `[gates x hidden]`: sums of the input's product
  const float* recurrent;  ///< `[gates x hidden]`: sums of the state's product
  float* state;            ///< `[hidden]`: h, which is replaced
  float* memory;           ///< `[hidden]`: c of an LSTM, which is replaced; else null
  float* output;           ///< `[hidden]`: h once more
  std::int64_t hidden;
};

using CellFunction = void (*)(const CellStep&);

/// Gates of a cell: 4, 3 or 1.
[[nodiscard]] constexpr std::int64_t gates_of(RecurrentCell cell) noexcept {
  if (cell == RecurrentCell::lstm) return 4;
  return cell == RecurrentCell::gru || cell == RecurrentCell::gru_reset_first ? 3 : 1;
}

/// The cell for vectors of `isa`. Precondition: this CPU has `isa`.
[[nodiscard]] CellFunction cell_function(RecurrentCell cell, HostIsa isa);

/// The step of gru_reset_first before the product of n: writes s(x_r + h_r) * h to `output` and
/// keeps the state. Precondition: this CPU has `isa`.
[[nodiscard]] CellFunction reset_function(HostIsa isa);

}  // namespace spjit
