// Sizes and types of the operator SparseLayer and of those of integers. test_onnx.py and
// test_onnx_integers.py of bindings/python/tests run them in ONNX Runtime.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "bindings/ort/open_bundles.hpp"
#include "bindings/ort/sparse_layer.hpp"
#include "spjit/error.hpp"
#include "tests/support/forked_child.hpp"

namespace {

using namespace spjit::ort;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// What spjit_kernel_info() says of a kernel [5 x 6] of tokens, as far as it is read.
nlohmann::json kernel_json() {
  return {{"key", "0123"},
          {"rows", 5},
          {"cols", 6},
          {"b_layout", "tokens"},
          {"c_layout", "tokens"},
          {"epilogue", {{"scale", false}, {"bias", true}, {"residual", false}}},
          {"runtime_values", false},
          {"numerics", {{"a", "bf16"}, {"b", "f32"}, {"c", "f32"}, {"accumulate", "ordered"}}},
          {"convolution", nullptr},
          {"cuda", nullptr}};
}

LayerInfo convolution_layer() {
  nlohmann::json json = kernel_json();
  json["b_layout"] = json["c_layout"] = "row-major";
  json["convolution"] = {{"channels", 6},
                         {"kernel", {3, 2}},
                         {"stride", {2, 1}},
                         {"dilation", {1, 2}},
                         {"pad", {1, 0, 0, 1}}};
  return layer_info(json.dump().c_str());
}

TEST(OrtSparseLayer, ReadsWhatAKernelIs) {
  const LayerInfo layer = layer_info(kernel_json().dump().c_str());

  EXPECT_EQ(layer.rows, 5);
  EXPECT_EQ(layer.cols, 6);
  EXPECT_TRUE(layer.tokens);
  EXPECT_TRUE(layer.has_bias);
  EXPECT_FALSE(layer.has_residual);
  EXPECT_FALSE(layer.convolution);
}

TEST(OrtSparseLayer, RefusesOtherKernels) {
  for (const auto& [member, value] :
       {std::pair<const char*, nlohmann::json>{"c_layout", "row-major"},
        {"runtime_values", true},
        {"cuda", nlohmann::json::object()},
        {"numerics", {{"b", "bf16"}, {"c", "f32"}}},
        {"numerics", {{"b", "u8"}, {"c", "f32"}, {"quantize", "given"}}},
        {"numerics", {{"b", "f32"}, {"c", "f16"}}}}) {
    nlohmann::json json = kernel_json();
    json[member] = value;
    EXPECT_THAT([&] { static_cast<void>(layer_info(json.dump().c_str())); },
                ThrowsMessage<spjit::Error>(HasSubstr("no layer of ONNX Runtime")))
        << member;
  }
}

LayerInfo layer_of(const nlohmann::json& numerics, LayerKind kind) {
  nlohmann::json json = kernel_json();
  json["numerics"] = numerics;
  json["epilogue"]["scale"] = kind != LayerKind::sums;
  return layer_info(json.dump().c_str(), kind);
}

TEST(OrtSparseLayer, KernelsOfBytesHaveAnOperatorOfTheirOwn) {
  const nlohmann::json within = {{"b", "f32"}, {"c", "f32"}, {"quantize", "tensor"}};
  const nlohmann::json given = {{"b", "u8"}, {"c", "f32"}, {"quantize", "given"}};
  const nlohmann::json sums = {{"b", "i8"}, {"c", "i32"}};

  EXPECT_EQ(layer_of(within, LayerKind::floats).x_element, k_float_element);
  EXPECT_TRUE(layer_of(within, LayerKind::floats).has_scale);
  EXPECT_EQ(layer_of(given, LayerKind::bytes).x_element, k_uint8_element);
  EXPECT_EQ(layer_of(sums, LayerKind::sums).x_element, k_int8_element);
  EXPECT_FALSE(layer_of(sums, LayerKind::sums).has_scale);
  EXPECT_EQ(layer_of({{"b", "i8"}, {"c", "u8"}, {"quantize", "given"}}, LayerKind::uint8).x_element,
            k_int8_element);
  EXPECT_EQ(layer_of({{"b", "u8"}, {"c", "i8"}, {"quantize", "given"}}, LayerKind::int8).x_element,
            k_uint8_element);
}

TEST(OrtSparseLayer, RefusesKernelsOfOtherBytes) {
  for (const auto& [numerics, kind] :
       {std::pair<nlohmann::json, LayerKind>{{{"b", "f32"}, {"c", "f32"}}, LayerKind::bytes},
        {{{"b", "u8"}, {"c", "f32"}}, LayerKind::bytes},
        {{{"b", "u8"}, {"c", "i32"}, {"quantize", "given"}}, LayerKind::bytes},
        {{{"b", "i4"}, {"c", "f32"}, {"quantize", "given"}}, LayerKind::bytes},
        {{{"b", "u8"}, {"c", "f32"}, {"quantize", "given"}}, LayerKind::sums},
        {{{"b", "u8"}, {"c", "i32"}, {"quantize", "given"}}, LayerKind::sums},
        {{{"b", "f32"}, {"c", "i32"}}, LayerKind::sums},
        {{{"b", "u8"}, {"c", "i8"}, {"quantize", "given"}}, LayerKind::uint8},
        {{{"b", "u8"}, {"c", "u8"}, {"quantize", "given"}}, LayerKind::int8},
        {{{"b", "u8"}, {"c", "u8"}}, LayerKind::uint8},
        {{{"b", "u8"}, {"c", "f32"}, {"quantize", "given"}}, LayerKind::uint8}}) {
    const auto make = [&of = numerics, kind = kind] { static_cast<void>(layer_of(of, kind)); };
    EXPECT_THAT(make, ThrowsMessage<spjit::Error>(HasSubstr("no layer of ONNX Runtime")))
        << numerics;
  }
}

TEST(OrtSparseLayer, TokensAreAllButTheLastDimension) {
  const LayerInfo layer = layer_info(kernel_json().dump().c_str());

  EXPECT_THAT(output_shape(layer, {2, 3, 6}), ElementsAre(2, 3, 5));
  EXPECT_THAT(output_shape(layer, {6}), ElementsAre(5));
  EXPECT_THAT(output_shape(layer, {2, 0, 6}), ElementsAre(2, 0, 5));
  EXPECT_EQ(sizes_of(layer, {2, 3, 6}, {2, 3, 5}).n, 6);
  EXPECT_THAT(
      [&] {
        static_cast<void>(output_shape(layer, {6, 3}));
      },
      ThrowsMessage<spjit::InvalidArgument>("X has the shape [6, 3]; expected [..., 6]"));
}

TEST(OrtSparseLayer, PixelsOfOneTapAreAllDimensionsBehindChannels) {
  nlohmann::json json = kernel_json();
  json["b_layout"] = json["c_layout"] = "row-major";
  const LayerInfo layer = layer_info(json.dump().c_str());

  EXPECT_THAT(output_shape(layer, {2, 6, 4, 3}), ElementsAre(2, 5, 4, 3));
  const spjit_arguments sizes = sizes_of(layer, {2, 6, 4, 3}, {2, 5, 4, 3});
  EXPECT_EQ(sizes.n, 12);
  EXPECT_EQ(sizes.ldb, 12);
  EXPECT_EQ(sizes.batch, 2);
  EXPECT_EQ(sizes.b_distance, 72);
  EXPECT_EQ(sizes.c_distance, 60);
  EXPECT_THAT(
      [&] {
        static_cast<void>(output_shape(layer, {2, 5, 4}));
      },
      ThrowsMessage<spjit::InvalidArgument>(HasSubstr("expected [batch, 6, ...]")));
}

TEST(OrtSparseLayer, ImagesOfAConvolution) {
  const LayerInfo layer = convolution_layer();

  // Height (7 + 1 - 3) / 2 + 1, width (9 + 1 - 3) / 1 + 1.
  EXPECT_THAT(output_shape(layer, {2, 6, 7, 9}), ElementsAre(2, 5, 3, 8));
  const spjit_arguments sizes = sizes_of(layer, {2, 6, 7, 9}, {2, 5, 3, 8});
  EXPECT_EQ(sizes.height, 7);
  EXPECT_EQ(sizes.width, 9);
  EXPECT_EQ(sizes.n, 0);
  EXPECT_EQ(sizes.c_distance, 120);
  EXPECT_THAT(
      [&] {
        static_cast<void>(output_shape(layer, {2, 5, 7, 9}));
      },
      ThrowsMessage<spjit::InvalidArgument>(HasSubstr("[batch, 6, height, width]")));
  EXPECT_THAT(
      [&] {
        static_cast<void>(output_shape(layer, {2, 6, 1, 9}));
      },
      ThrowsMessage<spjit::InvalidArgument>(HasSubstr("3 x 2 taps fit")));
}

LayerInfo layer_of_images(nlohmann::json json, const ImageOrder& images) {
  json["b_layout"] = json["c_layout"] = "row-major";
  json["numerics"] = {{"b", "u8"}, {"c", "u8"}, {"quantize", "given"}};
  return layer_info(json.dump().c_str(), LayerKind::uint8, images);
}

TEST(OrtSparseLayer, ImagesMayHaveTheirChannelsLast) {
  nlohmann::json json = kernel_json();
  json["convolution"] = {{"channels", 6},
                         {"kernel", {3, 2}},
                         {"stride", {2, 1}},
                         {"dilation", {1, 2}},
                         {"pad", {1, 0, 0, 1}}};
  const LayerInfo both = layer_of_images(json, {true, true});

  EXPECT_THAT(output_shape(both, {2, 7, 9, 6}), ElementsAre(2, 3, 8, 5));
  EXPECT_THAT(output_shape(layer_of_images(json, {true, false}), {2, 7, 9, 6}),
              ElementsAre(2, 5, 3, 8));
  EXPECT_THAT(output_shape(layer_of_images(json, {false, true}), {2, 6, 7, 9}),
              ElementsAre(2, 3, 8, 5));
  const spjit_arguments sizes = sizes_of(both, {2, 7, 9, 6}, {2, 3, 8, 5});
  EXPECT_EQ(sizes.height, 7);
  EXPECT_EQ(sizes.width, 9);
  EXPECT_EQ(sizes.b_layout, SPJIT_LAYOUT_TOKENS);
  EXPECT_EQ(sizes.c_layout, SPJIT_LAYOUT_TOKENS);
  EXPECT_EQ(sizes.c_distance, 120);
  EXPECT_THAT(
      [&] {
        static_cast<void>(output_shape(both, {2, 6, 7, 9}));
      },
      ThrowsMessage<spjit::InvalidArgument>(HasSubstr("[batch, height, width, 6]")));
}

TEST(OrtSparseLayer, PixelsOfOneTapMayHaveTheirChannelsLast) {
  const LayerInfo layer = layer_of_images(kernel_json(), {true, false});

  EXPECT_THAT(output_shape(layer, {2, 4, 3, 6}), ElementsAre(2, 5, 4, 3));
  const spjit_arguments sizes = sizes_of(layer, {2, 4, 3, 6}, {2, 5, 4, 3});
  EXPECT_EQ(sizes.n, 12);
  EXPECT_EQ(sizes.ldb, 6);
  EXPECT_EQ(sizes.ldc, 12);
  EXPECT_EQ(sizes.b_layout, SPJIT_LAYOUT_TOKENS);
  EXPECT_EQ(sizes.c_layout, SPJIT_LAYOUT_DEFAULT);
}

TEST(OrtSparseLayer, ChannelsAreLastInImagesOfBytesAlone) {
  nlohmann::json floats = kernel_json();
  floats["b_layout"] = floats["c_layout"] = "row-major";
  nlohmann::json tokens = kernel_json();
  tokens["numerics"] = {{"b", "u8"}, {"c", "u8"}, {"quantize", "given"}};

  for (const auto& [json, kind] :
       {std::pair{floats, LayerKind::floats}, {tokens, LayerKind::uint8}}) {
    const auto make = [&of = json, kind = kind] {
      static_cast<void>(layer_info(of.dump().c_str(), kind, {true, false}));
    };
    EXPECT_THAT(make, ThrowsMessage<spjit::Error>(HasSubstr("no images of bytes")));
  }
}

nlohmann::json problem_json() {
  return {{"a", {{"hash", "0123"}}},
          {"n", {{"value", 8}, {"runtime", true}}},
          {"b", {{"leading_dimension", 0}, {"layout", "tokens"}}},
          {"convolution", {{"height", 3}, {"stride_height", 2}}}};
}

bool is_computed(const nlohmann::json& made, const nlohmann::json& problem) {
  return computes(nlohmann::json{{"problem", made}}.dump(), problem.dump());
}

TEST(OrtSparseLayer, ComputesAProblemWhateverItsTypicalSizes) {
  nlohmann::json other = problem_json();
  other["n"]["value"] = 9;
  other["b"]["leading_dimension"] = 90;
  other["convolution"]["height"] = 30;

  EXPECT_TRUE(is_computed(problem_json(), problem_json()));
  EXPECT_TRUE(is_computed(other, problem_json()));
}

TEST(OrtSparseLayer, ComputesNoOtherProblem) {
  for (const auto& [member, value] : {std::pair<const char*, nlohmann::json>{"/a/hash", "0124"},
                                      {"/n/runtime", false},
                                      {"/b/layout", "features"},
                                      {"/convolution/stride_height", 1},
                                      {"/n", nullptr},
                                      {"/n/runtime", 1}}) {
    nlohmann::json other = problem_json();
    other[nlohmann::json::json_pointer(member)] = value;
    EXPECT_FALSE(is_computed(problem_json(), other)) << other;
  }
  nlohmann::json fixed = problem_json();
  fixed["n"]["runtime"] = false;
  nlohmann::json larger = fixed;
  larger["n"]["value"] = 9;
  EXPECT_FALSE(is_computed(fixed, larger));
  EXPECT_FALSE(is_computed(problem_json(), nlohmann::json::array()));
  EXPECT_THROW(static_cast<void>(computes(R"({"problem": {}})", "{")), spjit::Error);
}

TEST(OrtOpenBundles, AreFreeInAChildThatIsForkedWhileThreadsOpenThem) {
  OpenBundles bundles{""};
  const auto is_refused = [&] {
    try {
      static_cast<void>(bundles.open("/nowhere/model.spjit"));
      return false;
    } catch (const spjit::Error&) {
      return true;
    }
  };
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!stop) static_cast<void>(is_refused());
    });
  }

  bool all_end = true;
  for (int i = 0; i < 100 && all_end; ++i) {
    all_end = spjit::testing_support::ends_in_a_child(is_refused);
  }

  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(all_end);
}

}  // namespace
