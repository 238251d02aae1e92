// What a run of a host kernel does around the product, as it is planned: other layouts, an
// epilogue, a batch.

#include "kernels/host/layer/host_layer.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/arithmetic.hpp"
#include "kernels/host/operands/placement.hpp"
#include "matrix/limits.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

constexpr std::int64_t k_line_floats = 16;

/// Whether sums are computed where C is.
bool is_in_place(const Arguments& arguments) {
  const bool is_residual =
      arguments.residual.data != nullptr && arguments.residual.data == arguments.c.data;
  return arguments.c.layout != Layout::tokens_major && !is_residual;
}

const PreparedValues::Stream* stream_of(const Arguments& arguments) {
  return arguments.values == nullptr ? nullptr : arguments.values->stream();
}

/// Tokens of a batch that follow one another are those of one product.
Arguments of_one_batch(const Arguments& arguments) {
  const auto goes_on = [&](const Strides& operand) {
    return operand.distance == arguments.n * operand.ld;
  };
  const bool is_one =
      arguments.b.layout == Layout::tokens_major && arguments.c.layout == Layout::tokens_major &&
      arguments.n <= k_max_dimension / arguments.batch && goes_on(arguments.b) &&
      goes_on(arguments.c) && (arguments.residual.data == nullptr || goes_on(arguments.residual));
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

}  // namespace

Arguments of_one_token(Arguments arguments) {
  if (arguments.b.layout == Layout::tokens_major) {
    arguments.b.layout = Layout::row_major;
    arguments.b.ld = 1;
  }
  if (arguments.c.layout == Layout::tokens_major) {
    arguments.c.layout = Layout::row_major;
    arguments.c.ld = 1;
    arguments.residual.layout = Layout::row_major;
    arguments.residual.ld = 1;
  }
  return arguments;
}

Product whole_product(const Arguments& arguments) {
  return {.b = arguments.b.as<float>(),
          .ldb = arguments.b.ld,
          .c = arguments.c.as<float>(),
          .ldc = arguments.c.ld,
          .n = arguments.n,
          .layout = *arguments.b.layout,
          .values = stream_of(arguments)};
}

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

std::int64_t LayerRun::workspace_bytes(const Arguments& arguments) const {
  if (arguments.n == 0 || arguments.batch == 0) return 0;
  Arguments few = joined(arguments);
  if (const Executable* suited = multiplier_.suited_to_few(few))
    return suited->workspace_bytes(few);
  return borrowed_by(layer_of(few)).bytes();
}

/// The batch as one product if it can be, of more columns than the kernel may have been made for.
Arguments LayerRun::joined(const Arguments& arguments) const {
  const bool can_be = arguments.batch > 1 && !layer_.convolution && multiplier_.takes_tokens();
  return can_be ? of_one_batch(arguments) : arguments;
}

/// Whether each thread has groups of its own: else all share each.
bool LayerRun::divides(std::int64_t groups) const noexcept {
  // The busiest thread's share against the mean; threads that share a group wait for one another.
  constexpr double k_tolerated_imbalance = 1.25;
  const double shares = as_double(groups) / threads().count();
  return threads().count() > 1 && std::ceil(shares) <= k_tolerated_imbalance * shares;
}

/// Whether there is nothing to do but to multiply, where B and C are.
bool LayerRun::is_product(const Arguments& arguments) const noexcept {
  return !layer_.convolution && layer_.epilogue.empty() && !widens_b() && !rounds_c() &&
         arguments.b.layout == arguments.c.layout && arguments.b.layout != Layout::tokens_major;
}

LayerRun::Layer LayerRun::layer_of(const Arguments& arguments) const {
  Layer layer{.arguments = arguments,
              .is_product = is_product(arguments),
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
  // Few columns without gaps are widened, and rounded, in one go.
  if ((widens_b() || rounds_c()) && most < k_line_floats) layer.ld = most;
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

void LayerRun::add_groups(Layer& layer) const {
  if (layer.arguments.n == 1) layer.arguments = of_one_token(layer.arguments);
  const Arguments& given = layer.arguments;
  const bool has_panels =
      given.b.layout == Layout::panel_major || given.c.layout == Layout::panel_major;
  if (has_panels && multiplier_.column_groups(false).whole) {
    // The last panel of fewer columns would reach back in front of it.
    throw InvalidArgument(
        "this kernel reads B in place and cannot take panels; compile it with "
        "Problem::panel_columns");
  }
  add_items(layer);
  if (layer.is_product) return;
  layer.copies_c = layer.items > 1 || !sums_in_place(given);
  const ColumnGroups groups = has_panels ? ColumnGroups{panel_columns_, panel_columns_}
                                         : multiplier_.column_groups(!layer.copies_c);
  // A group has all columns of its items.
  layer.cut = {given.n,
               {.columns = layer.items > 1 ? round_up(given.n, groups.panel) : groups.columns,
                .panel = groups.panel,
                .whole = groups.whole,
                .threads = has_panels ? 1 : threads_to_cut_for(threads().count())}};
  layer.copies_b =
      widens_b() || (given.b.layout == Layout::tokens_major && !multiplier_.takes_tokens());
}

/// Rows of C that begin within cache lines are written from sums that do not, where an epilogue
/// goes over all of them anyway. ResNet-50 at 90 %, AVX2: NHWC, whose sums are elsewhere, takes
/// 0.75 to 0.88 of the time of NCHW in place for n of 49 and 196. One token's features lie
/// together: 4096 x 64 at 90 %, bias and GELU take 3 us, elsewhere 25.
bool LayerRun::sums_in_place(const Arguments& arguments) const {
  const bool is_token = arguments.n == 1 && arguments.c.ld == 1;
  const bool straddle = !is_token && arguments.c.ld % k_line_floats != 0 &&
                        multiplier_.takes_runs() && arguments.c.layout == Layout::row_major &&
                        !layer_.epilogue.empty();
  return is_in_place(arguments) && !straddle && !rounds_c();
}

/// Products of few columns are computed together, so that A is read once for them, and vectors are
/// full.
void LayerRun::add_items(Layer& layer) const {
  const Arguments& given = layer.arguments;
  const bool is_worth_it = !layer.is_product || given.n % k_line_floats != 0;
  const bool takes_items = multiplier_.takes_runs() && given.b.layout == Layout::row_major &&
                           given.c.layout != Layout::panel_major;
  if (given.batch == 1 || !takes_items || !is_worth_it) return;
  const std::int64_t most =
      std::min(multiplier_.column_groups(false).of_batch / given.n, k_most_items);
  layer.items = items_a_group(given.batch, most, threads().count());
  if (layer.items == 1) return;
  layer.is_product = false;
  if (widens_b()) return;  // side by side
  for (std::int64_t item = 0; item < layer.items; ++item) {
    layer.runs[to_size(item)] = {item * given.n, item * given.b.distance};
  }
}

/// Columns of an image that are computed at once at least: fewer copy more of it, as what groups of
/// columns read overlaps.
constexpr std::int64_t k_least_image_columns = 256;

void LayerRun::add_image(Layer& layer) const {
  Convolution convolution = *layer_.convolution;
  convolution.height = layer.arguments.height;
  convolution.width = layer.arguments.width;
  // Rows in runs take longer to pack (28 x 28, AVX2: 1.1 to 1.3 of the time of the layer), unless
  // so many images together read A once (7 x 7, batch 8: 0.8 to 0.95).
  const std::int64_t pixels = convolution.output_height() * convolution.output_width();
  const bool in_runs =
      multiplier_.takes_runs() && layer.arguments.batch > 1 && pixels <= k_least_image_columns / 2;
  // In place such a family takes 1.2 times as long (1x1 with stride 2, AVX2), and its rows of C are
  // far apart.
  const bool in_place = !multiplier_.takes_runs() && ImagePlan::has_pixels_alone(convolution) &&
                        is_in_place(layer.arguments) && !rounds_c();
  const std::int64_t at_once =
      std::max(multiplier_.column_groups(in_place).columns, k_least_image_columns);
  layer.image =
      images_.plan_for(convolution, {at_once, in_runs, threads_to_cut_for(threads().count())});
  layer.items =
      items_a_group(layer.arguments.batch, layer.image->images_at_once(), threads().count());
  layer.cut = layer.image->cut();
  layer.copies_c = !in_place;
}

/// Of so many columns, wherever B and C are.
Product LayerRun::product_of(const Layer& layer, std::int64_t columns) const {
  const Arguments& arguments = layer.arguments;
  if (layer.is_product) {
    Product product = whole_product(arguments);
    product.serial = layer.by_groups;
    product.workspace = layer.products;
    return product;
  }
  if (layer.image != nullptr) {
    return {.ldc = layer.copies_c ? layer.ld : arguments.c.ld,
            .n = columns,
            .serial = layer.by_groups,
            .values = stream_of(arguments),
            .workspace = layer.products,
            .places = layer.image->places()};
  }
  const Placement b{
      *arguments.b.layout, arguments.b.ld, {layer_.cols, arguments.n, panel_columns_}};
  const Placement c{
      *arguments.c.layout, arguments.c.ld, {layer_.rows, arguments.n, panel_columns_}};
  return {.ldb = layer.copies_b ? layer.ld : b.row_distance(),
          .ldc = layer.copies_c ? layer.ld : c.row_distance(),
          .n = columns,
          .has_tokens = b.layout == Layout::tokens_major && !layer.copies_b,
          .serial = layer.by_groups,
          .values = stream_of(arguments),
          .workspace = layer.products};
}

LayerRun::Borrowed LayerRun::borrowed_by(const Layer& layer) const {
  const std::int64_t parts = layer.by_groups ? threads().count() : 1;
  // The largest group, one of the others and the last.
  WorkspaceNeed products =
      multiplier_.workspace_need(product_of(layer, layer.cut.most() * layer.items));
  for (const std::int64_t index : {layer.cut.groups() / 2, layer.cut.groups() - 1}) {
    const RowRange group = layer.cut.group(index);
    products = products.joined(
        multiplier_.workspace_need(product_of(layer, (group.end - group.begin) * layer.items)));
  }
  products.loans *= parts;
  return {{parts, layer.floats}, products};
}

}  // namespace spjit
