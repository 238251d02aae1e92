/// @file
/// cuBLAS on A with its zeros, in fp32, TF32 and bf16. Declared by its header, loaded at run time.

#include <cublas_v2.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

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

/// One way to call it.
struct Form {
  const char* name;
  const char* arithmetic;
  double rounding;
  bool is_tf32;
  bool is_tokens_major;  ///< B and C, as networks have them
  bool is_bf16;          ///< A, B and C
};

constexpr Form k_forms[] = {
    {"cublas", "fp32", 1, false, false, false},
    {"cublas-tf32", "TF32", k_tf32_rounding, true, false, false},
    {"cublas-tokens", "fp32, tokens-major", 1, false, true, false},
    {"cublas-bf16", "bf16, tokens-major", k_bf16_rounding, false, true, true},
};

/// cublasGemmEx, which its header overloads.
using GemmEx = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                              const void*, const void*, cudaDataType, int, const void*,
                              cudaDataType, int, const void*, void*, cudaDataType, int,
                              cublasComputeType_t, cublasGemmAlgo_t);

/// The library with a handle on the device.
class Cublas {
 public:
  Cublas(CudaContext context, DynamicLibrary library, const Form& form)
      : context_(std::move(context)),
        library_(std::move(library)),
        form_(form),
        sgemm_(library_.require<decltype(cublasSgemm_v2)>("cublasSgemm_v2")),
        sgemv_(library_.require<decltype(cublasSgemv_v2)>("cublasSgemv_v2")),
        gemm_ex_(library_.require<GemmEx>("cublasGemmEx")),
        set_stream_(library_.require<decltype(cublasSetStream_v2)>("cublasSetStream_v2")),
        set_workspace_(library_.require<decltype(cublasSetWorkspace_v2)>("cublasSetWorkspace_v2")),
        destroy_(library_.require<decltype(cublasDestroy_v2)>("cublasDestroy_v2")),
        workspace_(context_, k_workspace_bytes) {
    const CurrentCudaContext current(context_);
    check("cublasCreate", library_.require<decltype(cublasCreate_v2)>("cublasCreate_v2")(&handle_));
    const auto mode = form.is_tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH;
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

  [[nodiscard]] const Form& form() const noexcept { return form_; }

  /// Its matrices are column-major: what is row-major here is transposed there. Types are the
  /// form's.
  void multiply(const DenseSizes& sizes, const void* a, const void* b, void* c, void* stream) {
    const CurrentCudaContext current(context_);
    check("cublasSetStream", set_stream_(handle_, static_cast<cudaStream_t>(stream)));
    // Setting the stream takes it back; without one, what is recorded would allocate.
    check("cublasSetWorkspace", set_workspace_(handle_, workspace_.pointer(), k_workspace_bytes));
    if (form_.is_bf16) {
      multiply_bf16(sizes, a, b, c);
    } else {
      multiply_fp32(sizes, static_cast<const float*>(a), static_cast<const float*>(b),
                    static_cast<float*>(c));
    }
  }

 private:
  static constexpr float k_one = 1;
  static constexpr float k_zero = 0;

  void multiply_fp32(const DenseSizes& sizes, const float* a, const float* b, float* c) {
    const auto [m, k, n] = sizes;
    if (n == 1 && !form_.is_tf32) {
      check("cublasSgemv", sgemv_(handle_, CUBLAS_OP_T, k, m, &k_one, a, k, b, 1, &k_zero, c, 1));
    } else if (form_.is_tokens_major) {  // C [n x m] = B [n x k] A^T
      check("cublasSgemm",
            sgemm_(handle_, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &k_one, a, k, b, k, &k_zero, c, m));
    } else {  // C^T = B^T A^T
      check("cublasSgemm",
            sgemm_(handle_, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &k_one, b, n, a, k, &k_zero, c, n));
    }
  }

  void multiply_bf16(const DenseSizes& sizes, const void* a, const void* b, void* c) {
    const auto [m, k, n] = sizes;
    check("cublasGemmEx", gemm_ex_(handle_, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &k_one, a,
                                   CUDA_R_16BF, k, b, CUDA_R_16BF, k, &k_zero, c, CUDA_R_16BF, m,
                                   CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  }

  CudaContext context_;
  DynamicLibrary library_;
  Form form_;
  decltype(cublasSgemm_v2)* sgemm_;
  decltype(cublasSgemv_v2)* sgemv_;
  GemmEx* gemm_ex_;
  decltype(cublasSetStream_v2)* set_stream_;
  decltype(cublasSetWorkspace_v2)* set_workspace_;
  decltype(cublasDestroy_v2)* destroy_;
  DeviceBuffer workspace_;
  cublasHandle_t handle_ = nullptr;
};

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return 0x7FC0;  // NaN
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

/// On the device, in the form's type.
DeviceBuffer upload_as(const Form& form, const CudaContext& context,
                       const std::vector<float>& values) {
  if (!form.is_bf16) return to_device(context, values);
  std::vector<std::uint16_t> rounded(values.size());
  std::ranges::transform(values, rounded.begin(), to_bf16);
  return to_device(context, rounded);
}

/// [cols x rows] of [rows x cols].
std::vector<float> transposed(const float* from, std::int64_t rows, std::int64_t cols) {
  std::vector<float> to(static_cast<std::size_t>(rows * cols));
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t col = 0; col < cols; ++col) {
      to[static_cast<std::size_t>(col * rows + row)] = from[row * cols + col];
    }
  }
  return to;
}

std::vector<float> dense_of(const Problem& problem) {
  const float* const dense = require_dense(problem);
  return {dense, dense + problem.matrix->rows * problem.matrix->cols};
}

/// Of row-major operands in fp32, as they lie on the device.
class CublasWork : public DeviceWork {
 public:
  CublasWork(std::shared_ptr<Cublas> library, const CudaContext& context, const Problem& problem)
      : library_(std::move(library)),
        sizes_{to_int(problem.matrix->rows), to_int(problem.matrix->cols), to_int(problem.n)},
        a_(upload_as(library_->form(), context, dense_of(problem))) {}

  void enqueue(const float* b, float* c, void* stream) override { multiply(b, c, stream); }
  [[nodiscard]] std::int64_t a_bytes() const override {
    return static_cast<std::int64_t>(a_.bytes());
  }

 protected:
  void multiply(const void* b, void* c, void* stream) {
    library_->multiply(sizes_, a_.pointer(), b, c, stream);
  }
  [[nodiscard]] const DenseSizes& sizes() const noexcept { return sizes_; }
  [[nodiscard]] const Form& form() const noexcept { return library_->form(); }

 private:
  std::shared_ptr<Cublas> library_;
  DenseSizes sizes_;
  DeviceBuffer a_;
};

/// Of operands of its own, tokens-major and in the form's type.
class CublasTokensWork final : public CublasWork {
 public:
  CublasTokensWork(const std::shared_ptr<Cublas>& library, const CudaContext& context,
                   const Problem& problem)
      : CublasWork(library, context, problem),
        b_(upload_as(form(), context, transposed(problem.b, problem.matrix->cols, problem.n))),
        c_(upload_as(form(), context, unwritten(problem))) {}

  void enqueue(const float* /*b*/, float* /*c*/, void* stream) override {
    multiply(b_.pointer(), c_.pointer(), stream);
  }

  void finish(DeviceBuffer& c) override {
    std::vector<float> tokens(c.bytes() / sizeof(float));
    if (form().is_bf16) {
      std::vector<std::uint16_t> rounded(tokens.size());
      c_.download(std::as_writable_bytes(std::span(rounded)));
      std::ranges::transform(rounded, tokens.begin(), from_bf16);
    } else {
      c_.download(std::as_writable_bytes(std::span(tokens)));
    }
    const std::vector<float> rows = transposed(tokens.data(), sizes().n, sizes().m);
    c.upload(std::as_bytes(std::span(rows)));
  }

 private:
  static std::vector<float> unwritten(const Problem& problem) {
    return std::vector<float>(static_cast<std::size_t>(problem.matrix->rows * problem.n),
                              std::numeric_limits<float>::quiet_NaN());
  }

  DeviceBuffer b_;
  DeviceBuffer c_;
};

class CublasPeer final : public CudaPeer {
 public:
  CublasPeer(PeerInfo info, std::shared_ptr<DeviceSide> side, std::shared_ptr<Cublas> library)
      : CudaPeer(std::move(info), std::move(side)), library_(std::move(library)) {}

  WorkMaker maker(const Problem& problem) override {
    return [this, &problem](const DeviceBuffer& /*b*/,
                            const DeviceBuffer& /*c*/) -> std::unique_ptr<DeviceWork> {
      if (library_->form().is_tokens_major) {
        return std::make_unique<CublasTokensWork>(library_, side().context(), problem);
      }
      return std::make_unique<CublasWork>(library_, side().context(), problem);
    };
  }

 private:
  std::shared_ptr<Cublas> library_;
};

}  // namespace

std::unique_ptr<Peer> make_cublas_peer(const CudaPeerSettings& settings, const std::string& name) {
  const auto* const form = std::ranges::find(k_forms, name, &Form::name);
  if (form == std::end(k_forms)) throw InvalidArgument("no peer " + name);
  PeerInfo info{name, "", "dense"};
  const std::string file = fmt::format("libcublas.so.{}", CUBLAS_VER_MAJOR);
  auto library = open_toolkit_library(file);
  if (!library) {
    info.missing = file + " cannot be loaded; set CUDA_HOME to a CUDA toolkit that has it";
    return make_missing_peer(std::move(info));
  }
  try {
    auto cublas = std::make_shared<Cublas>(settings.side->context(), *std::move(library), *form);
    info.version = fmt::format("{}, {}", cublas->version(), form->arithmetic);
    info.rounding = form->rounding;
    return std::make_unique<CublasPeer>(std::move(info), settings.side, std::move(cublas));
  } catch (const Error& error) {
    info.missing = error.what();
    return make_missing_peer(std::move(info));
  }
}

}  // namespace spjit::side_by_side
