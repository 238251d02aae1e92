#include "bench/gpu_constants/constants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "spjit/error.hpp"

namespace spjit::bench {
namespace {

constexpr const char* k_cycles = "cycles";
constexpr const char* k_bytes_a_cycle = "bytes a cycle";

/// What of a launch's blocks counts.
enum class Of : std::uint8_t { median, slowest };

/// A constant out of launches: of each the median or slowest block, given to `value_of`.
struct Recipe {
  const char* name;
  const char* unit;
  std::string source;
  std::function<LaunchCycles(MicroDevice&)> run;
  std::function<double(double cycles)> value_of;
  Of of = Of::median;
};

Constant make_constant(MicroDevice& device, const Recipe& recipe, bool rehearse) {
  Constant constant{recipe.name, {}, recipe.unit, recipe.source, 0, 0, {}};
  try {
    std::vector<double> values;
    for (const std::vector<double>& blocks : recipe.run(device)) {
      values.push_back(recipe.value_of(
          recipe.of == Of::median ? median_of(blocks) : *std::ranges::max_element(blocks)));
    }
    if (rehearse) return constant;
    constant.value = median_of(values);
    const auto [low, high] = std::ranges::minmax(values);
    constant.low = low;
    constant.high = high;
  } catch (const Error& error) {
    constant.failure = error.what();
  }
  return constant;
}

Recipe interval(const char* name, const char* kernel, const char* what,
                const ConstantSizes& sizes) {
  constexpr double k_warps_a_partition = static_cast<double>(k_arithmetic_warps) / k_partitions;
  return {name, k_cycles,
          fmt::format("{} of a warp on a partition: 4 warps a partition, 8 chains a thread", what),
          [kernel](MicroDevice& device) { return device.arithmetic(kernel, k_arithmetic_warps); },
          [rounds = sizes.rounds](double cycles) {
            return cycles / (k_warps_a_partition * rounds * k_arithmetic_unroll);
          }};
}

std::vector<Recipe> arithmetic_recipes(const ConstantSizes& sizes) {
  std::vector<Recipe> recipes = {
      interval("fp32_interval", "fp32", "FFMA", sizes),
      interval("integer_interval", "integer", "LOP3", sizes),
      interval("issue_interval", "mixed", "an FFMA or a LOP3, in turn,", sizes),
      {"fp32_latency", k_cycles, "FFMA that waits for the one before: one warp, one chain",
       [](MicroDevice& device) { return device.arithmetic("fp32_chain", 1); },
       [rounds = sizes.rounds](double cycles) { return cycles / (rounds * k_arithmetic_unroll); }}};
  return recipes;
}

std::vector<Recipe> latency_recipes(const ConstantSizes& sizes) {
  const auto recipe = [&](const char* name, std::int64_t bytes, const char* where) {
    return Recipe{name, k_cycles,
                  fmt::format("load that waits for the one before: one thread, {} KiB in lines of "
                              "128 bytes in a drawn order, {}",
                              bytes >> 10, where),
                  [bytes](MicroDevice& device) { return device.chase(bytes); },
                  [rounds = sizes.chase_rounds](double cycles) {
                    return cycles / (rounds * k_chase_unroll);
                  }};
  };
  return {
      recipe("l1_latency", sizes.l1_bytes, "in L1"),
      recipe("l2_latency", sizes.l2_bytes, "in L2, not in L1"),
      recipe("dram_latency", sizes.dram_bytes,
             "four times L2, which other data has passed through; misses of the TLB are in it")};
}

Recipe reading(const char* name, unsigned blocks, const Reading& what, const std::string& source) {
  return {name, k_bytes_a_cycle, source,
          [blocks, what](MicroDevice& device) { return device.read(blocks, what); },
          [what](double cycles) {
            return static_cast<double>(what.count) * k_vector_bytes * what.passes / cycles;
          }};
}

std::vector<Recipe> bandwidth_recipes(const ConstantSizes& sizes) {
  const unsigned l1 = stream_count(sizes.l1_bytes);
  const unsigned l2 = stream_count(sizes.l2_bytes);
  const unsigned dram = stream_count(sizes.dram_bytes / sizes.blocks);
  const std::string all = "an SM's share, a block of 512 threads on each, loads of 16 bytes";
  std::vector<Recipe> recipes = {
      reading("l1_bytes_a_cycle", sizes.blocks, {l1, 0, l1, sizes.stream_passes},
              fmt::format("{}: {} KiB in L1", all, l1 * k_vector_bytes >> 10)),
      reading("l2_bytes_a_cycle", sizes.blocks, {0, l2 / sizes.blocks, l2, 1},
              fmt::format("{}: the same {} KiB in L2", all, l2 * k_vector_bytes >> 10)),
      reading("l2_port_bytes_a_cycle", 1, {0, 0, l2, 1},
              fmt::format("one SM alone, 512 threads, loads of 16 bytes: {} KiB in L2",
                          l2 * k_vector_bytes >> 10)),
      reading("dram_bytes_a_cycle", sizes.blocks, {dram, 0, dram, 1},
              fmt::format("{}: {} MiB of DRAM, the slowest SM", all,
                          dram * k_vector_bytes * sizes.blocks >> 20))};
  recipes.back().of = Of::slowest;
  return recipes;
}

/// Cycles an instruction of a warp takes in the straight line `line`, on so many SMs; 0: on all.
FetchPoint fetch_point(MicroDevice& device, unsigned warps, std::size_t line, unsigned sms) {
  const std::int64_t bytes = device.sizes().code_bytes[line];
  std::vector<double> cycles;
  for (const auto& blocks : device.arithmetic("straight", warps, line + 1, sms)) {
    cycles.push_back(median_of(blocks));
  }
  const std::int64_t straight = bytes / k_instruction_bytes;
  const double instructions = static_cast<double>(straight) * device.straight_rounds(line + 1);
  return {bytes, median_of(cycles) / instructions};
}

/// Of each straight line, on all SMs.
std::vector<FetchPoint> fetch_curve(MicroDevice& device, unsigned warps) {
  std::vector<FetchPoint> curve;
  curve.reserve(device.sizes().code_bytes.size());
  for (std::size_t i = 0; i < device.sizes().code_bytes.size(); ++i) {
    curve.push_back(fetch_point(device, warps, i, 0));
  }
  return curve;
}

/// Of 4 to 128 MiB of code, where L2 holds 50: copies of the longest line in turn.
std::vector<FetchPoint> fetch_in_turn(MicroDevice& device, bool rehearse) {
  constexpr std::size_t k_copies[] = {1, 2, 4, 8, 12, 16, 24, 32};
  const std::int64_t bytes = device.sizes().code_bytes.back();
  const std::int64_t instructions = bytes / k_instruction_bytes;
  std::vector<FetchPoint> points;
  for (const std::size_t copies : k_copies) {
    if (rehearse && copies > 2) break;
    std::vector<double> cycles;
    for (const auto& blocks : device.in_turn(copies)) cycles.push_back(median_of(blocks));
    points.push_back({static_cast<std::int64_t>(copies) * bytes,
                      median_of(cycles) / static_cast<double>(instructions)});
  }
  return points;
}

Constant known(const char* name, const char* unit, std::string source, std::optional<double> value,
               bool rehearse) {
  Constant constant{name, {}, unit, std::move(source), 0, 0, {}};
  if (rehearse) return constant;
  if (!value) {
    constant.source += "; the curve has no such step";
    return constant;
  }
  constant.value = value;
  constant.low = constant.high = *value;
  return constant;
}

/// What of the curves is a constant.
std::vector<Constant> fetch_constants(const ConstantsResult& result, bool rehearse) {
  const FetchKnees knees = knees_of(result.one_warp);
  const auto size = [](const std::optional<std::int64_t>& bytes) {
    return bytes ? std::optional<double>(static_cast<double>(*bytes)) : std::nullopt;
  };
  const auto rate = [](const FetchPoint& point) {
    return static_cast<double>(k_instruction_bytes) / point.cycles;
  };
  std::optional<double> second_rate;
  for (const FetchPoint& point : result.one_warp) {
    const bool is_second = knees.second_bytes && point.code_bytes == *knees.second_bytes;
    if (is_second) second_rate = rate(point);
  }
  std::optional<double> last_rate;
  if (knees.first_bytes) last_rate = rate(result.four_warps.back());
  std::optional<double> port_rate;
  if (result.one_sm.cycles > 0) port_rate = rate(result.one_sm);
  const char* const curve = "straight lines of FFMAs over their size (fetch_curve)";
  return {known("l0_code_bytes", "bytes", fmt::format("{}: up to 5 % over the shortest", curve),
                size(knees.first_bytes), rehearse),
          known("l1_code_bytes", "bytes", fmt::format("{}: half way to the longest", curve),
                size(knees.second_bytes), rehearse),
          known("l1_code_bytes_a_cycle", k_bytes_a_cycle,
                "one warp in the longest line that the second level holds", second_rate, rehearse),
          known("l2_code_bytes_a_cycle", k_bytes_a_cycle,
                "an SM's share: one warp a partition in the longest line, all SMs", last_rate,
                rehearse),
          known("l2_code_port_bytes_a_cycle", k_bytes_a_cycle,
                "one SM alone: one warp a partition in the longest line", port_rate, rehearse)};
}

Constant boost_mhz(MicroDevice& device, bool rehearse) {
  Constant constant{
      "boost_mhz",
      {},
      "MHz",
      "an SM's cycles over the time of a launch of FFMAs of some milliseconds, between "
      "events; the clock under that load, which the card may lower",
      0,
      0,
      {}};
  try {
    const double mhz = device.cycles_a_microsecond();
    if (!rehearse) constant.value = constant.low = constant.high = mhz;
  } catch (const Error& error) {
    constant.failure = error.what();
  }
  return constant;
}

}  // namespace

ConstantsResult measure_constants(const CudaContext& context,
                                  const std::vector<std::string>& cubins,
                                  const ConstantSizes& sizes, bool rehearse) {
  MicroDevice device(context, cubins, sizes);
  ConstantsResult result;
  for (const auto& recipes :
       {arithmetic_recipes(sizes), latency_recipes(sizes), bandwidth_recipes(sizes)}) {
    for (const Recipe& recipe : recipes) {
      result.constants.push_back(make_constant(device, recipe, rehearse));
    }
  }
  try {
    result.one_warp = fetch_curve(device, 1);
    result.four_warps = fetch_curve(device, k_partitions);
    result.one_sm = fetch_point(device, k_partitions, device.sizes().code_bytes.size() - 1, 1);
    result.in_turn = fetch_in_turn(device, rehearse);
    for (Constant& constant : fetch_constants(result, rehearse)) {
      result.constants.push_back(std::move(constant));
    }
  } catch (const Error& error) {
    result.constants.push_back({"l1_code_bytes", {}, "bytes", "", 0, 0, error.what()});
  }
  result.constants.push_back(boost_mhz(device, rehearse));
  if (rehearse) {
    for (auto* curve : {&result.one_warp, &result.four_warps, &result.in_turn}) curve->clear();
  }
  return result;
}

nlohmann::json to_json(const ConstantsResult& result) {
  nlohmann::json constants = nlohmann::json::object();
  nlohmann::json spread = nlohmann::json::object();
  for (const Constant& constant : result.constants) {
    constants[constant.name] = {
        {"value", nullptr}, {"unit", constant.unit}, {"source", constant.source}};
    if (constant.value) {
      constants[constant.name]["value"] = *constant.value;
      spread[constant.name] = {{"least", constant.low}, {"greatest", constant.high}};
    }
    if (!constant.failure.empty()) constants[constant.name]["failure"] = constant.failure;
  }
  nlohmann::json curve = nlohmann::json::array();
  for (const auto& [warps, points] :
       {std::pair{1, &result.one_warp}, std::pair{int{k_partitions}, &result.four_warps}}) {
    for (const FetchPoint& point : *points) {
      curve.push_back({{"warps", warps},
                       {"code_bytes", point.code_bytes},
                       {"cycles_an_instruction", point.cycles}});
    }
  }
  nlohmann::json in_turn = nlohmann::json::array();
  for (const FetchPoint& point : result.in_turn) {
    in_turn.push_back({{"code_bytes", point.code_bytes}, {"cycles_an_instruction", point.cycles}});
  }
  return {{"constants", std::move(constants)},
          {"spread", std::move(spread)},
          {"fetch_curve", std::move(curve)},
          {"fetch_in_turn", std::move(in_turn)}};
}

std::string constants_table(const ConstantsResult& result) {
  std::string text;
  for (const Constant& constant : result.constants) {
    text += fmt::format("{:<24} ", constant.name);
    if (constant.value) {
      text += fmt::format("{:>10.2f} {} ({:.2f} to {:.2f}): {}\n", *constant.value, constant.unit,
                          constant.low, constant.high, constant.source);
    } else {
      text += constant.failure.empty() ? fmt::format("no value: {}\n", constant.source)
                                       : fmt::format("FAILED: {}\n", constant.failure);
    }
  }
  return text;
}

}  // namespace spjit::bench
