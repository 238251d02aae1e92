#include "compiler/verification.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "compiler/cuda_tile.hpp"
#include "compiler/local_gpus.hpp"
#include "runtime/elapsed.hpp"
#include "runtime/host_cpu.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// Floats that leading dimensions are increased by, where a kernel takes any: not a vector, so that
/// rows lose their alignment.
constexpr std::int64_t k_gap_floats = 3;

CheckLayout widened(const CheckLayout& layout) {
  return {layout.ldb + k_gap_floats, layout.ldc + k_gap_floats};
}

std::string too_large(double bytes) {
  if (bytes <= k_most_check_bytes) return {};
  return fmt::format("B and C of the check would take {:.1f} GB, over {:.0f} GB", bytes / 1e9,
                     k_most_check_bytes / 1e9);
}

/// Whether an error of the driver says that a kernel did what no right kernel does.
bool is_fault(int code) {
  switch (code) {
    case 700:  // ILLEGAL_ADDRESS
    case 714:  // HARDWARE_STACK_ERROR
    case 715:  // ILLEGAL_INSTRUCTION
    case 716:  // MISALIGNED_ADDRESS
    case 717:  // INVALID_ADDRESS_SPACE
    case 718:  // INVALID_PC
    case 719:  // LAUNCH_FAILED
      return true;
    default:
      return false;
  }
}

Verdict verify(const CheckedKernel& kernel, const std::string& device,
               const CompileOptions& options, const CompileWatch& watch) {
  Verdict verdict;
  verdict.verification.reason = too_large(kernel.bytes());
  if (!verdict.verification.reason.empty()) {
    verdict.note = "not checked: " + verdict.verification.reason;
    return verdict;
  }
  watch.stage("checking");
  const auto start = std::chrono::steady_clock::now();
  CheckOptions check;
  if (options.verify == VerifyMode::full) check.most_products.reset();
  check.cancel = watch.cancel;
  CheckResult result = check_kernel(kernel, check);
  verdict.problem = std::move(result.problem);
  Verification& verification = verdict.verification;
  verification.mode = options.verify;
  verification.device = device;
  verification.rows = kernel.matrix.rows;
  verification.rows_checked = result.rows_checked;
  verification.columns = kernel.n;
  verification.columns_checked = result.columns_checked;
  verification.max_abs_error = result.max_abs_error;
  verification.max_error_over_bound = result.max_error_over_bound;
  verification.check_ms = ms_since(start);
  return verdict;
}

/// The first GPU here that runs code for `arch`.
std::optional<LocalGpu> find_gpu(std::int64_t arch, const LocalGpus& local) {
  for (const LocalGpu& gpu : local.gpus) {
    if (runs_code_of(gpu.limits.arch, arch)) return gpu;
  }
  return std::nullopt;
}

}  // namespace

std::vector<CheckLayout> check_layouts(const CompileOptions& options) {
  const CheckLayout own{options.ldb > 0 ? options.ldb : options.n,
                        options.ldc > 0 ? options.ldc : options.n};
  return {own, widened(own)};
}

std::vector<CheckLayout> check_layouts(const CudaProgram& program) {
  const CheckLayout own{program.ldb, program.ldc};
  const CheckLayout wider = widened(own);
  if (!program.runtime_sizes || std::max(wider.ldb, wider.ldc) > k_cuda_max_leading_dimension) {
    return {own};
  }
  return {own, wider};
}

Verdict verify_kernel(const SpmmKernel::Impl& kernel, const CsrMatrix& matrix,
                      const CompileOptions& options, const CompileWatch& watch) {
  if (options.verify == VerifyMode::none) return {};
  return verify({.matrix = matrix,
                 .n = options.n,
                 .layouts = check_layouts(options),
                 .run =
                     [&](const DenseOperands& operands) {
                       kernel.run({operands.b, operands.ldb, operands.c, operands.ldc});
                     }},
                host_cpu().model_name, options, watch);
}

Verdict verify_kernel(const CudaKernel::Impl& kernel, const CsrMatrix& matrix,
                      const CompileOptions& options, const CompileWatch& watch) {
  Verdict verdict;
  if (options.verify == VerifyMode::none) return verdict;
  const CudaProgram& program = kernel.program;
  const LocalGpus local = find_local_gpus();
  const std::optional<LocalGpu> gpu = find_gpu(program.arch, local);
  if (!gpu) {
    verdict.verification.reason =
        local.gpus.empty()
            ? "no GPU: " + local.problem
            : fmt::format("no GPU of this machine runs code for sm_{}", program.arch);
    return verdict;
  }
  try {
    const auto prepared = PreparedCudaKernel::Impl::load(kernel, gpu->ordinal);
    verdict = verify({.matrix = matrix,
                      .n = program.n,
                      .layouts = check_layouts(program),
                      .run =
                          [&](const DenseOperands& operands) {
                            prepared->run({.b = operands.b,
                                           .ldb = operands.ldb,
                                           .c = operands.c,
                                           .ldc = operands.ldc,
                                           .n = operands.n});
                          }},
                     gpu->limits.product, options, watch);
  } catch (const DeviceError& error) {
    if (!is_fault(error.code())) throw;
    verdict.problem = fmt::format("the kernel faults: {}", error.what());
  }
  return verdict;
}

void require_passed(const Verdict& verdict, const std::string& note) {
  if (verdict.passed()) return;
  throw VerificationFailed(
      fmt::format("{}; the kernel was not kept{}; please report this matrix and 'spjit devices'",
                  verdict.problem, note.empty() ? "" : " (" + note + ")"));
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
