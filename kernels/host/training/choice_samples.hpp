#pragma once

/// @file
/// Times of all families for a product: what the choice among host families is judged by, and what
/// its models are trained on.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/family_forecast.hpp"
#include "rankmodel/training/rank_training.hpp"
#include "runtime/host/host_device_info.hpp"

namespace spjit {

struct LoadedRankModel;

/// Schema of choice_bench's files.
inline constexpr const char* k_choice_schema = "spjit-choice-bench-1";

/// A matrix of the generator's pattern `uniform` or of a file, and how often its kernel runs.
struct ChoiceCase {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  double sparsity = 0;
  std::int64_t n = 0;
  bool hot = false;
  std::string file = {};  ///< empty: a generated matrix

  [[nodiscard]] bool operator==(const ChoiceCase&) const = default;
};

/// "4096x4096 at 90 %, n = 1, hot"
[[nodiscard]] std::string to_string(const ChoiceCase& what);

/// One family's kernel. [us]
struct FamilyTime {
  std::string family;
  double median_us = 0;
  double noise = 0;  ///< as TimingResult has it
};

struct ChoiceResult {
  ChoiceCase what;
  std::int64_t nnz = 0;
  double row_nnz_cv = 0;  ///< Workload::row_nnz_cv
  std::string chosen;
  std::vector<FamilyTime> times;  ///< of every family that takes it

  /// Time of the choice over the least.
  [[nodiscard]] double ratio() const;
  /// The fastest family.
  [[nodiscard]] const FamilyTime& best() const;
};

/// A line: "4096x4096 at 90 %, n = 1, hot: compact 1.24 (unrolled 10.1 us, compact 12.5 us)".
[[nodiscard]] std::string to_string(const ChoiceResult& result);

[[nodiscard]] nlohmann::json to_json(const ChoiceResult& result);
/// Throws Error for what is no such record.
[[nodiscard]] ChoiceResult choice_result_of(const nlohmann::json& record);

/// Properties of a host that choices look at, to JSON and back.
[[nodiscard]] nlohmann::json to_json(const HostDeviceInfo& limits);
[[nodiscard]] HostDeviceInfo limits_of(const nlohmann::json& record);

/// A file of choice_bench.
struct ChoiceSamples {
  HostDeviceInfo limits;
  std::string cpu;
  std::vector<ChoiceResult> results;
};

/// Plain or compressed with gzip. Throws IoError, Error that names the file for what is none.
[[nodiscard]] ChoiceSamples read_choice_samples(const std::filesystem::path& path);

/// A group a product, a row a family that the model knows. Names begin with `prefix`.
[[nodiscard]] std::vector<TrainingGroup> training_groups(const ChoiceSamples& samples,
                                                         const std::string& prefix);

/// Predicts the times of a product by a model; empty: it has seen nothing like it.
[[nodiscard]] FamilyForecast forecast(const LoadedRankModel& model, const ChoiceResult& result,
                                      const HostDeviceInfo& limits);

/// The families of those timed that the forecast has the fastest first; else what the rules chose.
[[nodiscard]] std::string chosen_by(const FamilyForecast& forecast, const ChoiceResult& result);

/// How far choices are from the fastest family.
struct ChoiceLoss {
  std::size_t products = 0;
  double geometric_mean = 1;
  double worst = 1;
  double share_over = 0;  ///< of products at 1.3 and more
};

inline constexpr double k_bad_choice = 1.3;

[[nodiscard]] ChoiceLoss loss_of(const std::vector<ChoiceResult>& results);

}  // namespace spjit
