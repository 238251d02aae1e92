#pragma once

/// @file
/// The index of a model in several `.safetensors` files, as Hugging Face's libraries write it:
///
///     index = JSON: {"weight_map": {name of a tensor: name of a file beside the index, ...}, ...}

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace spjit {

struct ModelIndex {
  std::map<std::string, std::vector<std::string>> tensors;  ///< of each file, by its name
  std::map<std::string, std::string> metadata;              ///< the texts of "metadata"
};

/// Throws IoError, beginning with `name`, for text that is no index, a tensor that is there twice
/// and a file that is not beside it.
[[nodiscard]] ModelIndex parse_model_index(std::string_view text, std::string_view name);

/// The index in a file.
[[nodiscard]] ModelIndex read_model_index(const std::filesystem::path& path);

}  // namespace spjit
