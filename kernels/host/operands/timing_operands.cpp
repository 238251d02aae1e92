#include "kernels/host/operands/timing_operands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "base/arithmetic.hpp"
#include "base/host_cpu.hpp"
#include "base/memory_bytes.hpp"
#include "kernels/host/operands/placement.hpp"
#include "plan/elements.hpp"
#include "plan/operation.hpp"

namespace spjit {
namespace {

/// Rows, tokens or panels of B or C; tokens may overlap.
InputRows lines_of(const Placement& operand, const float* data) {
  const PanelLayout& panels = operand.panels;
  switch (operand.layout) {
    case Layout::tokens_major:
      return {data, panels.n, panels.rows, operand.ld};
    case Layout::panel_major:
      return {data, panels.panels(), panels.rows * panels.width, panels.stride()};
    case Layout::row_major:
      break;
  }
  return {data, panels.rows, panels.n, operand.ld};
}

Placement b_of(const TimingShape& shape) {
  return {shape.b_layout, shape.ldb, {shape.cols, shape.b_columns, shape.panel_columns}};
}
Placement c_of(const TimingShape& shape) {
  return {shape.c_layout, shape.ldc, {shape.rows, shape.n, shape.panel_columns}};
}

WorkspaceSize size_of(const Placement& operand) {
  const InputRows lines = lines_of(operand, nullptr);
  const std::int64_t overlap = std::max<std::int64_t>(lines.columns - lines.stride, 0);
  const std::int64_t elements =
      checked_add(checked_multiply(lines.rows, lines.stride, "elements of an operand"), overlap,
                  "elements of an operand");
  return {elements, elements};
}

double bytes_of(const Placement& operand) {
  const InputRows lines = lines_of(operand, nullptr);
  return 4 * as_double(lines.rows) * as_double(lines.stride);
}

WorkspaceSize size_of_residual(const TimingShape& shape) {
  return shape.epilogue.residual ? size_of(c_of(shape)) : WorkspaceSize{};
}

/// Writes `value(i)` into each element; gaps between rows stay untouched. Calls `check`, if there
/// is one, now and then.
template <class Value>
void fill(float* to, DataType type, const InputRows& shape, const std::function<void()>& check,
          const Value& value) {
  constexpr std::int64_t k_piece = std::int64_t{1} << 20;
  std::int64_t since_check = 0;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    for (std::int64_t j = 0; j < shape.columns; ++j) {
      const float element = value(row * shape.columns + j);
      store_element(type, to, row * shape.stride + j, static_cast<double>(element));
    }
    since_check += shape.columns;
    if (!check || since_check < k_piece) continue;
    since_check = 0;
    check();
  }
}

/// Small exact values: the time of an FMA does not depend on them, but denormals or NaN would slow
/// some CPUs down.
float small_value(std::int64_t i) { return static_cast<float>(i % 17) * 0.125F - 1.0F; }

/// The memory of rows of elements as floats, which is read as a whole where it is of another type.
InputRows in_floats(const InputRows& rows, DataType type) {
  if (type == DataType::f32) return rows;
  const std::int64_t bytes = bytes_of(type, rows.rows * rows.stride);
  const std::int64_t floats = bytes / bytes_of(DataType::f32);
  return {rows.data, 1, floats, floats};
}

std::shared_ptr<CacheFlush> flush_for(ThreadPool* pool, std::int64_t most_bytes) {
  try {
    return std::make_shared<CacheFlush>(host_cpu(), pool, most_bytes);
  } catch (const std::bad_alloc&) {
    throw NoMemory("no memory for data that empties the caches");
  }
}

}  // namespace

TimingShape timing_shape_of(const Problem& problem) {
  return {problem.a->rows,
          problem.b_rows(),
          problem.n.value,
          problem.b_columns(),
          problem.ldb(),
          problem.ldc(),
          problem.b.layout,
          problem.c.layout,
          problem.panel_columns.value_or(1),
          problem.epilogue,
          sizes_of(problem).image.height,
          sizes_of(problem).image.width,
          problem.numerics};
}

TimingOperands::TimingOperands(const TimingShape& shape, std::int64_t between_bytes,
                               ThreadPool* pool, const std::function<void()>& check)
    : b_(workspaces_, size_of(b_of(shape))),
      c_(workspaces_, size_of(c_of(shape))),
      residual_(workspaces_, size_of_residual(shape)),
      features_(workspaces_, {2 * shape.rows, 2 * shape.rows}) {
  const InputRows b = lines_of(b_of(shape), b_.data());
  const InputRows c = lines_of(c_of(shape), c_.data());
  const DataType type_of_b = shape.numerics.b;
  const DataType type_of_c = shape.numerics.c;
  fill(b_.data(), type_of_b, b, check, small_value);
  fill(c_.data(), type_of_c, c, check, [](std::int64_t) { return 0.0F; });
  fill(features_.data(), DataType::f32, {features_.data(), 1, 2 * shape.rows, 0}, check,
       small_value);
  arguments_ = {.b = {b_.data(), type_of_b, {.ld = shape.ldb, .layout = shape.b_layout}},
                .c = {c_.data(), type_of_c, {.ld = shape.ldc, .layout = shape.c_layout}},
                .n = shape.n,
                .height = shape.height,
                .width = shape.width};
  if (shape.epilogue.scale) arguments_.scale = features_.data();
  if (shape.epilogue.bias) arguments_.bias = features_.data() + shape.rows;
  static constexpr float k_unit = 1;
  if (shape.numerics.quantization == Quantization::given) arguments_.b_scale = &k_unit;
  if (shape.epilogue.residual) {
    fill(residual_.data(), type_of_c, c, check, small_value);
    arguments_.residual = {
        residual_.data(), type_of_c, {.ld = shape.ldc, .layout = shape.c_layout}};
  }
  if (between_bytes > 0)
    timer_ = CallTimer(flush_for(pool, between_bytes), in_floats(b, type_of_b));
}

Refusal too_large_to_time(const Problem& problem) {
  const TimingShape shape = timing_shape_of(problem);
  const bool residual = problem.epilogue.residual;
  const double bytes = bytes_of(b_of(shape)) + bytes_of(c_of(shape)) * (residual ? 2 : 1);
  if (bytes <= as_double(memory_bytes()) / 2) return Refusal::none();
  return Refusal(fmt::format("{} would take {:.1f} GB, more than half of the memory",
                             residual ? "B, C and the residual" : "B and C", bytes * 1e-9));
}

}  // namespace spjit
