#include "plan/search_policy.hpp"

#include <nlohmann/json.hpp>
#include <optional>

namespace spjit {
namespace {

using nlohmann::json;

constexpr std::int64_t k_chosen = -1;

json optional_json(const std::optional<std::int64_t>& value) {
  return value ? json(*value) : json(nullptr);
}

}  // namespace

void add_to_key(const SearchPolicy& policy, KeyBuilder& key) {
  key.field("reorder", to_string(policy.reorder))
      .field("search", to_string(policy.search))
      .field("code_budget_bytes", policy.code_budget_bytes)
      .field("m1", policy.m1.value_or(k_chosen))
      .field("n1", policy.n1.value_or(k_chosen))
      .field("source", to_string(policy.source))
      .field("unit_nonzeros", policy.unit_nonzeros);
  if (policy.search == SearchMode::instant) return;
  // What was measured, of how many, and how long, decided.
  key.field("top_k", policy.top_k)
      .field("proxy_source", to_string(policy.proxy_source))
      .field("search_budget_us", static_cast<std::int64_t>(policy.search_budget_ms * 1000));
}

json to_json(const SearchPolicy& policy) {
  return {{"search", std::string(to_string(policy.search))},
          {"search_budget_ms", policy.search_budget_ms},
          {"top_k", policy.top_k},
          {"rank_model", policy.rank_model.string()},
          {"reorder", std::string(to_string(policy.reorder))},
          {"code_budget_bytes", policy.code_budget_bytes},
          {"m1", optional_json(policy.m1)},
          {"n1", optional_json(policy.n1)},
          {"source", std::string(to_string(policy.source))},
          {"proxy_source", std::string(to_string(policy.proxy_source))},
          {"unit_nonzeros", policy.unit_nonzeros}};
}

}  // namespace spjit
