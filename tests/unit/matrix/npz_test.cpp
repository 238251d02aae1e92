#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "matrix/readers.hpp"
#include "matrix/writers.hpp"
#include "matrix/zip_archive.hpp"
#include "test_support.hpp"

namespace spjit {
namespace {

using test::five_by_five;
using test::message_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

using Arrays = std::map<std::string, std::vector<std::byte>>;

template <typename Element>
std::vector<std::byte> array(const char* descr, const std::vector<Element>& elements) {
  return make_npy(descr, fmt::format("({},)", elements.size()), std::as_bytes(std::span(elements)));
}

std::vector<std::byte> text(std::string_view word) {
  return make_npy(fmt::format("|S{}", word.size()), "()", test::as_bytes(word));
}

std::vector<std::byte> archive(const Arrays& arrays, bool compress = true) {
  std::vector<ZipMember> members;
  for (const auto& [name, bytes] : arrays) {
    members.push_back({name + ".npy", bytes});
  }
  return make_zip(members, compress, "x.npz");
}

Arrays csr_arrays() {
  return {{"format", text("csr")},
          {"shape", array<std::int64_t>("<i8", {2, 3})},
          {"indptr", array<std::int32_t>("<i4", {0, 2, 3})},
          {"indices", array<std::int32_t>("<i4", {2, 0, 1})},
          {"data", array<double>("<f8", {1, 0, 3})}};
}

CsrMatrix read_npz(const Arrays& arrays) { return parse_npz(archive(arrays), "x.npz", {}); }

std::string npz_error(std::span<const std::byte> bytes) {
  std::string message =
      message_of<IoError>([&] { static_cast<void>(parse_npz(bytes, "x.npz", {})); });
  EXPECT_THAT(message, StartsWith("x.npz: "));
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return message;
}

std::string error_with(const std::string& name, const std::vector<std::byte>& replacement) {
  Arrays arrays = csr_arrays();
  arrays[name] = replacement;
  return npz_error(archive(arrays));
}

TEST(NpzReader, ReadsUnsortedCsrStoredAndDeflated) {
  for (const bool compress : {false, true}) {
    const CsrMatrix matrix = parse_npz(archive(csr_arrays(), compress), "x.npz", {});

    EXPECT_THAT(matrix.row_ptrs, ElementsAre(0, 2, 3));
    EXPECT_THAT(matrix.col_idxs, ElementsAre(0, 2, 1));
    EXPECT_THAT(matrix.values, ElementsAre(0, 1, 3));
  }
}

TEST(NpzReader, DropsExplicitZerosIfAsked) {
  LoadOptions drop;
  drop.keep_explicit_zeros = false;

  const CsrMatrix matrix = parse_npz(archive(csr_arrays()), "x.npz", drop);

  EXPECT_THAT(matrix.row_ptrs, ElementsAre(0, 1, 2));
}

TEST(NpzReader, ReadsCscAsTheSameMatrix) {
  Arrays arrays = csr_arrays();
  arrays["format"] = text("csc");
  arrays["indptr"] = array<std::int64_t>("<i8", {0, 1, 2, 3});
  arrays["indices"] = array<std::int64_t>("<i8", {0, 1, 0});
  arrays["data"] = array<float>("<f4", {0, 3, 1});

  EXPECT_EQ(read_npz(arrays), read_npz(csr_arrays()));
}

TEST(NpzReader, ReadsCooAsTheSameMatrix) {
  const Arrays arrays = {{"format", text("coo")},
                         {"shape", array<std::int32_t>("<i4", {2, 3})},
                         {"row", array<std::int32_t>("<i4", {1, 0, 0})},
                         {"col", array<std::int32_t>("<i4", {1, 2, 0})},
                         {"data", array<std::int16_t>("<i2", {3, 1, 0})}};

  EXPECT_EQ(read_npz(arrays), read_npz(csr_arrays()));
}

TEST(NpzReader, RefusesCooWithoutARowOrAColumnForEachValue) {
  const Arrays arrays = {{"format", text("coo")},
                         {"shape", array<std::int32_t>("<i4", {2, 3})},
                         {"row", array<std::int32_t>("<i4", {1, 0})},
                         {"col", array<std::int32_t>("<i4", {1, 2})},
                         {"data", array<float>("<f4", {3, 1})}};

  for (const char* shorter : {"row", "col"}) {
    Arrays changed = arrays;
    changed[shorter] = array<std::int32_t>("<i4", {1});

    EXPECT_THAT(npz_error(archive(changed)), HasSubstr("1 indices and 2 values")) << shorter;
  }
}

TEST(NpzReader, ReadsASingleDenseArray) {
  const std::vector<float> values = {1, 0, 0, 2};
  const auto bytes =
      archive({{"weights", make_npy("<f4", "(2, 2)", std::as_bytes(std::span(values)))}});

  const CsrMatrix matrix = parse_npz(bytes, "x.npz", {});
  const DenseMatrix dense = parse_npz_dense(bytes, "x.npz", "weights");
  const DenseMatrix only = parse_npz_dense(bytes, "x.npz", "");

  EXPECT_THAT(matrix.col_idxs, ElementsAre(0, 1));
  EXPECT_EQ(dense.values, values);
  EXPECT_EQ(only.values, values);
}

TEST(NpzReader, FindsADenseArrayByName) {
  const auto bytes = archive({{"a", array<float>("<f4", {1})}, {"b", array<float>("<f4", {2, 3})}});

  EXPECT_THAT(parse_npz_dense(bytes, "x.npz", "b").values, ElementsAre(2, 3));
  EXPECT_THAT(message_of<IoError>([&] { static_cast<void>(parse_npz_dense(bytes, "x.npz", "c")); }),
              HasSubstr("no file 'c.npy'"));
  EXPECT_THAT(npz_error(bytes), HasSubstr("2 files and no array 'format'"));
}

TEST(NpzReader, RefusesArchivesThatAreNone) {
  const auto whole = archive(csr_arrays());

  EXPECT_THAT(npz_error({}), HasSubstr("the archive has 0 files"));
  EXPECT_THAT(npz_error(test::as_bytes("PK not really")), HasSubstr("not a zip archive"));
  EXPECT_THAT(npz_error(std::span(whole).first(whole.size() / 2)), HasSubstr("not a zip archive"));
}

TEST(NpzReader, NoticesADamagedByteByItsChecksum) {
  auto bytes = archive(csr_arrays(), false);
  const std::vector<double> data = {1, 0, 3};
  const auto needle = std::as_bytes(std::span(data));
  const auto found = std::search(bytes.begin(), bytes.end(), needle.begin(), needle.end());
  ASSERT_NE(found, bytes.end());

  found[8] ^= std::byte{1};

  EXPECT_THAT(npz_error(bytes), HasSubstr("cannot decompress"));
}

TEST(NpzReader, RefusesOtherSparseFormats) {
  EXPECT_THAT(error_with("format", text("bsr")), HasSubstr("format is 'bsr'"));
  EXPECT_THAT(error_with("format", array<float>("<f4", {1})), HasSubstr("expected one text"));
}

TEST(NpzReader, RefusesShapesThatAreNoneOrTooLarge) {
  EXPECT_THAT(error_with("shape", array<std::int64_t>("<i8", {2})),
              HasSubstr("shape is [2]: expected two sizes from 0 to"));
  EXPECT_THAT(error_with("shape", array<std::int64_t>("<i8", {-2, 3})),
              HasSubstr("shape is [-2, 3]: expected two sizes"));
  EXPECT_THAT(error_with("shape", array<std::int64_t>("<i8", {1, 2, 3, 4, 5})),
              HasSubstr("shape is [1, 2, 3, 4, ...]: expected"));
  EXPECT_THAT(error_with("shape", array<std::int64_t>("<i8", {2147483647, 3})),
              HasSubstr("'indptr' has 3 elements: expected 2147483648"));
}

TEST(NpzReader, RefusesMoreRowsThanTheArchiveHasAnythingFor) {
  Arrays arrays = csr_arrays();
  arrays["format"] = text("csc");
  arrays["shape"] = array<std::int64_t>("<i8", {2147483647, 2});

  EXPECT_THAT(npz_error(archive(arrays)), HasSubstr("asks for 2147483647 rows"));
}

TEST(NpzReader, RefusesArraysThatDoNotFitTogether) {
  EXPECT_THAT(error_with("indptr", array<std::int32_t>("<i4", {0, 3})), HasSubstr("2 elements"));
  EXPECT_THAT(error_with("indptr", array<std::int32_t>("<i4", {1, 2, 3})),
              HasSubstr("from 1 to 3"));
  EXPECT_THAT(error_with("indptr", array<std::int32_t>("<i4", {0, 4, 3})),
              HasSubstr("falls from 4 to 3 at element 1"));
  EXPECT_THAT(error_with("indices", array<std::int32_t>("<i4", {0, 3, 1})),
              HasSubstr("element 1 is 3: expected 0 <= index < 3"));
  EXPECT_THAT(error_with("indices", array<std::int32_t>("<i4", {-1, 0, 1})),
              HasSubstr("element 0 is -1"));
  EXPECT_THAT(error_with("indices", array<std::int32_t>("<i4", {0, 0, 1})),
              HasSubstr("row 0 has column 0 twice"));
  EXPECT_THAT(error_with("indices", array<float>("<f4", {0, 1, 1})), HasSubstr("integers"));
  EXPECT_THAT(error_with("data", array<float>("<f4", {1})), HasSubstr("3 indices and 1 values"));
  EXPECT_THAT(error_with("data", array<double>("<f8", {1, 1e300, 1})),
              HasSubstr("element 1 is 1e+300, which does not fit fp32"));
}

TEST(NpzReader, NamesAMissingArray) {
  Arrays arrays = csr_arrays();
  arrays.erase("indptr");

  EXPECT_THAT(npz_error(archive(arrays)), HasSubstr("no file 'indptr.npy'"));
}

TEST(NpzReader, RefusesArraysThatNoMatrixOfTheShapeHasBeforeItUnpacksThem) {
  constexpr std::size_t k_many = 1'000'000;
  const std::vector<std::int64_t> zeros(k_many);
  const std::string letters(3 * k_many, 'c');
  const auto expect_refused = [](const std::string& name, const std::vector<std::byte>& bytes,
                                 const std::string& reason) {
    EXPECT_THAT(error_with(name, bytes), HasSubstr("array '" + name + "': " + reason));
  };

  for (const char* name : {"shape", "indptr", "indices"}) {
    expect_refused(name, array("<i8", zeros), "it has 1000000 elements: expected at most 4096");
  }
  expect_refused("data", array("<f8", std::vector<double>(k_many)),
                 "it has 1000000 elements: expected at most 4096");
  expect_refused("format", text(std::string(k_many, 'c')), "dtype '|S1000000' is not read");
  expect_refused("format", make_npy("|S3", "(1000000,)", std::as_bytes(std::span(letters))),
                 "it has 1000000 elements: expected at most 4096");
  expect_refused("indptr", make_npy("<i8", "(3,)", std::as_bytes(std::span(zeros))),
                 "the array ends 7999976 bytes before the data does");
}

TEST(NpzReader, RefusesCoordinatesOfMoreThanAllPositions) {
  const std::vector<std::int32_t> zeros(5000);
  Arrays arrays = {{"format", text("coo")},
                   {"shape", array<std::int64_t>("<i8", {50, 99})},
                   {"row", array("<i4", zeros)},
                   {"col", array("<i4", zeros)},
                   {"data", array("<f4", std::vector<float>(5000))}};

  EXPECT_THAT(npz_error(archive(arrays)),
              HasSubstr("array 'row': it has 5000 elements: expected at most 4950"));
  arrays["shape"] = array<std::int64_t>("<i8", {50, 100});
  EXPECT_THAT(npz_error(archive(arrays)), HasSubstr("row 0 has column 0 twice"));
}

TEST(ZipArchive, ChecksTheHeadOfAFileBeforeItUnpacksTheRest) {
  const std::vector<std::byte> large(3 * ZipArchive::k_head_bytes, std::byte{7});
  const std::vector<std::byte> bytes =
      make_zip({{"large", large}, {"small", {std::byte{1}}}, {"none", {}}}, true, "x.npz");
  const ZipArchive zip(bytes, "x.npz");
  std::vector<std::pair<std::size_t, std::size_t>> seen;
  const auto look = [&](Bytes head, std::size_t all) { seen.emplace_back(head.size(), all); };

  EXPECT_EQ(zip.read("large", look), large);
  EXPECT_EQ(zip.read("small", look).size(), 1U);
  EXPECT_TRUE(zip.read("none", look).empty());

  EXPECT_THAT(seen, ElementsAre(std::pair(ZipArchive::k_head_bytes, large.size()),
                                std::pair<std::size_t, std::size_t>(1, 1),
                                std::pair<std::size_t, std::size_t>(0, 0)));
}

TEST(ZipArchive, RefusesADirectoryThatClaimsMoreThanDeflateCanHold) {
  auto bytes = archive({{"a", array<float>("<f4", {1})}});
  // The size before compression: 24 bytes into the file's entry of the central directory.
  const std::string mark = "PK\x01\x02";
  const auto entry = std::search(bytes.begin(), bytes.end(), test::as_bytes(mark).begin(),
                                 test::as_bytes(mark).end());
  ASSERT_NE(entry, bytes.end());
  std::fill(entry + 24, entry + 28, std::byte{0x7F});

  EXPECT_THAT(npz_error(bytes), HasSubstr("cannot hold that"));
}

TEST(NpzWriter, RoundTripsTheHandMadeMatrixBothWays) {
  for (const bool compress : {false, true}) {
    const auto bytes = format_npz(five_by_five(), compress, "x.npz");

    EXPECT_EQ(parse_npz(bytes, "x.npz", {}), five_by_five());
    EXPECT_EQ(bytes, format_npz(five_by_five(), compress, "x.npz"));
  }
}

}  // namespace
}  // namespace spjit
