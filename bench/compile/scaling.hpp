#pragma once

/// @file
/// Seconds and memory of compiling against nonzeros: the matrices, the rows, and what is printed
/// and written of them, for whatever compiles. bench/README.md documents the JSON file.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "bench/compile/child_run.hpp"
#include "spjit/matrix.hpp"

namespace spjit::bench {

/// A uniform matrix by its shape.
struct ScalingSize {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  double sparsity = 0;

  [[nodiscard]] CsrMatrix make() const;
  [[nodiscard]] std::string shape() const;  ///< "512x512"
};

/// From 1k to 1M nonzeros; 26k and 708k are those of the goals of CUDA targets. Where `thousands`
/// is not empty only those with as many thousands of nonzeros.
[[nodiscard]] std::vector<ScalingSize> scaling_sizes(std::span<const std::int64_t> thousands = {});

/// All repeats of a size and method.
struct ScalingRow {
  std::int64_t nonzeros = 0;
  std::string shape;
  std::string method;
  std::string tile;  ///< where it is not the same for all rows
  std::vector<ChildRun> runs;

  /// Those that came to an end, fastest first.
  [[nodiscard]] std::vector<ChildRun> good() const;
};

/// What is measured, and how often.
struct ScalingOptions {
  int repeats = 3;
  double limit_s = 120;                   ///< after which a compilation is stopped
  std::vector<std::int64_t> sizes = {};   ///< only these, by nonzeros in thousands; empty: all
  std::vector<std::string> methods = {};  ///< only these; empty: all
  std::filesystem::path json = {};        ///< where the result goes; empty: nowhere

  /// `names` are the methods there are.
  void add_to(CLI::App& app, const std::vector<std::string>& names);
  [[nodiscard]] bool wants(const std::string& method) const;
};

[[nodiscard]] std::string scaling_header();
[[nodiscard]] std::string scaling_line(const ScalingRow& row);
[[nodiscard]] nlohmann::json to_json(const ScalingRow& row);

}  // namespace spjit::bench
