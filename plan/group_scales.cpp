#include "plan/group_scales.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/json_text.hpp"
#include "matrix/limits.hpp"
#include "plan/numerics.hpp"
#include "plan/quantization.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

void check_fits(const Problem& problem) {
  const GroupScales& scales = *problem.group_scales;
  if (!is_group_size(scales.columns)) {
    throw InvalidArgument(
        fmt::format("groups of A have {} columns; expected 32, 64 or 128", scales.columns));
  }
  const CsrMatrix& matrix = *problem.a;
  const std::int64_t groups = groups_of(matrix.cols, scales.columns);
  const std::int64_t expected = checked_multiply(matrix.rows, groups, "scales of groups");
  if (std::ssize(scales.values) == expected) return;
  throw InvalidArgument(fmt::format("there are {} scales of groups; expected {} rows x {} groups",
                                    scales.values.size(), matrix.rows, groups));
}

void check_scales(const Problem& problem, const Cancellation& cancel) {
  const GroupScales& scales = *problem.group_scales;
  const std::int64_t groups = groups_of(problem.a->cols, scales.columns);
  for_each_piece(std::ssize(scales.values), cancel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float scale = scales.values[to_size(i)];
      if (is_group_scale(scale)) continue;
      throw InvalidArgument(
          fmt::format("the scale of row {} and group {} is {}; expected a finite number",
                      i / groups, i % groups, scale));
    }
  });
}

}  // namespace

bool is_group_scale(float scale) noexcept { return std::isfinite(scale); }

bool takes_group_scales(const Numerics& numerics) noexcept {
  if (numerics.a != DataType::i8 && numerics.a != DataType::i4) return false;
  if (numerics.accumulate.promise == Promise::ordered) return true;
  const DataType b = summed_type_of_b(numerics);
  return numerics.accumulate.promise == Promise::integer &&
         (b == DataType::i8 || b == DataType::u8);
}

GroupScalesView groups_of(const Problem& problem) noexcept {
  if (problem.group_scales == nullptr) return {};
  return {problem.group_scales->columns, problem.group_scales->values};
}

void check_group_scales(const Problem& problem, const Cancellation& cancel) {
  if (problem.group_scales == nullptr) return;
  if (!takes_group_scales(problem.numerics)) {
    throw InvalidArgument(
        fmt::format("A with scales of groups is of {}, {}; expected i8 or i4, ordered, or integer "
                    "with B of bytes",
                    to_string(problem.numerics.a), to_string(problem.numerics.accumulate)));
  }
  if (problem.runtime_values || problem.operation != Operation::spmm) {
    throw InvalidArgument(
        fmt::format("A with scales of groups is of {}; expected a product with A's values",
                    problem.runtime_values ? "values at run time" : "a convolution"));
  }
  check_fits(problem);
  check_scales(problem, cancel);
}

void add_group_scales_to_key(const Problem& problem, KeyBuilder& key) {
  if (problem.group_scales == nullptr) return;
  key.field("group columns", problem.group_scales->columns)
      .field("group scales", std::as_bytes(groups_of(problem).values));
}

nlohmann::json group_scales_json(const GroupScales* scales) {
  if (scales == nullptr) return nullptr;
  return {{"columns", scales->columns},
          {"hash", checksum_hex(std::as_bytes(std::span(scales->values)))}};
}

std::shared_ptr<const GroupScales> same_group_scales(const nlohmann::json& json,
                                                     std::shared_ptr<const GroupScales> scales) {
  const nlohmann::json of_given = group_scales_json(scales.get());
  if (json == of_given) return scales;
  throw Error(fmt::format("the problem has the scales of groups {}; expected {}",
                          quoted_json(of_given), quoted_json(json)));
}

}  // namespace spjit
