#pragma once

/// @file
/// The files of rankmodel/models/, compressed. Defined by a source that the build generates.

#include "base/embedded_file.hpp"

namespace spjit {

extern const std::span<const EmbeddedFile> k_shipped_models;

}  // namespace spjit
