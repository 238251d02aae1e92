// Every file of the data folder, against the sizes its manifest states.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "spjit/matrix_io.hpp"
#include "test_support.hpp"

namespace spjit {
namespace {

using testing::HasSubstr;

struct ManifestRow {
  std::string file;
  std::string rows;
  std::string cols;
  std::string nnz;
  std::string kind;
};

std::vector<ManifestRow> read_manifest() {
  std::ifstream manifest(test::data_folder() / "MANIFEST.tsv");
  std::vector<ManifestRow> rows;
  std::string line;
  std::getline(manifest, line);  // the titles
  while (std::getline(manifest, line)) {
    std::istringstream fields(line);
    std::vector<std::string> field(9);
    for (std::string& text : field) {
      std::getline(fields, text, '\t');
    }
    rows.push_back({field[0], field[4], field[5], field[6], field[8]});
  }
  return rows;
}

bool is_complex(const ManifestRow& row) {
  return row.file.ends_with("dialects_ok/complex.mtx") || row.file.ends_with("dialects_ok/cha.mtx");
}

class RealFiles : public testing::Test {
 protected:
  void SetUp() override {
    if (!exists(test::data_folder() / "MANIFEST.tsv")) {
      GTEST_SKIP() << test::data_folder() << " has no MANIFEST.tsv: set SPJIT_TEST_DATA";
    }
  }
};

TEST_F(RealFiles, HaveTheShapeAndEntriesOfTheManifest) {
  int loaded = 0;
  for (const ManifestRow& row : read_manifest()) {
    if (row.rows == "-" || is_complex(row)) {
      continue;
    }
    SCOPED_TRACE(row.file);

    const CsrMatrix matrix = load_matrix(test::data_folder() / row.file);

    EXPECT_EQ(std::to_string(matrix.rows), row.rows);
    EXPECT_EQ(std::to_string(matrix.cols), row.cols);
    EXPECT_EQ(std::to_string(matrix.nnz()), row.nnz);
    EXPECT_NO_THROW(matrix.validate());
    CsrMatrix sorted = matrix;
    sorted.sort_columns();
    EXPECT_EQ(sorted.col_idxs, matrix.col_idxs);
    ++loaded;
  }

  EXPECT_GE(loaded, 90);
}

TEST_F(RealFiles, AreRefusedInOneLineWithFileLineAndReasonWhereBad) {
  int refused = 0;
  for (const ManifestRow& row : read_manifest()) {
    if (row.rows != "-") {
      continue;
    }
    SCOPED_TRACE(row.file + " (" + row.kind + ")");
    const std::filesystem::path path = test::data_folder() / row.file;

    const std::string message =
        test::message_of<IoError>([&] { static_cast<void>(load_matrix(path)); });

    EXPECT_THAT(message, testing::MatchesRegex(path.string() + ":[0-9]+: .+"));
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    ++refused;
  }

  EXPECT_GE(refused, 30);
}

TEST_F(RealFiles, AreNotSupportedWhereComplex) {
  for (const ManifestRow& row : read_manifest()) {
    if (is_complex(row)) {
      const std::filesystem::path path = test::data_folder() / row.file;

      const std::string message =
          test::message_of<NotSupported>([&] { static_cast<void>(load_matrix(path)); });

      EXPECT_THAT(message, HasSubstr(path.string() + ":"));
      EXPECT_THAT(message, HasSubstr("the imaginary part is"));
    }
  }
}

// What is wrong with each file, from its line in the manifest, and how the reader says it.
TEST_F(RealFiles, AreRefusedForTheRightReason) {
  const std::map<std::string, std::string> reasons = {
      {"derived_smtx/col_out_of_range.smtx", ":3: column index 2047 is 64: expected 0 to 63"},
      {"derived_smtx/duplicate_col.smtx", ":3: row 3 has column"},
      {"derived_smtx/empty_file.smtx", ":1: the file is empty"},
      {"derived_smtx/float_index.smtx", "is '0.5': expected an integer"},
      {"derived_smtx/huge_dims.smtx", ":1: the header says 4294967296 x 4294967296"},
      {"derived_smtx/missing_index_line.smtx", "the line of column indices is missing"},
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
      {"lagraph/mangled6.mtx", "only complex matrices are hermitian"},
      {"lagraph/mangled8.mtx", "the size line has no number of columns"},
      {"lagraph/mangled11.mtx", "the column is 'zero'"},
      {"lagraph/mangled13.mtx", ":7: the column is 9999: expected 1 to 4"},
      {"lagraph/mangled14.mtx", ":8: entry (2, 2) was given before"},
      {"lagraph/mangled15.mtx", "the entry goes on with '.959'"},
      {"lagraph/mangled_format.mtx", ":1: the banner says array pattern"},
      {"lagraph/west0067_noheader.mtx", ":1: the file starts with '67'"},
      {"suitesparse/bad_dimensions.mtx", "the file ends before the size line"},
      {"real/ash608.mtx", ":15: the entry goes on with '5'"},
      {"real/mahindas.mtx", ":1: the file starts with '1'"},
  };
  for (const auto& entry : reasons) {
    const auto& file = entry.first;  // clang 14 captures no structured bindings
    const auto& reason = entry.second;
    SCOPED_TRACE(file);

    const std::string message = test::message_of<IoError>(
        [&] { static_cast<void>(load_matrix(test::data_folder() / "malformed" / file)); });

    EXPECT_THAT(message, HasSubstr(reason));
  }
}

TEST_F(RealFiles, AreTheSameMatrixInWhateverOrderTheirEntriesCome) {
  const auto folder = test::data_folder() / "malformed" / "dialects_ok";

  EXPECT_EQ(load_matrix(folder / "west0067_jumbled.mtx"), load_matrix(folder / "west0067.mtx"));
}

TEST_F(RealFiles, LoadTheDenseInputAndResultOfALayer) {
  const auto folder = test::data_folder() / "weights" / "sparsert_mobilenet";
  const DenseMatrix input = load_dense(folder / "BC.npy");
  const DenseMatrix expected = load_dense(folder / "ref.npy");
  const CsrMatrix weights = load_matrix(folder / "contraction_1x1_0.npy");

  // One column of the product is enough to know that rows, columns and values are in their places.
  const auto n = static_cast<std::size_t>(input.cols);
  const std::size_t column = 4321;
  for (std::size_t row = 0; row < static_cast<std::size_t>(weights.rows); ++row) {
    double sum = 0;
    for (auto at = static_cast<std::size_t>(weights.row_ptrs[row]);
         at < static_cast<std::size_t>(weights.row_ptrs[row + 1]); ++at) {
      const auto k = static_cast<std::size_t>(weights.col_idxs[at]);
      sum += static_cast<double>(weights.values[at]) *
             static_cast<double>(input.values[k * n + column]);
    }
    EXPECT_NEAR(sum, static_cast<double>(expected.values[row * n + column]), 1e-6) << row;
  }
}

}  // namespace
}  // namespace spjit
