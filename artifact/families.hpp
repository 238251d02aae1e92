#pragma once

/// @file
/// All backends and families of kernels.

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/backend.hpp"

namespace spjit {

[[nodiscard]] std::span<const Backend* const> backends();

/// The backend whose name is Target::backend().
[[nodiscard]] const Backend& backend_of(const Target& target);
/// The backend of that name. Precondition: there is one.
[[nodiscard]] const Backend& backend_named(std::string_view name);

/// Backend::device_info() of its backend.
[[nodiscard]] DeviceInfo device_info_of(const Target& target);
/// Backend::families() of its backend.
[[nodiscard]] std::span<const KernelFamily* const> families_for(const Target& target);

/// Backend::family() of a backend: one name may be of several.
[[nodiscard]] const KernelFamily& find_family(std::string_view name,
                                              std::string_view backend = "host");

/// Whether a family of any backend has that name.
[[nodiscard]] bool is_family(std::string_view name) noexcept;

/// Every name once.
[[nodiscard]] std::vector<std::string_view> family_names();

/// The options of all backends and families, by name: which of them SearchPolicy::values may have.
[[nodiscard]] std::span<const NamedOption* const> named_options();
/// Whether families of a backend have options.
[[nodiscard]] bool has_options(const Backend& backend) noexcept;

/// The family that a record names. Throws Error for what is no record of a kernel, and as
/// Backend::family().
[[nodiscard]] const KernelFamily& family_of(const nlohmann::json& record);

/// The family that is chosen where nothing is timed, by a model or by rules: of those that accept,
/// the first that does not leave the problem to others, else the first. Null: none accepts.
/// Building may still decline.
[[nodiscard]] const KernelFamily* chosen_family(const FamilyRequest& request);

}  // namespace spjit
