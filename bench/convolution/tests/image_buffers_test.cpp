#include "bench/convolution/image_buffers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "bench/convolution/tests/small_network.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;
using spjit::testing_support::small_network;
using testing::HasSubstr;
using testing::StartsWith;

TEST(ImageBuffers, ChainLayersBySizeOfImage) {
  const ImageBuffers images(small_network(), Layout::row_major, 2);

  EXPECT_NE(images.input(0), images.output(0));
  EXPECT_EQ(images.input(1), images.output(0));
  EXPECT_EQ(images.input(2), images.output(1));
  EXPECT_EQ(images.input(3), images.output(2));
}

TEST(ImageBuffers, HaveTheSameImagesInBothLayouts) {
  const ImageBuffers planes(small_network(), Layout::row_major, 2);
  const ImageBuffers pixels(small_network(), Layout::tokens_major, 2);
  constexpr std::int64_t k_pixels = 120;

  EXPECT_EQ(planes.input(0)[k_pixels], pixels.input(0)[1]) << "channel 1, pixel 0";
  EXPECT_EQ(planes.input(0)[(3 + 2) * k_pixels + 7], pixels.input(0)[(k_pixels + 7) * 3 + 2]);
}

/// Biases alone: weights without entries.
class CheckLayer : public testing::Test {
 protected:
  static BiasedConvolutions network() {
    std::vector<ConvLayer> layers = small_network();
    layers.resize(1);
    CsrMatrix& weights = layers[0].weights;
    weights = CsrMatrix{16, 45, std::vector<std::int64_t>(17, 0), {}, {}};
    return BiasedConvolutions(std::move(layers));
  }

  void fill() {
    for (std::int64_t image = 0; image < 2; ++image) {
      for (std::int64_t filter = 0; filter < 16; ++filter) {
        for (std::int64_t pixel = 0; pixel < 30; ++pixel) {
          at(image, filter, pixel) = std::max(0.0F, network_.biases[0].data()[filter]);
        }
      }
    }
  }
  float& at(std::int64_t image, std::int64_t filter, std::int64_t pixel) {
    return images_.output(0)[(image * 16 + filter) * 30 + pixel];
  }

  BiasedConvolutions network_ = network();
  ImageBuffers images_{network_.layers, Layout::row_major, 2};
};

TEST_F(CheckLayer, TakesWhatIsRight) {
  fill();
  EXPECT_EQ(check_layer(network_, 0, images_, 1), "");
}

TEST_F(CheckLayer, FindsWhatIsNot) {
  fill();
  at(1, 3, 29) += 1;
  const std::string found = check_layer(network_, 0, images_, 1);
  EXPECT_THAT(found, StartsWith("wrong: layer 0 (stem): image 1 filter 3 pixel 29 is off by"));
}

TEST_F(CheckLayer, FindsWhatWasNotWritten) {
  fill();
  images_.spoil();
  EXPECT_THAT(check_layer(network_, 0, images_, 64), HasSubstr("image 0 filter 0 pixel 0"));
}

}  // namespace
