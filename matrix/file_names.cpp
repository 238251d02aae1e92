#include "matrix/file_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace spjit {
namespace {

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

std::string lower_extension(const std::filesystem::path& path) {
  return lower(path.extension().string());
}

std::string matrix_extension(const std::filesystem::path& path) {
  std::string extension = lower_extension(path);
  if (extension == ".gz") extension.insert(0, lower_extension(path.stem()));
  return extension;
}

bool is_matrix_file(const std::filesystem::path& path) {
  constexpr std::array k_extensions = {".smtx", ".mtx", ".npy", ".npz", ".smtx.gz", ".mtx.gz"};
  return std::ranges::find(k_extensions, matrix_extension(path)) != k_extensions.end();
}

bool is_model_index(const std::filesystem::path& path) {
  return lower(path.filename().string()).ends_with(".safetensors.index.json");
}

}  // namespace spjit
