#include "kernels/host/byte_windows/scaled_bytes.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/vector_memory.hpp"

namespace spjit {
namespace {

constexpr int k_place_bits = 4;

/// [groups x column groups x lanes]
FloatBuffer scales_of(const CsrView& matrix, const ByteSteps& steps, std::int64_t column_groups) {
  const std::int64_t lanes = steps.shape.lanes;
  FloatBuffer scales(to_size(steps.groups() * column_groups * lanes));
  float* to = scales.data();
  for (std::int64_t group = 0; group < steps.groups(); ++group) {
    const std::int32_t* const rows = steps.rows.data() + group * lanes;
    for (std::int64_t columns = 0; columns < column_groups; ++columns) {
      for (std::int64_t lane = 0; lane < lanes; ++lane) {
        const std::int32_t row = rows[lane];
        *to++ = row < 0 ? 0 : matrix.groups.of_row(matrix.cols, row)[to_size(columns)];
      }
    }
  }
  return scales;
}

}  // namespace

std::int64_t ScaledBytes::bytes() const noexcept {
  const auto of_lanes = static_cast<std::int64_t>(sizeof(float) + sizeof(sums[0]));
  return std::ssize(sums) * of_lanes + std::ssize(counts);
}

bool can_pack(const CsrView& matrix) {
  return !matrix.groups.empty() &&
         std::ranges::all_of(matrix.values, [](float value) { return value >= -8 && value <= 7; });
}

void add_scales(const CsrView& matrix, ByteSteps& steps, ScaledBytes& to) {
  const std::int64_t lanes = steps.shape.lanes;
  const std::size_t slots = to_size(steps.shape.slots());
  to.group_columns = matrix.groups.columns;
  to.column_groups = matrix.groups.count(matrix.cols);
  to.scales = scales_of(matrix, steps, to.column_groups);
  // Up to 128 values of i8.
  to.sums.assign(to_size(std::ssize(steps.of_columns) * lanes), 0);
  to.starts.reserve(steps.starts.size());
  for (std::size_t i = 0; i < steps.of_columns.size(); ++i) {
    const std::int64_t first = static_cast<std::int64_t>(i) % to.column_groups * to.group_columns;
    std::int16_t* const sums = to.sums.data() + i * to_size(lanes);
    for (int left = steps.of_columns[i]; left > 0; --left) {
      const std::size_t step = to.starts.size();
      for (std::size_t slot = 0; slot < slots; ++slot) {
        const std::int64_t entry = steps.entries[step * slots + slot];
        if (entry < 0) continue;
        std::int16_t& sum = sums[slot / ByteShape::k_entries];
        sum = static_cast<std::int16_t>(sum + static_cast<int>(matrix.values[to_size(entry)]));
      }
      to.starts.push_back(static_cast<std::uint8_t>(steps.starts[step] - first));
    }
  }
  to.counts = std::move(steps.of_columns);
  free_memory(steps.starts);
}

ByteBuffer packed_slots(const ByteSteps& steps, std::span<const float> values) {
  ByteBuffer slots(std::ssize(steps.entries));
  for (std::size_t i = 0; i < steps.entries.size(); ++i) {
    const std::int64_t entry = steps.entries[i];
    const int value = entry < 0 ? 0 : static_cast<int>(values[to_size(entry)]);
    slots.data()[i] =
        static_cast<std::uint8_t>(static_cast<unsigned>(value) << k_place_bits | steps.places[i]);
  }
  return slots;
}

}  // namespace spjit
