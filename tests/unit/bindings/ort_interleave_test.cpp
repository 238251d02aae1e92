// The operator Interleave. bindings/python/tests/test_onnx_transposed.py runs it in ONNX Runtime.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "bindings/ort/interleave.hpp"
#include "spjit/error.hpp"

namespace {

using namespace spjit::ort;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::int64_t elements(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

/// Y of X with the values 0, 1, 2 and so on.
std::vector<float> interleaved(const Interleaving& of, const Shape& shape) {
  std::vector<float> x(static_cast<std::size_t>(elements(shape)));
  std::iota(x.begin(), x.end(), 0.0F);
  const Shape result = interleaved_shape(of, shape);
  std::vector<float> y(static_cast<std::size_t>(elements(result)), -1.0F);
  for (std::int64_t plane = 0; plane < result[0] * result[1]; ++plane) {
    interleave_plane(of, {x.data(), shape}, {y.data(), result}, plane);
  }
  return y;
}

/// interleaved() by the formula of interleave.hpp.
std::vector<float> by_formula(const Interleaving& of, const Shape& shape) {
  const auto [rows, columns] = of.phases;
  const Shape result = interleaved_shape(of, shape);
  const std::int64_t channels = result[1] / of.groups;
  std::vector<float> y;
  for (std::int64_t n = 0; n < result[0]; ++n) {
    for (std::int64_t channel = 0; channel < result[1]; ++channel) {
      for (std::int64_t p = 0; p < result[2]; ++p) {
        for (std::int64_t q = 0; q < result[3]; ++q) {
          const std::int64_t phase = p % rows * columns + q % columns;
          const std::int64_t from =
              (channel / channels * rows * columns + phase) * channels + channel % channels;
          const std::int64_t at =
              ((n * shape[1] + from) * shape[2] + p / rows) * shape[3] + q / columns;
          y.push_back(static_cast<float>(at));
        }
      }
    }
  }
  return y;
}

TEST(OrtInterleave, PutsPhasesBesideOneAnother) {
  const Interleaving of{.phases = {2, 2}};

  EXPECT_THAT(interleaved(of, {1, 4, 1, 2}), ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
}

TEST(OrtInterleave, FollowsItsFormula) {
  const Shape x{3, 24, 3, 5};
  for (const Interleaving& of :
       {Interleaving{}, Interleaving{.phases = {1, 2}, .crop = {0, 1}, .groups = 3},
        Interleaving{.phases = {2, 3}, .crop = {3, 4}, .groups = 2},
        Interleaving{.phases = {3, 1}, .crop = {2, 2}, .groups = 4},
        Interleaving{.phases = {1, 12}, .crop = {0, 7}, .groups = 2},
        Interleaving{.phases = {2, 2}, .crop = {5, 9}, .groups = 1}}) {
    EXPECT_EQ(interleaved(of, x), by_formula(of, x)) << of.phases[0] << " x " << of.phases[1];
  }
}

TEST(OrtInterleave, BatchesMayBeEmpty) {
  const Interleaving of{.phases = {2, 3}, .crop = {4, 0}, .groups = 2};

  EXPECT_THAT(interleaved_shape(of, {0, 12, 3, 5}), ElementsAre(0, 2, 2, 15));
}

TEST(OrtInterleave, OtherShapesAreRefused) {
  const Interleaving of{.phases = {2, 3}, .crop = {5, 1}, .groups = 2};

  for (const Shape& shape : {Shape{2, 12, 5}, Shape{2, 18, 5, 5}, Shape{2, 12, 5, 5, 1}}) {
    EXPECT_THAT([&] { static_cast<void>(interleaved_shape(of, shape)); },
                ThrowsMessage<spjit::InvalidArgument>(HasSubstr("a multiple of 2 * 2 * 3")));
  }
}

TEST(OrtInterleave, ImagesOfNoSizeAreRefused) {
  const auto refused = [](spjit::ort::Pair crop, const Shape& x, const char* text) {
    EXPECT_THAT(
        [&] {
          static_cast<void>(interleaved_shape({.phases = {2, 3}, .crop = crop}, x));
        },
        ThrowsMessage<spjit::InvalidArgument>(HasSubstr(text)));
  };

  refused({5, 1}, {2, 12, 2, 5}, "would be -1 x 14; expected 1 x 1 and more");
  refused({4, 0}, {2, 12, 2, 5}, "would be 0 x 15; expected 1 x 1 and more");
  refused({0, 15}, {0, 12, 2, 5}, "without the last 0 rows and 15 columns, would be 4 x 0");
  refused({0, 0}, {2, 12, 0, 5}, "would be 0 x 15");
}

TEST(OrtInterleave, OtherAttributesAreRefused) {
  for (const Interleaving& of :
       {Interleaving{.phases = {0, 1}}, Interleaving{.phases = {1, 1 << 16}},
        Interleaving{.crop = {-1, 0}}, Interleaving{.crop = {0, std::int64_t{1} << 32}},
        Interleaving{.groups = 0}, Interleaving{.groups = std::int64_t{1} << 32}}) {
    EXPECT_THAT([&] { check(of); },
                ThrowsMessage<spjit::InvalidArgument>(HasSubstr("expected phases of 1")));
  }
}

}  // namespace
