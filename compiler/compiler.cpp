#include "spjit/compiler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "artifact/families.hpp"
#include "artifact/kernel_files.hpp"
#include "base/timing.hpp"
#include "compiler/cache_key.hpp"
#include "compiler/cache_miss.hpp"
#include "compiler/compile_options.hpp"
#include "compiler/compile_queue.hpp"
#include "compiler/compiler_impl.hpp"
#include "compiler/kernel_cache.hpp"
#include "compiler/verification.hpp"
#include "proxy/search.hpp"
#include "rankmodel/rank_model.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using Clock = std::chrono::steady_clock;

/// Runs `work`, and throws what a callback of the user's threw in it as that.
template <class Work>
auto past_callbacks(const Work& work) {
  try {
    return work();
  } catch (const CallbackThrew& thrown) {
    std::rethrow_exception(thrown.error);
  }
}

/// Whether a family that may take the problem needs seconds for it.
bool is_dear_to_make(const FamilyRequest& request) {
  return std::ranges::any_of(families_for(request.options.target), [&](const KernelFamily* family) {
    return family->is_dear(request) && !why_not(*family, request);
  });
}

using Callback = std::function<void(const SearchProgress&)>;

/// A callback that marks what `callback` throws; empty if that is empty.
Callback marked(Callback callback) {
  if (!callback) return {};
  return [callback = std::move(callback)](const SearchProgress& progress) {
    try {
      callback(progress);
    } catch (...) {
      throw CallbackThrew{std::current_exception()};
    }
  };
}

}  // namespace

Compiler::Compiler(const CompileOptions& options, const CacheOptions& cache) {
  auto impl = std::make_shared<Impl>(checked_options(options));
  const Backend& backend = backend_of(impl->options.target);
  impl->device = backend.device_info(impl->options.target);
  impl->rank_model = rank_model_of(impl->options);
  OpenedCache opened = open_cache(cache);
  impl->cache = std::move(opened.cache);
  impl->cache_note = std::move(opened.note);
  impl->pool = backend.make_pool(impl->options.resources);
  queue_ = std::make_shared<CompileQueue>(impl->options.resources.parallel_compiles);
  impl_ = std::move(impl);
}

const CompileOptions& Compiler::options() const noexcept { return impl_->options; }

std::shared_ptr<Kernel::Impl> Compiler::Impl::from_cache(const Problem& problem,
                                                         const std::string& key, bool is_dear,
                                                         std::string& note,
                                                         const CompileContext& context) const {
  CacheLookup found = cache->lookup(key, {}, {.is_dear = is_dear, .cancel = context.cancel});
  if (!found.miss_reason.empty()) add_note(note, "cache: " + found.miss_reason);
  if (!found.entry) {
    metrics->add(found.miss_reason.empty() ? k_absent : k_unusable);
    return nullptr;
  }
  LoadedEntry loaded =
      load_entry(*found.entry, problem, options.target, host_device(), context.cancel);
  add_note(note, loaded.note);
  if (loaded.kernel != nullptr) {
    Verdict verdict = verify_kernel(*loaded.kernel, problem, options, context);
    add_note(note, verdict.note);
    if (verdict.passed()) {
      metrics->add_hit(found.place);
      loaded.kernel->info.verification = std::move(verdict.verification);
      return loaded.kernel;
    }
    loaded.problem = "its kernel failed the check: " + verdict.problem;
  }
  metrics->add(k_unusable);
  if (loaded.problem.empty()) return nullptr;
  const std::string report = cache->reject(*found.entry, loaded.problem);
  if (!report.empty()) add_note(note, "cache: " + report);
  return nullptr;
}

std::string Compiler::Impl::publish(const std::string& key, bool is_dear,
                                    const Kernel::Impl& kernel, std::string& note,
                                    const CompileContext& context) const {
  if (!cache || !cache->can_publish()) return {};
  context.stage("publishing");
  const std::vector<Artifact::File> made = kernel.code->files(context.cancel);
  std::vector<CacheFile> files;
  files.reserve(made.size());
  for (const Artifact::File& file : made) files.push_back({file.name, file.bytes});
  try {
    cache->publish(key, files, kernel.record, context.cancel);
    std::int64_t bytes = 0;
    for (const CacheFile& file : files) bytes += std::ssize(file.bytes);
    add_note(note, cache->push_later(key, bytes, is_dear));
    return {};
  } catch (const CacheError& error) {
    add_note(note, fmt::format("not cached: {}", error.what()));
    return error.what();
  }
}

std::string Compiler::Impl::rank_model_id() const { return rank_model ? rank_model->id : ""; }

nlohmann::json Compiler::Impl::key_fields(const FamilyRequest& request) const {
  return cache_key_fields(request, rank_model_id(), timed_on(request));
}

void Compiler::Impl::refuse_to_compile(const FamilyRequest& request,
                                       const std::string& note) const {
  const std::vector<ListedKernel> there = cache ? cache->kernels() : std::vector<ListedKernel>();
  std::string text = missing_kernel_text(
      request, {.fields = key_fields(request), .target = options.target.name()}, there);
  if (!note.empty()) text += fmt::format(" ({})", note);
  throw NotSupported(text);
}

std::shared_ptr<Kernel::Impl> Compiler::Impl::fresh(const FamilyRequest& request,
                                                    const std::string& key, bool is_dear,
                                                    std::string& note,
                                                    const CompileContext& context) const {
  const RaceKernels race = race_within_budget(request, context, pool);
  BuildRequest build{request, context, pool, rank_model};
  const nlohmann::json fields = key_fields(request);
  build.key_fields = &fields;
  build.search = [&](TunableSpace& space, Clock::time_point begin) {
    SearchSettings settings = settings_of(options.policy, space, begin);
    settings.budget_ms = search_budget_ms(request);
    return search(space, settings, context);
  };
  build.find_code = [&](const std::string& of, const std::function<SharedCode()>& make) {
    return waits.get().code.find(of, make, cache, context);
  };
  CompiledKernel compiled = compile_problem(build, families_for(options.target), race);
  auto kernel = load_kernel(*compiled.family, std::move(compiled.code), std::move(compiled.record),
                            host_device(), context.cancel);
  // Loaded and checked before anybody gets it, the cache included: whoever gives up on the way
  // leaves no entry.
  Verification verification =
      accept(verify_kernel(*kernel, request.problem, options, context), kernel->record, note);
  kernel->info.not_cached = publish(key, is_dear, *kernel, note, context);
  kernel->info.verification = std::move(verification);
  return kernel;
}

std::shared_ptr<Kernel::Impl> Compiler::Impl::find_or_make(const Problem& given,
                                                           const CompileContext& context) const {
  const auto start = Clock::now();
  context.stage("looking up");
  const Problem problem = checked_problem(given, context.cancel);
  check_for_target(problem, options.target);
  const FamilyRequest request{problem, options, device, context.cancel};
  const std::string key = cache_key(request, rank_model_id(), timed_on(request));
  const auto make = [&] {
    std::string note = cache_note;
    std::shared_ptr<Kernel::Impl> kernel;
    const bool is_dear = cache && cache->remote() != nullptr && is_dear_to_make(request);
    if (cache) kernel = from_cache(problem, key, is_dear, note, context);
    const bool found = kernel != nullptr;
    if (!found) {
      if (options.compile == CompileWhen::never) {
        metrics->add(k_refused);
        refuse_to_compile(request, note);
      }
      const Turns::Place place = take_place(context);
      kernel = fresh(request, key, is_dear, note, context);
    }
    kernel->info.target = options.target;
    kernel->info.key = key;
    kernel->info.from_cache = found;
    add_note(kernel->info.note, note);
    kernel->info.compile_ms = ms_since(start) - *context.check_ms;
    if (!found) metrics->add(k_compiled);
    metrics->add(found ? k_hit_seconds : k_compile_seconds, kernel->info.compile_ms * 1e-3);
    return kernel;
  };
  return waits.get().flights.run(key, context.cancel, make, [&] { context.stage("waiting"); });
}

Kernel Compiler::Impl::compile(const Problem& problem, const CompileControl& control) const {
  const CompileContext context = context_of(control);
  return Kernel(past_callbacks([&] { return find_or_make(problem, context); }));
}

Kernel Compiler::compile(const Problem& problem, const CompileControl& control) const {
  return impl_->compile(problem, control);
}

RemoteFlush Compiler::flush_remote(const CompileControl& control) const {
  const RemoteCache* remote = impl_->cache ? impl_->cache->remote() : nullptr;
  if (remote == nullptr) return {};
  const bool done = remote->flush({control.deadline, control.stop});
  return {.done = done, .refused = remote->take_reports()};
}

Metrics Compiler::metrics() const {
  Metrics metrics = impl_->metrics->all();
  const RemoteCache* remote = impl_->cache ? impl_->cache->remote() : nullptr;
  if (remote != nullptr && remote->server() != nullptr) add_remote(*remote->server(), metrics);
  return metrics;
}

Kernel compile(const Problem& problem, const CompileOptions& options) {
  return Compiler(options).compile(problem);
}

Compiler::Impl::Impl(CompileOptions checked)
    : options(std::move(checked)), waits([most = options.resources.parallel_compiles] {
        return std::make_unique<Waits>(most);
      }) {}

CompileContext Compiler::Impl::context_of(const CompileControl& control) const {
  CompileContext context;
  context.cancel = {control.deadline, control.stop};
  context.progress = marked(control.progress);
  context.timing_turn = [this](const Cancellation& cancel) {
    return waits.get().timings.take(cancel);
  };
  context.check_turn = [this](const Cancellation& cancel) {
    return waits.get().checks.take(cancel);
  };
  context.check_ms = std::make_shared<double>(0);
  return context;
}

Turns::Place Compiler::Impl::take_place(const CompileContext& context) const {
  if (Turns::Place place = waits.get().compiles.try_take()) return place;
  context.stage("waiting");
  return waits.get().compiles.take(context.cancel);
}

}  // namespace spjit
