#include "tools/options/operands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include "base/arithmetic.hpp"
#include "compiler/check_pattern.hpp"
#include "compiler/kernel_check.hpp"
#include "plan/elements.hpp"
#include "plan/group_scales.hpp"
#include "spjit/matrix_io.hpp"

namespace spjit::cli {
namespace {

constexpr std::uint64_t k_seed = 20240229;

/// B, or the image that it is patches of.
Placement b_of(const Problem& problem) {
  return {problem.b.layout,
          problem.ldb(),
          {problem.b_rows(), problem.b_columns(), problem.panel_columns.value_or(1)}};
}

Placement c_of(const Problem& problem) {
  return {problem.c.layout,
          problem.ldc(),
          {problem.a->rows, problem.n.value, problem.panel_columns.value_or(1)}};
}

std::int64_t elements_of(const Placement& operand) {
  const PanelLayout& sizes = operand.panels;
  const std::int64_t rows = operand.layout == Layout::tokens_major ? sizes.n : sizes.rows;
  return operand.layout == Layout::panel_major
             ? sizes.size()
             : checked_multiply(rows, operand.ld, "elements of an operand");
}

FloatBuffer buffer_of(DataType type, std::int64_t elements, std::int64_t batch) {
  const std::int64_t all = checked_multiply(elements, batch, "elements of a batch");
  return FloatBuffer(to_size(ceil_div(bytes_of(type, all), bytes_of(DataType::f32))));
}

/// Fills an operand with values that do not depend on its layout. A value depends on its row, its
/// item of the batch and its column.
void fill(FloatBuffer& buffer, DataType type, const Placement& operand, std::int64_t batch,
          std::uint64_t seed) {
  std::ranges::fill(buffer.span(), 0.0F);  // past the columns of a panel
  const std::int64_t elements = elements_of(operand);
  const PanelLayout& sizes = operand.panels;
  for (std::int64_t item = 0; item < batch; ++item) {
    for (std::int64_t row = 0; row < sizes.rows; ++row) {
      for (std::int64_t column = 0; column < sizes.n; ++column) {
        const float value = pattern_value(seed, row, item * sizes.n + column);
        store_element(type, buffer.data(), item * elements + operand.offset(row, column),
                      in_type(type, static_cast<double>(value)));
      }
    }
  }
}

/// Where elements of a buffer begin, so many behind the first.
const void* behind(const FloatBuffer& buffer, DataType type, std::int64_t elements) {
  return reinterpret_cast<const std::byte*>(buffer.data()) + bytes_of(type, elements);
}

std::vector<float> vector_of(bool wanted, const OperandFile& file, std::int64_t rows,
                             std::uint64_t seed) {
  std::vector<float> values;
  if (!wanted || !file.path.empty()) return file.values;
  values.reserve(static_cast<std::size_t>(rows));
  for (std::int64_t row = 0; row < rows; ++row) values.push_back(pattern_value(seed, row, 0));
  return values;
}

}  // namespace

Operands::Operands(const Problem& problem, const OperandFiles& files, std::int64_t batch)
    : problem_(problem),
      batch_(batch),
      b_layout_(b_of(problem)),
      c_layout_(c_of(problem)),
      b_elements_(elements_of(b_layout_)),
      c_elements_(elements_of(c_layout_)),
      b_(buffer_of(problem.numerics.b, b_elements_, batch)),
      c_(buffer_of(problem.numerics.c, c_elements_, batch)),
      residual_(buffer_of(problem.numerics.c, problem.epilogue.residual ? c_elements_ : 0, batch)),
      scale_(vector_of(problem.epilogue.scale, files.scale, problem.a->rows, k_seed + 1)),
      bias_(vector_of(problem.epilogue.bias, files.bias, problem.a->rows, k_seed + 2)) {
  fill(b_, problem.numerics.b, b_layout_, batch, k_seed);
  if (problem.epilogue.residual) {
    fill(residual_, problem.numerics.c, c_layout_, batch, k_seed + 3);
  }
  spoil_c();
}

double Operands::bytes(const Problem& problem, std::int64_t batch) {
  const auto bytes_in = [](DataType type, const Placement& operand) {
    const PanelLayout& sizes = operand.panels;
    const double columns = operand.layout == Layout::panel_major
                               ? as_double(sizes.panels()) * as_double(sizes.width)
                               : as_double(sizes.n);
    return as_double(bytes_of(type)) * as_double(sizes.rows) * columns;
  };
  const double cs = problem.epilogue.residual ? 2 : 1;
  return as_double(batch) * (bytes_in(problem.numerics.b, b_of(problem)) +
                             cs * bytes_in(problem.numerics.c, c_of(problem)));
}

Arguments Operands::arguments() const {
  const Numerics& numerics = problem_.numerics;
  Arguments arguments{.b = {b_.data(), numerics.b, {.distance = b_elements_}},
                      .c = {c_.data(), numerics.c, {.distance = c_elements_}},
                      .n = problem_.n.value,
                      .batch = batch_};
  if (problem_.epilogue.scale) arguments.scale = scale_.data();
  if (problem_.epilogue.bias) arguments.bias = bias_.data();
  if (numerics.quantization == Quantization::given) {
    arguments.b_scale = &k_check_b_scale;
    arguments.b_zero_point = check_zero_point(numerics.b);
  }
  if (problem_.epilogue.residual) {
    arguments.residual = {residual_.data(), numerics.c, {.distance = c_elements_}};
  }
  return arguments;
}

InputRows Operands::all_of_b() const {
  const std::int64_t floats = std::ssize(b_.span());
  return {b_.data(), 1, floats, floats};
}

void Operands::spoil_c() {
  for (std::int64_t i = 0; i < c_elements_ * batch_; ++i) {
    const DataTypeInfo& info = info_of(problem_.numerics.c);
    store_element(problem_.numerics.c, c_.data(), i,
                  info.is_integer ? info.lowest : std::numeric_limits<double>::quiet_NaN());
  }
}

LayerInputs Operands::inputs_of(std::int64_t item) const {
  const Numerics& numerics = problem_.numerics;
  const std::int64_t residual = problem_.epilogue.residual ? item * c_elements_ : 0;
  return {*problem_.a,
          problem_.epilogue,
          behind(b_, numerics.b, item * b_elements_),
          {b_layout_, problem_.convolution ? &*problem_.convolution : nullptr},
          scale_.data(),
          bias_.data(),
          behind(residual_, numerics.c, residual),
          c_layout_,
          numerics,
          of_tensor(),
          groups_of(problem_)};
}

std::optional<ByteScale> Operands::of_tensor() const {
  const Numerics& numerics = problem_.numerics;
  if (numerics.quantization == Quantization::given) {
    return ByteScale{k_check_b_scale, check_zero_point(numerics.b)};
  }
  if (numerics.quantization != Quantization::tensor) return {};
  FloatRange range;  // what is past the columns of a panel is 0, which is in every range
  for (const float value : b_.span()) range.add(value);
  return scale_of(range, numerics.quantization);
}

CheckResult Operands::compare() const {
  CheckResult all;
  CheckOptions options;
  options.most_products = k_most_reference_products / batch_;
  for (std::int64_t item = 0; item < batch_ && all.passed(); ++item) {
    const std::string run =
        batch_ == 1 ? "the run that was timed" : fmt::format("{} of a batch of {}", item, batch_);
    const void* const c = behind(c_, problem_.numerics.c, item * c_elements_);
    const std::array outputs = {LayerOutput{c, c_layout_, run}};
    CheckResult one = compare_layer(inputs_of(item), outputs, options);
    one.max_abs_error = std::max(one.max_abs_error, all.max_abs_error);
    one.max_error_over_bound = std::max(one.max_error_over_bound, all.max_error_over_bound);
    all = std::move(one);
  }
  return all;
}

}  // namespace spjit::cli
