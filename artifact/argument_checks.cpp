#include "artifact/argument_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <optional>

#include "base/arithmetic.hpp"
#include "matrix/limits.hpp"
#include "plan/convolution.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// Floats whose bytes can be counted in 63 bits.
constexpr std::int64_t k_most_floats =
    std::numeric_limits<std::int64_t>::max() / std::int64_t{sizeof(float)};

/// B, C or the residual of a batch.
struct Dense {
  const char* name;           ///< of the pointer
  const char* ld_name;        ///< of its leading dimension
  const char* distance_name;  ///< of the distance of products
  const float* data;
  std::int64_t features;  ///< rows of B or C
  std::int64_t n;
  Layout layout;
  std::int64_t ld;        ///< floats between `count` rows or tokens of `width` floats; 0: as many
  std::int64_t distance;  ///< floats between products
  bool may_overlap;       ///< tokens with others

  [[nodiscard]] bool has_tokens() const noexcept { return layout == Layout::tokens_major; }
  [[nodiscard]] std::int64_t width() const noexcept { return has_tokens() ? features : n; }
  [[nodiscard]] std::int64_t count() const noexcept { return has_tokens() ? n : features; }
};

/// A run-time n may be so large that a panel's place overflows.
void check_panels(const char* name, const PanelLayout& layout) {
  const std::int64_t most_panels = k_most_floats / layout.stride();
  if (layout.n > 0 && (layout.n - 1) / layout.width >= most_panels) {
    throw InvalidArgument(
        fmt::format("{} has {} columns in panels of {} floats; expected at most {} floats", name,
                    layout.n, layout.stride(), k_most_floats));
  }
}

/// Of what lies in memory one after another.
struct Rows {
  std::int64_t count;
  std::int64_t least;  ///< floats from one to the next
  std::int64_t most;
};

void check_distance_of_rows(const char* name, std::int64_t ld, const Rows& rows) {
  if (ld < rows.least) {
    throw InvalidArgument(fmt::format(
        "{} is {}; expected at least {}, the floats of a row or token", name, ld, rows.least));
  }
  if (ld > rows.most) {
    throw InvalidArgument(fmt::format("{} is {}; expected at most {}, of {} rows or tokens", name,
                                      ld, rows.most, rows.count));
  }
}

/// Floats from the first of a product to one past the last. Fills in the leading dimension.
std::int64_t checked_extent(const KernelInfo& info, Dense& dense) {
  if (dense.layout == Layout::panel_major) {
    const PanelLayout panels = panels_of(info, dense.features, dense.n);
    check_panels(dense.name, panels);
    return panels.rows > 0 && panels.n > 0 ? panels.size() - PanelLayout::k_spare_floats : 0;
  }
  const std::int64_t width = dense.width();
  const std::int64_t count = dense.count();
  if (dense.ld == 0) dense.ld = width;
  if (dense.has_tokens() && dense.may_overlap) {
    // The last may reach beyond where one more would begin.
    const std::int64_t most = (k_most_floats - width) / std::max<std::int64_t>(count, 1);
    check_distance_of_rows(dense.ld_name, dense.ld,
                           {count, std::min<std::int64_t>(width, 1), most});
  } else {
    check_leading_dimension(dense.ld_name, dense.ld, count, width);
  }
  return count > 0 && width > 0 ? (count - 1) * dense.ld + width : 0;
}

void check_data(const Dense& dense) {
  check_pointer(dense.name, dense.data, dense.n > 0 ? dense.features : 0, dense.n);
}

/// Floats [begin, end) from the pointer on that a batch touches.
struct Touched {
  const float* data;
  std::int64_t begin;
  std::int64_t end;
  std::int64_t ld = 0;  ///< of which only the first `width` are touched; 0: all are
  std::int64_t width = 0;
  std::int64_t distance = 0;  ///< of products
  std::int64_t last = 0;      ///< where the last begins

  /// The address of a float.
  [[nodiscard]] std::uintptr_t at(std::int64_t floats) const noexcept {
    return reinterpret_cast<std::uintptr_t>(data) +
           static_cast<std::uintptr_t>(floats) * sizeof(float);
  }
};

Touched touched_by(const Dense& dense, std::int64_t extent, std::int64_t batch) {
  if (extent == 0) return {dense.data, 0, 0};
  const std::int64_t distance = batch > 1 ? dense.distance : 0;
  const std::int64_t last = (batch - 1) * distance;
  return {.data = dense.data,
          .begin = std::min<std::int64_t>(last, 0),
          .end = std::max<std::int64_t>(last, 0) + extent,
          .ld = dense.layout == Layout::panel_major ? 0 : dense.ld,
          .width = dense.width(),
          .distance = distance,
          .last = last};
}

/// Of every `period` floats no others are touched than `width` from `first` on.
struct Runs {
  std::int64_t period;
  std::int64_t first;
  std::int64_t width;
};

/// How rows of a batch can be seen: all alike, or those of its products side by side.
std::array<Runs, 2> runs_of(const Touched& touched) {
  const std::int64_t period = std::gcd(touched.ld, touched.distance);
  const std::int64_t first = std::min<std::int64_t>(touched.last, 0);
  return {
      {{period, 0, touched.width}, {touched.ld, first, std::abs(touched.last) + touched.width}}};
}

bool lie_apart(const Touched& left, const Runs& left_runs, const Touched& right,
               const Runs& right_runs) {
  const std::int64_t period = std::gcd(left_runs.period, right_runs.period);
  if (left_runs.width > period || right_runs.width > period - left_runs.width) return false;
  const auto bytes = [](std::int64_t floats) {
    return static_cast<std::uintptr_t>(floats) * sizeof(float);
  };
  const std::uintptr_t left_at = left.at(left_runs.first) % bytes(period);
  const std::uintptr_t right_at = right.at(right_runs.first) % bytes(period);
  const std::uintptr_t behind = (right_at + bytes(period) - left_at) % bytes(period);
  return behind >= bytes(left_runs.width) && behind + bytes(right_runs.width) <= bytes(period);
}

/// Whether two batches share memory. Parts of the rows of one wider array do not.
bool overlap(const Touched& left, const Touched& right) {
  if (left.begin == left.end || right.begin == right.end) return false;
  if (left.at(left.end) <= right.at(right.begin) || right.at(right.end) <= left.at(left.begin)) {
    return false;
  }
  if (left.ld == 0 || right.ld == 0) return true;
  for (const Runs& of_left : runs_of(left)) {
    for (const Runs& of_right : runs_of(right)) {
      if (lie_apart(left, of_left, right, of_right)) return false;
    }
  }
  return true;
}

void check_no_overlap(const Touched& c, const Touched& other, const char* name) {
  if (!overlap(c, other)) return;
  throw InvalidArgument(
      fmt::format("{} and c overlap; expected arrays that share no memory", name));
}

void check_distance(const Dense& dense, std::int64_t extent, std::int64_t batch) {
  if (batch <= 1) return;
  const std::int64_t most = (k_most_floats - extent) / (batch - 1);
  if (dense.distance >= -most && dense.distance <= most) return;
  throw InvalidArgument(fmt::format("{} is {}; expected {} to {} for a batch of {}",
                                    dense.distance_name, dense.distance, -most, most, batch));
}

/// Whether a float of one C is one of another of the batch.
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

void check_vector(const char* name, const float* pointer, bool is_expected, std::int64_t rows) {
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
  if (info.convolution) {
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
  if (info.convolution && layout == Layout::panel_major) {
    throw InvalidArgument(
        fmt::format("{} is panels; a convolution takes features or tokens", name));
  }
  if (layout == compiled || info.any_layout) return layout;
  if (layout == Layout::panel_major) static_cast<void>(panels_of(info, 0, 0));
  throw InvalidArgument(fmt::format("{} is {}; this kernel for a GPU was compiled for {}", name,
                                    to_string(layout), to_string(compiled)));
}

/// Default: what was compiled for, if that is of the same layout and n, or pixels of an image.
std::int64_t ld_of(std::int64_t given, const Arguments& arguments, const KernelInfo& info,
                   bool is_b) {
  const Layout layout = is_b ? *arguments.b_layout : *arguments.c_layout;
  const auto is_of_the_same_columns = [&] {
    if (!is_b || !info.convolution) return arguments.n == info.n;
    const Convolution& compiled = *info.convolution;
    return arguments.height * arguments.width == compiled.height * compiled.width;
  };
  const bool as_compiled = layout == (is_b ? info.b_layout : info.c_layout) &&
                           (layout == Layout::tokens_major || is_of_the_same_columns());
  if (given != 0 || !as_compiled) return given;
  return is_b ? info.ldb : info.ldc;
}

/// C itself may be the residual.
bool is_same(const Dense& residual, const Dense& c, std::int64_t batch) {
  return residual.data == c.data && (residual.ld == c.ld || c.layout == Layout::panel_major) &&
         (batch <= 1 || residual.distance == c.distance);
}

Dense residual_of(const KernelInfo& info, const Arguments& arguments, const Dense& c) {
  return {.name = "residual",
          .ld_name = "ldr",
          .distance_name = "residual_distance",
          .data = arguments.residual,
          .features = info.rows,
          .n = c.n,
          .layout = c.layout,
          .ld = arguments.ldr == 0 ? c.ld : arguments.ldr,
          .distance = arguments.residual_distance,
          .may_overlap = true};
}

/// An operand and what it spans.
struct CheckedDense {
  Dense dense;
  std::int64_t extent = 0;  ///< floats of one product

  [[nodiscard]] Touched touched(std::int64_t batch) const {
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
CheckedOperands check_sizes(const KernelInfo& info, Arguments& arguments) {
  const std::int64_t batch = arguments.batch;
  const std::int64_t n = arguments.n;
  const Dense b{.name = "b",
                .ld_name = "ldb",
                .distance_name = "b_distance",
                .data = arguments.b,
                .features = info.convolution ? info.convolution->channels : info.cols,
                .n = info.convolution ? arguments.height * arguments.width : n,
                .layout = *arguments.b_layout,
                .ld = ld_of(arguments.ldb, arguments, info, true),
                .distance = arguments.b_distance,
                .may_overlap = true};
  const Dense c{.name = "c",
                .ld_name = "ldc",
                .distance_name = "c_distance",
                .data = arguments.c,
                .features = info.rows,
                .n = n,
                .layout = *arguments.c_layout,
                .ld = ld_of(arguments.ldc, arguments, info, false),
                .distance = arguments.c_distance,
                .may_overlap = false};
  CheckedOperands operands{checked(info, b, batch), checked(info, c, batch), {}};
  arguments.ldb = operands.b.dense.ld;
  arguments.ldc = operands.c.dense.ld;
  check_items_apart(operands.c.dense, operands.c.extent, batch);
  if (info.epilogue.residual) {
    operands.residual = checked(info, residual_of(info, arguments, operands.c.dense), batch);
    arguments.ldr = operands.residual->dense.ld;
  }
  return operands;
}

void check_data(const KernelInfo& info, const Arguments& arguments,
                const CheckedOperands& operands) {
  const std::int64_t batch = arguments.batch;
  check_data(operands.b.dense);
  check_data(operands.c.dense);
  const Touched written = operands.c.touched(batch);
  check_no_overlap(written, operands.b.touched(batch), "b");
  check_no_overlap(written, {arguments.scale, 0, arguments.scale == nullptr ? 0 : info.rows},
                   "scale");
  check_no_overlap(written, {arguments.bias, 0, arguments.bias == nullptr ? 0 : info.rows}, "bias");
  if (!operands.residual) return;
  check_data(operands.residual->dense);
  if (is_same(operands.residual->dense, operands.c.dense, batch)) return;
  check_no_overlap(written, operands.residual->touched(batch), "residual");
}

/// From the first float of `count` rows, or tokens, to one past the last; none of what is too large
/// to be counted.
std::optional<std::int64_t> floats_of(std::int64_t count, std::int64_t ld, std::int64_t width) {
  const double floats = as_double(count - 1) * as_double(ld) + as_double(width);
  if (count == 0 || width == 0 || ld < width || floats > as_double(k_most_floats / 2)) return {};
  return (count - 1) * ld + width;
}

/// Whether a run is the product as it was compiled and nothing else, with operands one behind the
/// other. Nearly every run of a layer is, and checking all that others may be takes 0.2 us: as long
/// as a layer of a hundred entries.
bool is_plain(const KernelInfo& info, const Arguments& arguments) {
  const auto is_default = [](std::int64_t given, std::int64_t compiled) {
    return given == 0 || given == compiled;
  };
  const bool has_more = arguments.batch != 1 || arguments.scale != nullptr ||
                        arguments.bias != nullptr || arguments.residual != nullptr ||
                        arguments.height != 0 || arguments.width != 0;
  const bool is_other = arguments.n != Arguments::k_as_compiled && arguments.n != info.n;
  const bool is_row_major = info.b_layout == Layout::row_major &&
                            info.c_layout == Layout::row_major &&
                            arguments.b_layout.value_or(Layout::row_major) == Layout::row_major &&
                            arguments.c_layout.value_or(Layout::row_major) == Layout::row_major;
  if (has_more || is_other || !is_row_major || info.convolution || !info.epilogue.empty() ||
      !is_default(arguments.ldb, info.ldb) || !is_default(arguments.ldc, info.ldc)) {
    return false;
  }
  const std::optional<std::int64_t> b_floats = floats_of(info.cols, info.ldb, info.n);
  const std::optional<std::int64_t> c_floats = floats_of(info.rows, info.ldc, info.n);
  if (!b_floats || !c_floats || arguments.b == nullptr || arguments.c == nullptr) return false;
  const Touched b{arguments.b, 0, *b_floats};
  const Touched c{arguments.c, 0, *c_floats};
  return b.at(b.end) <= c.at(0) || c.at(c.end) <= b.at(0);
}

/// Of a plain one.
void add_defaults(const KernelInfo& info, Arguments& arguments) {
  arguments.n = info.n;
  arguments.ldb = info.ldb;
  arguments.ldc = info.ldc;
  arguments.b_layout = Layout::row_major;
  arguments.c_layout = Layout::row_major;
}

void check_shape(const KernelInfo& info, Arguments& arguments) {
  check_columns(info, arguments);
  arguments.b_layout = checked_layout("b_layout", arguments.b_layout, info.b_layout, info);
  arguments.c_layout = checked_layout("c_layout", arguments.c_layout, info.c_layout, info);
}

}  // namespace

void check_leading_dimension(const char* name, std::int64_t ld, std::int64_t count,
                             std::int64_t width) {
  // Offsets in bytes are 64-bit: beyond, they would wrap around.
  const std::int64_t most = k_most_floats / std::max<std::int64_t>(count, 1);
  check_distance_of_rows(name, ld, {count, width, most});
}

void check_pointer(const char* name, const float* pointer, std::int64_t rows, std::int64_t n) {
  if (pointer == nullptr && rows > 0) {
    throw InvalidArgument(
        fmt::format("{} is null; expected an array of [{} x {}] floats", name, rows, n));
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
  check_shape(info, arguments);
  if (arguments.batch > 0) static_cast<void>(check_sizes(info, arguments));
  return arguments;
}

Arguments checked_arguments(const KernelInfo& info, Arguments arguments) {
  if (is_plain(info, arguments)) {
    add_defaults(info, arguments);
    return arguments;
  }
  check_shape(info, arguments);
  if (arguments.batch == 0) return arguments;
  const Epilogue& epilogue = info.epilogue;
  check_vector("scale", arguments.scale, epilogue.scale, info.rows);
  check_vector("bias", arguments.bias, epilogue.bias, info.rows);
  if (!epilogue.residual) check_vector("residual", arguments.residual, false, info.rows);
  check_data(info, arguments, check_sizes(info, arguments));
  return arguments;
}

}  // namespace spjit
