#include "compiler/verification.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <optional>
#include <utility>

#include "artifact/argument_checks.hpp"
#include "base/host_cpu.hpp"
#include "base/refusal.hpp"
#include "base/timing.hpp"
#include "compiler/kernel_cache.hpp"
#include "kernels/host/operands/workspace_pool.hpp"
#include "kernels/kernel_operation.hpp"
#include "matrix/limits.hpp"
#include "plan/formula.hpp"
#include "plan/group_scales.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// Elements that leading dimensions are increased by, where a kernel takes any: not a vector, so
/// that rows lose their alignment.
constexpr std::int64_t k_gap = 3;

StoredSize stored_b(const KernelInfo& info, const CheckRun& run) {
  return run.rules().stored_b(run.sizes(info.cols));
}

/// Operands with gaps, and without tokens of B that overlap.
CheckRun widened(const CheckRun& run, const KernelInfo& info) {
  CheckRun wider = run;
  const auto widen = [&](DenseFormat& format, std::int64_t features, std::int64_t columns) {
    const std::int64_t least = format.layout == Layout::tokens_major ? features : columns;
    format.leading_dimension = std::max(format.leading_dimension, least) + k_gap;
    if (format.layout == Layout::panel_major) format.leading_dimension = 0;
  };
  const StoredSize b = stored_b(info, run);
  widen(wider.b, b.rows, b.columns);
  widen(wider.c, info.rows, run.n);
  wider.ldr = 0;
  return wider;
}

/// The run with other columns, or with images of other sizes.
CheckRun with_other_sizes(const CheckRun& run, const KernelInfo& info) {
  CheckRun other = run;
  const OtherRun sizes = run.rules().other_run(run.sizes(info.cols));
  other.n = sizes.n;
  other.convolution = sizes.convolution;
  if (other.b.layout == Layout::row_major) {
    other.b.leading_dimension = stored_b(info, other).columns;
  }
  if (other.c.layout == Layout::row_major) other.c.leading_dimension = other.n;
  return widened(other, info);
}

Refusal too_large(double bytes) {
  const double most = most_check_bytes(static_cast<double>(memory_bytes()));
  if (bytes <= most) return Refusal::none();
  return Refusal(fmt::format("B and C of the check would take {:.1f} GB, over {:.3g} GB",
                             bytes / 1e9, most / 1e9));
}

Verdict not_checked(const std::string& reason) {
  Verdict verdict;
  verdict.verification.reason = reason;
  verdict.note = "not checked: " + reason;
  return verdict;
}

/// Adds its life time to CompileContext::check_ms.
class CheckTime {
 public:
  explicit CheckTime(const CompileContext& context) : context_(context) {}
  CheckTime(const CheckTime&) = delete;
  CheckTime& operator=(const CheckTime&) = delete;
  ~CheckTime() {
    if (context_.check_ms) *context_.check_ms += ms();
  }

  [[nodiscard]] double ms() const { return ms_since(start_); }

 private:
  const CompileContext& context_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// What a kernel is checked with.
struct CheckedProblem {
  const Problem& problem;
  const CompileOptions& options;
  const CompileContext& context;
};

Verdict checked_verdict(const CheckedKernel& kernel, const std::string& device,
                        const CompileOptions& options, const CompileContext& context) {
  const CheckTime time(context);
  CheckOptions check;
  if (options.verify == VerifyMode::full) check.most_products.reset();
  check.cancel = context.cancel;
  CheckResult result = check_kernel(kernel, check);
  Verdict verdict;
  verdict.problem = std::move(result.problem);
  Verification& verification = verdict.verification;
  verification.mode = options.verify;
  verification.device = device;
  verification.rows = kernel.matrix.rows;
  verification.rows_checked = result.rows_checked;
  verification.columns = kernel.runs.front().n;
  verification.columns_checked = result.columns_checked;
  verification.max_abs_error = result.max_abs_error;
  verification.max_error_over_bound = result.max_error_over_bound;
  verification.check_ms = time.ms();
  return verdict;
}

/// Checks what runs as `executable` says.
Verdict verify_executable(const Executable& executable, const KernelInfo& info,
                          const std::string& device, const CheckedProblem& checked) {
  PreparedValues values;
  const auto run = [&](Arguments arguments) {
    if (info.runtime_values) {
      if (values.stream() == nullptr) {
        values = PreparedValues(executable.prepare_values(checked.problem.a->values));
      }
      arguments.values = &values;
    }
    check_values(info, executable.id(), arguments.values);
    executable.run(checked_arguments(info, arguments));
  };
  return verdict_of({.matrix = *checked.problem.a,
                     .runs = check_runs(info),
                     .run = run,
                     .epilogue = info.epilogue,
                     .numerics = info.numerics,
                     .groups = groups_of(checked.problem),
                     .panel_columns = info.panel_columns},
                    device, checked.options, checked.context);
}

/// What a kernel says it is of.
std::string stated(const KernelInfo& info) {
  const OperationRules& rules = rules_of(info);
  const std::string details = rules.details(sizes_of(info));
  return fmt::format(
      "A [{} x {}]{}, n = {}{}, B: {}, ldb = {}, C: {}, ldc = {}, C = {}{}{}", info.rows, info.cols,
      info.runtime_values ? " with values of a run" : "", info.n, info.runtime_n ? " or any" : "",
      to_string(info.b_layout), info.ldb, to_string(info.c_layout), info.ldc,
      formula_of(info.epilogue),
      details.empty() ? "" : fmt::format(", of {}: {}", rules.noun(), details),
      (info.numerics.is_default() ? "" : ", " + to_string(info.numerics)) +
          (info.group_columns == 0 ? ""
                                   : fmt::format(", a scale for {} columns", info.group_columns)));
}

/// Whether a kernel says that it is of the problem.
Refusal other_problem(const KernelInfo& info, const Problem& problem) {
  KernelInfo expected;
  expected.rows = problem.a->rows;
  expected.cols = problem.a->cols;
  expected.n = problem.n.value;
  expected.runtime_n = problem.n.runtime;
  expected.ldb = problem.ldb();
  expected.ldc = problem.ldc();
  expected.b_layout = problem.b.layout;
  expected.c_layout = problem.c.layout;
  expected.epilogue = problem.epilogue;
  expected.runtime_values = problem.runtime_values;
  expected.convolution = problem.convolution;
  expected.numerics = problem.numerics;
  expected.group_columns = groups_of(problem).columns;
  if (stated(info) == stated(expected)) return Refusal::none();
  return Refusal(
      fmt::format("wrong kernel: it is of {}; expected {}", stated(info), stated(expected)));
}

}  // namespace

std::vector<CheckRun> check_runs(const KernelInfo& info) {
  CheckRun own{.n = info.n, .b = {info.ldb, info.b_layout}, .c = {info.ldc, info.c_layout}};
  own.ldr = own.c.leading_dimension;
  own.convolution = info.convolution;
  std::vector<CheckRun> runs{own};
  const CheckRun wider = widened(own, info);
  if (std::max(wider.b.leading_dimension, wider.c.leading_dimension) >
      info.most_leading_dimension) {
    return runs;
  }
  if (info.any_layout) runs.front().ldr += 2 * k_gap;
  const bool has_panels_only =
      info.b_layout == Layout::panel_major && info.c_layout == Layout::panel_major;
  if (!has_panels_only || info.epilogue.residual) runs.push_back(wider);
  if (info.runtime_n) runs.push_back(with_other_sizes(own, info));
  return runs;
}

Verdict verdict_of(const CheckedKernel& kernel, const std::string& device,
                   const CompileOptions& options, const CompileContext& context) {
  try {
    const Refusal refusal = too_large(kernel.bytes(context.cancel));
    if (refusal) return not_checked(refusal.reason());
    context.stage("checking");
    const Turns::Place turn = context.take_check_turn();
    return checked_verdict(kernel, device, options, context);
  } catch (const std::bad_alloc&) {
    return not_checked("there is not enough memory for B and C of the check");
  } catch (const NoMemory& error) {
    return not_checked(error.what());
  }
}

Verdict verify_kernel(const Kernel::Impl& kernel, const Problem& problem,
                      const CompileOptions& options, const CompileContext& context) {
  Verdict verdict;
  if (options.verify == VerifyMode::none) return verdict;
  if (Refusal other = other_problem(kernel.info, problem)) {
    verdict.problem = std::move(other).reason();
    return verdict;
  }
  const CheckedProblem checked{problem, options, context};
  if (kernel.lacks) return not_checked(kernel.lacks.reason());
  const auto load = [&](const Device& device) {
    return kernel.code->load(kernel.record, device, context.cancel);
  };
  try {
    CheckPlace place = kernel.backend->check_place(kernel.info, kernel.executable, load);
    if (place.executable != nullptr) {
      return verify_executable(*place.executable, kernel.info, place.device, checked);
    }
    verdict.verification.reason = std::move(place.why_not).reason();
    return verdict;
  } catch (const DeviceError& error) {
    if (kernel.backend->is_out_of_memory(error)) return not_checked(error.what());
    if (!kernel.backend->is_fault(error)) throw;
    verdict.problem = fmt::format("the kernel faults: {}", error.what());
    return verdict;
  }
}

void require_passed(const Verdict& verdict, const std::string& note) {
  if (verdict.passed()) return;
  throw VerificationFailed(
      fmt::format("{}; the kernel was not kept{}; please report this matrix and 'spjit devices'",
                  verdict.problem, note.empty() ? "" : " (" + note + ")"));
}

Verification accept(Verdict verdict, nlohmann::json& record, std::string& note) {
  require_passed(verdict, note);
  add_note(note, verdict.note);
  record["verification"] = to_json(verdict.verification);
  return std::move(verdict.verification);
}

nlohmann::json to_json(const Verification& verification) {
  nlohmann::json json = {{"mode", std::string(to_string(verification.mode))}};
  if (!verification.reason.empty()) json["reason"] = verification.reason;
  if (verification.mode == VerifyMode::none) return json;
  json["reference"] = "float64";
  json["seed"] = k_check_seed;
  json["device"] = verification.device;
  json["rows_checked"] = verification.rows_checked;
  json["columns_checked"] = verification.columns_checked;
  json["complete"] = verification.complete();
  json["max_abs_error"] = verification.max_abs_error;
  json["max_error_over_bound"] = verification.max_error_over_bound;
  return json;
}

}  // namespace spjit
