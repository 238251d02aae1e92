#include "plan/search_policy.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json_text.hpp"
#include "base/number_text.hpp"
#include "base/printable.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using nlohmann::json;

constexpr std::int64_t k_most = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t k_chosen = -1;

void check_value(const NamedOption& option, const std::string& value) {
  if (!option.texts.empty()) {
    if (std::ranges::find(option.texts, value) != option.texts.end()) return;
    throw InvalidArgument(fmt::format("{} is \"{}\"; expected {}", option.name, printable(value),
                                      fmt::join(option.texts, " or ")));
  }
  const std::optional<std::int64_t> number = read_number<std::int64_t>(value);
  if (!number || *number < option.least || *number > option.most) {
    throw InvalidArgument(fmt::format("{} is {}; expected {} to {}", option.name, printable(value),
                                      option.least, option.most));
  }
  if (*number % option.step != 0) {
    throw InvalidArgument(
        fmt::format("{} is {}; expected a multiple of {}", option.name, *number, option.step));
  }
}

void add_value(const SearchPolicy& policy, const NamedOption& option, KeyBuilder& key) {
  if (option.texts.empty()) {
    key.field(option.name, integer_of(policy, option).value_or(k_chosen));
  } else {
    key.field(option.name, text_of(policy, option));
  }
}

}  // namespace

void check_values(const NamedValues& values, std::span<const NamedOption* const> known) {
  for (const auto& [name, value] : values) {
    const auto option = std::ranges::find(known, name, &NamedOption::name);
    if (option == known.end()) {
      std::vector<std::string_view> names;
      for (const NamedOption* each : known) names.push_back(each->name);
      throw InvalidArgument(fmt::format("no family of kernels has an option \"{}\"; expected {}",
                                        printable(name), fmt::join(names, ", ")));
    }
    check_value(**option, value);
  }
}

std::string_view text_of(const SearchPolicy& policy, const NamedOption& option) {
  const auto found = policy.values.find(option.name);
  return found == policy.values.end() ? option.fallback : std::string_view(found->second);
}

std::optional<std::int64_t> integer_of(const SearchPolicy& policy, const NamedOption& option) {
  return read_number<std::int64_t>(text_of(policy, option));
}

void add_to_key(const SearchPolicy& policy, std::span<const NamedOption* const> options,
                KeyBuilder& key) {
  key.field("family", policy.family)
      .field("hot", std::int64_t{policy.hot})
      .field("network_nnz", policy.network_nnz)
      .field("reorder", to_string(policy.reorder))
      .field("search", to_string(policy.search))
      .field("code_budget_bytes", policy.code_budget_bytes);
  for (const NamedOption* option : options) {
    if (!option->is_of_search) add_value(policy, *option, key);
  }
  if (policy.search == SearchMode::instant) return;
  // What was measured, of how many, and how long, decided.
  key.field("top_k", policy.top_k);
  for (const NamedOption* option : options) {
    if (option->is_of_search) add_value(policy, *option, key);
  }
  key.field("search_budget_us", static_cast<std::int64_t>(policy.search_budget_ms * 1000));
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
          {"values", policy.values.empty() ? json::object() : json(policy.values)}};
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
  const json& given = members.at("values");
  JsonMembers values(given, "\"values\" of a search policy");
  for (const auto& [name, value] : given.items()) policy.values[name] = values.text(name.c_str());
  members.finish();
  return policy;
}

}  // namespace spjit
