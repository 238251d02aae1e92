#include "kernels/host/host_backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <variant>

#include "base/environment.hpp"
#include "base/host_cpu.hpp"
#include "base/pinned_thread.hpp"
#include "base/timing.hpp"
#include "kernels/host/choice.hpp"
#include "kernels/host/choice_model.hpp"
#include "kernels/host/operands/packing.hpp"
#include "kernels/host/operands/timing_operands.hpp"
#include "rankmodel/rank_model.hpp"
#include "runtime/host/host_cards.hpp"
#include "runtime/host/host_device_info.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// The card that is asked for: the target's, else this CPU's.
std::string wanted_card(const Target* wanted) {
  if (wanted != nullptr && !wanted->card().empty()) return wanted->card();
  const std::optional<HostCard> card = card_of_cpu(host_cpu());
  return card ? std::string(card->name) : std::string();
}

/// Those of A that each run brings, where it does.
std::vector<PreparedValues> values_for(std::span<const RaceEntry> entries, const Problem& problem) {
  std::vector<PreparedValues> values(entries.size());
  if (!problem.runtime_values) return values;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    values[i] = PreparedValues(entries[i].kernel->prepare_values(problem.a->values));
  }
  return values;
}

}  // namespace

std::span<const ChoiceRule> HostBackend::rules() const noexcept { return host_choice(); }

std::span<const NamedOption* const> HostBackend::options() const noexcept {
  static constexpr std::array<const NamedOption*, 1> k_options = {&k_choice_option};
  return k_options;
}

FamilyForecast HostBackend::forecast(const FamilyRequest& request) const {
  return spjit::forecast(request);
}

std::span<const EmittedFile> HostBackend::emitted() const noexcept {
  static constexpr std::array k_files = {EmittedFile{"obj", ".o"}, EmittedFile{"header", ".hpp"},
                                         EmittedFile{"asm", ".asm", false},
                                         EmittedFile{"json", ".json"}};
  return k_files;
}

DeviceInfo HostBackend::device_info(const Target& target) const { return host_device_info(target); }

void HostBackend::check(const Problem& problem, const Target& target) const {
  const std::int64_t lanes = lanes_of(target.isa());
  const std::int64_t widest = widest_panel_vectors(target.isa()) * lanes;
  if (const auto width = problem.panel_columns;
      width && (*width < lanes || *width % lanes != 0 || *width > widest)) {
    throw InvalidArgument(fmt::format("panel_columns is {}; expected a multiple of {} up to {}",
                                      *width, lanes, widest));
  }
}

void HostBackend::add_to_key(const CompileOptions& options, const DeviceInfo& device,
                             KeyBuilder& key) const {
  // Of a card, caches are in the device's fields: "host" on a Zen 4 is "host-avx512:zen4".
  key.field("isa", to_string(options.target.isa())).field("threads", options.resources.threads);
  const auto model = choice_model(std::get<HostDeviceInfo>(device));
  if (model != nullptr && text_of(options.policy, k_choice_option) == "model") {
    key.field("choice_model", model->id);
  }
}

int HostBackend::fitness(const Target& code, const std::string& card, const Target* wanted) const {
  if (wanted != nullptr ? code.isa() != wanted->isa() : !code.runs_here()) return -1;
  constexpr int k_cards = 3;
  const int of_isa = (static_cast<int>(HostIsa::generic) - static_cast<int>(code.isa())) * k_cards;
  if (!card.empty() && card == wanted_card(wanted)) return of_isa + 2;
  return of_isa + (card == k_any_card ? 1 : 0);
}

std::shared_ptr<ThreadPool> HostBackend::make_pool(const Resources& resources) const {
  return make_thread_pool(resources.threads, resources.parallel_for);
}

int HostBackend::most_threads(const Resources& resources) const {
  if (resources.threads > 0) return resources.threads;
  return default_threads(read_environment(), usable_cpus());
}

Refusal HostBackend::lacks(const Target& target) const {
  if (has_isa(host_cpu(), target.isa())) return Refusal::none();
  return Refusal(fmt::format("needs {}", needed_for(target.isa())));
}

void HostBackend::require(const Target& target) const { require_isa(host_cpu(), target.isa()); }

std::optional<Device> HostBackend::timing_device(const Target& target, const DeviceInfo& /*info*/,
                                                 const std::shared_ptr<ThreadPool>& pool) const {
  if (why_not_timed_on(host_cpu(), target)) return std::nullopt;
  return HostDevice{pool};
}

std::string HostBackend::timed_on(const Target& target, const DeviceInfo& info) const {
  if (why_not_timed_on(host_cpu(), target)) return {};
  const auto& device = std::get<HostDeviceInfo>(info);
  return device.card.empty() ? device.name : device.card;
}

Refusal HostBackend::why_not_timed(const Target& target) const { return lacks(target); }

Refusal HostBackend::too_large_to_time(const Problem& problem) const {
  return spjit::too_large_to_time(problem);
}

std::vector<TuningResult> HostBackend::race(std::span<const RaceEntry> entries,
                                            const Problem& problem, const RaceOptions& options,
                                            const CompileContext& context) const {
  if (too_large_to_time(problem)) return {};
  const Turns::Place turn = context.take_timing_turn();
  const auto start = std::chrono::steady_clock::now();
  ThreadPool* const pool = std::get<HostDevice>(options.device).pool.get();
  TuningOptions tuning;
  tuning.check = [&] { context.check(); };
  tuning.relative_error_goal = 0.01;
  std::unique_ptr<TimingOperands> operands;
  std::vector<PreparedValues> values;
  try {
    operands = std::make_unique<TimingOperands>(timing_shape_of(problem), options.between_bytes,
                                                pool, tuning.check);
    values = values_for(entries, problem);
  } catch (const NoMemory&) {
    return {};
  }
  std::vector<TuningEntry> runners;
  runners.reserve(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    Arguments arguments = operands->arguments();
    if (problem.runtime_values) arguments.values = &values[i];
    runners.push_back(
        {entries[i].name, [&operands, arguments, kernel = entries[i].kernel](std::int64_t calls) {
           return operands->timer().us(calls, [&] { kernel->run(arguments); });
         }});
  }
  const std::optional<PinnedThread> pinned = pinned_if_alone(pool);
  tuning.budget_ms = std::max(options.budget_ms - ms_since(start), 0.0);
  return run_tuning(runners, paced(tuning, options.between_bytes == 0));
}

std::optional<HostIsa> HostBackend::peak_isa(const Target& target) const { return target.isa(); }

CheckPlace HostBackend::check_place(
    const KernelInfo& /*info*/, const std::shared_ptr<const Executable>& loaded,
    const std::function<LoadedKernel(const Device&)>& /*load*/) const {
  return {.executable = loaded, .device = host_cpu().model_name};
}

}  // namespace spjit
