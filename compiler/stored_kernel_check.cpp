#include "compiler/stored_kernel_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "base/host_cpu.hpp"
#include "base/json_text.hpp"
#include "compiler/verification.hpp"
#include "kernels/host/object/csr_image.hpp"
#include "kernels/host/object/host_executable.hpp"
#include "kernels/host/object/host_image.hpp"
#include "plan/problem.hpp"
#include "runtime/host/host_device_info.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// Of the unit matrix that are multiplied at once: whole panels of every family.
constexpr std::int64_t k_columns_at_once = 256;

std::vector<float> values_of_entries(std::int64_t nnz, DataType type) {
  std::vector<float> values(to_size(nnz));
  for (std::int64_t i = 0; i < nnz; ++i) values[to_size(i)] = read_back_value(i, type);
  return values;
}

/// Rows of A that grow column by column.
class GrowingRows {
 public:
  explicit GrowingRows(std::int64_t rows) : rows_(to_size(rows)) {}

  void add(std::int64_t row, std::int64_t column, float value) {
    if (!std::isfinite(value)) throw Error("its weights are not all finite numbers");
    if (value != 0) rows_[to_size(row)].push_back({static_cast<std::int32_t>(column), value});
  }

  [[nodiscard]] CsrMatrix matrix(std::int64_t cols) const {
    CsrMatrix matrix{std::ssize(rows_), cols, {0}, {}, {}};
    for (const std::vector<Entry>& row : rows_) {
      for (const Entry& entry : row) {
        matrix.col_idxs.push_back(entry.column);
        matrix.values.push_back(entry.value);
      }
      matrix.row_ptrs.push_back(matrix.nnz());
    }
    return matrix;
  }

 private:
  struct Entry {
    std::int32_t column;
    float value;
  };
  std::vector<std::vector<Entry>> rows_;
};

/// The problem of a record with the matrix that was read back in place of its own.
Problem problem_of(const nlohmann::json& record, std::shared_ptr<const CsrMatrix> a,
                   std::shared_ptr<const GroupScales> scales) {
  nlohmann::json described = record.at("problem");
  described["a"]["nnz"] = a->nnz();
  described["a"]["hash"] = matrix_hash(*a, !described.at("runtime_values").get<bool>());
  return read_problem(described, std::move(a), {}, std::move(scales));
}

/// What is wrong with what was read back, and what could not be compared.
StoredVerdict compare_weights(const CsrMatrix& a, DataType type, const nlohmann::json& record) {
  const nlohmann::json& problem = record.at("problem");
  const nlohmann::json& made_of = problem.at("a");
  const bool has_values = !problem.at("runtime_values").get<bool>();
  const auto nnz = made_of.at("nnz").get<std::int64_t>();
  StoredVerdict verdict;
  if (a.nnz() < nnz) {
    verdict.note = fmt::format("weights not compared: {} of {} that are stored are 0, or were lost",
                               nnz - a.nnz(), nnz);
    return verdict;
  }
  const bool is_same = a.nnz() == nnz &&
                       matrix_hash(a, has_values) == made_of.at("hash").get<std::string>() &&
                       (has_values || a.values == values_of_entries(nnz, type));
  if (!is_same) verdict.problem = "it multiplies by other weights than it was compiled of";
  return verdict;
}

/// A of a kernel that is a plain loop over it.
CsrMatrix matrix_in(const HostImage& image, const Cancellation& cancel) {
  const CsrImage read = read_csr_image(image, cancel);
  CsrMatrix matrix{read.header.rows, read.header.cols, read.row_ptrs, {}, {}};
  matrix.col_idxs.assign(read.col_idxs.begin(), read.col_idxs.end());
  matrix.values.assign(read.values.begin(), read.values.end());
  if (read.values.empty()) {
    matrix.values = values_of_entries(matrix.nnz(), read.header.numerics.a);
  }
  return matrix;
}

/// Scales of groups of a kernel; null where it has none.
std::shared_ptr<const GroupScales> scales_in(const Kernel::Impl& kernel,
                                             const Cancellation& cancel) {
  if (kernel.info.group_columns == 0) return nullptr;
  const CsrImage read = read_csr_image(*kernel.executable->image(), cancel);
  return std::make_shared<const GroupScales>(GroupScales{
      kernel.info.group_columns, {read.groups.values.begin(), read.groups.values.end()}});
}

}  // namespace

CsrMatrix read_back(const Kernel::Impl& kernel, const Cancellation& cancel) {
  const KernelInfo& info = kernel.info;
  const HostImage* image = kernel.executable == nullptr ? nullptr : kernel.executable->image();
  if (image == nullptr) throw NotSupported("a kernel for a GPU cannot be read back");
  require_isa(host_cpu(), info.target.isa());
  const auto* executable = dynamic_cast<const HostExecutable*>(kernel.executable.get());
  // Products have the scales of groups in them.
  if (executable == nullptr || info.group_columns > 0) return matrix_in(*image, cancel);
  std::shared_ptr<const PreparedValues::Stream> values;
  if (info.runtime_values) {
    values = executable->prepare_values(values_of_entries(info.nnz, info.numerics.a));
  }
  const std::int64_t n = std::min(info.n, k_columns_at_once);
  std::vector<float> b(to_size(info.cols * n));
  std::vector<float> c(to_size(info.rows * n));
  GrowingRows rows(info.rows);
  for (std::int64_t first = 0; first < info.cols; first += n) {
    cancel.check();
    const std::int64_t columns = std::min(n, info.cols - first);
    const auto set_diagonal = [&](float value) {
      for (std::int64_t i = 0; i < columns; ++i) b[to_size((first + i) * n + i)] = value;
    };
    set_diagonal(1);
    executable->multiplier().multiply(
        {.b = b.data(), .ldb = n, .c = c.data(), .ldc = n, .n = n, .values = values.get()});
    set_diagonal(0);
    for (std::int64_t row = 0; row < info.rows; ++row) {
      for (std::int64_t i = 0; i < columns; ++i) rows.add(row, first + i, c[to_size(row * n + i)]);
    }
  }
  return rows.matrix(info.cols);
}

StoredVerdict check_stored_kernel(const Kernel::Impl& kernel, VerifyMode mode,
                                  const Cancellation& cancel) {
  StoredVerdict verdict;
  const Target& target = kernel.info.target;
  if (kernel.executable == nullptr) {
    verdict.not_checked = fmt::format("for {}: only where it is compiled", target.name());
    return verdict;
  }
  if (kernel.lacks) {
    verdict.not_checked = kernel.lacks.reason();
    return verdict;
  }
  try {
    const auto a = std::make_shared<const CsrMatrix>(read_back(kernel, cancel));
    verdict = compare_weights(*a, kernel.info.numerics.a, kernel.record);
    if (!verdict.problem.empty()) return verdict;
    CompileOptions options;
    options.target = target;
    options.verify = mode;
    CompileContext context;
    context.cancel = cancel;
    Verdict checked = verify_kernel(kernel, problem_of(kernel.record, a, scales_in(kernel, cancel)),
                                    options, context);
    verdict.problem = std::move(checked.problem);
    verdict.verification = std::move(checked.verification);
    verdict.not_checked = verdict.verification.reason;
  } catch (const Cancelled&) {
    throw;
  } catch (const DeadlineExceeded&) {
    throw;
  } catch (const nlohmann::json::exception& error) {
    verdict.problem = fmt::format("its record: {}", json_problem(error.what()));
  } catch (const Error& error) {
    verdict.not_checked = error.what();
  }
  return verdict;
}

}  // namespace spjit
