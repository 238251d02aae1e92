#include "kernels/cuda/launch/cuda_reading.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <memory>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/hash.hpp"
#include "base/timing.hpp"
#include "kernels/built_kernel.hpp"
#include "kernels/cuda/build/cuda_build.hpp"
#include "kernels/cuda/cuda_options.hpp"
#include "kernels/cuda/cuda_rules.hpp"
#include "kernels/cuda/launch/card_json.hpp"
#include "kernels/cuda/launch/cuda_matrix.hpp"
#include "kernels/cuda/launch/reading_choice.hpp"
#include "runtime/cuda/cubin_info.hpp"
#include "runtime/cuda/occupancy.hpp"
#include "spjit/error.hpp"

namespace spjit {

using nlohmann::json;

namespace {

SourceUnit unit_of(const ReadingCode& code, CudaSource source) {
  SourceUnit unit;
  unit.name = "spjit_kernel";
  unit.language = source == CudaSource::ptx ? SourceLanguage::ptx : SourceLanguage::cuda;
  unit.text = source == CudaSource::ptx ? code.texts.ptx : code.texts.cuda;
  unit.kernel = code.kernels.front();
  return unit;
}

/// Compiles one of the texts: the one that the policy names, unless there is no nvJitLink for PTX.
SharedCode compile(const ReadingCode& code, const FamilyRequest& what) {
  const auto start = std::chrono::steady_clock::now();
  const int arch = static_cast<int>(std::get<CudaDeviceInfo>(what.device).arch);
  const FoundCudaLibraries found = found_cuda_libraries({what.options.resources.toolkit_paths});
  CudaSource source = source_of(what.options.policy, k_source_option);
  SourceUnit unit = unit_of(code, source);
  CudaToolchain toolchain;
  SharedCode made;
  try {
    toolchain = load_cuda_toolchain(needs_of({&unit, 1}, arch), found);
  } catch (const NotSupported&) {
    toolchain = nvrtc_alone(arch, found);
    if (!toolchain.nvrtc) throw;
    source = CudaSource::cuda;
    unit = unit_of(code, source);
    made.note = k_no_nvjitlink_note;
  }
  CudaBuildOptions options;
  options.arch = arch;
  options.threads = 1;
  options.cancel = limited(what.cancel, what.options.resources.compile_limit_ms);
  try {
    made.cubin = build_cubin({&unit, 1}, toolchain, options);
  } catch (const CompileCancelled&) {
    what.cancel.check();
    throw;
  }
  made.toolchain = to_string(toolchain);
  made.compiled_from = std::string(to_string(source));
  made.build_ms = ms_since(start);
  return made;
}

/// Of all that the cubin depends on but NVIDIA's compiler, whatever version of which gives the same
/// bits.
std::string key_of(const ReadingCode& code, const FamilyRequest& what) {
  const CudaSource source = source_of(what.options.policy, k_source_option);
  KeyBuilder key(what.cancel);
  key.field("cubin", std::get<CudaDeviceInfo>(what.device).arch)
      .field("source", to_string(source))
      .field("text", source == CudaSource::ptx ? code.texts.ptx : code.texts.cuda);
  return key.hex();
}

json choice_json(const FamilyRequest& what, const ReadingChoice& choice) {
  return {{"card", card_json(std::get<CudaDeviceInfo>(what.device))},
          {"program", choice.program},
          {"tile", choice.tile}};
}

/// Of the first kernel, but spills, which are the most that any has.
json resources_json(const CubinInfo& cubin, const ReadingCode& code, const CudaDeviceInfo& limits) {
  std::int64_t spilled = 0;
  for (const std::string& name : code.kernels) {
    const CubinKernel* kernel = cubin.find_kernel(name);
    if (kernel == nullptr) {
      throw CompileFailed(fmt::format("the compiled code has no kernel {}", name));
    }
    spilled = std::max(spilled, kernel->stack_bytes);
  }
  const CubinKernel& first = *cubin.find_kernel(code.kernels.front());
  const Occupancy held = occupancy(limits, {.threads = code.threads,
                                            .registers_per_thread = first.registers,
                                            .static_shared_bytes = first.static_shared_bytes,
                                            .dynamic_shared_bytes = 0});
  return {{"predicted_registers", first.registers},
          {"registers", first.registers},
          {"spilled_bytes", spilled},
          {"active_blocks", held.active_blocks},
          {"active_warps", held.active_warps},
          {"code_bytes", cubin.code_bytes}};
}

bool is_multiple(std::int64_t value, std::int64_t of) noexcept { return value % of == 0; }

bool is_aligned(const float* pointer, std::int64_t floats) noexcept {
  return std::bit_cast<std::uintptr_t>(pointer) % (to_size(floats) * sizeof(float)) == 0;
}

}  // namespace

void fill_in(CudaProgram& program, const FamilyRequest& request) {
  const Problem& problem = request.problem;
  const CsrMatrix& a = *problem.a;
  if (a.rows < 1) {
    throw InvalidArgument("the matrix has no rows: there is nothing for a GPU kernel to compute");
  }
  program.arch = std::get<CudaDeviceInfo>(request.device).arch;
  program.rows = a.rows;
  program.cols = a.cols;
  program.nnz = a.nnz();
  program.n = problem.n.value;
  program.ldb = problem.ldb();
  program.ldc = problem.ldc();
  program.runtime_sizes = problem.n.runtime;
  program.layer = {.epilogue = problem.epilogue,
                   .b_layout = problem.b.layout,
                   .c_layout = problem.c.layout,
                   .runtime_values = problem.runtime_values,
                   .convolution = problem.convolution};
}

Refusal distance_refusal(const Problem& problem) {
  if (std::max(problem.ldb(), problem.ldc()) <= k_most_reading_distance) {
    return Refusal::none();
  }
  return Refusal(fmt::format("ldb is {} and ldc {}; it takes up to {}", problem.ldb(),
                             problem.ldc(), k_most_reading_distance));
}

Refusal many_columns_refusal(const Problem& problem) {
  const std::int64_t n = problem.n.value;
  if (n <= k_few_cuda_columns) return Refusal::none();
  return Refusal(fmt::format("it is for n of 1 to {}, n is {}", k_few_cuda_columns, n));
}

Refusal tile_refusal(const SearchPolicy& policy) {
  const bool has_tile = integer_of(policy, k_m1_option) || integer_of(policy, k_n1_option);
  if (!policy.family.empty() || !has_tile) return Refusal::none();
  return Refusal("the policy names a tile of unrolled code");
}

bool is_far(const CudaProgram& program) noexcept {
  return std::max(program.ldb, program.ldc) > k_cuda_max_leading_dimension;
}

BuiltKernel ReadingCudaFamily::build(const BuildRequest& request) const {
  const FamilyRequest& what = request.what;
  const ReadingChoice chosen = choice(what);
  const ReadingCode text = code(what);
  request.context.stage("compiling");
  const auto make = [&] { return compile(text, what); };
  const SharedCode shared =
      request.find_code ? request.find_code(key_of(text, what), make) : make();
  const CubinInfo cubin = read_cubin_info(std::as_bytes(std::span(shared.cubin)));
  const auto& limits = std::get<CudaDeviceInfo>(what.device);
  std::vector<Artifact::File> files =
      cuda_files(shared.cubin, {text.texts.cuda, text.texts.ptx}, what);
  files.push_back(
      owned_file(k_matrix_file,
                 write_cuda_matrix(*what.problem.a, !what.problem.runtime_values, what.cancel)));
  BuiltKernel built;
  built.record = choice_json(what, chosen);
  built.record.update(
      {{"resources", resources_json(cubin, text, limits)},
       {"code_bytes", cubin.code_bytes},
       {"weight_bytes", files.back().bytes.size()},
       {"compiled_from", shared.compiled_from},
       {"toolchain", shared.toolchain},
       {"units", 1},
       {"note", shared.note},
       {"compile_ms", {{"group", 0.0}, {"emit", 0.0}, {"build", shared.build_ms}}}});
  built.reason = chosen.reason;
  built.code = std::make_shared<const BuiltFiles>(*this, std::move(files));
  return built;
}

BuiltKernel ReadingCudaFamily::explain(const BuildRequest& request) const {
  const ReadingChoice chosen = choice(request.what);
  BuiltKernel built;
  built.record = choice_json(request.what, chosen);
  built.reason = chosen.reason;
  return built;
}

std::int64_t vector_width(const Arguments& arguments, VectorUse use) noexcept {
  const auto fits = [&](const ConstOperand& operand, std::int64_t width) {
    return is_aligned(operand.as<float>(), width) && is_multiple(operand.ld, width) &&
           (arguments.batch <= 1 || is_multiple(operand.distance, width));
  };
  for (const std::int64_t width : {4, 2}) {
    if (!is_multiple(use.of_b, width) || !is_multiple(use.of_c, width)) continue;
    const bool has_b = use.of_b > 0;
    const bool has_c = use.of_c > 0;
    if (has_b && !fits(arguments.b, width)) continue;
    if (has_c && !fits(arguments.c, width)) continue;
    const bool has_residual = has_c && arguments.residual.data != nullptr;
    if (has_residual && !fits(arguments.residual, width)) continue;
    return width;
  }
  return 1;
}

std::size_t place_of_width(std::span<const std::int64_t> widths, const Arguments& arguments,
                           VectorUse use) noexcept {
  const std::int64_t allowed = vector_width(arguments, use);
  const auto found =
      std::ranges::find_if(widths, [allowed](std::int64_t width) { return width <= allowed; });
  return to_size(found - widths.begin());
}

std::vector<std::string> kernel_names(std::span<const std::int64_t> widths,
                                      std::string (*name_of)(std::int64_t width)) {
  std::vector<std::string> names;
  for (const std::int64_t width : widths) names.push_back(name_of(width));
  return names;
}

std::vector<CudaFunction> load_functions(const CudaModule& module,
                                         std::span<const std::int64_t> widths,
                                         std::string (*name_of)(std::int64_t width)) {
  std::vector<CudaFunction> functions;
  for (const std::string& name : kernel_names(widths, name_of)) {
    functions.push_back(module.function(name));
    functions.back().load();
  }
  return functions;
}

}  // namespace spjit
