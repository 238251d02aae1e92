#pragma once

/// @file
/// Records of every kind of benchmark. bench/README.md has the members of the file.

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

/// Times of a case's layers in one way: by one library, or called in one manner.
struct WayTiming {
  std::string way;
  TimingResult time = {};                  ///< of all layers of the case; no samples if `failed`
  std::optional<PairedRatio> paired = {};  ///< none of the first way, nor hot
  std::vector<std::string> chosen = {};    ///< kernels, each once; of a whole network a layer each
  std::vector<double> layers_us = {};     ///< of a whole network in sequence: a layer's median each
  std::optional<double> prepare_ms = {};  ///< of all layers: compiling, packing
  std::optional<double> values_ms = {};   ///< of Kernel::prepare_values() for all layers
  std::string failed = {};                ///< why it is not timed; empty: it is
};

/// Layers of one workload, computed in several ways beside each other.
struct Case {
  std::string workload = {};    ///< a network or a matrix: "minilm-80"
  std::string comparison = {};  ///< of `layer`: which ways are compared
  std::string layer = {};       ///< the first of its shape where layers have names
  std::int64_t rows = 0;        ///< 0: layers of several shapes
  std::int64_t cols = 0;
  std::int64_t layers = 1;
  std::int64_t nnz = 0;  ///< of them all
  double sparsity = 0;   ///< of them all
  std::int64_t n = 0;    ///< columns of B: tokens; images
  int threads = 1;
  bool hot = false;  ///< one layer again and again; else all layers of the workload in sequence
  nlohmann::json facts = nlohmann::json::object();  ///< what only its kind says
  std::vector<WayTiming> timings = {};              ///< the first way first

  /// Null unless it was timed.
  [[nodiscard]] const WayTiming* find(const std::string& way) const;
  /// The way's time over the first's: of pairs, else of medians; none unless both were timed.
  [[nodiscard]] std::optional<double> ratio(const std::string& way) const;
};

[[nodiscard]] nlohmann::json to_json(const Case& one);

}  // namespace spjit::bench
