#pragma once

/// @file
/// Libraries of a CUDA toolkit other than the compilers, loaded at run time.

#include <optional>
#include <string>

#include "base/dynamic_library.hpp"

namespace spjit::side_by_side {

/// "libcublas.so.13" and the like, from the places where runtime/cuda/cuda_libraries.hpp
/// looks, toolkits and what pip installed wheels into, else where the loader finds it; nothing if
/// it is nowhere.
[[nodiscard]] std::optional<DynamicLibrary> open_toolkit_library(const std::string& file);

}  // namespace spjit::side_by_side
