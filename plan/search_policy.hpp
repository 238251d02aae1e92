#pragma once

/// @file
/// A SearchPolicy in cache keys and as JSON, and the options of single families in it.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string_view>

#include "base/hash.hpp"
#include "spjit/options.hpp"

namespace spjit {

/// An option of a family or a backend: a number, or one of some texts.
struct NamedOption {
  std::string_view name;
  std::string_view fallback = {};  ///< its value where the policy has none; empty: chosen
  std::int64_t least = 1;          ///< the least number that it takes
  std::int64_t most = 0;           ///< the largest number that it takes
  std::int64_t step = 1;           ///< numbers are multiples of it
  std::span<const std::string_view> texts = {};  ///< none: it is a number
  bool is_of_search = false;                     ///< only modes that time look at it
};

/// Throws InvalidArgument for a value of an option that is not among `known`, and for one that is
/// none of its own.
void check_values(const NamedValues& values, std::span<const NamedOption* const> known);

/// The value of an option, checked. Nothing: a number that is chosen.
[[nodiscard]] std::optional<std::int64_t> integer_of(const SearchPolicy& policy,
                                                     const NamedOption& option);
[[nodiscard]] std::string_view text_of(const SearchPolicy& policy, const NamedOption& option);

/// Adds what decides a choice to a cache key: its values are those of `options`, in this order. Of
/// a rank model only that there is one: its contents are the caller's to add. What only modes that
/// time look at is left out in instant mode.
void add_to_key(const SearchPolicy& policy, std::span<const NamedOption* const> options,
                KeyBuilder& key);

/// Bytes that pass through the caches between two runs of a kernel, if all layers of the network
/// were unrolled code. 0: nothing does; 2^63 - 1: a network of unknown size.
[[nodiscard]] std::int64_t bytes_between_runs(const SearchPolicy& policy);

/// All members: "search", "search_budget_ms", "top_k", "rank_model", "family", "hot",
/// "network_nnz", "reorder", "code_budget_bytes", "values".
[[nodiscard]] nlohmann::json to_json(const SearchPolicy& policy);

/// The policy that to_json() wrote. Throws Error for a member that is missing, unknown, of the
/// wrong kind or no value of its enumeration.
[[nodiscard]] SearchPolicy read_search_policy(const nlohmann::json& json);

}  // namespace spjit
