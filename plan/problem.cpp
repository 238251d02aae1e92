#include "plan/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "base/json_text.hpp"
#include "matrix/cancellable.hpp"
#include "matrix/limits.hpp"
#include "plan/convolution.hpp"
#include "plan/group_scales.hpp"
#include "plan/numerics.hpp"
#include "plan/operation.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using nlohmann::json;

/// Floats between rows that a compilation can be told to expect: 2^50 bytes, beyond what a process
/// can map. What is multiplied with it, a distance in bytes or a thousand rows, fits 64 bits.
constexpr std::int64_t k_max_leading_dimension = std::int64_t{1} << 48;

/// Of B or C, of which a column has so many features. Tokens of B may overlap.
void check_format(const char* name, const Problem& problem, const DenseFormat& format,
                  std::int64_t features) {
  const bool is_b = &format == &problem.b;
  const std::int64_t value = format.leading_dimension;
  switch (format.layout) {
    case Layout::row_major: {
      const std::int64_t columns = is_b ? problem.b_columns() : problem.n.value;
      if (value == 0 || value >= columns) break;
      const std::string_view what = rules_of(problem).columns_text();
      throw InvalidArgument(
          fmt::format("{} is {}; expected 0 or at least {} {}", name, value, what, columns));
    }
    case Layout::tokens_major:
      if (value == 0 || value >= features || (is_b && value > 0)) break;
      throw InvalidArgument(fmt::format(
          "{} is {}; expected 0 or at least the {} features of a token", name, value, features));
    case Layout::panel_major:
      if (!problem.panel_columns) {
        throw InvalidArgument(fmt::format(
            "{} is of panels of a width that is not given; expected Problem::panel_columns",
            is_b ? "B" : "C"));
      }
      if (value == 0) break;
      throw InvalidArgument(
          fmt::format("{} is {}; expected 0: rows of a panel lie together", name, value));
    default:
      throw InvalidArgument(fmt::format("the layout of {} is {}; expected 0 to 2", is_b ? "B" : "C",
                                        static_cast<int>(format.layout)));
  }
  if (value > k_max_leading_dimension) {
    throw InvalidArgument(
        fmt::format("{} is {}; expected 0 to {}", name, value, k_max_leading_dimension));
  }
}

void check_epilogue(const Epilogue& epilogue) {
  if (epilogue.activation > k_last_activation) {
    throw InvalidArgument(fmt::format(
        "the activation is {}; expected 0 (none) to {} ({})", static_cast<int>(epilogue.activation),
        static_cast<int>(k_last_activation), to_string(k_last_activation)));
  }
  if (epilogue.activation == Activation::clamp && !are_bounds(epilogue.low, epilogue.high)) {
    throw InvalidArgument(fmt::format("clamp is from {} to {}; expected low <= high, both numbers",
                                      epilogue.low, epilogue.high));
  }
  if (epilogue.bias_first && !(epilogue.scale && epilogue.bias)) {
    throw InvalidArgument(
        "bias_first is set without scale and bias; expected both (it is the order of the two)");
  }
  const auto check_finite = [&epilogue](const char* name, float value) {
    if (std::isfinite(value)) return;
    throw InvalidArgument(fmt::format("{} of {} is {}; expected a finite number", name,
                                      to_string(epilogue.activation), value));
  };
  if (has_alpha(epilogue.activation)) check_finite("alpha", epilogue.alpha);
  if (has_beta(epilogue.activation)) check_finite("beta", epilogue.beta);
}

/// Of all but A, of which only the sizes are looked at.
void check_sizes(const Problem& problem) {
  if (problem.n.value < 1) {
    throw InvalidArgument(fmt::format("n is {}; expected at least 1 column of B", problem.n.value));
  }
  if (problem.n.value > k_max_dimension) {
    throw InvalidArgument(
        fmt::format("n is {}; expected at most {}", problem.n.value, k_max_dimension));
  }
  check_format("ldb", problem, problem.b, problem.b_rows());
  check_format("ldc", problem, problem.c, problem.a->rows);
  check_epilogue(problem.epilogue);
}

std::string_view name_of(ProblemFeature feature) {
  switch (feature) {
    case ProblemFeature::runtime_n:
      return "a run-time n";
    case ProblemFeature::panels:
      return "a fixed panel width";
    case ProblemFeature::layouts:
      return "a layout other than row-major";
    case ProblemFeature::epilogue:
      return "an epilogue";
    case ProblemFeature::runtime_values:
      return "values at run time";
    case ProblemFeature::convolution:
    case ProblemFeature::spmm:
      break;
    case ProblemFeature::numerics:
      return "other types or sums than fp32 in order";
    case ProblemFeature::group_scales:
      return "scales of groups of columns";
    case ProblemFeature::bias_first:
      return "a bias before the scale";
  }
  for (const OperationRules* rules : all_operations()) {
    if (rules->feature() == feature) return rules->noun();
  }
  return "";
}

json to_json(const DenseFormat& format) {
  return {{"leading_dimension", format.leading_dimension},
          {"layout", std::string(to_string(format.layout))}};
}

DenseFormat read_format(const json& object, const char* name) {
  JsonMembers members(object, name);
  DenseFormat format;
  format.leading_dimension = members.integer("leading_dimension", 0, k_max_leading_dimension);
  format.layout = parse_layout(members.text("layout"));
  members.finish();
  return format;
}

/// JSON has no infinity.
json finite_or_null(float bound) { return std::isfinite(bound) ? json(bound) : json(nullptr); }

Operation read_operation(const json& name) {
  std::string expected;
  for (const OperationRules* rules : all_operations()) {
    if (name == rules->name()) return rules->operation();
    expected += fmt::format("{}\"{}\"", expected.empty() ? "" : " or ", rules->name());
  }
  throw Error(
      fmt::format("the operation of a problem is {}; expected {}", quoted_json(name), expected));
}

Extent read_extent(const json& object) {
  JsonMembers members(object, "\"n\" of a problem");
  Extent n(members.integer("value", 1, k_max_dimension));
  n.runtime = members.boolean("runtime");
  members.finish();
  return n;
}

void check_same_matrix(const json& object, const CsrMatrix& matrix, bool has_values) {
  JsonMembers members(object, "\"a\" of a problem");
  const std::int64_t rows = members.integer("rows", 0, k_max_dimension);
  const std::int64_t cols = members.integer("cols", 0, k_max_dimension);
  const std::int64_t nnz = members.integer("nnz", 0, std::numeric_limits<std::int64_t>::max());
  const std::string hash = members.text("hash");
  members.finish();
  if (rows != matrix.rows || cols != matrix.cols || nnz != matrix.nnz() ||
      hash != matrix_hash(matrix, has_values)) {
    throw Error(
        fmt::format("the problem is of another matrix than this one, [{} x {}] with {} "
                    "nonzeros: {}",
                    matrix.rows, matrix.cols, matrix.nnz(), quoted_json(object)));
  }
}

}  // namespace

std::string_view to_string(Operation operation) {
  const auto number = static_cast<std::size_t>(operation);
  return number < all_operations().size() ? all_operations()[number]->name() : "?";
}

ProblemFeatures features_of(const Problem& problem) {
  ProblemFeatures features;
  if (problem.n.runtime) features.add(ProblemFeature::runtime_n);
  if (problem.panel_columns) features.add(ProblemFeature::panels);
  if (problem.b.layout != Layout::row_major || problem.c.layout != Layout::row_major) {
    features.add(ProblemFeature::layouts);
  }
  if (!problem.epilogue.empty()) features.add(ProblemFeature::epilogue);
  if (problem.epilogue.bias_first) features.add(ProblemFeature::bias_first);
  if (problem.runtime_values) features.add(ProblemFeature::runtime_values);
  if (!problem.numerics.is_default()) features.add(ProblemFeature::numerics);
  if (problem.group_scales != nullptr) features.add(ProblemFeature::group_scales);
  features.add(rules_of(problem).feature());
  return features;
}

bool copies_b(const Problem& problem) {
  return problem.b.layout == Layout::tokens_major || problem.n.runtime ||
         problem.numerics.b != DataType::f32 || rules_of(problem).gathers_b();
}

std::string to_string(ProblemFeatures features) {
  std::string text;
  for (int bit = 0; bit < 32; ++bit) {
    const auto feature = static_cast<ProblemFeature>(1U << static_cast<unsigned>(bit));
    if (!features.has(feature)) continue;
    if (!text.empty()) text += ", ";
    const std::string_view name = name_of(feature);
    text += name.empty() ? fmt::format("feature {}", bit) : std::string(name);
  }
  return text;
}

Epilogue without_unused(Epilogue epilogue) noexcept {
  if (!has_bounds(epilogue.activation)) epilogue.low = epilogue.high = 0;
  if (!has_alpha(epilogue.activation)) epilogue.alpha = 0;
  if (!has_beta(epilogue.activation)) epilogue.beta = 0;
  return epilogue;
}

json to_json(const Epilogue& epilogue) {
  json object = {{"scale", epilogue.scale},
                 {"bias", epilogue.bias},
                 {"residual", epilogue.residual},
                 {"activation", std::string(to_string(epilogue.activation))},
                 {"low", finite_or_null(epilogue.low)},
                 {"high", finite_or_null(epilogue.high)},
                 {"alpha", epilogue.alpha},
                 {"beta", epilogue.beta}};
  if (epilogue.bias_first) object["bias_first"] = true;
  return object;
}

Epilogue read_epilogue(const json& object) {
  constexpr double k_most = std::numeric_limits<float>::max();
  JsonMembers members(object, "\"epilogue\" of a problem");
  Epilogue epilogue;
  epilogue.scale = members.boolean("scale");
  epilogue.bias = members.boolean("bias");
  epilogue.residual = members.boolean("residual");
  epilogue.activation = parse_activation(members.text("activation"));
  const auto number = [&](const char* name) {
    return static_cast<float>(members.number(name, -k_most, k_most));
  };
  const auto bound = [&](const char* name, float infinite) {
    const auto found = object.find(name);
    if (found == object.end() || !found->is_null()) return number(name);
    static_cast<void>(members.at(name));
    return infinite;
  };
  epilogue.low = bound("low", -std::numeric_limits<float>::infinity());
  epilogue.high = bound("high", std::numeric_limits<float>::infinity());
  epilogue.alpha = number("alpha");
  epilogue.beta = number("beta");
  if (object.contains("bias_first")) epilogue.bias_first = members.boolean("bias_first");
  members.finish();
  check_epilogue(epilogue);
  return epilogue;
}

std::string matrix_hash(const CsrMatrix& matrix, bool has_values) {
  std::string hashes = checksum_hex(std::as_bytes(std::span(matrix.row_ptrs))) +
                       checksum_hex(std::as_bytes(std::span(matrix.col_idxs)));
  if (has_values) hashes += checksum_hex(std::as_bytes(std::span(matrix.values)));
  return checksum_hex(std::as_bytes(std::span(hashes)));
}

bool is_same_problem(const Problem& made, const Problem& wanted) {
  const bool is_any = made.n.runtime && wanted.n.runtime;
  const GroupScalesView groups = groups_of(made);
  if (groups.columns != groups_of(wanted).columns ||
      !std::ranges::equal(groups.values, groups_of(wanted).values)) {
    return false;
  }
  return made.operation == wanted.operation && (is_any || made.n == wanted.n) &&
         (is_any || made.ldb() == wanted.ldb()) && (is_any || made.ldc() == wanted.ldc()) &&
         made.b.layout == wanted.b.layout && made.c.layout == wanted.c.layout &&
         made.panel_columns == wanted.panel_columns && made.epilogue == wanted.epilogue &&
         made.runtime_values == wanted.runtime_values && made.numerics == wanted.numerics &&
         rules_of(made).is_same(made, wanted, is_any);
}

Problem checked_problem(Problem problem, const Cancellation& cancel) {
  if (!problem.a) throw InvalidArgument("the problem has no matrix; set Problem::a");
  const OperationRules& rules = rules_of(problem);
  rules.check(problem);
  validate(problem.numerics);
  if (problem.numerics.quantization == Quantization::token && problem.convolution) {
    throw InvalidArgument(
        "a convolution has no tokens to quantise one by one; expected the quantization given or "
        "tensor");
  }
  validate(*problem.a, cancel);
  check_group_scales(problem, cancel);
  problem.a = checked_values(problem, cancel);
  rules.simplify(problem, cancel);
  check_sizes(problem);
  problem.epilogue = without_unused(problem.epilogue);
  if (!has_sorted_rows(*problem.a, cancel)) problem.a = with_sorted_rows(*problem.a, cancel);
  return problem;
}

void add_to_key(const Problem& problem, KeyBuilder& key) {
  const CsrMatrix& matrix = *problem.a;
  key.field("operation", to_string(problem.operation))
      .field("rows", matrix.rows)
      .field("cols", matrix.cols)
      .field("row_ptrs", std::as_bytes(std::span(matrix.row_ptrs)))
      .field("col_idxs", std::as_bytes(std::span(matrix.col_idxs)))
      .field("runtime_values", std::int64_t{problem.runtime_values})
      .field("n", problem.n.value)
      .field("runtime_n", problem.n.runtime ? 1 : 0)
      .field("ldb", problem.ldb())
      .field("ldc", problem.ldc())
      .field("b_layout", to_string(problem.b.layout))
      .field("c_layout", to_string(problem.c.layout))
      .field("panel_columns", problem.panel_columns.value_or(0))
      .field("scale", std::int64_t{problem.epilogue.scale})
      .field("bias", std::int64_t{problem.epilogue.bias})
      .field("residual", std::int64_t{problem.epilogue.residual})
      .field("activation", to_string(problem.epilogue.activation))
      .real("low", problem.epilogue.low)
      .real("high", problem.epilogue.high)
      .real("alpha", problem.epilogue.alpha)
      .real("beta", problem.epilogue.beta);
  if (problem.epilogue.bias_first) key.field("bias_first", 1);
  if (!problem.runtime_values) key.field("values", std::as_bytes(std::span(matrix.values)));
  rules_of(problem).add_to_key(problem, key);
  add_to_key(problem.numerics, key);
  add_group_scales_to_key(problem, key);
}

json to_json(const Problem& problem, const Cancellation& cancel) {
  const CsrMatrix& matrix = *problem.a;
  cancel.check();
  json object = {
      {"operation", std::string(to_string(problem.operation))},
      {"a",
       {{"rows", matrix.rows},
        {"cols", matrix.cols},
        {"nnz", matrix.nnz()},
        {"hash", matrix_hash(matrix, !problem.runtime_values)}}},
      {"n", {{"value", problem.n.value}, {"runtime", problem.n.runtime}}},
      {"b", to_json(problem.b)},
      {"c", to_json(problem.c)},
      {"panel_columns", problem.panel_columns ? json(*problem.panel_columns) : json(nullptr)},
      {"epilogue", to_json(problem.epilogue)},
      {"runtime_values", problem.runtime_values},
      {"convolution", problem.convolution ? to_json(*problem.convolution) : json(nullptr)}};
  if (!problem.numerics.is_default()) object["numerics"] = to_json(problem.numerics);
  if (const GroupScales* scales = problem.group_scales.get(); scales != nullptr) {
    object["group_scales"] = group_scales_json(scales);
  }
  return object;
}

Problem read_problem(const json& object, SharedMatrix a, const Cancellation& cancel,
                     std::shared_ptr<const GroupScales> group_scales) {
  JsonMembers members(object, "a problem");
  Problem problem;
  problem.operation = read_operation(members.at("operation"));
  cancel.check();
  problem.runtime_values = members.boolean("runtime_values");
  check_same_matrix(members.at("a"), *a, !problem.runtime_values);
  problem.a = std::move(a);
  problem.n = read_extent(members.at("n"));
  problem.b = read_format(members.at("b"), "\"b\" of a problem");
  problem.c = read_format(members.at("c"), "\"c\" of a problem");
  if (!members.at("panel_columns").is_null()) {
    problem.panel_columns = json_integer(object.at("panel_columns"),
                                         "\"panel_columns\" of a problem", 1, k_max_dimension);
  }
  problem.epilogue = read_epilogue(members.at("epilogue"));
  if (!members.at("convolution").is_null()) {
    problem.convolution = read_convolution(object.at("convolution"));
  }
  if (object.contains("numerics")) problem.numerics = read_numerics(members.at("numerics"));
  problem.group_scales = same_group_scales(
      object.contains("group_scales") ? members.at("group_scales") : json(nullptr),
      std::move(group_scales));
  members.finish();
  rules_of(problem).check(problem);
  check_sizes(problem);
  return problem;
}

}  // namespace spjit
