#pragma once

/// @file
/// One matrix file on its way through `spjit compile`, and how it is reported.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "spjit/bundle.hpp"
#include "spjit/kernel.hpp"
#include "spjit/matrix.hpp"
#include "tools/options/inputs.hpp"
#include "tools/options/kernel_options.hpp"
#include "tools/report/emit.hpp"
#include "tools/report/measure.hpp"
#include "tools/report/table.hpp"

namespace spjit::cli {

/// Time for measuring a layer beside its peers.
inline constexpr double k_layer_budget_ms = 300;

/// A bundle that gets the kernels of layers, under their names.
struct LayerBundle {
  BundleWriter writer;
  std::set<std::pair<std::string, std::string>> kernels;  ///< names and keys
};

struct LayerOptions {
  KernelOptions kernel;
  EmitOptions emit;
  LayerBundle* bundle = nullptr;  ///< null: none
  bool measure = true;
  double timeout_s = 0;    ///< of compiling and checking a layer; 0: none
  double peak_gflops = 0;  ///< of one core of the host; set when `measure`
};

/// The outcome of one file.
struct Layer {
  std::filesystem::path path;
  std::string name;   ///< a C identifier, of the files and symbols
  std::string error;  ///< why it failed; then what follows may be missing
  MatrixStatistics statistics;
  std::optional<KernelInfo> info;
  Json record;  ///< the kernel's own
  std::optional<Measurement> measurement;
  double peak_gflops = 0;
  std::vector<std::filesystem::path> files;
  std::vector<std::string> notes;  ///< what the user should know, a line each

  [[nodiscard]] bool failed() const noexcept { return !error.empty(); }
  /// Whether the tile was chosen by its rank though that of a GPU should be timed.
  [[nodiscard]] bool is_ranked_only() const;
  /// Whether the clock chose it.
  [[nodiscard]] bool is_modelled() const;
};

/// Loads, compiles and checks, measures where the target is in this machine, and emits. Never
/// throws for what goes wrong with this file: `error` says it.
[[nodiscard]] Layer process_layer(const Input& input, const std::string& name,
                                  const Compiler& compiler, const LayerOptions& options);

/// "512x512 90.0 %, unrolled, compiled in 3.1 ms, 120.4 us, 112.2 GFLOP/s, 98 % of peak".
[[nodiscard]] std::string summarize(const Layer& layer);

[[nodiscard]] Json describe(const Layer& layer);

/// The closing table, with the notes of all layers under it. Columns that are of no layer's target
/// are left out.
[[nodiscard]] std::string layer_table(const std::vector<Layer>& layers, const Terminal& terminal);

}  // namespace spjit::cli
