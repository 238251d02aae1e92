#include "bench/gpu_constants/readings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <random>

#include "spjit/error.hpp"

namespace spjit::bench {
namespace {

constexpr double k_same = 1.05;
constexpr double k_step = 1.2;

}  // namespace

std::vector<double> cycles_of_blocks(std::span<const WarpClocks> clocks, std::size_t warps) {
  if (warps == 0 || clocks.empty() || clocks.size() % warps != 0) {
    throw Error(
        fmt::format("{} warps' clocks are not of whole blocks of {}", clocks.size(), warps));
  }
  std::vector<double> cycles;
  for (std::size_t block = 0; block < clocks.size(); block += warps) {
    std::uint64_t begin = clocks[block].begin;
    std::uint64_t end = clocks[block].end;
    for (const WarpClocks& warp : clocks.subspan(block, warps)) {
      if (warp.end <= warp.begin) {
        throw Error(fmt::format("a warp's clock went from {} to {}", warp.begin, warp.end));
      }
      begin = std::min(begin, warp.begin);
      end = std::max(end, warp.end);
    }
    cycles.push_back(static_cast<double>(end - begin));
  }
  return cycles;
}

double median_of(std::vector<double> values) {
  if (values.empty()) throw Error("the median of nothing");
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

FetchKnees knees_of(std::span<const FetchPoint> curve) {
  FetchKnees knees;
  if (curve.empty()) return knees;
  std::size_t beyond = 0;  // the first that takes longer
  while (beyond < curve.size() && curve[beyond].cycles <= k_same * curve.front().cycles) ++beyond;
  if (beyond == curve.size()) return knees;
  knees.first_bytes = curve[beyond - 1].code_bytes;
  const double from = curve[beyond].cycles;
  const double to = curve.back().cycles;
  if (to < k_step * from) return knees;
  for (std::size_t i = beyond; i < curve.size(); ++i) {
    if (curve[i].cycles < (from + to) / 2) knees.second_bytes = curve[i].code_bytes;
  }
  return knees;
}

std::vector<std::uint32_t> random_cycle(std::uint32_t lines, std::uint64_t seed) {
  if (lines == 0) throw Error("a cycle through no lines");
  std::vector<std::uint32_t> next(lines);
  std::iota(next.begin(), next.end(), 0U);
  // Sattolo: a permutation of one cycle. std::shuffle draws differently from one standard library
  // to another.
  std::mt19937_64 random(seed);
  for (std::uint32_t i = lines - 1; i > 0; --i) {
    std::swap(next[i], next[random() % i]);
  }
  return next;
}

}  // namespace spjit::bench
