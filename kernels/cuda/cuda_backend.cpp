#include "kernels/cuda/cuda_backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <variant>

#include "base/timing.hpp"
#include "kernels/cuda/choice.hpp"
#include "kernels/cuda/cuda_options.hpp"
#include "kernels/cuda/launch/cuda_executable.hpp"
#include "kernels/cuda/launch/cuda_matrix.hpp"
#include "kernels/cuda/launch/cuda_program.hpp"
#include "kernels/cuda/launch/cuda_timing.hpp"
#include "runtime/cuda/cuda_context.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// A launch takes a few microseconds of its own: a sample has many.
constexpr double k_race_error_goal = 0.005;

/// The first GPU here that runs code for `arch`.
std::optional<LocalGpu> find_gpu(std::int64_t arch, const LocalGpus& local) {
  for (const LocalGpu& gpu : local.gpus) {
    if (runs_code_of(gpu.limits.arch, arch)) return gpu;
  }
  return std::nullopt;
}

}  // namespace

std::span<const NamedOption* const> CudaBackend::options() const noexcept {
  static constexpr std::array<const NamedOption*, 1> k_options = {&k_source_option};
  return k_options;
}

std::span<const ChoiceRule> CudaBackend::rules() const noexcept { return cuda_choice(); }

std::span<const EmittedFile> CudaBackend::emitted() const noexcept {
  static constexpr std::array k_files = {
      EmittedFile{"cubin", ".cubin", true, k_cubin_file},
      EmittedFile{"cu", ".cu", true, k_cuda_file},
      EmittedFile{"ptx", ".ptx", true, k_ptx_file},
      EmittedFile{"positions", ".positions", true, k_positions_file},
      EmittedFile{"matrix", ".matrix", true, k_matrix_file},
      EmittedFile{"json", ".json"}};
  return k_files;
}

DeviceInfo CudaBackend::device_info(const Target& target) const {
  return cuda_device_info_of(target);
}

void CudaBackend::check(const Problem& problem, const Target& /*target*/) const {
  if (!problem.panel_columns) return;
  throw InvalidArgument("panel_columns is for host targets; a GPU kernel has no panels");
}

void CudaBackend::add_to_key(const CompileOptions& options, const DeviceInfo& /*device*/,
                             KeyBuilder& key) const {
  // The architecture is in the device's fields.
  key.field("keep_source", options.keep_source);
}

int CudaBackend::fitness(const Target& code, const std::string& /*card*/,
                         const Target* wanted) const {
  return wanted != nullptr && runs_code_of(wanted->arch(), code.arch()) ? code.arch() : -1;
}

std::optional<Device> CudaBackend::device(int ordinal) const { return GpuDevice{ordinal}; }

std::optional<Device> CudaBackend::timing_device(
    const Target& target, const DeviceInfo& info,
    const std::shared_ptr<ThreadPool>& /*pool*/) const {
  const TimingGpu gpu = find_timing_gpu(target, std::get<CudaDeviceInfo>(info));
  if (gpu.ordinal) return GpuDevice{*gpu.ordinal};
  return std::nullopt;
}

std::string CudaBackend::timed_on(const Target& target, const DeviceInfo& info) const {
  return find_timing_gpu(target, std::get<CudaDeviceInfo>(info)).product;
}

Refusal CudaBackend::why_not_timed(const Target& target) const {
  TimingGpu gpu = find_timing_gpu(target, cuda_device_info_of(target));
  return gpu.ordinal ? Refusal::none() : Refusal(std::move(gpu.problem));
}

std::vector<TuningResult> CudaBackend::race(std::span<const RaceEntry> entries,
                                            const Problem& problem, const RaceOptions& options,
                                            const CompileContext& context) const {
  const Turns::Place turn = context.take_timing_turn();
  const auto start = std::chrono::steady_clock::now();
  try {
    CudaTimingOperands operands(
        CudaContext(local_cuda_driver(), std::get<GpuDevice>(options.device).ordinal), problem);
    std::vector<PreparedValues> values(entries.size());
    std::vector<TuningEntry> runners;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      Arguments arguments = operands.arguments();
      if (problem.runtime_values) {
        values[i] = PreparedValues(entries[i].kernel->prepare_values(problem.a->values));
        arguments.values = &values[i];
      }
      runners.push_back(
          {entries[i].name, [&operands, arguments, kernel = entries[i].kernel](std::int64_t calls) {
             return operands.time_us(calls, [&] { kernel->launch(arguments); }) *
                    static_cast<double>(calls);
           }});
    }
    TuningOptions tuning;
    tuning.check = [&] { context.check(); };
    tuning.relative_error_goal = k_race_error_goal;
    tuning.budget_ms = std::max(options.budget_ms - ms_since(start), 0.0);
    return run_tuning(runners, tuning);
  } catch (const DeviceError&) {
    return {};
  }
}

namespace {

/// Whether an error of the driver says that a kernel did what no right kernel does.
bool is_fault_code(int code) noexcept {
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

bool is_launch(const DeviceError& error) noexcept {
  return dynamic_cast<const LaunchError*>(&error) != nullptr;
}

/// Waits for what the GPU was given before: a fault in that is not the kernel's.
void require_whole_context(const LocalGpu& gpu) {
  try {
    CudaContext(local_cuda_driver(), gpu.ordinal).synchronize();
  } catch (const DeviceError& error) {
    if (!is_fault_code(error.code())) throw;
    throw DeviceError(
        fmt::format("the kernel cannot be checked in this process: something that ran before it "
                    "has broken the context: {}",
                    error.what()),
        error.code());
  }
}

}  // namespace

CheckPlace CudaBackend::check_place(const KernelInfo& info,
                                    const std::shared_ptr<const Executable>& /*loaded*/,
                                    const std::function<LoadedKernel(const Device&)>& load) const {
  const int arch = info.cuda->arch;
  const LocalGpus local = find_local_gpus();
  const std::optional<LocalGpu> gpu = find_gpu(arch, local);
  if (!gpu) {
    return {.why_not =
                Refusal(local.gpus.empty()
                            ? "no GPU: " + local.problem
                            : fmt::format("no GPU of this machine runs code for sm_{}", arch))};
  }
  require_whole_context(*gpu);
  return {.executable = load(GpuDevice{gpu->ordinal}).executable, .device = gpu->limits.product};
}

bool CudaBackend::is_fault(const DeviceError& error) const noexcept {
  return is_launch(error) && is_fault_code(error.code());
}

bool CudaBackend::is_out_of_memory(const DeviceError& error) const noexcept {
  constexpr int k_out_of_memory = 2;
  return !is_launch(error) && error.code() == k_out_of_memory;
}

}  // namespace spjit
