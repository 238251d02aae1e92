#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "matrix/half_float.hpp"
#include "matrix/model_weights.hpp"
#include "spjit/model_io.hpp"
#include "tests/support/files/safetensors_file.hpp"
#include "tests/unit/matrix/test_support.hpp"

namespace {

using namespace spjit;        // NOLINT(google-build-using-namespace): a test
using namespace spjit::test;  // NOLINT(google-build-using-namespace): a test
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TensorFile opened(const std::string& file) { return TensorFile::of_bytes(as_bytes(file), "m"); }

/// What a header of this JSON is refused with; `data_bytes` follow it.
std::string header_error(const std::string& header, std::size_t data_bytes = 0) {
  const std::string file = safetensors_text(header, std::string(data_bytes, '\0'));
  return message_of<IoError>([&] { static_cast<void>(opened(file)); });
}

StoredWeights only_weights(const TensorFile& file) {
  const std::vector<StoredWeights> all = weights_in(file);
  EXPECT_THAT(all, SizeIs(1));
  return all.at(0);
}

std::string refusal_of(std::initializer_list<TensorBytes> tensors) {
  const std::string file = safetensors(tensors);
  const TensorFile open = opened(file);
  const StoredWeights weights = only_weights(open);
  EXPECT_THAT(message_of<IoError>([&] { static_cast<void>(read_weights(open, weights)); }),
              HasSubstr(weights.what.refusal));
  return weights.what.refusal;
}

TEST(Safetensors, PlainWeightsLoseTheirZeros) {
  const std::string file =
      safetensors({float_tensor("fc.bias", "[2]", {7, 8}),
                   float_tensor("fc.weight", "[2, 3]", {0, 1, -0.0F, 2, 0, NAN})});
  const TensorFile open = opened(file);

  const StoredWeights weights = only_weights(open);
  const CsrMatrix matrix = read_weights(open, weights);

  EXPECT_EQ(weights.what.name, "fc.weight");
  EXPECT_THAT(matrix.row_ptrs, ElementsAre(0, 1, 3));
  EXPECT_THAT(matrix.col_idxs, ElementsAre(1, 0, 2));
  EXPECT_THAT(matrix.values, ElementsAre(1, 2, testing::NanSensitiveFloatEq(NAN)));
  EXPECT_EQ(count_nonzeros(open, weights), 3);
  EXPECT_THAT(read_bias(open, weights), ElementsAre(7, 8));
}

TEST(Safetensors, ManyElementsAreReadInPieces) {
  std::vector<float> values(3 * 30011);
  for (std::size_t i = 0; i < values.size(); i += 7) values[i] = static_cast<float>(i + 1);
  const std::string file = safetensors({float_tensor("w", "[3, 30011]", values)});
  const TensorFile open = opened(file);

  EXPECT_EQ(read_weights(open, only_weights(open)), csr_from_dense(values.data(), 3, 30011));
}

TEST(Safetensors, ConvolutionsAreMatrices) {
  const std::string file =
      safetensors({float_tensor("conv", "[2, 2, 1, 2]", {1, 0, 0, 2, 0, 3, 0, 0})});
  const CsrMatrix matrix = read_weights(opened(file), only_weights(opened(file)));

  EXPECT_EQ(matrix.cols, 4);
  EXPECT_THAT(matrix.col_idxs, ElementsAre(0, 3, 1));
}

TEST(Safetensors, ConvolutionsOfOneDimensionAreMatrices) {
  const std::string file =
      safetensors({float_tensor("conv", "[2, 2, 2]", {1, 0, 0, 2, 0, 3, 0, 0})});
  const TensorFile open = opened(file);
  const StoredWeights weights = only_weights(open);
  const CsrMatrix matrix = read_weights(open, weights);

  EXPECT_TRUE(weights.is_convolution());
  EXPECT_EQ(matrix.cols, 4);
  EXPECT_THAT(matrix.row_ptrs, ElementsAre(0, 2, 3));
  EXPECT_THAT(matrix.col_idxs, ElementsAre(0, 3, 1));
}

TEST(Safetensors, MasksAreFactors) {
  const std::vector<float> original = {1, 2, 3, 4};
  const std::array<std::uint8_t, 4> mask = {0, 1, 1, 0};
  for (const char* dtype : {"BOOL", "U8", "I8"}) {
    const std::string file = safetensors(
        {float_tensor("w_orig", "[2, 2]", original), tensor("w_mask", dtype, "[2, 2]", mask)});
    const TensorFile open = opened(file);
    const StoredWeights weights = only_weights(open);

    EXPECT_EQ(weights.what.name, "w");
    EXPECT_THAT(read_weights(open, weights).values, ElementsAre(2, 3)) << dtype;
    EXPECT_EQ(count_nonzeros(open, weights), 2);
  }
}

TensorBytes bitmask_of_nine_columns() {
  return tensor("w.bitmask", "U8", "[2, 2]", std::array<std::uint8_t, 4>{0x82, 1, 0, 0xFE});
}
TensorBytes shape_of(std::int64_t rows, std::int64_t cols) {
  return tensor("w.shape", "I64", "[2]", std::array<std::int64_t, 2>{rows, cols});
}
TensorBytes row_offsets(std::int64_t second) {
  return tensor("w.row_offsets", "I64", "[2]", std::array<std::int64_t, 2>{0, second});
}

TEST(Safetensors, BitmasksSayWhereValuesAre) {
  // The bits behind the last column mean nothing.
  const std::string file = safetensors({float_tensor("w.compressed", "[3]", {1, 2, 3}),
                                        bitmask_of_nine_columns(), shape_of(2, 9), row_offsets(3)});
  const TensorFile open = opened(file);
  const StoredWeights weights = only_weights(open);

  const CsrMatrix matrix = read_weights(open, weights);

  EXPECT_EQ(weights.what.name, "w");
  EXPECT_THAT(weights.what.shape, ElementsAre(2, 9));
  EXPECT_THAT(matrix.row_ptrs, ElementsAre(0, 3, 3));
  EXPECT_THAT(matrix.col_idxs, ElementsAre(1, 7, 8));
  EXPECT_THAT(matrix.values, ElementsAre(1, 2, 3));
}

/// Of compressed-tensors, int-quantized: [2, 3].
TensorBytes bytes_of_weights() {
  return tensor("w", "I8", "[2, 3]", std::array<std::int8_t, 6>{-128, 0, 3, 0, 127, 0});
}

TEST(Safetensors, BytesHaveAScaleForEachRow) {
  const std::array<std::uint16_t, 2> bf16 = {0x3F00, 0x4000};  // 0.5, 2
  for (const TensorBytes& scale :
       {float_tensor("w_scale", "[2, 1]", {0.5F, 2}), tensor("w_scale", "BF16", "[2]", bf16)}) {
    const std::string file =
        safetensors({bytes_of_weights(), scale,
                     tensor("w_zero_point", "I8", "[2, 1]", std::array<std::int8_t, 2>{0, 0})});
    const TensorFile open = opened(file);
    const StoredWeights weights = only_weights(open);

    EXPECT_EQ(weights.what.dtype, "I8");
    EXPECT_EQ(weights.what.refusal, "");
    EXPECT_THAT(read_weights(open, weights).values, ElementsAre(-128, 3, 127));
    EXPECT_EQ(count_nonzeros(open, weights), 3);
    EXPECT_THAT(read_scale(open, weights), ElementsAre(0.5F, 2));
  }
}

TEST(Safetensors, OneScaleIsThatOfAllRows) {
  const std::string file =
      safetensors({bytes_of_weights(), float_tensor("w_scale", "[1]", {0.25F})});
  EXPECT_THAT(read_scale(opened(file), only_weights(opened(file))), ElementsAre(0.25F, 0.25F));
}

TEST(Safetensors, FloatsHaveNoScale) {
  const std::string file = safetensors({float_tensor("w", "[2, 1]", {1, 2})});
  EXPECT_THAT(read_scale(opened(file), only_weights(opened(file))), IsEmpty());
  // Beside floats it is a tensor as others.
  const std::string two =
      safetensors({float_tensor("w", "[2, 1]", {1, 2}), float_tensor("w_scale", "[2, 1]", {1, 2})});
  EXPECT_THAT(weights_in(opened(two)), SizeIs(2));
}

TEST(Safetensors, NonzeroBytesOfABitmaskHaveAScale) {
  const std::string file =
      safetensors({tensor("w.compressed", "I8", "[3]", std::array<std::int8_t, 3>{1, -2, 3}),
                   bitmask_of_nine_columns(), shape_of(2, 9), row_offsets(3),
                   float_tensor("w_scale", "[2, 1]", {4, 5})});
  const TensorFile open = opened(file);
  const StoredWeights weights = only_weights(open);

  EXPECT_THAT(read_weights(open, weights).values, ElementsAre(1, -2, 3));
  EXPECT_THAT(read_scale(open, weights), ElementsAre(4, 5));
}

TEST(Safetensors, PackedIntegersBeginInTheLowBits) {
  // -8 and 7, then seven columns in the second word of a row of 4 bits.
  const std::array<std::uint32_t, 4> four = {0x888888F0U, 0xFFFFFFF9U, 0x88888888U, 0x00000008U};
  const std::array<std::uint32_t, 6> eight = {0x8080FF00U, 0x80808080U, 0xFFFFFF81U,
                                              0x80808080U, 0x80808080U, 0x00000080U};
  const auto file_of = [](const TensorBytes& packed) {
    return safetensors({packed, tensor("w_shape", "I32", "[2]", std::array<std::int32_t, 2>{2, 9}),
                        float_tensor("w_scale", "[2, 1]", {1, 2})});
  };
  const std::string of_four = file_of(tensor("w_packed", "I32", "[2, 2]", four));
  const std::string of_eight = file_of(tensor("w_packed", "I32", "[2, 3]", eight));

  const CsrMatrix small = read_weights(opened(of_four), only_weights(opened(of_four)));
  const CsrMatrix large = read_weights(opened(of_eight), only_weights(opened(of_eight)));

  EXPECT_EQ(only_weights(opened(of_four)).what.dtype, "I4");
  EXPECT_EQ(only_weights(opened(of_eight)).what.dtype, "I8");
  EXPECT_THAT(small.row_ptrs, ElementsAre(0, 3, 3));
  EXPECT_THAT(small.col_idxs, ElementsAre(0, 1, 8));
  EXPECT_THAT(small.values, ElementsAre(-8, 7, 1));
  EXPECT_THAT(large.row_ptrs, ElementsAre(0, 3, 3));
  EXPECT_THAT(large.col_idxs, ElementsAre(0, 1, 8));
  EXPECT_THAT(large.values, ElementsAre(-128, 127, 1));
  EXPECT_EQ(count_nonzeros(opened(of_four), only_weights(opened(of_four))), 3);
  EXPECT_THAT(read_scale(opened(of_four), only_weights(opened(of_four))), ElementsAre(1, 2));
}

TEST(Safetensors, WrongPackedIntegersAreRefused) {
  const TensorBytes packed =
      tensor("w_packed", "I32", "[2, 2]", std::array<std::int32_t, 4>{0, 0, 0, 0});
  const TensorBytes sizes = tensor("w_shape", "I64", "[2]", std::array<std::int64_t, 2>{2, 9});
  const TensorBytes scale = float_tensor("w_scale", "[2, 1]", {1, 2});
  const auto refused = [&](const TensorBytes& shape, const TensorBytes& factors) {
    return refusal_of({packed, shape, factors});
  };
  EXPECT_THAT(refusal_of({packed, sizes}), HasSubstr("has no scale"));
  EXPECT_THAT(refused(tensor("w_shape", "I64", "[2]", std::array<std::int64_t, 2>{2, 17}), scale),
              HasSubstr("expected I32 [2 x words] with eight integers of 4 bits"));
  EXPECT_THAT(refused(tensor("w_shape", "I64", "[2]", std::array<std::int64_t, 2>{2, -9}), scale),
              HasSubstr("its shape is [2, -9]"));
  EXPECT_THAT(refused(sizes, float_tensor("w_scale", "[2, 3]", {1, 2, 3, 4, 5, 6})),
              HasSubstr("groups of columns have no kernel"));
  EXPECT_THAT(refusal_of({packed, sizes, scale,
                          tensor("w_zero_point", "I32", "[1, 1]", std::array<std::int32_t, 1>{8})}),
              HasSubstr("its zero point is I32 [1, 1]"));
}

TEST(Safetensors, BytesWithoutAUsableScaleAreRefused) {
  EXPECT_THAT(refusal_of({bytes_of_weights()}), HasSubstr("I8 with a scale"));
  EXPECT_THAT(refusal_of({bytes_of_weights(), float_tensor("w_scale", "[3]", {1, 1, 1})}),
              HasSubstr("a float for each of 2 rows"));
  for (const float bad : {0.0F, NAN, INFINITY}) {
    const std::string file =
        safetensors({bytes_of_weights(), float_tensor("w_scale", "[2]", {1, bad})});
    EXPECT_THAT(message_of<IoError>([&] {
                  static_cast<void>(read_scale(opened(file), only_weights(opened(file))));
                }),
                HasSubstr("the scale of row 1 is"));
  }
  const std::string shifted =
      safetensors({bytes_of_weights(), float_tensor("w_scale", "[2]", {1, 2}),
                   tensor("w_zero_point", "I8", "[2]", std::array<std::int8_t, 2>{0, -3})});
  EXPECT_THAT(message_of<IoError>([&] {
                static_cast<void>(read_weights(opened(shifted), only_weights(opened(shifted))));
              }),
              HasSubstr("zero point 1 is -3; expected 0"));
}

TEST(Safetensors, WrongBitmasksAreRefused) {
  const TensorBytes values = float_tensor("w.compressed", "[3]", {1, 2, 3});
  const TensorBytes bits = bitmask_of_nine_columns();

  EXPECT_THAT(refusal_of({values, bits, row_offsets(3)}), HasSubstr("no shape"));
  EXPECT_THAT(refusal_of({values, bits, shape_of(2, 17), row_offsets(3)}),
              HasSubstr("expected U8 [2, 3]"));
  EXPECT_THAT(refusal_of({values, bits, shape_of(-2, 9), row_offsets(3)}), HasSubstr("[-2, 9]"));
  EXPECT_THAT(refusal_of({values, bits, shape_of(2, 9)}), HasSubstr("no row_offsets"));
  const auto reading_fails = [&](const TensorBytes& some, std::int64_t second) {
    const std::string file = safetensors({some, bits, shape_of(2, 9), row_offsets(second)});
    const TensorFile open = opened(file);
    const StoredWeights weights = only_weights(open);
    return message_of<IoError>([&] { static_cast<void>(read_weights(open, weights)); });
  };
  EXPECT_THAT(reading_fails(values, 2), HasSubstr("row 1 begins at 2"));
  EXPECT_THAT(reading_fails(float_tensor("w.compressed", "[2]", {1, 2}), 3),
              HasSubstr("3 bits; expected 2"));
}

TEST(Safetensors, SmallFloatsAreExact) {
  const std::array<std::uint16_t, 6> halves = {0x3C00, 0xC000, 0x0001, 0x7BFF, 0x0400, 0xFC00};
  const std::array<std::uint16_t, 4> brains = {0x3F80, 0xC2F7, 0x0001, 0xFF80};
  const std::string file =
      safetensors({tensor("h", "F16", "[1, 6]", halves), tensor("b", "BF16", "[1, 4]", brains)});
  const TensorFile open = opened(file);
  const std::vector<StoredWeights> all = weights_in(open);

  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(read_weights(open, all.at(1)).values,
              ElementsAre(1, -2, std::ldexp(1.0F, -24), 65504, std::ldexp(1.0F, -14), -infinity));
  EXPECT_THAT(read_weights(open, all.at(0)).values,
              ElementsAre(1, -123.5F, std::ldexp(1.0F, -133), -infinity));
}

TEST(Safetensors, DoublesAreRoundedIfTheyFit) {
  const std::string fits =
      safetensors({tensor("w", "F64", "[1, 2]", std::array<double, 2>{0.1, 1e-60})});
  const std::string large =
      safetensors({tensor("w", "F64", "[1, 2]", std::array<double, 2>{0, 1e39})});

  EXPECT_THAT(read_weights(opened(fits), only_weights(opened(fits))).values, ElementsAre(0.1F));
  EXPECT_THAT(message_of<IoError>([&] {
                static_cast<void>(read_weights(opened(large), only_weights(opened(large))));
              }),
              HasSubstr("tensor 'w': element 1 is 1e+39, which does not fit fp32"));
}

TEST(Safetensors, WhatIsNoMatrixSaysWhy) {
  EXPECT_THAT(refusal_of({tensor("w", "I8", "[1, 2]", std::array<std::int8_t, 2>{})}),
              HasSubstr("dtype is I8"));
  EXPECT_THAT(refusal_of({tensor("w", "F4", "[1, 2]", std::array<std::int8_t, 1>{})}),
              HasSubstr("dtype is F4"));
  EXPECT_THAT(refusal_of({float_tensor("w", "[1, 1, 2, 1, 1]", {1, 2})}),
              HasSubstr("5 dimensions; expected 2, or 3 or 4 of a convolution"));
  EXPECT_THAT(refusal_of({float_tensor("w", "[0, 2147483648]", {})}), HasSubstr("at most"));
  EXPECT_THAT(refusal_of({float_tensor("w", "[0, 2147483647, 2147483647, 2147483647]", {})}),
              HasSubstr("at most"));
  EXPECT_THAT(refusal_of({float_tensor("w_orig", "[1, 2]", {1, 2}),
                          float_tensor("w_mask", "[2, 1]", {1, 2})}),
              HasSubstr("mask is F32 [2, 1]"));
}

TEST(Safetensors, VectorsAndScalarsAreNoWeights) {
  const std::string file =
      safetensors({float_tensor("v", "[2]", {1, 2}), float_tensor("s", "[]", {1})});
  EXPECT_THAT(weights_in(opened(file)), IsEmpty());
}

TEST(Safetensors, RowsWithoutElementsAreLimited) {
  const std::string few = safetensors({float_tensor("w", "[5, 0]", {})});
  const std::string many = safetensors({float_tensor("w", "[2147483647, 0]", {})});

  EXPECT_THAT(read_weights(opened(few), only_weights(opened(few))).row_ptrs, SizeIs(6));
  EXPECT_THAT(message_of<IoError>([&] {
                static_cast<void>(read_weights(opened(many), only_weights(opened(many))));
              }),
              HasSubstr("2147483647 rows"));
}

TEST(Safetensors, BiasesHaveANumberForEachRow) {
  const TensorBytes weights = float_tensor("fc.weight", "[2, 1]", {1, 2});
  const std::string wrong = safetensors({weights, float_tensor("fc.bias", "[3]", {1, 2, 3})});
  const std::string none = safetensors({weights, float_tensor("bias", "[2]", {1, 2})});

  EXPECT_THAT(message_of<IoError>([&] {
                static_cast<void>(read_bias(opened(wrong), only_weights(opened(wrong))));
              }),
              HasSubstr("fc.bias is F32 [3]; expected floats [2]"));
  EXPECT_THAT(read_bias(opened(none), only_weights(opened(none))), IsEmpty());
}

TEST(Safetensors, NumbersInNamesAreOrderedBySize) {
  EXPECT_TRUE(is_before_by_number("layer.2.w", "layer.10.w"));
  EXPECT_FALSE(is_before_by_number("layer.10.w", "layer.2.w"));
  EXPECT_TRUE(is_before_by_number("layer.02", "layer.2"));
  EXPECT_FALSE(is_before_by_number("layer.2", "layer.02"));
  EXPECT_TRUE(is_before_by_number("a", "a1"));
  EXPECT_FALSE(is_before_by_number("a1", "a1"));
  EXPECT_TRUE(is_before_by_number("a9", "b1"));
}

constexpr const char* k_tensor = R"("a": {"dtype": "F32", "shape": [1], "data_offsets": )";

TEST(SafetensorsHeader, TensorsFillTheFile) {
  const std::string one = std::string("{") + k_tensor;
  const std::string two = R"(, "b": {"dtype": "F32", "shape": [1], "data_offsets": )";

  EXPECT_THAT(header_error(one + "[0, 4]}}", 5), HasSubstr("1 bytes follow the last tensor"));
  EXPECT_THAT(header_error(one + "[0, 4]}}", 3), HasSubstr("'a' ends behind the file"));
  EXPECT_THAT(header_error(one + "[4, 8]}}", 8), HasSubstr("'a' begins at byte 4"));
  EXPECT_THAT(header_error(one + "[0, 4]}" + two + "[2, 6]}}", 6), HasSubstr("expected 4"));
  EXPECT_THAT(header_error(one + "[0, 3]}}", 3), HasSubstr("3 bytes; expected 4"));
  EXPECT_THAT(header_error(one + "[4, 0]}}", 4), HasSubstr("expected begin and end"));
  EXPECT_THAT(header_error(one + "[4]}}", 4), HasSubstr("expected begin and end"));
}

TEST(SafetensorsHeader, SizesThatDoNotFitAreRefused) {
  const auto of_shape = [](const std::string& shape) {
    return header_error(
        R"({"a": {"dtype": "F32", "shape": )" + shape + R"(, "data_offsets": [0, 4]}})", 4);
  };
  EXPECT_THAT(of_shape("[4294967296, 4294967296]"), HasSubstr("does not fit 63 bits"));
  EXPECT_THAT(of_shape("[4611686018427387904]"), HasSubstr("does not fit 63 bits"));
  EXPECT_THAT(of_shape("[-1]"), HasSubstr("expected an integer"));
  EXPECT_THAT(of_shape("[1.0]"), HasSubstr("expected an integer"));
  EXPECT_THAT(of_shape("[1e400]"), HasSubstr("header"));
  EXPECT_THAT(of_shape("[NaN]"), HasSubstr("header"));
  EXPECT_THAT(of_shape("[18446744073709551615]"), HasSubstr("expected an integer"));
  EXPECT_THAT(of_shape("3"), HasSubstr("expected an array"));
}

TEST(SafetensorsHeader, HostileTextIsOneLine) {
  for (const std::string& header :
       {std::string("[]"), std::string("{a"), std::string("{}x"), std::string(4000, '['),
        std::string(R"({"a": 1})"), std::string(R"({"a": {}})"),
        std::string(R"({"__metadata__": [1]})"), std::string(R"({"__metadata__": {"a": 1}})"),
        std::string("\xff\xfe{}"),
        std::string(R"({"a": {"dtype": 3, "shape": [], "data_offsets": [0, 0]}})")}) {
    const std::string message = header_error(header);
    EXPECT_TRUE(message.starts_with("m: safetensors header: ")) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(SafetensorsHeader, MessagesSayWhatIsThere) {
  EXPECT_THAT(header_error(R"({"__metadata__": [1]})"),
              HasSubstr("__metadata__ is [1]; expected an object"));
  EXPECT_THAT(header_error(std::string("{") + k_tensor + "[4, 0]}}", 4),
              HasSubstr("\"data_offsets\" of tensor 'a' are [4, 0]; expected begin and end"));
  EXPECT_THAT(header_error(std::string("{") + k_tensor + "[0, 2, 4]}}", 4),
              HasSubstr("are [0, 2, 4]; expected"));
}

TEST(SafetensorsHeader, NamesAreThereOnce) {
  const std::string tensor = R"({"dtype": "F32", "shape": [0], "data_offsets": [0, 0]})";
  EXPECT_THAT(header_error("{\"a\": " + tensor + ", \"a\": " + tensor + "}"),
              HasSubstr("'a' is there twice"));
  EXPECT_THAT(header_error(R"({"__metadata__": {"b": "", "b": ""}})"),
              HasSubstr("'b' is there twice"));
}

TEST(SafetensorsHeader, LengthsThatCannotBeAreRefused) {
  const auto of_file = [](const std::string& file) {
    return message_of<IoError>([&] { static_cast<void>(opened(file)); });
  };
  EXPECT_THAT(of_file("1234567"), HasSubstr("has 7 bytes"));
  EXPECT_THAT(of_file(std::string(8, '\xFF') + "{}"), HasSubstr("18446744073709551615 bytes"));
  EXPECT_THAT(of_file(std::string(8, '\0') + "{}"), HasSubstr("0 bytes: expected 2"));
  EXPECT_THAT(of_file(std::string("\3\0\0\0\0\0\0\0{}", 10)),
              HasSubstr("3 bytes: expected 2 to 2"));
}

TEST(SafetensorsHeader, MetadataIsText) {
  const std::string file = safetensors({}, R"("__metadata__": {"format": "pt"})");
  EXPECT_EQ(opened(file).metadata("format"), "pt");
  EXPECT_EQ(opened(file).metadata("other"), "");
}

TEST(ModelIo, ReadsOneTensorOfAFile) {
  const TemporaryFolder folder;
  const auto path = folder / "m.safetensors";
  const std::string file =
      safetensors({float_tensor("a", "[1, 2]", {0, 3}), float_tensor("b", "[1, 1, 1, 1, 1]", {1})});
  std::ofstream(path, std::ios::binary) << file;

  const std::vector<WeightTensor> listed = list_weights(path);

  ASSERT_THAT(listed, SizeIs(2));
  EXPECT_EQ(listed[0].name, "a");
  EXPECT_EQ(listed[0].refusal, "");
  EXPECT_THAT(listed[1].refusal, HasSubstr("5 dimensions"));
  EXPECT_THAT(load_weights(path, "a").values, ElementsAre(3));
  EXPECT_THAT(load_weight_scale(path, "a"), IsEmpty());
  EXPECT_THAT(message_of<IoError>([&] { static_cast<void>(load_weights(path, "c")); }),
              HasSubstr("there are no weights 'c'"));
}

TEST(ModelIo, AFileThatIsCutWhileItIsReadIsAnError) {
  const TemporaryFolder folder;
  const auto path = folder / "m.safetensors";
  const std::string whole = safetensors({float_tensor("a", "[1, 2]", {0, 3})});
  std::ofstream(path, std::ios::binary) << whole;
  const TensorFile file = TensorFile::open(path, "m");

  std::filesystem::resize_file(path, whole.size() - 1);

  EXPECT_THAT(
      message_of<IoError>([&] { static_cast<void>(read_weights(file, only_weights(file))); }),
      HasSubstr("cut short"));
}

}  // namespace
