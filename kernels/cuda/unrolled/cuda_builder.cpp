#include "kernels/cuda/unrolled/cuda_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/timing.hpp"
#include "kernels/cuda/build/cuda_build.hpp"
#include "kernels/cuda/unrolled/cuda_emitter.hpp"
#include "kernels/cuda/unrolled/ptx_emitter.hpp"
#include "kernels/cuda/unrolled/value_stream.hpp"
#include "runtime/cuda/cubin_info.hpp"
#include "runtime/cuda/cuda_libraries.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using Clock = std::chrono::steady_clock;

/// Without nvJitLink units cannot be linked, and NVRTC takes seconds for an undivided kernel of
/// this many nonzeros and minutes for twice as many (docs/results/gpu.md).
constexpr std::int64_t k_most_undivided_nonzeros = 20'000;
constexpr std::int64_t k_undivided = std::int64_t{1} << 40;

CudaKernelSpec spec_of(const CudaCandidate& candidate, const CudaTile& tile,
                       std::int64_t min_blocks) {
  const Workload& work = candidate.work;
  CudaKernelSpec spec;
  spec.layer = candidate.layer;
  spec.tile = tile;
  spec.n = work.n;
  spec.ldb = candidate.ldb > 0 ? candidate.ldb : work.n;
  spec.ldc = candidate.ldc > 0 ? candidate.ldc : work.n;
  spec.min_blocks = min_blocks;
  return spec;
}

std::string join_units(const std::vector<SourceUnit>& units) {
  std::size_t bytes = 0;
  for (const SourceUnit& unit : units) bytes += unit.text.size() + 1;
  std::string text;
  text.reserve(bytes);
  for (const SourceUnit& unit : units) {
    text += unit.text;
    text += '\n';
  }
  return text;
}

/// Compiles one plan for one device until it does not spill, or cannot do better.
class Builder {
 public:
  Builder(const KernelPlan& plan, const CudaCandidate& candidate, const CompileOptions& options,
          const CudaDeviceInfo& limits, Cancellation cancel)
      : plan_(plan),
        candidate_(candidate),
        options_(options),
        limits_(limits),
        source_(source_of(options.policy, k_source_option)),
        cancel_(std::move(cancel)),
        limited_(limited(cancel_, options.resources.compile_limit_ms)) {}

  /// Emits the text to be compiled, which stays in units, and where sources are kept, both.
  void emit(CudaTile tile, std::int64_t min_blocks) {
    const auto start = Clock::now();
    if (undivided_) tile.unit_nonzeros = k_undivided;
    spec_ = spec_of(candidate_, tile, min_blocks);
    units_ = emitted(source_);
    if (options_.keep_source) {
      const bool is_ptx = source_ == CudaSource::ptx;
      const CudaSource other = is_ptx ? CudaSource::cuda : CudaSource::ptx;
      (is_ptx ? artifact.ptx : artifact.cuda_source) = join_units(units_);
      (is_ptx ? artifact.cuda_source : artifact.ptx) = join_units(emitted(other));
    }
    trace.emit_ms += ms_since(start);
  }

  void load_toolchain() {
    const FoundCudaLibraries found = found_cuda_libraries({options_.resources.toolkit_paths});
    const int arch = static_cast<int>(limits_.arch);
    try {
      toolchain_ = load_cuda_toolchain(needs_of(units_, arch), found);
    } catch (const NotSupported&) {
      // CUDA 11.8 has no nvJitLink; NVRTC alone makes a cubin of the undivided text.
      CudaToolchain nvrtc_only = nvrtc_alone(arch, found);
      if (!nvrtc_only.nvrtc) throw;
      if (plan_.nnz() > k_most_undivided_nonzeros) {
        throw Declined(fmt::format(
            "there is no nvJitLink for this device, and NVRTC would compile {} nonzeros undivided",
            plan_.nnz()));
      }
      toolchain_ = std::move(nvrtc_only);
      source_ = CudaSource::cuda;
      undivided_ = true;
      trace.note = k_no_nvjitlink_note;
      emit(spec_.tile, spec_.min_blocks);
    }
  }

  /// Builds; while that spills and fewer blocks an SM allow more registers, again with fewer.
  void build() {
    std::int64_t min_blocks = candidate_.min_blocks;
    CudaAttempt attempt = try_build(min_blocks);
    trace.attempts.push_back(attempt);
    const std::int64_t tolerated = candidate_.layer.runtime_values ? k_tolerated_spill_bytes : 0;
    while (attempt.spilled_bytes > tolerated && min_blocks > 1) {
      const std::int64_t cap = attempt.register_cap;
      while (min_blocks > 1 && register_cap(limits_, spec_.tile.threads(), min_blocks) <= cap) {
        --min_blocks;
      }
      if (register_cap(limits_, spec_.tile.threads(), min_blocks) <= cap) break;
      emit(spec_.tile, min_blocks);
      attempt = try_build(min_blocks);
      trace.attempts.push_back(attempt);
    }
    finish(attempt);
  }

  CudaArtifact artifact;
  CudaBuildTrace trace;

  [[nodiscard]] const CudaKernelSpec& spec() const noexcept { return spec_; }

 private:
  [[nodiscard]] std::vector<SourceUnit> emitted(CudaSource source) const {
    if (source == CudaSource::cuda) return emit_cuda(plan_, spec_, cancel_);
    return emit_ptx(plan_, spec_, static_cast<int>(limits_.arch), cancel_);
  }

  CudaAttempt try_build(std::int64_t min_blocks) {
    const auto start = Clock::now();
    CudaAttempt attempt;
    attempt.min_blocks = min_blocks;
    attempt.register_cap = register_cap(limits_, spec_.tile.threads(), min_blocks);
    CudaBuildOptions build_options;
    build_options.arch = static_cast<int>(limits_.arch);
    build_options.threads = options_.resources.compile_threads;
    build_options.max_registers = attempt.register_cap;
    build_options.cancel = limited_;
    artifact.cubin = build_units(build_options);
    info_ = read_cubin_info(std::as_bytes(std::span(artifact.cubin)));
    const CubinKernel* kernel = info_.find_kernel(k_cuda_kernel_name);
    if (kernel == nullptr) {
      throw CompileFailed(fmt::format("the compiled code has no kernel {}", k_cuda_kernel_name));
    }
    attempt.registers = kernel->registers;
    const bool has_calls = source_ == CudaSource::ptx || units_.size() > 1;
    const std::int64_t arguments = has_calls ? argument_stack_bytes(spec_) : 0;
    attempt.spilled_bytes = std::max<std::int64_t>(kernel->stack_bytes - arguments, 0);
    attempt.build_ms = ms_since(start);
    return attempt;
  }

  /// The cubin of the units. Whose deadline it was that ended it decides what is thrown.
  std::string build_units(const CudaBuildOptions& build_options) const {
    try {
      return build_cubin(units_, toolchain_, build_options);
    } catch (const CompileCancelled&) {
      cancel_.check();
      throw;
    }
  }

  void finish(const CudaAttempt& attempt) {
    trace.compiled_from = std::string(to_string(source_));
    trace.toolchain = to_string(toolchain_);
    trace.units = std::ssize(units_);
    trace.code_bytes = info_.code_bytes;
    trace.occupancy =
        occupancy(limits_, {.threads = spec_.tile.threads(),
                            .registers_per_thread = attempt.registers,
                            .static_shared_bytes = 0,
                            .dynamic_shared_bytes = shared_bytes_of(spec_.layer, spec_.tile)});
    if (trace.code_bytes > options_.policy.code_budget_bytes) {
      throw Declined(
          fmt::format("{} bytes of code, the budget is {} (code_budget_bytes, --code-budget)",
                      trace.code_bytes, options_.policy.code_budget_bytes));
    }
    if (attempt.spilled_bytes > 0) {
      trace.note +=
          fmt::format("{}{} bytes a thread spill to local memory at {} registers",
                      trace.note.empty() ? "" : "; ", attempt.spilled_bytes, attempt.registers);
    }
  }

  const KernelPlan& plan_;
  const CudaCandidate& candidate_;
  const CompileOptions& options_;
  const CudaDeviceInfo& limits_;
  CudaSource source_;
  Cancellation cancel_;   ///< the caller's
  Cancellation limited_;  ///< the same, or compile_limit_ms
  bool undivided_ = false;
  CudaKernelSpec spec_;
  std::vector<SourceUnit> units_;
  CudaToolchain toolchain_;
  CubinInfo info_;
};

}  // namespace

BuiltCuda build_cuda_kernel(const KernelPlan& plan, const CudaCandidate& candidate,
                            const CompileOptions& options, const CudaDeviceInfo& limits,
                            const Cancellation& cancel) {
  Builder builder(plan, candidate, options, limits, cancel);
  builder.emit(candidate.tile, candidate.min_blocks);
  builder.load_toolchain();
  builder.build();
  BuiltCuda compiled;
  compiled.program = make_program(plan, builder.spec(), limits.arch);
  compiled.artifact = std::move(builder.artifact);
  if (candidate.layer.runtime_values) compiled.artifact.positions = value_positions(plan, cancel);
  compiled.trace = std::move(builder.trace);
  return compiled;
}

}  // namespace spjit
