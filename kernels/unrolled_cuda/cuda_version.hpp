#pragma once

/// @file
/// Versions of CUDA's compiler libraries.

#include <compare>
#include <string>
#include <tuple>

namespace spjit {

struct CudaVersion {
  int major = 0;
  int minor = 0;

  friend bool operator==(const CudaVersion&, const CudaVersion&) = default;
  friend std::strong_ordering operator<=>(const CudaVersion& left, const CudaVersion& right) {
    return std::tie(left.major, left.minor) <=> std::tie(right.major, right.minor);
  }
};

[[nodiscard]] inline std::string to_string(CudaVersion version) {
  return std::to_string(version.major) + '.' + std::to_string(version.minor);
}

}  // namespace spjit
