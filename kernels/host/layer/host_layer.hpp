#pragma once

/// @file
/// How a run of a host kernel is computed: the products and groups of columns that it is cut into.

#include <array>
#include <cstdint>
#include <memory>

#include "base/arithmetic.hpp"
#include "kernels/host/layer/column_cut.hpp"
#include "kernels/host/layer/image_stage.hpp"
#include "kernels/host/object/host_family.hpp"
#include "kernels/host/operands/product.hpp"
#include "kernels/host/operands/workspace_pool.hpp"
#include "spjit/arguments.hpp"

namespace spjit {

/// Products of a batch that are computed as one, at most.
inline constexpr std::int64_t k_most_items = 16;

/// The product of all columns, where B and C are; one of a batch.
[[nodiscard]] Product whole_product(const Arguments& arguments);

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

/// What is computed at once.
struct HostExecutable::Group {
  std::int64_t first_item;
  std::int64_t items;   ///< more than one only with all columns
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

}  // namespace spjit
