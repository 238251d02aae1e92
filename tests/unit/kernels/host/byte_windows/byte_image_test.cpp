// The family `byte_windows`: convolutions of bytes against scalar loops and `reference`.

#include "kernels/host/byte_windows/byte_image.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/convolution_cases.hpp"
#include "tests/support/typed_layers.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using testing::HasSubstr;
using enum DataType;

/// An image and what a scalar loop makes of it. Channels, taps and pixels are looked at one by one;
/// nothing here knows how kernels cut an image.
struct ImageRun {
  Problem problem;
  Convolution of;  ///< of the run
  std::int64_t batch = 1;
  TypedPlace x;
  TypedPlace y;
  std::vector<float> scale;
  std::vector<float> bias;
  UnitOfBytes given;
  std::vector<float> dense;  ///< [filters x channels / groups x taps]
};

CsrMatrix filters_of_bytes(Draw& draw, std::int64_t rows, std::int64_t cols) {
  CsrMatrix matrix = planted_filters(rows, cols, draw.between(1, 70));
  const bool has_extremes = draw.chance(30);
  for (float& value : matrix.values) {
    value = static_cast<float>(has_extremes ? draw.one_of<std::int64_t>({-128, 127})
                                            : draw.between(-128, 127));
  }
  return matrix;
}

ImageRun drawn_image_run(Draw& draw, const Numerics& numerics) {
  ImageRun run;
  const std::int64_t groups = draw.one_of<std::int64_t>({1, 1, 1, 2, 3});
  Convolution& of = run.of;
  of.channels = groups * draw.one_of<std::int64_t>({1, 2, 3, 5, 16, 17, 33});
  of.kernel_height = draw.one_of<std::int64_t>({1, 2, 3, 3, 5});
  of.kernel_width = draw.one_of<std::int64_t>({1, 2, 3, 3, 7});
  of.stride_height = draw.between(1, 3);
  of.stride_width = draw.between(1, 3);
  of.dilation_height = draw.one_of<std::int64_t>({1, 1, 2});
  of.dilation_width = draw.one_of<std::int64_t>({1, 1, 2, 3});
  of.pad_top = draw.between(0, 3);
  of.pad_left = draw.between(0, 3);
  of.pad_bottom = draw.between(0, 3);
  of.pad_right = draw.between(0, 3);
  of.height = (of.kernel_height - 1) * of.dilation_height + draw.between(1, 12);
  of.width = (of.kernel_width - 1) * of.dilation_width +
             draw.one_of<std::int64_t>({1, 2, 5, 8, 9, 17, 40, 300});
  of.groups = groups;
  // Now and then more than the rows of C whose bytes are stored together.
  const std::int64_t filters = groups * draw.between(1, groups == 1 && draw.chance(15) ? 140 : 12);
  const std::int64_t taps = of.kernel_height * of.kernel_width;
  const std::int64_t cols = of.channels / groups * taps;
  Problem& problem = run.problem;
  problem.operation = Operation::conv2d;
  problem.numerics = numerics;
  problem.a = filters_of_bytes(draw, filters, cols);
  problem.convolution = of;
  if (draw.chance(50)) {  // images of another size are what was typical
    problem.n = Extent::at_run_time(0);
    problem.convolution->height += draw.between(0, 5);
    problem.convolution->width += draw.between(0, 5);
  }
  problem.epilogue = {.scale = draw.chance(50),
                      .bias = draw.chance(50),
                      .residual = draw.chance(20),
                      .activation = draw.one_of<Activation>({Activation::none, Activation::relu})};
  run.dense.assign(index(filters * cols), 0);
  const CsrMatrix& a = *problem.a;
  for (std::int64_t row = 0; row < filters; ++row) {
    for (std::int64_t i = a.row_ptrs[index(row)]; i < a.row_ptrs[index(row) + 1]; ++i) {
      run.dense[index(row * cols + a.col_idxs[index(i)])] = a.values[index(i)];
    }
  }
  run.batch = draw.one_of<std::int64_t>({0, 1, 1, 3});
  run.x = drawn_place(draw, of.channels, of.height * of.width, false);
  run.y = drawn_place(draw, filters, of.output_height() * of.output_width(), false);
  problem.b.layout = run.x.layout;
  problem.c.layout = run.y.layout;
  for (TypedPlace* const place : {&run.x, &run.y}) place->distance = place->size();
  for (std::int64_t row = 0; row < filters; ++row) {
    run.scale.push_back(draw_value(draw, false));
    run.bias.push_back(4 * draw_value(draw, false));
  }
  if (numerics.quantization == Quantization::given) {
    const int least = numerics.b == i8 ? -128 : 0;
    run.given.scale = draw_value(draw, false);
    run.given.zero = static_cast<int>(
        draw.one_of<std::int64_t>({least, least + 255, 0, least + draw.between(0, 255)}));
  }
  return run;
}

UnitOfBytes unit_of(const ImageRun& run, const TypedArray& x) {
  const Quantization how = run.problem.numerics.quantization;
  if (how == Quantization::given) return run.given;
  if (how == Quantization::none) return {};
  std::vector<float> numbers;
  for (std::int64_t item = 0; item < run.batch; ++item) {
    for (std::int64_t pixel = 0; pixel < run.x.n; ++pixel) {
      for (std::int64_t channel = 0; channel < run.x.rows; ++channel) {
        numbers.push_back(static_cast<float>(x.at(run.x.at(item, channel, pixel))));
      }
    }
  }
  return unit_of_bytes(numbers, how);
}

/// The sum of one pixel of the output.
double sum_of(const ImageRun& run, const TypedArray& x, const UnitOfBytes& unit, std::int64_t item,
              std::int64_t filter, std::int64_t pixel) {
  const Convolution& of = run.of;
  const std::int64_t channels = of.channels / of.groups;
  const std::int64_t first = filter / (run.y.rows / of.groups) * channels;
  const std::int64_t row = pixel / of.output_width() * of.stride_height - of.pad_top;
  const std::int64_t column = pixel % of.output_width() * of.stride_width - of.pad_left;
  std::int64_t sum = 0;
  std::size_t at = index(filter * channels * of.kernel_height * of.kernel_width);
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    for (std::int64_t r = 0; r < of.kernel_height; ++r) {
      for (std::int64_t s = 0; s < of.kernel_width; ++s) {
        const auto weight = static_cast<std::int64_t>(run.dense[at++]);
        const std::int64_t py = row + r * of.dilation_height;
        const std::int64_t px = column + s * of.dilation_width;
        if (py < 0 || py >= of.height || px < 0 || px >= of.width) continue;
        double value = x.at(run.x.at(item, first + channel, py * of.width + px));
        const Quantization how = run.problem.numerics.quantization;
        if (how == Quantization::given) value -= unit.zero;
        if (how == Quantization::tensor) {
          value = byte_difference(static_cast<float>(value), unit, how);
        }
        sum += weight * static_cast<std::int64_t>(value);
      }
    }
  }
  return static_cast<double>(sum);
}

double element_of(const ImageRun& run, double sum, const UnitOfBytes& unit, std::int64_t filter,
                  double residual) {
  const Epilogue& epilogue = run.problem.epilogue;
  const bool is_quantized = run.problem.numerics.quantization != Quantization::none;
  if (epilogue.empty() && !is_quantized) return sum;
  auto value = static_cast<float>(sum);
  const float scale = epilogue.scale ? run.scale[index(filter)] : 1;
  if (epilogue.scale || is_quantized) value *= unit.scale * scale;
  if (epilogue.bias) value += run.bias[index(filter)];
  if (epilogue.residual) value += static_cast<float>(residual);
  if (epilogue.activation == Activation::relu) value = value < 0 ? 0 : value;
  return static_cast<double>(value);
}

void draw_image(const ImageRun& run, TypedArray& x, Draw& draw) {
  const DataTypeInfo& info = info_of(x.type());
  const bool has_extremes = draw.chance(30);
  for (std::size_t i = 0; i < x.count(); ++i) {
    const bool is_extreme = has_extremes && info.is_integer;
    x.set(i, is_extreme ? draw.one_of<double>({info.lowest, info.largest})
                        : drawn_element(draw, x.type()));
  }
  if (info.is_integer || run.batch == 0 || draw.chance(80)) return;
  x.set(run.x.at(0, 0, 0), draw.one_of<double>({std::numeric_limits<double>::infinity(),
                                                std::numeric_limits<double>::quiet_NaN()}));
}

void expect_image_run(const ImageRun& run, const Kernel& kernel, Draw& draw) {
  const Numerics& numerics = run.problem.numerics;
  const auto batch = index(std::max<std::int64_t>(run.batch, 1));
  TypedArray x(numerics.b, index(run.x.distance) * batch);
  TypedArray y(numerics.c, index(run.y.distance) * batch);
  TypedArray residual(numerics.c, index(run.y.distance) * batch);
  draw_image(run, x, draw);
  for (std::size_t i = 0; i < y.count(); ++i) {
    y.set(i, drawn_element(draw, numerics.c));
    residual.set(i, drawn_element(draw, numerics.c));
  }
  TypedArray expected = y;
  const UnitOfBytes unit = unit_of(run, x);
  const bool has_bytes = numerics.c == DataType::i8 || numerics.c == DataType::u8;
  Arguments of_bytes;
  set_unit_of_c(of_bytes, numerics.c);
  const UnitOfBytes of_c{has_bytes ? *of_bytes.c_scale : 1, of_bytes.c_zero_point};
  for (std::int64_t item = 0; item < run.batch; ++item) {
    for (std::int64_t filter = 0; filter < run.y.rows; ++filter) {
      for (std::int64_t pixel = 0; pixel < run.y.n; ++pixel) {
        const std::size_t at = run.y.at(item, filter, pixel);
        const double sum = std::isnan(unit.scale) ? 0 : sum_of(run, x, unit, item, filter, pixel);
        const double added =
            has_bytes ? static_cast<double>(number_of_c(residual.at(at), of_c)) : residual.at(at);
        const double value = element_of(run, sum, unit, filter, added);
        expected.set(at,
                     has_bytes ? byte_of_c(static_cast<float>(value), of_c, numerics.c) : value);
      }
    }
  }
  Arguments arguments{.b = x.operand({.ld = run.x.ld, .distance = run.x.distance}),
                      .c = y.operand({.ld = run.y.ld, .distance = run.y.distance}),
                      .height = run.of.height,
                      .width = run.of.width,
                      .batch = run.batch};
  if (!kernel.info().convolution) {
    arguments.n = run.y.n;
    arguments.height = 0;
    arguments.width = 0;
  }
  const Epilogue& epilogue = run.problem.epilogue;
  if (epilogue.scale) arguments.scale = run.scale.data();
  if (epilogue.bias) arguments.bias = run.bias.data();
  if (epilogue.residual) arguments.residual = residual.operand({.distance = run.y.distance});
  if (numerics.quantization == Quantization::given) {
    arguments.b_scale = &run.given.scale;
    arguments.b_zero_point = run.given.zero;
  }
  set_unit_of_c(arguments, numerics.c);

  kernel.run(arguments);

  for (std::size_t i = 0; i < y.count(); ++i) {
    if (std::isnan(expected.at(i)) && std::isnan(y.at(i))) continue;
    ASSERT_EQ(y.element(i), expected.element(i))
        << to_string(numerics) << ", " << to_string(run.of) << " at " << i << ": " << y.at(i)
        << ", expected " << expected.at(i);
  }
}

Numerics drawn_numerics(Draw& draw) {
  const auto how =
      draw.one_of<Quantization>({Quantization::none, Quantization::given, Quantization::tensor});
  return {i8, how == Quantization::tensor ? f32 : draw.one_of<DataType>({i8, u8}),
          draw.one_of<DataType>({f32, f32, i32, i8, u8, bf16}), Accumulate::integer(), how};
}

Kernel compiled_image(const Problem& problem, const std::string& family, HostIsa isa, int threads) {
  CompileOptions options = options_of(isa);
  options.policy.family = family;
  options.resources.threads = threads;
  return Compiler(options, uncached()).compile(problem);
}

class ByteImages : public testing::TestWithParam<HostIsa> {
 protected:
  void SetUp() override {
    if (!Target(GetParam()).runs_here()) GTEST_SKIP() << "no " << to_string(GetParam()) << " here";
  }

  static void expect_drawn_image(std::uint64_t seed, const std::string& family, int threads) {
    Draw draw(seed);
    const Numerics numerics = drawn_numerics(draw);
    ImageRun run = drawn_image_run(draw, numerics);
    SCOPED_TRACE(seed);

    expect_image_run(run, compiled_image(run.problem, family, GetParam(), threads), draw);
  }
};

TEST_P(ByteImages, AreTheScalarOnes) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    expect_drawn_image(seed, "byte_windows", seed % 3 == 0 ? 3 : 1);

    if (HasFatalFailure()) return;
  }
}

TEST_P(ByteImages, OfTheReferenceAreTheScalarOnes) {
  for (std::uint64_t seed = 1000; seed < 1060; ++seed) {
    expect_drawn_image(seed, "reference", 1);

    if (HasFatalFailure()) return;
  }
}

/// C that is computed in tiles of rows and in tiles of a row, more than one of each.
TEST_P(ByteImages, OfManyTilesAreTheScalarOnes) {
  for (const Layout layout : {Layout::row_major, Layout::tokens_major}) {
    for (const auto& [height, width] : {std::pair{190, 70}, std::pair{2, 5000}}) {
      Draw draw(7);
      ImageRun run =
          drawn_image_run(draw, {i8, u8, f32, Accumulate::integer(), Quantization::given});
      run.of = {.channels = 40,
                .height = height,
                .width = width,
                .kernel_height = 2,
                .kernel_width = 3,
                .pad_left = 1,
                .pad_bottom = 1,
                .pad_right = 1};
      run.problem.n = {};
      run.problem.convolution = run.of;
      run.problem.a = filters_of_bytes(draw, 3, 240);
      run.dense.assign(3 * 240, 0);
      const CsrMatrix& a = *run.problem.a;
      for (std::int64_t row = 0; row < 3; ++row) {
        for (std::int64_t i = a.row_ptrs[index(row)]; i < a.row_ptrs[index(row) + 1]; ++i) {
          run.dense[index(row * 240 + a.col_idxs[index(i)])] = a.values[index(i)];
        }
      }
      run.scale = {0.5F, -1, 3};
      run.bias = {1, 2, 3};
      run.batch = 1;
      run.x = {.rows = 40, .n = height * width, .ld = height * width};
      run.y = {.layout = layout,
               .rows = 3,
               .n = height * width,
               .ld = layout == Layout::row_major ? height * width : 3};
      run.problem.b.layout = Layout::row_major;
      run.problem.c.layout = layout;
      for (TypedPlace* const place : {&run.x, &run.y}) place->distance = place->size();

      for (const int threads : {1, 3}) {
        expect_image_run(run, compiled_image(run.problem, "byte_windows", GetParam(), threads),
                         draw);
      }

      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(ByteImages, TakeTheValuesOfARun) {
  Draw draw(11);
  const Convolution of = padded_3x3(19, 6, 9);
  Problem problem;
  problem.operation = Operation::conv2d;
  problem.numerics = {i8, u8, i32, Accumulate::integer()};
  problem.a = filters_of_bytes(draw, 21, 19 * 9);
  problem.convolution = of;
  Problem at_run_time = problem;
  at_run_time.runtime_values = true;
  const Kernel fixed = compiled_image(problem, "byte_windows", GetParam(), 1);
  const Kernel kernel = compiled_image(at_run_time, "byte_windows", GetParam(), 1);
  TypedArray x(u8, 19 * 54);
  for (std::size_t i = 0; i < x.count(); ++i) x.set(i, drawn_element(draw, u8));
  TypedArray expected(i32, 21 * 54);
  TypedArray y(i32, 21 * 54);
  const PreparedValues values = kernel.prepare_values(problem.a->values);

  fixed.run({.b = x.operand(), .c = expected.operand()});
  kernel.run({.b = x.operand(), .c = y.operand(), .values = &values});

  for (std::size_t i = 0; i < y.count(); ++i) ASSERT_EQ(y.at(i), expected.at(i)) << i;
}

INSTANTIATE_TEST_SUITE_P(Isas, ByteImages, testing::Values(HostIsa::avx2, HostIsa::avx512),
                         [](const auto& isa) { return std::string(to_string(isa.param)); });

TEST(ByteImage, RefusesTapsThatAreTooFarApart) {
  Convolution of{.channels = 1, .kernel_height = 3, .dilation_height = 1 << 20};
  of.height = of.width = (1 << 21) + 1;
  const ByteTaps taps(of);
  const std::vector<std::uint32_t> columns = {0};
  std::vector<std::uint32_t> places(1);

  EXPECT_THAT([&] { taps.place(columns, std::int64_t{1} << 20, places.data()); },
              testing::ThrowsMessage<Error>(HasSubstr("bytes of the image apart; expected less")));
  EXPECT_NO_THROW(taps.place(columns, 1 << 10, places.data()));
}

}  // namespace
