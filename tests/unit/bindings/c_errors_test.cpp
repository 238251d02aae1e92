// What the C interface refuses, and what it says then.

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>
#include <thread>

#include "bindings/c/guard.hpp"
#include "kernels/host/operands/workspace_pool.hpp"
#include "tests/support/spmm_testing.hpp"
#include "tests/unit/bindings/c_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

template <class Thrown>
int status_of(const Thrown& thrown) {
  return c::guarded([&] { throw thrown; });
}

TEST(CErrors, EveryExceptionHasAStatus) {
  EXPECT_EQ(status_of(InvalidArgument("x")), SPJIT_INVALID_ARGUMENT);
  EXPECT_EQ(status_of(InvalidMatrix("x")), SPJIT_INVALID_MATRIX);
  EXPECT_EQ(status_of(IoError("x")), SPJIT_IO_ERROR);
  EXPECT_EQ(status_of(NotSupported("x")), SPJIT_NOT_SUPPORTED);
  EXPECT_EQ(status_of(CompileFailed("x")), SPJIT_COMPILE_FAILED);
  EXPECT_EQ(status_of(VerificationFailed("x")), SPJIT_VERIFICATION_FAILED);
  EXPECT_EQ(status_of(Cancelled("x")), SPJIT_CANCELLED);
  EXPECT_EQ(status_of(DeadlineExceeded("x")), SPJIT_DEADLINE_EXCEEDED);
  EXPECT_EQ(status_of(DeviceError("x", 1)), SPJIT_DEVICE_ERROR);
  EXPECT_EQ(status_of(CacheError("x")), SPJIT_CACHE_ERROR);
  EXPECT_EQ(status_of(NoMemory("x")), SPJIT_OUT_OF_MEMORY);
  EXPECT_EQ(status_of(std::bad_alloc()), SPJIT_OUT_OF_MEMORY);
  EXPECT_EQ(status_of(Error("x")), SPJIT_ERROR);
  EXPECT_EQ(status_of(std::logic_error("x")), SPJIT_INTERNAL_ERROR);
  EXPECT_EQ(status_of(7), SPJIT_INTERNAL_ERROR);
  EXPECT_EQ(c::guarded([] {}), SPJIT_OK);
}

TEST(CErrors, EveryStatusHasItsName) {
  EXPECT_STREQ(spjit_status_name(SPJIT_OK), "SPJIT_OK");
  EXPECT_STREQ(spjit_status_name(SPJIT_IO_ERROR), "SPJIT_IO_ERROR");
  for (int status = SPJIT_OK; status <= SPJIT_INTERNAL_ERROR; ++status) {
    EXPECT_STRNE(spjit_status_name(status), "unknown status") << status;
  }
  EXPECT_STREQ(spjit_status_name(SPJIT_INTERNAL_ERROR + 1), "unknown status");
  EXPECT_STREQ(spjit_status_name(-1), "unknown status");
}

TEST(CErrors, TheMessageStaysUntilTheNextFailureOfItsThread) {
  EXPECT_EQ(c::guarded([] { throw CompileFailed("first", "log of it"); }), SPJIT_COMPILE_FAILED);
  EXPECT_EQ(c::guarded([] {}), SPJIT_OK);
  EXPECT_STREQ(spjit_last_error(), "first");
  EXPECT_STREQ(spjit_last_error_log(), "log of it");

  std::thread([] {
    EXPECT_STREQ(spjit_last_error(), "");
    EXPECT_EQ(status_of(IoError("elsewhere")), SPJIT_IO_ERROR);
  }).join();
  EXPECT_STREQ(spjit_last_error(), "first");

  EXPECT_EQ(status_of(IoError("second")), SPJIT_IO_ERROR);
  EXPECT_STREQ(spjit_last_error(), "second");
  EXPECT_STREQ(spjit_last_error_log(), "");
}

/// A struct as a later version of the header may have it.
struct LaterProblem {
  spjit_problem known;
  std::int64_t added;
};

class CCompileErrors : public testing::Test {
 protected:
  int compile(const spjit_problem* problem, const spjit_compile_control* control = nullptr) {
    spjit_kernel* kernel = reinterpret_cast<spjit_kernel*>(this);
    const int status = spjit_compile(compiler_.get(), matrix_.get(), problem, control, &kernel);
    EXPECT_EQ(kernel == nullptr, status != SPJIT_OK);
    kernel_.reset(kernel);
    return status;
  }
  /// Of a problem that is right but for one member.
  template <class Change>
  int compile_with(const Change& change) {
    spjit_problem problem = problem_of(8);
    change(problem);
    return compile(&problem);
  }

  CCompiler compiler_ = compiler_of();
  CMatrix matrix_ = matrix_of(small_matrix());
  CKernel kernel_;
};

TEST_F(CCompileErrors, AStructWithoutItsSizeIsRefused) {
  spjit_problem problem{};
  expect_error(compile(&problem), SPJIT_INVALID_ARGUMENT,
               "struct_size of spjit_problem is 0; expected sizeof(spjit_problem), 160");
  problem.struct_size = 79;
  expect_error(compile(&problem), SPJIT_INVALID_ARGUMENT, "struct_size of spjit_problem is 79");
  problem.struct_size = std::numeric_limits<std::size_t>::max();
  expect_error(compile(&problem), SPJIT_INVALID_ARGUMENT, "struct_size of spjit_problem is 1844");
  expect_error(compile(nullptr), SPJIT_INVALID_ARGUMENT, "spjit_problem is NULL");
}

TEST_F(CCompileErrors, ALaterStructIsTakenIfItAsksForNothingNew) {
  LaterProblem later{problem_of(8), 0};
  later.known.struct_size = sizeof(later);
  EXPECT_EQ(compile(&later.known), SPJIT_OK) << spjit_last_error();

  later.added = 1;
  expect_error(compile(&later.known), SPJIT_INVALID_ARGUMENT,
               "struct_size of spjit_problem is 168, of which spjit 0.1.0 knows 160 bytes");
}

TEST_F(CCompileErrors, AStructOfAnEarlierVersionHasTheRestAsZero) {
  struct Grown {
    std::size_t struct_size;
    std::int64_t first;
    std::int64_t added;
  };
  const Grown given{16, 5, 7};

  const Grown copy = c::checked_struct(&given, "grown", 16);

  EXPECT_EQ(copy.first, 5);
  EXPECT_EQ(copy.added, 0);
}

TEST_F(CCompileErrors, NullHandlesAreRefused) {
  spjit_kernel* kernel = nullptr;
  const spjit_problem problem = problem_of(8);
  expect_error(spjit_compile(nullptr, matrix_.get(), &problem, nullptr, &kernel),
               SPJIT_INVALID_ARGUMENT, "compiler is NULL");
  expect_error(spjit_compile(compiler_.get(), nullptr, &problem, nullptr, &kernel),
               SPJIT_INVALID_ARGUMENT, "matrix is NULL");
  expect_error(spjit_compile(compiler_.get(), matrix_.get(), &problem, nullptr, nullptr),
               SPJIT_INVALID_ARGUMENT, "kernel is NULL");
  expect_error(spjit_compiler_create(nullptr, nullptr), SPJIT_INVALID_ARGUMENT, "compiler is NULL");
  expect_error(spjit_cancel_create(nullptr), SPJIT_INVALID_ARGUMENT, "cancel is NULL");
  expect_error(spjit_cancel_request(nullptr), SPJIT_INVALID_ARGUMENT, "cancel is NULL");
  expect_error(spjit_kernel_load(nullptr, nullptr, &kernel), SPJIT_INVALID_ARGUMENT,
               "folder is NULL");
  expect_error(spjit_kernel_save(nullptr, "x"), SPJIT_INVALID_ARGUMENT, "kernel is NULL");
  const char* json = "";
  expect_error(spjit_kernel_info(nullptr, &json), SPJIT_INVALID_ARGUMENT, "kernel is NULL");
  EXPECT_EQ(json, nullptr);
  const auto arguments = sized<spjit_arguments>();
  expect_error(spjit_kernel_run(nullptr, &arguments), SPJIT_INVALID_ARGUMENT, "kernel is NULL");
  expect_error(spjit_kernel_launch(nullptr, &arguments), SPJIT_INVALID_ARGUMENT, "kernel is NULL");
  expect_error(spjit_kernel_to_device(nullptr, 0, &kernel), SPJIT_INVALID_ARGUMENT,
               "kernel is NULL");
  EXPECT_EQ(spjit_kernel_rows(nullptr), -1);
  EXPECT_EQ(spjit_kernel_cols(nullptr), -1);
  EXPECT_EQ(spjit_kernel_n(nullptr), -1);
  EXPECT_EQ(spjit_matrix_rows(nullptr), -1);
  EXPECT_EQ(spjit_matrix_cols(nullptr), -1);
  EXPECT_EQ(spjit_matrix_nnz(nullptr), -1);
  spjit_kernel_destroy(nullptr);
  spjit_compiler_destroy(nullptr);
  spjit_matrix_destroy(nullptr);
  spjit_values_destroy(nullptr);
  spjit_cancel_destroy(nullptr);
}

TEST_F(CCompileErrors, UnknownNumbersOfEnumsAreRefused) {
  expect_error(compile_with([](auto& problem) { problem.b_layout = 4; }), SPJIT_INVALID_ARGUMENT,
               "b_layout is 4; expected 0 to 3");
  expect_error(compile_with([](auto& problem) { problem.c_layout = -1; }), SPJIT_INVALID_ARGUMENT,
               "c_layout is -1; expected 0 to 3");
  expect_error(compile_with([](auto& problem) { problem.activation = 11; }), SPJIT_INVALID_ARGUMENT,
               "activation is 11; expected 0 to 10");
  expect_error(compile_with([](auto& problem) { problem.has_bias = 2; }), SPJIT_INVALID_ARGUMENT,
               "has_bias is 2; expected 0 or 1");
  expect_error(compile_with([](auto& problem) { problem.runtime_n = -1; }), SPJIT_INVALID_ARGUMENT,
               "runtime_n is -1; expected 0 or 1");
}

TEST_F(CCompileErrors, WrongProblemsAreRefused) {
  expect_error(compile_with([](auto& problem) { problem.n = 0; }), SPJIT_INVALID_ARGUMENT, "n");
  expect_error(compile_with([](auto& problem) { problem.n = INT64_MAX; }), SPJIT_INVALID_ARGUMENT,
               "n");
  expect_error(compile_with([](auto& problem) { problem.ldb = 7; }), SPJIT_INVALID_ARGUMENT, "7");
  expect_error(compile_with([](auto& problem) { problem.ldc = INT64_MAX; }), SPJIT_INVALID_ARGUMENT,
               "9223372036854775807");
  expect_error(compile_with([](auto& problem) {
                 problem.activation = SPJIT_CLAMP;
                 problem.clamp_low = 1;
               }),
               SPJIT_INVALID_ARGUMENT, "clamp");
  expect_error(compile_with([](auto& problem) {
                 problem.activation = SPJIT_LEAKY_RELU;
                 problem.alpha = std::numeric_limits<float>::infinity();
               }),
               SPJIT_INVALID_ARGUMENT, "alpha of leaky-relu is inf");
}

TEST_F(CCompileErrors, WrongControlsAreRefused) {
  const spjit_problem problem = problem_of(8);
  auto control = sized<spjit_compile_control>();
  for (const double timeout : {-1.0, 2e9, std::numeric_limits<double>::quiet_NaN()}) {
    control.timeout_ms = timeout;
    expect_error(compile(&problem, &control), SPJIT_INVALID_ARGUMENT, "timeout_ms is ");
  }
}

TEST(CCompilerErrors, WrongOptionsAreRefused) {
  const auto create = [](const auto& change) {
    auto options = sized<spjit_compiler_options>();
    change(options);
    spjit_compiler* compiler = nullptr;
    const int status = spjit_compiler_create(&options, &compiler);
    EXPECT_EQ(compiler, nullptr);
    spjit_compiler_destroy(compiler);
    return status;
  };
  expect_error(create([](auto& options) { options.struct_size = 8; }), SPJIT_INVALID_ARGUMENT,
               "struct_size of spjit_compiler_options is 8; expected");
  expect_error(create([](auto& options) { options.target = "pdp-11"; }), SPJIT_INVALID_ARGUMENT,
               "pdp-11");
  expect_error(create([](auto& options) { options.search = "slow"; }), SPJIT_INVALID_ARGUMENT,
               "slow");
  expect_error(create([](auto& options) { options.family = "none"; }), SPJIT_INVALID_ARGUMENT,
               "none");
  expect_error(create([](auto& options) { options.verify = "maybe"; }), SPJIT_INVALID_ARGUMENT,
               "maybe");
  expect_error(create([](auto& options) { options.threads = -2; }), SPJIT_INVALID_ARGUMENT,
               "threads is -2; expected a number of threads or SPJIT_ALL_CPUS (-1)");
  expect_error(create([](auto& options) { options.threads = 1 << 20; }), SPJIT_INVALID_ARGUMENT,
               "threads is 1048576");
  expect_error(create([](auto& options) { options.hot = 3; }), SPJIT_INVALID_ARGUMENT,
               "hot is 3; expected 0 or 1");
  expect_error(create([](auto& options) { options.cache_size_limit_bytes = -5; }),
               SPJIT_INVALID_ARGUMENT, "cache_size_limit_bytes is -5");
  expect_error(create([](auto& options) { options.cache_directory = "/dev/null/cache"; }),
               SPJIT_CACHE_ERROR, "/dev/null/cache");
}

TEST(CErrors, EmptyPathsAreRefused) {
  const char* const layers[] = {""};
  spjit_compiler_options options{};
  options.struct_size = sizeof(options);
  options.cache_directory = "";
  spjit_compiler* compiler = nullptr;
  spjit_matrix* matrix = nullptr;
  spjit_kernel* kernel = nullptr;
  spjit_bundle* bundle = nullptr;
  spjit_bundle_writer* writer = nullptr;

  expect_error(spjit_compiler_create(&options, &compiler), SPJIT_INVALID_ARGUMENT,
               "cache_directory is empty; expected a path");
  options.cache_directory = nullptr;
  options.cache_layers = layers;
  options.cache_layer_count = 1;
  expect_error(spjit_compiler_create(&options, &compiler), SPJIT_INVALID_ARGUMENT,
               "a path of cache_layers is empty");
  expect_error(spjit_matrix_load("", &matrix), SPJIT_INVALID_ARGUMENT, "path is empty");
  expect_error(spjit_kernel_load("", nullptr, &kernel), SPJIT_INVALID_ARGUMENT, "folder is empty");
  expect_error(spjit_bundle_open("", nullptr, &bundle), SPJIT_INVALID_ARGUMENT, "path is empty");
  expect_error(spjit_bundle_writer_create("", nullptr, &writer), SPJIT_INVALID_ARGUMENT,
               "path is empty");
}

class CMatrixErrors : public testing::Test {
 protected:
  /// Of a matrix that is right but for one member.
  template <class Change>
  static int make(const Change& change) {
    const CsrMatrix matrix = small_matrix();
    spjit_csr csr = csr_of(matrix);
    change(csr);
    spjit_matrix* made = nullptr;
    const int status = spjit_matrix_from_csr(&csr, &made);
    EXPECT_EQ(made, nullptr);
    spjit_matrix_destroy(made);
    return status;
  }
};

TEST_F(CMatrixErrors, SizesAndPointersThatCannotBe) {
  expect_error(make([](auto& csr) { csr.struct_size = 0; }), SPJIT_INVALID_ARGUMENT,
               "struct_size of spjit_csr is 0");
  expect_error(make([](auto& csr) { csr.rows = -1; }), SPJIT_INVALID_ARGUMENT,
               "rows is -1; expected 0 to 2147483647");
  expect_error(make([](auto& csr) { csr.cols = std::int64_t{1} << 31; }), SPJIT_INVALID_ARGUMENT,
               "cols is 2147483648");
  expect_error(make([](auto& csr) { csr.nnz = INT64_MAX; }), SPJIT_INVALID_ARGUMENT,
               "nnz is 9223372036854775807");
  expect_error(make([](auto& csr) { csr.row_ptrs = nullptr; }), SPJIT_INVALID_ARGUMENT,
               "row_ptrs is NULL");
  expect_error(make([](auto& csr) { csr.col_idxs = nullptr; }), SPJIT_INVALID_ARGUMENT,
               "col_idxs is NULL");
  expect_error(make([](auto& csr) { csr.values = nullptr; }), SPJIT_INVALID_ARGUMENT,
               "values is NULL");
  expect_error(make([](auto& csr) { csr.row_ptr_type = 0; }), SPJIT_INVALID_ARGUMENT,
               "row_ptr_type is 0; expected SPJIT_INT32 (1) or SPJIT_INT64 (2)");
  expect_error(make([](auto& csr) { csr.col_idx_type = 3; }), SPJIT_INVALID_ARGUMENT,
               "col_idx_type is 3");
  spjit_matrix* matrix = nullptr;
  expect_error(spjit_matrix_from_csr(nullptr, &matrix), SPJIT_INVALID_ARGUMENT,
               "spjit_csr is NULL");
  expect_error(spjit_matrix_from_dense(nullptr, 2, 2, &matrix), SPJIT_INVALID_ARGUMENT, "null");
  expect_error(spjit_matrix_from_dense(nullptr, -2, 2, &matrix), SPJIT_INVALID_ARGUMENT, "-2");
}

TEST_F(CMatrixErrors, OffsetsAndColumnsThatAreNone) {
  static constexpr std::array<std::int64_t, 1> k_far = {std::int64_t{1} << 40};
  static constexpr std::array<std::int64_t, 2> k_one_row = {0, 1};
  static constexpr std::array<std::int32_t, 2> k_no_entries = {0, 0};
  expect_error(make([](auto& csr) { --csr.nnz; }), SPJIT_INVALID_MATRIX, "row_ptrs ends with");
  expect_error(make([](auto& csr) {
                 csr.rows = 1;
                 csr.row_ptrs = k_no_entries.data();
                 csr.row_ptr_type = SPJIT_INT32;
               }),
               SPJIT_INVALID_MATRIX, "row_ptrs ends with 0; expected nnz, ");
  expect_error(make([](auto& csr) {
                 csr.rows = 1;
                 csr.nnz = 1;
                 csr.row_ptrs = k_one_row.data();
                 csr.col_idxs = k_far.data();
                 csr.col_idx_type = SPJIT_INT64;
               }),
               SPJIT_INVALID_MATRIX, "entry 0 is in column 1099511627776");
  expect_error(make([](auto& csr) { csr.cols = 1; }), SPJIT_INVALID_MATRIX, "");
}

TEST_F(CMatrixErrors, FilesThatAreNotThere) {
  spjit_matrix* matrix = nullptr;
  expect_error(spjit_matrix_load("/nowhere/a.npz", &matrix), SPJIT_IO_ERROR, "/nowhere/a.npz");
  expect_error(spjit_matrix_load(nullptr, &matrix), SPJIT_INVALID_ARGUMENT, "path is NULL");
  spjit_kernel* kernel = nullptr;
  expect_error(spjit_kernel_load("/nowhere", nullptr, &kernel), SPJIT_IO_ERROR, "/nowhere");
}

class CRunErrors : public testing::Test {
 protected:
  /// Of arguments that are right but for one member.
  template <class Change>
  int run_with(const Change& change) {
    auto arguments = sized<spjit_arguments>();
    arguments.b = b_.data();
    arguments.c = c_.data();
    change(arguments);
    return spjit_kernel_run(kernel_.get(), &arguments);
  }

  CsrMatrix a_ = small_matrix();
  CKernel kernel_ = kernel_of(compiler_of().get(), matrix_of(a_).get(), problem_of(8));
  std::vector<float> b_ = std::vector<float>(index(a_.cols * 8), 1.0F);
  std::vector<float> c_ = std::vector<float>(index(a_.rows * 8));
};

TEST_F(CRunErrors, WrongArgumentsAreRefused) {
  EXPECT_EQ(run_with([](auto&) {}), SPJIT_OK) << spjit_last_error();
  expect_error(run_with([](auto& arguments) { arguments.struct_size = 8; }), SPJIT_INVALID_ARGUMENT,
               "struct_size of spjit_arguments is 8; expected");
  expect_error(run_with([](auto& arguments) { arguments.b = nullptr; }), SPJIT_INVALID_ARGUMENT,
               "b is null");
  expect_error(run_with([](auto& arguments) { arguments.c = nullptr; }), SPJIT_INVALID_ARGUMENT,
               "c is null");
  expect_error(run_with([](auto& arguments) { arguments.n = 9; }), SPJIT_INVALID_ARGUMENT,
               "n is 9; this kernel was compiled for n = 8");
  expect_error(run_with([](auto& arguments) { arguments.n = -1; }), SPJIT_INVALID_ARGUMENT,
               "n is -1");
  expect_error(run_with([](auto& arguments) { arguments.ldb = 7; }), SPJIT_INVALID_ARGUMENT,
               "ldb is 7; expected at least 8");
  expect_error(run_with([](auto& arguments) { arguments.ldc = INT64_MAX; }), SPJIT_INVALID_ARGUMENT,
               "ldc is 9223372036854775807; expected at most");
  expect_error(run_with([](auto& arguments) { arguments.b_layout = 17; }), SPJIT_INVALID_ARGUMENT,
               "b_layout is 17; expected 0 to 3");
  expect_error(run_with([](auto& arguments) { arguments.batch = -3; }), SPJIT_INVALID_ARGUMENT,
               "batch is -3");
  expect_error(run_with([](auto& arguments) {
                 arguments.batch = 2;
                 arguments.b_distance = INT64_MIN;
               }),
               SPJIT_INVALID_ARGUMENT, "b_distance is -9223372036854775808");
  expect_error(run_with([&](auto& arguments) { arguments.bias = b_.data(); }),
               SPJIT_INVALID_ARGUMENT, "bias is given");
  expect_error(run_with([&](auto& arguments) { arguments.c = b_.data(); }), SPJIT_INVALID_ARGUMENT,
               "overlap");
}

TEST_F(CRunErrors, AWorkspaceThatIsTooSmallIsRefused) {
  auto arguments = sized<spjit_arguments>();
  arguments.b_layout = SPJIT_LAYOUT_TOKENS;
  arguments.c_layout = SPJIT_LAYOUT_TOKENS;
  arguments.b = b_.data();
  arguments.c = c_.data();
  std::size_t bytes = 7;
  ASSERT_EQ(spjit_kernel_workspace_bytes(kernel_.get(), &arguments, &bytes), SPJIT_OK);
  ASSERT_GT(bytes, 0U);
  std::vector<std::byte> workspace(bytes);
  arguments.workspace = workspace.data();
  arguments.workspace_bytes = bytes - 1;

  expect_error(spjit_kernel_run(kernel_.get(), &arguments), SPJIT_INVALID_ARGUMENT,
               "the workspace has " + std::to_string(bytes - 1) + " bytes; expected " +
                   std::to_string(bytes));
  expect_error(spjit_kernel_workspace_bytes(kernel_.get(), &arguments, nullptr),
               SPJIT_INVALID_ARGUMENT, "bytes is NULL");
  expect_error(spjit_kernel_workspace_bytes(kernel_.get(), nullptr, &bytes), SPJIT_INVALID_ARGUMENT,
               "spjit_arguments is NULL");
  EXPECT_EQ(bytes, 0U);
}

TEST_F(CRunErrors, ValuesAreForKernelsWithout) {
  spjit_values* values = nullptr;
  expect_error(spjit_kernel_prepare_values(kernel_.get(), a_.values.data(), a_.nnz(), &values),
               SPJIT_INVALID_ARGUMENT, "this kernel has A's values");
  expect_error(spjit_kernel_prepare_values(kernel_.get(), nullptr, a_.nnz(), &values),
               SPJIT_INVALID_ARGUMENT, "values is NULL");
  expect_error(spjit_kernel_prepare_values(kernel_.get(), a_.values.data(), -1, &values),
               SPJIT_INVALID_ARGUMENT, "-1 values; expected");
  const CMatrix matrix = matrix_of(a_);
  expect_error(spjit_kernel_prepare_values_of(kernel_.get(), matrix.get(), &values),
               SPJIT_INVALID_ARGUMENT, "this kernel has A's values");
  expect_error(spjit_kernel_prepare_values_of(kernel_.get(), nullptr, &values),
               SPJIT_INVALID_ARGUMENT, "matrix is NULL");
  expect_error(spjit_kernel_prepare_values_of(nullptr, matrix.get(), &values),
               SPJIT_INVALID_ARGUMENT, "kernel is NULL");
  EXPECT_EQ(values, nullptr);
}

TEST_F(CRunErrors, ValuesOfAMatrixOfAnotherPatternAreRefused) {
  spjit_problem problem = problem_of(8);
  problem.runtime_values = 1;
  const CKernel kernel = kernel_of(compiler_of().get(), matrix_of(a_).get(), problem);
  std::vector<float> dense(index(a_.rows * a_.cols));
  std::fill_n(dense.end() - a_.nnz(), a_.nnz(), 1.0F);
  spjit_matrix* other = nullptr;
  ASSERT_EQ(spjit_matrix_from_dense(dense.data(), a_.rows, a_.cols, &other), SPJIT_OK);
  const CMatrix of_another(other);
  spjit_values* values = nullptr;

  expect_error(spjit_kernel_prepare_values_of(kernel.get(), of_another.get(), &values),
               SPJIT_INVALID_ARGUMENT, "entries, not all at the same places, is given");
  EXPECT_EQ(values, nullptr);
}

}  // namespace
