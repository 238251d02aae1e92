#pragma once

/// @file
/// Numerics as the pipeline sees them: A checked against them, named in a cache key, written as
/// JSON.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>

#include "base/cancel.hpp"
#include "base/hash.hpp"
#include "spjit/matrix.hpp"
#include "spjit/numerics.hpp"
#include "spjit/problem.hpp"

namespace spjit {

/// The first of some values that a type does not have; nothing: it has all.
[[nodiscard]] std::optional<std::int64_t> first_inexact(DataType type,
                                                        std::span<const float> values,
                                                        const Cancellation& cancel = {});

/// A's values as the types have them: -0 of an integer type is +0. A is copied only if it has some.
/// Throws InvalidArgument that names row, column and value for one that the type does not have, and
/// the row whose exact sum may leave int32; what `cancel` throws soon after it is reached.
/// Precondition: A is valid.
[[nodiscard]] SharedMatrix checked_values(const Problem& problem, const Cancellation& cancel = {});

/// Adds other numerics than the default to a cache key.
void add_to_key(const Numerics& numerics, KeyBuilder& key);

/// {"a": "bf16", "b": "bf16", "c": "f32", "accumulate": "bounded:0.001"}, and "quantize": "tensor"
/// where B is quantised.
[[nodiscard]] nlohmann::json to_json(const Numerics& numerics);
/// Throws Error that names the member that is missing, unknown or wrong.
[[nodiscard]] Numerics read_numerics(const nlohmann::json& json);

}  // namespace spjit
