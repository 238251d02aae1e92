#include "plan/search_policy.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "spjit/error.hpp"

namespace {

using nlohmann::json;
using spjit::NamedOption;
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
  policy.values = {{"rows", "14"}, {"text", "second"}, {"proxy_text", "second"}};
  return policy;
}

constexpr std::array<std::string_view, 2> k_texts = {"first", "second"};
constexpr NamedOption k_rows = {.name = "rows", .least = 2, .most = 128, .step = 2};
constexpr NamedOption k_many = {.name = "many", .fallback = "7", .least = 1, .most = 9};
constexpr NamedOption k_text = {.name = "text", .fallback = "first", .texts = k_texts};
constexpr NamedOption k_proxy_text = {
    .name = "proxy_text", .fallback = "first", .texts = k_texts, .is_of_search = true};
constexpr std::array<const NamedOption*, 4> k_options = {&k_rows, &k_many, &k_text, &k_proxy_text};

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
      [](SearchPolicy& p) { p.values["rows"] = "15"; }};
  return k_changes;
}

std::string policy_key_of(const SearchPolicy& policy) {
  spjit::KeyBuilder key;
  add_to_key(policy, k_options, key);
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
    EXPECT_EQ(read.values, policy.values);
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
      if (name == "values" && wrong.is_object()) continue;  // none are given
      json object = good;
      object[name] = wrong;

      EXPECT_NE(policy_refusal(object).find("\"" + name + "\""), std::string::npos)
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
  EXPECT_NE(with("top_k", 0), "");
  EXPECT_NE(with("top_k", std::int64_t{1} << 31), "");
  EXPECT_NE(with("top_k", 1.5), "");
  EXPECT_NE(with("search_budget_ms", 1e10), "");
  EXPECT_NE(with("values", {{"rows", 14}}), "");
  EXPECT_EQ(with("values", json::object()), "");
}

TEST(SearchPolicyJson, UnknownMembersAndOtherJsonAreRefused) {
  json object = to_json(whole_policy());
  object["depth"] = 3;

  EXPECT_EQ(policy_refusal(object), "a search policy has 11 members; this spjit knows 10");
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
  other.values["proxy_text"] = "first";
  SearchPolicy of_another_tile = instant;
  of_another_tile.values["rows"] = "16";

  EXPECT_EQ(policy_key_of(other), policy_key_of(instant));
  EXPECT_NE(policy_key_of(of_another_tile), policy_key_of(instant));
}

TEST(NamedOptions, KeysHaveTheirValuesOrTheFallbacks) {
  SearchPolicy same = whole_policy();
  same.values["many"] = "7";
  SearchPolicy spelled = whole_policy();
  spelled.values["rows"] = "014";
  SearchPolicy other = whole_policy();
  other.values["many"] = "8";

  EXPECT_EQ(policy_key_of(same), policy_key_of(whole_policy()));
  EXPECT_EQ(policy_key_of(spelled), policy_key_of(whole_policy()));
  EXPECT_NE(policy_key_of(other), policy_key_of(whole_policy()));
  EXPECT_EQ(spjit::integer_of(SearchPolicy{}, k_rows), std::nullopt);
  EXPECT_EQ(spjit::integer_of(SearchPolicy{}, k_many), 7);
  EXPECT_EQ(spjit::text_of(SearchPolicy{}, k_text), "first");
}

TEST(NamedOptions, AreCheckedEach) {
  const auto refusal_of = [](const spjit::NamedValues& values) -> std::string {
    try {
      spjit::check_values(values, k_options);
    } catch (const spjit::InvalidArgument& error) {
      return error.what();
    }
    return "";
  };

  EXPECT_EQ(refusal_of(whole_policy().values), "");
  EXPECT_EQ(refusal_of({{"rows", "130"}}), "rows is 130; expected 2 to 128");
  EXPECT_EQ(refusal_of({{"rows", "1"}}), "rows is 1; expected 2 to 128");
  EXPECT_EQ(refusal_of({{"rows", "5"}}), "rows is 5; expected a multiple of 2");
  EXPECT_EQ(refusal_of({{"rows", "4 or so"}}), "rows is 4 or so; expected 2 to 128");
  EXPECT_EQ(refusal_of({{"rows", ""}}), "rows is ; expected 2 to 128");
  EXPECT_EQ(refusal_of({{"text", "third"}}), "text is \"third\"; expected first or second");
  EXPECT_EQ(refusal_of({{"depth", "4"}}),
            "no family of kernels has an option \"depth\"; expected rows, many, text, proxy_text");
}

}  // namespace
