// What a run of a host kernel does around the product: other layouts, an epilogue, a batch.

#include <algorithm>
#include <cmath>
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
  return arguments.c_layout != Layout::tokens_major && arguments.residual != arguments.c;
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

Product product_of(const Arguments& arguments) {
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
  const Arguments& arguments;
  bool is_product;           ///< nothing but
  std::int64_t columns;      ///< of a group
  std::int64_t all_columns;  ///< of each product, n or those of the plan
  std::int64_t groups;       ///< of each product
  bool by_groups;            ///< each thread has some; else all share each
  const ImagePlan* image = nullptr;
};

void HostExecutable::run(const Arguments& arguments) const {
  if (arguments.n == 0 || arguments.batch == 0) return;
  if (run_few_columns(arguments)) return;
  if (layer_.convolution) {
    run_image(arguments);
    return;
  }
  const Layout layout = *arguments.b_layout;
  const bool is_product =
      layer_.epilogue.empty() && layout == *arguments.c_layout && layout != Layout::tokens_major;
  if (is_product && arguments.batch == 1) {
    multiply(product_of(arguments));
    return;
  }
  run_layer(arguments, is_product);
}

/// Whether each thread has groups of its own: else all share each.
bool HostExecutable::divides(std::int64_t groups) const noexcept {
  // The busiest thread's share against the mean; threads that share a group wait for one another.
  constexpr double k_tolerated_imbalance = 1.25;
  const double shares = as_double(groups) / threads();
  return threads() > 1 && std::ceil(shares) <= k_tolerated_imbalance * shares;
}

void HostExecutable::run_layer(const Arguments& arguments, bool is_product) const {
  const Arguments layer = arguments.n == 1 ? of_one_token(arguments) : arguments;
  const bool has_panels =
      layer.b_layout == Layout::panel_major || layer.c_layout == Layout::panel_major;
  if (has_panels && column_groups(false).least > 1) {
    // The last panel of fewer columns would reach back in front of it.
    throw InvalidArgument(
        "this kernel reads B in place and cannot take panels; compile it with "
        "Problem::panel_columns");
  }
  const ColumnGroups groups =
      has_panels ? ColumnGroups{panel_columns_, 1} : column_groups(is_in_place(layer));
  const std::int64_t count =
      is_product ? 1 : std::max<std::int64_t>((layer.n - groups.least) / groups.columns, 0) + 1;
  run_groups({layer, is_product, groups.columns, layer.n, count, divides(count * layer.batch)});
}

/// Columns of an image that are computed at once at least: fewer copy more of it, as what groups of
/// columns read overlaps.
constexpr std::int64_t k_least_image_columns = 256;

void HostExecutable::run_image(const Arguments& arguments) const {
  Convolution convolution = *layer_.convolution;
  convolution.height = arguments.height;
  convolution.width = arguments.width;
  const bool in_place = ImagePlan::has_pixels_alone(convolution) && is_in_place(arguments);
  const std::shared_ptr<const ImagePlan> plan = images_.plan_for(
      convolution, std::max(column_groups(in_place).columns, k_least_image_columns));
  const std::int64_t count = ceil_div(plan->columns(), plan->columns_at_once());
  run_groups({arguments, false, plan->columns_at_once(), plan->columns(), count,
              divides(count * arguments.batch), plan.get()});
}

void HostExecutable::run_groups(const Layer& layer) const {
  const Arguments& arguments = layer.arguments;
  const std::int64_t most =
      layer.groups == 1
          ? layer.all_columns
          : std::max(layer.columns, layer.all_columns - (layer.groups - 1) * layer.columns);
  // Rows a power of two apart share few sets of the caches.
  const std::int64_t padded =
      round_up(most, k_line_floats) + (most >= k_far_columns ? k_line_floats : 0);
  const bool copies_b =
      !layer.is_product && arguments.b_layout == Layout::tokens_major && !takes_tokens();
  const bool copies_c = !layer.is_product && (layer.image != nullptr || !is_in_place(arguments));
  const auto floats_of = [&](std::int64_t rows) {
    return checked_multiply(rows, padded, "floats of tokens");
  };
  const std::int64_t b_floats = layer.image != nullptr
                                    ? layer.image->floats(layer.image->convolution().channels)
                                : copies_b ? floats_of(layer_.cols)
                                           : 0;
  const std::int64_t floats =
      checked_add(b_floats, copies_c ? floats_of(layer_.rows) : 0, "floats of tokens");
  const std::int64_t groups = checked_multiply(layer.groups, arguments.batch, "groups of columns");
  const std::int64_t parts = layer.by_groups ? threads() : 1;
  run_tasks(parts, false, [&](std::int64_t part) {
    const WorkspacePool::Loan workspace(workspaces(), {floats, floats});
    const double share = as_double(groups) / as_double(parts);
    const auto cut = [&](std::int64_t at) {
      return at == parts ? groups : static_cast<std::int64_t>(share * as_double(at));
    };
    for (std::int64_t group = cut(part); group < cut(part + 1); ++group) {
      const Arguments one = item_of(arguments, group / layer.groups);
      if (layer.is_product) {
        Product product = product_of(one);
        product.serial = layer.by_groups;
        multiply(product);
        continue;
      }
      const std::int64_t index = group % layer.groups;
      const std::int64_t begin = index * layer.columns;
      const std::int64_t end =
          index + 1 == layer.groups ? layer.all_columns : begin + layer.columns;
      const GroupWorkspace place{workspace.data(), workspace.data() + b_floats, padded,
                                 layer.by_groups};
      if (layer.image != nullptr) {
        run_image_group(one, *layer.image, {begin, end}, place);
      } else {
        run_group(one, {begin, end}, place);
      }
    }
  });
}

void HostExecutable::run_group(const Arguments& arguments, ColumnRange columns,
                               const GroupWorkspace& workspace) const {
  const std::int64_t n = columns.end - columns.begin;
  const Operand b{*arguments.b_layout, arguments.ldb, {layer_.cols, arguments.n, panel_columns_}};
  const Operand c{*arguments.c_layout, arguments.ldc, {layer_.rows, arguments.n, panel_columns_}};
  const float* const from = arguments.b + b.offset(0, columns.begin);
  float* const to = arguments.c + c.offset(0, columns.begin);

  Product product{.b = from,
                  .ldb = row_distance(b),
                  .c = to,
                  .ldc = row_distance(c),
                  .n = n,
                  .serial = workspace.serial,
                  .values = stream_of(arguments)};
  if (b.layout == Layout::tokens_major && takes_tokens()) {
    product.has_tokens = true;
  } else if (b.layout == Layout::tokens_major) {
    product.b = workspace.b;
    product.ldb = workspace.ld;
    share_rows(layer_.cols, workspace.serial, [&](const RowRange& rows) {
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
  share_rows(layer_.rows, workspace.serial,
             [&](const RowRange& rows) { finish_columns(arguments, product, columns, rows); });
}

/// From sums to columns of C, by the layer's epilogue.
void HostExecutable::finish_columns(const Arguments& arguments, const Product& sums,
                                    ColumnRange columns, const RowRange& rows) const {
  const Operand c{*arguments.c_layout, arguments.ldc, {layer_.rows, arguments.n, panel_columns_}};
  const Operand residual{c.layout, arguments.ldr, c.panels};
  const auto of_row = [&](const float* operand) {
    return operand == nullptr ? nullptr : operand + rows.begin;
  };
  float* const to = arguments.c + c.offset(0, columns.begin);
  Finish task{.epilogue = &layer_.epilogue,
              .from = {sums.c + rows.begin * sums.ldc, sums.ldc},
              .rows = rows.end - rows.begin,
              .columns = columns.end - columns.begin,
              .to = {to + c.offset(rows.begin, 0), row_distance(c)},
              .has_tokens = c.layout == Layout::tokens_major,
              .scale = of_row(arguments.scale),
              .bias = of_row(arguments.bias)};
  if (arguments.residual != nullptr) {
    task.residual = {arguments.residual + residual.offset(rows.begin, columns.begin),
                     row_distance(residual)};
  }
  finish(task, layer_.isa);
}

/// From sums to the pixels of the output that some columns of a plan are.
void HostExecutable::finish_image(const Arguments& arguments, const ImagePlan& plan,
                                  const Product& sums, ColumnRange columns,
                                  const RowRange& rows) const {
  plan.for_each_row_of_pixels({columns.begin, columns.end},
                              [&](std::int64_t column, const RowRange& pixels) {
                                Product some = sums;
                                some.c += column - columns.begin;
                                finish_columns(arguments, some, {pixels.begin, pixels.end}, rows);
                              });
}

/// Columns of a plan, from an image to the pixels of the output that they are.
void HostExecutable::run_image_group(const Arguments& arguments, const ImagePlan& plan,
                                     ColumnRange columns, const GroupWorkspace& workspace) const {
  const Operand image{*arguments.b_layout, arguments.ldb, {}};
  share_rows(plan.convolution().channels, workspace.serial, [&](const RowRange& channels) {
    plan.stage(arguments.b, image, channels, {columns.begin, columns.end}, workspace.b, layer_.isa);
  });
  const bool in_place = ImagePlan::has_pixels_alone(plan.convolution()) && is_in_place(arguments);
  Product product{.b = workspace.b,
                  .c = in_place ? arguments.c + columns.begin : workspace.c,
                  .ldc = in_place ? arguments.ldc : workspace.ld,
                  .n = columns.end - columns.begin,
                  .serial = workspace.serial,
                  .values = stream_of(arguments),
                  .places = plan.places()};
  multiply(product);
  if (in_place && layer_.epilogue.empty()) return;
  share_rows(layer_.rows, workspace.serial, [&](const RowRange& rows) {
    // Rows of features are finished from end to end, tokens with all that they have.
    constexpr std::int64_t k_rows_at_once = 16;
    const bool has_tokens = arguments.c_layout == Layout::tokens_major;
    const std::int64_t step = has_tokens ? rows.end - rows.begin : k_rows_at_once;
    for (std::int64_t row = rows.begin; row < rows.end; row += step) {
      finish_image(arguments, plan, product, columns, {row, std::min(row + step, rows.end)});
    }
  });
}

}  // namespace spjit
