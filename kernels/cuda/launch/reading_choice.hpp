#pragma once

/// @file
/// The result of ReadingCudaFamily::choice().

#include <nlohmann/json.hpp>
#include <string>

namespace spjit {

/// The part of a record that a family which reads A writes itself.
struct ReadingChoice {
  nlohmann::json program;  ///< with the members of the family
  nlohmann::json tile;     ///< with "name"
  std::string reason = {};
};

}  // namespace spjit
