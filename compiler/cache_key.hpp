#pragma once

/// @file
/// The cache key of a compilation.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "kernels/kernel_family.hpp"

namespace spjit {

/// SHA-256 over everything that decides the artifact: problem, target, what choices look at in the
/// device, policy, and the versions of the library and of the backend's families.
/// docs/design/cache-format.md lists the fields. 64 hexadecimal digits.
///
/// `rank_model`: id of the model that ranks, empty for the formula; `timed_on`: the device that a
/// search times on, empty without one. Instant mode looks at neither. What compiled GPU code is not
/// part of it: every compiler library makes a kernel with the same bits, and a machine without any
/// has to find what another one compiled. Throws what `cancel` throws soon after it is reached.
[[nodiscard]] std::string cache_key(const FamilyRequest& request,
                                    const std::string& rank_model = {},
                                    const std::string& timed_on = {});

/// The fields of that key for people: an object of objects of texts (KeyFields), by what each is
/// of: "versions", "target", "problem", "device", "policy", "search". Two keys are equal if and
/// only if these are, but for chance. Far cheaper than the key.
[[nodiscard]] nlohmann::json cache_key_fields(const FamilyRequest& request,
                                              const std::string& rank_model = {},
                                              const std::string& timed_on = {});

/// The device that a search would time on; empty for `instant`, and without one.
[[nodiscard]] std::string timed_on(const FamilyRequest& request);

}  // namespace spjit
