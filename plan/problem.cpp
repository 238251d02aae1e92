#include "plan/problem.hpp"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "base/json_text.hpp"
#include "matrix/cancellable.hpp"
#include "matrix/limits.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using nlohmann::json;

/// Floats between rows that a compilation can be told to expect: 2^50 bytes, beyond what a process
/// can map. What is multiplied with it, a distance in bytes or a thousand rows, fits 64 bits.
constexpr std::int64_t k_max_leading_dimension = std::int64_t{1} << 48;

void check_leading_dimension(const char* name, std::int64_t value, std::int64_t n) {
  if (value != 0 && value < n) {
    throw InvalidArgument(fmt::format("{} is {}; expected 0 or at least n = {}", name, value, n));
  }
  if (value > k_max_leading_dimension) {
    throw InvalidArgument(
        fmt::format("{} is {}; expected 0 to {}", name, value, k_max_leading_dimension));
  }
}

void check_sizes(const Problem& problem) {
  if (problem.operation != Operation::spmm) {
    throw InvalidArgument(
        fmt::format("the operation is {}; expected 0 (spmm)", static_cast<int>(problem.operation)));
  }
  if (problem.n.value < 1) {
    throw InvalidArgument(fmt::format("n is {}; expected at least 1 column of B", problem.n.value));
  }
  if (problem.n.value > k_max_dimension) {
    throw InvalidArgument(
        fmt::format("n is {}; expected at most {}", problem.n.value, k_max_dimension));
  }
  check_leading_dimension("ldb", problem.b.leading_dimension, problem.n.value);
  check_leading_dimension("ldc", problem.c.leading_dimension, problem.n.value);
}

std::string_view name_of(ProblemFeature feature) {
  switch (feature) {
    case ProblemFeature::runtime_n:
      return "a run-time n";
    case ProblemFeature::panels:
      return "a fixed panel width";
  }
  return "";
}

/// Of A's pattern and values.
std::string hash_of(const CsrMatrix& matrix) {
  const std::string hashes = checksum_hex(std::as_bytes(std::span(matrix.row_ptrs))) +
                             checksum_hex(std::as_bytes(std::span(matrix.col_idxs))) +
                             checksum_hex(std::as_bytes(std::span(matrix.values)));
  return checksum_hex(std::as_bytes(std::span(hashes)));
}

json to_json(const DenseFormat& format) {
  return {{"leading_dimension", format.leading_dimension}};
}

DenseFormat read_format(const json& object, const char* name) {
  JsonMembers members(object, name);
  DenseFormat format;
  format.leading_dimension = members.integer("leading_dimension", 0, k_max_leading_dimension);
  members.finish();
  return format;
}

Extent read_extent(const json& object) {
  JsonMembers members(object, "\"n\" of a problem");
  Extent n(members.integer("value", 1, k_max_dimension));
  n.runtime = members.boolean("runtime");
  members.finish();
  return n;
}

void check_same_matrix(const json& object, const CsrMatrix& matrix) {
  JsonMembers members(object, "\"a\" of a problem");
  const std::int64_t rows = members.integer("rows", 0, k_max_dimension);
  const std::int64_t cols = members.integer("cols", 0, k_max_dimension);
  const std::int64_t nnz = members.integer("nnz", 0, std::numeric_limits<std::int64_t>::max());
  const std::string hash = members.text("hash");
  members.finish();
  if (rows != matrix.rows || cols != matrix.cols || nnz != matrix.nnz() ||
      hash != hash_of(matrix)) {
    throw Error(
        fmt::format("the problem is of another matrix than this one, [{} x {}] with {} "
                    "nonzeros: {}",
                    matrix.rows, matrix.cols, matrix.nnz(), quoted_json(object)));
  }
}

}  // namespace

std::string_view to_string(Operation operation) {
  return operation == Operation::spmm ? "spmm" : "?";
}

ProblemFeatures features_of(const Problem& problem) {
  ProblemFeatures features;
  if (problem.n.runtime) features.add(ProblemFeature::runtime_n);
  if (problem.panel_columns) features.add(ProblemFeature::panels);
  return features;
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

Problem checked_problem(Problem problem, const Cancellation& cancel) {
  if (!problem.a) throw InvalidArgument("the problem has no matrix; set Problem::a");
  check_sizes(problem);
  validate(*problem.a, cancel);
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
      .field("values", std::as_bytes(std::span(matrix.values)))
      .field("n", problem.n.value)
      .field("runtime_n", problem.n.runtime ? 1 : 0)
      .field("ldb", problem.ldb())
      .field("ldc", problem.ldc())
      .field("panel_columns", problem.panel_columns.value_or(0));
}

json to_json(const Problem& problem, const Cancellation& cancel) {
  const CsrMatrix& matrix = *problem.a;
  cancel.check();
  return {{"operation", std::string(to_string(problem.operation))},
          {"a",
           {{"rows", matrix.rows},
            {"cols", matrix.cols},
            {"nnz", matrix.nnz()},
            {"hash", hash_of(matrix)}}},
          {"n", {{"value", problem.n.value}, {"runtime", problem.n.runtime}}},
          {"b", to_json(problem.b)},
          {"c", to_json(problem.c)},
          {"panel_columns", problem.panel_columns ? json(*problem.panel_columns) : json(nullptr)}};
}

Problem read_problem(const json& object, SharedMatrix a, const Cancellation& cancel) {
  JsonMembers members(object, "a problem");
  Problem problem;
  if (members.at("operation") != to_string(Operation::spmm)) {
    throw Error(fmt::format("the operation of a problem is {}; expected \"spmm\"",
                            quoted_json(object.at("operation"))));
  }
  cancel.check();
  check_same_matrix(members.at("a"), *a);
  problem.a = std::move(a);
  problem.n = read_extent(members.at("n"));
  problem.b = read_format(members.at("b"), "\"b\" of a problem");
  problem.c = read_format(members.at("c"), "\"c\" of a problem");
  if (!members.at("panel_columns").is_null()) {
    problem.panel_columns = json_integer(object.at("panel_columns"),
                                         "\"panel_columns\" of a problem", 1, k_max_dimension);
  }
  members.finish();
  check_sizes(problem);
  return problem;
}

}  // namespace spjit
