#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "matrix/npy_reader.hpp"
#include "matrix/writers.hpp"
#include "test_support.hpp"

namespace spjit {
namespace {

using test::as_bytes;
using test::message_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// The elements as bytes, in the other order if asked.
template <typename Element>
std::string raw(const std::vector<Element>& elements, bool swapped = false) {
  std::string bytes;
  for (const Element element : elements) {
    std::string one(sizeof(Element), '\0');
    std::memcpy(one.data(), &element, sizeof(Element));
    bytes += swapped ? std::string(one.rbegin(), one.rend()) : one;
  }
  return bytes;
}

// A file of the given version whose header is `dict`, unpadded.
std::string npy(const std::string& dict, const std::string& data, int version = 1) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(version);
  file += '\0';
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  for (std::size_t byte = 0; byte < length_bytes; ++byte) {
    file += static_cast<char>((dict.size() >> (8 * byte)) & 0xFFU);
  }
  return file + dict + data;
}

std::string dict(const std::string& descr, const std::string& shape,
                 const std::string& fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
}

std::vector<float> floats(const std::string& file) {
  return decode_dense(parse_npy_array(as_bytes(file), "x.npy"), "x.npy").values;
}

std::string npy_error(const std::string& file) {
  std::string message = message_of<IoError>(
      [&] { static_cast<void>(parse_npy(as_bytes(file), "x.npy", LoadOptions{})); });
  EXPECT_THAT(message, StartsWith("x.npy: "));
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return message;
}

TEST(NpyReader, ReadsEveryFormatVersion) {
  const std::string data = raw<float>({1, 0, 2, 3, 0, 4});

  for (const int version : {1, 2, 3}) {
    const std::string file = npy(dict("<f4", "(2, 3)"), data, version);
    const CsrMatrix matrix = parse_npy(as_bytes(file), "x.npy", {});

    EXPECT_EQ(matrix.rows, 2);
    EXPECT_THAT(matrix.col_idxs, ElementsAre(0, 2, 0, 2));
    EXPECT_THAT(matrix.values, ElementsAre(1, 2, 3, 4));
  }
}

TEST(NpyReader, ReadsFortranOrder) {
  const std::string file = npy(dict("<f4", "(2, 3)", "True"), raw<float>({1, 4, 2, 5, 3, 6}));

  EXPECT_THAT(floats(file), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(NpyReader, ReadsEveryRealTypeInBothByteOrders) {
  const std::string shape = "(3,)";
  const auto check = [&](const char* type, auto zero) {
    using Element = decltype(zero);
    const std::vector<Element> elements = {Element{0}, Element{1}, Element{100}};
    EXPECT_THAT(floats(npy(dict("<" + std::string(type), shape), raw(elements))),
                ElementsAre(0, 1, 100));
    EXPECT_THAT(floats(npy(dict(">" + std::string(type), shape), raw(elements, true))),
                ElementsAre(0, 1, 100));
  };

  check("f4", float{});
  check("f8", double{});
  check("i1", std::int8_t{});
  check("i2", std::int16_t{});
  check("i4", std::int32_t{});
  check("i8", std::int64_t{});
  check("u1", std::uint8_t{});
  check("u2", std::uint16_t{});
  check("u4", std::uint32_t{});
  check("u8", std::uint64_t{});
  EXPECT_THAT(floats(npy(dict("|i1", shape), raw<std::int8_t>({-1, 0, 5}))), ElementsAre(-1, 0, 5));
  EXPECT_THAT(floats(npy(dict("|b1", shape), raw<std::uint8_t>({0, 1, 7}))), ElementsAre(0, 1, 1));
}

TEST(NpyReader, ReadsHalfPrecision) {
  // 1, -2, the largest, the smallest normal, the smallest denormal, -0, infinity, NaN.
  const std::string data =
      raw<std::uint16_t>({0x3C00, 0xC000, 0x7BFF, 0x0400, 0x0001, 0x8000, 0x7C00, 0x7E00});

  const std::vector<float> values = floats(npy(dict("<f2", "(8,)"), data));

  EXPECT_EQ(values[0], 1.0F);
  EXPECT_EQ(values[1], -2.0F);
  EXPECT_EQ(values[2], 65504.0F);
  EXPECT_EQ(values[3], 0x1p-14F);
  EXPECT_EQ(values[4], 0x1p-24F);
  EXPECT_TRUE(std::signbit(values[5]));
  EXPECT_EQ(values[6], std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(values[7]));
}

TEST(NpyReader, ReadsEmptyArraysAndVectors) {
  const DenseMatrix row = decode_dense(
      parse_npy_array(as_bytes(npy(dict("<f4", "(2,)"), raw<float>({1, 2}))), "x.npy"), "x.npy");

  EXPECT_EQ(row.rows, 1);
  EXPECT_EQ(row.cols, 2);
  EXPECT_EQ(parse_npy(as_bytes(npy(dict("<f4", "(0, 5)"), "")), "x.npy", {}).cols, 5);
  EXPECT_THAT(parse_npy(as_bytes(npy(dict("<f8", "(2, 0)"), "")), "x.npy", {}).row_ptrs,
              ElementsAre(0, 0, 0));
}

TEST(NpyReader, AcceptsHeadersWithOtherOrderQuotesAndPython2Longs) {
  const std::string header = "{\"shape\":(1L,2L),\"fortran_order\":False,\"descr\":\"<f4\"}  \n";

  EXPECT_THAT(floats(npy(header, raw<float>({1, 2}))), ElementsAre(1, 2));
}

TEST(NpyReader, TakesInfiniteDoublesButRefusesFiniteOnesBeyondFp32) {
  const double infinity = std::numeric_limits<double>::infinity();

  EXPECT_THAT(floats(npy(dict("<f8", "(1, 1)"), raw<double>({infinity}))),
              ElementsAre(std::numeric_limits<float>::infinity()));
  EXPECT_THAT(npy_error(npy(dict("<f8", "(1, 2)"), raw<double>({0, -1e39}))),
              HasSubstr("element 1 is -1e+39, which does not fit fp32: expected at most"));
}

TEST(NpyReader, RefusesWhatIsNoArray) {
  EXPECT_THAT(npy_error(""), HasSubstr("not a .npy array"));
  EXPECT_THAT(npy_error("\x93NUMPY"), HasSubstr("not a .npy array"));
  EXPECT_THAT(npy_error(npy(dict("<f4", "(1,)"), raw<float>({1}), 4)), HasSubstr("version 4"));
  EXPECT_THAT(npy_error(std::string("\x93NUMPY\x01\x00\xFF\xFF{", 11)),
              HasSubstr("claims 65535 bytes"));
  EXPECT_THAT(npy_error(npy("", "", 2).substr(0, 10)), HasSubstr("header claims"));
  const std::string no_data = npy(dict("<f4", "(0,)") + "    ", "");
  EXPECT_THAT(npy_error(no_data.substr(0, no_data.size() - 1)), HasSubstr("header claims"));
}

TEST(NpyReader, RefusesBrokenHeaders) {
  for (const char* header :
       {"", "{", "{'descr'", "{'descr': <f4}", "{'descr': '<f4', 'fortran_order': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1", "{'extra': 'x'}",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False}"}) {
    EXPECT_THAT(npy_error(npy(header, "")), HasSubstr("the .npy header")) << header;
  }
  EXPECT_THAT(npy_error(npy("{'descr': '<f4', 'fortran_order': False}", "")),
              HasSubstr("has no shape: expected descr, fortran_order, shape"));
  EXPECT_THAT(npy_error(npy("{'shape': (1,)}", "")), HasSubstr("has no descr, fortran_order:"));
}

TEST(NpyReader, RefusesTypesThatAreNotRealNumbers) {
  for (const char* descr : {"<c8", "<f16", "|O", "<M8[ns]", "|V2", "f4", "", "<f", "<i3", "|b2"}) {
    EXPECT_THAT(npy_error(npy(dict(descr, "(1,)"), std::string(16, '\0'))),
                HasSubstr("is not read"))
        << descr;
  }
  EXPECT_THAT(npy_error(npy(dict("|S4", "(1, 1)"), "text")), HasSubstr("is text"));
}

TEST(NpyReader, RefusesShapesThatDoNotFitTheData) {
  const std::string data = raw<float>({1, 2});

  EXPECT_THAT(npy_error(npy(dict("<f4", "(3,)"), data)), HasSubstr("needs more than the 8 bytes"));
  EXPECT_THAT(npy_error(npy(dict("<f4", "(1,)"), data)), HasSubstr("ends 4 bytes before"));
  EXPECT_THAT(npy_error(npy(dict("<f4", "(4611686018427387904, 4)"), data)),
              HasSubstr("does not fit the 8 bytes"));
  // 8 * (2^61 + 1) is 8 once more, in 64 bits.
  EXPECT_THAT(npy_error(npy(dict("|u1", "(8, 2305843009213693953)"), data)),
              HasSubstr("does not fit the 8 bytes"));
  EXPECT_THAT(npy_error(npy(dict("<f4", "(99999999999999999999,)"), data)),
              HasSubstr("expected an integer"));
  EXPECT_THAT(npy_error(npy(dict("<f4", "()"), raw<float>({1}))), HasSubstr("0 dimensions"));
  EXPECT_THAT(npy_error(npy(dict("<f4", "(1, 1, 2)"), data)), HasSubstr("3 dimensions"));
  EXPECT_THAT(npy_error(npy(dict("<f4", "(4611686018427387904, 0)"), "")),
              HasSubstr("expected 0 to 2147483647"));
  EXPECT_THAT(npy_error(npy(dict("<f4", "(2147483647, 0)"), "")), HasSubstr("may have"));
  std::string many = "(0";
  for (int i = 0; i < 64; ++i) many += ", 0";
  EXPECT_THAT(npy_error(npy(dict("<f4", many + ")"), "")), HasSubstr("more than 64 dimensions"));
}

TEST(NpyWriter, AlignsTheDataAsNumpyDoes) {
  const std::string data = raw<float>({1, 2});

  const std::vector<std::byte> file = make_npy("<f4", "(1, 2)", as_bytes(data));
  const NpyArray array = parse_npy_array(file, "x.npy");

  EXPECT_EQ(array.header.data_offset % 64, 0U);
  EXPECT_THAT(array.header.shape, ElementsAre(1, 2));
  EXPECT_EQ(file[array.header.data_offset - 1], std::byte{'\n'});
}

TEST(DecodeIntegers, RefusesFloatsAndNumbersBeyond63Bits) {
  const std::string large = npy(dict("<u8", "(1,)"), raw<std::uint64_t>({std::uint64_t{1} << 63U}));
  const std::string real = npy(dict("<f4", "(1,)"), raw<float>({1}));
  const auto decode = [](const std::string& file) {
    static_cast<void>(decode_integers(parse_npy_array(as_bytes(file), "x"), "x"));
  };

  EXPECT_THAT(message_of<IoError>([&] { decode(large); }), HasSubstr("9223372036854775808"));
  EXPECT_THAT(message_of<IoError>([&] { decode(real); }), HasSubstr("expected integers"));
}

TEST(DecodeText, ReadsBytesAndUnicodeInBothByteOrders) {
  const std::string bytes = npy(dict("|S5", "()"), std::string("csr\0\0", 5));
  const std::string little = npy(dict("<U3", "()"), raw<char32_t>({U'c', U's', U'r'}));
  const std::string big = npy(dict(">U3", "()"), raw<char32_t>({U'c', U's', U'r'}, true));

  for (const std::string& file : {bytes, little, big}) {
    EXPECT_EQ(decode_text(parse_npy_array(as_bytes(file), "x"), "x"), "csr");
  }
}

}  // namespace
}  // namespace spjit
