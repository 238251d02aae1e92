#include "artifact/recurrent_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "artifact/argument_checks.hpp"
#include "artifact/operand_overlap.hpp"
#include "base/arithmetic.hpp"
#include "kernels/host/layer/recurrent_cell.hpp"
#include "matrix/limits.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// Rows and columns of A.
struct Shape {
  std::int64_t rows;
  std::int64_t cols;
};

/// Why a kernel is none of a recurrent layer, whatever its sizes; "" if it may be.
std::string why_other_kernel(const KernelInfo& info, bool may_have_bias) {
  const Epilogue& epilogue = info.epilogue;
  if (info.target.backend() != "host")
    return "is for " + info.target.name() + "; expected one for the host";
  if (info.convolution) return "is a convolution; expected a product";
  if (info.numerics != Numerics{}) return "has other types or sums than fp32 in order";
  if (info.runtime_values) return "takes A's values at run time; expected its own";
  if (epilogue.scale || epilogue.residual || epilogue.activation != Activation::none) {
    return "has an epilogue; expected none but a bias";
  }
  return epilogue.bias && !may_have_bias ? "has a bias; expected none" : "";
}

void check_kernel(const std::string& name, const Kernel& kernel, const Shape& expected,
                  bool may_have_bias = true) {
  if (const std::string why = why_other_kernel(kernel.info(), may_have_bias); !why.empty()) {
    throw InvalidArgument(fmt::format("the {} kernel {}", name, why));
  }
  if (kernel.rows() == expected.rows && kernel.cols() == expected.cols) return;
  throw InvalidArgument(fmt::format("the {} kernel is [{} x {}]; expected [{} x {}]", name,
                                    kernel.rows(), kernel.cols(), expected.rows, expected.cols));
}

void check_presence(const char* name, bool is_given, bool is_expected) {
  if (is_given == is_expected) return;
  throw InvalidArgument(is_given
                            ? fmt::format("a {} kernel is given, which this cell has not", name)
                            : fmt::format("the {} kernel of this cell is missing", name));
}

RecurrentSizes sizes_of(RecurrentCell cell, std::span<const RecurrentKernels> kernels) {
  const RecurrentKernels& first = kernels.front();
  const std::int64_t gates = gates_of(cell);
  const std::int64_t rows = first.input.rows();
  if (rows % gates != 0) {
    throw InvalidArgument(fmt::format(
        "the input kernel has {} rows; expected a multiple of {}, the gates of this cell", rows,
        gates));
  }
  const std::int64_t hidden = rows / gates;
  return {cell, std::ssize(kernels), first.input.cols(), hidden,
          first.projection ? first.projection->rows() : hidden};
}

void check_direction(const RecurrentSizes& sizes, const RecurrentKernels& kernels) {
  const std::int64_t gates = gates_of(sizes.cell);
  const bool resets_first = sizes.cell == RecurrentCell::gru_reset_first;
  check_presence("candidate", kernels.candidate.has_value(), resets_first);
  const bool may_project = sizes.cell == RecurrentCell::lstm;
  const bool must_project = may_project && sizes.outputs != sizes.hidden;
  check_presence("projection", kernels.projection.has_value(),
                 must_project || (may_project && kernels.projection.has_value()));
  check_kernel("input", kernels.input, {gates * sizes.hidden, sizes.inputs});
  const std::int64_t recurrent_gates = resets_first ? gates - 1 : gates;
  check_kernel("recurrent", kernels.recurrent, {recurrent_gates * sizes.hidden, sizes.outputs});
  if (kernels.candidate) {
    check_kernel("candidate", *kernels.candidate, {sizes.hidden, sizes.hidden});
  }
  if (kernels.projection) {
    check_kernel("projection", *kernels.projection, {sizes.outputs, sizes.hidden}, false);
  }
}

/// A dimension of x or y.
struct Dimension {
  const char* name;
  std::int64_t count;
  std::int64_t stride;
};

constexpr std::int64_t k_most_floats = std::numeric_limits<std::int64_t>::max() / 4;

/// Floats from the first to one past the last. Throws unless dimensions lie within one another.
std::int64_t checked_extent(const char* operand, std::int64_t width,
                            std::array<Dimension, 3> dimensions) {
  if (std::ranges::any_of(dimensions, [](const Dimension& each) { return each.count == 0; })) {
    return 0;
  }
  std::ranges::sort(dimensions, {}, &Dimension::stride);
  std::int64_t extent = width;
  for (const Dimension& each : dimensions) {
    if (each.count == 1) continue;
    if (each.stride < extent) {
      throw InvalidArgument(
          fmt::format("the {} stride of {} is {}; expected at least {}, the "
                      "floats within one {}",
                      each.name, operand, each.stride, extent, each.name));
    }
    if (each.stride > (k_most_floats - extent) / (each.count - 1)) {
      throw InvalidArgument(fmt::format("{} has {} {} floats apart, which no 64-bit offsets reach",
                                        operand, each.count, each.stride));
    }
    extent += each.stride * (each.count - 1);
  }
  return width == 0 ? 0 : extent;
}

void require_count(const char* name, std::int64_t value) {
  if (value >= 0 && value <= k_max_dimension) return;
  throw InvalidArgument(fmt::format("{} is {}; expected 0 to {}", name, value, k_max_dimension));
}

void require_given(const char* name, const void* pointer, std::int64_t floats) {
  if (pointer != nullptr || floats == 0) return;
  throw InvalidArgument(fmt::format("{} is null; expected {} floats", name, floats));
}

void check_bias(const char* name, const float* bias, const Kernel& kernel) {
  const bool is_expected = kernel.info().epilogue.bias;
  if (is_expected) require_given(name, bias, kernel.rows());
  if (!is_expected && bias != nullptr) {
    throw InvalidArgument(fmt::format("{} is given; its kernel was compiled without", name));
  }
}

void check_biases(std::span<const RecurrentKernels> kernels, const RecurrentArguments& arguments) {
  for (std::size_t i = 0; i < arguments.biases.size(); ++i) {
    const RecurrentBiases& biases = arguments.biases[i];
    if (i >= kernels.size()) {
      if (biases.input == nullptr && biases.recurrent == nullptr && biases.candidate == nullptr) {
        continue;
      }
      throw InvalidArgument("biases of a second direction are given; this layer has one");
    }
    check_bias("the input bias", biases.input, kernels[i].input);
    check_bias("the recurrent bias", biases.recurrent, kernels[i].recurrent);
    if (kernels[i].candidate) {
      check_bias("the candidate bias", biases.candidate, *kernels[i].candidate);
    } else if (biases.candidate != nullptr) {
      throw InvalidArgument("the candidate bias is given; this cell has none");
    }
  }
}

void check_lengths(const RecurrentArguments& arguments) {
  if (arguments.lengths == nullptr) return;
  for (std::int64_t i = 0; i < arguments.batch; ++i) {
    if (arguments.lengths[i] >= 0 && arguments.lengths[i] <= arguments.steps) continue;
    throw InvalidArgument(
        fmt::format("the length of sequence {} is {}; expected 0 to {}, the steps", i,
                    arguments.lengths[i], arguments.steps));
  }
}

/// Memory of a run, from the first to past the last float.
struct Touched {
  const char* name;
  const void* data;
  std::int64_t floats;
};

void check_apart(const Touched& output, const Touched& other, bool may_be_same = false) {
  if (output.data == nullptr || other.data == nullptr) return;
  if (may_be_same && output.data == other.data) return;
  constexpr std::int64_t k_bytes = sizeof(float);
  if (!overlap({.data = output.data, .begin = 0, .end = output.floats * k_bytes},
               {.data = other.data, .begin = 0, .end = other.floats * k_bytes})) {
    return;
  }
  throw InvalidArgument(
      fmt::format("{} and {} overlap; expected memory apart", output.name, other.name));
}

/// x and y have so many floats from the first to the last.
void check_overlaps(const RecurrentSizes& sizes, const RecurrentArguments& arguments,
                    std::int64_t x_floats, std::int64_t y_floats) {
  const std::int64_t rows = sizes.directions * arguments.batch;
  const Touched x{"x", arguments.x, x_floats};
  const Touched y{"y", arguments.y, y_floats};
  const Touched h0{"h0", arguments.h0, rows * sizes.outputs};
  const Touched c0{"c0", arguments.c0, rows * sizes.hidden};
  const Touched h_n{"h_n", arguments.h_n, rows * sizes.outputs};
  const Touched c_n{"c_n", arguments.c_n, rows * sizes.hidden};
  const Touched lengths{"lengths", arguments.lengths, 2 * arguments.batch};
  for (const Touched& output : {y, h_n, c_n}) {
    check_apart(output, x);
    check_apart(output, lengths);
    check_apart(output, h0, output.data == arguments.h_n);
    check_apart(output, c0, output.data == arguments.c_n);
  }
  check_apart(y, h_n);
  check_apart(y, c_n);
  check_apart(h_n, c_n);
}

/// As in a contiguous array, where nothing was said.
void fill_strides(const RecurrentSizes& sizes, RecurrentArguments& arguments) {
  const auto fill = [](std::int64_t& stride, std::int64_t count, std::int64_t floats,
                       const char* what) {
    if (stride == 0) stride = checked_multiply(count, floats, what);
  };
  fill(arguments.x_strides.batch, 1, sizes.inputs, "floats of x");
  fill(arguments.x_strides.step, arguments.batch, arguments.x_strides.batch, "floats of x");
  RecurrentStrides& y = arguments.y_strides;
  fill(y.direction, 1, sizes.outputs, "floats of y");
  fill(y.batch, sizes.directions, sizes.outputs, "floats of y");
  fill(y.step, arguments.batch, y.batch, "floats of y");
}

/// Kernels of a step may be for one number of sequences alone, and that of the input for one step.
void check_fixed_sizes(std::span<const RecurrentKernels> kernels,
                       const RecurrentArguments& arguments) {
  const auto check_batch = [&](const Kernel& kernel) {
    if (kernel.info().runtime_n || kernel.n() == arguments.batch) return;
    throw InvalidArgument(fmt::format("batch is {}; expected {}, which kernels were compiled for",
                                      arguments.batch, kernel.n()));
  };
  if (arguments.batch == 0) return;
  for (const RecurrentKernels& each : kernels) {
    check_batch(each.recurrent);
    if (each.candidate) check_batch(*each.candidate);
    if (each.projection) check_batch(*each.projection);
    if (each.input.info().runtime_n || arguments.steps == 0) continue;
    check_batch(each.input);
    if (arguments.steps > 1) {
      throw InvalidArgument(fmt::format(
          "steps is {}; expected 1, as n of the input kernel is fixed", arguments.steps));
    }
  }
}

void check_memories(const RecurrentSizes& sizes, const RecurrentArguments& arguments) {
  if (sizes.cell == RecurrentCell::lstm) return;
  if (arguments.c0 == nullptr && arguments.c_n == nullptr) return;
  throw InvalidArgument("c0 or c_n is given; expected them of an LSTM alone");
}

}  // namespace

RecurrentSizes checked_kernels(RecurrentCell cell, std::span<const RecurrentKernels> kernels) {
  const RecurrentSizes sizes = sizes_of(cell, kernels);
  for (const RecurrentKernels& each : kernels) check_direction(sizes, each);
  return sizes;
}

RecurrentArguments checked_recurrent(const RecurrentSizes& sizes,
                                     std::span<const RecurrentKernels> kernels,
                                     RecurrentArguments arguments) {
  require_count("steps", arguments.steps);
  require_count("batch", arguments.batch);
  check_fixed_sizes(kernels, arguments);
  check_memories(sizes, arguments);
  check_biases(kernels, arguments);
  fill_strides(sizes, arguments);
  const RecurrentStrides& x = arguments.x_strides;
  const RecurrentStrides& y = arguments.y_strides;
  const std::int64_t steps = arguments.steps;
  const std::int64_t batch = arguments.batch;
  const std::int64_t x_floats =
      checked_extent("x", sizes.inputs,
                     {{{"step", steps, x.step}, {"batch", batch, x.batch}, {"direction", 1, 0}}});
  const std::int64_t y_floats = checked_extent("y", sizes.outputs,
                                               {{{"step", steps, y.step},
                                                 {"batch", batch, y.batch},
                                                 {"direction", sizes.directions, y.direction}}});
  require_given("x", arguments.x, x_floats);
  check_lengths(arguments);
  check_overlaps(sizes, arguments, x_floats, y_floats);
  return arguments;
}

}  // namespace spjit
