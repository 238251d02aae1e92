#pragma once

/// @file
/// What the readers of files throw.

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "spjit/error.hpp"

namespace spjit {

/// Throws IoError: what was read, and what is wrong with it.
[[noreturn]] inline void fail_to_read(std::string_view name, const std::string& reason) {
  throw IoError(fmt::format("{}: {}", name, reason));
}

}  // namespace spjit
