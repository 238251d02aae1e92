#pragma once

/// @file
/// Kernels that are to be made as lines of a file, which `spjit plan` writes and `spjit work` and
/// engines of other people read.

#include <compare>
#include <cstdint>
#include <filesystem>
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

/// WorkLine::id of this input. `options`: its command's, of one target. Throws as load_problem().
[[nodiscard]] std::string work_id(const Input& input, const std::string& layer,
                                  const KernelOptions& options);

/// Lines for worker `which` of `workers`, from 0: places in `lines`, ascending. Workers get about
/// the same seconds, the longest lines first.
[[nodiscard]] std::vector<std::size_t> share_of(const std::vector<WorkLine>& lines,
                                                std::size_t which, std::size_t workers);

}  // namespace spjit::cli
