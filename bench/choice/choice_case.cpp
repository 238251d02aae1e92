#include "bench/choice/choice_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "artifact/families.hpp"
#include "base/arithmetic.hpp"
#include "matrix/random.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "spjit/generate.hpp"

namespace spjit::bench {
namespace {

using nlohmann::json;

constexpr std::array<std::int64_t, 13> k_sides = {16,   64,   128,  256,  384,  512,  768,
                                                  1024, 1536, 2048, 4096, 8192, 16384};
constexpr std::array k_sparsities = {0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99};
constexpr std::array<std::int64_t, 12> k_columns = {1,  2,   4,   8,   16,   32,
                                                    64, 128, 256, 512, 1024, 4096};
constexpr double k_most_nonzeros = 6e6;
constexpr double k_most_products = 6e8;
constexpr double k_most_dense_floats = 6.4e7;

template <class Values>
auto draw_one(const Values& values, RandomStream& random) {
  return values[random.below(values.size())];
}

bool is_small_enough(const ChoiceCase& what) {
  const double nnz = as_double(what.rows) * as_double(what.cols) * (1 - what.sparsity);
  const double n = as_double(what.n);
  return nnz >= 1 && nnz <= k_most_nonzeros && nnz * n <= k_most_products &&
         as_double(what.rows + what.cols) * n <= k_most_dense_floats;
}

HostIsa isa_named(const std::string& name) {
  for (const HostIsa isa : {HostIsa::avx512, HostIsa::avx2, HostIsa::generic}) {
    if (name == to_string(isa)) return isa;
  }
  throw Error(fmt::format("isa is \"{}\"; expected avx512, avx2 or generic", name));
}

}  // namespace

std::string to_string(const ChoiceCase& what) {
  return fmt::format("{}x{} at {:.0f} %, n = {}, {}", what.rows, what.cols, 100 * what.sparsity,
                     what.n, what.hot ? "hot" : "cold");
}

ChoiceCase draw_case(std::uint64_t seed, std::int64_t number, bool hot) {
  constexpr std::uint64_t k_numbers_a_seed = 1'000'003;
  RandomStream random(seed * k_numbers_a_seed + static_cast<std::uint64_t>(number));
  for (;;) {
    ChoiceCase drawn;
    drawn.rows = draw_one(k_sides, random);
    drawn.cols = draw_one(k_sides, random);
    drawn.sparsity = draw_one(k_sparsities, random);
    drawn.n = draw_one(k_columns, random);
    drawn.hot = hot;
    if (is_small_enough(drawn)) return drawn;
  }
}

CsrMatrix matrix_of(const ChoiceCase& what) {
  GenerateOptions options;
  options.rows = what.rows;
  options.cols = what.cols;
  options.sparsity = what.sparsity;
  return generate_matrix(options);
}

std::string family_chosen(const ChoiceCase& what, const CsrMatrix& matrix,
                          const HostDeviceInfo& limits) {
  Problem problem;
  problem.a = matrix;
  problem.n = what.n;
  CompileOptions options;
  options.target = Target(limits.isa);
  options.policy.hot = what.hot;
  const DeviceInfo device = limits;
  const KernelFamily* family = family_by_rules({problem, options, device, {}});
  return family == nullptr ? std::string() : std::string(family->name());
}

const FamilyTime& ChoiceResult::best() const {
  return *std::ranges::min_element(times, {}, &FamilyTime::median_us);
}

double ChoiceResult::ratio() const {
  const auto found = std::ranges::find(times, chosen, &FamilyTime::family);
  if (found == times.end()) {
    throw Error(fmt::format("{}: {} was chosen and not timed", to_string(what), chosen));
  }
  return found->median_us / best().median_us;
}

std::string to_string(const ChoiceResult& result) {
  std::vector<FamilyTime> sorted = result.times;
  std::ranges::sort(sorted, {}, &FamilyTime::median_us);
  std::string times;
  for (const FamilyTime& time : sorted) {
    times += fmt::format("{}{} {:.2f} us", times.empty() ? "" : ", ", time.family, time.median_us);
  }
  return fmt::format("{}: {} {:.2f} ({})", to_string(result.what), result.chosen, result.ratio(),
                     times);
}

json to_json(const ChoiceResult& result) {
  json times = json::object();
  for (const FamilyTime& time : result.times) {
    times[time.family] = {{"median_us", time.median_us}, {"noise", time.noise}};
  }
  return {{"rows", result.what.rows},
          {"cols", result.what.cols},
          {"sparsity", result.what.sparsity},
          {"n", result.what.n},
          {"caches", result.what.hot ? "hot" : "cold"},
          {"nnz", result.nnz},
          {"chosen", result.chosen},
          {"ratio", result.ratio()},
          {"times", std::move(times)}};
}

ChoiceResult choice_result_of(const json& record) {
  try {
    ChoiceResult result;
    result.what = {record.at("rows"), record.at("cols"), record.at("sparsity"), record.at("n"),
                   record.at("caches").get<std::string>() == "hot"};
    result.nnz = record.at("nnz");
    result.chosen = record.at("chosen");
    for (const auto& [family, time] : record.at("times").items()) {
      result.times.push_back({family, time.at("median_us"), time.at("noise")});
    }
    if (result.times.empty()) throw Error("a case without times");
    return result;
  } catch (const json::exception& error) {
    throw Error(fmt::format("a case of choice_bench: {}", error.what()));
  }
}

json to_json(const HostDeviceInfo& limits) {
  return {{"isa", to_string(limits.isa)},
          {"l1i_bytes", limits.l1i_bytes},
          {"l1d_bytes", limits.l1d_bytes},
          {"l2_bytes", limits.l2_bytes},
          {"l3_bytes", limits.l3_bytes},
          {"l3_is_far", limits.l3_is_far},
          {"fmas_per_cycle", limits.fmas_per_cycle}};
}

HostDeviceInfo limits_of(const json& record) {
  try {
    HostDeviceInfo limits;
    limits.isa = isa_named(record.at("isa"));
    limits.lanes = lanes_of(limits.isa);
    limits.registers = registers_of(limits.isa);
    limits.l1i_bytes = record.at("l1i_bytes");
    limits.l1d_bytes = record.at("l1d_bytes");
    limits.l2_bytes = record.at("l2_bytes");
    limits.l3_bytes = record.at("l3_bytes");
    limits.l3_is_far = record.at("l3_is_far");
    limits.fmas_per_cycle = record.at("fmas_per_cycle");
    return limits;
  } catch (const json::exception& error) {
    throw Error(fmt::format("the limits of a host: {}", error.what()));
  }
}

}  // namespace spjit::bench
