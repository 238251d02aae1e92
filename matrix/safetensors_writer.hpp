#pragma once

/// @file
/// Writes a `.safetensors` file, tensor after tensor.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/file_bytes.hpp"
#include "matrix/safetensors_header.hpp"

namespace spjit {

/// The file appears whole or not at all. Every function throws IoError.
class SafetensorsWriter {
 public:
  /// `tensors`: name, dtype, shape and bytes of each, in the order in which their elements come.
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<Tensor>& tensors,
                    const std::map<std::string, std::string>& metadata);

  /// The next bytes, of one tensor or several.
  void write(std::span<const std::byte> bytes) { file_.write(bytes); }

  /// Gives the file its name. Precondition: all bytes of all tensors were written.
  void publish() { file_.publish(); }

 private:
  TemporaryFile file_;
};

}  // namespace spjit
