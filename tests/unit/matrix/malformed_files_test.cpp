// Every file of data/malformed by what its line in the manifest says: refused with file, line and
// reason, or read right. No file of the folder is left out.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "spjit/matrix_io.hpp"
#include "test_support.hpp"

namespace spjit {
namespace {

using testing::HasSubstr;

// What is wrong with each bad file, and how the reader says it.
const std::map<std::string, std::string> k_refused = {
    {"derived_smtx/col_out_of_range.smtx", ":3: column index 2047 is 64: expected 0 to 63"},
    {"derived_smtx/duplicate_col.smtx", ":3: row 3 has column"},
    {"derived_smtx/empty_file.smtx", ":1: the file is empty"},
    {"derived_smtx/float_index.smtx", "is '0.5': expected an integer"},
    {"derived_smtx/huge_dims.smtx", ":1: the header says 4294967296 x 4294967296"},
    {"derived_smtx/missing_index_line.smtx", ":2: the line of column indices is missing"},
    {"derived_smtx/negative_col.smtx", "is -1: expected 0 to 63"},
    {"derived_smtx/nnz_header_mismatch.smtx", ":2: the last row offset is 2048"},
    {"derived_smtx/non_numeric.smtx", "is 'abc': expected an integer"},
    {"derived_smtx/offset0_nonzero.smtx", ":2: row offset 0 is 1"},
    {"derived_smtx/overflow_index.smtx", ":3: column index"},
    {"derived_smtx/per_row_layout_as_dlmc_readme.smtx", ":2: the line has 39 row offsets"},
    {"derived_smtx/rows_header_mismatch.smtx", ":2: the line has 65 row offsets"},
    {"derived_smtx/truncated_mid_token.smtx", ":3: the line has 604 column"},
    {"lagraph/mangled1.mtx", ":1: the object in the banner is 'mangled'"},
    {"lagraph/mangled2.mtx", ":1: the format in the banner is 'mangled'"},
    {"lagraph/mangled3.mtx", ":1: the field in the banner is 'mangled'"},
    {"lagraph/mangled4.mtx", ":1: the symmetry in the banner is 'mangled'"},
    {"lagraph/mangled6.mtx", ":1: the banner says hermitian, but not complex"},
    {"lagraph/mangled7.mtx", ":4: the size line asks for 3 entries"},  // of 4 bytes each, not 6
    {"lagraph/mangled8.mtx", ":4: the size line has no number of columns"},
    {"lagraph/mangled10.mtx", ":4: the size line asks for 3 entries"},  // there are two
    {"lagraph/mangled11.mtx", ":5: the column is 'zero'"},
    {"lagraph/mangled13.mtx", ":7: the column is 9999: expected 1 to 4"},
    {"lagraph/mangled14.mtx", ":8: entry (2, 2) was given before"},
    {"lagraph/mangled15.mtx", ":5: the entry goes on with '.959'"},
    {"lagraph/mangled_format.mtx", ":1: the banner says array pattern"},
    {"lagraph/west0067_noheader.mtx", ":1: the file starts with '67'"},
    {"real/ash608.mtx", ":15: the entry goes on with '5'"},
    {"real/mahindas.mtx", ":1: the file starts with '1'"},
    {"real/west0479.mtx", ":1: the file starts with '25'"},
    {"suitesparse/bad_dimensions.mtx", "the file ends before the size line"},
    {"suitesparse/bad_matrix_type.mtx", ":2: the size line asks for 1 entries"},  // one of 4 bytes
    {"suitesparse/mangle1.mtx", ":1: the object in the banner is 'junk'"},
    {"suitesparse/mangle2.mtx", ":1: the format in the banner is 'junk'"},
    {"suitesparse/mangle4.mtx", ":1: the symmetry in the banner is 'junk'"},
};

// Legal, but not for a library of real matrices.
const std::set<std::string> k_complex = {"dialects_ok/cha.mtx", "dialects_ok/complex.mtx"};

// Sums over entries, rows and columns counted from 1: of values, row * value, column * value and
// row * column * value.
struct Moments {
  double values = 0;
  double rows = 0;
  double cols = 0;
  double both = 0;
};

struct LegalFile {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t nnz = 0;
  Moments moments;
  bool pattern = false;  ///< of a pattern every entry counts as 1
};

// Computed from the files by another program (a few lines of Python), values rounded to fp32. Of
// comments_west0067.mtx the entry (1, 1), a NaN, is left out.
const std::map<std::string, LegalFile> k_legal = {
    {"derived_smtx/unsorted_row_LEGAL.smtx", {64, 64, 2048, {2048, 66825, 64873, 2120359}, true}},
    {"dialects_ok/3by0.mtx", {3, 0, 0, {}}},
    {"dialects_ok/a00.mtx", {0, 0, 0, {}, true}},
    {"dialects_ok/a01.mtx", {0, 1, 0, {}, true}},
    {"dialects_ok/a04.mtx", {0, 4, 0, {}}},
    {"dialects_ok/comments_west0067.mtx",
     {67, 67, 295, {34.308749, 2779.61419, 1147.53225, 88241.4043}}},
    {"dialects_ok/full.mtx", {3, 3, 9, {4.49700001, 9.81699997, 7.66299999, 17.1999999}}},
    {"dialects_ok/full_symmetric.mtx", {4, 4, 16, {282.20434, 689.799381, 689.799381, 1598.32751}}},
    {"dialects_ok/lp_afiro_structure.mtx", {27, 51, 102, {102, 1527, 3057, 48611}, true}},
    {"dialects_ok/mangled_int8.mtx", {7, 7, 12, {42, -211, 333, 498}}},
    {"dialects_ok/mangled_skew.mtx", {6, 6, 20, {0, 1278, -1278, 0}}},
    {"dialects_ok/matrix_bool.mtx", {7, 7, 12, {7, 28, 30, 117}}},
    {"dialects_ok/structure.mtx", {7, 7, 12, {12, 49, 49, 196}, true}},
    {"dialects_ok/west0067.mtx", {67, 67, 294, {34.308749, 2779.61419, 1147.53225, 88241.4043}}},
    {"dialects_ok/west0067_jumbled.mtx",
     {67, 67, 294, {34.308749, 2779.61419, 1147.53225, 88241.4043}}},
};

std::filesystem::path malformed_folder() { return test::data_folder() / "malformed"; }

Moments moments_of(const CsrMatrix& matrix, bool pattern) {
  Moments sums;
  for (std::size_t row = 0; row + 1 < matrix.row_ptrs.size(); ++row) {
    for (auto at = static_cast<std::size_t>(matrix.row_ptrs[row]);
         at < static_cast<std::size_t>(matrix.row_ptrs[row + 1]); ++at) {
      const double value = pattern ? 1.0 : static_cast<double>(matrix.values[at]);
      if (std::isnan(value)) continue;
      const auto i = static_cast<double>(row + 1);
      const double j = matrix.col_idxs[at] + 1.0;
      sums.values += value;
      sums.rows += i * value;
      sums.cols += j * value;
      sums.both += i * j * value;
    }
  }
  return sums;
}

void expect_near(const Moments& actual, const Moments& expected) {
  const auto tolerance = [](double value) { return 1e-8 * (1 + std::abs(value)); };
  EXPECT_NEAR(actual.values, expected.values, tolerance(expected.values));
  EXPECT_NEAR(actual.rows, expected.rows, tolerance(expected.rows));
  EXPECT_NEAR(actual.cols, expected.cols, tolerance(expected.cols));
  EXPECT_NEAR(actual.both, expected.both, tolerance(expected.both));
}

class MalformedFiles : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_directory(malformed_folder())) {
      GTEST_SKIP() << malformed_folder() << " is not there: set SPJIT_TEST_DATA";
    }
  }
};

TEST_F(MalformedFiles, AreAllKnownToThisTestAndToTheManifest) {
  std::set<std::string> on_disk;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(malformed_folder())) {
    if (entry.is_regular_file()) {
      on_disk.insert(entry.path().lexically_relative(malformed_folder()).generic_string());
    }
  }
  std::set<std::string> known = k_complex;
  for (const auto& entry : k_refused) known.insert(entry.first);
  for (const auto& entry : k_legal) known.insert(entry.first);
  std::set<std::string> refused_by_manifest;
  std::set<std::string> in_manifest;
  std::ifstream manifest(test::data_folder() / "MANIFEST.tsv");
  for (std::string line; std::getline(manifest, line);) {
    const std::string prefix = "malformed/";
    if (!line.starts_with(prefix)) continue;
    const std::string file = line.substr(prefix.size(), line.find('\t') - prefix.size());
    in_manifest.insert(file);
    if (line.find("\t-\t-\t-\t") != std::string::npos) refused_by_manifest.insert(file);
  }
  std::set<std::string> refused;
  for (const auto& entry : k_refused) refused.insert(entry.first);

  EXPECT_EQ(on_disk, known);
  EXPECT_EQ(in_manifest, known);
  EXPECT_EQ(refused_by_manifest, refused);
}

TEST_F(MalformedFiles, AreRefusedInOneLineWithFileLineAndTheRightReason) {
  for (const auto& entry : k_refused) {
    const std::filesystem::path path = malformed_folder() / entry.first;
    SCOPED_TRACE(path);

    const std::string message =
        test::message_of<IoError>([&] { static_cast<void>(load_matrix(path)); });

    EXPECT_THAT(message, testing::MatchesRegex(path.string() + ":[0-9]+: .+"));
    EXPECT_THAT(message, HasSubstr(entry.second));
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

TEST_F(MalformedFiles, AreReadRightWhereTheyAreLegal) {
  for (const auto& entry : k_legal) {
    const LegalFile& expected = entry.second;
    SCOPED_TRACE(entry.first);

    const CsrMatrix matrix = load_matrix(malformed_folder() / entry.first);

    EXPECT_NO_THROW(matrix.validate());
    EXPECT_EQ(matrix.rows, expected.rows);
    EXPECT_EQ(matrix.cols, expected.cols);
    EXPECT_EQ(matrix.nnz(), expected.nnz);
    expect_near(moments_of(matrix, expected.pattern), expected.moments);
  }
}

TEST_F(MalformedFiles, AreNotSupportedWhereComplex) {
  for (const std::string& file : k_complex) {
    const std::filesystem::path path = malformed_folder() / file;

    const std::string message =
        test::message_of<NotSupported>([&] { static_cast<void>(load_matrix(path)); });

    EXPECT_THAT(message,
                testing::MatchesRegex(path.string() + ":[0-9]+: the imaginary part is .+"));
  }
}

TEST_F(MalformedFiles, AreTheMatrixTheyWereMadeFromWhereOnlyTheOrderDiffers) {
  const auto dialects = malformed_folder() / "dialects_ok";
  const auto original = test::data_folder() / "dlmc" / "rn50" / "magnitude_pruning" / "0.5" /
                        "bottleneck_1_block_group_projection_block_group1.smtx";

  EXPECT_EQ(load_matrix(dialects / "west0067_jumbled.mtx"), load_matrix(dialects / "west0067.mtx"));
  EXPECT_EQ(load_matrix(malformed_folder() / "derived_smtx" / "unsorted_row_LEGAL.smtx"),
            load_matrix(original));
}

}  // namespace
}  // namespace spjit
