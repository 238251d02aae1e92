#include "kernels/cuda/unrolled/cuda_patches.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace {

using namespace spjit;

/// 3x3 with padding 1.
CudaLayer layer_of(Layout layout, std::int64_t kernel = 3) {
  CudaLayer layer;
  layer.b_layout = layout;
  layer.convolution = {.channels = 4,
                       .height = 10,
                       .width = 20,
                       .kernel_height = kernel,
                       .kernel_width = kernel,
                       .pad_top = 1,
                       .pad_left = 1,
                       .pad_bottom = 1,
                       .pad_right = 1};
  return layer;
}

std::string loads(const CudaPatches& patches, const std::vector<std::int64_t>& rows) {
  SourceText text(0);
  MovingPointer b("pb");
  for (const std::int64_t row : rows) static_cast<void>(patches.ptx_load(text, row, b));
  return std::move(text).take();
}

TEST(CudaPatches, AreAtConstantOffsetsOfChannelAndTap) {
  // Row (c, r, s) = 9 c + 3 r + s.
  const CudaPatches planes(layer_of(Layout::row_major), 201);
  const CudaPatches pixels(layer_of(Layout::tokens_major), 7);

  EXPECT_EQ(loads(planes, {0, 4, 11, 35}),
            "@valid0 ld.global.nc.f32 t0,[pb+0];\n"
            "ld.global.nc.f32 b,[pb+84];\n"
            "@valid2 ld.global.nc.f32 t2,[pb+812];\n"
            "@valid8 ld.global.nc.f32 t8,[pb+2580];\n");
  EXPECT_EQ(loads(pixels, {0, 4, 11, 35}),
            "@valid0 ld.global.nc.f32 t0,[pb+0];\n"
            "ld.global.nc.f32 b,[pb+588];\n"
            "@valid2 ld.global.nc.f32 t2,[pb+60];\n"
            "@valid8 ld.global.nc.f32 t8,[pb+1188];\n");
}

TEST(CudaPatches, OfManyTapsShareARegisterThatIsZeroBefore) {
  const CudaPatches patches(layer_of(Layout::row_major, 7), 200);

  EXPECT_EQ(loads(patches, {0}), "mov.f32 b,0f00000000;\n@valid0 ld.global.nc.f32 b,[pb+0];\n");
}

TEST(CudaPatches, MoveThePointerForthAndBack) {
  const CudaPatches pixels(layer_of(Layout::tokens_major), 50'000);

  EXPECT_EQ(loads(pixels, {8, 9}),
            "add.s64 pb,pb,8400000;\n@valid8 ld.global.nc.f32 t8,[pb+0];\n"
            "add.s64 pb,pb,-8399996;\n@valid0 ld.global.nc.f32 t0,[pb+0];\n");
}

TEST(CudaPatches, OfNoConvolutionAreRowsOfB) {
  const CudaPatches rows({}, 100);

  EXPECT_FALSE(rows.are_patches());
  EXPECT_EQ(rows.words(), 0);
  EXPECT_EQ(loads(rows, {0, 3}), "ld.global.nc.f32 b,[pb+0];\nld.global.nc.f32 b,[pb+1200];\n");
  EXPECT_EQ(b_rows({}, 7), 7);
  EXPECT_EQ(b_columns({}, 9), 9);
  EXPECT_EQ(b_rows(layer_of(Layout::row_major), 36), 4);
  EXPECT_EQ(b_columns(layer_of(Layout::row_major), 200), 200);
}

}  // namespace
