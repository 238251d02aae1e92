#pragma once

/// @file
/// Kinds of files by their names, in any case.

#include <filesystem>
#include <string>

namespace spjit {

/// ".npz" of "a.NPZ"; of two extensions the last.
[[nodiscard]] std::string lower_extension(const std::filesystem::path& path);

/// The lower-case extension; both of a file that gzip compressed: ".mtx.gz".
[[nodiscard]] std::string matrix_extension(const std::filesystem::path& path);

/// Whether load_matrix() reads such a file.
[[nodiscard]] bool is_matrix_file(const std::filesystem::path& path);

/// Whether it lists where the weights of a model in several files are:
/// "model.safetensors.index.json".
[[nodiscard]] bool is_model_index(const std::filesystem::path& path);

}  // namespace spjit
