#include "bench/side_by_side/case_sets.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "bench/host/surroundings.hpp"
#include "spjit/error.hpp"

namespace {

using namespace spjit::side_by_side;
namespace fs = std::filesystem;
using testing::ElementsAre;

/// A folder with data of our own.
class CaseSets : public testing::Test {
 protected:
  CaseSets() {
    fs::create_directories(scratch_.path());
    options_.data = scratch_.path();
    options_.paper_set = scratch_.path() / "paper_set.json";
    options_.n = {1, 32};
  }

  void write(const std::string& name, const std::string& text) {
    fs::create_directories((scratch_.path() / name).parent_path());
    std::ofstream(scratch_.path() / name) << text;
  }

  spjit::bench::ScratchDirectory scratch_{"spjit-case-sets-test"};
  SetOptions options_;
};

constexpr const char* k_smtx = "2, 3, 2\n0 1 2\n0 2\n";

TEST_F(CaseSets, DlmcIsEveryFileInOrderWithResNetsOwnColumns) {
  write("dlmc/transformer/a.smtx", k_smtx);
  write("dlmc/rn50/bottleneck_2_block_group4_1_1.smtx", k_smtx);
  write("dlmc/rn50/readme.txt", "no matrix");

  const auto entries = list_matrices("dlmc", options_);

  ASSERT_EQ(entries.size(), 2);
  EXPECT_EQ(entries[0].name, "rn50/bottleneck_2_block_group4_1_1.smtx");
  EXPECT_THAT(entries[0].n, ElementsAre(1, 32, 49));
  EXPECT_EQ(entries[1].name, "transformer/a.smtx");
  EXPECT_THAT(entries[1].n, ElementsAre(1, 32));
  EXPECT_EQ(entries[1].load().nnz(), 2);
}

TEST_F(CaseSets, TokensAreLayersOfLanguageModelsForFewColumns) {
  const auto entries = list_matrices("tokens", options_);

  ASSERT_EQ(entries.size(), 9);
  EXPECT_EQ(entries[7].name, "768x3072/0.7");
  EXPECT_THAT(entries[7].n, ElementsAre(1, 4, 16, 64));
  const spjit::CsrMatrix matrix = entries[7].load();
  EXPECT_EQ(matrix.rows, 768);
  EXPECT_NEAR(static_cast<double>(matrix.nnz()), 0.3 * 768 * 3072, 1000);
}

TEST(DrawnOrder, HasEveryMatrixOnceAndIsTheSameForTheSameSeed) {
  std::vector<MatrixEntry> entries;
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"})
    entries.push_back({"", name, "", {}, {}});
  const auto names_of = [](const std::vector<MatrixEntry>& given) {
    std::string names;
    for (const MatrixEntry& entry : given) names += entry.name;
    return names;
  };

  const std::string drawn = names_of(in_drawn_order(entries, 1));

  EXPECT_THAT(drawn, testing::WhenSorted(testing::ElementsAreArray(names_of(entries))));
  EXPECT_NE(drawn, names_of(entries));
  EXPECT_EQ(drawn, names_of(in_drawn_order(entries, 1)));
  EXPECT_NE(drawn, names_of(in_drawn_order(entries, 2)));
}

TEST_F(CaseSets, WeightsLeaveOutDenseOperands) {
  write("weights/net/BC.npy", "a dense operand");
  write("weights/net/a.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 0.5\n");

  const auto entries = list_matrices("weights", options_);

  ASSERT_EQ(entries.size(), 1);
  EXPECT_EQ(entries[0].name, "net/a.mtx");
  EXPECT_EQ(entries[0].load().values, std::vector<float>{0.5F});
}

TEST_F(CaseSets, PaperHasItsOwnColumnsAndOnTheHostSomeSparsities) {
  write("paper_set.json", R"({"schema": "spjit-paper-set-1", "sparsities": [0.5, 0.9],
    "shapes": [{"id": 7, "network": "Net", "layer": "conv", "m": 64, "k": 128, "n": 50}]})");

  const auto some = list_matrices("paper", options_);
  options_.all = true;
  const auto all = list_matrices("paper", options_);

  ASSERT_EQ(some.size(), 1);
  EXPECT_EQ(some[0].name, "07-64x128/0.9");
  EXPECT_EQ(some[0].layer, "Net conv");
  EXPECT_THAT(some[0].n, ElementsAre(50));
  const spjit::CsrMatrix matrix = some[0].load();
  EXPECT_EQ(matrix.rows, 64);
  EXPECT_EQ(matrix.cols, 128);
  EXPECT_NEAR(static_cast<double>(matrix.nnz()), 0.1 * 64 * 128, 2);
  EXPECT_EQ(all.size(), 2);
}

TEST_F(CaseSets, WhatIsNotThereIsNamed) {
  EXPECT_THROW((void)list_matrices("dlmc", options_), spjit::IoError);
  EXPECT_THROW((void)list_matrices("paper", options_), spjit::IoError);
  EXPECT_THROW((void)list_matrices("suitesparse", options_), spjit::InvalidArgument);
}

TEST(ResNet50, ColumnsAreThePixelsOfALayer) {
  EXPECT_EQ(resnet50_columns("initial_conv"), 12544);
  EXPECT_EQ(resnet50_columns("bottleneck_1_block_group1_1_1"), 3136);
  EXPECT_EQ(resnet50_columns("bottleneck_2_block_group2_1_1"), 784);
  EXPECT_EQ(resnet50_columns("bottleneck_3_block_group4_1_1"), 49);
  // Before the stride of its group; only the first has no group before it.
  EXPECT_EQ(resnet50_columns("bottleneck_1_block_group_projection_block_group3"), 784);
  EXPECT_EQ(resnet50_columns("bottleneck_1_block_group_projection_block_group1"), 3136);
  EXPECT_EQ(resnet50_columns("bottleneck_projection_block_group_projection_block_group3"), 196);
  EXPECT_EQ(resnet50_columns("final_dense"), std::nullopt);
  EXPECT_EQ(resnet50_columns("block_group"), std::nullopt);
}

TEST(Representative, KeepsAFew) {
  const std::string kept = "rn50/magnitude_pruning/0.95/final_dense.smtx";

  const auto entries = representative({{"dlmc", kept, "", {}, {1}}, {"dlmc", "x", "", {}, {1}}});

  ASSERT_EQ(entries.size(), 1);
  EXPECT_EQ(entries[0].name, kept);
}

}  // namespace
