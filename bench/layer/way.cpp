#include "bench/layer/way.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "spjit/error.hpp"

namespace spjit::bench {
namespace {

/// All but `layout`, which is itself about layouts.
std::vector<Comparison> in_layout(Layout layout, const std::string& suffix) {
  std::vector<Way> runtime_n = {{"fixed n", layout}};
  for (const std::int64_t typical : {16, 128, 512}) {
    runtime_n.push_back({fmt::format("any n, made for {}", typical), layout, typical});
  }
  return {{"runtime-n" + suffix,
           std::move(runtime_n),
           {1, 2, 3, 5, 8, 13, 16, 31, 64, 100, 128, 250, 512, 777, 1024, 2049, 4096}},
          {"epilogue" + suffix,
           {{"product", layout},
            {"fused", layout, {}, 1, Finishing::fused},
            {"apart", layout, {}, 1, Finishing::apart}},
           {1, 16, 64, 128, 512, 1024}},
          {"batch" + suffix, {{"1024 tokens", layout}, {"8 x 128", layout, {}, 8}}, {1024}},
          {"values" + suffix,
           {{"own values", layout}, {"buffer", layout, {}, 1, Finishing::none, true}},
           {1, 16, 64, 128, 512, 1024}}};
}

std::vector<Comparison> all_comparisons() {
  std::vector<Comparison> all = {
      {"layout",
       {{"features", Layout::row_major}, {"tokens", Layout::tokens_major}},
       {16, 32, 64, 128, 256, 512, 1024}}};
  for (auto& comparison : in_layout(Layout::row_major, "")) all.push_back(std::move(comparison));
  for (auto& comparison : in_layout(Layout::tokens_major, "-tokens")) {
    all.push_back(std::move(comparison));
  }
  return all;
}

}  // namespace

std::vector<Comparison> list_comparisons(const std::vector<std::string>& names) {
  std::vector<Comparison> all = all_comparisons();
  if (names.empty()) return all;
  std::vector<std::string> known;
  known.reserve(all.size());
  for (const Comparison& comparison : all) known.push_back(comparison.name);
  for (const std::string& name : names) {
    if (std::ranges::count(known, name) > 0) continue;
    throw InvalidArgument(
        fmt::format("no comparison is called '{}'; expected {}", name, fmt::join(known, ", ")));
  }
  std::erase_if(all, [&](const Comparison& comparison) {
    return std::ranges::count(names, comparison.name) == 0;
  });
  return all;
}

}  // namespace spjit::bench
