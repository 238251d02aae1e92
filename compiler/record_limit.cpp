#include "compiler/record_limit.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace spjit {
namespace {

using nlohmann::json;

constexpr std::size_t k_most_reason_bytes = 600;   // of what was taken, a line
constexpr std::size_t k_most_verdict_bytes = 300;  // of each of up to seven families
constexpr std::size_t k_most_failure_bytes = 200;  // of each candidate

std::size_t bytes_of(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace).size();
}

/// Ends a member that is a longer text in dots, between two characters of UTF-8.
void shorten(json& object, const char* member, std::size_t most) {
  const auto found = object.find(member);
  if (found == object.end() || !found->is_string()) return;
  auto& text = found->get_ref<std::string&>();
  if (text.size() <= most) return;
  constexpr std::size_t k_dots = 3;
  std::size_t end = most - k_dots;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80) --end;
  text.resize(end);
  text += "...";
}

void shorten_entry(json& entry) {
  shorten(entry, "note", k_most_failure_bytes);
  for (const char* timed : {"proxy", "full", "modelled"}) {
    if (entry.contains(timed)) shorten(entry[timed], "failure", k_most_failure_bytes);
  }
}

/// The lower the sooner an entry has to stay.
std::tuple<int, std::size_t> rank_of(const json& entry, std::size_t rank, const json& chosen) {
  if (entry.at("tile") == chosen) return {0, rank};
  if (entry.contains("full") || entry.contains("modelled")) return {1, rank};
  return {entry.contains("proxy") ? 2 : 3, rank};
}

/// Leaves out entries until the rest has at most `most` bytes, commas included.
void limit_entries(json& search, std::size_t most) {
  json& entries = search["entries"];
  const json chosen = search.value("chosen", json());
  std::vector<std::tuple<int, std::size_t>> order;
  order.reserve(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) order.push_back(rank_of(entries[i], i, chosen));
  std::ranges::sort(order);
  std::vector<bool> stays(entries.size(), false);
  for (const auto& [kind, i] : order) {
    const std::size_t bytes = bytes_of(entries[i]) + 1;
    if (bytes > most) break;
    most -= bytes;
    stays[i] = true;
  }
  json kept = json::array();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (stays[i]) kept.push_back(std::move(entries[i]));
  }
  search["entries_left_out"] = stays.size() - kept.size();
  entries = std::move(kept);
}

}  // namespace

json limited_record(json record) {
  shorten(record, "note", k_most_reason_bytes);
  for (json& verdict : record["verdicts"]) {
    const bool is_last = &verdict == &record["verdicts"].back();
    shorten(verdict, "reason", is_last ? k_most_reason_bytes : k_most_verdict_bytes);
  }
  json& search = record["search"];
  shorten(search, "reason", k_most_reason_bytes);
  if (!search.contains("entries")) return record;
  for (json& entry : search["entries"]) shorten_entry(entry);
  const std::size_t bytes = bytes_of(record);
  constexpr std::size_t k_most = k_most_record_bytes - k_verification_bytes;
  if (bytes <= k_most) return record;
  constexpr std::size_t k_left_out_bytes = 64;  // the member that says so
  const std::size_t others = bytes - bytes_of(search["entries"]) + k_left_out_bytes;
  limit_entries(search, others < k_most ? k_most - others : 0);
  return record;
}

}  // namespace spjit
