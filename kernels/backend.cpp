#include "kernels/backend.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace spjit {

const KernelFamily& Backend::family(std::string_view name) const {
  std::vector<std::string_view> names;
  for (const KernelFamily* family : families_) {
    if (family->name() == name) return *family;
    names.push_back(family->name());
  }
  throw Error(fmt::format("the family of kernels \"{}\" is unknown; expected one of {}", name,
                          fmt::join(names, ", ")));
}

FamilyForecast Backend::forecast(const FamilyRequest& /*request*/) const { return {}; }

/// Names the fastest that takes the problem.
Refusal Backend::slower_by_forecast(const KernelFamily& family, const FamilyForecast& forecast,
                                    const FamilyRequest& request) const {
  using Entry = FamilyForecast::Entry;
  const double own = std::ranges::find(forecast.families, family.name(), &Entry::family)->log2_time;
  std::vector<Entry> faster = forecast.families;
  std::erase_if(faster, [&](const Entry& entry) { return entry.log2_time >= own; });
  std::ranges::stable_sort(faster, {}, &Entry::log2_time);
  for (const Entry& entry : faster) {
    const auto other = std::ranges::find(families_, entry.family, &KernelFamily::name);
    if (other == families_.end() || why_not(**other, request)) continue;
    return Refusal(fmt::format("{} predicts {:.2f} of the time of `{}`", forecast.model,
                               std::exp2(own - entry.log2_time), entry.family));
  }
  return Refusal::none();
}

Refusal Backend::leaves_to_others(const KernelFamily& family, const FamilyRequest& request) const {
  const FamilyForecast predicted = forecast(request);
  const bool is_predicted =
      std::ranges::find(predicted.families, family.name(), &FamilyForecast::Entry::family) !=
      predicted.families.end();
  if (is_predicted) return slower_by_forecast(family, predicted, request);
  for (const ChoiceRule& rule : rules()) {
    if (rule.family != family.name()) continue;
    if (std::optional<Refusal> reason = rule.reason(request, family)) return *std::move(reason);
  }
  return Refusal::none();
}

bool Backend::is_firm(const KernelFamily& family, const FamilyRequest& request) const {
  return request.options.policy.search == SearchMode::instant &&
         std::ranges::any_of(rules(), [&](const ChoiceRule& rule) {
           return rule.family == family.name() && rule.is_firm;
         });
}

std::shared_ptr<ThreadPool> Backend::make_pool(const Resources& /*resources*/) const {
  return nullptr;
}

int Backend::most_threads(const Resources& /*resources*/) const { return 1; }

std::optional<Device> Backend::device(int /*ordinal*/) const { return std::nullopt; }

Refusal Backend::lacks(const Target& /*target*/) const { return Refusal::none(); }

void Backend::require(const Target& /*target*/) const {}

Refusal Backend::too_large_to_time(const Problem& /*problem*/) const { return Refusal::none(); }

std::optional<HostIsa> Backend::peak_isa(const Target& /*target*/) const { return std::nullopt; }

bool Backend::is_fault(const DeviceError& /*error*/) const noexcept { return false; }

bool Backend::is_out_of_memory(const DeviceError& /*error*/) const noexcept { return false; }

}  // namespace spjit
