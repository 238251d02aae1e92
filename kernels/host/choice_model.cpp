#include "kernels/host/choice_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <variant>

#include "base/arithmetic.hpp"
#include "kernels/host/choice.hpp"
#include "kernels/host/host_rules.hpp"
#include "kernels/tuning/rank_models.hpp"
#include "plan/operation.hpp"
#include "plan/workload.hpp"
#include "rankmodel/rank_model.hpp"

namespace spjit {
namespace {

constexpr std::array<std::string_view, 5> k_families = {"dense", "compact", "windows", "unrolled",
                                                        "csr"};

constexpr std::array k_choice_features = {
    Feature{"rows", "log2 rows", "rows of A"},
    Feature{"cols", "log2 rows of B", "k"},
    Feature{"n", "log2 columns", "columns of B and C"},
    Feature{"entries", "log2", "nnz"},
    Feature{"density", "log2", "nnz / (rows x k)"},
    Feature{"row_entries", "log2", "nnz / rows"},
    Feature{"column_entries", "log2", "nnz / k: entries that read a row of B"},
    Feature{"row_nnz_cv", "1", "coefficient of variation of nnz over all rows"},
    Feature{"hot", "0, 1", "whether runs follow one another"},
    Feature{"lanes", "floats", "of a vector register"},
    Feature{"l2", "log2 bytes", "L2"},
    Feature{"l3", "log2 bytes", "L3 that a core reaches"},
    Feature{"l3_is_far", "0, 1", "whether L3 is a mesh over dozens of cores"},
    Feature{"fmas", "1", "vector FMAs started a cycle"},
    Feature{"b_over_l2", "log2", "bytes of B / L2"},
    Feature{"c_over_l2", "log2", "bytes of C / L2"},
    Feature{"c_over_l3", "log2", "bytes of C / L3"},
    Feature{"operands_over_l3", "log2", "bytes of B and C / L3"},
    Feature{"code_over_l2", "log2", "bytes of A as unrolled code / L2"},
    Feature{"dense_over_l2", "log2", "bytes of A with its zeros / L2"},
    Feature{"row_alignment", "log2 bytes",
            "largest power of two, at most 64 KiB, that divides the bytes between rows of B"},
    Feature{"vectors", "1", "vectors of a row of C"},
    Feature{"tail", "floats", "of the last vector, if it is not full"},
    Feature{"is_dense", "0, 1", "the family"},
    Feature{"is_compact", "0, 1", "the family"},
    Feature{"is_windows", "0, 1", "the family"},
    Feature{"is_unrolled", "0, 1", "the family"},
    Feature{"is_csr", "0, 1", "the family"}};
constexpr std::size_t k_of_product = k_choice_features.size() - k_families.size();
constexpr FeatureSchema k_schema = {"host-choice", 1, k_choice_features};

float choice_log2(double value) { return static_cast<float>(std::log2(std::max(value, 1e-6))); }

float log2_ratio(double value, std::int64_t of) {
  return choice_log2(value / as_double(std::max<std::int64_t>(of, 1)));
}

std::array<float, k_choice_features.size()> product_features(const ChoiceInput& input) {
  constexpr double k_code_bytes = 14;  // as bytes_between_runs() has it
  const HostDeviceInfo& device = input.device;
  const double rows = as_double(input.rows);
  const double cols = as_double(input.cols);
  const double n = as_double(input.n);
  const double nnz = as_double(input.nnz);
  const double b_bytes = 4 * cols * n;
  const double c_bytes = 4 * rows * n;
  return {choice_log2(rows),
          choice_log2(cols),
          choice_log2(n),
          choice_log2(nnz),
          choice_log2(nnz / std::max(rows * cols, 1.0)),
          choice_log2(nnz / std::max(rows, 1.0)),
          choice_log2(nnz / std::max(cols, 1.0)),
          static_cast<float>(input.row_nnz_cv),
          input.hot ? 1.0F : 0.0F,
          static_cast<float>(device.lanes),
          choice_log2(as_double(device.l2_bytes)),
          choice_log2(as_double(device.l3_bytes)),
          device.l3_is_far ? 1.0F : 0.0F,
          static_cast<float>(device.fmas_per_cycle),
          log2_ratio(b_bytes, device.l2_bytes),
          log2_ratio(c_bytes, device.l2_bytes),
          log2_ratio(c_bytes, device.l3_bytes),
          log2_ratio(b_bytes + c_bytes, device.l3_bytes),
          log2_ratio(k_code_bytes * nnz, device.l2_bytes),
          log2_ratio(4 * rows * cols, device.l2_bytes),
          choice_log2(as_double(row_alignment_bytes(input.n))),
          static_cast<float>(ceil_div(input.n, device.lanes)),
          static_cast<float>(input.n % device.lanes)};
}

/// Whether it is a problem of the kind that was timed.
bool is_plain(const Problem& problem) {
  return problem.numerics.is_default() && !problem.n.runtime && problem.group_scales == nullptr &&
         !problem.panel_columns && !rules_of(problem).has_images();
}

/// Whether unrolled code is shared by rows that have the same columns; hardly any network has them.
/// Most matrices are told by the ends of their rows alone.
bool shares_rows(const FamilyRequest& request) {
  constexpr std::int64_t k_least_columns = 48;
  constexpr double k_alike = 4;
  const CsrMatrix& a = *request.problem.a;
  if (request.problem.n.value < k_least_columns) return false;
  std::set<std::array<std::int32_t, 3>> ends;
  for (std::int64_t row = 0; row < a.rows; ++row) {
    const auto begin = to_size(a.row_ptrs[to_size(row)]);
    const auto end = to_size(a.row_ptrs[to_size(row) + 1]);
    if (begin == end) continue;
    ends.insert({static_cast<std::int32_t>(end - begin), a.col_idxs[begin], a.col_idxs[end - 1]});
    if (k_alike * as_double(std::ssize(ends)) > as_double(a.rows)) return false;
  }
  return rows_alike(a, request.cancel) >= k_alike;
}

}  // namespace

const FeatureSchema& choice_feature_schema() noexcept { return k_schema; }

std::span<const std::string_view> choice_families() noexcept { return k_families; }

std::vector<float> choice_features(const ChoiceInput& input, std::string_view family) {
  const auto row = product_features(input);
  std::vector<float> features(row.begin(), row.end());
  features[k_of_product + static_cast<std::size_t>(std::ranges::find(k_families, family) -
                                                   k_families.begin())] = 1;
  return features;
}

std::shared_ptr<const LoadedRankModel> choice_model(const HostDeviceInfo& device) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const LoadedRankModel>> models;
  if (device.card.empty()) return nullptr;
  const std::string name = fmt::format("choice-{}-{}", to_string(device.isa), device.card);
  const std::scoped_lock lock(mutex);
  const auto [found, is_new] = models.try_emplace(name);
  if (is_new) found->second = load_shipped_model(name, k_schema);
  return found->second;
}

FamilyForecast forecast(const LoadedRankModel& loaded, const ChoiceInput& input) {
  auto row = product_features(input);
  if (!has_seen(loaded.model, std::span(row).first(k_of_product))) return {};
  std::vector<float> rows;
  for (std::size_t i = 0; i < k_families.size(); ++i) {
    row[k_of_product + i] = 1;
    rows.insert(rows.end(), row.begin(), row.end());
    row[k_of_product + i] = 0;
  }
  const std::vector<double> scores = loaded.model.scores(rows);
  FamilyForecast result{.model = loaded.model.name};
  for (std::size_t i = 0; i < k_families.size(); ++i) {
    result.families.push_back({k_families[i], -scores[i]});
  }
  return result;
}

FamilyForecast forecast(const FamilyRequest& request) {
  const SearchPolicy& policy = request.options.policy;
  const auto& device = std::get<HostDeviceInfo>(request.device);
  if (text_of(policy, k_choice_option) == "rules" || !is_plain(request.problem)) return {};
  if (!policy.hot && policy.network_nnz != 0 && stays_in_caches(request)) return {};
  const auto model = choice_model(device);
  if (model == nullptr || shares_rows(request)) return {};
  const CsrMatrix& a = *request.problem.a;
  return forecast(*model, {a.rows, a.cols, a.nnz(), request.problem.n.value,
                           row_nnz_cv(a, request.cancel), policy.hot, device});
}

}  // namespace spjit
