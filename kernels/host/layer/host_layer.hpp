#pragma once

/// @file
/// A run of a host kernel: other layouts, an epilogue, a batch and images around the products that
/// a Multiplier computes.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "base/fork_safe_mutex.hpp"
#include "kernels/host/layer/column_cut.hpp"
#include "kernels/host/layer/image_stage.hpp"
#include "kernels/host/layer/multiplier.hpp"
#include "kernels/host/object/program_words.hpp"
#include "kernels/host/operands/product.hpp"
#include "kernels/host/operands/typed_rows.hpp"
#include "kernels/host/operands/workspace_pool.hpp"
#include "spjit/arguments.hpp"

namespace spjit {

/// Products of a batch that are computed as one, at most.
inline constexpr std::int64_t k_most_items = 16;

/// Arguments of n = 1 with tokens as columns whose rows are 1 apart: then nothing is transposed.
[[nodiscard]] Arguments of_one_token(Arguments arguments);

/// The product of all columns, where B and C are; one of a batch.
[[nodiscard]] Product whole_product(const Arguments& arguments);

/// Plans of the images of a convolution, by their sizes: the last few that were asked for.
class ImagePlans {
 public:
  [[nodiscard]] std::shared_ptr<const ImagePlan> plan_for(const Convolution& convolution,
                                                          const ImageColumns& columns) const;

 private:
  mutable ForkSafeMutex mutex_;
  mutable std::vector<std::shared_ptr<const ImagePlan>> plans_;  ///< the last used first
};

/// Thread-safe.
class LayerRun {
 public:
  /// `panel_columns`: of panels of B and C that the multiplier takes; 0: none. It is referred to.
  LayerRun(HostProgramHeader layer, std::int64_t panel_columns, const Multiplier& multiplier)
      : layer_(std::move(layer)), panel_columns_(panel_columns), multiplier_(multiplier) {}

  /// As Executable::run().
  void run(const Arguments& arguments) const;
  /// As Executable::workspace_bytes().
  [[nodiscard]] std::int64_t workspace_bytes(const Arguments& arguments) const;

 private:
  /// Columns that are computed at once: those of B and C of one of a batch, or all of some.
  struct ColumnRange {
    std::int64_t begin;
    std::int64_t end;
  };
  struct Group;
  struct Layer;
  struct Borrowed;

  [[nodiscard]] const HostThreads& threads() const noexcept { return multiplier_.threads(); }
  /// Products are fp32: a B of 16 bits is widened into the workspace, and sums for a narrow C are
  /// rounded out of it.
  [[nodiscard]] bool widens_b() const noexcept { return is_half(layer_.numerics.b); }
  [[nodiscard]] bool rounds_c() const noexcept { return is_narrow(layer_.numerics.c); }
  [[nodiscard]] bool is_product(const Arguments& arguments) const noexcept;
  [[nodiscard]] bool divides(std::int64_t groups) const noexcept;
  [[nodiscard]] Layer layer_of(const Arguments& arguments) const;
  void add_groups(Layer& layer) const;
  void add_image(Layer& layer) const;
  [[nodiscard]] Borrowed borrowed_by(const Layer& layer) const;
  [[nodiscard]] Product product_of(const Layer& layer, std::int64_t columns) const;
  void run_in(std::byte* memory, Layer layer, const Borrowed& borrowed) const;
  void run_layer(const Layer& layer) const;
  void run_groups(const Layer& layer) const;
  [[nodiscard]] Arguments joined(const Arguments& arguments) const;
  [[nodiscard]] bool sums_in_place(const Arguments& arguments) const;
  void add_items(Layer& layer) const;
  [[nodiscard]] Group group_of(const Layer& layer, std::int64_t index) const;
  void run_product(const Layer& layer, const Group& group) const;
  void run_group(const Layer& layer, const Group& group, float* workspace) const;
  void copy_b(const Layer& layer, const Group& group, float* workspace) const;
  void fill_last_panel(const Arguments& one, const Group& group) const;
  void run_image_group(const Layer& layer, const Group& group, float* workspace) const;
  void finish_items(const Layer& layer, const Group& group, const Product& sums,
                    const RowRange& rows) const;
  void finish_rows_of_pixels(const Arguments& one, const ImagePlan& plan, const Product& sums,
                             ColumnRange columns, const RowRange& rows) const;
  void finish_columns(const Arguments& one, const Product& sums, ColumnRange columns,
                      const RowRange& rows) const;

  HostProgramHeader layer_;
  std::int64_t panel_columns_;
  const Multiplier& multiplier_;
  ImagePlans images_;
};

/// A batch as it is computed: products of all columns, or of groups of them.
struct LayerRun::Layer {
  Arguments arguments;
  bool is_product;                     ///< nothing but
  ColumnCut cut;                       ///< columns of each product
  std::int64_t items = 1;              ///< of the batch, in a group, if those have one group each
  bool by_groups;                      ///< each thread has some; else all share each
  bool copies_b;                       ///< B is transposed or widened into the workspace
  bool copies_c;                       ///< sums are computed in the workspace
  std::int64_t ld;                     ///< of both there
  std::int64_t b_floats = 0;           ///< of the former, for each thread that has groups
  std::int64_t floats = 0;             ///< of both
  WorkspaceSlots* own = nullptr;       ///< that B and C are copied into; null: those of the pool
  WorkspaceSlots* products = nullptr;  ///< that products borrow; null: those of the pool
  /// Plan of a convolution, whose columns are the product's.
  std::shared_ptr<const ImagePlan> image = nullptr;

  /// For products of a batch: those of a group as runs of columns of one B, if there is more than
  /// one.
  std::array<ColumnRun, k_most_items> runs = {};

  [[nodiscard]] bool is_one_product() const noexcept { return is_product && arguments.batch == 1; }
  [[nodiscard]] std::int64_t groups_of_batch() const {
    return checked_multiply(cut.groups(), ceil_div(arguments.batch, items), "groups of columns");
  }
};

/// The part that is computed at once.
struct LayerRun::Group {
  std::int64_t first_item;
  std::int64_t items;   ///< more than one only with all columns
  ColumnRange columns;  ///< of each item

  [[nodiscard]] std::int64_t columns_of_item() const noexcept {
    return columns.end - columns.begin;
  }
};

/// Memory that a run borrows.
struct LayerRun::Borrowed {
  static constexpr std::int64_t k_line_bytes = 64;
  WorkspaceNeed own;
  WorkspaceNeed products;

  /// Wherever the memory begins.
  [[nodiscard]] std::int64_t bytes() const {
    const std::int64_t both = checked_add(own.bytes(), products.bytes(), "bytes of a workspace");
    return both == 0 ? 0 : checked_add(both, k_line_bytes - 1, "bytes of a workspace");
  }
};

}  // namespace spjit
