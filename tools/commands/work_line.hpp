#pragma once

/// @file
/// Kernels that are to be made as lines of a file, which `spjit plan` writes and `spjit work` and
/// engines of other people read.

#include <compare>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/options/inputs.hpp"
#include "tools/options/kernel_options.hpp"
#include "tools/report/terminal.hpp"

namespace spjit::cli {

/// A kernel to make.
struct WorkLine {
  /// 64 hexadecimal digits, of the weights, what is computed, the target, the options and the
  /// version: equal lines make equal kernels.
  std::string id;
  std::string spjit;     ///< the version that planned
  std::string file;      ///< as the user named it: a matrix or a model
  std::string layer;     ///< the name in a bundle; of a model's weights theirs
  std::string target;    ///< Target::name()
  std::string resource;  ///< what a worker needs: "cpu", "host:zen4", "gpu:sm_90:h100"
  std::int64_t nnz = 0;
  double seconds = 0;                  ///< a rough guess, to order lines by
  std::vector<std::string> arguments;  ///< of the command line, but files and --target
};

[[nodiscard]] Json to_json(const WorkLine& line);

/// The lines of a file. Throws IoError that names the file, the line and what is wrong there.
[[nodiscard]] std::vector<WorkLine> read_work(const std::filesystem::path& file);

/// How a plan names an input.
struct InputName {
  std::string file;
  std::string layer;  ///< of a model; else empty

  friend auto operator<=>(const InputName&, const InputName&) = default;
};

[[nodiscard]] InputName name_in_plan(const Input& input);

/// An input with its options, the same for each target.
struct PlannedInput {
  KernelOptions options;   ///< its own (options_for()), whatever the target
  nlohmann::json problem;  ///< as of a record: with hashes of A and of scales
};

/// Throws as load_problem().
[[nodiscard]] PlannedInput planned_input(const Input& input, const KernelOptions& options);

/// `options` for this target alone.
[[nodiscard]] KernelOptions options_of_target(KernelOptions options, const Target& target);

/// WorkLine::id.
[[nodiscard]] std::string work_id(const PlannedInput& input, const std::string& layer,
                                  const Target& target);

/// Lines for worker `which` of `workers`, from 0: places in `lines`, ascending. Workers get about
/// the same seconds, the longest lines first.
[[nodiscard]] std::vector<std::size_t> share_of(const std::vector<WorkLine>& lines,
                                                std::size_t which, std::size_t workers);

}  // namespace spjit::cli
