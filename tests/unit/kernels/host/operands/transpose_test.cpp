#include "kernels/host/operands/transpose.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/host_cpu.hpp"
#include "kernels/host/operands/simd_transpose.hpp"
#include "tests/support/draw.hpp"
#include "tests/support/guarded_memory.hpp"
#include "tests/support/sparse_floats.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::HostIsa;
using spjit::IntoPanels;
using spjit::OutOfPanels;
using spjit::PanelView;
using spjit::RowsInPanels;
using spjit::VectorPlace;
using spjit::testing_support::GuardedFloats;
using spjit::testing_support::GuardPlacement;
using spjit::testing_support::index;
using spjit::testing_support::isa_and_placement;
using spjit::testing_support::IsaAndPlacement;
using spjit::testing_support::k_no_space;
using spjit::testing_support::k_placements;
using spjit::testing_support::SparseFloats;

/// What a layer adds to a product.
struct LayerOperands {
  const float* scale;
  const float* bias;
  const float* residual;
  std::int64_t ld_residual;
};

/// Of all floats that were seen.
struct Totals {
  float sum;
  std::int64_t floats;
  std::int64_t rows;     ///< their numbers in the result
  std::int64_t columns;  ///< the same
};

/// What an instruction set does with vectors on their way.
struct Hooks {
  void (*store_by_column)(const OutOfPanels& task, const LayerOperands& layer);
  void (*store_by_row)(const RowsInPanels& task, const LayerOperands& layer);
  Totals (*pack_and_add)(const IntoPanels& task);
};

namespace hooks_avx512 {
#define SPJIT_TRANSPOSE_TARGET SPJIT_AVX512_TARGET
#define SPJIT_TRANSPOSE_INLINE SPJIT_AVX512_INLINE
#define SPJIT_MAP_ROWS_TARGET SPJIT_AVX512_TARGET
#define SPJIT_MAP_ROWS_INLINE SPJIT_AVX512_INLINE
using Tile = spjit::Avx512Tile;
#include "kernels/host/operands/map_rows.inc"
#include "kernels/host/operands/transpose.inc"
#include "tests/unit/kernels/host/operands/transpose_hooks.inc"
#undef SPJIT_TRANSPOSE_TARGET
#undef SPJIT_TRANSPOSE_INLINE
#undef SPJIT_MAP_ROWS_TARGET
#undef SPJIT_MAP_ROWS_INLINE
}  // namespace hooks_avx512

namespace hooks_avx2 {
#define SPJIT_TRANSPOSE_TARGET SPJIT_AVX2_TARGET
#define SPJIT_TRANSPOSE_INLINE SPJIT_AVX2_INLINE
#define SPJIT_MAP_ROWS_TARGET SPJIT_AVX2_TARGET
#define SPJIT_MAP_ROWS_INLINE SPJIT_AVX2_INLINE
using Tile = spjit::Avx2Tile;
#include "kernels/host/operands/map_rows.inc"
#include "kernels/host/operands/transpose.inc"
#include "tests/unit/kernels/host/operands/transpose_hooks.inc"
#undef SPJIT_TRANSPOSE_TARGET
#undef SPJIT_TRANSPOSE_INLINE
#undef SPJIT_MAP_ROWS_TARGET
#undef SPJIT_MAP_ROWS_INLINE
}  // namespace hooks_avx2

namespace hooks_generic {
#define SPJIT_TRANSPOSE_TARGET
#define SPJIT_TRANSPOSE_INLINE inline
#define SPJIT_MAP_ROWS_TARGET
#define SPJIT_MAP_ROWS_INLINE inline
using Tile = spjit::GenericTile;
#include "kernels/host/operands/map_rows.inc"
#include "kernels/host/operands/transpose.inc"
#include "tests/unit/kernels/host/operands/transpose_hooks.inc"
#undef SPJIT_TRANSPOSE_TARGET
#undef SPJIT_TRANSPOSE_INLINE
#undef SPJIT_MAP_ROWS_TARGET
#undef SPJIT_MAP_ROWS_INLINE
}  // namespace hooks_generic

const Hooks& hooks_of(HostIsa isa) {
  if (isa == HostIsa::avx512) return hooks_avx512::k_hooks;
  return isa == HostIsa::avx2 ? hooks_avx2::k_hooks : hooks_generic::k_hooks;
}

constexpr std::array k_sizes = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33};
constexpr float k_unwritten = -7.25F;

/// Values that all differ in their bits, among them what arithmetic would change: a NaN that
/// signals, one with a payload, -0, denormals, infinities.
std::vector<float> distinct_values(std::int64_t count) {
  std::vector<float> values;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::array<std::uint32_t, 8> bits = {0x7FA00000U + i, 0xFFC00000U + i, i,
                                               0x80000000U + i, 0x3F800000U + i, 0xFF800000U - i,
                                               0x7F800000U - i, 0x40000000U + i};
    values.push_back(std::bit_cast<float>(bits[i % bits.size()]));
  }
  return values;
}

bool identical(std::span<const float> left, std::span<const float> right) {
  return std::ranges::equal(left, right, [](float a, float b) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  });
}

/// Where an element is.
template <class Float>
std::int64_t place_in(const PanelView<Float>& view, std::int64_t row, std::int64_t column) {
  return column / view.width * view.stride + row * view.ld + column % view.width;
}

/// Floats of rows `ld` apart, of which the last ends with its last column.
std::int64_t row_major_floats(std::int64_t rows, std::int64_t columns, std::int64_t ld) {
  return rows == 0 || columns == 0 ? 0 : (rows - 1) * ld + columns;
}

/// Floats of panels, of which the last has `columns` columns.
template <class Float>
std::int64_t panel_floats(const PanelView<Float>& view, std::int64_t rows, std::int64_t all_columns,
                          std::int64_t last_columns) {
  if (rows == 0 || all_columns == 0) return 0;
  return (all_columns - 1) / view.width * view.stride + (rows - 1) * view.ld + last_columns;
}

std::string shape_of(std::int64_t rows, std::int64_t columns, std::int64_t ld_from,
                     std::int64_t width, std::int64_t ld_to) {
  return std::to_string(rows) + " x " + std::to_string(columns) + ", from rows " +
         std::to_string(ld_from) + " apart to rows " + std::to_string(ld_to) +
         " apart, panels of " + std::to_string(width);
}

class Transpose : public testing::TestWithParam<IsaAndPlacement> {
 protected:
  void SetUp() override {
    if (!spjit::Target(isa()).runs_here()) GTEST_SKIP() << "no " << to_string(isa()) << " here";
  }
  static HostIsa isa() { return std::get<HostIsa>(GetParam()); }
  static GuardPlacement placement() { return std::get<GuardPlacement>(GetParam()); }

  /// `to` of the task is set here.
  static void expect_in_panels(IntoPanels task) {
    const std::vector<float> values =
        distinct_values(row_major_floats(task.rows, task.columns, task.from.ld));
    const GuardedFloats source(values, placement());
    const GuardedFloats packed(panel_floats(task.to, task.columns, task.rows, task.to.width),
                               placement());
    std::ranges::fill(packed.span(), k_unwritten);
    task.from.data = source.data();
    task.to.data = packed.data();

    spjit::transpose(task, isa());

    std::vector<float> expected(packed.span().size(), k_unwritten);
    const std::int64_t padded = (task.rows + task.to.width - 1) / task.to.width * task.to.width;
    for (std::int64_t j = 0; j < task.columns; ++j) {
      for (std::int64_t i = 0; i < padded; ++i) {
        expected[index(place_in(task.to, j, i))] =
            i < task.rows ? values[index(i * task.from.ld + j)] : 0.0F;
      }
    }
    ASSERT_TRUE(identical(packed.span(), expected) && packed.intact())
        << shape_of(task.rows, task.columns, task.from.ld, task.to.width, task.to.ld);
  }

  static void expect_out_of_panels(OutOfPanels task) {
    const std::int64_t last = task.columns == 0 ? 0 : (task.columns - 1) % task.from.width + 1;
    const std::vector<float> values =
        distinct_values(panel_floats(task.from, task.rows, task.columns, last));
    const GuardedFloats source(values, placement());
    const GuardedFloats result(row_major_floats(task.columns, task.rows, task.to.ld), placement());
    std::ranges::fill(result.span(), k_unwritten);
    task.from.data = source.data();
    task.to.data = result.data();

    spjit::transpose(task, isa());

    std::vector<float> expected(result.span().size(), k_unwritten);
    for (std::int64_t i = 0; i < task.rows; ++i) {
      for (std::int64_t j = 0; j < task.columns; ++j) {
        expected[index(j * task.to.ld + i)] = values[index(place_in(task.from, i, j))];
      }
    }
    ASSERT_TRUE(identical(result.span(), expected) && result.intact())
        << shape_of(task.rows, task.columns, task.from.ld, task.from.width, task.to.ld);
  }
};

/// Rows apart, side by side, overlapping, and all the same.
TEST_P(Transpose, IntoRowMajor) {
  for (const std::int64_t rows : k_sizes) {
    for (const std::int64_t columns : k_sizes) {
      for (const std::int64_t ld : {columns + 3, columns, columns / 2, std::int64_t{0}}) {
        const std::int64_t width = std::max<std::int64_t>(rows, 1);
        expect_in_panels({{nullptr, ld}, rows, columns, {nullptr, width, width + ld % 2, 0}});
      }
    }
  }
}

/// Panels narrower and wider than a vector, those that no vector fits, and those with room for many
/// more rows than there are.
TEST_P(Transpose, IntoPanelsWithZerosPastTheLastRow) {
  for (const std::int64_t rows : k_sizes) {
    for (const std::int64_t columns : k_sizes) {
      for (const std::int64_t width : {1, 5, 8, 16, 20, 32, 64}) {
        const std::int64_t ld = width + columns % 3;
        expect_in_panels(
            {{nullptr, columns + 1}, rows, columns, {nullptr, width, ld, columns * ld + 16}});
      }
    }
  }
}

/// Planes of sixteen columns, as packed B of the family `compact`: half of a row may be no one's.
TEST_P(Transpose, IntoHalvesOfPlanes) {
  constexpr std::int64_t k_plane = std::int64_t{512} * 16;
  for (const std::int64_t rows : {1, 4, 7, 8}) {
    expect_in_panels({{nullptr, 70}, rows, 70, {nullptr, 8, 16, k_plane}});
  }
}

TEST_P(Transpose, OutOfRowMajor) {
  for (const std::int64_t rows : k_sizes) {
    for (const std::int64_t columns : k_sizes) {
      const std::int64_t width = std::max<std::int64_t>(columns, 1);
      for (const std::int64_t apart : {0, 3}) {
        expect_out_of_panels(
            {{nullptr, width, width + apart, 0}, rows, columns, {nullptr, rows + apart}});
      }
    }
  }
}

TEST_P(Transpose, OutOfPanelsOfWhichTheLastEndsEarly) {
  for (const std::int64_t rows : {1, 16, 33, 127, 128, 129, 300}) {
    for (const std::int64_t columns : k_sizes) {
      for (const std::int64_t width : {1, 5, 8, 16, 20, 32, 64}) {
        const std::int64_t ld = width + columns % 3;
        expect_out_of_panels(
            {{nullptr, width, ld, rows * ld + 16}, rows, columns, {nullptr, rows + columns % 2}});
      }
    }
  }
}

/// A layer's operands end with the last float that belongs to the layer.
struct GuardedLayer {
  GuardedLayer(std::int64_t features, std::int64_t residuals, GuardPlacement placement)
      : scale(features, placement), bias(features, placement), residual(residuals, placement) {
    for (std::int64_t i = 0; i < features; ++i) {
      scale.data()[i] = static_cast<float>(i % 7 - 3);
      bias.data()[i] = static_cast<float>(100 * i);
    }
    for (std::int64_t i = 0; i < residuals; ++i) residual.data()[i] = static_cast<float>(i % 1013);
  }

  /// Small whole numbers: no rounding.
  [[nodiscard]] float applied(float value, std::int64_t feature, std::int64_t at) const {
    return value * scale.data()[feature] + bias.data()[feature] + residual.data()[at];
  }
  [[nodiscard]] LayerOperands operands(std::int64_t ld_residual) const {
    return {scale.data(), bias.data(), residual.data(), ld_residual};
  }

  GuardedFloats scale;
  GuardedFloats bias;
  GuardedFloats residual;
};

void fill_with_whole_numbers(std::span<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 31) - 15;
}

/// Panels of whole rows.
PanelView<float> panels_of(std::int64_t rows, std::int64_t width) {
  return {nullptr, width, width, rows * width + 16};
}

PanelView<const float> constant(const PanelView<float>& view) {
  return {view.data, view.width, view.ld, view.stride};
}

class MapRows : public Transpose {
 protected:
  /// Into other panels, then where they are.
  static void expect_mapped(std::int64_t features, std::int64_t tokens, PanelView<float> from,
                            PanelView<float> to) {
    const auto floats_of = [&](const PanelView<float>& view) {
      return panel_floats(view, features, tokens, (tokens - 1) % view.width + 1);
    };
    const GuardedFloats c(floats_of(from), placement());
    const GuardedFloats mapped(floats_of(to), placement());
    const GuardedLayer layer(features, tokens * features, placement());
    fill_with_whole_numbers(c.span());
    std::ranges::fill(mapped.span(), k_unwritten);
    from.data = c.data();
    to.data = mapped.data();
    std::vector<float> expected(mapped.span().size(), k_unwritten);
    std::vector<float> expected_there(c.span().begin(), c.span().end());
    for (std::int64_t at = 0; at < tokens * features; ++at) {
      const std::int64_t place = place_in(from, at / tokens, at % tokens);
      const float value = layer.applied(c.data()[place], at / tokens, at);
      expected[index(place_in(to, at / tokens, at % tokens))] = value;
      expected_there[index(place)] = value;
    }

    const auto map = hooks_of(isa()).store_by_row;
    map({constant(from), features, tokens, to}, layer.operands(tokens));
    map({constant(from), features, tokens, from}, layer.operands(tokens));

    ASSERT_TRUE(identical(mapped.span(), expected) && mapped.intact())
        << tokens << " tokens from panels of " << from.width << " to panels of " << to.width;
    ASSERT_TRUE(identical(c.span(), expected_there) && c.intact())
        << tokens << " tokens in panels of " << from.width;
  }
};

TEST_P(Transpose, AHookSeesTheFeaturesOfOneTokenAndWhereTheyAre) {
  for (const std::int64_t features : {1, 7, 16, 17, 33, 150}) {
    for (const std::int64_t tokens : {1, 5, 8, 16, 17, 33}) {
      PanelView<float> panels = panels_of(features, 16);
      const std::int64_t last = (tokens - 1) % panels.width + 1;
      const GuardedFloats c(panel_floats(panels, features, tokens, last), placement());
      const GuardedFloats y(tokens * features, placement());
      const GuardedLayer layer(features, tokens * features, placement());
      fill_with_whole_numbers(c.span());

      hooks_of(isa()).store_by_column({{c.data(), panels.width, panels.ld, panels.stride},
                                       features,
                                       tokens,
                                       {y.data(), features}},
                                      layer.operands(features));

      for (std::int64_t at = 0; at < tokens * features; ++at) {
        const std::int64_t feature = at % features;
        const float value = c.data()[place_in(panels, feature, at / features)];
        ASSERT_EQ(y.data()[at], layer.applied(value, feature, at))
            << tokens << " tokens, feature " << feature << " of " << features;
      }
      EXPECT_TRUE(y.intact());
    }
  }
}

/// From panels to others, and where they are.
TEST_P(MapRows, AHookSeesTheTokensOfOneFeatureAndWhereTheyAre) {
  constexpr std::int64_t k_features = 5;
  for (const std::int64_t tokens : {1, 3, 8, 15, 16, 17, 33, 70}) {
    for (const std::int64_t width : {std::int64_t{8}, std::int64_t{16}, tokens}) {
      for (const std::int64_t width_to : {std::int64_t{12}, std::int64_t{16}, tokens}) {
        expect_mapped(k_features, tokens, panels_of(k_features, width),
                      panels_of(k_features, width_to));
      }
    }
  }
}

/// Between the rows of C are other values.
TEST_P(MapRows, WhatIsBetweenRowsStays) {
  expect_mapped(3, 21, {nullptr, 21, 25, 0}, {nullptr, 21, 30, 0});
}

TEST_P(MapRows, NoRowsAndNoColumnsAreFine) {
  const GuardedLayer layer(1, 1, placement());

  hooks_of(isa()).store_by_row({{nullptr, 1, 1, 0}, 0, 1, {nullptr, 1, 1, 0}}, layer.operands(1));
  hooks_of(isa()).store_by_row({{nullptr, 1, 1, 0}, 1, 0, {nullptr, 1, 1, 0}}, layer.operands(1));
}

TEST_P(Transpose, AHookThatPacksSeesEveryValueOnceAndTheZeros) {
  for (const std::int64_t rows : {1, 7, 16, 20, 33}) {
    for (const std::int64_t columns : {1, 8, 31}) {
      const std::int64_t width = 16;
      const std::int64_t padded = (rows + width - 1) / width * width;
      const GuardedFloats source(rows * columns, placement());
      fill_with_whole_numbers(source.span());
      const GuardedFloats packed(padded * columns, placement());

      const Totals totals =
          hooks_of(isa()).pack_and_add({{source.data(), columns},
                                        rows,
                                        columns,
                                        {packed.data(), width, width, columns * width}});

      EXPECT_EQ(totals.sum, std::accumulate(source.span().begin(), source.span().end(), 0.0F));
      EXPECT_EQ(totals.floats, padded * columns);
      EXPECT_EQ(totals.rows, padded * (columns * (columns - 1) / 2));
      EXPECT_EQ(totals.columns, columns * (padded * (padded - 1) / 2));
    }
  }
}

/// A distance that no row is at is never multiplied.
TEST_P(Transpose, OneRowMayHaveAnyDistanceToTheNext) {
  constexpr std::int64_t k_any = std::numeric_limits<std::int64_t>::max();
  expect_in_panels({{nullptr, k_any}, 1, 9, {nullptr, 64, 64, k_any}});
  expect_out_of_panels({{nullptr, 16, k_any, k_any}, 1, 1, {nullptr, k_any}});
}

INSTANTIATE_TEST_SUITE_P(AllIsas, Transpose,
                         testing::Combine(testing::Values(HostIsa::avx512, HostIsa::avx2,
                                                          HostIsa::generic),
                                          testing::ValuesIn(k_placements)),
                         isa_and_placement);

INSTANTIATE_TEST_SUITE_P(AllIsas, MapRows,
                         testing::Combine(testing::Values(HostIsa::avx512, HostIsa::avx2,
                                                          HostIsa::generic),
                                          testing::ValuesIn(k_placements)),
                         isa_and_placement);

/// Instruction set and the distance of rows or panels in bytes.
class TransposeFarApart : public testing::TestWithParam<std::tuple<HostIsa, std::int64_t>> {
 protected:
  static constexpr std::int64_t k_rows = 19;
  static constexpr std::int64_t k_columns = 21;

  void SetUp() override {
    if (!spjit::Target(isa()).runs_here()) GTEST_SKIP() << "no " << to_string(isa()) << " here";
  }
  static HostIsa isa() { return std::get<0>(GetParam()); }
  static std::int64_t distance() { return std::get<1>(GetParam()) / 4; }

  static float value_at(std::int64_t row, std::int64_t column) {
    return static_cast<float>(row * 100 + column + 1);
  }
};

TEST_P(TransposeFarApart, IntoPanels) {
  const PanelView<float> near{nullptr, 16, 16, k_columns * 16 + 16};
  const PanelView<float> far_rows{nullptr, 16, distance(), 16};
  const PanelView<float> far_panels{nullptr, 16, 16, distance()};
  for (const PanelView<float>& view : {near, far_rows, far_panels}) {
    const SparseFloats source(row_major_floats(k_rows, k_columns, distance()));
    const SparseFloats packed(panel_floats(view, k_columns, k_rows, view.width));
    if (!source.mapped() || !packed.mapped()) GTEST_SKIP() << k_no_space;
    for (std::int64_t i = 0; i < k_rows; ++i) {
      for (std::int64_t j = 0; j < k_columns; ++j) {
        source.data()[i * distance() + j] = value_at(i, j);
      }
    }

    spjit::transpose(IntoPanels{{source.data(), distance()},
                                k_rows,
                                k_columns,
                                {packed.data(), view.width, view.ld, view.stride}},
                     isa());

    for (std::int64_t i = 0; i < k_rows; ++i) {
      for (std::int64_t j = 0; j < k_columns; ++j) {
        ASSERT_EQ(packed.data()[place_in(view, j, i)], value_at(i, j)) << i << " " << j;
      }
    }
  }
}

TEST_P(TransposeFarApart, OutOfPanels) {
  const PanelView<float> near{nullptr, 16, 16, k_rows * 16 + 16};
  const PanelView<float> far_rows{nullptr, 16, distance(), 16};
  const PanelView<float> far_panels{nullptr, 16, 16, distance()};
  for (const PanelView<float>& view : {near, far_rows, far_panels}) {
    const SparseFloats source(panel_floats(view, k_rows, k_columns, view.width));
    const SparseFloats result(row_major_floats(k_columns, k_rows, distance()));
    if (!source.mapped() || !result.mapped()) GTEST_SKIP() << k_no_space;
    for (std::int64_t i = 0; i < k_rows; ++i) {
      for (std::int64_t j = 0; j < k_columns; ++j) {
        source.data()[place_in(view, i, j)] = value_at(i, j);
      }
    }

    spjit::transpose(OutOfPanels{{source.data(), view.width, view.ld, view.stride},
                                 k_rows,
                                 k_columns,
                                 {result.data(), distance()}},
                     isa());

    for (std::int64_t i = 0; i < k_rows; ++i) {
      for (std::int64_t j = 0; j < k_columns; ++j) {
        ASSERT_EQ(result.data()[j * distance() + i], value_at(i, j)) << i << " " << j;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Distances, TransposeFarApart,
    testing::Combine(testing::Values(HostIsa::avx512, HostIsa::avx2, HostIsa::generic),
                     testing::Values(std::int64_t{1} << 31, std::int64_t{1} << 32)),
    [](const auto& instance) {
      return to_string(std::get<0>(instance.param)) +
             (std::get<1>(instance.param) >> 32 != 0 ? "_4GiB" : "_2GiB");
    });

}  // namespace
