#pragma once

/// @file
/// The interface of a kind of benchmark, which one driver measures.

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/lab/options.hpp"
#include "bench/lab/record.hpp"
#include "bench/side_by_side/peer.hpp"

namespace spjit::bench {

/// Under which a workload is measured once.
struct Conditions {
  std::string comparison = {};  ///< of `layer`
  std::int64_t n = 0;           ///< columns of B: tokens, images
  int threads = 1;
  /// Kernels are called again and again, a layer alone. Else all layers run in sequence.
  bool hot = false;
};

/// A network or a matrix in memory.
class Workload {
 public:
  Workload() = default;
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;
  virtual ~Workload() = default;

  /// Members that a file has once for this kind; null: none.
  [[nodiscard]] virtual nlohmann::json describe() const { return nullptr; }

  /// Prepares and checks every way, then times those that are right beside each other. Throws Error
  /// where there is nothing to compare. The driver fills in the workload's name and the conditions
  /// of cases; `hot` and `threads` are the measurer's.
  [[nodiscard]] virtual std::vector<Case> measure(const Conditions& conditions) = 0;
};

/// A workload to be made when its turn comes, so that only one is in memory.
struct WorkloadEntry {
  std::string name;
  std::vector<Conditions> conditions;
  std::function<std::unique_ptr<Workload>()> load;
};

class Kind {
 public:
  Kind() = default;
  Kind(const Kind&) = delete;
  Kind& operator=(const Kind&) = delete;
  virtual ~Kind() = default;

  /// Missing ones too.
  [[nodiscard]] virtual std::vector<side_by_side::PeerInfo> libraries() = 0;
  /// In the order in which they are measured.
  [[nodiscard]] virtual std::vector<WorkloadEntry> workloads() = 0;
  /// Adds to a document's `device` what only this kind looks at.
  virtual void describe_device(nlohmann::json& /*device*/) const {}
};

// A plug-in each; they keep a copy of the options. In host_kind.cpp and so on:
[[nodiscard]] std::unique_ptr<Kind> make_host_kind(const LabOptions& options);
[[nodiscard]] std::unique_ptr<Kind> make_layer_kind(const LabOptions& options);
[[nodiscard]] std::unique_ptr<Kind> make_conv_kind(const LabOptions& options);
[[nodiscard]] std::unique_ptr<Kind> make_model_kind(const LabOptions& options);

/// That of `options.kind`. Throws InvalidArgument for one that there is not.
[[nodiscard]] std::unique_ptr<Kind> make_kind(const LabOptions& options);

/// Every n with every number of threads, cold, and hot too if that is wanted.
[[nodiscard]] std::vector<Conditions> all_conditions(const LabOptions& options);

/// The one driver: loads workloads, has them measured, records, prints.
/// Returns the exit status: 0, or 1 if a result was wrong or a workload could not be measured.
/// Throws Error for a file that it cannot go on with, and where no workload matches.
[[nodiscard]] int run_lab(LabOptions options);

}  // namespace spjit::bench
