// What a run of a host kernel does around the product: other layouts, an epilogue, a batch.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/arithmetic.hpp"
#include "kernels/finish.hpp"
#include "kernels/host_family.hpp"
#include "kernels/operand.hpp"
#include "kernels/transpose.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

constexpr std::int64_t k_line_floats = 16;
/// Floats between rows of an operand whose columns lie together.
std::int64_t row_distance(const Operand& operand) {
  return operand.layout == Layout::panel_major ? operand.panels.width : operand.ld;
}

/// Whether sums are computed where C is.
bool is_in_place(const Arguments& arguments) {
  const bool is_residual = arguments.residual != nullptr && arguments.residual == arguments.c;
  return arguments.c_layout != Layout::tokens_major && !is_residual;
}

const PreparedValues::Stream* stream_of(const Arguments& arguments) {
  return arguments.values == nullptr ? nullptr : arguments.values->stream();
}

/// One of a batch.
Arguments item_of(Arguments arguments, std::int64_t item) {
  arguments.b += item * arguments.b_distance;
  arguments.c += item * arguments.c_distance;
  if (arguments.residual != nullptr) arguments.residual += item * arguments.residual_distance;
  return arguments;
}

/// Of all columns.
Product whole_product(const Arguments& arguments) {
  return {.b = arguments.b,
          .ldb = arguments.ldb,
          .c = arguments.c,
          .ldc = arguments.ldc,
          .n = arguments.n,
          .layout = *arguments.b_layout,
          .values = stream_of(arguments)};
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

std::shared_ptr<const ImagePlan> ImagePlans::plan_for(const Convolution& convolution,
                                                      std::int64_t columns) const {
  constexpr std::size_t k_most_plans = 8;
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find_if(plans_, [&](const auto& plan) {
    return plan->convolution() == convolution && plan->least_columns() == columns;
  });
  if (found != plans_.end()) {
    std::rotate(plans_.begin(), found, found + 1);
  } else {
    if (plans_.size() == k_most_plans) plans_.pop_back();
    plans_.insert(plans_.begin(), std::make_shared<const ImagePlan>(convolution, columns));
  }
  return plans_.front();
}

/// A batch as it is computed: products of all columns, or of groups of them.
struct HostExecutable::Layer {
  Arguments arguments;
  bool is_product;  ///< nothing but
  std::int64_t columns;
  std::int64_t groups;                 ///< of each product
  std::int64_t last_columns;           ///< of the last group
  bool by_groups;                      ///< each thread has some; else all share each
  bool copies_b;                       ///< B is transposed into the workspace
  bool copies_c;                       ///< sums are computed in the workspace
  std::int64_t ld;                     ///< of both there
  std::int64_t b_floats = 0;           ///< of the former, for each thread that has groups
  std::int64_t floats = 0;             ///< of both
  WorkspaceSlots* own = nullptr;       ///< what these are of; null: of the pool
  WorkspaceSlots* products = nullptr;  ///< the same of what products borrow
  /// Of a convolution, whose columns are those of its plan.
  std::shared_ptr<const ImagePlan> image = nullptr;

  [[nodiscard]] bool is_one_product() const noexcept { return is_product && arguments.batch == 1; }
};

/// What a run borrows.
struct HostExecutable::Borrowed {
  static constexpr std::int64_t k_line_bytes = 64;
  WorkspaceNeed own;
  WorkspaceNeed products;

  /// Wherever the memory begins.
  [[nodiscard]] std::int64_t bytes() const {
    const std::int64_t both = checked_add(own.bytes(), products.bytes(), "bytes of a workspace");
    return both == 0 ? 0 : checked_add(both, k_line_bytes - 1, "bytes of a workspace");
  }
};

void HostExecutable::run(const Arguments& arguments) const {
  if (arguments.n == 0 || arguments.batch == 0) return;
  Arguments few = arguments;
  if (const HostExecutable* suited = suited_to_few(few)) {
    suited->run(few);
    return;
  }
  const Layer layer = layer_of(arguments);
  if (arguments.workspace == nullptr) {
    run_layer(layer);
    return;
  }
  const Borrowed borrowed = borrowed_by(layer);
  if (arguments.workspace_bytes < borrowed.bytes()) {
    throw InvalidArgument(
        fmt::format("the workspace has {} bytes; expected {} or more (Kernel::workspace_bytes())",
                    arguments.workspace_bytes, borrowed.bytes()));
  }
  run_in(static_cast<std::byte*>(arguments.workspace), layer, borrowed);
}

std::int64_t HostExecutable::workspace_bytes(const Arguments& arguments) const {
  if (arguments.n == 0 || arguments.batch == 0) return 0;
  Arguments few = arguments;
  if (const HostExecutable* suited = suited_to_few(few)) return suited->workspace_bytes(few);
  return borrowed_by(layer_of(arguments)).bytes();
}

/// Whether each thread has groups of its own: else all share each.
bool HostExecutable::divides(std::int64_t groups) const noexcept {
  // The busiest thread's share against the mean; threads that share a group wait for one another.
  constexpr double k_tolerated_imbalance = 1.25;
  const double shares = as_double(groups) / threads();
  return threads() > 1 && std::ceil(shares) <= k_tolerated_imbalance * shares;
}

HostExecutable::Layer HostExecutable::layer_of(const Arguments& arguments) const {
  const bool is_product = !layer_.convolution && layer_.epilogue.empty() &&
                          arguments.b_layout == arguments.c_layout &&
                          arguments.b_layout != Layout::tokens_major;
  Layer layer{.arguments = arguments,
              .is_product = is_product,
              .columns = arguments.n,
              .groups = 1,
              .last_columns = arguments.n,
              .by_groups = false,
              .copies_b = false,
              .copies_c = false,
              .ld = 0};
  if (layer.is_one_product()) return layer;
  layer_.convolution ? add_image(layer) : add_groups(layer);
  layer.by_groups = divides(layer.groups * layer.arguments.batch);
  const std::int64_t most = std::max(layer.columns, layer.last_columns);
  // Rows a power of two apart share few sets of the caches.
  layer.ld = round_up(most, k_line_floats) + (most >= k_far_columns ? k_line_floats : 0);
  const auto floats_of = [&](std::int64_t rows) {
    return checked_multiply(rows, layer.ld, "floats of tokens");
  };
  if (layer.image != nullptr) {
    layer.b_floats = layer.image->floats(layer.image->convolution().channels);
  } else if (layer.copies_b) {
    layer.b_floats = floats_of(layer_.cols);
  }
  layer.floats =
      checked_add(layer.b_floats, layer.copies_c ? floats_of(layer_.rows) : 0, "floats of tokens");
  return layer;
}

void HostExecutable::add_groups(Layer& layer) const {
  if (layer.arguments.n == 1) layer.arguments = of_one_token(layer.arguments);
  const Arguments& given = layer.arguments;
  const bool has_panels =
      given.b_layout == Layout::panel_major || given.c_layout == Layout::panel_major;
  if (has_panels && column_groups(false).least > 1) {
    // The last panel of fewer columns would reach back in front of it.
    throw InvalidArgument(
        "this kernel reads B in place and cannot take panels; compile it with "
        "Problem::panel_columns");
  }
  if (layer.is_product) return;
  const ColumnGroups groups =
      has_panels ? ColumnGroups{panel_columns_, 1} : column_groups(is_in_place(given));
  layer.groups = std::max<std::int64_t>((given.n - groups.least) / groups.columns, 0) + 1;
  layer.last_columns = given.n - (layer.groups - 1) * groups.columns;
  layer.columns = layer.groups == 1 ? given.n : groups.columns;
  layer.copies_b = given.b_layout == Layout::tokens_major && !takes_tokens();
  layer.copies_c = !is_in_place(given);
}

/// Columns of an image that are computed at once at least: fewer copy more of it, as what groups of
/// columns read overlaps.
constexpr std::int64_t k_least_image_columns = 256;

void HostExecutable::add_image(Layer& layer) const {
  Convolution convolution = *layer_.convolution;
  convolution.height = layer.arguments.height;
  convolution.width = layer.arguments.width;
  const bool in_place = ImagePlan::has_pixels_alone(convolution) && is_in_place(layer.arguments);
  layer.image = images_.plan_for(convolution,
                                 std::max(column_groups(in_place).columns, k_least_image_columns));
  layer.columns = std::min(layer.image->columns_at_once(), layer.image->columns());
  layer.groups = ceil_div(layer.image->columns(), layer.columns);
  layer.last_columns = layer.image->columns() - (layer.groups - 1) * layer.columns;
  layer.copies_c = !in_place;
}

/// Of so many columns, wherever B and C are.
Product HostExecutable::product_of(const Layer& layer, std::int64_t columns) const {
  const Arguments& arguments = layer.arguments;
  if (layer.is_product) {
    Product product = whole_product(arguments);
    product.serial = layer.by_groups;
    product.workspace = layer.products;
    return product;
  }
  if (layer.image != nullptr) {
    return {.ldc = layer.copies_c ? layer.ld : arguments.ldc,
            .n = columns,
            .serial = layer.by_groups,
            .values = stream_of(arguments),
            .workspace = layer.products,
            .places = layer.image->places()};
  }
  const Operand b{*arguments.b_layout, arguments.ldb, {layer_.cols, arguments.n, panel_columns_}};
  const Operand c{*arguments.c_layout, arguments.ldc, {layer_.rows, arguments.n, panel_columns_}};
  return {.ldb = layer.copies_b ? layer.ld : row_distance(b),
          .ldc = layer.copies_c ? layer.ld : row_distance(c),
          .n = columns,
          .has_tokens = b.layout == Layout::tokens_major && !layer.copies_b,
          .serial = layer.by_groups,
          .values = stream_of(arguments),
          .workspace = layer.products};
}

HostExecutable::Borrowed HostExecutable::borrowed_by(const Layer& layer) const {
  const std::int64_t parts = layer.by_groups ? threads() : 1;
  WorkspaceNeed products = workspace_need(product_of(layer, layer.columns))
                               .joined(workspace_need(product_of(layer, layer.last_columns)));
  products.loans *= parts;
  return {{parts, layer.floats}, products};
}

void HostExecutable::run_in(std::byte* memory, Layer layer, const Borrowed& borrowed) const {
  const auto behind = reinterpret_cast<std::uintptr_t>(memory) % Borrowed::k_line_bytes;
  if (behind > 0) memory += Borrowed::k_line_bytes - behind;
  WorkspaceSlots own(memory, borrowed.own);
  WorkspaceSlots products(memory + borrowed.own.bytes(), borrowed.products);
  layer.own = &own;
  layer.products = &products;
  run_layer(layer);
}

void HostExecutable::run_layer(const Layer& layer) const {
  if (layer.is_one_product()) {
    multiply(product_of(layer, layer.columns));
  } else {
    run_groups(layer);
  }
}

void HostExecutable::run_groups(const Layer& layer) const {
  const Arguments& arguments = layer.arguments;
  const std::int64_t groups = checked_multiply(layer.groups, arguments.batch, "groups of columns");
  const std::int64_t parts = layer.by_groups ? threads() : 1;
  run_tasks(parts, false, [&](std::int64_t part) {
    const WorkspacePool::Loan workspace(workspaces(), {layer.floats, layer.floats}, layer.own);
    const double share = as_double(groups) / as_double(parts);
    const auto cut = [&](std::int64_t at) {
      return at == parts ? groups : static_cast<std::int64_t>(share * as_double(at));
    };
    for (std::int64_t group = cut(part); group < cut(part + 1); ++group) {
      const Arguments one = item_of(arguments, group / layer.groups);
      if (layer.is_product) {
        Product product = product_of(layer, one.n);
        product.b = one.b;
        product.c = one.c;
        multiply(product);
        continue;
      }
      const std::int64_t index = group % layer.groups;
      const std::int64_t begin = index * layer.columns;
      const bool is_last = index + 1 == layer.groups;
      const std::int64_t end = begin + (is_last ? layer.last_columns : layer.columns);
      if (layer.image != nullptr) {
        run_image_group(layer, one, {begin, end}, workspace.data());
      } else {
        run_group(layer, one, {begin, end}, workspace.data());
      }
    }
  });
}

void HostExecutable::run_group(const Layer& layer, const Arguments& one, ColumnRange columns,
                               float* workspace) const {
  const std::int64_t n = columns.end - columns.begin;
  const Operand b{*one.b_layout, one.ldb, {layer_.cols, one.n, panel_columns_}};
  const Operand c{*one.c_layout, one.ldc, {layer_.rows, one.n, panel_columns_}};
  const float* const from = one.b + b.offset(0, columns.begin);
  float* const to = one.c + c.offset(0, columns.begin);

  Product product = product_of(layer, n);
  product.b = layer.copies_b ? workspace : from;
  product.c = layer.copies_c ? workspace + layer.b_floats : to;
  if (layer.copies_b) {
    share_rows(layer_.cols, product.serial, [&](const RowRange& rows) {
      transpose(IntoPanels{.from = {from + rows.begin, b.ld},
                           .rows = n,
                           .columns = rows.end - rows.begin,
                           .to = {workspace + rows.begin * layer.ld, layer.ld, layer.ld, 0}},
                layer_.isa);
    });
  }
  multiply(product);
  if (c.layout == Layout::panel_major && n < panel_columns_) {
    for (std::int64_t row = 0; row < layer_.rows; ++row) {
      std::fill_n(to + row * panel_columns_ + n, panel_columns_ - n, 0.0F);
    }
  }
  if (!layer.copies_c && layer_.epilogue.empty()) return;
  share_rows(layer_.rows, product.serial,
             [&](const RowRange& rows) { finish_columns(one, product, columns, rows); });
}

/// From sums to columns of C, by the layer's epilogue.
void HostExecutable::finish_columns(const Arguments& one, const Product& sums, ColumnRange columns,
                                    const RowRange& rows) const {
  const Operand c{*one.c_layout, one.ldc, {layer_.rows, one.n, panel_columns_}};
  const Operand residual{c.layout, one.ldr, c.panels};
  const auto of_row = [&](const float* operand) {
    return operand == nullptr ? nullptr : operand + rows.begin;
  };
  float* const to = one.c + c.offset(0, columns.begin);
  Finish task{.epilogue = &layer_.epilogue,
              .from = {sums.c + rows.begin * sums.ldc, sums.ldc},
              .rows = rows.end - rows.begin,
              .columns = columns.end - columns.begin,
              .to = {to + c.offset(rows.begin, 0), row_distance(c)},
              .has_tokens = c.layout == Layout::tokens_major,
              .scale = of_row(one.scale),
              .bias = of_row(one.bias)};
  if (one.residual != nullptr) {
    task.residual = {one.residual + residual.offset(rows.begin, columns.begin),
                     row_distance(residual)};
  }
  finish(task, layer_.isa);
}

/// From sums to the pixels of the output that some columns of a plan are.
void HostExecutable::finish_image(const Arguments& one, const ImagePlan& plan, const Product& sums,
                                  ColumnRange columns, const RowRange& rows) const {
  plan.for_each_row_of_pixels({columns.begin, columns.end},
                              [&](std::int64_t column, const RowRange& pixels) {
                                Product some = sums;
                                some.c += column - columns.begin;
                                finish_columns(one, some, {pixels.begin, pixels.end}, rows);
                              });
}

/// Columns of a plan, from an image to the pixels of the output that they are.
void HostExecutable::run_image_group(const Layer& layer, const Arguments& one, ColumnRange columns,
                                     float* workspace) const {
  const ImagePlan& plan = *layer.image;
  const Operand image{*one.b_layout, one.ldb, {}};
  Product product = product_of(layer, columns.end - columns.begin);
  product.b = workspace;
  product.c = layer.copies_c ? workspace + layer.b_floats : one.c + columns.begin;
  share_rows(plan.convolution().channels, product.serial, [&](const RowRange& channels) {
    plan.stage(one.b, image, channels, {columns.begin, columns.end}, workspace, layer_.isa);
  });
  multiply(product);
  if (!layer.copies_c && layer_.epilogue.empty()) return;
  share_rows(layer_.rows, product.serial, [&](const RowRange& rows) {
    // Rows of features are finished from end to end, tokens with all that they have.
    constexpr std::int64_t k_rows_at_once = 16;
    const bool has_tokens = one.c_layout == Layout::tokens_major;
    const std::int64_t step = has_tokens ? rows.end - rows.begin : k_rows_at_once;
    for (std::int64_t row = rows.begin; row < rows.end; row += step) {
      finish_image(one, plan, product, columns, {row, std::min(row + step, rows.end)});
    }
  });
}

}  // namespace spjit
