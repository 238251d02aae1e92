// A run of a recurrent layer: products of compiled kernels, with a cell after each step's.
//
// Sums of the input's product are made for some steps at once, so that its weights are read once
// for them and the sums are still near when their step comes. What a step writes is read by the
// next one, so it stays in the nearest cache.

#include "spjit/recurrent.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "artifact/recurrent_checks.hpp"
#include "base/arithmetic.hpp"
#include "kernels/host/layer/recurrent_cell.hpp"
#include "kernels/host/operands/workspace_pool.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// Sums of the input's product that a run keeps, at most: half of a usual L2 cache.
constexpr std::int64_t k_kept_floats = std::int64_t{1} << 17;
/// But of so many tokens at least, for which the input's weights are worth reading.
constexpr std::int64_t k_least_tokens = 64;

/// Steps whose input is multiplied at once.
std::int64_t steps_at_once(std::int64_t steps, std::int64_t batch, std::int64_t gate_floats) {
  const std::int64_t tokens =
      std::max(k_kept_floats / std::max<std::int64_t>(gate_floats, 1), k_least_tokens);
  return std::clamp<std::int64_t>(tokens / std::max<std::int64_t>(batch, 1), 1,
                                  std::max<std::int64_t>(steps, 1));
}

ConstOperand tokens(const float* data, std::int64_t ld, std::int64_t distance = 0) {
  return {data, {.ld = ld, .distance = distance, .layout = Layout::tokens_major}};
}
Operand tokens(float* data, std::int64_t ld, std::int64_t distance = 0) {
  return {data, {.ld = ld, .distance = distance, .layout = Layout::tokens_major}};
}

void copy_floats(const float* from, std::int64_t count, float* to) {
  if (count > 0) std::memcpy(to, from, to_size(count) * sizeof(float));
}

/// `from` may be null, which is zeros.
void copy_or_clear(const float* from, std::int64_t count, float* to) {
  if (from == nullptr) {
    std::fill_n(to, count, 0.0F);
  } else {
    copy_floats(from, count, to);
  }
}

/// Memory that a run of one direction works in.
struct Memory {
  std::int64_t steps;          ///< whose input is multiplied at once
  std::int64_t state = 0;      ///< `[batch x outputs]`, where it begins; so all that follow
  std::int64_t memory = 0;     ///< `[batch x hidden]`: c
  std::int64_t scratch = 0;    ///< `[batch x hidden]`: h before its projection, or r * h
  std::int64_t projected = 0;  ///< `[batch x outputs]`
  std::int64_t recurrent = 0;  ///< `[batch x gates * hidden]`
  std::int64_t input = 0;      ///< `[steps x batch x gates * hidden]`
  std::int64_t floats = 0;     ///< of all

  Memory(const RecurrentSizes& sizes, std::int64_t all_steps, std::int64_t batch)
      : steps(steps_at_once(all_steps, batch, gates_of(sizes.cell) * sizes.hidden)) {
    const std::int64_t gates = checked_multiply(gates_of(sizes.cell), sizes.hidden, k_what);
    state = take(batch, sizes.outputs);
    memory = take(batch, sizes.hidden);
    scratch = take(batch, sizes.hidden);
    projected = take(batch, sizes.outputs);
    recurrent = take(batch, gates);
    input = take(checked_multiply(batch, steps, k_what), gates);
  }

 private:
  static constexpr const char* k_what = "floats of a recurrent layer's workspace";

  /// Each begins at a cache line.
  std::int64_t take(std::int64_t rows, std::int64_t width) {
    constexpr std::int64_t k_line = 16;
    const std::int64_t begin = floats;
    const std::int64_t count = checked_multiply(rows, width, k_what);
    floats = checked_add(begin, round_up(checked_add(count, k_line, k_what), k_line), k_what);
    return begin;
  }
};

/// What is computed of one direction, and where.
struct OneDirection {
  const RecurrentSizes& sizes;
  const RecurrentKernels& kernels;
  const RecurrentArguments& arguments;  ///< checked ones
  std::int64_t index;
  bool is_reverse;
  CellFunction cell;
  CellFunction reset;
};

/// One direction of one run.
class DirectionRun {
 public:
  DirectionRun(const OneDirection& what, const Memory& places, float* floats)
      : what_(what),
        gates_(gates_of(what.sizes.cell) * what.sizes.hidden),
        steps_at_once_(places.steps),
        state_(floats + places.state),
        memory_(floats + places.memory),
        scratch_(floats + places.scratch),
        projected_(floats + places.projected),
        recurrent_(floats + places.recurrent),
        input_(floats + places.input) {}

  void run() {
    const std::int64_t state_floats = batch() * what_.sizes.outputs;
    const std::int64_t memory_floats =
        what_.sizes.cell == RecurrentCell::lstm ? batch() * what_.sizes.hidden : 0;
    const RecurrentArguments& given = what_.arguments;
    const auto own = [this](auto* of_all, std::int64_t floats) {
      return of_all == nullptr ? nullptr : of_all + what_.index * floats;
    };
    copy_or_clear(own(given.h0, state_floats), state_floats, state_);
    copy_or_clear(own(given.c0, memory_floats), memory_floats, memory_);
    std::fill_n(scratch_, batch() * what_.sizes.hidden, 0.0F);
    run_steps();
    if (given.h_n != nullptr) copy_floats(state_, state_floats, own(given.h_n, state_floats));
    if (given.c_n != nullptr) copy_floats(memory_, memory_floats, own(given.c_n, memory_floats));
  }

 private:
  [[nodiscard]] std::int64_t batch() const noexcept { return what_.arguments.batch; }
  [[nodiscard]] const RecurrentBiases& biases() const noexcept {
    return what_.arguments.biases[to_size(what_.index)];
  }
  [[nodiscard]] bool goes_on(std::int64_t sequence, std::int64_t step) const noexcept {
    const std::int64_t* lengths = what_.arguments.lengths;
    return lengths == nullptr || step < lengths[sequence];
  }
  /// Sequences up to the last one that goes on. Where they are sorted, these are all that do.
  [[nodiscard]] std::int64_t rows_at(std::int64_t step) const noexcept {
    std::int64_t rows = batch();
    while (rows > 0 && !goes_on(rows - 1, step)) --rows;
    return rows;
  }
  /// A kernel of a fixed n takes all sequences: rows of those that have ended are not used.
  [[nodiscard]] std::int64_t columns_of(const Kernel& kernel, std::int64_t rows) const noexcept {
    return kernel.info().runtime_n ? rows : batch();
  }
  /// Null where y is not wanted.
  [[nodiscard]] float* output_of(std::int64_t sequence, std::int64_t step) const noexcept {
    const RecurrentArguments& given = what_.arguments;
    if (given.y == nullptr) return nullptr;
    const RecurrentStrides& strides = given.y_strides;
    return given.y + step * strides.step + sequence * strides.batch +
           what_.index * strides.direction;
  }

  void run_steps() {
    const std::int64_t steps = what_.arguments.steps;
    for (std::int64_t done = 0; done < steps; done += steps_at_once_) {
      const std::int64_t count = std::min(steps_at_once_, steps - done);
      const std::int64_t first = what_.is_reverse ? steps - done - count : done;
      multiply_input(first, count);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t step = what_.is_reverse ? first + count - 1 - i : first + i;
        run_step(step, input_ + (step - first) * input_step_);
      }
    }
  }

  /// Sums of all sequences. Where rows of x are evenly apart it is one product.
  void multiply_input(std::int64_t first, std::int64_t count) {
    const RecurrentStrides& x = what_.arguments.x_strides;
    Arguments product{.b = nullptr, .c = nullptr, .n = count * batch(), .bias = biases().input};
    const float* from = what_.arguments.x;
    if (from != nullptr) from += first * x.step;
    input_step_ = batch() * gates_;
    input_batch_ = gates_;
    if (batch() == 1 || count == 1 || x.step == batch() * x.batch) {
      product.b = tokens(from, batch() == 1 ? x.step : x.batch);
      product.c = tokens(input_, gates_);
    } else {
      input_step_ = gates_;
      input_batch_ = count * gates_;
      product.b = tokens(from, x.step, x.batch);
      product.c = tokens(input_, gates_, input_batch_);
      product.n = count;
      product.batch = batch();
    }
    what_.kernels.input.run(product);
  }

  void run_step(std::int64_t step, const float* input) {
    const std::int64_t rows = rows_at(step);
    if (rows > 0) {
      what_.kernels.recurrent.run({.b = tokens(state_, what_.sizes.outputs),
                                   .c = tokens(recurrent_, gates_),
                                   .n = columns_of(what_.kernels.recurrent, rows),
                                   .bias = biases().recurrent});
    }
    if (what_.kernels.candidate && rows > 0) multiply_candidate(rows, step, input);
    for (std::int64_t row = 0; row < rows; ++row) {
      if (goes_on(row, step)) what_.cell(cell_step(row, step, input));
    }
    if (what_.kernels.projection && rows > 0) project(rows, step);
    clear_ended(step);
  }

  /// Of one sequence; without h, which the caller says.
  [[nodiscard]] CellStep cell_step(std::int64_t row, std::int64_t step, const float* input) const {
    const std::int64_t hidden = what_.sizes.hidden;
    float* const scratch = scratch_ + row * hidden;
    const bool is_projected = what_.kernels.projection.has_value();
    float* const output = is_projected ? nullptr : output_of(row, step);
    return {.input = input + row * input_batch_,
            .recurrent = recurrent_ + row * gates_,
            .state = is_projected ? scratch : state_ + row * what_.sizes.outputs,
            .memory = memory_ + row * hidden,
            .output = output == nullptr ? scratch : output,
            .hidden = hidden};
  }

  void multiply_candidate(std::int64_t rows, std::int64_t step, const float* input) {
    const std::int64_t hidden = what_.sizes.hidden;
    for (std::int64_t row = 0; row < rows; ++row) {
      CellStep reset = cell_step(row, step, input);
      reset.output = scratch_ + row * hidden;
      what_.reset(reset);
    }
    what_.kernels.candidate->run({.b = tokens(scratch_, hidden),
                                  .c = tokens(recurrent_ + 2 * hidden, gates_),
                                  .n = columns_of(*what_.kernels.candidate, rows),
                                  .bias = biases().candidate});
  }

  /// Not into the state: sequences that have ended keep theirs.
  void project(std::int64_t rows, std::int64_t step) {
    const std::int64_t outputs = what_.sizes.outputs;
    what_.kernels.projection->run({.b = tokens(scratch_, what_.sizes.hidden),
                                   .c = tokens(projected_, outputs),
                                   .n = columns_of(*what_.kernels.projection, rows)});
    for (std::int64_t row = 0; row < rows; ++row) {
      if (!goes_on(row, step)) continue;
      const float* const from = projected_ + row * outputs;
      copy_floats(from, outputs, state_ + row * outputs);
      if (float* const to = output_of(row, step)) copy_floats(from, outputs, to);
    }
  }

  void clear_ended(std::int64_t step) const {
    if (what_.arguments.lengths == nullptr || what_.arguments.y == nullptr) return;
    for (std::int64_t row = 0; row < batch(); ++row) {
      if (!goes_on(row, step)) std::fill_n(output_of(row, step), what_.sizes.outputs, 0.0F);
    }
  }

  const OneDirection& what_;
  std::int64_t gates_;  ///< floats of all gates
  std::int64_t steps_at_once_;
  float* state_;
  float* memory_;
  float* scratch_;
  float* projected_;
  float* recurrent_;
  float* input_;
  std::int64_t input_step_ = 0;   ///< floats of `input_` from one step to the next
  std::int64_t input_batch_ = 0;  ///< and from one sequence to the next
};

void check_directions(RecurrentLayer::Direction direction, std::size_t given) {
  const std::size_t expected = direction == RecurrentLayer::Direction::both ? 2 : 1;
  if (given == expected) return;
  throw InvalidArgument(
      fmt::format("kernels of {} directions are given; expected {}", given, expected));
}

}  // namespace

/// Immutable.
class RecurrentLayer::Impl {
 public:
  Impl(RecurrentCell cell, Direction direction, std::vector<RecurrentKernels> kernels)
      : sizes_(checked_kernels(cell, kernels)),
        first_is_reverse_(direction == Direction::reverse),
        kernels_(std::move(kernels)) {}

  [[nodiscard]] const RecurrentSizes& sizes() const noexcept { return sizes_; }

  void run(const RecurrentArguments& given) const {
    const RecurrentArguments arguments = checked_recurrent(sizes_, kernels_, given);
    if (arguments.batch == 0) return;
    const Memory memory(sizes_, arguments.steps, arguments.batch);
    const WorkspacePool::Loan floats(*workspaces_, {memory.floats, memory.floats});
    for (std::int64_t i = 0; i < sizes_.directions; ++i) {
      const RecurrentKernels& kernels = kernels_[to_size(i)];
      const HostIsa isa = kernels.recurrent.info().target.isa();
      const OneDirection what{sizes_,
                              kernels,
                              arguments,
                              i,
                              i > 0 || first_is_reverse_,
                              cell_function(sizes_.cell, isa),
                              reset_function(isa)};
      DirectionRun(what, memory, floats.data()).run();
    }
  }

 private:
  RecurrentSizes sizes_;
  bool first_is_reverse_;
  std::vector<RecurrentKernels> kernels_;
  std::shared_ptr<const WorkspacePool> workspaces_ = WorkspacePool::shared();
};

RecurrentLayer::RecurrentLayer(RecurrentCell cell, Direction direction,
                               std::vector<RecurrentKernels> kernels) {
  check_directions(direction, kernels.size());
  impl_ = std::make_shared<const Impl>(cell, direction, std::move(kernels));
}

RecurrentCell RecurrentLayer::cell() const noexcept { return impl_->sizes().cell; }
std::int64_t RecurrentLayer::directions() const noexcept { return impl_->sizes().directions; }
std::int64_t RecurrentLayer::inputs() const noexcept { return impl_->sizes().inputs; }
std::int64_t RecurrentLayer::hidden() const noexcept { return impl_->sizes().hidden; }
std::int64_t RecurrentLayer::outputs() const noexcept { return impl_->sizes().outputs; }

void RecurrentLayer::run(const RecurrentArguments& arguments) const { impl_->run(arguments); }

}  // namespace spjit
