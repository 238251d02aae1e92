// Planes of images beside a plain loop: whatever the geometry, the layout and the columns.

#include "kernels/host/layer/image_stage.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "plan/convolution.hpp"
#include "spjit/error.hpp"
#include "tests/support/draw.hpp"
#include "tests/support/layer_testing.hpp"
#include "tests/support/padded_3x3.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

constexpr float k_not_staged = -7.25F;

/// One that check_convolution() takes.
Convolution draw_geometry(Draw& draw) {
  Convolution of;
  do {
    of.channels = draw.between(1, 5);
    of.height = draw.between(1, 14);
    of.width = draw.between(1, 30);
    of.kernel_height = draw.between(1, 4);
    of.kernel_width = draw.between(1, 5);
    of.stride_height = draw.between(1, 4);
    of.stride_width = draw.one_of<std::int64_t>({1, 1, 2, 2, 3, 5});
    of.pad_top = draw.between(0, 3);
    of.pad_left = draw.between(0, 6);
    of.pad_bottom = draw.between(0, 6);
    of.pad_right = draw.between(0, 3);
    of.dilation_height = draw.between(1, 3);
    of.dilation_width = draw.between(1, 4);
  } while (of.output_height() < 1 || of.output_width() < 1);
  return of;
}

/// Where an image of such sizes is.
LayerPlace draw_place(Draw& draw, const Convolution& of) {
  LayerPlace place{.layout = draw.chance(50) ? Layout::row_major : Layout::tokens_major,
                   .features = of.channels,
                   .n = of.height * of.width,
                   .batch = 1};
  const bool has_tokens = place.layout == Layout::tokens_major;
  place.ld = (has_tokens ? place.features : place.n) + (draw.chance(50) ? draw.between(0, 9) : 0);
  return place;
}

/// What is wrong with the planes of some channels and columns; or empty.
std::string wrong_planes(const ImagePlan& plan, const LayerArray& image, const RowRange& channels,
                         const RowRange& columns, const GuardedFloats& planes) {
  const Convolution& of = plan.convolution();
  const std::int64_t taps = of.kernel_height * of.kernel_width;
  const std::int64_t width = of.output_width();
  if (!planes.intact()) return "something was written around the planes";
  const std::int64_t of_channel = plan.floats(1);
  for (std::int64_t at = 0; at < of.channels * of_channel; ++at) {
    const std::int64_t channel = at / of_channel;
    const bool is_staged = channel >= channels.begin && channel < channels.end;
    if (!is_staged && planes.span()[index(at)] != k_not_staged) {
      return "a plane of channel " + std::to_string(channel) + " was written";
    }
  }
  for (std::int64_t k = channels.begin * taps; k < channels.end * taps; ++k) {
    for (std::int64_t column = columns.begin; column < columns.end; ++column) {
      const std::int64_t at = plan.places()[k] + column - columns.begin;
      const float staged = planes.span()[index(at)];
      const std::string where =
          " at row " + std::to_string(k) + " and column " + std::to_string(column);
      if (staged == k_not_staged) return "nothing" + where;
      const std::int64_t q = column % plan.pitch();
      if (q >= width) continue;  // computed, not stored
      const PatchElement element = patch_element(of, k, column / plan.pitch() * width + q);
      const float expected = element.pixel < 0 ? 0 : image.at(0, element.channel, element.pixel);
      if (!same_value(staged, expected)) {
        return std::to_string(staged) + where + ", expected " + std::to_string(expected);
      }
    }
  }
  return "";
}

TEST(ImageStage, HasEveryRowOfBAsARunOfFloats) {
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    Draw draw(seed);
    const Convolution of = draw_geometry(draw);
    const GuardPlacement placement = k_placements.at(seed % 2);
    const LayerArray image(draw_place(draw, of), placement,
                           std::numeric_limits<float>::quiet_NaN());
    image.draw([&] { return draw_value(draw, false); });
    image.memory().seal();
    const ImagePlan plan(of, {16 * draw.between(1, 12)});
    const HostIsa isa = draw.one_of(isas_here());
    RowRange columns{draw.between(0, plan.columns() - 1), 0};
    const std::int64_t most = std::min(plan.columns(), columns.begin + plan.cut().most());
    columns.end = draw.chance(50) ? most : draw.between(columns.begin + 1, most);
    RowRange channels{draw.between(0, of.channels - 1), of.channels};
    if (draw.chance(50)) channels.end = draw.between(channels.begin + 1, of.channels);
    const GuardedFloats planes(plan.floats(of.channels), placement);
    std::ranges::fill(planes.span(), k_not_staged);

    plan.stage({image.data(), {.ld = image.place().ld, .layout = image.place().layout}},
               {channels, columns}, planes.data(), isa);

    ASSERT_EQ(wrong_planes(plan, image, channels, columns, planes), "")
        << "seed " << seed << ": " << to_string(of) << " columns " << columns.begin << " to "
        << columns.end << " " << to_string(isa);
  }
}

/// Floats of planes before a column of images.
std::int64_t place_in_runs(const ImagePlan& plan, std::int64_t column) {
  const auto after = std::ranges::upper_bound(plan.runs(), column, {}, &ColumnRun::column);
  const ColumnRun& run = *(after - 1);
  return run.offset + column - run.column;
}

/// What is wrong with images, which are a batch; or empty.
std::string wrong_runs(const ImagePlan& plan, const LayerArray& images,
                       const GuardedFloats& planes) {
  const Convolution& of = plan.convolution();
  const std::int64_t n = plan.columns();
  if (!planes.intact()) return "something was written around the planes";
  for (std::int64_t k = 0; k < of.channels * of.kernel_height * of.kernel_width; ++k) {
    for (std::int64_t column = 0; column < images.place().batch * n; ++column) {
      const PatchElement element = patch_element(of, k, column % n);
      const float expected =
          element.pixel < 0 ? 0 : images.at(column / n, element.channel, element.pixel);
      const std::int64_t at = plan.places()[k] + place_in_runs(plan, column);
      if (same_value(planes.span()[index(at)], expected)) continue;
      return std::to_string(planes.span()[index(at)]) + " at row " + std::to_string(k) +
             " and column " + std::to_string(column) + ", expected " + std::to_string(expected);
    }
  }
  return "";
}

TEST(ImageStage, HasPixelsOfImagesInRuns) {
  std::int64_t together = 0;  // images that were computed at once
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    Draw draw(seed);
    const Convolution of = draw_geometry(draw);
    const GuardPlacement placement = k_placements.at(seed % 2);
    const ImagePlan plan(of,
                         {16 * draw.between(1, 12), true, static_cast<int>(draw.between(1, 3))});
    LayerPlace place = draw_place(draw, of);
    place.batch = draw.between(1, plan.images_at_once());
    place.distance = place.extent() + draw.between(0, 7);
    const LayerArray images(place, placement, std::numeric_limits<float>::quiet_NaN());
    images.draw([&] { return draw_value(draw, false); });
    images.memory().seal();
    const HostIsa isa = draw.one_of(isas_here());
    const std::int64_t of_image = plan.floats(of.channels);
    const GuardedFloats planes(place.batch * of_image, placement);
    std::ranges::fill(planes.span(), k_not_staged);

    for (std::int64_t image = 0; image < place.batch; ++image) {
      plan.stage({images.data() + image * place.distance, {.ld = place.ld, .layout = place.layout}},
                 {{0, of.channels}, {0, plan.columns()}}, planes.data() + image * of_image, isa);
    }

    EXPECT_EQ(plan.columns(), of.output_height() * of.output_width());
    EXPECT_EQ(plan.cut().groups(), 1);
    together += place.batch > 1 ? place.batch : 0;
    ASSERT_EQ(wrong_runs(plan, images, planes), "")
        << "seed " << seed << ": " << to_string(of) << " " << to_string(isa);
  }
  EXPECT_GT(together, 100);
}

TEST(ImageStage, SmallImagesAreComputedTogether) {
  const Convolution seven = padded_3x3(1, 7, 7);
  const Convolution large = padded_3x3(1, 56, 56);

  EXPECT_EQ(ImagePlan(seven, {256, true}).images_at_once(), 5);
  EXPECT_EQ(ImagePlan(seven, {256}).images_at_once(), 1);  // planes of one lie together
  EXPECT_EQ(ImagePlan(large, {256, true}).images_at_once(), 1);
  EXPECT_EQ(ImagePlan(large, {256, true}).columns(), 56 * 56);
  EXPECT_EQ(std::ssize(ImagePlan(seven, {256, true}).runs()), 5 * 7);
}

TEST(ImageStage, RowsThatFollowOneAnotherAreOneRun) {
  const Convolution halves{
      .channels = 1, .height = 56, .width = 56, .stride_height = 2, .stride_width = 2};

  EXPECT_EQ(std::ssize(ImagePlan(halves, {256, true}).runs()), 1);
}

TEST(ImageStage, EveryPixelOfTheOutputIsOneColumn) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Draw draw(seed);
    const Convolution of = draw_geometry(draw);
    const ImagePlan plan(of, {16});
    const std::int64_t width = of.output_width();
    const std::int64_t step = draw.between(1, plan.columns());
    std::int64_t next = 0;
    for (std::int64_t begin = 0; begin < plan.columns(); begin += step) {
      const RowRange columns{begin, std::min(begin + step, plan.columns())};
      plan.for_each_row_of_pixels(columns, [&](std::int64_t column, const RowRange& pixels) {
        ASSERT_EQ(pixels.begin, next) << seed;
        ASSERT_LT(pixels.begin, pixels.end) << seed;
        ASSERT_EQ(column, pixels.begin / width * plan.pitch() + pixels.begin % width) << seed;
        const bool is_in_a_row = pixels.begin / width == (pixels.end - 1) / width;
        ASSERT_TRUE(is_in_a_row || plan.pitch() == width) << seed;
        ASSERT_GE(column, columns.begin) << seed;
        ASSERT_LE(column + pixels.end - pixels.begin, columns.end) << seed;
        next = pixels.end;
      });
    }
    ASSERT_EQ(next, of.output_height() * width) << seed << ": " << to_string(of);
  }
}

/// Rows of the output so far apart.
std::int64_t pitch_of(const Convolution& of) { return ImagePlan(of, {256}).pitch(); }

TEST(ImageStage, RowsShareThePaddingBetweenThem) {
  Convolution of{.channels = 1, .height = 56, .width = 56, .kernel_height = 3, .kernel_width = 3};
  EXPECT_EQ(pitch_of(of), 56);  // 54 pixels and what a row reads beyond them: no padding
  of.pad_left = of.pad_right = 1;
  EXPECT_EQ(pitch_of(of), 57);  // the zero behind a row is the one in front of the next
  of.pad_right = 0;
  EXPECT_EQ(pitch_of(of), 57);  // nothing to share
  of.pad_left = of.pad_right = 3;
  EXPECT_EQ(pitch_of(of), 60);  // 2 of 3: as many as a row reads beyond itself
  of = {.channels = 1, .height = 56, .width = 56, .stride_height = 2, .stride_width = 2};
  EXPECT_EQ(pitch_of(of), 28);  // one tap reads what it needs
}

TEST(ImageStage, StagesOnlyPhasesThatATapHas) {
  Convolution of{.channels = 1,
                 .height = 40,
                 .width = 40,
                 .kernel_height = 3,
                 .kernel_width = 3,
                 .stride_height = 2,
                 .stride_width = 2};
  const auto plane_of = [](const Convolution& some) {
    return ImagePlan(some, {std::int64_t{1} << 20}).floats(1);
  };
  const std::int64_t four_phases = plane_of(of);
  of.kernel_height = of.kernel_width = 1;
  const std::int64_t one_phase = plane_of(of);
  of.kernel_height = of.kernel_width = 2;
  of.dilation_height = of.dilation_width = 2;  // taps 0 and 2: even ones alone
  const std::int64_t even_phase = plane_of(of);

  EXPECT_GT(four_phases, 3 * one_phase);
  EXPECT_LT(even_phase, 2 * one_phase);
}

TEST(ImageStage, ComputesAtLeastTwiceTheColumnsThatItReadsBeyondThem) {
  const Convolution far{.channels = 1,
                        .height = 200,
                        .width = 200,
                        .kernel_height = 2,
                        .kernel_width = 1,
                        .dilation_height = 10};
  const Convolution small{.channels = 1, .height = 5, .width = 6, .kernel_width = 2};

  EXPECT_EQ(ImagePlan(far, {16}).cut().groups(), 10);   // of 190 * 200 columns, up to 4000
  EXPECT_EQ(ImagePlan(far, {8000}).cut().groups(), 5);  // up to 8000
  EXPECT_EQ(ImagePlan(small, {256}).columns(), 4 * 6 + 5);
  EXPECT_EQ(ImagePlan(small, {256}).cut().groups(), 1);
}

TEST(ImageStage, RefusesPlanesThatCannotBeCounted) {
  const ImagePlan plan({.channels = 1, .height = 4, .width = 4, .kernel_width = 2}, {256});

  EXPECT_GT(plan.floats(2), plan.floats(1));
  EXPECT_THROW(static_cast<void>(plan.floats(std::numeric_limits<std::int64_t>::max() / 8)), Error);
}

}  // namespace
