#include "plan/search_policy.hpp"

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json_text.hpp"

namespace spjit {
namespace {

using nlohmann::json;

constexpr std::int64_t k_most = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t k_chosen = -1;

json optional_json(const std::optional<std::int64_t>& value) {
  return value ? json(*value) : json(nullptr);
}

std::optional<std::int64_t> read_optional(JsonMembers& members, const char* name) {
  const json& value = members.at(name);
  if (value.is_null()) return std::nullopt;
  return json_integer(value, name, 1, k_most);
}

}  // namespace

void add_to_key(const SearchPolicy& policy, KeyBuilder& key) {
  key.field("family", policy.family)
      .field("hot", std::int64_t{policy.hot})
      .field("network_nnz", policy.network_nnz)
      .field("reorder", to_string(policy.reorder))
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

std::int64_t bytes_between_runs(const SearchPolicy& policy) {
  // A value, and seven to ten bytes of code.
  constexpr std::int64_t k_bytes_a_nonzero = 14;
  if (policy.hot) return 0;
  if (policy.network_nnz == 0 || policy.network_nnz > k_most / k_bytes_a_nonzero) return k_most;
  return policy.network_nnz * k_bytes_a_nonzero;
}

json to_json(const SearchPolicy& policy) {
  return {{"search", std::string(to_string(policy.search))},
          {"search_budget_ms", policy.search_budget_ms},
          {"top_k", policy.top_k},
          {"rank_model", policy.rank_model.string()},
          {"family", policy.family},
          {"hot", policy.hot},
          {"network_nnz", policy.network_nnz},
          {"reorder", std::string(to_string(policy.reorder))},
          {"code_budget_bytes", policy.code_budget_bytes},
          {"m1", optional_json(policy.m1)},
          {"n1", optional_json(policy.n1)},
          {"source", std::string(to_string(policy.source))},
          {"proxy_source", std::string(to_string(policy.proxy_source))},
          {"unit_nonzeros", policy.unit_nonzeros}};
}

SearchPolicy read_search_policy(const json& object) {
  constexpr double k_most_ms = 1e9;
  JsonMembers members(object, "a search policy");
  SearchPolicy policy;
  policy.search = parse_search(members.text("search"));
  policy.search_budget_ms = members.number("search_budget_ms", 0, k_most_ms);
  policy.top_k = static_cast<int>(members.integer("top_k", 1, std::numeric_limits<int>::max()));
  policy.rank_model = members.text("rank_model");
  policy.family = members.text("family");
  policy.hot = members.boolean("hot");
  policy.network_nnz = members.integer("network_nnz", 0, k_most);
  policy.reorder = parse_reorder(members.text("reorder"));
  policy.code_budget_bytes = members.integer("code_budget_bytes", 0, k_most);
  policy.m1 = read_optional(members, "m1");
  policy.n1 = read_optional(members, "n1");
  policy.source = parse_cuda_source(members.text("source"));
  policy.proxy_source = parse_cuda_source(members.text("proxy_source"));
  policy.unit_nonzeros = members.integer("unit_nonzeros", 1, k_most);
  members.finish();
  return policy;
}

}  // namespace spjit
