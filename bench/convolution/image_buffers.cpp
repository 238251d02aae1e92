#include "bench/convolution/image_buffers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/arithmetic.hpp"
#include "compiler/float64_reference.hpp"
#include "plan/convolution.hpp"
#include "spjit/matrix_io.hpp"

namespace spjit::bench {
namespace {

constexpr std::uint64_t k_image_seed = 20'240'602;
constexpr std::uint64_t k_bias_seed = 20'240'603;
/// Of a bias at most.
constexpr float k_largest_bias = 0.25F;

/// Channels and pixels of images, and where they are.
struct ImagePlaces {
  std::int64_t channels;
  std::int64_t pixels;
  Layout layout;

  [[nodiscard]] std::int64_t floats() const { return channels * pixels; }
  [[nodiscard]] std::int64_t offset(std::int64_t image, std::int64_t channel,
                                    std::int64_t pixel) const {
    const std::int64_t place =
        layout == Layout::tokens_major ? pixel * channels + channel : channel * pixels + pixel;
    return image * floats() + place;
  }
};

std::int64_t output_pixels(const Convolution& shape) {
  return shape.output_height() * shape.output_width();
}

AlignedFloats drawn_images(const ImagePlaces& places, std::int64_t batch) {
  AlignedFloats images(batch * places.floats(), 0.0F);
  for (std::int64_t image = 0; image < batch; ++image) {
    for (std::int64_t channel = 0; channel < places.channels; ++channel) {
      for (std::int64_t pixel = 0; pixel < places.pixels; ++pixel) {
        images.data()[places.offset(image, channel, pixel)] =
            pattern_value(k_image_seed, image * places.channels + channel, pixel);
      }
    }
  }
  return images;
}

/// Corners, the middle of each edge and of the image.
std::vector<std::int64_t> checked_pixels(const Convolution& shape) {
  const std::int64_t height = shape.output_height();
  const std::int64_t width = shape.output_width();
  std::set<std::int64_t> pixels;
  for (const std::int64_t y : {std::int64_t{0}, height / 2, height - 1}) {
    for (const std::int64_t x : {std::int64_t{0}, width / 2, width - 1}) {
      pixels.insert(y * width + x);
    }
  }
  return {pixels.begin(), pixels.end()};
}

/// A pixel of the output of one image.
struct OutputPixel {
  std::int64_t image;
  std::int64_t pixel;
};

/// What all filters make of a pixel.
class PixelReference {
 public:
  PixelReference(const ConvLayer& layer, const float* x, const ImagePlaces& places,
                 const OutputPixel& at)
      : layer_(layer) {
    const std::int64_t taps = layer.shape.kernel_height * layer.shape.kernel_width;
    for (std::int64_t k = 0; k < layer.shape.channels * taps; ++k) {
      const PatchElement element = patch_element(layer.shape, k, at.pixel);
      patch_.push_back(element.pixel < 0
                           ? 0.0
                           : double{x[places.offset(at.image, element.channel, element.pixel)]});
    }
  }

  [[nodiscard]] Reference of_filter(std::int64_t filter, float bias) const {
    const CsrMatrix& a = layer_.weights;
    const std::int64_t group = filter / (a.rows / layer_.shape.groups);
    double sum = bias;
    double magnitude = std::abs(sum);
    const std::int64_t begin = a.row_ptrs[to_size(filter)];
    const std::int64_t end = a.row_ptrs[to_size(filter) + 1];
    for (std::int64_t i = begin; i < end; ++i) {
      const double product =
          double{a.values[to_size(i)]} * patch_[to_size(group * a.cols + a.col_idxs[to_size(i)])];
      sum += product;
      magnitude += std::abs(product);
    }
    return {std::max(sum, 0.0), error_bound(end - begin + 1, magnitude)};
  }

 private:
  const ConvLayer& layer_;
  std::vector<double> patch_;  // a column of B with the channels of all groups
};

}  // namespace

BiasedConvolutions::BiasedConvolutions(std::vector<ConvLayer> given) : layers(std::move(given)) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    AlignedFloats& bias = biases.emplace_back(layers[i].weights.rows, 0.0F);
    for (std::int64_t row = 0; row < layers[i].weights.rows; ++row) {
      bias.data()[row] =
          k_largest_bias * pattern_value(k_bias_seed, static_cast<std::int64_t>(i), row);
    }
  }
}

std::int64_t nnz_of(const std::vector<ConvLayer>& layers) {
  std::int64_t nnz = 0;
  for (const ConvLayer& layer : layers) nnz += layer.weights.nnz();
  return nnz;
}

ImageBuffers::ImageBuffers(const std::vector<ConvLayer>& layers, Layout layout, std::int64_t batch)
    : layout_(layout), batch_(batch) {
  for (const ConvLayer& layer : layers) {
    const Convolution& shape = layer.shape;
    add_layer({shape.channels, shape.height, shape.width},
              {layer.weights.rows, shape.output_height(), shape.output_width()},
              batch * layer.weights.rows * output_pixels(shape), [&] {
                return drawn_images({shape.channels, shape.height * shape.width, layout}, batch);
              });
  }
}

std::string check_layer(const BiasedConvolutions& network, std::size_t layer,
                        const ImageBuffers& buffers, double rounding) {
  const ConvLayer& of = network.layers[layer];
  const ImagePlaces x{of.shape.channels, of.shape.height * of.shape.width, buffers.layout()};
  const ImagePlaces y{of.weights.rows, output_pixels(of.shape), buffers.layout()};
  for (const std::int64_t image : std::set<std::int64_t>{0, buffers.batch() - 1}) {
    for (const std::int64_t pixel : checked_pixels(of.shape)) {
      const PixelReference reference(of, buffers.input(layer), x, {image, pixel});
      for (std::int64_t filter = 0; filter < of.weights.rows; ++filter) {
        const Reference expected =
            reference.of_filter(filter, network.biases[layer].data()[filter]);
        const double ratio = judge(buffers.output(layer)[y.offset(image, filter, pixel)], expected);
        if (ratio <= rounding) continue;
        return fmt::format(
            "wrong: layer {} ({}): image {} filter {} pixel {} is off by {:.2g} "
            "times the bound",
            layer, of.name, image, filter, pixel, ratio);
      }
    }
  }
  return {};
}

}  // namespace spjit::bench
