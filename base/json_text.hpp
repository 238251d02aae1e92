#pragma once

/// @file
/// JSON from anyone: records and models that lie in files. What is wrong with it is an Error of one
/// line, never an exception of the JSON library.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace spjit {

/// Arrays and objects within each other. Copying and writing JSON recurse, so that depth costs
/// stack.
inline constexpr int k_deepest_json = 32;

/// The document, in time linear in its length and memory of at most 64 bytes for each of its bytes.
/// Throws Error for text that is not JSON or is nested deeper than `k_deepest_json`.
[[nodiscard]] nlohmann::json parse_json(std::string_view text);

/// `value` as an integer from `least` to `most`; 1.0 and true are none. Throws Error that calls it
/// `what`.
[[nodiscard]] std::int64_t json_integer(const nlohmann::json& value, std::string_view what,
                                        std::int64_t least, std::int64_t most);

/// A value as JSON on one line, fit for a message: at most 40 bytes of it, then dots.
[[nodiscard]] std::string quoted_json(const nlohmann::json& value);

}  // namespace spjit
