#include "clock/clock_constants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/embedded_file.hpp"
#include "base/json_text.hpp"
#include "spjit/error.hpp"

namespace spjit {

/// The files of devices/; a generated source defines it.
extern const std::span<const EmbeddedFile> k_clock_devices;

namespace {

using nlohmann::json;

struct Named {
  const char* name;
  double ClockConstants::*member;
};

constexpr Named k_named[] = {
    {"fp32_interval", &ClockConstants::fp32_interval},
    {"integer_interval", &ClockConstants::integer_interval},
    {"half_interval", &ClockConstants::half_interval},
    {"special_interval", &ClockConstants::special_interval},
    {"uniform_interval", &ClockConstants::uniform_interval},
    {"memory_interval", &ClockConstants::memory_interval},
    {"special_latency", &ClockConstants::special_latency},
    {"constant_latency", &ClockConstants::constant_latency},
    {"shared_latency", &ClockConstants::shared_latency},
    {"l1_latency", &ClockConstants::l1_latency},
    {"l2_latency", &ClockConstants::l2_latency},
    {"dram_latency", &ClockConstants::dram_latency},
    {"operands_latency", &ClockConstants::operands_latency},
    {"barrier_latency", &ClockConstants::barrier_latency},
    {"l1_bytes_a_cycle", &ClockConstants::l1_bytes_a_cycle},
    {"unified_kib", &ClockConstants::unified_kib},
    {"most_l1_kib", &ClockConstants::most_l1_kib},
    {"l1_sets", &ClockConstants::l1_sets},
    {"misses_in_flight", &ClockConstants::misses_in_flight},
    {"l2_bytes_a_cycle", &ClockConstants::l2_bytes_a_cycle},
    {"l2_port_bytes_a_cycle", &ClockConstants::l2_port_bytes_a_cycle},
    {"request_bytes_a_cycle", &ClockConstants::request_bytes_a_cycle},
    {"dram_bytes_a_cycle", &ClockConstants::dram_bytes_a_cycle},
    {"l0_code_bytes", &ClockConstants::l0_code_bytes},
    {"l1_code_bytes", &ClockConstants::l1_code_bytes},
    {"l1_code_latency", &ClockConstants::l1_code_latency},
    {"l2_code_latency", &ClockConstants::l2_code_latency},
    {"l1_code_bytes_a_cycle", &ClockConstants::l1_code_bytes_a_cycle},
    {"l2_code_bytes_a_cycle", &ClockConstants::l2_code_bytes_a_cycle},
    {"prefetched_lines", &ClockConstants::prefetched_lines},
    {"launch_cycles", &ClockConstants::launch_cycles},
    {"block_cycles", &ClockConstants::block_cycles},
    {"boost_mhz", &ClockConstants::boost_mhz},
};

constexpr double k_least = 1e-3;
constexpr double k_most = 1e9;

/// Unit and source have to be there, and say something.
void check_source(JsonMembers& members, std::string_view name) {
  for (const char* said : {"unit", "source"}) {
    if (members.text(said).empty()) {
      throw Error(
          fmt::format("{}: the {} is empty; every constant says its unit and source", name, said));
    }
  }
}

double read_constant(const json& object, const char* name) {
  JsonMembers members(object, name);
  const double value = members.number("value", k_least, k_most);
  check_source(members, name);
  members.finish();
  return value;
}

std::vector<double> read_list(const json& object, const char* name) {
  JsonMembers members(object, name);
  const json& values = members.at("value");
  std::vector<double> list;
  for (const json& value : values) {
    if (!value.is_number() || value.get<double>() < 0) {
      throw Error(fmt::format("{}: {} is no size", name, quoted_json(value)));
    }
    list.push_back(value.get<double>());
  }
  if (!values.is_array() || list.empty() || !std::ranges::is_sorted(list)) {
    throw Error(fmt::format("{}: {}; expected ascending sizes", name, quoted_json(values)));
  }
  check_source(members, name);
  members.finish();
  return list;
}

/// One of two rules, by the names of its enumerators in their order.
template <typename Rule>
Rule read_rule(const json& object, const char* name, std::array<std::string_view, 2> rules) {
  JsonMembers members(object, name);
  const std::string value = members.text("value");
  check_source(members, name);
  members.finish();
  const auto found = std::ranges::find(rules, value);
  if (found != rules.end()) return static_cast<Rule>(found - rules.begin());
  throw Error(
      fmt::format("{}: \"{}\"; expected \"{}\" or \"{}\"", name, value, rules[0], rules[1]));
}

/// Of every file of devices/, by architecture.
const std::vector<ClockConstants>& shipped_constants() {
  static const std::vector<ClockConstants> k_shipped = [] {
    std::vector<ClockConstants> shipped;
    for (const EmbeddedFile& file : k_clock_devices) {
      shipped.push_back(read_clock_constants(
          {reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()}));
    }
    std::ranges::sort(shipped, {}, &ClockConstants::arch);
    return shipped;
  }();
  return k_shipped;
}

}  // namespace

double ClockConstants::mhz_of(std::string_view card) const noexcept {
  const auto found = std::ranges::find(card_mhz, card, &std::pair<std::string, double>::first);
  return found == card_mhz.end() ? boost_mhz : found->second;
}

ClockConstants read_clock_constants(std::string_view text) {
  if (const auto twice = find_repeated_member(text)) {
    throw Error(fmt::format("clock constants: {} stands there twice", *twice));
  }
  const json document = parse_json(text);
  JsonMembers members(document, "clock constants");
  constexpr std::int64_t first_arch = 75;
  constexpr std::int64_t last_arch = 90;
  ClockConstants constants;
  constants.arch = static_cast<int>(members.integer("arch", first_arch, last_arch));
  constants.compared_with = members.text("compared_with");
  constants.warp_order =
      read_rule<WarpOrder>(members.at("warp_order"), "warp_order", {"greedy", "in turn"});
  constants.block_order =
      read_rule<BlockOrder>(members.at("block_order"), "block_order", {"same", "moved"});
  for (const Named& named : k_named) {
    constants.*named.member = read_constant(members.at(named.name), named.name);
  }
  constants.shared_carveouts_kib =
      read_list(members.at("shared_carveouts_kib"), "shared_carveouts_kib");
  const json& cards = members.at("card_mhz");
  if (!cards.is_object()) throw Error("card_mhz: expected an object of cards");
  for (const auto& [card, value] : cards.items()) {
    constants.card_mhz.emplace_back(card, read_constant(value, card.c_str()));
  }
  members.finish();
  return constants;
}

std::optional<ClockConstants> clock_constants(std::int64_t arch) {
  const std::vector<ClockConstants>& shipped = shipped_constants();
  const auto found = std::ranges::find(shipped, arch, &ClockConstants::arch);
  if (found == shipped.end()) return std::nullopt;
  return *found;
}

ClockConstants required_clock_constants(std::int64_t arch) {
  if (const auto constants = clock_constants(arch)) return *constants;
  throw NotSupported(fmt::format("the clock has no constants of sm_{}", arch));
}

const ClockConstants& nearest_clock_constants(std::int64_t arch) {
  static const std::vector<ClockConstants> k_known = [] {
    std::vector<ClockConstants> known = shipped_constants();
    const auto a100 = std::ranges::find(known, 80, &ClockConstants::arch);
    ClockConstants more_lanes = *a100;
    more_lanes.arch = 86;
    more_lanes.compared_with = "nothing";
    more_lanes.fp32_interval /= 2;
    known.insert(a100 + 1, std::move(more_lanes));
    return known;
  }();
  const auto newer = std::ranges::upper_bound(k_known, arch, {}, &ClockConstants::arch);
  return newer == k_known.begin() ? k_known.front() : *std::prev(newer);
}

}  // namespace spjit
