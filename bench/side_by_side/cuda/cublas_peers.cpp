/// @file
/// cuBLAS on A with its zeros, in fp32 and in TF32. Declared by its header, loaded at run time.

#include <cublas_v2.h>
#include <fmt/format.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "bench/side_by_side/cuda/cuda_peers.hpp"
#include "bench/side_by_side/cuda/toolkit_library.hpp"
#include "bench/side_by_side/peers.hpp"
#include "spjit/error.hpp"

namespace spjit::side_by_side {
namespace {

/// What NVIDIA recommends for Hopper; else 4 MiB.
constexpr std::size_t k_workspace_bytes = std::size_t{32} << 20;

void check(const char* what, cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw Error(fmt::format("{}: status {}", what, static_cast<int>(status)));
  }
}

struct DenseSizes {
  int m = 0;
  int k = 0;
  int n = 0;
};

/// The library with a handle on the device.
class Cublas {
 public:
  Cublas(CudaContext context, DynamicLibrary library, bool tf32)
      : context_(std::move(context)),
        library_(std::move(library)),
        sgemm_(library_.require<decltype(cublasSgemm_v2)>("cublasSgemm_v2")),
        set_stream_(library_.require<decltype(cublasSetStream_v2)>("cublasSetStream_v2")),
        set_workspace_(library_.require<decltype(cublasSetWorkspace_v2)>("cublasSetWorkspace_v2")),
        destroy_(library_.require<decltype(cublasDestroy_v2)>("cublasDestroy_v2")),
        workspace_(context_, k_workspace_bytes) {
    const CurrentCudaContext current(context_);
    check("cublasCreate", library_.require<decltype(cublasCreate_v2)>("cublasCreate_v2")(&handle_));
    const auto mode = tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH;
    check("cublasSetMathMode",
          library_.require<decltype(cublasSetMathMode)>("cublasSetMathMode")(handle_, mode));
  }
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;
  ~Cublas() {
    context_.release([&](const CudaApi& /*api*/) { return destroy_(handle_); });
  }

  [[nodiscard]] std::string version() const {
    int version = 0;
    check("cublasGetVersion", library_.require<decltype(cublasGetVersion_v2)>(
                                  "cublasGetVersion_v2")(handle_, &version));
    return fmt::format("cuBLAS {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  }

  /// Its matrices are column-major: C^T = B^T A^T, which row-major C, B and A are.
  void multiply(const DenseSizes& sizes, const float* a, const float* b, float* c, void* stream) {
    const CurrentCudaContext current(context_);
    constexpr float k_one = 1;
    constexpr float k_zero = 0;
    check("cublasSetStream", set_stream_(handle_, static_cast<cudaStream_t>(stream)));
    // Setting the stream takes it back; without one, what is recorded would allocate.
    check("cublasSetWorkspace", set_workspace_(handle_, workspace_.pointer(), k_workspace_bytes));
    check("cublasSgemm", sgemm_(handle_, CUBLAS_OP_N, CUBLAS_OP_N, sizes.n, sizes.m, sizes.k,
                                &k_one, b, sizes.n, a, sizes.k, &k_zero, c, sizes.n));
  }

 private:
  CudaContext context_;
  DynamicLibrary library_;
  decltype(cublasSgemm_v2)* sgemm_;
  decltype(cublasSetStream_v2)* set_stream_;
  decltype(cublasSetWorkspace_v2)* set_workspace_;
  decltype(cublasDestroy_v2)* destroy_;
  DeviceBuffer workspace_;
  cublasHandle_t handle_ = nullptr;
};

class CublasWork final : public DeviceWork {
 public:
  CublasWork(std::shared_ptr<Cublas> library, const CudaContext& context, const Problem& problem)
      : library_(std::move(library)),
        sizes_{to_int(problem.matrix->rows), to_int(problem.matrix->cols), to_int(problem.n)},
        a_(context, static_cast<std::size_t>(sizes_.m) * static_cast<std::size_t>(sizes_.k) *
                        sizeof(float)) {
    a_.upload(std::as_bytes(std::span(require_dense(problem), a_.bytes() / sizeof(float))));
  }

  void enqueue(const float* b, float* c, void* stream) override {
    library_->multiply(sizes_, static_cast<const float*>(a_.pointer()), b, c, stream);
  }

 private:
  std::shared_ptr<Cublas> library_;
  DenseSizes sizes_;
  DeviceBuffer a_;
};

class CublasPeer final : public Peer {
 public:
  CublasPeer(PeerInfo info, std::shared_ptr<DeviceSide> side, std::shared_ptr<Cublas> library)
      : Peer(std::move(info)), side_(std::move(side)), library_(std::move(library)) {}

  std::unique_ptr<Runnable> prepare(const Problem& problem) override {
    return std::make_unique<DeviceRunnable>(
        side_, problem, std::make_unique<CublasWork>(library_, side_->context(), problem));
  }

 private:
  std::shared_ptr<DeviceSide> side_;
  std::shared_ptr<Cublas> library_;
};

}  // namespace

std::unique_ptr<Peer> make_cublas_peer(const CudaPeerSettings& settings, bool tf32) {
  PeerInfo info{tf32 ? "cublas-tf32" : "cublas", "", "dense"};
  const std::string file = fmt::format("libcublas.so.{}", CUBLAS_VER_MAJOR);
  auto library = open_toolkit_library(file);
  if (!library) {
    info.missing = file + " cannot be loaded; set CUDA_HOME to a CUDA toolkit that has it";
    return make_missing_peer(std::move(info));
  }
  try {
    auto cublas = std::make_shared<Cublas>(settings.side->context(), *std::move(library), tf32);
    info.version = cublas->version() + (tf32 ? ", TF32" : ", fp32");
    if (tf32) info.rounding = k_tf32_rounding;
    return std::make_unique<CublasPeer>(std::move(info), settings.side, std::move(cublas));
  } catch (const Error& error) {
    info.missing = error.what();
    return make_missing_peer(std::move(info));
  }
}

}  // namespace spjit::side_by_side
