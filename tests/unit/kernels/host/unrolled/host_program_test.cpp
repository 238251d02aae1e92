#include "kernels/host/unrolled/host_program.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/arithmetic.hpp"
#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::CsrMatrix;
using spjit::HostArtifact;
using spjit::HostImage;
using spjit::HostIsa;
using spjit::HostProgramRecord;
using spjit::HostTile;
using spjit::Kernel;
using spjit::testing_support::index;
using spjit::testing_support::open_image;
using spjit::testing_support::problem_of;
using spjit::testing_support::small_matrix;

HostTile small_tile() {
  HostTile tile;
  tile.m1 = 2;
  tile.k_block = 3;
  return tile;
}

HostArtifact unrolled_artifact() {
  const CsrMatrix matrix = small_matrix();
  const auto grouping = spjit::group_rows(matrix, 2, spjit::ReorderAlgorithm::none);
  return spjit::make_unrolled_artifact(spjit::build_plan(matrix, grouping, 3), small_tile(),
                                       problem_of(matrix, 20), HostIsa::avx2);
}

HostImage with_program(const HostArtifact& artifact, const std::vector<std::int64_t>& words) {
  HostImage image = artifact.image();
  image.program = std::as_bytes(std::span(words));
  return image;
}

TEST(HostProgramRecord, HoldsWhatTheKernelWasMadeOf) {
  const HostArtifact artifact = unrolled_artifact();

  const HostProgramRecord record = spjit::read_program(artifact.image());

  EXPECT_EQ(record.header.family, "unrolled");
  EXPECT_EQ(record.header.isa, HostIsa::avx2);
  EXPECT_EQ(record.header.rows, 5);
  EXPECT_EQ(record.header.cols, 5);
  EXPECT_EQ(record.header.n, 20);
  EXPECT_EQ(record.header.nnz, 7);
  EXPECT_EQ(record.tile, small_tile());
  EXPECT_EQ(record.tile_ends, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(record.rows_a_tile(), 2);
  EXPECT_EQ(record.k_blocks, 2);
  EXPECT_EQ(record.segment_offsets.size(), 4U);
  EXPECT_EQ(record.weight_offsets.size(), 4U);
  EXPECT_EQ(record.tile_nnz_ends, (std::vector<std::int64_t>{3, 7}));
  EXPECT_EQ(record.empty_rows.list(0, 5), (std::vector<std::int32_t>{1}));
  EXPECT_EQ(record.rows_of_b.list(0, 9), (std::vector<std::int32_t>{0, 1, 2, 3, 4}));
  EXPECT_FALSE(record.header.runtime_n);
  EXPECT_EQ(record.header.ldb, 20);
  EXPECT_EQ(record.header.ldc, 20);
}

TEST(HostProgramRecord, CountsJoinedTilesAsOne) {
  const CsrMatrix matrix = small_matrix();
  HostTile tile = small_tile();
  tile.m1 = 1;
  tile.join_bytes = std::int64_t{1} << 20;
  const auto grouping = spjit::group_rows(matrix, 1, spjit::ReorderAlgorithm::none);

  const HostArtifact artifact = spjit::make_unrolled_artifact(
      spjit::build_plan(matrix, grouping, 3), tile, problem_of(matrix, 20), HostIsa::avx2);

  const HostProgramRecord record = spjit::read_program(artifact.image());
  EXPECT_EQ(record.tile, tile);
  EXPECT_EQ(record.tile_ends, (std::vector<std::int64_t>{4}));
  EXPECT_EQ(record.rows_a_tile(), 4);
  EXPECT_EQ(record.tile_nnz_ends, (std::vector<std::int64_t>{7}));
  EXPECT_EQ(record.segment_offsets.size(), 2U);  // a block of columns each
}

TEST(HostProgramRecord, JoinedTilesThatDoNotAscendAreRefused) {
  const HostArtifact artifact = unrolled_artifact();
  for (const std::vector<std::int64_t>& ends :
       {std::vector<std::int64_t>{0, 2}, {1, 1}, {2, 1}, {1, 6}}) {
    HostProgramRecord record = spjit::read_program(artifact.image());
    record.tile_ends = ends;

    const std::vector<std::int64_t> words = spjit::write_program(record);

    EXPECT_THROW(static_cast<void>(spjit::read_program(with_program(artifact, words))),
                 spjit::Error);
  }
}

TEST(HostProgramRecord, WritingAndReadingGiveTheSameRecord) {
  const HostArtifact artifact = unrolled_artifact();
  const HostProgramRecord record = spjit::read_program(artifact.image());

  const std::vector<std::int64_t> words = spjit::write_program(record);

  EXPECT_EQ(words, artifact.program);
  EXPECT_EQ(spjit::read_program(with_program(artifact, words)), record);
}

TEST(HostProgramRecord, RowsOfBThatAreNoRangesAreRefused) {
  const HostArtifact good = unrolled_artifact();
  for (const std::vector<std::int64_t>& rows :
       {std::vector<std::int64_t>{0}, {0, 6}, {3, 2}, {-1, 5}, {0, 2, 1, 5}}) {
    // The record ends with the ranges {0, 5}.
    std::vector<std::int64_t> words = good.program;
    words.resize(words.size() - 3);
    words.push_back(std::ssize(rows));
    words.insert(words.end(), rows.begin(), rows.end());

    EXPECT_THROW(static_cast<void>(spjit::read_program(with_program(good, words))), spjit::Error);
  }
}

TEST(HostProgramRecord, AnotherVersionIsRefusedWithBothNumbers) {
  const HostArtifact artifact = unrolled_artifact();
  std::vector<std::int64_t> words = artifact.program;
  words[1] = spjit::k_host_program_version + 41;

  try {
    static_cast<void>(spjit::read_program(with_program(artifact, words)));
    FAIL() << "another version was read";
  } catch (const spjit::Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "program record: version " + std::to_string(spjit::k_host_program_version + 41) +
                  ", this build reads version " + std::to_string(spjit::k_host_program_version) +
                  "; compile again");
  }
}

// Its segments take other arguments: a call of one would not end well.
TEST(HostObject, OfThePreviousVersionIsNeitherLinkedNorLoaded) {
  const HostArtifact artifact = unrolled_artifact();
  std::vector<std::int64_t> words = artifact.program;
  --words[1];
  const std::string previous = std::to_string(spjit::k_host_program_version - 1);
  const std::vector<std::byte> object =
      spjit::write_object(with_program(artifact, words), "previous");
  const HostImage image = spjit::read_object(object, "previous");
  const auto refusal = [](const auto& use) -> std::string {
    try {
      use();
    } catch (const spjit::Error& error) {
      return error.what();
    }
    return "none";
  };

  const std::string linked = refusal([&] {
    static_cast<void>(
        Kernel::link({image.text.data(), image.text.size(), image.weights.data(),
                      image.weights.size(), image.program.data(), image.program.size()}));
  });
  const std::string loaded = refusal([&] { static_cast<void>(open_image(image)); });

  EXPECT_EQ(linked, "program record: version " + previous + ", this build reads version " +
                        std::to_string(spjit::k_host_program_version) + "; compile again");
  EXPECT_EQ(loaded, linked);
}

bool ascending_within(const std::vector<std::int64_t>& values, std::int64_t low,
                      std::int64_t high) {
  return std::ranges::is_sorted(values) &&
         (values.empty() || (values.front() >= low && values.back() <= high));
}

/// What whoever runs a record relies on.
void expect_invariants(const HostProgramRecord& record, const HostImage& image) {
  EXPECT_GE(record.header.n, 1);
  std::int64_t end = 0;
  for (const spjit::RowRange& rows : record.empty_rows.ranges()) {
    EXPECT_TRUE(end <= rows.begin && rows.begin < rows.end && rows.end <= record.header.rows);
    end = rows.end;
  }
  const std::int64_t segments = record.tiles() * record.k_blocks;
  EXPECT_EQ(std::ssize(record.segment_offsets), segments);
  EXPECT_EQ(std::ssize(record.weight_offsets), segments);
  EXPECT_EQ(std::ssize(record.tile_nnz_ends), record.tiles());
  EXPECT_TRUE(ascending_within(record.tile_ends, 1, record.header.rows));
  EXPECT_TRUE(ascending_within(record.segment_offsets, 0, std::ssize(image.text) - 1));
  EXPECT_TRUE(ascending_within(record.weight_offsets, 0,
                               static_cast<std::int64_t>(image.weights.size() / 4)));
  EXPECT_GE(record.k_block * record.k_blocks, record.header.cols);
  for (const spjit::RowRange& rows : record.rows_of_b.ranges()) {
    EXPECT_TRUE(rows.begin >= 0 && rows.begin < rows.end && rows.end <= record.header.cols);
  }
  EXPECT_LE(spjit::registers_needed(record.tile), spjit::registers_of(record.header.isa));
  if (record.in_place_ldb > 0) {
    EXPECT_GE(record.in_place_ldb, record.header.n);
    EXPECT_GE(record.header.n, record.tile.nv * spjit::lanes_of(record.header.isa));
  }
}

/// Error, or a record that keeps its promises and can be made a kernel of.
void expect_refused_or_sound(std::span<const std::byte> object) {
  try {
    const HostImage image = spjit::read_object(object, "small");
    expect_invariants(spjit::read_program(image), image);
    static_cast<void>(open_image(image));
  } catch (const spjit::Error& error) {
    EXPECT_FALSE(std::string(error.what()).empty());
  }
}

TEST(HostObject, EveryDamagedByteIsRefusedOrHarmless) {
  const HostArtifact artifact = unrolled_artifact();
  const std::vector<std::byte> object = spjit::write_object(artifact.image(), "small");
  for (std::size_t i = 0; i < object.size(); ++i) {
    for (const int damage : {0xFF, 0x80, 0x01}) {
      std::vector<std::byte> damaged = object;
      damaged[i] ^= static_cast<std::byte>(damage);

      expect_refused_or_sound(damaged);

      ASSERT_FALSE(testing::Test::HasFailure()) << "byte " << i << " ^ " << damage;
    }
  }
}

TEST(HostObject, EveryTruncationIsRefused) {
  const HostArtifact artifact = unrolled_artifact();
  const std::vector<std::byte> object = spjit::write_object(artifact.image(), "small");
  for (std::size_t size = 0; size < object.size(); ++size) {
    const std::vector<std::byte> cut(object.begin(),
                                     object.begin() + static_cast<std::ptrdiff_t>(size));

    EXPECT_THROW(static_cast<void>(spjit::read_object(cut, "small")), spjit::Error) << size;
  }
}

TEST(HostProgramRecord, ASegmentThatBeginsBehindTheCodeIsRefused) {
  HostArtifact artifact = unrolled_artifact();
  artifact.text.resize(spjit::to_size(spjit::round_up(std::ssize(artifact.text), 64)));
  HostProgramRecord record = spjit::read_program(artifact.image());
  record.segment_offsets.back() = std::ssize(artifact.text);

  const std::vector<std::int64_t> words = spjit::write_program(record);

  EXPECT_THROW(static_cast<void>(spjit::read_program(with_program(artifact, words))), spjit::Error);
}

TEST(HostProgramRecord, ASegmentThatIsNotAlignedIsRefused) {
  const HostArtifact artifact = unrolled_artifact();
  HostProgramRecord record = spjit::read_program(artifact.image());
  ++record.segment_offsets.back();

  const std::vector<std::int64_t> words = spjit::write_program(record);

  EXPECT_THROW(static_cast<void>(spjit::read_program(with_program(artifact, words))), spjit::Error);
}

TEST(HostProgramRecord, EveryDamagedByteOfTheRecordIsRefusedOrHarmless) {
  const HostArtifact artifact = unrolled_artifact();
  const std::size_t bytes = artifact.program.size() * sizeof(std::int64_t);
  for (std::size_t i = 0; i < bytes; ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::vector<std::int64_t> words = artifact.program;
      std::as_writable_bytes(std::span(words))[i] ^= static_cast<std::byte>(1 << bit);
      const HostImage image = with_program(artifact, words);
      try {
        expect_invariants(spjit::read_program(image), image);
      } catch (const spjit::Error& error) {
        EXPECT_EQ(std::string(error.what()).rfind("program record: ", 0), 0U) << error.what();
      }
      ASSERT_FALSE(testing::Test::HasFailure()) << "byte " << i << " bit " << bit;
    }
  }
}

TEST(HostProgramRecord, EveryTruncationIsRefused) {
  const HostArtifact artifact = unrolled_artifact();
  const std::span<const std::byte> program = artifact.image().program;
  for (std::size_t size = 0; size < program.size(); ++size) {
    HostImage image = artifact.image();
    image.program = program.first(size);

    EXPECT_THROW(static_cast<void>(spjit::read_program(image)), spjit::Error) << size;
  }
}

TEST(HostObject, HoldsTheThreePartsUnderItsName) {
  const HostArtifact artifact = unrolled_artifact();
  const HostImage image = artifact.image();

  const std::vector<std::byte> object = spjit::write_object(image, "layer1");
  const HostImage back = spjit::read_object(object, "layer1");

  EXPECT_TRUE(std::ranges::equal(back.text, image.text));
  EXPECT_TRUE(std::ranges::equal(back.weights, image.weights));
  EXPECT_TRUE(std::ranges::equal(back.program, image.program));
  EXPECT_THROW(static_cast<void>(spjit::read_object(object, "layer2")), spjit::Error);
}

TEST(HostObject, AKernelWithoutEntriesIsAnObjectToo) {
  const CsrMatrix matrix{3, 4, {0, 0, 0, 0}, {}, {}};
  const auto grouping = spjit::group_rows(matrix, 2, spjit::ReorderAlgorithm::none);
  const HostArtifact artifact = spjit::make_unrolled_artifact(
      spjit::build_plan(matrix, grouping, 4), small_tile(), problem_of(matrix, 9), HostIsa::avx2);

  const std::vector<std::byte> object = spjit::write_object(artifact.image(), "none");
  const HostProgramRecord record = spjit::read_program(spjit::read_object(object, "none"));

  EXPECT_EQ(record.tiles(), 0);
  EXPECT_EQ(record.empty_rows.list(0, 5), (std::vector<std::int32_t>{0, 1, 2}));
}

}  // namespace
