#pragma once

/// @file
/// A kernel's KernelInfo as JSON, for programs in other languages.

#include <nlohmann/json_fwd.hpp>

#include "spjit/kernel.hpp"

namespace spjit {

/// All members of KernelInfo under their names (include/spjit.h): "cuda", "verification" and
/// "cache_directory" are null where there is nothing to say.
[[nodiscard]] nlohmann::json info_json(const KernelInfo& info);

/// Null if nothing was checked.
[[nodiscard]] nlohmann::json verification_json(const Verification& verification);

}  // namespace spjit
