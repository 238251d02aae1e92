// Compiler's GPU half: from a matrix to a CudaKernel, through the cache.

#include <fmt/format.h>

#include <array>
#include <chrono>

#include "base/elapsed.hpp"
#include "base/gzip.hpp"
#include "compiler/cache_key.hpp"
#include "compiler/compiler_impl.hpp"
#include "compiler/cuda_compile_record.hpp"
#include "compiler/cuda_pipeline.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view k_cubin_file = "kernel.cubin";
constexpr std::string_view k_cuda_file = "kernel.cu.gz";
constexpr std::string_view k_ptx_file = "kernel.ptx.gz";

std::vector<std::byte> copy_bytes(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

void require_asked_for(const CudaProgram& program, const CompileOptions& options) {
  if (program.arch == options.target.arch() && program.n == options.n) return;
  throw Error(fmt::format("its code is for sm_{} and n = {}, asked for were sm_{} and n = {}",
                          program.arch, program.n, options.target.arch(), options.n));
}

}  // namespace

LoadedEntry<CudaKernel::Impl> Compiler::Impl::load_cuda_entry(const CacheEntry& entry) const {
  try {
    const nlohmann::json& record = entry.record.kernel;
    auto kernel = std::make_shared<CudaKernel::Impl>(copy_bytes(entry.file(k_cubin_file)),
                                                     read_cuda_program(record.at("program")));
    require_asked_for(kernel->program, options);
    kernel->info = read_cuda_record(record);
    kernel->record_json = record.dump(2);
    kernel->cuda_source_gz = copy_bytes(entry.file(k_cuda_file));
    kernel->ptx_gz = copy_bytes(entry.file(k_ptx_file));
    kernel->info.cache_directory = entry.root.string();
    return {.kernel = std::move(kernel)};
  } catch (const nlohmann::json::exception& error) {
    return {.problem = error.what()};
  } catch (const Error& error) {
    return {.problem = error.what()};
  }
}

std::shared_ptr<CudaKernel::Impl> Compiler::Impl::cuda_from_cache(
    const CsrMatrix& matrix, const std::string& key, std::string& note,
    const CompileContext& watch) const {
  constexpr std::array<std::string_view, 3> k_wanted = {k_cubin_file, k_cuda_file, k_ptx_file};
  const CacheLookup found = cache->lookup(key, k_wanted);
  if (!found.miss_reason.empty()) add_note(note, "cache: " + found.miss_reason);
  if (!found.entry) return nullptr;
  return checked(load_cuda_entry(*found.entry), *found.entry, matrix, note, watch);
}

std::shared_ptr<CudaKernel::Impl> Compiler::Impl::cuda_fresh(const CsrMatrix& matrix,
                                                             const std::string& key,
                                                             std::string& note,
                                                             const CompileContext& watch) const {
  const CompiledCuda compiled =
      compile_cuda_kernel(matrix, watched_options(watch), *cuda_limits, watch);
  nlohmann::json record = make_cuda_record(matrix, options, *cuda_limits, compiled, watch.cancel);
  const CudaArtifact& artifact = compiled.artifact;
  auto kernel = std::make_shared<CudaKernel::Impl>(
      copy_bytes(std::as_bytes(std::span(artifact.cubin))), compiled.program);
  kernel->cuda_source_gz = gzip(artifact.cuda_source, watch.cancel);
  kernel->ptx_gz = gzip(artifact.ptx, watch.cancel);
  // Before anybody gets it, the cache included.
  Verification verification = accept(verify_kernel(*kernel, matrix, options, watch), record, note);
  std::string not_cached;
  if (cache && cache->can_publish()) {
    watch.stage("publishing");
    const std::array<CacheFile, 3> files = {{{std::string(k_cubin_file), kernel->image},
                                             {std::string(k_cuda_file), kernel->cuda_source_gz},
                                             {std::string(k_ptx_file), kernel->ptx_gz}}};
    not_cached = publish(key, files, record, note, watch);
  }
  kernel->info = read_cuda_record(record);
  kernel->record_json = record.dump(2);
  kernel->info.verification = std::move(verification);
  kernel->info.not_cached = std::move(not_cached);
  return kernel;
}

std::shared_ptr<CudaKernel::Impl> Compiler::Impl::find_or_make_cuda(
    const CsrMatrix& matrix, const CompileContext& watch) const {
  const auto start = Clock::now();
  watch.stage("looking up");
  CsrMatrix copy;
  const CsrMatrix& input = checked_matrix(matrix, copy, watch.cancel);
  const std::string timed_on = options.search == SearchMode::instant
                                   ? ""
                                   : find_timing_gpu(options.target, *cuda_limits).product;
  const std::string key = cuda_cache_key(input, options, *cuda_limits, timed_on, watch.cancel);
  const auto make = [&] {
    std::string note = cache_note;
    std::shared_ptr<CudaKernel::Impl> kernel;
    if (cache) kernel = cuda_from_cache(input, key, note, watch);
    const bool found = kernel != nullptr;
    if (!found) {
      const Turns::Place place = take_place(watch);
      kernel = cuda_fresh(input, key, note, watch);
    }
    kernel->info.target = options.target;
    kernel->info.key = key;
    kernel->info.from_cache = found;
    add_note(kernel->info.note, note);
    kernel->info.compile_ms = ms_since(start) - *watch.check_ms;
    return kernel;
  };
  return cuda_flights.run(key, watch.cancel, make, [&] { watch.stage("waiting"); });
}

CudaKernel Compiler::Impl::compile_cuda(const CsrMatrix& matrix,
                                        const CompileControl& control) const {
  if (!options.target.is_cuda()) {
    throw InvalidArgument(fmt::format(
        "target {} is no GPU: compile() makes its kernels, compile_cuda() those of targets such as "
        "sm_90",
        options.target.name()));
  }
  const CompileContext watch = context_of(control);
  return CudaKernel(past_callbacks([&] { return find_or_make_cuda(matrix, watch); }));
}

CudaKernel Compiler::compile_cuda(const CsrMatrix& matrix, const CompileControl& control) const {
  return impl_->compile_cuda(matrix, control);
}

CudaKernel compile_cuda(const CsrMatrix& matrix, const CompileOptions& options) {
  return Compiler(options).compile_cuda(matrix);
}

}  // namespace spjit
