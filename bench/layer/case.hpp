#pragma once

/// @file
/// What layer_bench measured: the layers of one shape in a network, in every way of a comparison.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/timing.hpp"

namespace spjit::bench {

/// A way's time over the first's.
struct PairedRatio {
  double median = 0;  ///< of the ratios of two passes of one round: a machine that is slow for a
                      ///< while is so for both
  double error = 0;   ///< a standard error of it, as a share
};

/// Of passes of as many rounds.
[[nodiscard]] PairedRatio paired_ratio(std::span<const double> times_us,
                                       std::span<const double> first_us);

/// What a number of layers took in one way.
struct WayTiming {
  std::string way;
  TimingResult time = {};  ///< of all layers of the case; no samples: it was not timed
  std::vector<std::string> families = {};  ///< of the kernels, each once
  /// Of Kernel::prepare_values() for all of them; none where kernels have their values.
  std::optional<double> prepare_us = {};
  std::optional<PairedRatio> paired = {};  ///< none of the first way, nor of layers alone
};

struct LayerCase {
  std::string comparison;
  std::string network;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t layers = 0;  ///< of that shape
  std::int64_t nnz = 0;     ///< of them all
  std::int64_t n = 0;       ///< tokens
  int threads = 1;
  bool hot = false;  ///< one layer again and again; else all layers of the network in sequence
  std::vector<WayTiming> timings = {};  ///< those that were timed, the comparison's first first

  [[nodiscard]] double nnz_of_row() const noexcept;
  /// The way's time over the first's: of pairs, else of medians; none unless both were timed.
  [[nodiscard]] std::optional<double> ratio(const std::string& way) const;
  /// A standard error of it, as a share.
  [[nodiscard]] double error(const std::string& way) const;

  [[nodiscard]] const WayTiming* find(const std::string& way) const;
};

/// A way that was not timed.
struct WayFailure {
  std::string comparison;
  std::string network;
  std::int64_t n = 0;
  int threads = 1;
  std::string way;
  std::string reason;
};

[[nodiscard]] nlohmann::json to_json(const WayFailure& failure);
[[nodiscard]] nlohmann::json to_json(const LayerCase& result);
/// Throws nlohmann::json::exception for what to_json() does not write.
[[nodiscard]] LayerCase layer_case_of(const nlohmann::json& record);

}  // namespace spjit::bench
