#include "plan/search_policy.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/hash.hpp"

namespace {

using nlohmann::json;
using spjit::CudaSource;
using spjit::SearchMode;
using spjit::SearchPolicy;

/// Every member is another than by default.
SearchPolicy whole_policy() {
  SearchPolicy policy;
  policy.search = SearchMode::ranked;
  policy.search_budget_ms = 1234.5;
  policy.top_k = 7;
  policy.rank_model = "models/a b.json";
  policy.reorder = spjit::ReorderAlgorithm::balanced;
  policy.code_budget_bytes = 4096;
  policy.m1 = 14;
  policy.n1 = 64;
  policy.source = CudaSource::cuda;
  policy.proxy_source = CudaSource::cuda;
  policy.unit_nonzeros = 99;
  return policy;
}

/// One for each member, in the order of the struct.
const std::vector<std::function<void(SearchPolicy&)>>& changes() {
  static const std::vector<std::function<void(SearchPolicy&)>> k_changes = {
      [](SearchPolicy& p) { p.search = SearchMode::proxy; },
      [](SearchPolicy& p) { p.search_budget_ms = 1234.6; },
      [](SearchPolicy& p) { p.top_k = 8; },
      [](SearchPolicy& p) { p.rank_model = "prior"; },
      [](SearchPolicy& p) { p.reorder = spjit::ReorderAlgorithm::none; },
      [](SearchPolicy& p) { p.code_budget_bytes = 0; },
      [](SearchPolicy& p) { p.m1.reset(); },
      [](SearchPolicy& p) { p.n1 = 32; },
      [](SearchPolicy& p) { p.source = CudaSource::ptx; },
      [](SearchPolicy& p) { p.proxy_source = CudaSource::ptx; },
      [](SearchPolicy& p) { p.unit_nonzeros = 100; }};
  return k_changes;
}

std::string policy_key_of(const SearchPolicy& policy) {
  spjit::KeyBuilder key;
  add_to_key(policy, key);
  return key.hex();
}

TEST(SearchPolicyJson, HasAMemberForEachOfThePolicys) {
  const json before = to_json(whole_policy());
  EXPECT_EQ(before.size(), changes().size());
  for (const auto& change : changes()) {
    SearchPolicy policy = whole_policy();
    change(policy);
    const json after = to_json(policy);

    int changed = 0;
    for (const auto& [name, value] : after.items()) changed += before.at(name) != value ? 1 : 0;
    EXPECT_EQ(changed, 1) << after.dump();
  }
}

TEST(SearchPolicyKey, DiffersForEachMemberButTheNameOfAModel) {
  std::set<std::string> keys = {policy_key_of(whole_policy())};
  for (const auto& change : changes()) {
    SearchPolicy policy = whole_policy();
    change(policy);
    keys.insert(policy_key_of(policy));
  }

  EXPECT_EQ(keys.size(), changes().size());
  SearchPolicy other_model = whole_policy();
  other_model.rank_model = "prior";
  EXPECT_EQ(policy_key_of(other_model), policy_key_of(whole_policy()));
}

TEST(SearchPolicyKey, InInstantModeHoldsNothingThatIsOnlyTimedBy) {
  SearchPolicy instant = whole_policy();
  instant.search = SearchMode::instant;
  SearchPolicy other = instant;
  other.top_k = 3;
  other.search_budget_ms = 5;
  other.proxy_source = CudaSource::ptx;
  SearchPolicy of_another_tile = instant;
  of_another_tile.m1 = 15;

  EXPECT_EQ(policy_key_of(other), policy_key_of(instant));
  EXPECT_NE(policy_key_of(of_another_tile), policy_key_of(instant));
}

}  // namespace
