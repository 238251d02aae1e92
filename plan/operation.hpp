#pragma once

/// @file
/// Rules in which operations differ outside of the kernels that compute them. A new operation is a
/// value of Operation, its OperationRules, a ProblemFeature, and families that list that.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/cancel.hpp"
#include "base/hash.hpp"
#include "base/row_ranges.hpp"
#include "plan/problem.hpp"
#include "spjit/problem.hpp"

namespace spjit {

/// Arguments::height and Arguments::width of a run; 0: it has none.
struct ImageSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// Sizes of a run of a kernel.
struct OperationSizes {
  std::int64_t cols = 0;                     ///< of A
  std::int64_t n = 0;                        ///< columns of C
  const Convolution* convolution = nullptr;  ///< of conv2d; borrowed
  ImageSize image = {};
};

/// The stored form of B: B itself, or the image that it is patches of.
struct StoredSize {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

/// Sizes of another run of the same kernel, whose n is a run-time size.
struct OtherRun {
  std::int64_t n = 0;
  std::optional<Convolution> convolution = {};
};

/// Immutable and without state; one constant an operation. Runs ask it, too: every call counts.
class OperationRules {
 public:
  constexpr OperationRules() = default;
  OperationRules(const OperationRules&) = delete;
  OperationRules& operator=(const OperationRules&) = delete;
  constexpr virtual ~OperationRules() = default;

  [[nodiscard]] virtual Operation operation() const noexcept = 0;
  /// "spmm": in cache keys and JSON.
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// "a convolution": what families do not know, in messages.
  [[nodiscard]] virtual std::string_view noun() const noexcept = 0;
  /// Families that compute it list this one.
  [[nodiscard]] virtual ProblemFeature feature() const noexcept = 0;

  /// Whether B is never stored as a matrix: its elements are gathered from another operand.
  [[nodiscard]] virtual bool gathers_b() const noexcept = 0;
  /// Whether B and C may be panel-major.
  [[nodiscard]] virtual bool takes_panels() const noexcept = 0;
  /// Whether n follows from other sizes: a problem needs none, and a run says an image's instead.
  [[nodiscard]] virtual bool has_images() const noexcept = 0;
  /// Name of the columns of B or C in messages: "n =".
  [[nodiscard]] virtual std::string_view columns_text() const noexcept = 0;

  [[nodiscard]] virtual StoredSize stored_b(const OperationSizes& sizes) const noexcept = 0;
  /// Rows that are stored of those rows of B.
  [[nodiscard]] virtual RowRanges stored_rows(const OperationSizes& sizes,
                                              RowRanges rows) const = 0;
  /// The operation beyond A, B and C, for people: "64x56x56, kernel 3x3"; else no text.
  [[nodiscard]] virtual std::string details(const OperationSizes& sizes) const = 0;
  /// For a check: the sizes differ from those of `run`, which are a kernel's typical ones.
  [[nodiscard]] virtual OtherRun other_run(const OperationSizes& run) const = 0;

  /// Columns that A has, where other members of a problem say that; else 0. Throws InvalidArgument
  /// for members that say nothing.
  [[nodiscard]] virtual std::int64_t columns_of_a(const Problem& problem) const = 0;
  /// Throws InvalidArgument for members that do not belong together. A may be unsorted.
  virtual void check(const Problem& problem) const = 0;
  /// Sets an n that follows from other sizes.
  virtual void set_n(Problem& problem) const noexcept = 0;
  /// The problem as kernels see it, perhaps of another operation. Throws what `cancel` throws.
  virtual void simplify(Problem& problem, const Cancellation& cancel) const = 0;
  /// Whether two problems of this operation are the same in what only it has; of `any_size`, up to
  /// sizes that a run says.
  [[nodiscard]] virtual bool is_same(const Problem& made, const Problem& wanted,
                                     bool any_size) const = 0;
  /// Adds what only it has.
  virtual void add_to_key(const Problem& problem, KeyBuilder& key) const = 0;

  /// Whether rows of B are stored where B is, in such a layout.
  [[nodiscard]] bool has_rows_of_b(Layout layout) const noexcept {
    return layout == Layout::row_major && !gathers_b();
  }
};

[[nodiscard]] const OperationRules& spmm_rules() noexcept;
[[nodiscard]] const OperationRules& conv2d_rules() noexcept;

/// All there are, in the order of Operation.
[[nodiscard]] std::span<const OperationRules* const> all_operations() noexcept;
/// Throws InvalidArgument that lists those there are.
[[nodiscard]] const OperationRules& rules_of(Operation operation);
[[nodiscard]] inline const OperationRules& rules_of(const Problem& problem) {
  return rules_of(problem.operation);
}
/// The operation that a convolution, or none, stands for: a kernel's facts and records store no
/// other sign of it.
[[nodiscard]] constexpr Operation operation_of(
    const std::optional<Convolution>& convolution) noexcept {
  return convolution ? Operation::conv2d : Operation::spmm;
}
[[nodiscard]] inline const OperationRules& rules_of(
    const std::optional<Convolution>& convolution) noexcept {
  return convolution ? conv2d_rules() : spmm_rules();
}

[[nodiscard]] inline OperationSizes sizes_of(
    std::int64_t cols, std::int64_t n, const std::optional<Convolution>& convolution) noexcept {
  if (!convolution) return {cols, n};
  return {cols, n, &*convolution, {convolution->height, convolution->width}};
}
/// The sizes of a problem. It may have no A, as options of many layers have none: then `cols` is 0.
[[nodiscard]] inline OperationSizes sizes_of(const Problem& problem) noexcept {
  return sizes_of(problem.a ? problem.a->cols : 0, problem.n.value, problem.convolution);
}

}  // namespace spjit
