#pragma once

/// @file
/// Recurrent layers: LSTM, GRU and RNN of compiled kernels (docs/use/recurrent.md).

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "spjit/export.hpp"
#include "spjit/kernel.hpp"
#include "spjit/recurrent_cell.hpp"

namespace spjit {

/// The kernels of one direction, whose A are weights with the rows of all gates, one gate after
/// another in the order above. Each is a product on this host in fp32, and has an epilogue of a
/// bias or none. Whatever layouts they were compiled for, runs ask for tokens.
struct RecurrentKernels {
  /// `[gates * hidden x inputs]`. n is steps * batch: at run time; or fixed, for one step alone.
  Kernel input;
  /// `[gates * hidden x outputs]`; with gru_reset_first only the rows of r and z. n is the batch,
  /// at run time or fixed. The fastest families for a few sequences need a fixed n. The n of
  /// the next two kernels is the batch, too.
  Kernel recurrent;
  std::optional<Kernel> candidate = {};   ///< of gru_reset_first alone: n, `[hidden x hidden]`
  std::optional<Kernel> projection = {};  ///< of an LSTM: `[outputs x hidden]`, no bias; default:
                                          ///< outputs are hidden
};

/// Biases of one direction, where the kernels of that name have one.
struct RecurrentBiases {
  const float* input = nullptr;      ///< `[gates * hidden]`
  const float* recurrent = nullptr;  ///< as many as that kernel has rows
  const float* candidate = nullptr;  ///< `[hidden]`
};

/// Floats between the first elements of rows of x or y.
struct RecurrentStrides {
  std::int64_t step = 0;       ///< from one step to the next; 0: as in a contiguous array
  std::int64_t batch = 0;      ///< from one sequence to the next; 0: the same
  std::int64_t direction = 0;  ///< of y from one direction to the other; 0: the same
};

/// The operands of a run, borrowed. Outputs overlap nothing, but that h_n may be h0 and c_n c0.
struct RecurrentArguments {
  std::int64_t steps = 0;    ///< 0 is legal: the state stays as it was
  std::int64_t batch = 0;    ///< sequences; 0 is legal: nothing is written
  const float* x = nullptr;  ///< `[steps x batch x inputs]`
  RecurrentStrides x_strides = {};
  float* y = nullptr;  ///< `[steps x batch x directions x outputs]`; null: not wanted
  RecurrentStrides y_strides = {};
  /// `[batch]`: steps of each sequence, 0 to `steps`; null: all. Of later steps y is 0. A sequence
  /// keeps the state that it ends with; the other direction begins there.
  const std::int64_t* lengths = nullptr;
  const float* h0 = nullptr;  ///< `[directions x batch x outputs]`; null: 0
  const float* c0 = nullptr;  ///< of an LSTM: `[directions x batch x hidden]`; null: 0
  float* h_n = nullptr;       ///< as h0, after the last step; null: not wanted
  float* c_n = nullptr;       ///< as c0
  std::array<RecurrentBiases, 2> biases = {};  ///< of each direction
};

/// A recurrent layer of one or two directions. Copies share it. All members are const and
/// thread-safe; runs take their memory from the pool that runs of kernels take it from.
///
/// The bits of a run depend on weights and operands alone. Sums are those of kernels, and cells
/// have the same bits in every instruction set.
class SPJIT_EXPORT RecurrentLayer {
 public:
  enum class Direction : std::uint8_t { forward, reverse, both };

  /// `kernels`: of `both` two, first those of the forward direction; else one. Throws
  /// InvalidArgument, in one line, for kernels that do not fit the cell or one another.
  RecurrentLayer(RecurrentCell cell, Direction direction, std::vector<RecurrentKernels> kernels);

  [[nodiscard]] RecurrentCell cell() const noexcept;
  [[nodiscard]] std::int64_t directions() const noexcept;
  [[nodiscard]] std::int64_t inputs() const noexcept;   ///< of a step
  [[nodiscard]] std::int64_t hidden() const noexcept;   ///< floats of a gate, and of c
  [[nodiscard]] std::int64_t outputs() const noexcept;  ///< floats of h

  /// Throws as Kernel::run(), and InvalidArgument for
  /// - a null pointer to what is not empty
  /// - a bias or state that the layer has not, or that is missing
  /// - lengths beyond the steps, strides shorter than a row, sizes below 0 or beyond 64-bit offsets
  /// - an output that overlaps something
  void run(const RecurrentArguments& arguments) const;

 private:
  class Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace spjit
