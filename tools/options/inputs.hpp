#pragma once

/// @file
/// From what the user named to matrix files, and work on one of several: what goes wrong with it
/// does not stop the others.

#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "tools/report/terminal.hpp"

namespace spjit::cli {

struct ModelLayer;

/// A matrix to work on, or why an argument gave none.
struct Input {
  std::filesystem::path path;  ///< of its file; FILE/NAME of a layer of a model
  std::string problem = {};    ///< empty if there is a file to try
  /// Layers of a model's file that expand_models() has not taken apart, a glob.
  std::string layers = "*";
  std::shared_ptr<const ModelLayer> layer = nullptr;  ///< null: the file is one matrix
};

/// Which files of folders are inputs.
enum class FileKinds : std::uint8_t {
  matrices,             ///< .smtx, .mtx, .npy, .npz, .smtx.gz and .mtx.gz
  matrices_and_models,  ///< these, .safetensors, .safetensors.index.json and .onnx
};

/// Whether the name ends so, in any case: .safetensors, .safetensors.index.json and .onnx.
[[nodiscard]] bool is_model_file(const std::filesystem::path& path);

/// Expands arguments in their order. A folder becomes its files of these kinds (recursively,
/// ascending by path), a glob that the shell left alone its matches. FILE/NAME of a model's file
/// becomes the layers of that name or glob. Anything else stays. A file named twice, also by
/// different paths, is worked on once, and so are parts of a model whose index is there; a link
/// with a name of its own is a file of its own. A folder or glob without any such file is one input
/// with a problem, and so is each folder that cannot be read.
[[nodiscard]] std::vector<Input> expand_inputs(const std::vector<std::string>& arguments,
                                               FileKinds kinds = FileKinds::matrices);

/// For each input a name that is a C identifier, may name a function (is_function_name()) and is
/// unique in the list: its file's without extension, other characters replaced by '_'.
[[nodiscard]] std::vector<std::string> unique_identifiers(const std::vector<Input>& inputs);

/// Runs `work`, and gives the message of what it throws, beginning with the file; empty if it
/// throws nothing. `advice` follows "out of memory".
template <typename Work>
[[nodiscard]] std::string attempt(const std::filesystem::path& path, const Work& work,
                                  const std::string& advice = {}) {
  std::string error;
  try {
    work();
  } catch (const std::bad_alloc&) {
    error = "out of memory" + advice;
  } catch (const std::exception& thrown) {
    error = thrown.what();
  }
  // Errors of reading begin with the file; the others do not know it.
  const std::string name = shown(path);
  if (!error.empty() && !error.starts_with(name)) error.insert(0, name + ": ");
  return error;
}

}  // namespace spjit::cli
