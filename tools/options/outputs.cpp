#include "tools/options/outputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <system_error>

#include "matrix/file_names.hpp"
#include "matrix/model_index.hpp"
#include "spjit/error.hpp"
#include "tools/commands/subcommands.hpp"
#include "tools/options/inputs.hpp"

namespace spjit::cli {
namespace fs = std::filesystem;
namespace {

bool are_same(const fs::path& one, const fs::path& other) {
  std::error_code error;
  if (fs::equivalent(one, other, error)) return true;
  // Of files that are not there yet the paths say it.
  const fs::path whole = fs::weakly_canonical(fs::absolute(one), error);
  return !error && whole == fs::weakly_canonical(fs::absolute(other), error) && !error;
}

}  // namespace

std::vector<fs::path> files_of_model(const fs::path& model) {
  std::vector<fs::path> files = {model};
  if (!is_model_index(model)) return files;
  try {
    for (const auto& [part, tensors] : read_model_index(model).tensors) {
      files.push_back(model.parent_path() / part);
    }
  } catch (const Error&) {
    // Said where it is read.
  }
  return files;
}

std::vector<fs::path> files_read(const std::vector<std::string>& inputs,
                                 const KernelOptions& options) {
  std::vector<fs::path> files = {options.model.layers, options.operands.scale.path,
                                 options.operands.bias.path, options.operands.group_scales.path,
                                 options.compile.policy.rank_model};
  for (const Input& input : expand_inputs(inputs, FileKinds::matrices_and_models)) {
    std::ranges::copy(files_of_model(input.path), std::back_inserter(files));
  }
  return files;
}

void require_apart(std::string_view option, const fs::path& out,
                   const std::vector<fs::path>& others) {
  const auto is_lost = [&](const fs::path& other) {
    return !other.empty() && are_same(out, other);
  };
  if (!out.empty() && std::ranges::any_of(others, is_lost)) {
    throw UsageError(
        fmt::format("{}: {} is another file of this command, which would be lost; "
                    "name another one",
                    option, shown(out)));
  }
}

}  // namespace spjit::cli
