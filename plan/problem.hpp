#pragma once

/// @file
/// A Problem as the pipeline sees it: checked, named in a cache key, written as JSON.

#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/cancel.hpp"
#include "base/hash.hpp"
#include "spjit/problem.hpp"

namespace spjit {

/// Features of a problem, one bit each: its operation, and what goes beyond plain operands. A
/// family of kernels says which it knows; it refuses a problem that has others. A new operation and
/// a new member of Problem get a bit here.
enum class ProblemFeature : std::uint32_t {
  runtime_n = 1U << 0U,       ///< Extent::runtime
  panels = 1U << 1U,          ///< Problem::panel_columns
  layouts = 1U << 2U,         ///< DenseFormat::layout other than row-major
  epilogue = 1U << 3U,        ///< Problem::epilogue
  runtime_values = 1U << 4U,  ///< Problem::runtime_values
  convolution = 1U << 5U,     ///< Operation::conv2d
  numerics = 1U << 6U,        ///< Problem::numerics other than the default
  group_scales = 1U << 7U,    ///< Problem::group_scales
  bias_first = 1U << 8U,      ///< Epilogue::bias_first
  spmm = 1U << 16U,           ///< Operation::spmm
};

/// A set of ProblemFeature.
class ProblemFeatures {
 public:
  ProblemFeatures() = default;
  ProblemFeatures(std::initializer_list<ProblemFeature> features) {
    for (const ProblemFeature feature : features) add(feature);
  }

  void add(ProblemFeature feature) noexcept { bits_ |= static_cast<std::uint32_t>(feature); }
  [[nodiscard]] bool has(ProblemFeature feature) const noexcept {
    return (bits_ & static_cast<std::uint32_t>(feature)) != 0;
  }
  [[nodiscard]] bool empty() const noexcept { return bits_ == 0; }
  /// The features of this set that `other` has not.
  [[nodiscard]] ProblemFeatures without(ProblemFeatures other) const noexcept {
    ProblemFeatures rest;
    rest.bits_ = bits_ & ~other.bits_;
    return rest;
  }

 private:
  std::uint32_t bits_ = 0;
};

/// Whether clamp can have these: low <= high, and a number lies between them.
[[nodiscard]] constexpr bool are_bounds(float low, float high) noexcept {
  constexpr float k_infinity = std::numeric_limits<float>::infinity();
  return low <= high && low < k_infinity && high > -k_infinity;
}

/// The parameters that an activation has; the others of an epilogue are 0.
[[nodiscard]] constexpr bool has_bounds(Activation activation) noexcept {
  return activation == Activation::clamp;
}
[[nodiscard]] constexpr bool has_alpha(Activation activation) noexcept {
  return activation == Activation::leaky_relu || activation == Activation::hard_sigmoid;
}
[[nodiscard]] constexpr bool has_beta(Activation activation) noexcept {
  return activation == Activation::hard_sigmoid;
}
/// The epilogue with 0 for the parameters that its activation does not have.
[[nodiscard]] Epilogue without_unused(Epilogue epilogue) noexcept;

[[nodiscard]] ProblemFeatures features_of(const Problem& problem);
/// Whether no code can be for rows of B where they are: it is tokens-major, of a run-time n, no
/// f32, or patches of an image.
[[nodiscard]] bool copies_b(const Problem& problem);
/// "run-time n, a fixed panel width"; a bit that has no name is "feature 8".
[[nodiscard]] std::string to_string(ProblemFeatures features);

/// The problem with rows of A sorted by column, as plans need them, and the channels of all groups
/// of a convolution as one; A is copied only if it has to change. A convolution of one tap that is
/// a plain product becomes one. Throws InvalidMatrix, what `cancel` throws soon after it is
/// reached, and InvalidArgument for
/// - no matrix, an unknown operation, or n < 1 or over 2^31 - 1
/// - a leading dimension below what a row or token has or over 2^48
/// - panels without Problem::panel_columns
/// - an epilogue whose parameters its activation cannot have
/// - a convolution that is none or has panels
/// - numerics that validate() refuses, or a value that the type of A does not have
/// - scales of groups that check_group_scales() refuses
[[nodiscard]] Problem checked_problem(Problem problem, const Cancellation& cancel = {});

/// The member "hash" of "a" below: of A's pattern, and of its values if a kernel has them. Rows
/// have to be sorted by column. 32 hexadecimal digits.
[[nodiscard]] std::string matrix_hash(const CsrMatrix& matrix, bool has_values);

/// Whether a kernel of `made` computes `wanted`, both checked and of one A: all is the same, but
/// that a kernel of a run-time n does for any typical n.
[[nodiscard]] bool is_same_problem(const Problem& made, const Problem& wanted);

/// Adds all of the problem, A's pattern and bits included, to a cache key.
void add_to_key(const Problem& problem, KeyBuilder& key);

/// Everything but A's entries, of which it has shape, nnz and a hash:
///   {"operation": "spmm", "a": {"rows", "cols", "nnz", "hash"}, "n": {"value", "runtime"},
///    "b": {"leading_dimension", "layout"}, "c": {...}, "panel_columns": null | integer,
///    "epilogue": {"scale", "bias", "residual", "activation", "low", "high", "alpha",
///    "beta"}, "runtime_values", "convolution": null | {...}}
/// (the epilogue's "bias_first" where it is true)
/// and "numerics": {"a", "b", "c", "accumulate"} where they are not the default, "group_scales":
/// {"columns", "hash"} where A has some.
[[nodiscard]] nlohmann::json to_json(const Problem& problem, const Cancellation& cancel = {});

/// The member "epilogue" above; infinite bounds are null.
[[nodiscard]] nlohmann::json to_json(const Epilogue& epilogue);
/// Throws Error as read_problem(), and InvalidArgument for parameters that its activation cannot
/// have.
[[nodiscard]] Epilogue read_epilogue(const nlohmann::json& json);

/// The problem that to_json() wrote, for its matrix and scales. Throws Error that names the member
/// that is missing, unknown or of the wrong kind, and if they are not those it was written for.
[[nodiscard]] Problem read_problem(const nlohmann::json& json, SharedMatrix a,
                                   const Cancellation& cancel = {},
                                   std::shared_ptr<const GroupScales> group_scales = nullptr);

}  // namespace spjit
