#pragma once

/// @file
/// A SearchPolicy in cache keys and as JSON.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "base/hash.hpp"
#include "spjit/options.hpp"

namespace spjit {

/// Adds what decides a choice to a cache key. Of a rank model only that there is one: its contents
/// are the caller's to add. What only modes that time look at is left out in instant mode.
void add_to_key(const SearchPolicy& policy, KeyBuilder& key);

/// What passes through the caches between two runs of a kernel, if all layers of the network were
/// unrolled code. [bytes] 0: nothing does; 2^63 - 1: a network of unknown size.
[[nodiscard]] std::int64_t bytes_between_runs(const SearchPolicy& policy);

/// All members: "search", "search_budget_ms", "top_k", "rank_model", "family", "hot",
/// "network_nnz", "reorder", "code_budget_bytes", "m1" and "n1" (null: chosen), "source",
/// "proxy_source", "unit_nonzeros".
[[nodiscard]] nlohmann::json to_json(const SearchPolicy& policy);

/// The policy that to_json() wrote. Throws Error for a member that is missing, unknown, of the
/// wrong kind or no value of its enumeration.
[[nodiscard]] SearchPolicy read_search_policy(const nlohmann::json& json);

}  // namespace spjit
