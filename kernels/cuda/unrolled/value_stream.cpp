#include "kernels/cuda/unrolled/value_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/arithmetic.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

struct TileEntries {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// The entries of a tile, which are one after another.
TileEntries entries_of(const KernelPlan& plan, std::int64_t tile) {
  const PlanSegment segment = plan.segment(tile, 0);
  return {plan.entry_ptrs[to_size(segment.column_begin)],
          plan.entry_ptrs[to_size(segment.column_end)]};
}

/// [rows of the grouping] Where the next entry of each is in A's CSR: columns of a tile ascend, so
/// the entries of a row follow each other.
class NextEntries {
 public:
  NextEntries(const KernelPlan& plan, CancelPace& pace)
      : plan_(plan), next_(plan.grouping.rows.size(), 0) {
    for (std::int64_t tile = 0; tile < plan.grouping.tiles(); ++tile) {
      const TileEntries entries = entries_of(plan, tile);
      pace.spend(entries.end - entries.begin + 1);
      for (std::int64_t e = entries.begin; e < entries.end; ++e) ++of(tile, e);
    }
    std::vector<std::size_t> order(next_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [&](std::size_t place) { return plan.grouping.rows[place]; });
    std::int64_t begin = 0;
    for (const std::size_t place : order) begin += std::exchange(next_[place], begin);
  }

  std::int64_t take(std::int64_t tile, std::int64_t entry) { return of(tile, entry)++; }

 private:
  std::int64_t& of(std::int64_t tile, std::int64_t entry) {
    return next_[to_size(plan_.grouping.tile_ptrs[to_size(tile)] +
                         plan_.entry_rows[to_size(entry)])];
  }

  const KernelPlan& plan_;
  std::vector<std::int64_t> next_;
};

}  // namespace

std::int64_t value_loads(std::int64_t nonzeros) { return ceil_div(nonzeros, k_values_a_load); }

std::int64_t most_value_floats(std::int64_t nnz, std::int64_t rows) {
  constexpr const char* k_what = "floats of the values";
  const std::int64_t padding = checked_multiply(std::min(rows, nnz), k_values_a_load - 1, k_what);
  return round_up(checked_add(nnz, padding, k_what), k_values_a_load);
}

std::vector<std::int64_t> value_ptrs(const KernelPlan& plan) {
  std::vector<std::int64_t> ptrs = {0};
  ptrs.reserve(to_size(plan.grouping.tiles() + 1));
  for (std::int64_t tile = 0; tile < plan.grouping.tiles(); ++tile) {
    const TileEntries entries = entries_of(plan, tile);
    ptrs.push_back(ptrs.back() + value_loads(entries.end - entries.begin) * k_values_a_load);
  }
  return ptrs;
}

std::vector<std::uint32_t> value_positions(const KernelPlan& plan, const Cancellation& cancel) {
  if (plan.nnz() >= k_no_value) {
    throw NotSupported(fmt::format("{} values at run time; a kernel of a GPU takes less than {}",
                                   plan.nnz(), k_no_value));
  }
  CancelPace pace(cancel);
  const std::vector<std::int64_t> ptrs = value_ptrs(plan);
  std::vector<std::uint32_t> positions(to_size(ptrs.back()), k_no_value);
  NextEntries next(plan, pace);
  for (std::int64_t tile = 0; tile < plan.grouping.tiles(); ++tile) {
    const TileEntries entries = entries_of(plan, tile);
    pace.spend(entries.end - entries.begin + 1);
    for (std::int64_t e = entries.begin; e < entries.end; ++e) {
      const std::int64_t place = ptrs[to_size(tile)] + e - entries.begin;
      // Below nnz, which fits.
      positions[to_size(place)] = static_cast<std::uint32_t>(next.take(tile, e));
    }
  }
  return positions;
}

std::vector<std::uint32_t> read_value_positions(std::span<const std::byte> bytes,
                                                std::int64_t nnz) {
  constexpr std::size_t k_load_bytes = k_values_a_load * sizeof(std::uint32_t);
  const std::size_t count = bytes.size() / sizeof(std::uint32_t);
  if (bytes.size() % k_load_bytes != 0 || nnz < 0 || count < to_size(nnz)) {
    throw Error(fmt::format(
        "the positions of a CUDA kernel's values have {} bytes; expected loads of {} bytes for {} "
        "values",
        bytes.size(), k_load_bytes, nnz));
  }
  std::vector<std::uint32_t> positions(count);
  if (count > 0) std::memcpy(positions.data(), bytes.data(), bytes.size());
  std::vector<bool> seen(to_size(nnz), false);
  std::int64_t found = 0;
  for (const std::uint32_t position : positions) {
    if (position == k_no_value) continue;
    if (position >= seen.size() || seen[position]) {
      throw Error(fmt::format(
          "the positions of a CUDA kernel's values have {} twice or without need; expected each of "
          "{} once",
          position, nnz));
    }
    seen[position] = true;
    ++found;
  }
  if (found != nnz) {
    throw Error(
        fmt::format("the positions of a CUDA kernel's values are {}; expected {}", found, nnz));
  }
  return positions;
}

std::vector<float> arrange_values(std::span<const std::uint32_t> positions,
                                  std::span<const float> values) {
  std::vector<float> stream(positions.size(), 0.0F);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] != k_no_value) stream[i] = values[positions[i]];
  }
  return stream;
}

std::string_view PtxValues::next(SourceText& text) {
  static constexpr std::string_view k_registers[k_values_a_load] = {"a0", "a1", "a2", "a3"};
  const std::int64_t lane = next_ % k_values_a_load;
  if (lane == 0) {
    const std::int64_t offset = pointer_.reach(text, next_ * std::int64_t{sizeof(float)});
    text << "ld.global.nc.v4.f32 {a0,a1,a2,a3},[pvalues+" << offset << "];\n";
  }
  ++next_;
  return k_registers[to_size(lane)];
}

std::string CudaTextValues::next(SourceText& text) {
  static constexpr std::string_view k_members[k_values_a_load] = {".x", ".y", ".z", ".w"};
  const std::int64_t load = next_ / k_values_a_load;
  const std::int64_t lane = next_++ % k_values_a_load;
  if (lane == 0) text << "  const float4 a" << load << " = __ldg(values + " << load << ");\n";
  return fmt::format("a{}{}", load, k_members[to_size(lane)]);
}

}  // namespace spjit
