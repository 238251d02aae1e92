// Bundles of the C interface.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/signing_keys.hpp"
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

}  // namespace
