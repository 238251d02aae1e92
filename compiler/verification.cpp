#include "compiler/verification.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <optional>
#include <utility>

#include "base/host_cpu.hpp"
#include "base/timing.hpp"
#include "compiler/kernel_cache.hpp"
#include "kernels/unrolled_cuda/cuda_executable.hpp"
#include "kernels/unrolled_cuda/cuda_tile.hpp"
#include "kernels/workspace_pool.hpp"
#include "matrix/limits.hpp"
#include "runtime/cuda/cuda_context.hpp"
#include "runtime/cuda/cuda_driver.hpp"
#include "runtime/cuda/local_gpus.hpp"
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
  const double most = most_check_bytes(static_cast<double>(memory_bytes()));
  if (bytes <= most) return {};
  return fmt::format("B and C of the check would take {:.1f} GB, over {:.3g} GB", bytes / 1e9,
                     most / 1e9);
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

/// What a kernel is checked with.
struct CheckedMatrix {
  const CsrMatrix& matrix;
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
  verification.columns = kernel.n;
  verification.columns_checked = result.columns_checked;
  verification.max_abs_error = result.max_abs_error;
  verification.max_error_over_bound = result.max_error_over_bound;
  verification.check_ms = time.ms();
  return verdict;
}

/// Waits for what the GPU was given before: a fault in that is not the kernel's.
void require_whole_context(const LocalGpu& gpu) {
  try {
    CudaContext(local_cuda_driver(), gpu.ordinal).synchronize();
  } catch (const DeviceError& error) {
    if (!is_fault(error.code())) throw;
    throw DeviceError(
        fmt::format("the kernel cannot be checked in this process: something that ran before it "
                    "has broken the context: {}",
                    error.what()),
        error.code());
  }
}

/// Checks what runs as `executable` says.
Verdict verify_executable(const Executable& executable, const Kernel::Impl& kernel,
                          const std::string& device, const CheckedMatrix& checked) {
  const KernelInfo& info = kernel.info;
  PreparedValues values;
  if (info.runtime_values) {
    values = PreparedValues(executable.prepare_values(checked.matrix.values));
  }
  return verdict_of({.matrix = checked.matrix,
                     .n = info.n,
                     .layouts = check_layouts(info),
                     .run =
                         [&](Arguments arguments) {
                           if (info.runtime_values) arguments.values = &values;
                           executable.run(arguments);
                         },
                     .b_layout = info.b_layout,
                     .c_layout = info.c_layout,
                     .panel_columns = std::max<std::int64_t>(info.panel_columns, 1),
                     .epilogue = info.epilogue},
                    device, checked.options, checked.context);
}

/// The first GPU here that runs code for `arch`.
std::optional<LocalGpu> find_gpu(std::int64_t arch, const LocalGpus& local) {
  for (const LocalGpu& gpu : local.gpus) {
    if (runs_code_of(gpu.limits.arch, arch)) return gpu;
  }
  return std::nullopt;
}

}  // namespace

std::vector<CheckLayout> check_layouts(const KernelInfo& info) {
  const CheckLayout own{info.ldb, info.ldc};
  const CheckLayout wider = widened(own);
  // B with tokens that overlap others is another B with wider rows.
  const bool overlaps = info.b_layout == Layout::tokens_major && info.ldb < info.cols;
  const bool has_rows =
      info.b_layout != Layout::panel_major || info.c_layout != Layout::panel_major;
  if (overlaps || !has_rows) return {own};
  const bool any = !info.cuda || (info.runtime_n &&
                                  std::max(wider.ldb, wider.ldc) <= k_cuda_max_leading_dimension);
  return any ? std::vector{own, wider} : std::vector{own};
}

Verdict verdict_of(const CheckedKernel& kernel, const std::string& device,
                   const CompileOptions& options, const CompileContext& context) {
  try {
    const std::string problem = too_large(kernel.bytes(context.cancel));
    if (!problem.empty()) return not_checked(problem);
    context.stage("checking");
    const Turns::Place turn = context.take_check_turn();
    return checked_verdict(kernel, device, options, context);
  } catch (const std::bad_alloc&) {
    return not_checked("there is not enough memory for B and C of the check");
  } catch (const NoMemory& error) {
    return not_checked(error.what());
  }
}

Verdict verify_kernel(const Kernel::Impl& kernel, const CsrMatrix& matrix,
                      const CompileOptions& options, const CompileContext& context) {
  Verdict verdict;
  if (options.verify == VerifyMode::none) return verdict;
  const CheckedMatrix checked{matrix, options, context};
  if (kernel.executable != nullptr) {
    return verify_executable(*kernel.executable, kernel, host_cpu().model_name, checked);
  }
  const int arch = kernel.info.cuda->arch;
  const LocalGpus local = find_local_gpus();
  const std::optional<LocalGpu> gpu = find_gpu(arch, local);
  if (!gpu) {
    verdict.verification.reason =
        local.gpus.empty() ? "no GPU: " + local.problem
                           : fmt::format("no GPU of this machine runs code for sm_{}", arch);
    return verdict;
  }
  try {
    require_whole_context(*gpu);
    const LoadedKernel loaded =
        kernel.code->load(kernel.record, GpuDevice{gpu->ordinal}, context.cancel);
    return verify_executable(*loaded.executable, kernel, gpu->limits.product, checked);
  } catch (const LaunchError& error) {
    if (!is_fault(error.code())) throw;
    verdict.problem = fmt::format("the kernel faults: {}", error.what());
    return verdict;
  } catch (const DeviceError& error) {
    constexpr int k_out_of_memory = 2;
    if (error.code() != k_out_of_memory) throw;
    return not_checked(error.what());
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
