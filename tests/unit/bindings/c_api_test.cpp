// The C interface does what the C++ one does.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "spjit/compiler.hpp"
#include "spjit/matrix_io.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/files/safetensors_file.hpp"
#include "tests/support/spmm_testing.hpp"
#include "tests/unit/bindings/c_testing.hpp"

namespace {

using namespace spjit;
using spjit::testing_support::CCancel;
using spjit::testing_support::CCompiler;
using spjit::testing_support::CKernel;
using spjit::testing_support::CMatrix;
using spjit::testing_support::compiler_of;
using spjit::testing_support::csr_of;
using spjit::testing_support::CValues;
using spjit::testing_support::dense_values;
using spjit::testing_support::expect_error;
using spjit::testing_support::index;
using spjit::testing_support::random_matrix;
using spjit::testing_support::same_bits;
using spjit::testing_support::sized;

constexpr std::int64_t k_tokens = 37;

/// A layer with all that an epilogue has, in both interfaces.
class CLayer : public testing::Test {
 protected:
  static spjit_problem c_problem() {
    auto problem = sized<spjit_problem>();
    problem.n = 64;
    problem.runtime_n = 1;
    problem.b_layout = SPJIT_LAYOUT_TOKENS;
    problem.c_layout = SPJIT_LAYOUT_TOKENS;
    problem.has_scale = 1;
    problem.has_bias = 1;
    problem.has_residual = 1;
    problem.activation = SPJIT_GELU;
    return problem;
  }
  Problem problem() const {
    return {.a = a_,
            .n = Extent::at_run_time(64),
            .b = {.layout = Layout::tokens_major},
            .c = {.layout = Layout::tokens_major},
            .epilogue = {
                .scale = true, .bias = true, .residual = true, .activation = Activation::gelu_erf}};
  }
  spjit_arguments arguments(std::vector<float>& c) const {
    auto given = sized<spjit_arguments>();
    given.b = b_.data();
    given.c = c.data();
    given.n = k_tokens;
    given.scale = scale_.data();
    given.bias = bias_.data();
    given.residual = residual_.data();
    return given;
  }
  /// As the C++ interface computes it.
  std::vector<float> expected() const {
    std::vector<float> c(index(k_tokens * a_.rows));
    CompileOptions options;
    Compiler(options, testing_support::uncached())
        .compile(problem())
        .run({.b = b_.data(),
              .c = c.data(),
              .n = k_tokens,
              .scale = scale_.data(),
              .bias = bias_.data(),
              .residual = residual_.data()});
    return c;
  }
  std::vector<float> run(const spjit_kernel* kernel) const {
    std::vector<float> c(index(k_tokens * a_.rows));
    const spjit_arguments given = arguments(c);
    EXPECT_EQ(spjit_kernel_run(kernel, &given), SPJIT_OK) << spjit_last_error();
    return c;
  }

  CsrMatrix a_ = random_matrix(96, 80, 0.8);
  CMatrix matrix_ = testing_support::matrix_of(a_);
  CCompiler compiler_ = compiler_of();
  std::vector<float> b_ = dense_values(k_tokens * 80, 1);
  std::vector<float> scale_ = dense_values(96, 2);
  std::vector<float> bias_ = dense_values(96, 3);
  std::vector<float> residual_ = dense_values(k_tokens * 96, 4);
};

TEST_F(CLayer, HasTheBitsOfTheCxxInterface) {
  const CKernel kernel = testing_support::kernel_of(compiler_.get(), matrix_.get(), c_problem());

  EXPECT_TRUE(same_bits(run(kernel.get()), expected()));
  EXPECT_EQ(spjit_kernel_rows(kernel.get()), 96);
  EXPECT_EQ(spjit_kernel_cols(kernel.get()), 80);
  EXPECT_EQ(spjit_kernel_n(kernel.get()), 64);
}

TEST_F(CLayer, RunsInAWorkspaceOfTheCallers) {
  const CKernel kernel = testing_support::kernel_of(compiler_.get(), matrix_.get(), c_problem());
  std::vector<float> c(index(k_tokens * a_.rows));
  spjit_arguments given = arguments(c);
  ASSERT_EQ(spjit_kernel_workspace_bytes(kernel.get(), &given, &given.workspace_bytes), SPJIT_OK);
  std::vector<std::byte> workspace(given.workspace_bytes + 1);
  given.workspace = workspace.data() + 1;  // anywhere

  EXPECT_EQ(spjit_kernel_run(kernel.get(), &given), SPJIT_OK) << spjit_last_error();

  EXPECT_TRUE(same_bits(c, expected()));
}

TEST_F(CLayer, RunsInThreadsOfTheCallers) {
  struct Threads {
    std::atomic<int> loops = 0;
    static void run(void* user, std::int32_t tasks, spjit_task task, void* context) {
      ++static_cast<Threads*>(user)->loops;
      std::vector<std::thread> threads;
      for (std::int32_t i = 0; i < tasks; ++i) threads.emplace_back([=] { task(context, i); });
      for (std::thread& thread : threads) thread.join();
    }
  } threads;
  auto options = sized<spjit_compiler_options>();
  options.threads = 3;
  options.parallel_for = Threads::run;
  options.parallel_for_user = &threads;
  const CCompiler compiler = compiler_of(options);
  const CKernel kernel = testing_support::kernel_of(compiler.get(), matrix_.get(), c_problem());

  EXPECT_TRUE(same_bits(run(kernel.get()), expected()));
  EXPECT_GT(threads.loops, 0);
}

TEST_F(CLayer, IsSavedAndLoadedWithoutItsMatrix) {
  const testing_support::TemporaryDirectory scratch;
  const std::string folder = (scratch.path() / "layers" / "fc1").string();
  {
    const CKernel kernel = testing_support::kernel_of(compiler_.get(), matrix_.get(), c_problem());
    ASSERT_EQ(spjit_kernel_save(kernel.get(), folder.c_str()), SPJIT_OK) << spjit_last_error();
    ASSERT_EQ(spjit_kernel_save(kernel.get(), folder.c_str()), SPJIT_OK) << "not over itself";
  }
  matrix_.reset();
  auto options = sized<spjit_load_options>();
  options.threads = 2;
  for (const spjit_load_options* given : {static_cast<spjit_load_options*>(nullptr), &options}) {
    spjit_kernel* loaded = nullptr;
    ASSERT_EQ(spjit_kernel_load(folder.c_str(), given, &loaded), SPJIT_OK) << spjit_last_error();
    EXPECT_TRUE(same_bits(run(CKernel(loaded).get()), expected()));
  }
}

TEST_F(CLayer, ThatIsDamagedOrWritableByOthersIsNotLoaded) {
  const testing_support::TemporaryDirectory scratch;
  const std::string folder = scratch.path().string();
  const std::filesystem::path object = scratch.path() / "kernel.o";
  const CKernel kernel = testing_support::kernel_of(compiler_.get(), matrix_.get(), c_problem());
  ASSERT_EQ(spjit_kernel_save(kernel.get(), folder.c_str()), SPJIT_OK);
  spjit_kernel* loaded = nullptr;

  using std::filesystem::perms;
  std::filesystem::permissions(object, perms::others_write, std::filesystem::perm_options::add);
  EXPECT_EQ(spjit_kernel_load(folder.c_str(), nullptr, &loaded), SPJIT_CACHE_ERROR);
  auto anyone = sized<spjit_load_options>();
  anyone.any_owner = 1;
  ASSERT_EQ(spjit_kernel_load(folder.c_str(), &anyone, &loaded), SPJIT_OK) << spjit_last_error();
  spjit_kernel_destroy(loaded);
  std::filesystem::permissions(object, perms::others_write, std::filesystem::perm_options::remove);

  std::filesystem::resize_file(object, std::filesystem::file_size(object) - 1);
  expect_error(spjit_kernel_load(folder.c_str(), nullptr, &loaded), SPJIT_CACHE_ERROR, folder);
  EXPECT_EQ(loaded, nullptr);
  std::filesystem::remove(object);
  EXPECT_EQ(spjit_kernel_load(folder.c_str(), nullptr, &loaded), SPJIT_CACHE_ERROR);
}

TEST_F(CLayer, TellsWhatItIsAsJson) {
  const CKernel kernel = testing_support::kernel_of(compiler_.get(), matrix_.get(), c_problem());
  const char* text = nullptr;
  const char* again = nullptr;
  ASSERT_EQ(spjit_kernel_info(kernel.get(), &text), SPJIT_OK);
  ASSERT_EQ(spjit_kernel_info(kernel.get(), &again), SPJIT_OK);

  const auto info = nlohmann::json::parse(text);

  EXPECT_EQ(text, again);
  EXPECT_EQ(info.at("rows"), 96);
  EXPECT_EQ(info.at("runtime_n"), true);
  EXPECT_EQ(info.at("b_layout"), "tokens");
  EXPECT_EQ(info.at("epilogue").at("activation"), "gelu");
  EXPECT_EQ(info.at("epilogue").at("bias"), true);
  EXPECT_EQ(info.at("cuda"), nullptr);
  EXPECT_EQ(info.at("verification"), nullptr);
  EXPECT_EQ(info.at("nnz"), a_.nnz());
}

TEST_F(CLayer, OfNoTokensDoesNothing) {
  const CKernel kernel = testing_support::kernel_of(compiler_.get(), matrix_.get(), c_problem());
  auto none = sized<spjit_arguments>();
  none.scale = scale_.data();
  none.bias = bias_.data();

  EXPECT_EQ(spjit_kernel_run(kernel.get(), &none), SPJIT_OK) << spjit_last_error();
  EXPECT_EQ(spjit_kernel_launch(kernel.get(), &none), SPJIT_OK) << spjit_last_error();
  spjit_kernel* same = nullptr;
  EXPECT_EQ(spjit_kernel_to_device(kernel.get(), 0, &same), SPJIT_OK);
  EXPECT_TRUE(same_bits(run(CKernel(same).get()), expected()));
}

TEST_F(CLayer, RunsABatchBackwards) {
  const CKernel kernel = testing_support::kernel_of(compiler_.get(), matrix_.get(), c_problem());
  constexpr std::int64_t k_half = k_tokens / 2;
  const auto halves = [&](std::int64_t first, std::int64_t step) {
    std::vector<float> c(index(k_tokens * a_.rows));
    spjit_arguments given = arguments(c);
    given.n = k_half;
    given.batch = 2;
    given.b = b_.data() + first * a_.cols;
    given.c = c.data() + first * a_.rows;
    given.residual = residual_.data() + first * a_.rows;
    given.b_distance = step * a_.cols;
    given.c_distance = given.residual_distance = step * a_.rows;
    EXPECT_EQ(spjit_kernel_run(kernel.get(), &given), SPJIT_OK) << spjit_last_error();
    return c;
  };

  EXPECT_TRUE(same_bits(halves(k_half, -k_half), halves(0, k_half)));
}

TEST_F(CLayer, TakesABatchAndValuesOfEachRun) {
  spjit_problem problem = c_problem();
  problem.runtime_values = 1;
  const CKernel kernel = testing_support::kernel_of(compiler_.get(), matrix_.get(), problem);
  spjit_values* prepared = nullptr;
  ASSERT_EQ(spjit_kernel_prepare_values(kernel.get(), a_.values.data(), a_.nnz(), &prepared),
            SPJIT_OK)
      << spjit_last_error();
  const CValues values(prepared);
  // Two halves of the tokens, and the one in the middle by itself.
  std::vector<float> c(index(k_tokens * a_.rows));
  spjit_arguments given = arguments(c);
  given.values = values.get();
  given.n = k_tokens / 2;
  given.batch = 2;
  given.b_distance = (k_tokens / 2 + 1) * a_.cols;
  given.c_distance = (k_tokens / 2 + 1) * a_.rows;
  given.residual_distance = given.c_distance;
  ASSERT_EQ(spjit_kernel_run(kernel.get(), &given), SPJIT_OK) << spjit_last_error();
  given.batch = 0;  // one
  given.n = 1;
  given.b = b_.data() + k_tokens / 2 * a_.cols;
  given.c = c.data() + k_tokens / 2 * a_.rows;
  given.residual = residual_.data() + k_tokens / 2 * a_.rows;
  ASSERT_EQ(spjit_kernel_run(kernel.get(), &given), SPJIT_OK) << spjit_last_error();

  EXPECT_TRUE(same_bits(c, expected()));

  spjit_values* of_matrix = nullptr;
  ASSERT_EQ(spjit_kernel_prepare_values_of(kernel.get(), matrix_.get(), &of_matrix), SPJIT_OK)
      << spjit_last_error();
  const CValues same(of_matrix);
  const std::vector<float> before = std::exchange(c, std::vector<float>(c.size()));
  given = arguments(c);
  given.values = same.get();
  ASSERT_EQ(spjit_kernel_run(kernel.get(), &given), SPJIT_OK) << spjit_last_error();
  EXPECT_TRUE(same_bits(c, before));

  given.values = nullptr;
  expect_error(spjit_kernel_run(kernel.get(), &given), SPJIT_INVALID_ARGUMENT, "values is null");
}

TEST_F(CLayer, IsCancelled) {
  spjit_cancel* made = nullptr;
  ASSERT_EQ(spjit_cancel_create(&made), SPJIT_OK);
  const CCancel cancel(made);
  auto control = sized<spjit_compile_control>();
  control.cancel = cancel.get();
  const spjit_problem problem = c_problem();
  spjit_kernel* kernel = nullptr;
  ASSERT_EQ(spjit_compile(compiler_.get(), matrix_.get(), &problem, &control, &kernel), SPJIT_OK);
  spjit_kernel_destroy(kernel);

  ASSERT_EQ(spjit_cancel_request(cancel.get()), SPJIT_OK);

  EXPECT_EQ(spjit_compile(compiler_.get(), matrix_.get(), &problem, &control, &kernel),
            SPJIT_CANCELLED);
  EXPECT_EQ(kernel, nullptr);
  control.cancel = nullptr;
  control.timeout_ms = 1e-6;
  EXPECT_EQ(spjit_compile(compiler_.get(), matrix_.get(), &problem, &control, &kernel),
            SPJIT_DEADLINE_EXCEEDED);
}

TEST_F(CLayer, ComesFromTheCache) {
  const testing_support::TemporaryDirectory scratch;
  auto options = sized<spjit_compiler_options>();
  options.cache_directory = scratch.path().c_str();
  for (const bool hit : {false, true}) {
    const CCompiler compiler = compiler_of(options);
    const CKernel kernel = testing_support::kernel_of(compiler.get(), matrix_.get(), c_problem());
    const char* text = nullptr;
    ASSERT_EQ(spjit_kernel_info(kernel.get(), &text), SPJIT_OK);

    EXPECT_EQ(nlohmann::json::parse(text).at("from_cache"), hit);
  }
}

/// C of the identity as B: the matrix itself.
std::vector<float> dense_of(const spjit_matrix* matrix) {
  const std::int64_t k = spjit_matrix_cols(matrix);
  const CKernel kernel =
      testing_support::kernel_of(compiler_of().get(), matrix, testing_support::problem_of(k));
  std::vector<float> identity(index(k * k));
  for (std::int64_t i = 0; i < k; ++i) identity[index(i * k + i)] = 1;
  std::vector<float> dense(index(spjit_matrix_rows(matrix) * k));
  auto arguments = sized<spjit_arguments>();
  arguments.b = identity.data();
  arguments.c = dense.data();
  EXPECT_EQ(spjit_kernel_run(kernel.get(), &arguments), SPJIT_OK) << spjit_last_error();
  return dense;
}

TEST(CMatrices, AreTheSameFromEveryFormOfIndicesFromDenseAndFromAFile) {
  const CsrMatrix a = random_matrix(17, 23, 0.7);
  const std::vector<std::int32_t> narrow(a.row_ptrs.begin(), a.row_ptrs.end());
  const std::vector<std::int64_t> wide(a.col_idxs.begin(), a.col_idxs.end());
  const testing_support::TemporaryDirectory scratch;
  const std::filesystem::path file = scratch.path() / "a.npz";
  save_matrix(a, file);
  const std::vector<float> expected = dense_of(testing_support::matrix_of(a).get());

  spjit_csr csr = csr_of(a);
  csr.row_ptrs = narrow.data();
  csr.row_ptr_type = SPJIT_INT32;
  csr.col_idxs = wide.data();
  csr.col_idx_type = SPJIT_INT64;
  std::array<spjit_matrix*, 3> made = {};
  EXPECT_EQ(spjit_matrix_from_csr(&csr, &made[0]), SPJIT_OK) << spjit_last_error();
  EXPECT_EQ(spjit_matrix_from_dense(expected.data(), 17, 23, &made[1]), SPJIT_OK);
  EXPECT_EQ(spjit_matrix_load(file.c_str(), &made[2]), SPJIT_OK) << spjit_last_error();

  for (spjit_matrix* handle : made) {
    const CMatrix matrix(handle);
    EXPECT_EQ(spjit_matrix_rows(handle), 17);
    EXPECT_EQ(spjit_matrix_cols(handle), 23);
    EXPECT_EQ(spjit_matrix_nnz(handle), a.nnz());
    EXPECT_EQ(dense_of(handle), expected);
  }
}

TEST(CMatrices, AreTheWeightsOfOneLayerOfAModel) {
  const testing_support::TemporaryDirectory scratch;
  const std::string file = (scratch.path() / "model.safetensors").string();
  std::ofstream(file, std::ios::binary)
      << test::safetensors({test::float_tensor("a.weight", "[1, 2]", {1, 2}),
                            test::float_tensor("fc.weight", "[2, 3]", {0, 1, 0, 2, 0, 3})});
  spjit_matrix* handle = nullptr;

  ASSERT_EQ(spjit_matrix_load_weights(file.c_str(), "fc.weight", &handle), SPJIT_OK)
      << spjit_last_error();

  const CMatrix matrix(handle);
  EXPECT_EQ(spjit_matrix_nnz(handle), 3);
  EXPECT_EQ(dense_of(handle), (std::vector<float>{0, 1, 0, 2, 0, 3}));
}

TEST(CMatrices, OfWeightsThatTheModelHasNotAreRefused) {
  const testing_support::TemporaryDirectory scratch;
  const std::string file = (scratch.path() / "model.safetensors").string();
  std::ofstream(file, std::ios::binary)
      << test::safetensors({test::float_tensor("fc.weight", "[1, 2]", {1, 2})});
  const auto load = [](const char* path, const char* name) {
    spjit_matrix* matrix = nullptr;
    const int status = spjit_matrix_load_weights(path, name, &matrix);
    EXPECT_EQ(matrix, nullptr);
    return status;
  };

  expect_error(load(file.c_str(), "fc2.weight"), SPJIT_IO_ERROR, "no weights 'fc2.weight'");
  expect_error(load("/nowhere/m.safetensors", "fc.weight"), SPJIT_IO_ERROR, "/nowhere/m");
  expect_error(load(file.c_str(), nullptr), SPJIT_INVALID_ARGUMENT, "name is NULL");
  expect_error(load(nullptr, "fc.weight"), SPJIT_INVALID_ARGUMENT, "path is NULL");
  expect_error(spjit_matrix_load_weights(file.c_str(), "fc.weight", nullptr),
               SPJIT_INVALID_ARGUMENT, "matrix is NULL");
}

TEST(CMatrices, OfIntegersHaveTheScaleOfTheFile) {
  const testing_support::TemporaryDirectory scratch;
  const std::string file = (scratch.path() / "model.safetensors").string();
  std::ofstream(file, std::ios::binary) << test::safetensors(
      {test::tensor("a.weight", "I8", "[2, 1]", std::array<std::int8_t, 2>{3, -4}),
       test::float_tensor("a.weight_scale", "[2, 1]", {0.5F, 2}),
       test::float_tensor("b.weight", "[2, 1]", {1, 2})});
  std::array<float, 2> scale{};
  const auto load = [&](const char* name, std::int64_t rows) {
    return spjit_matrix_load_weight_scale(file.c_str(), name, scale.data(), rows);
  };

  ASSERT_EQ(load("a.weight", 2), SPJIT_OK) << spjit_last_error();
  EXPECT_EQ(scale, (std::array<float, 2>{0.5F, 2}));
  ASSERT_EQ(load("b.weight", 2), SPJIT_OK) << spjit_last_error();
  EXPECT_EQ(scale, (std::array<float, 2>{1, 1}));

  expect_error(load("a.weight", 3), SPJIT_INVALID_ARGUMENT,
               "rows is 3; expected those of the weights, 2");
  expect_error(load("b.weight", -1), SPJIT_INVALID_ARGUMENT, "rows is -1");
  expect_error(load("c.weight", 2), SPJIT_IO_ERROR, "no weights 'c.weight'");
  expect_error(spjit_matrix_load_weight_scale(file.c_str(), "a.weight", nullptr, 2),
               SPJIT_INVALID_ARGUMENT, "scale is NULL");
}

TEST(CMatrices, BecomeIntegersAndAreCopiedOut) {
  const std::array<float, 6> dense = {-2, 0, 1, 0, 0.001F, 127};
  spjit_matrix* handle = nullptr;
  ASSERT_EQ(spjit_matrix_from_dense(dense.data(), 2, 3, &handle), SPJIT_OK);
  const CMatrix matrix(handle);
  spjit_matrix* integers = nullptr;
  std::array<float, 2> scale{};
  double cosine = 0;
  double error = -1;

  ASSERT_EQ(spjit_matrix_quantize(handle, &integers, scale.data(), &cosine, &error), SPJIT_OK)
      << spjit_last_error();

  const CMatrix owner(integers);
  EXPECT_EQ(scale, (std::array<float, 2>{2.0F / 127, 1}));
  EXPECT_GT(cosine, 0.9999);
  EXPECT_LT(error, 0.01);
  EXPECT_EQ(spjit_matrix_nnz(integers), 3);
  std::array<std::int64_t, 3> row_ptrs{};
  std::array<std::int32_t, 3> col_idxs{};
  std::array<float, 3> values{};
  ASSERT_EQ(spjit_matrix_copy(integers, row_ptrs.data(), col_idxs.data(), values.data()), SPJIT_OK);
  EXPECT_EQ(row_ptrs, (std::array<std::int64_t, 3>{0, 2, 3}));
  EXPECT_EQ(col_idxs, (std::array<std::int32_t, 3>{0, 2, 2}));
  EXPECT_EQ(values, (std::array<float, 3>{-127, 64, 127}));
  EXPECT_EQ(spjit_matrix_copy(integers, nullptr, nullptr, nullptr), SPJIT_OK);
}

TEST(CMatrices, ThatCannotBecomeIntegersAreRefused) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  spjit_matrix* handle = nullptr;
  ASSERT_EQ(spjit_matrix_from_dense(&nan, 1, 1, &handle), SPJIT_OK);
  const CMatrix matrix(handle);
  spjit_matrix* integers = nullptr;
  float scale = 0;

  expect_error(spjit_matrix_quantize(handle, &integers, &scale, nullptr, nullptr),
               SPJIT_INVALID_ARGUMENT, "row 0 has the entry nan");
  EXPECT_EQ(integers, nullptr);
  expect_error(spjit_matrix_quantize(handle, &integers, nullptr, nullptr, nullptr),
               SPJIT_INVALID_ARGUMENT, "scale is NULL");
  expect_error(spjit_matrix_quantize(nullptr, &integers, &scale, nullptr, nullptr),
               SPJIT_INVALID_ARGUMENT, "matrix is NULL");
  expect_error(spjit_matrix_quantize(handle, nullptr, &scale, nullptr, nullptr),
               SPJIT_INVALID_ARGUMENT, "integers is NULL");
  expect_error(spjit_matrix_copy(nullptr, nullptr, nullptr, nullptr), SPJIT_INVALID_ARGUMENT,
               "matrix is NULL");
}

TEST(CMatrices, MayHaveNoEntriesAndNoArraysOfThem) {
  const std::array<std::int32_t, 3> offsets = {0, 0, 0};
  auto csr = sized<spjit_csr>();
  csr.rows = 2;
  csr.cols = 3;
  csr.row_ptrs = offsets.data();
  csr.row_ptr_type = SPJIT_INT32;
  csr.col_idx_type = SPJIT_INT64;
  spjit_matrix* made = nullptr;

  ASSERT_EQ(spjit_matrix_from_csr(&csr, &made), SPJIT_OK) << spjit_last_error();

  EXPECT_EQ(dense_of(CMatrix(made).get()), std::vector<float>(6, 0.0F));
}

TEST(CVersion, IsTheLibrarys) { EXPECT_STREQ(spjit_version(), "0.1.0"); }

}  // namespace
