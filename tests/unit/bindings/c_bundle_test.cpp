// Bundles of the C interface.

#include <gtest/gtest.h>

#include <cstddef>
#include <nlohmann/json.hpp>

#include "tests/support/files/signing_keys.hpp"
#include "tests/support/spmm_testing.hpp"
#include "tests/unit/bindings/c_testing.hpp"

namespace {

using namespace spjit::testing_support;

struct DestroyBundle {
  void operator()(spjit_bundle* handle) const { spjit_bundle_destroy(handle); }
  void operator()(spjit_bundle_writer* handle) const { spjit_bundle_writer_destroy(handle); }
};
using CBundle = std::unique_ptr<spjit_bundle, DestroyBundle>;
using CWriter = std::unique_ptr<spjit_bundle_writer, DestroyBundle>;

class CBundleTest : public testing::Test {
 protected:
  [[nodiscard]] std::string path() const { return (scratch_.path() / "model.spjit").string(); }

  void write(const char* private_key = nullptr) const {
    spjit_bundle_writer* made = nullptr;
    ASSERT_EQ(spjit_bundle_writer_create(path().c_str(), private_key, &made), SPJIT_OK)
        << spjit_last_error();
    const CWriter writer(made);
    ASSERT_EQ(spjit_bundle_writer_add(made, "fc1", kernel_.get()), SPJIT_OK) << spjit_last_error();
    expect_error(spjit_bundle_writer_add(made, "fc1", kernel_.get()), SPJIT_INVALID_ARGUMENT,
                 "fc1");
    ASSERT_EQ(spjit_bundle_writer_finish(made), SPJIT_OK) << spjit_last_error();
    expect_error(spjit_bundle_writer_finish(made), SPJIT_INVALID_ARGUMENT, "is finished");
  }
  [[nodiscard]] CBundle open() const {
    spjit_bundle* opened = nullptr;
    EXPECT_EQ(spjit_bundle_open(path().c_str(), nullptr, &opened), SPJIT_OK) << spjit_last_error();
    return CBundle(opened);
  }

  spjit::CsrMatrix a_ = random_matrix(48, 40, 0.8);
  CMatrix matrix_ = spjit::testing_support::matrix_of(a_);
  CCompiler compiler_ = compiler_of();
  CKernel kernel_ =
      spjit::testing_support::kernel_of(compiler_.get(), matrix_.get(), problem_of(9));

 private:
  TemporaryDirectory scratch_;
};

TEST_F(CBundleTest, AKernelComesBack) {
  write();
  const CBundle bundle = open();
  std::int64_t by_layer = -2;
  std::int64_t by_weights = -2;
  const spjit_problem problem = problem_of(9);
  ASSERT_EQ(spjit_bundle_find_layer(bundle.get(), "fc1", nullptr, &by_layer), SPJIT_OK);
  ASSERT_EQ(spjit_bundle_find(bundle.get(), matrix_.get(), &problem, nullptr, &by_weights),
            SPJIT_OK);
  spjit_kernel* loaded = nullptr;
  ASSERT_EQ(spjit_bundle_load(bundle.get(), by_layer, nullptr, &loaded), SPJIT_OK)
      << spjit_last_error();
  const CKernel kernel(loaded);
  const std::vector<float> b = dense_values(40 * 9);
  std::vector<float> c(48 * 9);
  std::vector<float> expected(48 * 9);
  auto run = sized<spjit_arguments>();
  run.b = b.data();
  run.c = c.data();
  ASSERT_EQ(spjit_kernel_run(kernel.get(), &run), SPJIT_OK);
  run.c = expected.data();
  ASSERT_EQ(spjit_kernel_run(kernel_.get(), &run), SPJIT_OK);

  EXPECT_EQ(spjit_bundle_count(bundle.get()), 1);
  EXPECT_EQ(by_layer, 0);
  EXPECT_EQ(by_weights, 0);
  EXPECT_TRUE(same_bits(c, expected));
  EXPECT_EQ(spjit_bundle_verify(bundle.get()), SPJIT_OK);
}

TEST_F(CBundleTest, EntriesAreDescribed) {
  write();
  const CBundle bundle = open();
  const char* text = nullptr;
  ASSERT_EQ(spjit_bundle_entry_info(bundle.get(), 0, &text), SPJIT_OK);

  const nlohmann::json info = nlohmann::json::parse(text);

  EXPECT_EQ(info.at("layer"), "fc1");
  EXPECT_EQ(info.at("rows"), 48);
  EXPECT_EQ(info.at("n"), 9);
  EXPECT_EQ(info.at("runtime_n"), false);
  EXPECT_EQ(info.at("weights"), info.at("problem").at("a").at("hash"));
  expect_error(spjit_bundle_entry_info(bundle.get(), 1, &text), SPJIT_INVALID_ARGUMENT, "0 to 0");
  EXPECT_EQ(text, nullptr);
}

TEST_F(CBundleTest, WhatIsNotThereIsMinusOneAndOtherTargetsAnError) {
  write();
  const CBundle bundle = open();
  std::int64_t entry = 5;

  EXPECT_EQ(spjit_bundle_find_layer(bundle.get(), "fc2", nullptr, &entry), SPJIT_OK);
  EXPECT_EQ(entry, -1);
  entry = 5;
  expect_error(spjit_bundle_find_layer(bundle.get(), "fc1", "sm_90", &entry), SPJIT_NOT_SUPPORTED,
               "is there for host-");
  EXPECT_EQ(entry, -1);
  const spjit_problem other = problem_of(8);
  EXPECT_EQ(spjit_bundle_find(bundle.get(), matrix_.get(), &other, nullptr, &entry), SPJIT_OK);
  EXPECT_EQ(entry, -1);
  spjit_kernel* kernel = nullptr;
  expect_error(spjit_bundle_load(bundle.get(), -1, nullptr, &kernel), SPJIT_INVALID_ARGUMENT, "-1");
  auto options = sized<spjit_load_options>();
  options.any_owner = 1;
  expect_error(spjit_bundle_load(bundle.get(), 0, &options, &kernel), SPJIT_INVALID_ARGUMENT,
               "spjit_bundle_open");
}

TEST_F(CBundleTest, SignaturesAreLookedAtWhereAKeyIsGiven) {
  write(std::string(spjit::test::k_private_key).c_str());
  auto options = sized<spjit_bundle_options>();
  const std::string ours(spjit::test::k_public_key);
  const std::string theirs(spjit::test::k_other_public_key);
  spjit_bundle* bundle = nullptr;

  options.public_key = ours.c_str();
  EXPECT_EQ(spjit_bundle_open(path().c_str(), &options, &bundle), SPJIT_OK) << spjit_last_error();
  spjit_bundle_destroy(bundle);
  options.public_key = theirs.c_str();
  expect_error(spjit_bundle_open(path().c_str(), &options, &bundle), SPJIT_IO_ERROR, "another key");
  EXPECT_EQ(bundle, nullptr);
}

TEST_F(CBundleTest, AnEmptyKeyIsNotNone) {
  write();
  auto options = sized<spjit_bundle_options>();
  options.public_key = "";
  spjit_bundle* bundle = nullptr;
  expect_error(spjit_bundle_open(path().c_str(), &options, &bundle), SPJIT_INVALID_ARGUMENT,
               "public_key is empty");
  EXPECT_EQ(bundle, nullptr);
  spjit_bundle_writer* writer = nullptr;
  expect_error(spjit_bundle_writer_create(path().c_str(), "", &writer), SPJIT_INVALID_ARGUMENT,
               "private_key is empty");
  EXPECT_EQ(writer, nullptr);
}

TEST_F(CBundleTest, NullIsRefused) {
  write();
  const CBundle bundle = open();
  spjit_bundle* opened = nullptr;
  spjit_kernel* kernel = nullptr;
  std::int64_t entry = 0;

  expect_error(spjit_bundle_open(nullptr, nullptr, &opened), SPJIT_INVALID_ARGUMENT, "path");
  expect_error(spjit_bundle_open(path().c_str(), nullptr, nullptr), SPJIT_INVALID_ARGUMENT,
               "bundle");
  expect_error(spjit_bundle_load(nullptr, 0, nullptr, &kernel), SPJIT_INVALID_ARGUMENT, "bundle");
  expect_error(spjit_bundle_find_layer(bundle.get(), nullptr, nullptr, &entry),
               SPJIT_INVALID_ARGUMENT, "layer");
  expect_error(spjit_bundle_find_layer(bundle.get(), "x", nullptr, nullptr), SPJIT_INVALID_ARGUMENT,
               "entry");
  expect_error(spjit_bundle_verify(nullptr), SPJIT_INVALID_ARGUMENT, "bundle");
  expect_error(spjit_bundle_writer_add(nullptr, "x", kernel_.get()), SPJIT_INVALID_ARGUMENT,
               "writer");
  EXPECT_EQ(spjit_bundle_count(nullptr), -1);
  spjit_bundle_destroy(nullptr);
  spjit_bundle_writer_destroy(nullptr);
}

/// The bundle of one kernel that `compiler` makes of a problem.
void write_bundle(const std::string& path, const spjit_kernel* kernel) {
  spjit_bundle_writer* made = nullptr;
  ASSERT_EQ(spjit_bundle_writer_create(path.c_str(), nullptr, &made), SPJIT_OK);
  const CWriter writer(made);
  ASSERT_EQ(spjit_bundle_writer_add(made, "conv", kernel), SPJIT_OK) << spjit_last_error();
  ASSERT_EQ(spjit_bundle_writer_finish(made), SPJIT_OK) << spjit_last_error();
}

TEST_F(CBundleTest, ConvolutionsAreFoundByWeightsAndSizes) {
  // 40 columns: 10 channels of a group, 2 x 2 taps.
  auto of = sized<spjit_convolution>();
  of.channels = 20;
  of.height = 6;
  of.width = 7;
  of.kernel_height = of.kernel_width = 2;
  of.stride_width = 2;
  of.groups = 2;
  auto problem = sized<spjit_problem>();
  problem.convolution = &of;
  const auto found_with = [&](const auto& change) {
    spjit_convolution wanted = of;
    auto given = sized<spjit_problem>();
    given.convolution = &wanted;
    change(wanted, given);
    std::int64_t entry = -2;
    EXPECT_EQ(spjit_bundle_find(open().get(), matrix_.get(), &given, nullptr, &entry), SPJIT_OK)
        << spjit_last_error();
    return entry;
  };
  write_bundle(path(),
               spjit::testing_support::kernel_of(compiler_.get(), matrix_.get(), problem).get());

  EXPECT_EQ(found_with([](auto&, auto&) {}), 0);
  EXPECT_EQ(found_with([](auto& wanted, auto&) { wanted.height = 8; }), -1);
  EXPECT_EQ(found_with([](auto& wanted, auto&) { wanted.stride_width = 1; }), -1);
  EXPECT_EQ(found_with([](auto& wanted, auto&) { wanted.pad_left = 1; }), -1);
  EXPECT_EQ(found_with([](auto&, auto& given) { given.has_bias = 1; }), -1);
  EXPECT_EQ(found_with([](auto&, auto& given) { given.runtime_n = 1; }), -1);

  problem.runtime_n = 1;
  write_bundle(path(),
               spjit::testing_support::kernel_of(compiler_.get(), matrix_.get(), problem).get());

  EXPECT_EQ(found_with([](auto&, auto& given) { given.runtime_n = 1; }), 0);
  EXPECT_EQ(found_with([](auto& wanted, auto& given) {
              given.runtime_n = 1;
              wanted.height = 80;
            }),
            0);
  EXPECT_EQ(found_with([](auto&, auto&) {}), -1);
}

TEST_F(CBundleTest, IsALayerOfACompilersCache) {
  TemporaryDirectory caches;
  const std::string first = (caches.path() / "first").string();
  const std::string second = (caches.path() / "second").string();
  auto options = sized<spjit_compiler_options>();
  options.cache_directory = first.c_str();
  write_bundle(path(), spjit::testing_support::kernel_of(compiler_of(options).get(), matrix_.get(),
                                                         problem_of(9))
                           .get());
  const std::string bundle = path();
  const char* const layers[] = {bundle.c_str()};
  options.cache_directory = second.c_str();
  options.cache_layers = layers;
  options.cache_layer_count = 1;
  const auto directory_of = [&] {
    const CKernel kernel =
        spjit::testing_support::kernel_of(compiler_of(options).get(), matrix_.get(), problem_of(9));
    const char* text = nullptr;
    EXPECT_EQ(spjit_kernel_info(kernel.get(), &text), SPJIT_OK);
    return nlohmann::json::parse(text).at("cache_directory");
  };

  EXPECT_EQ(directory_of(), bundle);
  // As a program that was compiled before there were layers has it.
  options.struct_size = offsetof(spjit_compiler_options, cache_layers);
  EXPECT_EQ(directory_of(), nullptr);
}

TEST_F(CBundleTest, WrongLayersAreRefused) {
  const char* const layers[] = {nullptr, "/no/such/bundle.spjit"};
  auto options = sized<spjit_compiler_options>();
  spjit_compiler* compiler = nullptr;

  options.cache_layer_count = 1;
  expect_error(spjit_compiler_create(&options, &compiler), SPJIT_INVALID_ARGUMENT, "cache_layers");
  options.cache_layers = layers;
  expect_error(spjit_compiler_create(&options, &compiler), SPJIT_INVALID_ARGUMENT, "a path of");
  options.cache_layer_count = -1;
  expect_error(spjit_compiler_create(&options, &compiler), SPJIT_INVALID_ARGUMENT, "is -1");
  options.cache_layers = layers + 1;
  options.cache_layer_count = 1;
  expect_error(spjit_compiler_create(&options, &compiler), SPJIT_CACHE_ERROR, "/no/such");
  EXPECT_EQ(compiler, nullptr);
}

TEST_F(CBundleTest, WrongRemoteCachesAreRefused) {
  auto options = sized<spjit_compiler_options>();
  spjit_compiler* compiler = nullptr;

  options.cache_remote = "";
  expect_error(spjit_compiler_create(&options, &compiler), SPJIT_INVALID_ARGUMENT, "cache_remote");
  options.cache_remote = "ftp://host";
  expect_error(spjit_compiler_create(&options, &compiler), SPJIT_INVALID_ARGUMENT, "expected");
  options.cache_remote = "/no/such/remote.json";
  expect_error(spjit_compiler_create(&options, &compiler), SPJIT_IO_ERROR, "/no/such");
  EXPECT_EQ(compiler, nullptr);
}

TEST_F(CBundleTest, WithoutARemoteCacheNothingIsWaitedFor) {
  auto options = sized<spjit_compiler_options>();
  options.cache_remote = "off";
  const CCompiler compiler = compiler_of(options);
  auto control = sized<spjit_compile_control>();
  std::int32_t done = 0;

  EXPECT_EQ(spjit_compiler_flush_remote(compiler.get(), nullptr, &done), SPJIT_OK);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(spjit_compiler_flush_remote(compiler.get(), &control, &done), SPJIT_OK);
  expect_error(spjit_compiler_flush_remote(nullptr, nullptr, &done), SPJIT_INVALID_ARGUMENT,
               "compiler");
  expect_error(spjit_compiler_flush_remote(compiler.get(), nullptr, nullptr),
               SPJIT_INVALID_ARGUMENT, "done");
}

TEST_F(CBundleTest, CountsOfACompilerAreText) {
  const CCompiler compiler = compiler_of(sized<spjit_compiler_options>());
  std::size_t bytes = 0;

  ASSERT_EQ(spjit_compiler_metrics(compiler.get(), nullptr, 0, &bytes), SPJIT_OK);
  std::string text(bytes, '?');
  std::string part(3, '?');
  ASSERT_EQ(spjit_compiler_metrics(compiler.get(), text.data(), text.size(), &bytes), SPJIT_OK);
  ASSERT_EQ(spjit_compiler_metrics(compiler.get(), part.data(), part.size(), &bytes), SPJIT_OK);

  EXPECT_EQ(bytes, text.size());
  EXPECT_EQ(part, text.substr(0, 3));
  EXPECT_NE(text.find("spjit_kernels_compiled_total 0\n"), std::string::npos) << text;
  expect_error(spjit_compiler_metrics(nullptr, nullptr, 0, &bytes), SPJIT_INVALID_ARGUMENT,
               "compiler");
  expect_error(spjit_compiler_metrics(compiler.get(), nullptr, 1, &bytes), SPJIT_INVALID_ARGUMENT,
               "text");
}

TEST_F(CBundleTest, WhatIsInNoCacheIsNotCompiledIfTold) {
  auto options = sized<spjit_compiler_options>();
  spjit_compiler* compiler = nullptr;
  options.compile = "always";
  expect_error(spjit_compiler_create(&options, &compiler), SPJIT_INVALID_ARGUMENT,
               "needed or never");
  options.compile = "never";
  options.no_cache = 1;

  const CCompiler never = compiler_of(options);

  const spjit_problem problem = problem_of(16);
  spjit_kernel* kernel = nullptr;
  expect_error(spjit_compile(never.get(), matrix_.get(), &problem, nullptr, &kernel),
               SPJIT_NOT_SUPPORTED, "no cache has a kernel of A [");
}

}  // namespace
