#include "artifact/matrix_values.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "matrix/cancellable.hpp"
#include "plan/convolution.hpp"
#include "plan/problem.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// matrix_hash() of A's pattern.
std::string pattern_in(const nlohmann::json& record) {
  const nlohmann::json::json_pointer hash("/problem/a/hash");
  if (record.contains(hash) && record.at(hash).is_string())
    return record.at(hash).get<std::string>();
  throw InvalidArgument(
      "this kernel does not say which pattern A has, as one that was linked; expected its values "
      "alone, in the order of A's CSR with ascending columns");
}

/// With rows sorted, and the channels of all groups of a convolution.
CsrMatrix as_compiled(const CsrMatrix& matrix, const KernelInfo& info) {
  CsrMatrix sorted = has_sorted_rows(matrix, {}) ? matrix : with_sorted_rows(matrix, {});
  const std::int64_t groups = matrix.cols == 0 ? 0 : info.cols / matrix.cols;
  const bool is_of_groups = groups > 1 && info.cols % matrix.cols == 0 &&
                            matrix.rows == info.rows && info.rows % groups == 0;
  if (!is_of_groups) return sorted;
  Convolution convolution;
  convolution.groups = groups;
  return with_all_channels(sorted, convolution);
}

}  // namespace

std::vector<float> values_of_pattern(const CsrMatrix& matrix, const KernelInfo& info,
                                     const nlohmann::json& record) {
  const std::string pattern = pattern_in(record);
  matrix.validate();
  CsrMatrix made = as_compiled(matrix, info);
  const bool has_sizes = made.rows == info.rows && made.cols == info.cols && made.nnz() == info.nnz;
  if (has_sizes && matrix_hash(made, false) == pattern) return std::move(made.values);
  throw InvalidArgument(fmt::format(
      "a matrix [{} x {}] with {} entries{} is given; expected the pattern that this kernel was "
      "compiled for, [{} x {}] with {} entries: compile another one for this",
      matrix.rows, matrix.cols, matrix.nnz(), has_sizes ? ", not all at the same places," : "",
      info.rows, info.cols, info.nnz));
}

}  // namespace spjit
