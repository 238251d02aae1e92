#include "kernels/host/object/csr_image.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"

namespace {

using spjit::CsrImage;
using spjit::HostArtifact;
using spjit::HostImage;
using spjit::HostIsa;
using spjit::testing_support::index;
using spjit::testing_support::open_image;
using spjit::testing_support::problem_of;
using spjit::testing_support::small_matrix;

/// Words before the row offsets, of which the first is their number: a header and a panel's
/// columns.
constexpr std::size_t k_header_words = 23;

HostArtifact artifact() {
  return spjit::make_csr_artifact(problem_of(small_matrix(), 20), "csr", HostIsa::avx2);
}

std::string image_refusal(const HostImage& image) {
  try {
    static_cast<void>(spjit::read_csr_image(image));
  } catch (const spjit::Error& error) {
    return error.what();
  }
  return "";
}

/// What whoever runs an image relies on.
void expect_invariants(const CsrImage& read, const HostImage& image) {
  const spjit::CsrView a = read.view();
  EXPECT_GE(read.header.n, 1);
  ASSERT_EQ(a.row_ptrs.size(), index(a.rows) + 1);
  EXPECT_TRUE(std::ranges::is_sorted(a.row_ptrs));
  EXPECT_EQ(a.row_ptrs.front(), 0);
  EXPECT_EQ(a.row_ptrs.back(), a.nnz());
  EXPECT_EQ(a.has_values(), !read.header.runtime_values || a.nnz() == 0);
  EXPECT_EQ(image.weights.size(), (a.values.size() + a.col_idxs.size()) * 4);
  for (const std::int32_t column : a.col_idxs) EXPECT_TRUE(column >= 0 && column < a.cols);
}

TEST(CsrImage, IsTheMatrixInsteadOfCode) {
  const HostArtifact made = artifact();

  const CsrImage read = spjit::read_csr_image(made.image());

  const spjit::CsrMatrix matrix = small_matrix();
  EXPECT_EQ(read.header.family, "csr");
  EXPECT_TRUE(made.text.empty());
  EXPECT_EQ(made.weights.size(), 14U);
  EXPECT_EQ(read.row_ptrs, matrix.row_ptrs);
  EXPECT_TRUE(std::ranges::equal(read.col_idxs, matrix.col_idxs));
  EXPECT_TRUE(std::ranges::equal(read.values, matrix.values));
  expect_invariants(read, made.image());
}

TEST(CsrImage, IsWrittenAsTheSameWords) {
  const HostArtifact made = artifact();
  const CsrImage read = spjit::read_csr_image(made.image());

  std::vector<std::int64_t> words = spjit::write_header(read.header);
  words.push_back(read.panel_columns);
  spjit::append_words(words, read.row_ptrs);

  EXPECT_EQ(words.size(), k_header_words + 7);
  EXPECT_EQ(words, made.program);
}

TEST(CsrImage, OfFewerBytesThanItsNonzerosHaveIsRefused) {
  const HostArtifact made = artifact();
  const HostImage whole = made.image();
  HostImage shorter = whole;
  shorter.weights = whole.weights.first(whole.weights.size() - 8);
  HostImage none = whole;
  none.weights = {};

  EXPECT_EQ(image_refusal(whole), "");
  EXPECT_EQ(image_refusal(shorter), "program record: csr size");
  EXPECT_EQ(image_refusal(none), "program record: csr size");
}

TEST(CsrImage, WithWeightsBetweenFloatsIsRefused) {
  const HostArtifact made = artifact();
  std::vector<std::byte> moved(made.image().weights.size() + 1);
  std::ranges::copy(made.image().weights, moved.begin() + 1);
  HostImage image = made.image();
  image.weights = std::span(moved).subspan(1);

  EXPECT_EQ(image_refusal(image), "program record: weights that are not aligned");
}

TEST(CsrImage, WithCodeIsRefused) {
  HostArtifact made = artifact();
  made.text.resize(64);

  EXPECT_EQ(image_refusal(made.image()), "program record: code that no csr kernel has");
}

TEST(CsrImage, ColumnsOutOfRangeAreRefused) {
  for (const std::int32_t column : {5, -1, 1 << 30}) {
    HostArtifact made = artifact();
    made.weights.back() = static_cast<std::uint32_t>(column);

    EXPECT_EQ(image_refusal(made.image()), "program record: csr column out of range") << column;
  }
}

TEST(CsrImage, HasNoValuesWhereThoseAreOfARun) {
  spjit::Problem problem = problem_of(small_matrix(), 20);
  problem.runtime_values = true;
  HostArtifact made = spjit::make_csr_artifact(problem, "csr", HostIsa::avx2);

  const CsrImage read = spjit::read_csr_image(made.image());

  expect_invariants(read, made.image());
  EXPECT_TRUE(read.values.empty());
  EXPECT_TRUE(std::ranges::equal(read.col_idxs, problem.a->col_idxs));
  made.weights.push_back(0);
  EXPECT_EQ(image_refusal(made.image()), "program record: csr size");
}

TEST(CsrImage, HasTheColumnsOfAPanelThatTheProblemAsksFor) {
  spjit::Problem problem = problem_of(small_matrix(), 20);
  problem.panel_columns = 24;
  const HostArtifact made = spjit::make_csr_artifact(problem, "csr", HostIsa::avx2);

  EXPECT_EQ(spjit::read_csr_image(made.image()).panel_columns, 24);
  EXPECT_EQ(spjit::read_csr_image(artifact().image()).panel_columns, 16);
  for (const std::int64_t columns : {-1, 0, 1025}) {
    HostArtifact damaged = made;
    damaged.program[k_header_words - 1] = columns;

    EXPECT_EQ(image_refusal(damaged.image()),
              "program record: " + std::to_string(columns) + " where 1 to 1024 was expected");
  }
}

TEST(CsrImage, OffsetsThatAreNoRowsAreRefused) {
  const auto with_offset = [](std::size_t row, std::int64_t offset) {
    HostArtifact made = artifact();
    made.program[k_header_words + 1 + row] = offset;
    return image_refusal(made.image());
  };

  EXPECT_EQ(with_offset(1, 1), "");
  EXPECT_EQ(with_offset(0, 1), "program record: csr ends");
  EXPECT_EQ(with_offset(5, 6), "program record: csr ends");
  EXPECT_EQ(with_offset(2, 1), "program record: csr row offsets");
  EXPECT_EQ(with_offset(3, -1), "program record: csr row offsets");
  EXPECT_EQ(with_offset(4, 8), "program record: csr row offsets");
}

TEST(CsrImage, ARowTooManyOrTooFewIsRefused) {
  HostArtifact more = artifact();
  more.program[k_header_words] = 7;
  more.program.push_back(7);
  HostArtifact fewer = artifact();
  fewer.program[k_header_words] = 5;
  fewer.program.pop_back();
  HostArtifact none = artifact();
  none.program.resize(k_header_words);
  none.program.push_back(0);

  for (const HostArtifact& made : {more, fewer, none}) {
    EXPECT_EQ(image_refusal(made.image()), "program record: csr row count");
  }
}

TEST(CsrImage, EveryDamagedByteOfTheRecordIsRefusedOrHarmless) {
  const HostArtifact made = artifact();
  const std::size_t bytes = made.program.size() * sizeof(std::int64_t);
  for (std::size_t i = 0; i < bytes; ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      HostArtifact damaged = made;
      std::as_writable_bytes(std::span(damaged.program))[i] ^= static_cast<std::byte>(1 << bit);
      try {
        expect_invariants(spjit::read_csr_image(damaged.image()), damaged.image());
      } catch (const spjit::Error& error) {
        EXPECT_EQ(std::string(error.what()).rfind("program record: ", 0), 0U) << error.what();
      }
      ASSERT_FALSE(testing::Test::HasFailure()) << "byte " << i << " bit " << bit;
    }
  }
}

TEST(CsrImage, EveryTruncationIsRefused) {
  const HostArtifact made = artifact();
  const std::span<const std::byte> program = made.image().program;
  for (std::size_t size = 0; size < program.size(); ++size) {
    HostImage image = made.image();
    image.program = program.first(size);

    EXPECT_NE(image_refusal(image), "") << size;
  }
}

TEST(CsrObject, EveryDamagedByteIsRefusedOrHarmless) {
  const HostArtifact made = artifact();
  const std::vector<std::byte> object = spjit::write_object(made.image(), "small");
  for (std::size_t i = 0; i < object.size(); ++i) {
    for (const int damage : {0xFF, 0x80, 0x01}) {
      std::vector<std::byte> damaged = object;
      damaged[i] ^= static_cast<std::byte>(damage);
      try {
        const HostImage image = spjit::read_object(damaged, "small");
        expect_invariants(spjit::read_csr_image(image), image);
        static_cast<void>(open_image(image));
      } catch (const spjit::Error& error) {
        EXPECT_FALSE(std::string(error.what()).empty());
      }
      ASSERT_FALSE(testing::Test::HasFailure()) << "byte " << i << " ^ " << damage;
    }
  }
}

TEST(CsrObject, EveryTruncationIsRefused) {
  const HostArtifact made = artifact();
  const std::vector<std::byte> object = spjit::write_object(made.image(), "small");
  for (std::size_t size = 0; size < object.size(); ++size) {
    const std::vector<std::byte> cut(object.begin(),
                                     object.begin() + static_cast<std::ptrdiff_t>(size));

    EXPECT_THROW(static_cast<void>(spjit::read_object(cut, "small")), spjit::Error) << size;
  }
}

}  // namespace
