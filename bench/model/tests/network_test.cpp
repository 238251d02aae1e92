#include "bench/model/network.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "bench/host/buffers.hpp"
#include "spjit/error.hpp"
#include "spjit/matrix_io.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;
using namespace spjit::testing_support;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<std::string> names_of(const std::vector<Network>& networks) {
  std::vector<std::string> names;
  names.reserve(networks.size());
  for (const Network& network : networks) names.push_back(network.name);
  return names;
}

TEST(Tiled, PutsBlocksBesideAndBelowEachOther) {
  const CsrMatrix one = random_matrix(2, 3, 0.5, 1);
  const CsrMatrix other = random_matrix(2, 3, 0.5, 2);

  const CsrMatrix whole = tiled({&one, &other, &other, &one}, 2);

  ASSERT_EQ(whole.rows, 4);
  ASSERT_EQ(whole.cols, 6);
  ASSERT_EQ(whole.nnz(), 2 * (one.nnz() + other.nnz()));
  const std::vector<float> parts[] = {dense_of(one), dense_of(other)};
  const std::vector<float> dense = dense_of(whole);
  for (std::size_t row = 0; row < 4; ++row) {
    for (std::size_t col = 0; col < 6; ++col) {
      const bool diagonal = (row < 2) == (col < 3);
      EXPECT_EQ(dense[row * 6 + col], parts[diagonal ? 0 : 1][row % 2 * 3 + col % 3]);
    }
  }
}

TEST(Tiled, TakesNoBlocksThatFillNoRectangle) {
  const CsrMatrix one = random_matrix(2, 3, 0.5, 1);
  const CsrMatrix other = random_matrix(3, 3, 0.5, 2);
  EXPECT_THROW(static_cast<void>(tiled({&one, &one, &one}, 2)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(tiled({&one, &other}, 1)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(tiled({}, 1)), InvalidArgument);
}

TEST(Normalize, LeavesRowsOfLengthOneOnAverage) {
  std::vector<NetworkLayer> layers = {{"a", random_matrix(40, 30, 0.5, 1)},
                                      {"no entries", {3, 4, {0, 0, 0, 0}, {}, {}}}};

  normalize(layers);

  double squares = 0;
  for (const float value : layers[0].matrix.values) squares += double{value} * double{value};
  EXPECT_NEAR(squares, 40, 0.01);
}

TEST(NnzOf, IsOfAllLayers) {
  EXPECT_EQ(nnz_of({{"a", random_matrix(4, 4, 0, 1)}, {"b", random_matrix(3, 3, 0, 1)}}), 25);
}

TEST(ListNetworks, MakesThemOfTheFilesThatThereAre) {
  const TemporaryDirectory folder;
  const auto save = [&](const std::string& file, std::int64_t rows, std::int64_t cols) {
    const auto path = folder.path() / file;
    std::filesystem::create_directories(path.parent_path());
    save_matrix(random_matrix(rows, cols, 0.9, 1), path);
  };
  for (int block = 0; block < 6; ++block) {
    for (int part = 0; part < 6; ++part) {
      const std::string file = fmt::format("networks/minilm-90/{:02}.npz", 6 * block + part);
      save(file, part == 4 ? 16 : 4, part == 5 ? 16 : 4);
    }
  }
  const auto write = [&](const std::string& file, std::int64_t rows, std::int64_t cols) {
    const auto path = folder.path() / "dlmc" / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream text(path);
    text << rows << ", " << cols << ", 1\n0";
    for (std::int64_t row = 0; row < rows; ++row) text << " 1";
    text << "\n0\n";
  };
  write("transformer/magnitude_pruning/0.9/q_self_attention.smtx", 512, 512);
  write("transformer/magnitude_pruning/0.98/symbol.smtx", 20, 10);
  write("rn50/magnitude_pruning/0.7/initial_conv.smtx", 64, 147);
  write("rn50/magnitude_pruning/0.5/square.smtx", 64, 64);
  write("rn50/magnitude_pruning/0.8/wide.smtx", 64, 256);
  write("rn50/magnitude_pruning/0.95/final_dense.smtx", 1000, 2048);

  write("transformer/l0_regularization/0.5/q.smtx", 7, 9);
  save("weights/lyra/conv.npz", 5, 6);
  std::ofstream(folder.path() / "weights" / "lyra" / "ref.npy") << "a dense product";

  const auto networks = list_networks({folder.path(), folder.path() / "networks"});

  ASSERT_THAT(names_of(networks),
              ElementsAre("minilm-90", "bert-90", "transformer-90", "rn50", "unseen"));
  EXPECT_EQ(networks[0].load().size(), 36U);
  const std::vector<NetworkLayer> bert = networks[1].load();
  ASSERT_EQ(bert.size(), 72U);
  EXPECT_EQ(bert[4].matrix.rows, 32);
  EXPECT_EQ(bert[4].matrix.cols, 8);
  const std::vector<NetworkLayer> transformer = networks[2].load();
  ASSERT_EQ(transformer.size(), 96U);
  EXPECT_EQ(transformer[4].matrix.rows, 2048);
  EXPECT_EQ(transformer[5].matrix.cols, 2048);
  const std::vector<NetworkLayer> rn50 = networks[3].load();
  ASSERT_EQ(rn50.size(), 54U);
  const auto expect_shape = [&](std::size_t layer, std::int64_t rows, std::int64_t cols) {
    EXPECT_EQ(rn50[layer].matrix.rows, rows) << layer;
    EXPECT_EQ(rn50[layer].matrix.cols, cols) << layer;
  };
  expect_shape(0, 64, 147);
  expect_shape(1, 256, 64);
  expect_shape(3, 64, 576);
  expect_shape(43, 2048, 1024);
  expect_shape(45, 512, 4608);
  expect_shape(53, 1000, 2048);
  const std::vector<NetworkLayer> unseen = networks[4].load();
  ASSERT_EQ(unseen.size(), 32U) << "two files, as often as few nonzeros allow";
  EXPECT_EQ(unseen[0].name, "conv");
  EXPECT_EQ(unseen[31].matrix.cols, 9);
  // Each file has one nonzero.
  EXPECT_EQ(rn50[3].name, "square");
  EXPECT_EQ(rn50[3].matrix.nnz(), 9);
  EXPECT_EQ(rn50[43].name, "wide");
  EXPECT_EQ(rn50[43].matrix.nnz(), 32 * 4);
}

TEST(ListNetworks, SaysWhichLayerOfResNetNothingFills) {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "dlmc/rn50/magnitude_pruning/0.9";
  std::filesystem::create_directories(path);
  std::ofstream(path / "conv.smtx") << "3, 7, 0\n0 0 0 0\n\n";

  const auto networks = list_networks({folder.path(), "/nowhere"});

  ASSERT_THAT(names_of(networks), ElementsAre("rn50"));
  EXPECT_THAT([&] { static_cast<void>(networks[0].load()); },
              ThrowsMessage<NotSupported>(HasSubstr("64 x 147")));
}

TEST(ListNetworks, IsEmptyWithoutFiles) {
  EXPECT_TRUE(list_networks({"/nowhere", "/nowhere"}).empty());
}

}  // namespace
