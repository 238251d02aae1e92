#include "kernels/argument_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "matrix/limits.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// Floats whose bytes can be counted in 63 bits.
constexpr std::int64_t k_most_floats =
    std::numeric_limits<std::int64_t>::max() / std::int64_t{sizeof(float)};

/// B, C or the residual, all of one product.
struct Dense {
  const char* name;     ///< of the pointer
  const char* ld_name;  ///< of its leading dimension
  const float* data;
  std::int64_t features;  ///< rows of B or C
  std::int64_t n;
  Layout layout;
  std::int64_t ld;   ///< 0: as many floats as a row or token has
  bool may_overlap;  ///< tokens with others
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

/// Floats from the first to one past the last.
std::int64_t checked_extent(const KernelInfo& info, Dense& dense) {
  check_pointer(dense.name, dense.data, dense.n > 0 ? dense.features : 0, dense.n);
  if (dense.layout == Layout::panel_major) {
    const PanelLayout panels = panels_of(info, dense.features, dense.n);
    check_panels(dense.name, panels);
    return std::max<std::int64_t>(panels.size() - PanelLayout::k_spare_floats, 0);
  }
  const bool has_tokens = dense.layout == Layout::tokens_major;
  const std::int64_t width = has_tokens ? dense.features : dense.n;
  const std::int64_t count = has_tokens ? dense.n : dense.features;
  if (dense.ld == 0) dense.ld = width;
  if (dense.ld < 0 || !dense.may_overlap || !has_tokens) {
    check_leading_dimension(dense.ld_name, dense.ld, count, width);
  } else if (count > 0 && dense.ld > (k_most_floats - width) / count) {
    check_leading_dimension(dense.ld_name, dense.ld, count, 0);
  }
  return count > 0 && width > 0 ? (count - 1) * dense.ld + width : 0;
}

/// Floats [begin, end) from the pointer on that a batch touches.
struct Touched {
  const float* data;
  std::int64_t begin;
  std::int64_t end;
  std::int64_t ld;     ///< 0: all of them
  std::int64_t width;  ///< of each ld
};

Touched touched_by(const Dense& dense, std::int64_t extent, std::int64_t batch,
                   std::int64_t distance) {
  const std::int64_t last = batch > 1 ? (batch - 1) * distance : 0;
  const bool has_rows = dense.layout != Layout::panel_major && batch <= 1;
  return {dense.data, std::min<std::int64_t>(last, 0), std::max<std::int64_t>(last, 0) + extent,
          has_rows ? dense.ld : 0, dense.layout == Layout::tokens_major ? dense.features : dense.n};
}

/// Whether two arrays share memory. Parts of the rows of one wider array do not.
bool overlap(const Touched& left, const Touched& right) {
  const auto at = [](const Touched& of, std::int64_t floats) {
    return reinterpret_cast<std::uintptr_t>(of.data) +
           static_cast<std::uintptr_t>(floats) * sizeof(float);
  };
  if (left.begin == left.end || right.begin == right.end) return false;
  if (at(left, left.end) <= at(right, right.begin) ||
      at(right, right.end) <= at(left, left.begin)) {
    return false;
  }
  if (left.ld != right.ld || left.ld <= 0) return true;
  const auto row_bytes = static_cast<std::uintptr_t>(left.ld) * sizeof(float);
  const bool right_is_later = right.data >= left.data;
  const Touched& first = right_is_later ? left : right;
  const Touched& second = right_is_later ? right : left;
  const std::uintptr_t apart = (at(second, 0) - at(first, 0)) % row_bytes;
  return apart < static_cast<std::uintptr_t>(first.width) * sizeof(float) ||
         apart + static_cast<std::uintptr_t>(second.width) * sizeof(float) > row_bytes;
}

void check_distance(const char* name, std::int64_t distance, std::int64_t batch,
                    std::int64_t extent) {
  const std::int64_t most = (k_most_floats - extent) / std::max<std::int64_t>(batch - 1, 1);
  if (distance >= -most && distance <= most) return;
  throw InvalidArgument(fmt::format("{} is {}; expected {} to {} for a batch of {}", name, distance,
                                    -most, most, batch));
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

void check_columns(const KernelInfo& info, Arguments& arguments) {
  if (arguments.n == Arguments::k_as_compiled) arguments.n = info.n;
  if (arguments.n < 0 || (arguments.n != info.n && !info.runtime_n)) {
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
  if (layout == compiled || !info.cuda) return layout;
  if (layout == Layout::panel_major) static_cast<void>(panels_of(info, 0, 0));
  throw InvalidArgument(fmt::format("{} is {}; this kernel for a GPU was compiled for {}", name,
                                    to_string(layout), to_string(compiled)));
}

void check_no_overlap(const Touched& c, const Touched& other, const char* name) {
  if (!overlap(c, other)) return;
  throw InvalidArgument(
      fmt::format("{} and c overlap; expected arrays that share no memory", name));
}

}  // namespace

void check_leading_dimension(const char* name, std::int64_t ld, std::int64_t count,
                             std::int64_t width) {
  if (ld < width) {
    throw InvalidArgument(fmt::format(
        "{} is {}; expected at least {}, the floats of a row or token", name, ld, width));
  }
  // Offsets in bytes are 64-bit: beyond, they would wrap around.
  if (count > 0 && ld > k_most_floats / count) {
    throw InvalidArgument(fmt::format("{} is {}; expected at most {}, of {} rows or tokens", name,
                                      ld, k_most_floats / count, count));
  }
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

Arguments checked_arguments(const KernelInfo& info, Arguments arguments) {
  check_columns(info, arguments);
  const Layout b_layout = checked_layout("b_layout", arguments.b_layout, info.b_layout, info);
  const Layout c_layout = checked_layout("c_layout", arguments.c_layout, info.c_layout, info);
  const auto default_ld = [&](std::int64_t given, Layout layout, Layout compiled, std::int64_t ld) {
    const bool as_compiled =
        layout == compiled && (arguments.n == info.n || layout == Layout::tokens_major);
    return given == 0 && as_compiled ? ld : given;
  };
  Dense b{"b",
          "ldb",
          arguments.b,
          info.cols,
          arguments.n,
          b_layout,
          default_ld(arguments.ldb, b_layout, info.b_layout, info.ldb),
          true};
  Dense c{"c",
          "ldc",
          arguments.c,
          info.rows,
          arguments.n,
          c_layout,
          default_ld(arguments.ldc, c_layout, info.c_layout, info.ldc),
          false};
  if (arguments.batch == 0) return arguments;
  const std::int64_t b_extent = checked_extent(info, b);
  const std::int64_t c_extent = checked_extent(info, c);
  const Epilogue& epilogue = info.epilogue;
  check_vector("scale", arguments.scale, epilogue.scale, info.rows);
  check_vector("bias", arguments.bias, epilogue.bias, info.rows);
  check_vector("residual", arguments.residual, epilogue.residual, arguments.n > 0 ? info.rows : 0);
  check_distance("b_distance", arguments.b_distance, arguments.batch, b_extent);
  check_distance("c_distance", arguments.c_distance, arguments.batch, c_extent);
  if (arguments.batch > 1 && arguments.c_distance == 0 && c_extent > 0) {
    throw InvalidArgument(fmt::format(
        "c_distance is 0; expected the floats from one C to the next of {}", arguments.batch));
  }
  const Touched c_touched = touched_by(c, c_extent, arguments.batch, arguments.c_distance);
  check_no_overlap(c_touched, touched_by(b, b_extent, arguments.batch, arguments.b_distance), "b");
  if (arguments.residual != nullptr) {
    Dense residual{"residual",
                   "ldr",
                   arguments.residual,
                   info.rows,
                   arguments.n,
                   c_layout,
                   arguments.ldr == 0 ? c.ld : arguments.ldr,
                   true};
    const std::int64_t extent = checked_extent(info, residual);
    check_distance("residual_distance", arguments.residual_distance, arguments.batch, extent);
    const bool is_c = residual.data == c.data && residual.ld == c.ld &&
                      (arguments.batch == 1 || arguments.residual_distance == arguments.c_distance);
    if (!is_c) {
      check_no_overlap(c_touched,
                       touched_by(residual, extent, arguments.batch, arguments.residual_distance),
                       "residual");
    }
    arguments.ldr = residual.ld;
  }
  arguments.b_layout = b_layout;
  arguments.c_layout = c_layout;
  arguments.ldb = b.ld;
  arguments.ldc = c.ld;
  return arguments;
}

}  // namespace spjit
