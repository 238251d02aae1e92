#include "kernels/host/training/choice_samples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "base/arithmetic.hpp"
#include "kernels/host/choice_model.hpp"
#include "kernels/tuning/sample_reader.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using nlohmann::json;

constexpr std::size_t k_longest_file_bytes = std::size_t{256} << 20;

HostIsa isa_named(const std::string& name) {
  for (const HostIsa isa : {HostIsa::avx512, HostIsa::avx2, HostIsa::generic}) {
    if (name == to_string(isa)) return isa;
  }
  throw Error(fmt::format("isa is \"{}\"; expected avx512, avx2 or generic", name));
}

ChoiceInput input_of(const ChoiceResult& result, const HostDeviceInfo& limits) {
  const ChoiceCase& what = result.what;
  return {what.rows, what.cols, result.nnz, what.n, result.row_nnz_cv, what.hot, limits};
}

/// Of a matrix that is drawn entry by entry, about.
double uniform_cv(const ChoiceResult& result) {
  const double places = as_double(result.what.rows) * as_double(result.what.cols);
  const double nnz = std::max(as_double(result.nnz), 1.0);
  return std::sqrt(std::max(1 - nnz / std::max(places, 1.0), 0.0) * as_double(result.what.rows) /
                   nnz);
}

/// The time of a family; nothing: it was not timed.
const FamilyTime* time_of(const ChoiceResult& result, std::string_view family) {
  const auto found = std::ranges::find(result.times, family, &FamilyTime::family);
  return found == result.times.end() ? nullptr : &*found;
}

}  // namespace

std::string to_string(const ChoiceCase& what) {
  return fmt::format("{}{}{}x{} at {:.0f} %, n = {}, {}", what.file, what.file.empty() ? "" : ": ",
                     what.rows, what.cols, 100 * what.sparsity, what.n, what.hot ? "hot" : "cold");
}

const FamilyTime& ChoiceResult::best() const {
  return *std::ranges::min_element(times, {}, &FamilyTime::median_us);
}

double ChoiceResult::ratio() const {
  const auto found = std::ranges::find(times, chosen, &FamilyTime::family);
  if (found == times.end()) {
    throw Error(fmt::format("{}: {} was chosen and not timed", to_string(what), chosen));
  }
  return found->median_us / best().median_us;
}

std::string to_string(const ChoiceResult& result) {
  std::vector<FamilyTime> sorted = result.times;
  std::ranges::sort(sorted, {}, &FamilyTime::median_us);
  std::string times;
  for (const FamilyTime& time : sorted) {
    times += fmt::format("{}{} {:.2f} us", times.empty() ? "" : ", ", time.family, time.median_us);
  }
  return fmt::format("{}: {} {:.2f} ({})", to_string(result.what), result.chosen, result.ratio(),
                     times);
}

json to_json(const ChoiceResult& result) {
  json times = json::object();
  for (const FamilyTime& time : result.times) {
    times[time.family] = {{"median_us", time.median_us}, {"noise", time.noise}};
  }
  return {{"rows", result.what.rows},
          {"cols", result.what.cols},
          {"sparsity", result.what.sparsity},
          {"n", result.what.n},
          {"file", result.what.file},
          {"row_nnz_cv", result.row_nnz_cv},
          {"caches", result.what.hot ? "hot" : "cold"},
          {"nnz", result.nnz},
          {"chosen", result.chosen},
          {"ratio", result.ratio()},
          {"times", std::move(times)}};
}

ChoiceResult choice_result_of(const json& record) {
  try {
    ChoiceResult result;
    result.what = {record.at("rows"),
                   record.at("cols"),
                   record.at("sparsity"),
                   record.at("n"),
                   record.at("caches").get<std::string>() == "hot",
                   record.value("file", "")};
    result.nnz = record.at("nnz");
    result.row_nnz_cv = record.value("row_nnz_cv", uniform_cv(result));
    result.chosen = record.at("chosen");
    for (const auto& [family, time] : record.at("times").items()) {
      result.times.push_back({family, time.at("median_us"), time.at("noise")});
    }
    if (result.times.empty()) throw Error("a case without times");
    return result;
  } catch (const json::exception& error) {
    throw Error(fmt::format("a case of choice_bench: {}", error.what()));
  }
}

json to_json(const HostDeviceInfo& limits) {
  return {{"isa", to_string(limits.isa)},  {"card", limits.card},
          {"l1i_bytes", limits.l1i_bytes}, {"l1d_bytes", limits.l1d_bytes},
          {"l2_bytes", limits.l2_bytes},   {"l3_bytes", limits.l3_bytes},
          {"l3_is_far", limits.l3_is_far}, {"fmas_per_cycle", limits.fmas_per_cycle}};
}

HostDeviceInfo limits_of(const json& record) {
  try {
    HostDeviceInfo limits;
    limits.isa = isa_named(record.at("isa"));
    limits.card = record.value("card", "");
    limits.lanes = lanes_of(limits.isa);
    limits.registers = registers_of(limits.isa);
    limits.l1i_bytes = record.at("l1i_bytes");
    limits.l1d_bytes = record.at("l1d_bytes");
    limits.l2_bytes = record.at("l2_bytes");
    limits.l3_bytes = record.at("l3_bytes");
    limits.l3_is_far = record.at("l3_is_far");
    limits.fmas_per_cycle = record.at("fmas_per_cycle");
    return limits;
  } catch (const json::exception& error) {
    throw Error(fmt::format("the limits of a host: {}", error.what()));
  }
}

ChoiceSamples read_choice_samples(const std::filesystem::path& path) {
  const json document = json::parse(read_text_file(path, k_longest_file_bytes), nullptr, false);
  if (!document.is_object() || document.value("schema", "") != k_choice_schema) {
    throw Error(
        fmt::format("{}: expected a JSON file of schema {}", path.string(), k_choice_schema));
  }
  try {
    ChoiceSamples samples{
        .limits = limits_of(document.at("limits")), .cpu = document.at("cpu"), .results = {}};
    for (const json& record : document.at("cases")) {
      samples.results.push_back(choice_result_of(record));
    }
    return samples;
  } catch (const json::exception& error) {
    throw Error(fmt::format("{}: {}", path.string(), error.what()));
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", path.string(), error.what()));
  }
}

std::vector<TrainingGroup> training_groups(const ChoiceSamples& samples,
                                           const std::string& prefix) {
  std::vector<TrainingGroup> groups;
  for (const ChoiceResult& result : samples.results) {
    TrainingGroup group{
        .name = fmt::format("{}{} {}", prefix, groups.size(), to_string(result.what)),
        .columns = choice_feature_schema().features.size()};
    for (const std::string_view family : choice_families()) {
      const FamilyTime* time = time_of(result, family);
      if (time == nullptr) continue;
      const std::vector<float> row = choice_features(input_of(result, samples.limits), family);
      group.rows.insert(group.rows.end(), row.begin(), row.end());
      group.times_us.push_back(time->median_us);
    }
    if (group.times_us.size() > 1) groups.push_back(std::move(group));
  }
  return groups;
}

FamilyForecast forecast(const LoadedRankModel& model, const ChoiceResult& result,
                        const HostDeviceInfo& limits) {
  return forecast(model, input_of(result, limits));
}

std::string chosen_by(const FamilyForecast& forecast, const ChoiceResult& result) {
  const FamilyForecast::Entry* first = nullptr;
  for (const FamilyForecast::Entry& entry : forecast.families) {
    if (time_of(result, entry.family) == nullptr) continue;
    if (first == nullptr || entry.log2_time < first->log2_time) first = &entry;
  }
  return first == nullptr ? result.chosen : std::string(first->family);
}

ChoiceLoss loss_of(const std::vector<ChoiceResult>& results) {
  ChoiceLoss loss{.products = results.size()};
  if (results.empty()) return loss;
  double logs = 0;
  std::size_t over = 0;
  for (const ChoiceResult& result : results) {
    logs += std::log(result.ratio());
    if (result.ratio() >= k_bad_choice) ++over;
    loss.worst = std::max(loss.worst, result.ratio());
  }
  const auto count = static_cast<double>(results.size());
  loss.geometric_mean = std::exp(logs / count);
  loss.share_over = static_cast<double>(over) / count;
  return loss;
}

}  // namespace spjit
