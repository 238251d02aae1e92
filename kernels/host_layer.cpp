// What a run of a host kernel does around the product: other layouts, an epilogue, a batch.

#include <algorithm>
#include <cstdint>

#include "base/arithmetic.hpp"
#include "kernels/finish.hpp"
#include "kernels/host_family.hpp"
#include "kernels/operand.hpp"
#include "kernels/transpose.hpp"

namespace spjit {
namespace {

constexpr std::int64_t k_line_floats = 16;
/// Floats between rows of an operand whose columns lie together.
std::int64_t row_distance(const Operand& operand) {
  return operand.layout == Layout::panel_major ? operand.panels.width : operand.ld;
}

/// Whether sums are computed where C is.
bool is_in_place(const Arguments& arguments) {
  return arguments.c_layout != Layout::tokens_major && arguments.residual != arguments.c;
}

const PreparedValues::Stream* stream_of(const Arguments& arguments) {
  return arguments.values == nullptr ? nullptr : arguments.values->stream();
}

/// A token is a column of distance 1, as which nothing is transposed.
Arguments of_one_token(Arguments arguments) {
  if (arguments.b_layout == Layout::tokens_major) {
    arguments.b_layout = Layout::row_major;
    arguments.ldb = 1;
  }
  if (arguments.c_layout == Layout::tokens_major) {
    arguments.c_layout = Layout::row_major;
    arguments.ldc = 1;
    arguments.ldr = 1;
  }
  return arguments;
}

}  // namespace

void HostExecutable::run(const Arguments& arguments) const {
  if (arguments.n == 0 || arguments.batch == 0) return;
  if (const HostExecutable& suited = suited_to(arguments.n); &suited != this) {
    suited.run(arguments);
    return;
  }
  const Layout layout = *arguments.b_layout;
  const bool is_product =
      layer_.epilogue.empty() && layout == *arguments.c_layout && layout != Layout::tokens_major;
  for (std::int64_t item = 0; item < arguments.batch; ++item) {
    Arguments one = arguments;
    one.b += item * arguments.b_distance;
    one.c += item * arguments.c_distance;
    if (one.residual != nullptr) one.residual += item * arguments.residual_distance;
    if (is_product) {
      multiply({.b = one.b,
                .ldb = one.ldb,
                .c = one.c,
                .ldc = one.ldc,
                .n = one.n,
                .layout = layout,
                .values = stream_of(one)});
    } else if (one.n == 1) {
      run_layer(of_one_token(one));
    } else {
      run_layer(one);
    }
  }
}

void HostExecutable::run_layer(const Arguments& arguments) const {
  const bool has_panels =
      arguments.b_layout == Layout::panel_major || arguments.c_layout == Layout::panel_major;
  const ColumnGroups groups = has_panels ? ColumnGroups{panel_columns_, 1} : column_groups();
  const std::int64_t most = std::min(arguments.n, groups.columns + groups.least - 1);
  // Rows a power of two apart share few sets of the caches.
  const std::int64_t padded =
      round_up(most, k_line_floats) + (most >= k_far_columns ? k_line_floats : 0);
  const bool copies_b = arguments.b_layout == Layout::tokens_major && !takes_tokens();
  const std::int64_t b_floats =
      copies_b ? checked_multiply(layer_.cols, padded, "floats of tokens") : 0;
  const std::int64_t c_floats =
      is_in_place(arguments) ? 0 : checked_multiply(layer_.rows, padded, "floats of tokens");
  const std::int64_t floats = checked_add(b_floats, c_floats, "floats of tokens");
  const WorkspacePool::Loan workspace(workspaces(), {floats, floats});
  for (std::int64_t first = 0; first < arguments.n;) {
    const bool is_last = arguments.n - first < groups.columns + groups.least;
    const std::int64_t end = is_last ? arguments.n : first + groups.columns;
    run_group(arguments, {first, end}, {workspace.data(), workspace.data() + b_floats, padded});
    first = end;
  }
}

void HostExecutable::run_group(const Arguments& arguments, ColumnRange columns,
                               const GroupWorkspace& workspace) const {
  const std::int64_t n = columns.end - columns.begin;
  const Operand b{*arguments.b_layout, arguments.ldb, {layer_.cols, arguments.n, panel_columns_}};
  const Operand c{*arguments.c_layout, arguments.ldc, {layer_.rows, arguments.n, panel_columns_}};
  const Operand residual{c.layout, arguments.ldr, c.panels};
  const float* const from = arguments.b + b.offset(0, columns.begin);
  float* const to = arguments.c + c.offset(0, columns.begin);

  Product product{.b = from,
                  .ldb = row_distance(b),
                  .c = to,
                  .ldc = row_distance(c),
                  .n = n,
                  .values = stream_of(arguments)};
  if (b.layout == Layout::tokens_major && takes_tokens()) {
    product.has_tokens = true;
  } else if (b.layout == Layout::tokens_major) {
    product.b = workspace.b;
    product.ldb = workspace.ld;
    share_rows(layer_.cols, [&](const RowRange& rows) {
      transpose(IntoPanels{.from = {from + rows.begin, b.ld},
                           .rows = n,
                           .columns = rows.end - rows.begin,
                           .to = {workspace.b + rows.begin * workspace.ld, workspace.ld,
                                  workspace.ld, 0}},
                layer_.isa);
    });
  }
  const bool in_place = is_in_place(arguments);
  if (!in_place) {
    product.c = workspace.c;
    product.ldc = workspace.ld;
  }
  multiply(product);
  if (c.layout == Layout::panel_major && n < panel_columns_) {
    for (std::int64_t row = 0; row < layer_.rows; ++row) {
      std::fill_n(to + row * panel_columns_ + n, panel_columns_ - n, 0.0F);
    }
  }
  if (in_place && layer_.epilogue.empty()) return;
  share_rows(layer_.rows, [&](const RowRange& rows) {
    const auto of_row = [&](const float* operand) {
      return operand == nullptr ? nullptr : operand + rows.begin;
    };
    Finish task{.epilogue = &layer_.epilogue,
                .from = {product.c + rows.begin * product.ldc, product.ldc},
                .rows = rows.end - rows.begin,
                .columns = n,
                .to = {to + c.offset(rows.begin, 0), row_distance(c)},
                .has_tokens = c.layout == Layout::tokens_major,
                .scale = of_row(arguments.scale),
                .bias = of_row(arguments.bias)};
    if (arguments.residual != nullptr) {
      task.residual = {arguments.residual + residual.offset(rows.begin, columns.begin),
                       row_distance(residual)};
    }
    finish(task, layer_.isa);
  });
}

}  // namespace spjit
