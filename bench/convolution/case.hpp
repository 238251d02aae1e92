#pragma once

/// @file
/// What conv_bench measured: the layers of one shape in a network, by every library.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/timing.hpp"
#include "spjit/convolution.hpp"

namespace spjit::bench {

/// What one library did with a layer of the case.
struct ConvTiming {
  std::string library;
  TimingResult time = {};   ///< of one layer, the mean of those of the case
  std::string detail = {};  ///< what it chose, of the first of them
  std::string failed = {};  ///< why it is not timed; empty: it is
};

struct ConvCase {
  std::string network;  ///< "resnet50"
  int sparsity = 0;     ///< in percent, what the network was pruned to
  std::string layer;    ///< the first of its shape
  std::string origin;   ///< of that one's pattern
  std::int64_t layers = 0;
  std::int64_t filters = 0;
  Convolution shape = {};
  std::int64_t nnz = 0;  ///< of them all
  std::int64_t batch = 1;
  int threads = 1;
  bool hot = false;  ///< one layer again and again; else all layers of the network in sequence
  std::vector<ConvTiming> timings = {};

  /// "1x1": the product is plain; "1x1 strided", "3x3", "depthwise 3x3", "7x7".
  [[nodiscard]] std::string kernel() const;
  /// Those of one layer and all images, zeros included.
  [[nodiscard]] double dense_gflop() const noexcept;

  /// Null unless it was timed.
  [[nodiscard]] const ConvTiming* find(const std::string& library) const;
  /// The fastest of oneDNN's ways; null if none was timed.
  [[nodiscard]] const ConvTiming* dense() const;
};

[[nodiscard]] nlohmann::json to_json(const ConvCase& result);
/// Throws nlohmann::json::exception, or Error, for what to_json() does not write.
[[nodiscard]] ConvCase conv_case_of(const nlohmann::json& record);

}  // namespace spjit::bench
