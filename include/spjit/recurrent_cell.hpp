#pragma once

/// @file
/// Cells of recurrent layers.

#include <cstdint>

namespace spjit {

/// How the next state is made of gates, as PyTorch and ONNX define it.
enum class RecurrentCell : std::uint8_t {
  lstm,             ///< gates i, f, g, o
  gru,              ///< gates r, z, n; r is applied to the product of n: PyTorch's
  gru_reset_first,  ///< gates r, z, n; r is applied to the state before the product of n
  rnn_tanh,         ///< one gate
  rnn_relu,
};

}  // namespace spjit
