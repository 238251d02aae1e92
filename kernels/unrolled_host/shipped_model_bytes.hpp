#pragma once

/// @file
/// The files of rankmodel/models/, as bytes. Defined by a source that the build generates
/// (cmake/EmbedFiles.cmake).

#include <span>
#include <string_view>

namespace spjit {

struct ShippedModelBytes {
  std::string_view name;  ///< of the file, without .json.gz
  std::span<const unsigned char> gzip;
};

extern const std::span<const ShippedModelBytes> k_shipped_models;

}  // namespace spjit
