#pragma once

/// @file
/// All families of kernels.

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/kernel_family.hpp"

namespace spjit {

/// In the order in which they are asked: the first that accepts a problem compiles it.
[[nodiscard]] std::span<const KernelFamily* const> kernel_families();

/// The family of that name for the host, or for GPUs: one name may be of both. Throws Error that
/// lists those there are.
[[nodiscard]] const KernelFamily& find_family(std::string_view name, bool is_cuda = false);

/// Whether a family has that name, for whatever device.
[[nodiscard]] bool is_family(std::string_view name) noexcept;

/// Every name once.
[[nodiscard]] std::vector<std::string_view> family_names();

/// The family that a record names. Throws Error for what is no record of a kernel, and as
/// find_family().
[[nodiscard]] const KernelFamily& family_of(const nlohmann::json& record);

/// The family that rules choose where nothing is timed: of those that accept, the first that does
/// not leave the problem to others, else the first. Null: none accepts. Building may still decline.
[[nodiscard]] const KernelFamily* family_by_rules(const FamilyRequest& request);

}  // namespace spjit
