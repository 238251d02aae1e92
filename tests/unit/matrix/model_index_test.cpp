#include "matrix/model_index.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "matrix/file_names.hpp"
#include "matrix/tensor_file.hpp"
#include "spjit/model_io.hpp"
#include "tests/support/files/safetensors_file.hpp"
#include "tests/unit/matrix/test_support.hpp"

namespace {

using namespace spjit;        // NOLINT(google-build-using-namespace): a test
using namespace spjit::test;  // NOLINT(google-build-using-namespace): a test
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// A model in two parts, of which the second has what the first left behind, too.
class ModelIndexFiles : public testing::Test {
 protected:
  ModelIndexFiles() {
    write(folder_ / "m-00001-of-00002.safetensors",
          safetensors({float_tensor("a.weight", "[2, 2]", {1, 0, 0, 2}),
                       float_tensor("b.weight_orig", "[1, 3]", {5, 6, 7})}));
    write(folder_ / "m-00002-of-00002.safetensors",
          safetensors({float_tensor("a.weight", "[2, 2]", {9, 9, 9, 9}),
                       float_tensor("b.weight_mask", "[1, 3]", {0, 1, 1}),
                       float_tensor("stale.weight", "[2, 2]", {9, 9, 9, 9})}));
    write_index(R"({"metadata": {"total_size": 1, "note": "text"}, "weight_map": {
                 "b.weight_mask": "m-00002-of-00002.safetensors",
                 "a.weight": "m-00001-of-00002.safetensors",
                 "b.weight_orig": "m-00001-of-00002.safetensors"}})");
  }

  void write_index(const std::string& text) const { write(index(), text); }
  [[nodiscard]] std::filesystem::path index() const { return folder_ / "m.safetensors.index.json"; }
  [[nodiscard]] std::string error() const {
    return message_of<IoError>([&] { static_cast<void>(list_weights(index())); });
  }

  TemporaryFolder folder_;
};

TEST_F(ModelIndexFiles, SayWhichPartHoldsWhat) {
  const std::vector<WeightTensor> weights = list_weights(index());

  ASSERT_EQ(weights.size(), 2U);
  EXPECT_EQ(weights[0].name, "a.weight");
  EXPECT_EQ(weights[1].name, "b.weight");
  EXPECT_THAT(load_weights(index(), "a.weight").values, ElementsAre(1, 2));
  EXPECT_THAT(load_weights(index(), "b.weight").values, ElementsAre(6, 7));
  EXPECT_EQ(TensorFile::open(index(), "m").metadata("note"), "text");
  EXPECT_EQ(TensorFile::open(index(), "m").metadata("total_size"), "");
}

TEST_F(ModelIndexFiles, NameWhatIsNotThere) {
  write_index(R"({"weight_map": {"c.weight": "m-00001-of-00002.safetensors"}})");
  EXPECT_THAT(error(), HasSubstr("it lists tensor 'c.weight' in"));
  write_index(R"({"weight_map": {"a.weight": "none.safetensors"}})");
  EXPECT_THAT(error(), HasSubstr("none.safetensors: cannot open: No such file"));
}

TEST(ModelIndex, RefusesWhatIsNone) {
  const auto error = [](const std::string& text) {
    return message_of<IoError>([&] { static_cast<void>(parse_model_index(text, "m.json")); });
  };

  for (const char* text : {"", "[]", "{}", R"({"weight_map": 3})", R"({"weight_map": {"a": 3}})"}) {
    EXPECT_THAT(error(text), StartsWith("m.json: index of a model: ")) << text;
  }
  for (const char* file : {"../a", "/a", "", ".", "..", "b/a", "a\\u0000b"}) {
    const std::string text = std::string(R"({"weight_map": {"t": ")") + file + R"("}})";
    EXPECT_THAT(error(text), HasSubstr("beside the index")) << file;
  }
  EXPECT_THAT(error(R"({"weight_map": {"a": "x", "a": "y"}})"), HasSubstr("'a' is there twice"));
}

TEST(FileNames, SayWhatAFileIs) {
  EXPECT_TRUE(is_model_index("a/model.safetensors.INDEX.json"));
  EXPECT_FALSE(is_model_index("model.index.json"));
  EXPECT_EQ(matrix_extension("a.MTX.gz"), ".mtx.gz");
  EXPECT_EQ(matrix_extension("a.b.npz"), ".npz");
  EXPECT_TRUE(is_matrix_file("a.mtx.gz"));
  EXPECT_FALSE(is_matrix_file("a.npz.gz"));
  EXPECT_FALSE(is_matrix_file("a.gz"));
}

}  // namespace
