// Every file of the data folder that is a matrix, against the sizes its manifest states; what is
// malformed is in malformed_files_test.cpp.

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "spjit/matrix_io.hpp"
#include "test_support.hpp"

namespace spjit {
namespace {

struct ManifestRow {
  std::string file;
  std::string rows;
  std::string cols;
  std::string nnz;
};

std::vector<ManifestRow> read_manifest() {
  std::ifstream manifest(test::data_folder() / "MANIFEST.tsv");
  std::vector<ManifestRow> rows;
  std::string line;
  std::getline(manifest, line);  // the titles
  while (std::getline(manifest, line)) {
    std::istringstream fields(line);
    std::vector<std::string> field(7);
    for (std::string& text : field) {
      std::getline(fields, text, '\t');
    }
    rows.push_back({field[0], field[4], field[5], field[6]});
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
