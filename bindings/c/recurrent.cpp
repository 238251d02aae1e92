// Recurrent layers of the C interface.

#include "spjit/recurrent.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "bindings/c/guard.hpp"
#include "bindings/c/handles.hpp"

namespace spjit::c {
namespace {

RecurrentCell cell_of(std::int32_t cell) {
  constexpr RecurrentCell k_cells[] = {RecurrentCell::lstm, RecurrentCell::gru,
                                       RecurrentCell::gru_reset_first, RecurrentCell::rnn_tanh,
                                       RecurrentCell::rnn_relu};
  if (cell < SPJIT_LSTM || cell > SPJIT_RNN_RELU) {
    throw InvalidArgument(fmt::format(
        "cell is {}; expected {} to {}: SPJIT_LSTM, _GRU, _GRU_RESET_FIRST, _RNN_TANH, _RNN_RELU",
        cell, static_cast<int>(SPJIT_LSTM), static_cast<int>(SPJIT_RNN_RELU)));
  }
  return k_cells[cell - SPJIT_LSTM];
}

RecurrentLayer::Direction direction_of(std::int32_t direction) {
  using Direction = RecurrentLayer::Direction;
  check_enum(direction, "direction", SPJIT_BOTH_DIRECTIONS,
             "SPJIT_FORWARD, _REVERSE, _BOTH_DIRECTIONS");
  constexpr Direction k_directions[] = {Direction::forward, Direction::reverse, Direction::both};
  return k_directions[direction];
}

std::optional<Kernel> kernel_or_none(const spjit_kernel* kernel) {
  if (kernel == nullptr) return std::nullopt;
  return kernel->kernel;
}

/// Throws InvalidArgument for a missing kernel, or one of a direction that the layer has not.
std::vector<RecurrentKernels> kernels_of(const spjit_recurrent_layer& given) {
  const std::size_t directions = given.direction == SPJIT_BOTH_DIRECTIONS ? 2 : 1;
  std::vector<RecurrentKernels> kernels;
  for (std::size_t i = 0; i < directions; ++i) {
    require(given.input[i], "an input kernel");
    require(given.recurrent[i], "a recurrent kernel");
    kernels.push_back({.input = given.input[i]->kernel,
                       .recurrent = given.recurrent[i]->kernel,
                       .candidate = kernel_or_none(given.candidate[i]),
                       .projection = kernel_or_none(given.projection[i])});
  }
  const auto is_given = [](const spjit_kernel* const(&each)[2]) { return each[1] != nullptr; };
  if (directions == 1 && (is_given(given.input) || is_given(given.recurrent) ||
                          is_given(given.candidate) || is_given(given.projection))) {
    throw InvalidArgument("kernels of two directions are given; expected one");
  }
  return kernels;
}

RecurrentArguments arguments_of(const spjit_recurrent_arguments& given) {
  RecurrentArguments arguments{
      .steps = given.steps,
      .batch = given.batch,
      .x = given.x,
      .x_strides = {.step = given.x_step, .batch = given.x_batch},
      .y = given.y,
      .y_strides = {.step = given.y_step, .batch = given.y_batch, .direction = given.y_direction},
      .lengths = given.lengths,
      .h0 = given.h0,
      .c0 = given.c0,
      .h_n = given.h_n,
      .c_n = given.c_n};
  for (std::size_t i = 0; i < arguments.biases.size(); ++i) {
    arguments.biases[i] = {.input = given.input_bias[i],
                           .recurrent = given.recurrent_bias[i],
                           .candidate = given.candidate_bias[i]};
  }
  return arguments;
}

}  // namespace
}  // namespace spjit::c

using namespace spjit::c;

int spjit_recurrent_create(const spjit_recurrent_layer* layer, spjit_recurrent** recurrent) {
  return guarded([&] {
    spjit_recurrent*& result = result_of(recurrent, "recurrent");
    const auto given = checked_struct(layer, "spjit_recurrent_layer");
    const auto direction = direction_of(given.direction);
    result = new spjit_recurrent{
        spjit::RecurrentLayer(cell_of(given.cell), direction, kernels_of(given))};
  });
}

void spjit_recurrent_destroy(spjit_recurrent* recurrent) { delete recurrent; }

int spjit_recurrent_run(const spjit_recurrent* recurrent,
                        const spjit_recurrent_arguments* arguments) {
  return guarded([&] {
    require(recurrent, "recurrent");
    recurrent->layer.run(arguments_of(checked_struct(arguments, "spjit_recurrent_arguments")));
  });
}
