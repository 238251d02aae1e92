// What a run of a host kernel does around the product: other layouts, an epilogue, a batch.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/arithmetic.hpp"
#include "kernels/column_cut.hpp"
#include "kernels/finish.hpp"
#include "kernels/host_family.hpp"
#include "kernels/operand.hpp"
#include "kernels/transpose.hpp"
#include "matrix/limits.hpp"
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

/// Tokens of a batch that follow one another are those of one product.
Arguments of_one_batch(const Arguments& arguments) {
  const auto goes_on = [&](std::int64_t distance, std::int64_t ld) {
    return distance == arguments.n * ld;
  };
  const bool is_one =
      arguments.b_layout == Layout::tokens_major && arguments.c_layout == Layout::tokens_major &&
      arguments.n <= k_max_dimension / arguments.batch &&
      goes_on(arguments.b_distance, arguments.ldb) &&
      goes_on(arguments.c_distance, arguments.ldc) &&
      (arguments.residual == nullptr || goes_on(arguments.residual_distance, arguments.ldr));
  if (!is_one) return arguments;
  Arguments one = arguments;
  one.n *= arguments.batch;
  one.batch = 1;
  return one;
}

/// So many of a batch as fit in `most` columns, each of as many groups and, if there are enough,
/// one a thread at least.
std::int64_t items_a_group(std::int64_t batch, std::int64_t most, int threads) {
  const std::int64_t groups = std::max(ceil_div(batch, std::max<std::int64_t>(most, 1)),
                                       std::min<std::int64_t>(threads, batch));
  return ceil_div(batch, groups);
}

/// Threads for which groups of columns are cut: for more, few groups would become too small.
int threads_to_cut_for(int threads) {
  constexpr int k_most = 4;
  return threads <= k_most ? threads : 1;
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
                                                      const ImageColumns& columns) const {
  constexpr std::size_t k_most_plans = 8;
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find_if(plans_, [&](const auto& plan) {
    return plan->convolution() == convolution && plan->made_for() == columns;
  });
  if (found != plans_.end()) {
    std::rotate(plans_.begin(), found, found + 1);
  } else {
    if (plans_.size() == k_most_plans) plans_.pop_back();
    plans_.insert(plans_.begin(), std::make_shared<const ImagePlan>(convolution, columns));
  }
  return plans_.front();
}

/// Products of a batch that are computed as one, at most.
constexpr std::int64_t k_most_items = 16;

/// A batch as it is computed: products of all columns, or of groups of them.
struct HostExecutable::Layer {
  Arguments arguments;
  bool is_product;                     ///< nothing but
  ColumnCut cut;                       ///< columns of each product
  std::int64_t items = 1;              ///< of the batch, in a group, if those have one group each
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

  /// Of products of a batch: those of a group as runs of columns of one B, if there is more than
  /// one.
  std::array<ColumnRun, k_most_items> runs = {};

  [[nodiscard]] bool is_one_product() const noexcept { return is_product && arguments.batch == 1; }
  [[nodiscard]] std::int64_t groups_of_batch() const {
    return checked_multiply(cut.groups(), ceil_div(arguments.batch, items), "groups of columns");
  }
};

/// What is computed at once.
struct HostExecutable::Group {
  std::int64_t first_item;
  std::int64_t items;   ///< more than one only with all columns
  std::int64_t index;   ///< of the cut
  ColumnRange columns;  ///< of each item

  [[nodiscard]] std::int64_t columns_of_item() const noexcept {
    return columns.end - columns.begin;
  }
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
  Arguments few = joined(arguments);
  if (const HostExecutable* suited = suited_to_few(few)) {
    suited->run(few);
    return;
  }
  const Layer layer = layer_of(few);
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
  Arguments few = joined(arguments);
  if (const HostExecutable* suited = suited_to_few(few)) return suited->workspace_bytes(few);
  return borrowed_by(layer_of(few)).bytes();
}

/// The batch as one product if it can be, of more columns than the kernel may have been made for.
Arguments HostExecutable::joined(const Arguments& arguments) const {
  const bool can_be = arguments.batch > 1 && !layer_.convolution && takes_tokens();
  return can_be ? of_one_batch(arguments) : arguments;
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
              .cut = {arguments.n, {arguments.n, 1}},
              .by_groups = false,
              .copies_b = false,
              .copies_c = false,
              .ld = 0};
  if (layer.is_one_product()) return layer;
  layer_.convolution ? add_image(layer) : add_groups(layer);
  layer.by_groups = divides(layer.groups_of_batch());
  const std::int64_t most = checked_multiply(layer.cut.most(), layer.items, "columns of a group");
  // Rows a power of two apart share few sets of the caches.
  layer.ld = round_up(most, k_line_floats) + (most >= k_far_columns ? k_line_floats : 0);
  const auto floats_of = [&](std::int64_t rows) {
    return checked_multiply(rows, layer.ld, "floats of tokens");
  };
  if (layer.image != nullptr) {
    layer.b_floats = checked_multiply(layer.image->floats(layer.image->convolution().channels),
                                      layer.items, "floats of images");
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
  if (has_panels && column_groups(false).whole) {
    // The last panel of fewer columns would reach back in front of it.
    throw InvalidArgument(
        "this kernel reads B in place and cannot take panels; compile it with "
        "Problem::panel_columns");
  }
  add_items(layer);
  if (layer.is_product) return;
  layer.copies_c = layer.items > 1 || !sums_in_place(given);
  const ColumnGroups groups =
      has_panels ? ColumnGroups{panel_columns_, panel_columns_} : column_groups(!layer.copies_c);
  layer.cut = {given.n,
               {.columns = groups.columns,
                .panel = groups.panel,
                .whole = groups.whole,
                .threads = has_panels ? 1 : threads_to_cut_for(threads())}};
  layer.copies_b = given.b_layout == Layout::tokens_major && !takes_tokens();
}

/// Rows of C that begin within cache lines are written from sums that do not, where an epilogue
/// goes over all of them anyway. ResNet-50 at 90 %, AVX2: NHWC, whose sums are elsewhere, takes
/// 0.75 to 0.88 of the time of NCHW in place for n of 49 and 196.
bool HostExecutable::sums_in_place(const Arguments& arguments) const {
  const bool straddle = arguments.ldc % k_line_floats != 0 && takes_runs() &&
                        arguments.c_layout == Layout::row_major && !layer_.epilogue.empty();
  return is_in_place(arguments) && !straddle;
}

/// Products of few columns are computed together, so that A is read once for them, and vectors are
/// full.
void HostExecutable::add_items(Layer& layer) const {
  const Arguments& given = layer.arguments;
  const bool is_worth_it = !layer.is_product || given.n % k_line_floats != 0;
  const bool takes_items =
      takes_runs() && given.b_layout == Layout::row_major && given.c_layout != Layout::panel_major;
  if (given.batch == 1 || !takes_items || !is_worth_it) return;
  const std::int64_t most = std::min(column_groups(false).of_batch / given.n, k_most_items);
  layer.items = items_a_group(given.batch, most, threads());
  if (layer.items == 1) return;
  layer.is_product = false;
  for (std::int64_t item = 0; item < layer.items; ++item) {
    layer.runs[to_size(item)] = {item * given.n, item * given.b_distance};
  }
}

/// Columns of an image that are computed at once at least: fewer copy more of it, as what groups of
/// columns read overlaps.
constexpr std::int64_t k_least_image_columns = 256;

void HostExecutable::add_image(Layer& layer) const {
  Convolution convolution = *layer_.convolution;
  convolution.height = layer.arguments.height;
  convolution.width = layer.arguments.width;
  // Each has a list of its rows.
  constexpr std::int64_t k_most_rows_in_runs = 65536;
  const bool in_runs = takes_runs() && convolution.output_height() <= k_most_rows_in_runs;
  const bool in_place =
      !in_runs && ImagePlan::has_pixels_alone(convolution) && is_in_place(layer.arguments);
  const std::int64_t at_once = std::max(column_groups(in_place).columns, k_least_image_columns);
  layer.image = images_.plan_for(convolution, {at_once, in_runs, threads_to_cut_for(threads())});
  layer.items = items_a_group(layer.arguments.batch, layer.image->images_at_once(), threads());
  layer.cut = layer.image->cut();
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
  // The largest group, one of the others and the last.
  WorkspaceNeed products = workspace_need(product_of(layer, layer.cut.most() * layer.items));
  for (const std::int64_t index : {layer.cut.groups() / 2, layer.cut.groups() - 1}) {
    const RowRange group = layer.cut.group(index);
    products =
        products.joined(workspace_need(product_of(layer, (group.end - group.begin) * layer.items)));
  }
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
    multiply(product_of(layer, layer.arguments.n));
  } else {
    run_groups(layer);
  }
}

void HostExecutable::run_groups(const Layer& layer) const {
  const std::int64_t groups = layer.groups_of_batch();
  const std::int64_t parts = layer.by_groups ? threads() : 1;
  run_tasks(parts, false, [&](std::int64_t part) {
    const WorkspacePool::Loan workspace(workspaces(), {layer.floats, layer.floats}, layer.own);
    const double share = as_double(groups) / as_double(parts);
    const auto cut = [&](std::int64_t at) {
      return at == parts ? groups : static_cast<std::int64_t>(share * as_double(at));
    };
    for (std::int64_t index = cut(part); index < cut(part + 1); ++index) {
      const Group group = group_of(layer, index);
      if (layer.is_product) {
        run_product(layer, group);
      } else if (layer.image != nullptr) {
        run_image_group(layer, group, workspace.data());
      } else {
        run_group(layer, group, workspace.data());
      }
    }
  });
}

HostExecutable::Group HostExecutable::group_of(const Layer& layer, std::int64_t index) const {
  const std::int64_t first_item = index / layer.cut.groups() * layer.items;
  const std::int64_t of_item = index % layer.cut.groups();
  const auto [begin, end] = layer.cut.group(of_item);
  return {
      first_item, std::min(layer.items, layer.arguments.batch - first_item), of_item, {begin, end}};
}

void HostExecutable::run_product(const Layer& layer, const Group& group) const {
  const Arguments one = item_of(layer.arguments, group.first_item);
  Product product = product_of(layer, one.n);
  product.b = one.b;
  product.c = one.c;
  multiply(product);
}

void HostExecutable::run_group(const Layer& layer, const Group& group, float* workspace) const {
  const Arguments one = item_of(layer.arguments, group.first_item);
  const std::int64_t n = group.columns_of_item();
  const Operand b{*one.b_layout, one.ldb, {layer_.cols, one.n, panel_columns_}};
  const Operand c{*one.c_layout, one.ldc, {layer_.rows, one.n, panel_columns_}};
  const float* const from = one.b + b.offset(0, group.columns.begin);
  float* const to = one.c + c.offset(0, group.columns.begin);

  Product product = product_of(layer, n * group.items);
  product.b = layer.copies_b ? workspace : from;
  product.c = layer.copies_c ? workspace + layer.b_floats : to;
  if (group.items > 1) product.runs = std::span(layer.runs).first(to_size(group.items));
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
             [&](const RowRange& rows) { finish_items(layer, group, product, rows); });
}

/// From sums to columns of C of each item of a group.
void HostExecutable::finish_items(const Layer& layer, const Group& group, const Product& sums,
                                  const RowRange& rows) const {
  const std::int64_t n = group.columns_of_item();
  for (std::int64_t item = 0; item < group.items; ++item) {
    Product some = sums;
    some.c += item * n;
    finish_columns(item_of(layer.arguments, group.first_item + item), some, group.columns, rows);
  }
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
void HostExecutable::finish_rows_of_pixels(const Arguments& one, const ImagePlan& plan,
                                           const Product& sums, ColumnRange columns,
                                           const RowRange& rows) const {
  plan.for_each_row_of_pixels({columns.begin, columns.end},
                              [&](std::int64_t column, const RowRange& pixels) {
                                Product some = sums;
                                some.c += column - columns.begin;
                                finish_columns(one, some, {pixels.begin, pixels.end}, rows);
                              });
}

/// Columns of a plan, from images to the pixels of the output that they are.
void HostExecutable::run_image_group(const Layer& layer, const Group& group,
                                     float* workspace) const {
  const ImagePlan& plan = *layer.image;
  const Arguments one = item_of(layer.arguments, group.first_item);
  const Operand image{*one.b_layout, one.ldb, {}};
  const std::int64_t planes = plan.floats(plan.convolution().channels);
  Product product = product_of(layer, group.columns_of_item() * group.items);
  product.b = workspace;
  product.c = layer.copies_c ? workspace + layer.b_floats : one.c + group.columns.begin;
  product.runs = plan.runs(group.index);
  share_rows(plan.convolution().channels, product.serial, [&](const RowRange& channels) {
    for (std::int64_t item = 0; item < group.items; ++item) {
      plan.stage(one.b + item * one.b_distance, image,
                 {channels, {group.columns.begin, group.columns.end}}, workspace + item * planes,
                 layer_.isa);
    }
  });
  multiply(product);
  if (!layer.copies_c && layer_.epilogue.empty()) return;
  share_rows(layer_.rows, product.serial, [&](const RowRange& rows) {
    // Rows of features are finished from end to end, tokens with all that they have.
    constexpr std::int64_t k_rows_at_once = 16;
    const bool has_tokens = one.c_layout == Layout::tokens_major;
    const std::int64_t step = has_tokens ? rows.end - rows.begin : k_rows_at_once;
    for (std::int64_t row = rows.begin; row < rows.end; row += step) {
      const RowRange some{row, std::min(row + step, rows.end)};
      if (plan.made_for().in_runs) {
        finish_items(layer, group, product, some);
      } else {
        finish_rows_of_pixels(one, plan, product, group.columns, some);
      }
    }
  });
}

}  // namespace spjit
