#include "tools/options/operand_files.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "plan/group_scales.hpp"
#include "spjit/error.hpp"
#include "spjit/matrix_io.hpp"

namespace spjit::cli {
namespace {

void read_operand(const char* flag, OperandFile& file) {
  if (file.path.empty() || !file.values.empty()) return;
  if (file.path.extension() != ".npy") {
    throw IoError(
        fmt::format("{}: {}: expected a .npy file with a number for each row of A; name matrix "
                    "files before {}, or write {}=FILE",
                    file.path.string(), flag, flag, flag));
  }
  DenseMatrix read = load_dense(file.path);
  if (read.rows != 1) {
    throw IoError(
        fmt::format("{}: {}: [{} x {}] numbers; expected one dimension, a number for "
                    "each row of A",
                    file.path.string(), flag, read.rows, read.cols));
  }
  file.values = std::move(read.values);
}

void read_group_scales(GroupScalesFile& file) {
  if (file.path.empty() != (file.columns == 0)) {
    throw InvalidArgument("--group-scales and --group-columns need each other");
  }
  if (file.path.empty() || file.scales != nullptr) return;
  if (!is_group_size(file.columns)) {
    throw InvalidArgument(
        fmt::format("--group-columns: expected 32, 64 or 128, not {}", file.columns));
  }
  DenseMatrix read = load_dense(file.path);
  file.rows = read.rows;
  file.groups = read.cols;
  file.scales =
      std::make_shared<const GroupScales>(GroupScales{file.columns, std::move(read.values)});
}

void check_group_shape(const GroupScalesFile& file, const CsrMatrix& matrix) {
  if (file.path.empty()) return;
  const std::int64_t groups = groups_of(matrix.cols, file.columns);
  if (file.rows == matrix.rows && file.groups == groups) return;
  throw InvalidArgument(
      fmt::format("--group-scales: {} is [{} x {}]; expected [{} x {}] for A [{} x {}] and groups "
                  "of {} columns",
                  file.path.string(), file.rows, file.groups, matrix.rows, groups, matrix.rows,
                  matrix.cols, file.columns));
}

void check_length(const char* flag, const OperandFile& file, std::int64_t rows) {
  if (file.path.empty() || std::ssize(file.values) == rows) return;
  throw InvalidArgument(fmt::format("{}: {} has {} numbers; expected {}, one for each row of A",
                                    flag, file.path.string(), file.values.size(), rows));
}

}  // namespace

void read_operands(OperandFiles& files) {
  read_operand("--scale", files.scale);
  read_operand("--bias", files.bias);
  read_group_scales(files.group_scales);
}

void check_shape(const OperandFiles& files, const CsrMatrix& matrix) {
  check_length("--scale", files.scale, matrix.rows);
  check_length("--bias", files.bias, matrix.rows);
  check_group_shape(files.group_scales, matrix);
}

Json describe(const OperandFiles& files) {
  const auto path_of = [](const OperandFile& file) {
    return file.path.empty() ? Json(nullptr) : Json(file.path.string());
  };
  Json groups;
  if (const GroupScalesFile& file = files.group_scales; !file.path.empty()) {
    groups = {{"path", file.path.string()}, {"columns", file.columns}};
  }
  return {{"scale", path_of(files.scale)}, {"bias", path_of(files.bias)}, {"group_scales", groups}};
}

}  // namespace spjit::cli
