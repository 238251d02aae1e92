#include "compiler/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "artifact/families.hpp"
#include "base/timing.hpp"
#include "compiler/record_limit.hpp"
#include "kernels/built_kernel.hpp"
#include "plan/search_policy.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

[[noreturn]] void nobody_accepts(const FamilyRequest& request,
                                 const std::vector<FamilyVerdict>& verdicts) {
  std::string reasons;
  for (const FamilyVerdict& verdict : verdicts) {
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", verdict.family, verdict.reason);
  }
  throw NotSupported(fmt::format("no family of kernels for {} takes this problem: {}",
                                 request.options.target.name(), reasons));
}

/// KernelFamily::build or explain.
using Build = BuiltKernel (KernelFamily::*)(const BuildRequest&) const;

/// The families of one device on their way to a kernel.
class Choice {
 public:
  Choice(const BuildRequest& request, Build build)
      : request_(request), backend_(backend_of(request.what.options.target)), build_(build) {}

  /// The fastest of what several make of the problem, that of the rules where nothing was timed;
  /// none if there are not several.
  std::optional<CompiledKernel> fastest(std::span<const KernelFamily* const> families,
                                        const RaceKernels& race) {
    std::vector<Contestant> contestants = build_all(families);
    if (contestants.empty()) return std::nullopt;
    std::vector<RaceEntry> entries;
    entries.reserve(contestants.size());
    for (const Contestant& each : contestants) {
      entries.push_back({std::string(each.family->name()), each.kernel.executable});
    }
    std::vector<TuningResult> results;
    if (entries.size() > 1) results = race(entries);
    results.resize(entries.size());
    // A race that the budget cut off says nothing of who was not reached.
    const bool is_over = std::ranges::none_of(results, [](const TuningResult& result) {
      return result.outcome == TuningOutcome::not_reached;
    });
    const std::ptrdiff_t winner = is_over ? winner_of(results) : k_no_winner;
    const auto taken =
        winner == k_no_winner ? by_rules(contestants) : static_cast<std::size_t>(winner);
    for (std::size_t i = 0; i < contestants.size(); ++i) {
      if (i != taken) say(*contestants[i].family, time_of(results[i]));
    }
    built_ = std::move(contestants[taken].built);
    if (!built_.record.contains("search")) {
      built_.record["search"] = {
          {"mode", std::string(to_string(request_.what.options.policy.search))},
          {"timed", winner != k_no_winner}};
    }
    built_.reason = winner == k_no_winner ? not_timed_reason() + built_.reason
                                          : race_reason(results, entries, taken);
    say(*contestants[taken].family, built_.reason);
    return made(*contestants[taken].family);
  }

  /// Asks them in their order, and those that would leave it to others only once there is no other.
  CompiledKernel first(std::span<const KernelFamily* const> families) {
    std::vector<const KernelFamily*> modest;
    for (const KernelFamily* family : families) {
      if (!accepts(*family)) continue;
      if (const Refusal refusal = leaves_to_others(*family)) {
        say(*family, refusal.reason());
        if (!backend_.is_firm(*family, request_.what)) modest.push_back(family);
        continue;
      }
      if (built_by(*family)) return made(*family);
    }
    // The reason shall name who refused, not who would rather not have.
    std::erase_if(verdicts_, [&](const FamilyVerdict& said) {
      return std::ranges::find(modest, said.family, &KernelFamily::name) != modest.end();
    });
    for (const KernelFamily* family : modest) {
      if (!built_by(*family)) continue;
      if (verdicts_.size() > 1) built_.reason.clear();
      return made(*family);
    }
    nobody_accepts(request_.what, verdicts_);
  }

 private:
  /// A kernel that is to be timed.
  struct Contestant {
    const KernelFamily* family;
    BuiltKernel built;
    LoadedKernel kernel;
  };

  /// What may be the fastest; nothing if that is one family's. Those that cannot say why.
  std::vector<Contestant> build_all(std::span<const KernelFamily* const> families) {
    std::vector<const KernelFamily*> racing;
    for (const KernelFamily* family : families) {
      if (family->races() && accepts(*family)) racing.push_back(family);
    }
    if (racing.size() < 2) return {};
    const Device device = *backend_.timing_device(
        request_.what.options.target, request_.what.device, request_.pool);  // holds_race()
    std::vector<Contestant> contestants;
    for (const KernelFamily* family : racing) {
      request_.context.check();
      BuiltKernel built = (family->*build_)(request_);
      if (built.declined) {
        say(*family, built.declined.reason());
        continue;
      }
      const nlohmann::json record =
          make_record(request_.what, built, {{std::string(family->name()), built.reason}});
      try {
        LoadedKernel kernel = built.code->load(record, device, request_.what.cancel);
        contestants.push_back({family, std::move(built), std::move(kernel)});
      } catch (const DeviceError& error) {
        // A with its zeros, say, is more than a GPU has left. Another family's may not be.
        say(*family, error.what());
      }
    }
    return contestants;
  }

  /// "ranked: fastest of 3 families, cold: 12.1 us, unrolled 15.0 us, csr 22.7 us"
  [[nodiscard]] std::string race_reason(const std::vector<TuningResult>& results,
                                        std::span<const RaceEntry> entries,
                                        std::size_t winner) const {
    const SearchPolicy& policy = request_.what.options.policy;
    std::string text =
        fmt::format("{}: fastest of {} families{}: {}", to_string(policy.search), entries.size(),
                    !backend_.has_cold_runs() ? ""
                    : policy.hot              ? ", hot"
                                              : ", cold",
                    time_of(results[winner]));
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i != winner) text += fmt::format(", {} {}", entries[i].name, time_of(results[i]));
    }
    return text;
  }
  [[nodiscard]] static std::string time_of(const TuningResult& result) {
    if (!result.failure.empty()) return result.failure;
    if (result.timing.samples == 0) return "not timed";
    return fmt::format("{:.1f} us", result.timing.median_us);
  }

  [[nodiscard]] std::string not_timed_reason() const {
    const Refusal too_large = backend_.too_large_to_time(request_.what.problem);
    return fmt::format("no families timed{}{}: ", too_large ? ", " : "", too_large.reason());
  }

  /// The first that does not leave the problem to others.
  [[nodiscard]] std::size_t by_rules(const std::vector<Contestant>& contestants) const {
    const auto found = std::ranges::find_if(
        contestants, [&](const Contestant& each) { return !leaves_to_others(*each.family); });
    return found == contestants.end() ? 0 : static_cast<std::size_t>(found - contestants.begin());
  }

  [[nodiscard]] Refusal leaves_to_others(const KernelFamily& family) const {
    if (!request_.what.options.policy.family.empty()) return Refusal::none();
    return backend_.leaves_to_others(family, request_.what);
  }
  /// One that does not says why, unless it has nothing to do with the problem: other types than
  /// those that nearly all have.
  bool accepts(const KernelFamily& family) {
    request_.context.check();
    const Numerics& numerics = request_.what.problem.numerics;
    const bool is_named = !request_.what.options.policy.family.empty();
    if (!is_named && numerics.is_default() && family.numerics_refusal(numerics)) return false;
    const Refusal refusal = why_not(family, request_.what);
    if (refusal) say(family, refusal.reason());
    return !refusal;
  }
  void say(const KernelFamily& family, const std::string& reason) {
    verdicts_.push_back({std::string(family.name()), reason});
  }

  /// Whether the family did not decline after all.
  bool built_by(const KernelFamily& family) {
    request_.context.check();
    built_ = (family.*build_)(request_);
    say(family, built_.declined ? built_.declined.reason() : built_.reason);
    return !built_.declined;
  }
  CompiledKernel made(const KernelFamily& family) {
    nlohmann::json record = make_record(request_.what, built_, verdicts_);
    return {&family, std::move(built_.code), std::move(record)};
  }

  const BuildRequest& request_;
  const Backend& backend_;
  Build build_;
  std::vector<FamilyVerdict> verdicts_;
  BuiltKernel built_;
};

/// Whether families race for the problem, if several accept it.
bool holds_race(const FamilyRequest& request) {
  const CompileOptions& options = request.options;
  // A width of panels in a row-major problem is for runs that differ from those that a race times.
  const Problem& problem = request.problem;
  const bool has_other_runs = problem.panel_columns && problem.b.layout == Layout::row_major &&
                              problem.c.layout == Layout::row_major;
  return options.policy.family.empty() && !has_other_runs &&
         options.policy.search != SearchMode::instant &&
         backend_of(options.target).timing_device(options.target, request.device, nullptr);
}

CompiledKernel choose(const BuildRequest& request, std::span<const KernelFamily* const> families,
                      const RaceKernels& race, Build build) {
  if (!race || !holds_race(request.what)) return Choice(request, build).first(families);
  if (auto fastest = Choice(request, build).fastest(families, race)) return *std::move(fastest);
  return Choice(request, build).first(families);
}

}  // namespace

double search_budget_ms(const FamilyRequest& request) {
  constexpr double k_share_before_race = 0.8;
  const double budget_ms = request.options.policy.search_budget_ms;
  return holds_race(request) ? budget_ms * k_share_before_race : budget_ms;
}

RaceKernels race_within_budget(const FamilyRequest& request, const CompileContext& context,
                               const std::shared_ptr<ThreadPool>& pool) {
  return [&request, &context, pool, start = std::chrono::steady_clock::now()](
             std::span<const RaceEntry> entries) -> std::vector<TuningResult> {
    const SearchPolicy& policy = request.options.policy;
    const Backend& backend = backend_of(request.options.target);
    const std::optional<Device> device =
        backend.timing_device(request.options.target, request.device, pool);
    if (!device) return {};
    const double left_ms = policy.search_budget_ms - ms_since(start);
    return backend.race(entries, request.problem, {bytes_between_runs(policy), left_ms, *device},
                        context);
  };
}

CompiledKernel compile_problem(const BuildRequest& request,
                               std::span<const KernelFamily* const> families,
                               const RaceKernels& race) {
  CompiledKernel compiled = choose(request, families, race, &KernelFamily::build);
  if (request.key_fields != nullptr) compiled.record["key"] = *request.key_fields;
  compiled.record = limited_record(std::move(compiled.record));
  return compiled;
}

nlohmann::json explain_problem(const BuildRequest& request,
                               std::span<const KernelFamily* const> families,
                               const RaceKernels& race) {
  const bool builds = backend_of(request.what.options.target).explains_by_building();
  return choose(request, families, builds ? race : RaceKernels{}, &KernelFamily::explain).record;
}

std::shared_ptr<const LoadedRankModel> rank_model_of(const CompileOptions& options) {
  for (const KernelFamily* family : families_for(options.target)) {
    if (auto model = family->rank_model(options)) return model;
  }
  return nullptr;
}

}  // namespace spjit
