#pragma once

/// @file
/// Random layers of every type, and what a scalar evaluation makes of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/host/operands/packing.hpp"
#include "spjit/compiler.hpp"
#include "tests/support/draw.hpp"
#include "tests/support/narrow_elements.hpp"
#include "tests/support/quantized_elements.hpp"
#include "tests/support/spmm_testing.hpp"

namespace spjit::testing_support {

/// Elements of one operand of a batch.
struct TypedPlace {
  Layout layout = Layout::row_major;
  std::int64_t rows = 0;
  std::int64_t n = 0;
  std::int64_t ld = 0;
  std::int64_t width = 1;   ///< of panels
  std::int64_t stride = 0;  ///< between panels
  std::int64_t distance = 0;

  [[nodiscard]] std::size_t at(std::int64_t item, std::int64_t row, std::int64_t column) const {
    const std::int64_t inside = layout == Layout::tokens_major ? column * ld + row
                                : layout == Layout::row_major
                                    ? row * ld + column
                                    : column / width * stride + row * width + column % width;
    return index(item * distance + inside);
  }
  [[nodiscard]] std::int64_t size() const {
    if (layout == Layout::panel_major) return (n + width - 1) / width * stride + 64;
    return (layout == Layout::tokens_major ? n : rows) * ld + 64;
  }
};

/// A layer, its operands and a run of it.
struct TypedRun {
  Problem problem;
  std::int64_t n = 1;
  std::int64_t batch = 1;
  TypedPlace b;
  TypedPlace c;
  std::vector<float> scale;
  std::vector<float> bias;
  UnitOfBytes given;  ///< of Quantization::given
  UnitOfBytes of_c;   ///< of a C of bytes

  [[nodiscard]] bool has_bytes() const {
    return problem.numerics.c == DataType::i8 || problem.numerics.c == DataType::u8;
  }
};

[[nodiscard]] inline double drawn_element(Draw& draw, DataType type) {
  const DataTypeInfo& info = info_of(type);
  if (!info.is_integer) return static_cast<double>(draw.between(-4096, 4096)) * 0x1p-11;
  const auto low = static_cast<std::int64_t>(std::max(info.lowest, -1000.0));
  return static_cast<double>(
      draw.between(low, static_cast<std::int64_t>(std::min(info.largest, 1000.0))));
}

/// A value of A that the type has.
[[nodiscard]] inline float drawn_weight(Draw& draw, DataType type) {
  const double value = drawn_element(draw, type);
  if (info_of(type).is_integer || type == DataType::f32) return static_cast<float>(value);
  return static_cast<float>(narrow_value(type, nearest_narrow(type, value)));
}

[[nodiscard]] inline TypedPlace drawn_place(Draw& draw, std::int64_t rows, std::int64_t n,
                                            bool has_panels) {
  TypedPlace place{.rows = rows, .n = n};
  place.layout = has_panels ? Layout::panel_major
                            : draw.one_of<Layout>({Layout::row_major, Layout::tokens_major});
  place.ld = (place.layout == Layout::tokens_major ? rows : n) + draw.between(0, 3);
  return place;
}

/// Powers of two, of which quotients are often near the middle of two integers, and any others.
[[nodiscard]] inline UnitOfBytes drawn_unit_of_c(Draw& draw, DataType type) {
  UnitOfBytes unit;
  unit.scale = draw.chance(40)
                   ? std::ldexp(1.0F, static_cast<int>(draw.between(-8, 8)))
                   : std::ldexp(1.0F + static_cast<float>(draw.between(0, 4095)) * 0x1p-12F,
                                static_cast<int>(draw.chance(80) ? draw.between(-6, 10)
                                                                 : draw.between(-149, 126)));
  const std::int64_t least = type == DataType::i8 ? -128 : 0;
  unit.zero = static_cast<int>(
      draw.one_of<std::int64_t>({least, least + 255, 0, least + draw.between(0, 255)}));
  return unit;
}

/// Sizes up to which layers are drawn.
struct TypedSizes {
  std::int64_t rows = 12;
  std::int64_t cols = 20;
  std::vector<std::int64_t> n = {0, 1, 3, 16, 19};
};

[[nodiscard]] inline TypedRun drawn_run(Draw& draw, const Numerics& numerics,
                                        const TypedSizes& sizes, bool has_panels) {
  TypedRun run;
  Problem& problem = run.problem;
  problem.numerics = numerics;
  const std::int64_t rows = draw.between(1, sizes.rows);
  const std::int64_t cols = draw.between(1, sizes.cols);
  CsrMatrix matrix =
      random_matrix(rows, cols, 0.6, static_cast<std::uint64_t>(draw.between(1, 999)));
  for (float& value : matrix.values) value = drawn_weight(draw, problem.numerics.a);
  problem.a = std::move(matrix);
  run.n = draw.one_of(sizes.n);
  problem.n = Extent::at_run_time(std::max<std::int64_t>(run.n, 1));
  run.batch = draw.between(0, 3);
  problem.epilogue = {.scale = draw.chance(30),
                      .bias = draw.chance(30),
                      .residual = draw.chance(30),
                      .activation = draw.one_of<Activation>({Activation::none, Activation::relu})};
  if (has_panels) problem.panel_columns = 16;
  run.b = drawn_place(draw, cols, run.n, has_panels);
  run.c = drawn_place(draw, rows, run.n, has_panels);
  problem.b.layout = run.b.layout;
  problem.c.layout = run.c.layout;
  for (std::int64_t row = 0; row < rows; ++row) {
    run.scale.push_back(draw_value(draw, false));
    run.bias.push_back(4 * draw_value(draw, false));
  }
  if (numerics.quantization == Quantization::given) {
    const int least = numerics.b == DataType::i8 ? -128 : 0;
    run.given.scale = draw_value(draw, false);
    run.given.zero = static_cast<int>(
        draw.one_of<std::int64_t>({least, least + 255, 0, least + draw.between(0, 255)}));
  }
  problem.epilogue.bias_first = problem.epilogue.scale && problem.epilogue.bias &&
                                numerics.quantization != Quantization::token && draw.chance(50);
  if (run.has_bytes() && draw.chance(80)) run.of_c = drawn_unit_of_c(draw, numerics.c);
  return run;
}

/// B of a run: numbers of any size, now and then a token of zeros, or with what is not finite.
inline void draw_b(const TypedRun& run, TypedArray& b, Draw& draw) {
  const bool is_quantized = run.problem.numerics.quantization != Quantization::none;
  const bool has_floats = is_quantized && b.type() == DataType::f32;
  const int exponent =
      has_floats && draw.chance(30) ? static_cast<int>(draw.between(-148, 126)) : 0;
  for (std::size_t i = 0; i < b.count(); ++i) {
    b.set(i, std::ldexp(drawn_element(draw, b.type()), exponent));
  }
  if (!has_floats || run.n == 0 || run.batch == 0 || draw.chance(50)) return;
  const std::int64_t column = draw.between(0, run.n - 1);
  const std::int64_t item = draw.between(0, run.batch - 1);
  if (draw.chance(50)) {
    for (std::int64_t row = 0; row < run.b.rows; ++row) {
      b.set(run.b.at(item, row, column), draw.chance(50) ? 0.0 : -0.0);
    }
    return;
  }
  constexpr double k_infinity = std::numeric_limits<double>::infinity();
  b.set(run.b.at(item, draw.between(0, run.b.rows - 1), column),
        draw.one_of<double>({k_infinity, -k_infinity, std::nan(""), -std::nan("")}));
}

/// What the bytes of a column of B stand for.
[[nodiscard]] inline UnitOfBytes expected_unit(const TypedRun& run, const TypedArray& b,
                                               std::int64_t item, std::int64_t column) {
  const Quantization quantization = run.problem.numerics.quantization;
  if (quantization == Quantization::given) return run.given;
  if (quantization == Quantization::none) return {};
  const bool is_token = quantization == Quantization::token;
  std::vector<float> numbers;
  for (std::int64_t i = is_token ? item : 0; i < (is_token ? item + 1 : run.batch); ++i) {
    for (std::int64_t j = is_token ? column : 0; j < (is_token ? column + 1 : run.n); ++j) {
      for (std::int64_t row = 0; row < run.b.rows; ++row) {
        numbers.push_back(static_cast<float>(b.at(run.b.at(i, row, j))));
      }
    }
  }
  return unit_of_bytes(numbers, quantization);
}

/// The sum of an element of C, as the promise has it.
[[nodiscard]] inline double expected_sum(const TypedRun& run, const TypedArray& b,
                                         const UnitOfBytes& unit, std::int64_t item,
                                         std::int64_t row, std::int64_t column) {
  const Quantization quantization = run.problem.numerics.quantization;
  const CsrMatrix& a = *run.problem.a;
  float in_order = 0;
  double exact = 0;
  for (std::int64_t i = a.row_ptrs[index(row)]; i < a.row_ptrs[index(row) + 1]; ++i) {
    double of_b = b.at(run.b.at(item, a.col_idxs[index(i)], column));
    if (quantization == Quantization::given) {
      of_b -= unit.zero;
    } else if (quantization != Quantization::none) {
      of_b = byte_difference(static_cast<float>(of_b), unit, quantization);
    }
    in_order = std::fma(a.values[index(i)], static_cast<float>(of_b), in_order);
    exact += static_cast<double>(a.values[index(i)]) * of_b;
  }
  const bool is_in_order = run.problem.numerics.accumulate.promise == Promise::ordered;
  return is_in_order ? static_cast<double>(in_order) : exact;
}

[[nodiscard]] inline double expected_element(const TypedRun& run, double sum,
                                             const UnitOfBytes& unit, std::int64_t row,
                                             double residual) {
  const Epilogue& epilogue = run.problem.epilogue;
  const bool is_quantized = run.problem.numerics.quantization != Quantization::none;
  if (epilogue.empty() && !is_quantized && !run.has_bytes()) return sum;
  auto value = static_cast<float>(sum);
  if (epilogue.bias_first) value += run.bias[index(row)];
  const float scale = epilogue.scale ? run.scale[index(row)] : 1;
  if (epilogue.scale || is_quantized) value *= unit.scale * scale;
  if (epilogue.bias && !epilogue.bias_first) value += run.bias[index(row)];
  if (epilogue.residual) {
    value += run.has_bytes() ? number_of_c(residual, run.of_c) : static_cast<float>(residual);
  }
  if (epilogue.activation == Activation::relu) value = value < 0 ? 0 : value;
  if (run.has_bytes()) return byte_of_c(value, run.of_c, run.problem.numerics.c);
  return static_cast<double>(value);
}

/// A scale and a zero point of a C of bytes.
inline void set_unit_of_c(Arguments& arguments, DataType type) {
  static constexpr float k_scale = 0.375F;
  if (type != DataType::i8 && type != DataType::u8) return;
  arguments.c_scale = &k_scale;
  arguments.c_zero_point = type == DataType::u8 ? 100 : -5;
}

/// Runs it and compares all of C, and what is between its rows.
inline void expect_run(TypedRun& run, const Kernel& kernel, Draw& draw) {
  const Numerics& numerics = run.problem.numerics;
  for (TypedPlace* place : {&run.b, &run.c}) {
    place->width = std::max<std::int64_t>(kernel.info().panel_columns, 1);
    place->stride = PanelLayout{place->rows, place->n, place->width}.stride();
    place->distance = place->size();
  }
  const auto batch = index(std::max<std::int64_t>(run.batch, 1));
  TypedArray b(numerics.b, index(run.b.distance) * batch);
  TypedArray c(numerics.c, index(run.c.distance) * batch);
  TypedArray residual(numerics.c, index(run.c.distance) * batch);
  draw_b(run, b, draw);
  for (std::int64_t item = 0; run.b.layout == Layout::panel_major && item < run.batch; ++item) {
    for (std::int64_t row = 0; row < run.b.rows; ++row) {
      for (std::int64_t past = run.n; past % run.b.width != 0; ++past) {
        b.set(run.b.at(item, row, past), 0);
      }
    }
  }
  for (std::size_t i = 0; i < c.count(); ++i) {
    c.set(i, 77);
    residual.set(i, drawn_element(draw, numerics.c));
  }
  TypedArray expected = c;
  for (std::int64_t item = 0; item < run.batch; ++item) {
    for (std::int64_t column = 0; column < run.n; ++column) {
      const UnitOfBytes unit = expected_unit(run, b, item, column);
      for (std::int64_t row = 0; row < run.c.rows; ++row) {
        const std::size_t at = run.c.at(item, row, column);
        const double sum = expected_sum(run, b, unit, item, row, column);
        expected.set(at, expected_element(run, sum, unit, row, residual.at(at)));
      }
    }
    for (std::int64_t row = 0; row < run.c.rows; ++row) {
      const bool has_panels = run.c.layout == Layout::panel_major;
      for (std::int64_t past = run.n; has_panels && past % run.c.width != 0; ++past) {
        expected.set(run.c.at(item, row, past), 0);
      }
    }
  }
  const auto strides_of = [](const TypedPlace& place) {
    const bool has_panels = place.layout == Layout::panel_major;
    return Strides{.ld = has_panels ? 0 : place.ld, .distance = place.distance};
  };
  Arguments arguments{.b = b.operand(strides_of(run.b)),
                      .c = c.operand(strides_of(run.c)),
                      .n = run.n,
                      .batch = run.batch};
  const Epilogue& epilogue = run.problem.epilogue;
  if (epilogue.scale) arguments.scale = run.scale.data();
  if (epilogue.bias) arguments.bias = run.bias.data();
  if (epilogue.residual) arguments.residual = residual.operand({.distance = run.c.distance});
  if (numerics.quantization == Quantization::given) {
    arguments.b_scale = &run.given.scale;
    arguments.b_zero_point = run.given.zero;
  }
  if (run.has_bytes() && (run.of_c.scale != 1 || run.of_c.zero != 0)) {
    arguments.c_scale = &run.of_c.scale;
    arguments.c_zero_point = run.of_c.zero;
  }

  kernel.run(arguments);

  EXPECT_EQ(kernel.info().numerics, numerics);
  for (std::size_t i = 0; i < c.count(); ++i) {
    // Of a NaN the bits are not stated.
    if (std::isnan(expected.at(i)) && std::isnan(c.at(i))) continue;
    ASSERT_EQ(c.element(i), expected.element(i))
        << to_string(numerics) << " at " << i << ": " << c.at(i) << ", expected " << expected.at(i);
  }
}

}  // namespace spjit::testing_support
