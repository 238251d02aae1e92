/// @file
/// Intel's Math Kernel Library, loaded at run time: sgemm, and inspector-executor SpMM.

#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/dynamic_library.hpp"
#include "bench/side_by_side/peers.hpp"
#include "spjit/error.hpp"

namespace spjit::side_by_side {
namespace {

// From mkl.h (LP64: sizes are int). The values of the enumerations are part of the interface.
constexpr int k_row_major = 101;
constexpr int k_no_transpose = 111;  // of cblas_sgemm
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
using Sgemm = void(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                   const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc);
using CreateCsr = int(Handle* handle, int base, int rows, int cols, int* begins, int* ends,
                      int* col_idxs, float* values);
using SetMmHint = int(Handle handle, int operation, MatrixDescription description, int layout,
                      int columns, int calls);
using OnHandle = int(Handle handle);
using SparseMm = int(int operation, float alpha, Handle handle, MatrixDescription description,
                     int layout, const float* b, int columns, int ldb, float beta, float* c,
                     int ldc);

constexpr std::array k_files = {"libmkl_rt.so.3", "libmkl_rt.so.2"};
constexpr std::array k_branches = {"avx512", "avx10", "avx2", "avx", "mc3", "mc", "def"};
constexpr const char* k_install = "'scripts/setup_peers.sh' brings it from PyPI; --mkl FOLDER";

/// MKL and the functions that are used of it. Copies share the library.
struct Mkl {
  std::shared_ptr<DynamicLibrary> openmp;
  std::shared_ptr<DynamicLibrary> library;
  std::string version;
  std::string reason;  ///< why it is not there; empty: it is
  SetThreads* set_threads = nullptr;
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
  library.require<Sgemm>("cblas_sgemm")(k_row_major, k_no_transpose, k_no_transpose, 1, 1, 1, one,
                                        &one, 1, &one, 1, 0, &product, 1);
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
  mkl.version = version_of(*mkl.library);
  return mkl;
}

class MklRunnable : public Runnable {
 public:
  explicit MklRunnable(const Problem& problem)
      : m_(to_int(problem.matrix->rows)),
        k_(to_int(problem.matrix->cols)),
        n_(to_int(problem.n)),
        b_(problem.b),
        c_(problem.c) {}

 protected:
  int m_;
  int k_;
  int n_;
  const float* b_;
  float* c_;
};

class MklDenseRunnable final : public MklRunnable {
 public:
  MklDenseRunnable(const Mkl& mkl, const Problem& problem)
      : MklRunnable(problem),
        sgemm_(mkl.library->require<Sgemm>("cblas_sgemm")),
        a_(require_dense(problem)) {}

  void run() override {
    sgemm_(k_row_major, k_no_transpose, k_no_transpose, m_, n_, k_, 1.0F, a_, std::max(1, k_), b_,
           n_, 0.0F, c_, n_);
  }

 private:
  Sgemm* sgemm_;
  const float* a_;
};

class MklSparseRunnable final : public MklRunnable {
 public:
  MklSparseRunnable(const Mkl& mkl, const Problem& problem)
      : MklRunnable(problem),
        row_ptrs_(problem.matrix->row_ptrs.begin(), problem.matrix->row_ptrs.end()),
        col_idxs_(problem.matrix->col_idxs),
        values_(problem.matrix->values),
        mm_(mkl.library->require<SparseMm>("mkl_sparse_s_mm")),
        destroy_(mkl.library->require<OnHandle>("mkl_sparse_destroy")) {
    // MKL refuses null pointers, also to nothing.
    col_idxs_.reserve(1);
    values_.reserve(1);
    constexpr int k_many_calls = 100'000;
    auto* const create = mkl.library->require<CreateCsr>("mkl_sparse_s_create_csr");
    check("mkl_sparse_s_create_csr",
          create(&handle_, k_index_base_zero, m_, k_, row_ptrs_.data(), row_ptrs_.data() + 1,
                 col_idxs_.data(), values_.data()));
    auto* const hint = mkl.library->require<SetMmHint>("mkl_sparse_set_mm_hint");
    hinted_ = hint(handle_, k_operation_non_transpose, {}, k_row_major, n_, k_many_calls) ==
              k_sparse_success;
    optimized_ = mkl.library->require<OnHandle>("mkl_sparse_optimize")(handle_) == k_sparse_success;
  }
  MklSparseRunnable(const MklSparseRunnable&) = delete;
  MklSparseRunnable& operator=(const MklSparseRunnable&) = delete;
  ~MklSparseRunnable() override { destroy_(handle_); }

  void run() override {
    check("mkl_sparse_s_mm",
          mm_(k_operation_non_transpose, 1.0F, handle_, {}, k_row_major, b_, n_, n_, 0.0F, c_, n_));
  }

  [[nodiscard]] std::string detail() const override {
    return fmt::format("{}, {}", hinted_ ? "hint taken" : "no hint for this case",
                       optimized_ ? "optimized" : "not optimized");
  }

 private:
  static void check(const char* what, int status) {
    if (status != k_sparse_success) throw Error(fmt::format("{}: status {}", what, status));
  }

  std::vector<int> row_ptrs_;
  std::vector<int> col_idxs_;
  std::vector<float> values_;
  SparseMm* mm_;
  OnHandle* destroy_;
  Handle handle_ = nullptr;
  bool hinted_ = false;
  bool optimized_ = false;
};

template <class Kind>
class MklPeer final : public Peer {
 public:
  MklPeer(PeerInfo info, Mkl mkl) : Peer(std::move(info)), mkl_(std::move(mkl)) {}

  std::unique_ptr<Runnable> prepare(const Problem& problem) override {
    mkl_.set_threads(problem.threads);
    return std::make_unique<Kind>(mkl_, problem);
  }

 private:
  Mkl mkl_;
};

template <class Kind>
std::unique_ptr<Peer> make_mkl_peer(const PeerSettings& settings, PeerInfo info) {
  Mkl mkl = load_mkl(settings.mkl_folder);
  info.version = mkl.version;
  info.missing = mkl.reason;
  if (!info.missing.empty()) return make_missing_peer(std::move(info));
  return std::make_unique<MklPeer<Kind>>(std::move(info), std::move(mkl));
}

}  // namespace

std::unique_ptr<Peer> make_mkl_dense_peer(const PeerSettings& settings) {
  return make_mkl_peer<MklDenseRunnable>(settings, {"mkl-dense", "", "dense"});
}

std::unique_ptr<Peer> make_mkl_sparse_peer(const PeerSettings& settings) {
  return make_mkl_peer<MklSparseRunnable>(settings, {"mkl-sparse", "", "sparse", "", "inspection"});
}

}  // namespace spjit::side_by_side
