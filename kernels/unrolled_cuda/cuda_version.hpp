#pragma once

/// @file
/// Versions of CUDA's compiler libraries.

#include <compare>
#include <string>

namespace spjit {

struct CudaVersion {
  int major = 0;
  int minor = 0;

  friend auto operator<=>(const CudaVersion&, const CudaVersion&) = default;
};

[[nodiscard]] inline std::string to_string(CudaVersion version) {
  return std::to_string(version.major) + '.' + std::to_string(version.minor);
}

}  // namespace spjit
