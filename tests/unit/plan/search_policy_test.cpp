#include "plan/search_policy.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "spjit/error.hpp"

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
  policy.family = "csr";
  policy.hot = true;
  policy.network_nnz = 12;
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
      [](SearchPolicy& p) { p.family = "compact"; },
      [](SearchPolicy& p) { p.hot = false; },
      [](SearchPolicy& p) { p.network_nnz = 13; },
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

std::string policy_refusal(const json& object) {
  try {
    static_cast<void>(spjit::read_search_policy(object));
  } catch (const spjit::Error& error) {
    return error.what();
  }
  return "";
}

TEST(SearchPolicyJson, IsReadAsItWasWritten) {
  for (const SearchPolicy& policy : {SearchPolicy{}, whole_policy()}) {
    const std::string text = to_json(policy).dump();

    const SearchPolicy read = spjit::read_search_policy(json::parse(text));

    EXPECT_EQ(read.search, policy.search);
    EXPECT_EQ(read.search_budget_ms, policy.search_budget_ms);
    EXPECT_EQ(read.top_k, policy.top_k);
    EXPECT_EQ(read.rank_model, policy.rank_model);
    EXPECT_EQ(read.reorder, policy.reorder);
    EXPECT_EQ(read.family, policy.family);
    EXPECT_EQ(read.hot, policy.hot);
    EXPECT_EQ(read.network_nnz, policy.network_nnz);
    EXPECT_EQ(read.code_budget_bytes, policy.code_budget_bytes);
    EXPECT_EQ(read.m1, policy.m1);
    EXPECT_EQ(read.n1, policy.n1);
    EXPECT_EQ(read.source, policy.source);
    EXPECT_EQ(read.proxy_source, policy.proxy_source);
    EXPECT_EQ(read.unit_nonzeros, policy.unit_nonzeros);
    EXPECT_EQ(to_json(read).dump(), text);
  }
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

TEST(SearchPolicyJson, EveryMemberMustBeThere) {
  const json good = to_json(whole_policy());
  for (const auto& [name, value] : good.items()) {
    json object = good;
    object.erase(name);

    EXPECT_EQ(policy_refusal(object), "a search policy has no \"" + name + "\"");
  }
}

TEST(SearchPolicyJson, EveryMemberHasItsKind) {
  const json good = to_json(whole_policy());
  for (const auto& [name, value] : good.items()) {
    for (const json& wrong : {json(name == "hot" ? json("yes") : json(true)), json::array(),
                              json::object(), json(-1)}) {
      json object = good;
      object[name] = wrong;

      EXPECT_NE(
          policy_refusal(object).find(name == "m1" || name == "n1" ? name : "\"" + name + "\""),
          std::string::npos)
          << policy_refusal(object);
    }
  }
}

TEST(SearchPolicyJson, ValuesThatThereAreNotAreRefused) {
  const auto with = [](const char* name, const json& value) {
    json object = to_json(whole_policy());
    object[name] = value;
    return policy_refusal(object);
  };

  EXPECT_NE(with("search", "oracle"), "");
  EXPECT_NE(with("reorder", "random"), "");
  EXPECT_NE(with("source", "hip"), "");
  EXPECT_NE(with("proxy_source", ""), "");
  EXPECT_NE(with("top_k", 0), "");
  EXPECT_NE(with("top_k", std::int64_t{1} << 31), "");
  EXPECT_NE(with("top_k", 1.5), "");
  EXPECT_NE(with("search_budget_ms", 1e10), "");
  EXPECT_NE(with("unit_nonzeros", 0), "");
  EXPECT_NE(with("m1", 0), "");
  EXPECT_EQ(with("m1", nullptr), "");
}

TEST(SearchPolicyJson, UnknownMembersAndOtherJsonAreRefused) {
  json object = to_json(whole_policy());
  object["depth"] = 3;

  EXPECT_EQ(policy_refusal(object), "a search policy has 15 members; this spjit knows 14");
  EXPECT_EQ(policy_refusal(json::array()), "a search policy is []; expected an object");
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
