#pragma once

// What the packed kernels compete with: cuBLAS sgemv, sgemm and bf16 GEMM, cuSPARSE SpMV and SpMM.
// A library that is missing or refuses is left out, with a line that says so.

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "dynamic_library.hpp"
#include "probe.cuh"

namespace probe {

using PeerHandle = void*;

constexpr int k_peer_r_32f = 0;
constexpr int k_peer_r_16bf = 14;
constexpr std::size_t k_peer_workspace_bytes = std::size_t{64} << 20;

/// Y [n x m] = X [n x k] W^T, W [m x k], on a stream; each call returns the library's status.
class Blas {
 public:
  explicit Blas(cudaStream_t stream) {
    find_library("libcublasLt");
    void* const library = find_library("libcublas");
    ready_ = library != nullptr && find_function(library, "cublasCreate_v2", create_) &&
             find_function(library, "cublasSetStream_v2", set_stream_) &&
             find_function(library, "cublasSetWorkspace_v2", set_workspace_) &&
             find_function(library, "cublasSgemv_v2", sgemv_) &&
             find_function(library, "cublasGemmEx", gemm_) && create_(&handle_) == 0 &&
             set_stream_(handle_, stream) == 0;
    if (!ready_) {
      print_line("{\"probe\": \"packed\", \"left_out\": \"cuBLAS\"}");
      return;
    }
    workspace_ = std::make_unique<DeviceArray<char>>(k_peer_workspace_bytes);
    ready_ = set_workspace_(handle_, workspace_->get(), k_peer_workspace_bytes) == 0;
  }

  bool ready() const { return ready_; }

  int sgemv(const float* w, const float* x, float* y, int m, int k) const {
    return sgemv_(handle_, 1, k, m, &one_, w, k, x, 1, &zero_, y, 1);
  }
  int gemm(const void* w, const void* x, float* y, int m, int k, int n, bool bf16) const {
    const int type = bf16 ? k_peer_r_16bf : k_peer_r_32f;
    return gemm_(handle_, 1, 0, m, n, k, &one_, w, type, k, x, type, k, &zero_, y, k_peer_r_32f, m,
                 k_compute_32f, -1);
  }

 private:
  static constexpr int k_compute_32f = 68;
  bool ready_ = false;
  float one_ = 1;
  float zero_ = 0;
  PeerHandle handle_ = nullptr;
  std::unique_ptr<DeviceArray<char>> workspace_;
  int (*create_)(PeerHandle*) = nullptr;
  int (*set_stream_)(PeerHandle, cudaStream_t) = nullptr;
  int (*set_workspace_)(PeerHandle, void*, std::size_t) = nullptr;
  int (*sgemv_)(PeerHandle, int, int, int, const float*, const float*, int, const float*, int,
                const float*, float*, int) = nullptr;
  int (*gemm_)(PeerHandle, int, int, int, int, int, const void*, const void*, int, int, const void*,
               int, int, const void*, void*, int, int, int, int) = nullptr;
};

/// The same with A in CSR. A matrix is described once for each of its copies.
class Sparse {
 public:
  explicit Sparse(cudaStream_t stream) {
    void* const library = find_library("libcusparse");
    ready_ = library != nullptr && find_function(library, "cusparseCreate", create_) &&
             find_function(library, "cusparseSetStream", set_stream_) &&
             find_function(library, "cusparseCreateCsr", create_csr_) &&
             find_function(library, "cusparseCreateDnVec", create_vector_) &&
             find_function(library, "cusparseCreateDnMat", create_dense_) &&
             find_function(library, "cusparseSpMV", spmv_) &&
             find_function(library, "cusparseSpMV_bufferSize", spmv_size_) &&
             find_function(library, "cusparseSpMM", spmm_) &&
             find_function(library, "cusparseSpMM_bufferSize", spmm_size_) &&
             create_(&handle_) == 0 && set_stream_(handle_, stream) == 0;
    if (!ready_) {
      print_line("{\"probe\": \"packed\", \"left_out\": \"cuSPARSE\"}");
      return;
    }
    workspace_ = std::make_unique<DeviceArray<char>>(k_peer_workspace_bytes);
  }

  bool ready() const { return ready_; }

  /// Null if cuSPARSE refuses.
  PeerHandle describe(int m, int k, std::int64_t nnz, void* row_ptrs, void* col_idxs,
                      void* values) const {
    PeerHandle matrix = nullptr;
    const int status = create_csr_(&matrix, m, k, nnz, row_ptrs, col_idxs, values, k_index_32i,
                                   k_index_32i, 0, k_peer_r_32f);
    return status == 0 ? matrix : nullptr;
  }

  /// X [n x k] and Y [n x m] as cuSPARSE sees them: null twice if it refuses.
  std::vector<PeerHandle> describe_vectors(float* x, float* y, int m, int k, int n) const {
    PeerHandle b = nullptr, c = nullptr;
    const bool done = n == 1 ? create_vector_(&b, k, x, k_peer_r_32f) == 0 &&
                                   create_vector_(&c, m, y, k_peer_r_32f) == 0
                             : create_dense_(&b, k, n, k, x, k_peer_r_32f, k_by_columns) == 0 &&
                                   create_dense_(&c, m, n, m, y, k_peer_r_32f, k_by_columns) == 0;
    return done ? std::vector<PeerHandle>{b, c} : std::vector<PeerHandle>{nullptr, nullptr};
  }

  /// 0, or cuSPARSE's status.
  int multiply(PeerHandle matrix, const std::vector<PeerHandle>& vectors, int n) const {
    if (n == 1) {
      return spmv_(handle_, 0, &one_, matrix, vectors[0], &zero_, vectors[1], k_peer_r_32f, 0,
                   workspace_->get());
    }
    return spmm_(handle_, 0, 0, &one_, matrix, vectors[0], &zero_, vectors[1], k_peer_r_32f, 0,
                 workspace_->get());
  }

  /// Whether cuSPARSE takes the sizes with this workspace.
  bool fits(PeerHandle matrix, const std::vector<PeerHandle>& vectors, int n) const {
    if (matrix == nullptr || vectors[0] == nullptr) return false;
    std::size_t size = 0;
    const int status = n == 1 ? spmv_size_(handle_, 0, &one_, matrix, vectors[0], &zero_,
                                           vectors[1], k_peer_r_32f, 0, &size)
                              : spmm_size_(handle_, 0, 0, &one_, matrix, vectors[0], &zero_,
                                           vectors[1], k_peer_r_32f, 0, &size);
    return status == 0 && size <= k_peer_workspace_bytes;
  }

 private:
  static constexpr int k_index_32i = 2;
  static constexpr int k_by_columns = 1;
  bool ready_ = false;
  float one_ = 1;
  float zero_ = 0;
  PeerHandle handle_ = nullptr;
  std::unique_ptr<DeviceArray<char>> workspace_;
  int (*create_)(PeerHandle*) = nullptr;
  int (*set_stream_)(PeerHandle, cudaStream_t) = nullptr;
  int (*create_csr_)(PeerHandle*, std::int64_t, std::int64_t, std::int64_t, void*, void*, void*,
                     int, int, int, int) = nullptr;
  int (*create_vector_)(PeerHandle*, std::int64_t, void*, int) = nullptr;
  int (*create_dense_)(PeerHandle*, std::int64_t, std::int64_t, std::int64_t, void*, int,
                       int) = nullptr;
  int (*spmv_)(PeerHandle, int, const void*, PeerHandle, PeerHandle, const void*, PeerHandle, int,
               int, void*) = nullptr;
  int (*spmv_size_)(PeerHandle, int, const void*, PeerHandle, PeerHandle, const void*, PeerHandle,
                    int, int, std::size_t*) = nullptr;
  int (*spmm_)(PeerHandle, int, int, const void*, PeerHandle, PeerHandle, const void*, PeerHandle,
               int, int, void*) = nullptr;
  int (*spmm_size_)(PeerHandle, int, int, const void*, PeerHandle, PeerHandle, const void*,
                    PeerHandle, int, int, std::size_t*) = nullptr;
};

}  // namespace probe
