#pragma once

/// @file
/// How every benchmark writes its result.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "matrix/file_bytes.hpp"

namespace spjit::bench {

/// All of `document` or, if that fails, what the file held before. Throws IoError.
inline void save_json(const std::filesystem::path& file, const nlohmann::json& document) {
  const std::string text = document.dump(1) + '\n';
  publish_file(file, std::as_bytes(std::span(text)));
}

}  // namespace spjit::bench
