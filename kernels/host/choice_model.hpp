#pragma once

/// @file
/// A choice among the families of host kernels that was learned from times on CPUs of one kind. Its
/// trees predict how long a family takes relative to the fastest one.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/family_forecast.hpp"
#include "kernels/kernel_family.hpp"
#include "plan/search_policy.hpp"
#include "rankmodel/feature_schema.hpp"
#include "runtime/host/host_device_info.hpp"

namespace spjit {

struct LoadedRankModel;

/// C [rows x n] = A [rows x cols] * B, as the model sees it.
struct ChoiceInput {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t nnz = 0;
  std::int64_t n = 0;
  double row_nnz_cv = 0;
  bool hot = false;
  const HostDeviceInfo& device;
};

/// Says "model", the default, or "rules".
inline constexpr std::string_view k_choice_texts[] = {"model", "rules"};
inline constexpr NamedOption k_choice_option = {
    .name = "choice", .fallback = "model", .texts = k_choice_texts};

[[nodiscard]] const FeatureSchema& choice_feature_schema() noexcept;

/// The families that a model knows.
[[nodiscard]] std::span<const std::string_view> choice_families() noexcept;

/// A row of the schema. Precondition: `family` is one of them.
[[nodiscard]] std::vector<float> choice_features(const ChoiceInput& input, std::string_view family);

/// The model that ships for the device's card and instruction set; null: there is none, rules
/// choose.
[[nodiscard]] std::shared_ptr<const LoadedRankModel> choice_model(const HostDeviceInfo& device);

/// Predicts the times of all families of a model, in their order. Empty where a number of the
/// product lies beyond those that it was trained on ("ranges" of its provenance, [least, most] by
/// feature).
[[nodiscard]] FamilyForecast forecast(const LoadedRankModel& model, const ChoiceInput& input);

/// Predicts those of a request by the model of its device. Empty for other problems than those that
/// were timed: products of fp32 with a fixed n, whose A has no scales of groups and is no
/// convolution. So it is for networks that stay in the caches, and where rows of A that are alike
/// share code.
[[nodiscard]] FamilyForecast forecast(const FamilyRequest& request);

}  // namespace spjit
