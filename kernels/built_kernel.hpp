#pragma once

/// @file
/// The result of KernelFamily::build(). Only this header needs all of nlohmann/json for it.

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/refusal.hpp"
#include "kernels/kernel_family.hpp"

namespace spjit {

/// A built kernel, or why there is none after all: then the next family is asked.
struct BuiltKernel {
  std::shared_ptr<const BuiltCode> code = nullptr;
  /// The family's members of the record: "tile", "search", "resources" and so on.
  nlohmann::json record = {};
  std::string reason = {};             ///< why this choice, in one line
  Refusal declined = Refusal::none();  ///< why it was not built after all
};

}  // namespace spjit
