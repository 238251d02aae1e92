#pragma once

/// @file
/// The card that a kernel was made for, in its record.

#include <nlohmann/json_fwd.hpp>

namespace spjit {

struct CudaDeviceInfo;

[[nodiscard]] nlohmann::json card_json(const CudaDeviceInfo& limits);

}  // namespace spjit
