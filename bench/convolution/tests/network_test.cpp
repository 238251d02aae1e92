#include "bench/convolution/network.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "bench/model/network.hpp"
#include "bench/model/resnet50.hpp"
#include "spjit/error.hpp"
#include "spjit/generate.hpp"
#include "spjit/matrix_io.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;
using spjit::testing_support::TemporaryDirectory;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<std::string> names_of(const std::vector<ConvNetwork>& networks) {
  std::vector<std::string> names;
  for (const ConvNetwork& network : networks) names.push_back(to_string(network));
  return names;
}

void write(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

TEST(Resnet50, Has53ConvolutionsOfHalfAsManyShapes) {
  const std::vector<Resnet50Layer> layers = resnet50_layers();
  double gflop = 0;
  std::map<std::string, int> counts;
  for (const Resnet50Layer& layer : layers) {
    const std::int64_t pixels = layer.shape.output_height() * layer.shape.output_width();
    gflop += 2e-9 * static_cast<double>(layer.filters * layer.weights_of_filter() * pixels);
    ++counts[std::to_string(layer.filters) + " " + to_string(layer.shape)];
  }
  EXPECT_EQ(layers.size(), 53U);
  EXPECT_EQ(counts.size(), 23U);
  EXPECT_NEAR(gflop, 8.174, 0.001) << "4.09 G multiply-adds with the dense layer's 2 M";
  EXPECT_EQ(layers.back().shape.output_height(), 7);
  EXPECT_EQ(layers.back().name, "bottleneck_3_block_group4_2_1");
}

TEST(Resnet50, HasItsStridesInThe3x3) {
  for (const Resnet50Layer& layer : resnet50_layers()) {
    if (layer.name == "bottleneck_1_block_group_projection_block_group2") {
      EXPECT_EQ(layer.shape.stride_width, 1);
      EXPECT_EQ(layer.shape.height, 56);
    }
    if (layer.name == "bottleneck_2_block_group_projection_block_group2") {
      EXPECT_EQ(layer.shape.stride_width, 2);
      EXPECT_EQ(layer.shape.output_height(), 28);
    }
  }
}

TEST(ListConvNetworks, GeneratesWhereThereIsNoData) {
  ConvNetworkOptions options;
  options.sparsities = {90};

  const std::vector<ConvNetwork> networks = list_conv_networks(options);

  ASSERT_THAT(names_of(networks), ElementsAre("resnet50-90"));
  const std::vector<ConvLayer> layers = networks[0].load();
  ASSERT_EQ(layers.size(), 53U);
  EXPECT_EQ(layers[1].origin, "generated, seed 90001");
  EXPECT_EQ(layers[1].weights.rows, 256);
  EXPECT_EQ(layers[1].weights.nnz(), 1638);
  EXPECT_EQ(layers[2].name, "bottleneck_1_block_group_projection_block_group1");
}

TEST(ListConvNetworks, TakesPatternsThatFit) {
  const TemporaryDirectory folder;
  const auto rn50 = folder.path() / "dlmc/rn50";
  GenerateOptions generate;
  generate.rows = 64;
  generate.cols = 64;
  generate.sparsity = 0.8;
  const std::string name = "bottleneck_1_block_group_projection_block_group1.smtx";
  std::filesystem::create_directories(rn50);
  const CsrMatrix matrix = generate_matrix(generate);
  std::string text = "64, 64, " + std::to_string(matrix.nnz()) + "\n";
  for (const auto at : matrix.row_ptrs) text += std::to_string(at) + ' ';
  text += '\n';
  for (const auto col : matrix.col_idxs) text += std::to_string(col) + ' ';
  write(rn50 / "random_pruning/0.8" / name, text + '\n');
  write(rn50 / "random_pruning/0.9" / name, text + '\n');  // not as sparse as it says
  ConvNetworkOptions options;
  options.data = folder.path();
  options.sparsities = {80, 90};

  const std::vector<ConvNetwork> networks = list_conv_networks(options);

  const ConvLayer found = networks[0].load()[2];
  EXPECT_EQ(found.origin, "dlmc/rn50/random_pruning/0.8/" + name);
  EXPECT_EQ(found.weights.col_idxs, matrix.col_idxs);
  EXPECT_EQ(networks[1].load()[2].origin, "generated, seed 90002");
}

constexpr const char* k_layers = R"({"schema": "spjit-convolutions-1", "layers": [
  {"name": "conv 0", "file": "00.mtx", "convolution":
   {"channels": 2, "height": 8, "width": 6, "kernel": [3, 3], "stride": [2, 2],
    "pad": [1, 1, 1, 1], "dilation": [1, 1], "groups": 2}}]})";

TEST(ListConvNetworks, ReadsFoldersOfConvolutions) {
  const TemporaryDirectory folder;
  const auto network = folder.path() / "tiny-90";
  write(network / k_convolutions_file, k_layers);
  write(network / "00.mtx", "%%MatrixMarket matrix coordinate real general\n2 9 2\n1 1 1\n2 9 3\n");
  ConvNetworkOptions options;
  options.networks = folder.path();
  options.sparsities = {90};

  const std::vector<ConvNetwork> networks = list_conv_networks(options);

  ASSERT_THAT(names_of(networks), ElementsAre("resnet50-90", "tiny-90"));
  const std::vector<ConvLayer> layers = networks[1].load();
  ASSERT_EQ(layers.size(), 1U);
  EXPECT_EQ(layers[0].shape.groups, 2);
  EXPECT_EQ(layers[0].shape.output_width(), 3);
  EXPECT_EQ(layers[0].weights.nnz(), 2);
  options.sparsities = {80};
  EXPECT_THAT(names_of(list_conv_networks(options)), ElementsAre("resnet50-80"));
}

TEST(LoadConvLayers, RefusesWhatIsNotAsItShouldBe) {
  const TemporaryDirectory folder;
  const auto load = [&] { (void)load_conv_layers(folder.path()); };
  EXPECT_THAT(load, ThrowsMessage<IoError>(HasSubstr("schema spjit-convolutions-1")));
  write(folder.path() / k_convolutions_file, k_layers);
  EXPECT_THAT(load, ThrowsMessage<IoError>(HasSubstr("layer 0")));
  write(folder.path() / "00.mtx", "%%MatrixMarket matrix coordinate real general\n2 8 1\n1 1 1\n");
  EXPECT_THAT(load, ThrowsMessage<IoError>(HasSubstr("layer 0")));
  write(folder.path() / k_convolutions_file, R"({"schema": "spjit-convolutions-1", "layers": []})");
  EXPECT_THAT(load, ThrowsMessage<IoError>(HasSubstr("has no layers")));
}

}  // namespace
