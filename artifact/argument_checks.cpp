#include "artifact/argument_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>
#include <optional>

#include "artifact/operand_overlap.hpp"
#include "artifact/scale_checks.hpp"
#include "base/arithmetic.hpp"
#include "kernels/kernel_operation.hpp"
#include "matrix/limits.hpp"
#include "plan/convolution.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// Elements of so many bytes, a power of two, whose own can be counted in 63 bits.
std::int64_t most_elements(std::int64_t element_bytes) {
  // A run's checks are to be short: no division.
  return std::numeric_limits<std::int64_t>::max() >> std::countr_zero(to_size(element_bytes));
}

std::int64_t bytes_of_element(DataType type) {
  return type == DataType::f32 ? std::int64_t{sizeof(float)} : bytes_of(type);
}

/// B, C or the residual of a batch.
struct Dense {
  const char* name;           ///< of the pointer
  const char* ld_name;        ///< of its leading dimension
  const char* distance_name;  ///< of the distance of products
  const void* data;
  DataType type;  ///< that the kernel takes
  std::int64_t element_bytes;
  std::int64_t features;  ///< rows of B or C
  std::int64_t n;
  Layout layout;
  std::int64_t ld;        ///< elements between `count` rows or tokens of `width`; 0: `width`
  std::int64_t distance;  ///< elements between products
  bool may_overlap;       ///< tokens with others

  [[nodiscard]] bool has_tokens() const noexcept { return layout == Layout::tokens_major; }
  [[nodiscard]] std::int64_t width() const noexcept { return has_tokens() ? features : n; }
  [[nodiscard]] std::int64_t count() const noexcept { return has_tokens() ? n : features; }
};

/// A run-time n may be so large that a panel's place overflows.
void check_panels(const Dense& dense, const PanelLayout& layout) {
  const std::int64_t most = most_elements(dense.element_bytes);
  if (layout.n > 0 && (layout.n - 1) / layout.width >= most / layout.stride()) {
    throw InvalidArgument(
        fmt::format("{} has {} columns in panels of {} elements; expected at most {} elements",
                    dense.name, layout.n, layout.stride(), most));
  }
}

/// Of what lies in memory one after another.
struct Rows {
  std::int64_t count;
  std::int64_t least;  ///< elements from one to the next
  std::int64_t most;
};

void check_distance_of_rows(const char* name, std::int64_t ld, const Rows& rows) {
  if (ld < rows.least) {
    throw InvalidArgument(fmt::format(
        "{} is {}; expected at least {}, the elements of a row or token", name, ld, rows.least));
  }
  if (ld > rows.most) {
    throw InvalidArgument(fmt::format("{} is {}; expected at most {}, of {} rows or tokens", name,
                                      ld, rows.most, rows.count));
  }
}

/// Elements from the first of a product to one past the last. Fills in the leading dimension.
std::int64_t checked_extent(const KernelInfo& info, Dense& dense) {
  if (dense.layout == Layout::panel_major) {
    const PanelLayout panels = panels_of(info, dense.features, dense.n);
    check_panels(dense, panels);
    return panels.rows > 0 && panels.n > 0 ? panels.size() - PanelLayout::k_spare_floats : 0;
  }
  const std::int64_t width = dense.width();
  const std::int64_t count = dense.count();
  if (dense.ld == 0) dense.ld = width;
  if (dense.has_tokens() && dense.may_overlap) {
    // The last may reach beyond where one more would begin.
    const std::int64_t most =
        (most_elements(dense.element_bytes) - width) / std::max<std::int64_t>(count, 1);
    check_distance_of_rows(dense.ld_name, dense.ld,
                           {count, std::min<std::int64_t>(width, 1), most});
  } else {
    // Offsets in bytes are 64-bit: beyond, they would wrap around.
    const std::int64_t most = most_elements(dense.element_bytes) / std::max<std::int64_t>(count, 1);
    check_distance_of_rows(dense.ld_name, dense.ld, {count, width, most});
  }
  return count > 0 && width > 0 ? (count - 1) * dense.ld + width : 0;
}

void check_data(const Dense& dense) {
  check_pointer(dense.name, dense.data, dense.n > 0 ? dense.features : 0, dense.n);
}

TouchedBytes touched_by(const Dense& dense, std::int64_t extent, std::int64_t batch) {
  if (extent == 0) return {dense.data, 0, 0};
  const std::int64_t bytes = dense.element_bytes;
  const std::int64_t distance = batch > 1 ? dense.distance * bytes : 0;
  const std::int64_t last = (batch - 1) * distance;
  return {.data = dense.data,
          .begin = std::min<std::int64_t>(last, 0),
          .end = std::max<std::int64_t>(last, 0) + extent * bytes,
          .ld = dense.layout == Layout::panel_major ? 0 : dense.ld * bytes,
          .width = dense.width() * bytes,
          .distance = distance,
          .last = last};
}

/// What a vector of `rows` numbers takes; null: nothing.
TouchedBytes touched_by(const float* vector, std::int64_t rows) {
  return {vector, 0, vector == nullptr ? 0 : rows * std::int64_t{sizeof(float)}};
}

void check_no_overlap(const TouchedBytes& c, const TouchedBytes& other, const char* name) {
  if (!overlap(c, other)) return;
  throw InvalidArgument(
      fmt::format("{} and c overlap; expected arrays that share no memory", name));
}

void check_distance(const Dense& dense, std::int64_t extent, std::int64_t batch) {
  if (batch <= 1) return;
  const std::int64_t most = (most_elements(dense.element_bytes) - extent) / (batch - 1);
  if (dense.distance >= -most && dense.distance <= most) return;
  throw InvalidArgument(fmt::format("{} is {}; expected {} to {} for a batch of {}",
                                    dense.distance_name, dense.distance, -most, most, batch));
}

/// Whether an element of one C is one of another of the batch.
bool items_overlap(const Dense& c, std::int64_t extent, std::int64_t batch) {
  const std::int64_t apart = std::abs(c.distance);
  const bool is_solid = c.layout == Layout::panel_major;
  const std::int64_t width = is_solid ? extent : c.width();
  const std::int64_t ld = is_solid ? extent : c.ld;
  if (extent == 0 || apart >= extent) return false;
  // Rows of all side by side.
  if (apart >= width && apart <= (ld - width) / (batch - 1)) return false;
  for (std::int64_t further = 1; further < batch && further * apart < extent; ++further) {
    // Between two rows of the one, or from the next on.
    const std::int64_t behind = further * apart % ld;
    if (behind < width || behind > ld - width) return true;
  }
  return false;
}

void check_items_apart(const Dense& c, std::int64_t extent, std::int64_t batch) {
  if (batch <= 1 || !items_overlap(c, extent, batch)) return;
  throw InvalidArgument(
      fmt::format("c_distance is {}, at which products of the batch of {} overlap; expected {} or "
                  "more, or rows of one between those of another",
                  c.distance, batch, extent));
}

void check_vector(const char* name, const void* pointer, bool is_expected, std::int64_t rows) {
  if (is_expected && pointer == nullptr && rows > 0) {
    throw InvalidArgument(fmt::format("{} is null; expected an array of {} floats", name, rows));
  }
  if (!is_expected && pointer != nullptr) {
    throw InvalidArgument(
        fmt::format("{} is given; this kernel was compiled without (Problem::epilogue)", name));
  }
}

/// Fills in height, width and what n is of them.
void check_image(const KernelInfo& info, Arguments& arguments) {
  Convolution convolution = *info.convolution;
  const auto fill_in = [&](const char* name, std::int64_t& given, std::int64_t& compiled) {
    if (given == 0) given = compiled;
    if (given != compiled && !info.runtime_n) {
      throw InvalidArgument(
          fmt::format("{} is {}; this kernel was compiled for {} (compile with a run-time n for "
                      "others)",
                      name, given, compiled));
    }
    compiled = given;
  };
  fill_in("height", arguments.height, convolution.height);
  fill_in("width", arguments.width, convolution.width);
  check_convolution(convolution);
  const std::int64_t pixels = convolution.output_height() * convolution.output_width();
  if (arguments.n == Arguments::k_as_compiled) arguments.n = pixels;
  if (arguments.n == pixels) return;
  throw InvalidArgument(fmt::format("n is {}; the output of images of {} x {} has {} x {} pixels",
                                    arguments.n, arguments.height, arguments.width,
                                    convolution.output_height(), convolution.output_width()));
}

void check_no_image(const Arguments& arguments) {
  if (arguments.height == 0 && arguments.width == 0) return;
  throw InvalidArgument(fmt::format(
      "height and width are {} and {}; this kernel is of no convolution, or of one that "
      "is a plain product: expected 0, and n",
      arguments.height, arguments.width));
}

void check_columns(const KernelInfo& info, Arguments& arguments) {
  if (rules_of(info).has_images()) {
    check_image(info, arguments);
  } else {
    check_no_image(arguments);
  }
  if (arguments.n == Arguments::k_as_compiled) arguments.n = info.n;
  if (info.runtime_n && arguments.n < 0) {
    throw InvalidArgument(
        fmt::format("n is {}; expected 0 or more columns of B and C", arguments.n));
  }
  if (arguments.n != info.n && !info.runtime_n) {
    throw InvalidArgument(
        fmt::format("n is {}; this kernel was compiled for n = {} (compile with a run-time n for "
                    "others)",
                    arguments.n, info.n));
  }
  if (arguments.batch < 0) {
    throw InvalidArgument(
        fmt::format("batch is {}; expected a number of products", arguments.batch));
  }
}

Layout checked_layout(const char* name, std::optional<Layout> given, Layout compiled,
                      const KernelInfo& info) {
  const Layout layout = given.value_or(compiled);
  if (layout > Layout::tokens_major) {
    throw InvalidArgument(
        fmt::format("{} is {}; expected 0 (row-major), 1 (panel-major) or 2 (tokens-major)", name,
                    static_cast<int>(layout)));
  }
  if (layout == Layout::panel_major && !rules_of(info).takes_panels()) {
    throw InvalidArgument(
        fmt::format("{} is panels; a convolution takes features or tokens", name));
  }
  if (layout == compiled || info.any_layout) return layout;
  if (layout == Layout::panel_major) static_cast<void>(panels_of(info, 0, 0));
  throw InvalidArgument(fmt::format("{} is {}; this kernel for a GPU was compiled for {}", name,
                                    to_string(layout), to_string(compiled)));
}

/// What a run has of B.
StoredSize stored_b_of(const KernelInfo& info, const Arguments& arguments) {
  return rules_of(info).stored_b({.cols = info.cols,
                                  .n = arguments.n,
                                  .convolution = sizes_of(info).convolution,
                                  .image = {arguments.height, arguments.width}});
}

/// Default: what was compiled for, if that is of the same layout and n, or pixels of an image.
std::int64_t ld_of(const Strides& given, const Arguments& arguments, const KernelInfo& info,
                   bool is_b) {
  const auto is_of_the_same_columns = [&] {
    if (!is_b) return arguments.n == info.n;
    return stored_b_of(info, arguments).columns == rules_of(info).stored_b(sizes_of(info)).columns;
  };
  const bool as_compiled = given.layout == (is_b ? info.b_layout : info.c_layout) &&
                           (given.layout == Layout::tokens_major || is_of_the_same_columns());
  if (given.ld != 0 || !as_compiled) return given.ld;
  return is_b ? info.ldb : info.ldc;
}

/// C itself may be the residual.
bool is_same(const Dense& residual, const Dense& c, std::int64_t batch) {
  return residual.data == c.data && residual.type == c.type &&
         (residual.ld == c.ld || c.layout == Layout::panel_major) &&
         (batch <= 1 || residual.distance == c.distance);
}

Dense residual_of(const Arguments& arguments, DataType type, const Dense& c) {
  return {.name = "residual",
          .ld_name = "ldr",
          .distance_name = "residual_distance",
          .data = arguments.residual.data,
          .type = type,
          .element_bytes = bytes_of_element(type),
          .features = c.features,
          .n = c.n,
          .layout = c.layout,
          .ld = arguments.residual.ld == 0 ? c.ld : arguments.residual.ld,
          .distance = arguments.residual.distance,
          .may_overlap = true};
}

/// An operand and what it spans.
struct CheckedDense {
  Dense dense;
  std::int64_t extent = 0;  ///< elements of one product

  [[nodiscard]] TouchedBytes touched(std::int64_t batch) const {
    return touched_by(dense, extent, batch);
  }
};

CheckedDense checked(const KernelInfo& info, Dense dense, std::int64_t batch) {
  const std::int64_t extent = checked_extent(info, dense);
  check_distance(dense, extent, batch);
  return {dense, extent};
}

struct CheckedOperands {
  CheckedDense b;
  CheckedDense c;
  std::optional<CheckedDense> residual;
};

/// Precondition: layouts are filled in. Fills in leading dimensions.
CheckedOperands check_sizes(const KernelInfo& info, Arguments& arguments,
                            const OperandTypes& types) {
  const std::int64_t batch = arguments.batch;
  const std::int64_t n = arguments.n;
  const StoredSize stored = stored_b_of(info, arguments);
  const Dense b{.name = "b",
                .ld_name = "ldb",
                .distance_name = "b_distance",
                .data = arguments.b.data,
                .type = types.b,
                .element_bytes = bytes_of_element(types.b),
                .features = stored.rows,
                .n = stored.columns,
                .layout = *arguments.b.layout,
                .ld = ld_of(arguments.b, arguments, info, true),
                .distance = arguments.b.distance,
                .may_overlap = true};
  const Dense c{.name = "c",
                .ld_name = "ldc",
                .distance_name = "c_distance",
                .data = arguments.c.data,
                .type = types.c,
                .element_bytes = bytes_of_element(types.c),
                .features = info.rows,
                .n = n,
                .layout = *arguments.c.layout,
                .ld = ld_of(arguments.c, arguments, info, false),
                .distance = arguments.c.distance,
                .may_overlap = false};
  CheckedOperands operands{checked(info, b, batch), checked(info, c, batch), {}};
  arguments.b.ld = operands.b.dense.ld;
  arguments.c.ld = operands.c.dense.ld;
  check_items_apart(operands.c.dense, operands.c.extent, batch);
  if (info.epilogue.residual) {
    operands.residual =
        checked(info, residual_of(arguments, types.residual, operands.c.dense), batch);
    arguments.residual.ld = operands.residual->dense.ld;
  }
  return operands;
}

void check_data(const KernelInfo& info, const Arguments& arguments,
                const CheckedOperands& operands) {
  const std::int64_t batch = arguments.batch;
  check_data(operands.b.dense);
  check_data(operands.c.dense);
  const TouchedBytes written = operands.c.touched(batch);
  check_no_overlap(written, operands.b.touched(batch), "b");
  check_no_overlap(written, touched_by(arguments.scale, info.rows), "scale");
  check_no_overlap(written, touched_by(arguments.bias, info.rows), "bias");
  check_no_overlap(written, touched_by(arguments.b_scale, 1), "b_scale");
  check_no_overlap(written, touched_by(arguments.c_scale, 1), "c_scale");
  if (!operands.residual) return;
  check_data(operands.residual->dense);
  if (is_same(operands.residual->dense, operands.c.dense, batch)) return;
  check_no_overlap(written, operands.residual->touched(batch), "residual");
}

/// From the first byte of `count` rows of floats to one past the last; none of what is large.
std::optional<std::int64_t> bytes_of_rows(std::int64_t count, std::int64_t ld, std::int64_t width) {
  constexpr std::int64_t k_large = std::int64_t{1} << 30;  // of two such the bytes can be counted
  if (count < 1 || width < 1 || ld < width || count >= k_large || ld >= k_large) return {};
  return std::int64_t{sizeof(float)} * ((count - 1) * ld + width);
}

/// An operand that lies as it was compiled to, row after row or token after token.
struct PlainOperand {
  const void* data;
  std::int64_t ld;
  std::int64_t bytes;

  [[nodiscard]] TouchedBytes touched() const noexcept { return {data, 0, bytes}; }
};

/// Of an operand of `features` rows; none if it lies otherwise, has none or may be wrong.
std::optional<PlainOperand> plain_operand(const ConstOperand& given, Layout layout,
                                          std::int64_t compiled_ld, const RowsOf& rows) {
  if (layout == Layout::panel_major || given.layout.value_or(layout) != layout ||
      given.type != DataType::f32 || given.data == nullptr) {
    return {};
  }
  const std::int64_t ld = given.ld == 0 ? compiled_ld : given.ld;
  const std::optional<std::int64_t> bytes = bytes_of_rows(rows.count, ld, rows.width);
  if (!bytes) return {};
  return PlainOperand{given.data, ld, *bytes};
}

/// Whether a vector is there exactly if it has to be, and apart from C.
bool is_plain_vector(const float* vector, bool is_expected, std::int64_t rows,
                     const TouchedBytes& c) {
  if (vector == nullptr) return !is_expected;
  return is_expected && !overlap(c, touched_by(vector, rows));
}

/// Whether a run is of one product, with operands that lie one behind the other as they were
/// compiled to. Then its defaults are filled in. Nearly every run of a layer is, and checking all
/// that others may be takes 0.1 us more: as long as a layer of a hundred entries.
bool fill_in_plain(const KernelInfo& info, Arguments& arguments, const OperandTypes& types) {
  const std::int64_t n = arguments.n == Arguments::k_as_compiled ? info.n : arguments.n;
  const bool is_of_n = n == info.n || (info.runtime_n && n > 0);
  const bool has_more = arguments.batch != 1 || arguments.residual.data != nullptr ||
                        arguments.height != 0 || arguments.width != 0 ||
                        arguments.b_scale != nullptr || arguments.b_zero_point != 0 ||
                        arguments.c_scale != nullptr || arguments.c_zero_point != 0;
  if (has_more || !is_of_n || info.epilogue.residual || types.b != DataType::f32 ||
      types.c != DataType::f32 || operation_of(info.convolution) != Operation::spmm ||
      arguments.residual.layout.value_or(info.c_layout) != info.c_layout) {
    return false;
  }
  const auto rows_of = [&](Layout layout, std::int64_t features) -> RowsOf {
    if (layout == Layout::tokens_major) return {n, features};
    return {features, n};
  };
  // That of rows depends on n.
  const auto ld_of = [&](Layout layout, std::int64_t compiled) {
    return layout == Layout::tokens_major || n == info.n ? compiled : n;
  };
  const auto b = plain_operand(arguments.b, info.b_layout, ld_of(info.b_layout, info.ldb),
                               rows_of(info.b_layout, info.cols));
  const auto c = plain_operand(arguments.c, info.c_layout, ld_of(info.c_layout, info.ldc),
                               rows_of(info.c_layout, info.rows));
  if (!b || !c || overlap(b->touched(), c->touched()) ||
      !is_plain_vector(arguments.scale, info.epilogue.scale, info.rows, c->touched()) ||
      !is_plain_vector(arguments.bias, info.epilogue.bias, info.rows, c->touched())) {
    return false;
  }
  arguments.n = n;
  arguments.b.ld = b->ld;
  arguments.c.ld = c->ld;
  arguments.b.layout = info.b_layout;
  arguments.c.layout = arguments.residual.layout = info.c_layout;
  return true;
}

void check_shape(const KernelInfo& info, Arguments& arguments) {
  check_columns(info, arguments);
  arguments.b.layout = checked_layout("b_layout", arguments.b.layout, info.b_layout, info);
  arguments.c.layout = checked_layout("c_layout", arguments.c.layout, info.c_layout, info);
  if (arguments.residual.layout.value_or(*arguments.c.layout) != *arguments.c.layout) {
    throw InvalidArgument(fmt::format("the residual's layout is {}; expected C's, {}",
                                      to_string(*arguments.residual.layout),
                                      to_string(*arguments.c.layout)));
  }
  arguments.residual.layout = arguments.c.layout;
}

void check_type(const char* name, const ConstOperand& operand, DataType expected) {
  if (operand.data == nullptr || operand.type == expected) return;
  throw InvalidArgument(fmt::format("{} is {}; this kernel takes {}", name,
                                    info_of(operand.type).name, info_of(expected).name));
}

void check_types(const Arguments& arguments, const OperandTypes& types) {
  check_type("b", arguments.b, types.b);
  check_type("c", arguments.c, types.c);
  check_type("residual", arguments.residual, types.residual);
}

}  // namespace

OperandTypes operand_types_of(const KernelInfo& info) noexcept {
  return {info.numerics.b, info.numerics.c, info.numerics.c};
}

void check_leading_dimension(const char* name, std::int64_t ld, const RowsOf& rows, DataType type) {
  const std::int64_t most =
      most_elements(bytes_of_element(type)) / std::max<std::int64_t>(rows.count, 1);
  check_distance_of_rows(name, ld, {rows.count, rows.width, most});
}

void check_pointer(const char* name, const void* pointer, std::int64_t rows, std::int64_t n) {
  if (pointer == nullptr && rows > 0) {
    throw InvalidArgument(
        fmt::format("{} is null; expected an array of [{} x {}] elements", name, rows, n));
  }
}

void check_values(const KernelInfo& info, std::uint64_t id, const PreparedValues* values) {
  const PreparedValues::Stream* stream = values == nullptr ? nullptr : values->stream();
  if (!info.runtime_values) {
    if (values == nullptr) return;
    throw InvalidArgument(
        "values are given; this kernel was compiled with its own (Problem::runtime_values)");
  }
  if (stream == nullptr) {
    throw InvalidArgument(
        "values is null; expected what Kernel::prepare_values() of this kernel gave");
  }
  if (stream->kernel_id() != id) {
    throw InvalidArgument(
        "values were prepared for another kernel; expected what Kernel::prepare_values() of this "
        "one gave");
  }
}

PanelLayout panels_of(const KernelInfo& info, std::int64_t rows, std::int64_t n) {
  if (info.panel_columns == 0) {
    throw InvalidArgument(fmt::format("a kernel for {} takes no panels", info.target.name()));
  }
  if (rows < 0 || rows > k_max_dimension) {
    throw InvalidArgument(fmt::format("rows is {}; expected 0 to {}", rows, k_max_dimension));
  }
  return {rows, n, info.panel_columns};
}

Arguments checked_sizes(const KernelInfo& info, Arguments arguments) {
  const OperandTypes types = operand_types_of(info);
  check_types(arguments, types);
  check_shape(info, arguments);
  if (arguments.batch > 0) static_cast<void>(check_sizes(info, arguments, types));
  return arguments;
}

Arguments checked_arguments(const KernelInfo& info, Arguments arguments,
                            const OperandTypes& types) {
  if (fill_in_plain(info, arguments, types)) return arguments;
  check_types(arguments, types);
  check_shape(info, arguments);
  if (arguments.batch == 0) return arguments;
  const Epilogue& epilogue = info.epilogue;
  check_vector("scale", arguments.scale, epilogue.scale, info.rows);
  check_vector("bias", arguments.bias, epilogue.bias, info.rows);
  if (!epilogue.residual) check_vector("residual", arguments.residual.data, false, info.rows);
  check_scale_of_b(info, arguments);
  check_scale_of_c(info, arguments);
  check_data(info, arguments, check_sizes(info, arguments, types));
  return arguments;
}

}  // namespace spjit
