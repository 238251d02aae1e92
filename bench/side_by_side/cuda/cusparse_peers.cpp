/// @file
/// cuSPARSE's SpMM, each algorithm a library of its own, and its SpMV. Declared by its header,
/// loaded at run time.

#include <cusparse.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/side_by_side/cuda/cuda_peers.hpp"
#include "bench/side_by_side/cuda/toolkit_library.hpp"
#include "bench/side_by_side/peers.hpp"
#include "spjit/error.hpp"

namespace spjit::side_by_side {
namespace {

struct Algorithm {
  const char* name;
  cusparseSpMMAlg_t id;
  bool is_coo;
  bool is_vector = false;  ///< cusparseSpMV: one column
};

constexpr Algorithm k_algorithms[] = {
    {"cusparse-csr1", CUSPARSE_SPMM_CSR_ALG1, false},
    {"cusparse-csr2", CUSPARSE_SPMM_CSR_ALG2, false},
    {"cusparse-csr3", CUSPARSE_SPMM_CSR_ALG3, false},
    {"cusparse-coo1", CUSPARSE_SPMM_COO_ALG1, true},
    {"cusparse-coo2", CUSPARSE_SPMM_COO_ALG2, true},
    {"cusparse-coo3", CUSPARSE_SPMM_COO_ALG3, true},
    {"cusparse-coo4", CUSPARSE_SPMM_COO_ALG4, true},
    {"cusparse-spmv", CUSPARSE_SPMM_ALG_DEFAULT, false, true},
};

void check(const char* what, cusparseStatus_t status) {
  if (status != CUSPARSE_STATUS_SUCCESS) {
    throw Error(fmt::format("{}: status {}", what, static_cast<int>(status)));
  }
}

/// The library with a handle on the device.
class Cusparse {
 public:
  Cusparse(CudaContext context, DynamicLibrary library)
      : context_(std::move(context)),
        library_(std::move(library)),
        destroy_(find<decltype(cusparseDestroy)>("cusparseDestroy")) {
    const CurrentCudaContext current(context_);
    check("cusparseCreate", find<decltype(cusparseCreate)>("cusparseCreate")(&handle_));
  }
  Cusparse(const Cusparse&) = delete;
  Cusparse& operator=(const Cusparse&) = delete;
  ~Cusparse() {
    context_.release([&](const CudaApi& /*api*/) { return destroy_(handle_); });
  }

  template <typename Function>
  [[nodiscard]] Function* find(const char* name) const {
    return library_.require<Function>(name);
  }
  [[nodiscard]] cusparseHandle_t handle() const noexcept { return handle_; }
  [[nodiscard]] const CudaContext& context() const noexcept { return context_; }
  [[nodiscard]] std::string version() const {
    int version = 0;
    check("cusparseGetVersion",
          find<decltype(cusparseGetVersion)>("cusparseGetVersion")(handle_, &version));
    return fmt::format("cuSPARSE {}.{}.{}", version / 1000, version / 100 % 10, version % 100);
  }

 private:
  CudaContext context_;
  DynamicLibrary library_;
  decltype(cusparseDestroy)* destroy_;
  cusparseHandle_t handle_ = nullptr;
};

/// Of each entry the row (COO), or of each row the first entry (CSR).
std::vector<int> row_positions(const CsrMatrix& matrix, bool is_coo) {
  if (!is_coo) return {matrix.row_ptrs.begin(), matrix.row_ptrs.end()};
  std::vector<int> rows;
  rows.reserve(matrix.values.size());
  for (std::size_t row = 0; row + 1 < matrix.row_ptrs.size(); ++row) {
    rows.insert(rows.end(),
                static_cast<std::size_t>(matrix.row_ptrs[row + 1] - matrix.row_ptrs[row]),
                static_cast<int>(row));
  }
  return rows;
}

class CusparseWork final : public DeviceWork {
 public:
  CusparseWork(std::shared_ptr<Cusparse> library, const Algorithm& algorithm,
               const Problem& problem)
      : library_(std::move(library)),
        algorithm_(algorithm),
        rows_(to_device(library_->context(), row_positions(*problem.matrix, algorithm.is_coo))),
        cols_(to_device(library_->context(), problem.matrix->col_idxs)),
        values_(to_device(library_->context(), problem.matrix->values)),
        scratch_(library_->context(), 0),
        spmm_(library_->find<decltype(cusparseSpMM)>("cusparseSpMM")),
        spmv_(library_->find<decltype(cusparseSpMV)>("cusparseSpMV")),
        set_stream_(library_->find<decltype(cusparseSetStream)>("cusparseSetStream")) {
    (void)to_int(problem.matrix->nnz());
    if (algorithm.is_vector && problem.n != 1) {
      throw NotSupported(fmt::format("cusparseSpMV is for one column, n is {}", problem.n));
    }
  }
  ~CusparseWork() override {
    auto* const destroy_dense =
        library_->find<decltype(cusparseDestroyDnMat)>("cusparseDestroyDnMat");
    auto* const destroy_vector =
        library_->find<decltype(cusparseDestroyDnVec)>("cusparseDestroyDnVec");
    static_cast<void>(library_->find<decltype(cusparseDestroySpMat)>("cusparseDestroySpMat")(a_));
    static_cast<void>(destroy_dense(b_));
    static_cast<void>(destroy_dense(c_));
    static_cast<void>(destroy_vector(x_));
    static_cast<void>(destroy_vector(y_));
  }

  /// What is not timed: describes A, B and C, and inspects A on the stream of the products.
  void prepare(const Problem& problem, const DeviceBuffer& b, const DeviceBuffer& c, void* stream) {
    const CurrentCudaContext current(library_->context());
    check("cusparseSetStream", set_stream_(library_->handle(), static_cast<cudaStream_t>(stream)));
    describe_a(*problem.matrix);
    if (algorithm_.is_vector) {
      prepare_vector(problem, b, c);
    } else {
      prepare_matrix(problem, b, c);
    }
  }

  [[nodiscard]] std::int64_t a_bytes() const override {
    return static_cast<std::int64_t>(rows_.bytes() + cols_.bytes() + values_.bytes());
  }

  /// B and C are those it was prepared with.
  void enqueue(const float* /*b*/, float* /*c*/, void* stream) override {
    const CurrentCudaContext current(library_->context());
    check("cusparseSetStream", set_stream_(library_->handle(), static_cast<cudaStream_t>(stream)));
    if (algorithm_.is_vector) {
      check("cusparseSpMV", spmv_(library_->handle(), k_plain, &k_one, a_, x_, &k_zero, y_,
                                  CUDA_R_32F, CUSPARSE_SPMV_CSR_ALG1, scratch_.pointer()));
    } else {
      check("cusparseSpMM", spmm_(library_->handle(), k_plain, k_plain, &k_one, a_, b_, &k_zero, c_,
                                  CUDA_R_32F, algorithm_.id, scratch_.pointer()));
    }
  }

 private:
  static constexpr cusparseOperation_t k_plain = CUSPARSE_OPERATION_NON_TRANSPOSE;
  static constexpr float k_one = 1;
  static constexpr float k_zero = 0;

  void describe_a(const CsrMatrix& matrix) {
    if (algorithm_.is_coo) {
      check("cusparseCreateCoo",
            library_->find<decltype(cusparseCreateCoo)>("cusparseCreateCoo")(
                &a_, matrix.rows, matrix.cols, matrix.nnz(), rows_.pointer(), cols_.pointer(),
                values_.pointer(), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
    } else {
      check("cusparseCreateCsr", library_->find<decltype(cusparseCreateCsr)>("cusparseCreateCsr")(
                                     &a_, matrix.rows, matrix.cols, matrix.nnz(), rows_.pointer(),
                                     cols_.pointer(), values_.pointer(), CUSPARSE_INDEX_32I,
                                     CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
    }
  }

  void prepare_matrix(const Problem& problem, const DeviceBuffer& b, const DeviceBuffer& c) {
    auto* const dense = library_->find<decltype(cusparseCreateDnMat)>("cusparseCreateDnMat");
    check("cusparseCreateDnMat", dense(&b_, problem.matrix->cols, problem.n, problem.n, b.pointer(),
                                       CUDA_R_32F, CUSPARSE_ORDER_ROW));
    check("cusparseCreateDnMat", dense(&c_, problem.matrix->rows, problem.n, problem.n, c.pointer(),
                                       CUDA_R_32F, CUSPARSE_ORDER_ROW));
    std::size_t bytes = 0;
    check("cusparseSpMM_bufferSize",
          library_->find<decltype(cusparseSpMM_bufferSize)>("cusparseSpMM_bufferSize")(
              library_->handle(), k_plain, k_plain, &k_one, a_, b_, &k_zero, c_, CUDA_R_32F,
              algorithm_.id, &bytes));
    scratch_ = DeviceBuffer(library_->context(), bytes);
    check("cusparseSpMM_preprocess",
          library_->find<decltype(cusparseSpMM_preprocess)>("cusparseSpMM_preprocess")(
              library_->handle(), k_plain, k_plain, &k_one, a_, b_, &k_zero, c_, CUDA_R_32F,
              algorithm_.id, scratch_.pointer()));
  }

  void prepare_vector(const Problem& problem, const DeviceBuffer& b, const DeviceBuffer& c) {
    auto* const vector = library_->find<decltype(cusparseCreateDnVec)>("cusparseCreateDnVec");
    check("cusparseCreateDnVec", vector(&x_, problem.matrix->cols, b.pointer(), CUDA_R_32F));
    check("cusparseCreateDnVec", vector(&y_, problem.matrix->rows, c.pointer(), CUDA_R_32F));
    std::size_t bytes = 0;
    check("cusparseSpMV_bufferSize",
          library_->find<decltype(cusparseSpMV_bufferSize)>("cusparseSpMV_bufferSize")(
              library_->handle(), k_plain, &k_one, a_, x_, &k_zero, y_, CUDA_R_32F,
              CUSPARSE_SPMV_CSR_ALG1, &bytes));
    scratch_ = DeviceBuffer(library_->context(), bytes);
    check("cusparseSpMV_preprocess",
          library_->find<decltype(cusparseSpMV_preprocess)>("cusparseSpMV_preprocess")(
              library_->handle(), k_plain, &k_one, a_, x_, &k_zero, y_, CUDA_R_32F,
              CUSPARSE_SPMV_CSR_ALG1, scratch_.pointer()));
  }

  std::shared_ptr<Cusparse> library_;
  Algorithm algorithm_;
  DeviceBuffer rows_;
  DeviceBuffer cols_;
  DeviceBuffer values_;
  DeviceBuffer scratch_;
  decltype(cusparseSpMM)* spmm_;
  decltype(cusparseSpMV)* spmv_;
  decltype(cusparseSetStream)* set_stream_;
  cusparseSpMatDescr_t a_ = nullptr;
  cusparseDnMatDescr_t b_ = nullptr;
  cusparseDnMatDescr_t c_ = nullptr;
  cusparseDnVecDescr_t x_ = nullptr;
  cusparseDnVecDescr_t y_ = nullptr;
};

class CusparsePeer final : public CudaPeer {
 public:
  CusparsePeer(PeerInfo info, std::shared_ptr<DeviceSide> side, std::shared_ptr<Cusparse> library,
               const Algorithm& algorithm)
      : CudaPeer(std::move(info), std::move(side)),
        library_(std::move(library)),
        algorithm_(algorithm) {}

  WorkMaker maker(const Problem& problem) override {
    return [this, &problem](const DeviceBuffer& b, const DeviceBuffer& c) {
      auto work = std::make_unique<CusparseWork>(library_, algorithm_, problem);
      work->prepare(problem, b, c, side().stream().handle());
      return work;
    };
  }

 private:
  std::shared_ptr<Cusparse> library_;
  Algorithm algorithm_;
};

}  // namespace

std::unique_ptr<Peer> make_cusparse_peer(const CudaPeerSettings& settings,
                                         const std::string& name) {
  const auto* const algorithm =
      std::find_if(std::begin(k_algorithms), std::end(k_algorithms),
                   [&](const Algorithm& candidate) { return candidate.name == name; });
  if (algorithm == std::end(k_algorithms)) throw InvalidArgument("no peer " + name);
  PeerInfo info{name, "", "sparse", "", "inspection"};
  const std::string file = fmt::format("libcusparse.so.{}", CUSPARSE_VER_MAJOR);
  auto library = open_toolkit_library(file);
  if (!library) {
    info.missing = file + " cannot be loaded; set CUDA_HOME to a CUDA toolkit that has it";
    return make_missing_peer(std::move(info));
  }
  try {
    auto cusparse = std::make_shared<Cusparse>(settings.side->context(), *std::move(library));
    info.version = cusparse->version();
    return std::make_unique<CusparsePeer>(std::move(info), settings.side, std::move(cusparse),
                                          *algorithm);
  } catch (const Error& error) {
    info.missing = error.what();
    return make_missing_peer(std::move(info));
  }
}

}  // namespace spjit::side_by_side
