#include "spjit/compiler.hpp"

#include <fmt/format.h>

#include <array>
#include <chrono>

#include "base/elapsed.hpp"
#include "compiler/cache_key.hpp"
#include "compiler/compile_queue.hpp"
#include "compiler/compile_record.hpp"
#include "compiler/compiler_impl.hpp"
#include "compiler/pipeline.hpp"
#include "kernels/unrolled_host/host_timer.hpp"
#include "matrix/cancellable.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view k_object_file = "kernel.o";
constexpr const char* k_object_name = "kernel";

/// Why the object of an entry is no kernel for these options; empty if it is one.
std::string object_problem(std::span<const std::byte> object, const CompileOptions& options) {
  try {
    const HostProgramRecord program = read_program(read_object(object, k_object_name));
    if (program.isa == options.target.isa() && program.n == options.n) return {};
    return fmt::format("its code is for {} and n = {}, asked for were {} and n = {}",
                       Target(program.isa).name(), program.n, options.target.name(), options.n);
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

const CsrMatrix& checked_matrix(const CsrMatrix& matrix, CsrMatrix& copy,
                                const Cancellation& cancel) {
  validate(matrix, cancel);
  if (has_sorted_rows(matrix, cancel)) return matrix;
  copy = with_sorted_rows(matrix, cancel);
  return copy;
}

Compiler::Compiler(const CompileOptions& options, const CacheOptions& cache) {
  auto impl = std::make_shared<Impl>(checked_options(options));
  if (impl->options.target.is_cuda()) {
    impl->cuda_limits = cuda_device_info_of(impl->options.target);
  } else {
    impl->limits = host_device_info(impl->options.target.isa());
    if (impl->options.search != SearchMode::instant) {
      impl->rank_model = host_rank_model(impl->options);
    }
  }
  OpenedCache opened = open_cache(cache);
  impl->cache = std::move(opened.cache);
  impl->cache_note = std::move(opened.note);
  if (impl->options.threads > 1 && !impl->options.target.is_cuda()) {
    impl->pool = std::make_shared<ThreadPool>(impl->options.threads);
  }
  queue_ = std::make_shared<CompileQueue>(impl->options.parallel_compiles);
  impl_ = std::move(impl);
}

const CompileOptions& Compiler::options() const noexcept { return impl_->options; }

LoadedEntry<SpmmKernel::Impl> Compiler::Impl::load_entry(CacheEntry& entry,
                                                         const Cancellation& cancel) const {
  ImageOwner owner;
  owner.object = std::make_shared<FileBytes>(std::move(entry.files[std::string(k_object_file)]));
  const std::span<const std::byte> object = owner.object->bytes();
  try {
    auto kernel = SpmmKernel::Impl::load(read_object(object, k_object_name), owner, pool, cancel);
    if (kernel->info.target.isa() == options.target.isa() && kernel->info.n == options.n) {
      kernel->record_json = entry.record.kernel.dump(2);
      apply_record(entry.record.kernel, kernel->info);
      kernel->info.cache_directory = entry.root.string();
      return {.kernel = std::move(kernel)};
    }
    return {.problem = object_problem(object, options)};
  } catch (const Cancelled&) {
    throw;  // it was not the entry's fault
  } catch (const DeadlineExceeded&) {
    throw;
  } catch (const Error& error) {
    std::string problem = object_problem(object, options);
    if (!problem.empty()) return {.problem = std::move(problem)};
    // It was not the entry's fault: no pages for the code, say.
    return {.note = fmt::format("cache: entry {} cannot be loaded: {}", entry.record.key,
                                error.what())};
  }
}

std::shared_ptr<SpmmKernel::Impl> Compiler::Impl::from_cache(const CsrMatrix& matrix,
                                                             const std::string& key,
                                                             std::string& note,
                                                             const CompileContext& watch) const {
  constexpr std::array<std::string_view, 1> k_wanted = {k_object_file};
  CacheLookup found = cache->lookup(key, k_wanted);
  if (!found.miss_reason.empty()) add_note(note, "cache: " + found.miss_reason);
  if (!found.entry) return nullptr;
  return checked(load_entry(*found.entry, watch.cancel), *found.entry, matrix, note, watch);
}

std::string Compiler::Impl::publish(const std::string& key, std::span<const CacheFile> files,
                                    const nlohmann::json& record, std::string& note,
                                    const CompileContext& watch) const {
  try {
    cache->publish(key, files, record, watch.cancel);
    return {};
  } catch (const CacheError& error) {
    add_note(note, fmt::format("not cached: {}", error.what()));
    return error.what();
  }
}

std::shared_ptr<SpmmKernel::Impl> Compiler::Impl::fresh(const CsrMatrix& matrix,
                                                        const std::string& key, std::string& note,
                                                        const CompileContext& watch) const {
  const CompileOptions watched = watched_options(watch);
  const TimeHostKernels race = [this](std::span<const HostTuningCandidate> contestants,
                                      const TuningOptions& race_options) {
    return time_host_kernels(contestants, race_options, options.ldb, pool);
  };
  CompiledArtifact compiled =
      compile_host(matrix, watched, limits, race, {rank_model, std::nullopt, watch});
  nlohmann::json record = make_record(matrix, options, limits, compiled, watch.cancel);
  ImageOwner owner;
  owner.artifact = std::make_shared<HostArtifact>(std::move(compiled.artifact));
  const HostImage image = owner.artifact->image();
  auto kernel = SpmmKernel::Impl::load(image, std::move(owner), pool, watch.cancel);
  // Loaded and checked before anybody gets it, the cache included: whoever gives up on the way
  // leaves no entry.
  Verification verification = accept(verify_kernel(*kernel, matrix, options, watch), record, note);
  std::string not_cached;
  if (cache && cache->can_publish()) {
    watch.stage("publishing");
    const std::vector<std::byte> object = write_object(image, k_object_name, watch.cancel);
    const std::array<CacheFile, 1> files = {{{std::string(k_object_file), object}}};
    not_cached = publish(key, files, record, note, watch);
  }
  kernel->record_json = record.dump(2);
  apply_record(record, kernel->info);
  kernel->info.verification = std::move(verification);
  kernel->info.not_cached = std::move(not_cached);
  return kernel;
}

std::shared_ptr<SpmmKernel::Impl> Compiler::Impl::find_or_make(const CsrMatrix& matrix,
                                                               const CompileContext& watch) const {
  const auto start = Clock::now();
  watch.stage("looking up");
  CsrMatrix copy;
  const CsrMatrix& input = checked_matrix(matrix, copy, watch.cancel);
  if (!options.target.runs_here()) {
    throw NotSupported(
        fmt::format("target {} does not run on this CPU ({})", options.target.name(), limits.name));
  }
  const std::string key =
      cache_key(input, options, limits, rank_model ? rank_model->id : std::string(), watch.cancel);
  const auto make = [&] {
    std::string note = cache_note;
    std::shared_ptr<SpmmKernel::Impl> kernel;
    if (cache) kernel = from_cache(input, key, note, watch);
    const bool found = kernel != nullptr;
    if (!found) {
      const Turns::Place place = take_place(watch);
      kernel = fresh(input, key, note, watch);
    }
    kernel->info.key = key;
    kernel->info.from_cache = found;
    kernel->info.note = std::move(note);
    kernel->info.compile_ms = ms_since(start) - *watch.check_ms;
    return kernel;
  };
  return host_flights.run(key, watch.cancel, make, [&] { watch.stage("waiting"); });
}

SpmmKernel Compiler::Impl::compile(const CsrMatrix& matrix, const CompileControl& control) const {
  if (options.target.is_cuda()) {
    throw InvalidArgument(fmt::format(
        "target {} is a GPU: compile_cuda() makes its kernels, compile() those of the host",
        options.target.name()));
  }
  const CompileContext watch = context_of(control);
  return SpmmKernel(past_callbacks([&] { return find_or_make(matrix, watch); }));
}

SpmmKernel Compiler::compile(const CsrMatrix& matrix, const CompileControl& control) const {
  return impl_->compile(matrix, control);
}

SpmmKernel compile(const CsrMatrix& matrix, const CompileOptions& options) {
  return Compiler(options).compile(matrix);
}

}  // namespace spjit
