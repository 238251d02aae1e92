// A run of a host kernel: operands are staged, products computed, sums finished.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/arithmetic.hpp"
#include "kernels/batch_item.hpp"
#include "kernels/host/layer/host_layer.hpp"
#include "kernels/host/operands/finish.hpp"
#include "kernels/host/operands/placement.hpp"
#include "kernels/host/operands/transpose.hpp"
#include "kernels/host/operands/typed_rows.hpp"
#include "spjit/data_type.hpp"
#include "spjit/error.hpp"

namespace spjit {
void LayerRun::run(const Arguments& arguments) const {
  if (arguments.n == 0 || arguments.batch == 0) return;
  Arguments few = joined(arguments);
  if (const Executable* suited = multiplier_.suited_to_few(few)) {
    suited->run(few);
    return;
  }
  // Planning a layer takes as long as a product of a hundred entries.
  if (few.workspace == nullptr && few.batch == 1) {
    const bool has_tokens =
        few.b.layout == Layout::tokens_major || few.c.layout == Layout::tokens_major;
    if (few.n == 1 && has_tokens && !layer_.convolution) few = of_one_token(few);
    if (is_product(few)) {
      multiplier_.multiply(whole_product(few));
      return;
    }
  }
  const Layer layer = layer_of(few);
  if (arguments.workspace == nullptr) {
    run_layer(layer);
    return;
  }
  const Borrowed borrowed = borrowed_by(layer);
  check_workspace(arguments.workspace_bytes, borrowed.bytes());
  run_in(static_cast<std::byte*>(arguments.workspace), layer, borrowed);
}

void LayerRun::run_in(std::byte* memory, Layer layer, const Borrowed& borrowed) const {
  const auto behind = reinterpret_cast<std::uintptr_t>(memory) % Borrowed::k_line_bytes;
  if (behind > 0) memory += Borrowed::k_line_bytes - behind;
  WorkspaceSlots own(memory, borrowed.own);
  WorkspaceSlots products(memory + borrowed.own.bytes(), borrowed.products);
  layer.own = &own;
  layer.products = &products;
  run_layer(layer);
}

void LayerRun::run_layer(const Layer& layer) const {
  if (layer.is_one_product()) {
    multiplier_.multiply(product_of(layer, layer.arguments.n));
  } else {
    run_groups(layer);
  }
}

void LayerRun::run_groups(const Layer& layer) const {
  // Several a thread: one that begins late, or is slowed down by other work, has fewer of them.
  constexpr std::int64_t k_parts_a_thread = 4;
  const std::int64_t groups = layer.groups_of_batch();
  const std::int64_t parts =
      layer.by_groups ? std::min(groups, k_parts_a_thread * threads().count()) : 1;
  threads().run_tasks(parts, false, [&](std::int64_t part) {
    const WorkspacePool::Loan workspace(threads().workspaces(), {layer.floats, layer.floats},
                                        layer.own);
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

LayerRun::Group LayerRun::group_of(const Layer& layer, std::int64_t index) const {
  const std::int64_t first_item = index / layer.cut.groups() * layer.items;
  const auto [begin, end] = layer.cut.group(index % layer.cut.groups());
  return {first_item, std::min(layer.items, layer.arguments.batch - first_item), {begin, end}};
}

void LayerRun::run_product(const Layer& layer, const Group& group) const {
  const Arguments one = item_of(layer.arguments, group.first_item);
  Product product = product_of(layer, one.n);
  product.b = one.b.as<float>();
  product.c = one.c.as<float>();
  multiplier_.multiply(product);
}

void LayerRun::run_group(const Layer& layer, const Group& group, float* workspace) const {
  const Arguments one = item_of(layer.arguments, group.first_item);
  const Placement b{*one.b.layout, one.b.ld, {layer_.cols, one.n, panel_columns_}};
  const Placement c{*one.c.layout, one.c.ld, {layer_.rows, one.n, panel_columns_}};

  Product product = product_of(layer, group.columns_of_item() * group.items);
  product.b = layer.copies_b ? workspace : one.b.as<float>() + b.offset(0, group.columns.begin);
  product.c = layer.copies_c ? workspace + layer.b_floats
                             : one.c.as<float>() + c.offset(0, group.columns.begin);
  if (group.items > 1 && !widens_b()) {
    product.runs = std::span(layer.runs).first(to_size(group.items));
  }
  if (layer.copies_b) copy_b(layer, group, workspace);
  multiplier_.multiply(product);
  if (c.layout == Layout::panel_major) fill_last_panel(one, group);
  if (!layer.copies_c && layer_.epilogue.empty()) return;
  threads().share_rows(layer_.rows, product.serial,
                       [&](const RowRange& rows) { finish_items(layer, group, product, rows); });
}

/// B of a group as rows of floats, its items side by side.
void LayerRun::copy_b(const Layer& layer, const Group& group, float* workspace) const {
  const std::int64_t n = group.columns_of_item();
  for (std::int64_t item = 0; item < group.items; ++item) {
    const Arguments one = item_of(layer.arguments, group.first_item + item);
    const Placement b{*one.b.layout, one.b.ld, {layer_.cols, one.n, panel_columns_}};
    const bool has_tokens = b.layout == Layout::tokens_major;
    threads().share_rows(layer_.cols, layer.by_groups, [&](const RowRange& some) {
      const std::int64_t rows = some.end - some.begin;
      const DenseTarget to{workspace + some.begin * layer.ld + item * n, layer.ld};
      if (!widens_b()) {
        const float* const from = one.b.as<float>() + b.offset(some.begin, group.columns.begin);
        transpose(
            IntoPanels{
                .from = {from, b.ld}, .rows = n, .columns = rows, .to = {to.data, to.ld, to.ld, 0}},
            layer_.isa);
        return;
      }
      const NarrowSource from = narrow_rows(one.b, b, {}, some.begin, group.columns.begin);
      if (has_tokens) {
        widen_transposed(from, n, rows, to, layer_.isa);
      } else {
        widen_rows(from, rows, n, to, layer_.isa);
      }
    });
  }
}

/// Zeros past the last column of C.
void LayerRun::fill_last_panel(const Arguments& one, const Group& group) const {
  const std::int64_t n = group.columns_of_item();
  if (n == panel_columns_) return;
  const Placement c{*one.c.layout, one.c.ld, {layer_.rows, one.n, panel_columns_}};
  const std::int64_t bytes = bytes_of(one.c.type);
  for (std::int64_t row = 0; row < layer_.rows; ++row) {
    std::byte* const first =
        static_cast<std::byte*>(one.c.data) + (c.offset(row, group.columns.begin) + n) * bytes;
    std::memset(first, 0, to_size((panel_columns_ - n) * bytes));  // +0 of every type
  }
}

/// From sums to columns of C of each item of a group.
void LayerRun::finish_items(const Layer& layer, const Group& group, const Product& sums,
                            const RowRange& rows) const {
  const std::int64_t n = group.columns_of_item();
  for (std::int64_t item = 0; item < group.items; ++item) {
    Product some = sums;
    some.c += item * n;
    finish_columns(item_of(layer.arguments, group.first_item + item), some, group.columns, rows);
  }
}

/// From sums to columns of C, by the layer's epilogue.
void LayerRun::finish_columns(const Arguments& one, const Product& sums, ColumnRange columns,
                              const RowRange& rows) const {
  const Placement c{*one.c.layout, one.c.ld, {layer_.rows, one.n, panel_columns_}};
  const Placement residual{c.layout, one.residual.ld, c.panels};
  const auto of_row = [&](const float* operand) {
    return operand == nullptr ? nullptr : operand + rows.begin;
  };
  Finish task{.epilogue = &layer_.epilogue,
              .from = {sums.c + rows.begin * sums.ldc, sums.ldc},
              .rows = rows.end - rows.begin,
              .columns = columns.end - columns.begin,
              .has_tokens = c.layout == Layout::tokens_major,
              .scale = of_row(one.scale),
              .bias = of_row(one.bias)};
  if (rounds_c()) {
    const ByteScale scale = scale_of_c(one);
    RoundedFinish rounded{task, narrow_rows(one.c, c, scale, rows.begin, columns.begin)};
    if (one.residual.data != nullptr) {
      rounded.residual = narrow_rows(one.residual, residual, scale, rows.begin, columns.begin);
    }
    finish(rounded, layer_.isa);
    return;
  }
  task.to = {one.c.as<float>() + c.offset(rows.begin, columns.begin), c.row_distance()};
  if (one.residual.data != nullptr) {
    task.residual = {one.residual.as<float>() + residual.offset(rows.begin, columns.begin),
                     residual.row_distance()};
  }
  finish(task, layer_.isa);
}

/// From sums to the pixels of the output that some columns of a plan are.
void LayerRun::finish_rows_of_pixels(const Arguments& one, const ImagePlan& plan,
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
void LayerRun::run_image_group(const Layer& layer, const Group& group, float* workspace) const {
  const ImagePlan& plan = *layer.image;
  const Arguments one = item_of(layer.arguments, group.first_item);
  const std::int64_t planes = plan.floats(plan.convolution().channels);
  Product product = product_of(layer, group.columns_of_item() * group.items);
  product.b = workspace;
  product.c = layer.copies_c ? workspace + layer.b_floats : one.c.as<float>() + group.columns.begin;
  product.runs = plan.runs();
  threads().share_rows(plan.convolution().channels, product.serial, [&](const RowRange& channels) {
    for (std::int64_t item = 0; item < group.items; ++item) {
      plan.stage(item_of(one, item).b, {channels, {group.columns.begin, group.columns.end}},
                 workspace + item * planes, layer_.isa);
    }
  });
  multiplier_.multiply(product);
  if (!layer.copies_c && layer_.epilogue.empty()) return;
  threads().share_rows(layer_.rows, product.serial, [&](const RowRange& rows) {
    // Rows of features are finished from end to end, tokens with all that they have.
    constexpr std::int64_t k_rows_at_once = 16;
    const bool has_tokens = one.c.layout == Layout::tokens_major;
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
