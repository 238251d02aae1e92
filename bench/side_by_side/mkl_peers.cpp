/// @file
/// Intel's Math Kernel Library, loaded at run time: sgemm, and inspector-executor SpMM.

#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/dynamic_library.hpp"
#include "bench/side_by_side/dense_runnable.hpp"
#include "bench/side_by_side/peer_ways.hpp"
#include "bench/side_by_side/peers.hpp"
#include "spjit/error.hpp"
#include "tools/peers/blas_calls.hpp"

namespace spjit::side_by_side {
namespace {

// From mkl.h (LP64: sizes are int). The values of the enumerations are part of the interface.
constexpr int k_row_major = 101;
constexpr int k_no_transpose = 111;  // of cblas_sgemm
constexpr int k_column_major = 102;
constexpr int k_operation_non_transpose = 10;
constexpr int k_index_base_zero = 0;
constexpr int k_interface_lp64 = 0;
constexpr int k_threading_intel = 0;
constexpr int k_sparse_success = 0;
// struct matrix_descr: a general matrix; the other two fields are not looked at then.
struct MatrixDescription {
  int type = 20;
  int fill = 40;
  int diagonal = 50;
};
struct SparseMatrix;
using Handle = SparseMatrix*;

using SetLayer = int(int layer);
using SetThreads = void(int threads);
using VersionString = void(char* text, int size);
using CreateCsr = int(Handle* handle, int base, int rows, int cols, int* begins, int* ends,
                      int* col_idxs, float* values);
using SetMmHint = int(Handle handle, int operation, MatrixDescription description, int layout,
                      int columns, int calls);
using SetMvHint = int(Handle handle, int operation, MatrixDescription description, int calls);
using OnHandle = int(Handle handle);
using SparseMm = int(int operation, float alpha, Handle handle, MatrixDescription description,
                     int layout, const float* b, int columns, int ldb, float beta, float* c,
                     int ldc);
using SparseMv = int(int operation, float alpha, Handle handle, MatrixDescription description,
                     const float* x, float beta, float* y);

constexpr std::array k_files = {"libmkl_rt.so.3", "libmkl_rt.so.2"};
constexpr std::array k_branches = {"avx512", "avx10", "avx2", "avx", "mc3", "mc", "def"};
constexpr const char* k_install =
    "'scripts/build/setup_peers.sh' brings it from PyPI; --mkl FOLDER";

/// MKL and the functions that are used of it. Copies share the library.
struct Mkl {
  std::shared_ptr<DynamicLibrary> openmp;
  std::shared_ptr<DynamicLibrary> library;
  std::string version;
  std::string reason;  ///< why it is not there; empty: it is
  SetThreads* set_threads = nullptr;
  BlasFunctions blas = {};
};

/// Of the libraries that are loaded, MKL's with kernels: "libmkl_avx512.so.3".
std::string loaded_kernels() {
  std::string found;
  const auto look = [](dl_phdr_info* info, std::size_t /*size*/, void* result) {
    const std::string name = std::filesystem::path(info->dlpi_name).filename().string();
    for (const char* branch : k_branches) {
      const std::string prefix = fmt::format("libmkl_{}.", branch);
      if (name.rfind(prefix, 0) == 0) *static_cast<std::string*>(result) = name;
    }
    return 0;
  };
  ::dl_iterate_phdr(look, &found);
  return found;
}

std::string version_of(const DynamicLibrary& library) {
  std::array<char, 200> text{};
  library.require<VersionString>("MKL_Get_Version_String")(text.data(),
                                                           static_cast<int>(text.size()));
  text.back() = '\0';
  std::string version = text.data();
  version.erase(version.find_last_not_of(' ') + 1);
  // Its first product loads the kernels it chooses.
  const float one = 1;
  float product = 0;
  library.require<BlasFunctions::Sgemm>("cblas_sgemm")(
      k_row_major, k_no_transpose, k_no_transpose, 1, 1, 1, one, &one, 1, &one, 1, 0, &product, 1);
  const std::string kernels = loaded_kernels();
  return kernels.empty() ? version : fmt::format("{}, kernels of {}", version, kernels);
}

/// MKL ends the process if it does not find its threading library, so that is loaded first.
Mkl load_mkl(const std::filesystem::path& folder) {
  constexpr auto k_resident = DynamicLibrary::Lifetime::resident;
  Mkl mkl;
  auto openmp = DynamicLibrary::try_open(folder / "libiomp5.so", k_resident);
  std::optional<DynamicLibrary> library;
  for (const char* file : k_files) {
    if (!library) library = DynamicLibrary::try_open(folder / file, k_resident);
  }
  if (!openmp || !library) {
    mkl.reason = fmt::format("{} and {} cannot be loaded; {}", (folder / "libiomp5.so").string(),
                             fmt::join(k_files, " or "), k_install);
    return mkl;
  }
  mkl.openmp = std::make_shared<DynamicLibrary>(*std::move(openmp));
  mkl.library = std::make_shared<DynamicLibrary>(*std::move(library));
  mkl.library->require<SetLayer>("MKL_Set_Interface_Layer")(k_interface_lp64);
  mkl.library->require<SetLayer>("MKL_Set_Threading_Layer")(k_threading_intel);
  mkl.set_threads = mkl.library->require<SetThreads>("MKL_Set_Num_Threads");
  mkl.blas = {
      .sgemm = mkl.library->require<BlasFunctions::Sgemm>("cblas_sgemm"),
      .sgemv = mkl.library->require<BlasFunctions::Sgemv>("cblas_sgemv"),
      .pack_bytes = mkl.library->require<BlasFunctions::PackBytes>("cblas_sgemm_pack_get_size"),
      .pack = mkl.library->require<BlasFunctions::Pack>("cblas_sgemm_pack"),
      .compute = mkl.library->require<BlasFunctions::Compute>("cblas_sgemm_compute")};
  mkl.version = version_of(*mkl.library);
  return mkl;
}

void check(const char* what, int status) {
  if (status != k_sparse_success) throw Error(fmt::format("{}: status {}", what, status));
}

/// A in MKL's form, inspected for one way of calling.
class MklSparseMatrix {
 public:
  MklSparseMatrix(const Mkl& mkl, const Problem& problem)
      : library_(*mkl.library),
        m_(to_int(problem.matrix->rows)),
        k_(to_int(problem.matrix->cols)),
        n_(to_int(problem.n)),
        row_ptrs_(problem.matrix->row_ptrs.begin(), problem.matrix->row_ptrs.end()),
        col_idxs_(problem.matrix->col_idxs),
        values_(problem.matrix->values) {
    // MKL refuses null pointers, also to nothing.
    col_idxs_.reserve(1);
    values_.reserve(1);
    check("mkl_sparse_s_create_csr", library_.require<CreateCsr>("mkl_sparse_s_create_csr")(
                                         &handle_, k_index_base_zero, m_, k_, row_ptrs_.data(),
                                         row_ptrs_.data() + 1, col_idxs_.data(), values_.data()));
  }
  MklSparseMatrix(const MklSparseMatrix&) = delete;
  MklSparseMatrix& operator=(const MklSparseMatrix&) = delete;
  ~MklSparseMatrix() { library_.require<OnHandle>("mkl_sparse_destroy")(handle_); }

  /// Says how it will be called and lets MKL prepare for that; "hint taken, optimized".
  std::string inspect(MklSparseWay way) {
    constexpr int k_many_calls = 100'000;
    const int hinted =
        way == MklSparseWay::vector
            ? library_.require<SetMvHint>("mkl_sparse_set_mv_hint")(
                  handle_, k_operation_non_transpose, {}, k_many_calls)
            : library_.require<SetMmHint>("mkl_sparse_set_mm_hint")(
                  handle_, k_operation_non_transpose, {}, layout_of(way), n_, k_many_calls);
    const int optimized = library_.require<OnHandle>("mkl_sparse_optimize")(handle_);
    return fmt::format("{}, {}",
                       hinted == k_sparse_success ? "hint taken" : "no hint for this case",
                       optimized == k_sparse_success ? "optimized" : "not optimized");
  }

  [[nodiscard]] std::function<void(const float*, float*)> call(MklSparseWay way) const {
    if (way == MklSparseWay::vector) {
      return [this, mv = library_.require<SparseMv>("mkl_sparse_s_mv")](const float* b, float* c) {
        check("mkl_sparse_s_mv", mv(k_operation_non_transpose, 1.0F, handle_, {}, b, 0.0F, c));
      };
    }
    const bool has_tokens = way == MklSparseWay::tokens;
    return [this, layout = layout_of(way), ldb = has_tokens ? std::max(1, k_) : n_,
            ldc = has_tokens ? std::max(1, m_) : n_,
            mm = library_.require<SparseMm>("mkl_sparse_s_mm")](const float* b, float* c) {
      check("mkl_sparse_s_mm",
            mm(k_operation_non_transpose, 1.0F, handle_, {}, layout, b, n_, ldb, 0.0F, c, ldc));
    };
  }

 private:
  static int layout_of(MklSparseWay way) {
    return way == MklSparseWay::tokens ? k_column_major : k_row_major;
  }

  const DynamicLibrary& library_;
  int m_;
  int k_;
  int n_;
  std::vector<int> row_ptrs_;
  std::vector<int> col_idxs_;
  std::vector<float> values_;
  Handle handle_ = nullptr;
};

std::vector<DenseCall> sparse_calls(const Mkl& mkl, const Problem& problem) {
  std::vector<DenseCall> calls;
  for (const MklSparseWay way : mkl_sparse_ways(problem.n)) {
    const auto matrix = std::make_shared<MklSparseMatrix>(mkl, problem);
    const std::string how = matrix->inspect(way);
    calls.push_back({fmt::format("{}, {}", to_string(way), how), way == MklSparseWay::tokens,
                     [matrix, run = matrix->call(way)](const float* b, float* c) { run(b, c); }});
  }
  return calls;
}

std::vector<DenseCall> dense_calls(const Mkl& mkl, const Problem& problem) {
  return blas_calls(mkl.blas, dense_problem(problem));
}

using MakeCalls = std::vector<DenseCall> (*)(const Mkl& mkl, const Problem& problem);

class MklPeer final : public Peer {
 public:
  MklPeer(PeerInfo info, Mkl mkl, MakeCalls calls)
      : Peer(std::move(info)), mkl_(std::move(mkl)), calls_(calls) {}

  std::unique_ptr<Runnable> prepare(const Problem& problem) override {
    mkl_.set_threads(problem.threads);
    const DenseProblem product{
        problem.matrix->rows, problem.matrix->cols, problem.n, nullptr, problem.b, problem.c};
    return std::make_unique<DenseRunnable>(calls_(mkl_, problem), product);
  }

 private:
  Mkl mkl_;
  MakeCalls calls_;
};

std::unique_ptr<Peer> make_mkl_peer(const PeerSettings& settings, PeerInfo info, MakeCalls calls) {
  Mkl mkl = load_mkl(settings.mkl_folder);
  info.version = mkl.version;
  info.missing = mkl.reason;
  if (!info.missing.empty()) return make_missing_peer(std::move(info));
  return std::make_unique<MklPeer>(std::move(info), std::move(mkl), calls);
}

}  // namespace

std::unique_ptr<Peer> make_mkl_dense_peer(const PeerSettings& settings) {
  return make_mkl_peer(settings, {"mkl-dense", "", "dense", "", "packing"}, dense_calls);
}

std::unique_ptr<Peer> make_mkl_sparse_peer(const PeerSettings& settings) {
  return make_mkl_peer(settings, {"mkl-sparse", "", "sparse", "", "inspection"}, sparse_calls);
}

}  // namespace spjit::side_by_side
