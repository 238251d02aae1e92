// cublas_probe: does cuBLAS give the bits of a plain chain of mma.sync m16n8k16 from +0 over
// ascending k, and the same bits for each n. Y = W X with W [m x k], X [k x n] kept by columns, as
// a linear layer has them (cublas: W transposed, X not), and W kept by columns (neither
// transposed).
//
// libcublas.so and libcublasLt.so are opened at run time; LD_LIBRARY_PATH says where they are.

#include <cmath>
#include <cstdint>
#include <cstring>

#include "dynamic_library.hpp"
#include "mma_fragments.cuh"
#include "mma_inputs.hpp"
#include "probe.cuh"

namespace {

using namespace probe;

constexpr int k_cuda_r_32f = 0;
constexpr int k_cuda_r_16f = 2;
constexpr int k_cuda_r_16bf = 14;
constexpr int k_compute_32f = 68;

/// What is used of cublas.h and cublasLt.h.
struct Algorithm {
  std::uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  std::size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};
using Handle = void*;

struct Cublas {
  void* library = nullptr;
  void* lt_library = nullptr;
  int (*create)(Handle*);
  int (*get_version)(Handle, int*);
  int (*gemm)(Handle, int, int, int, int, int, const void*, const void*, int, int, const void*, int,
              int, const void*, void*, int, int, int, int);
  int (*lt_create)(Handle*);
  int (*lt_desc_create)(Handle*, int, int);
  int (*lt_desc_set)(Handle, int, const void*, std::size_t);
  int (*lt_layout_create)(Handle*, int, std::uint64_t, std::uint64_t, std::int64_t);
  int (*lt_preference_create)(Handle*);
  int (*lt_preference_set)(Handle, int, const void*, std::size_t);
  int (*lt_heuristic)(Handle, Handle, Handle, Handle, Handle, Handle, Handle, int, Heuristic*,
                      int*);
  int (*lt_matmul)(Handle, Handle, const void*, const void*, Handle, const void*, Handle,
                   const void*, const void*, Handle, void*, Handle, const Algorithm*, void*,
                   std::size_t, void*);
  int (*lt_algorithm_get)(const Algorithm*, int, void*, std::size_t, std::size_t*);
};

void* open_library(const char* stem) {
  void* const library = find_library(stem);
  if (library != nullptr) return library;
  print_line("{\"error\": \"%s is not found; name its folder in LD_LIBRARY_PATH\"}", stem);
  std::exit(1);
}

template <typename Function>
void load(void* library, const char* name, Function& function) {
  if (find_function(library, name, function)) return;
  print_line("{\"error\": \"cuBLAS has no %s\"}", name);
  std::exit(1);
}

Cublas open_cublas() {
  Cublas blas{};
  blas.lt_library = open_library("libcublasLt");
  blas.library = open_library("libcublas");
  load(blas.library, "cublasCreate_v2", blas.create);
  load(blas.library, "cublasGetVersion_v2", blas.get_version);
  load(blas.library, "cublasGemmEx", blas.gemm);
  load(blas.lt_library, "cublasLtCreate", blas.lt_create);
  load(blas.lt_library, "cublasLtMatmulDescCreate", blas.lt_desc_create);
  load(blas.lt_library, "cublasLtMatmulDescSetAttribute", blas.lt_desc_set);
  load(blas.lt_library, "cublasLtMatrixLayoutCreate", blas.lt_layout_create);
  load(blas.lt_library, "cublasLtMatmulPreferenceCreate", blas.lt_preference_create);
  load(blas.lt_library, "cublasLtMatmulPreferenceSetAttribute", blas.lt_preference_set);
  load(blas.lt_library, "cublasLtMatmulAlgoGetHeuristic", blas.lt_heuristic);
  load(blas.lt_library, "cublasLtMatmul", blas.lt_matmul);
  load(blas.lt_library, "cublasLtMatmulAlgoConfigGetAttribute", blas.lt_algorithm_get);
  return blas;
}

#define BLAS_CHECK(call) check_blas((call), #call, __LINE__)

void check_blas(int status, const char* call, int line) {
  if (status == 0) return;
  print_line("{\"error\": \"cuBLAS status %d\", \"call\": \"%.60s\", \"line\": %d}", status, call,
             line);
  std::exit(1);
}

/// About normal, mean 0, variance 1.
__host__ __device__ float draw(std::uint64_t seed, std::uint64_t index) {
  Bits bits{mix(seed << 40 ^ index)};
  int sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<int>(bits.take(12));
  return (static_cast<float>(sum) - 8190.0f) / 2365.0f;
}

__host__ __device__ std::uint16_t to_16_bits(float value, bool bf16) {
#ifdef __CUDA_ARCH__
  std::uint32_t bits = __float_as_uint(value);
#else
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
#endif
  if (bf16) return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  // To f16 by truncation: the values are between 2^-11 and 4, or 0.
  const int exponent = static_cast<int>(bits >> 23 & 255) - 127;
  if (exponent < -14) return 0;
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000) |
                                    static_cast<std::uint32_t>(exponent + 15) << 10 |
                                    (bits >> 13 & 0x3ff));
}

double from_16_bits(std::uint16_t bits, bool bf16) {
  if (bf16) {
    const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof(value));
    return value;
  }
  const int field = bits >> 10 & 31;
  const double magnitude =
      field == 0 ? std::ldexp(bits & 0x3ff, -24) : std::ldexp(1024 + (bits & 0x3ff), field - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

/// [rows x columns], a row after the other; `transposed` holds the same values by columns.
__global__ void fill_kernel(std::uint16_t* values, int rows, int columns, std::uint64_t seed,
                            bool bf16, bool transposed) {
  const std::int64_t size = static_cast<std::int64_t>(rows) * columns;
  for (std::int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < size;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    const std::int64_t at = transposed ? i % columns * rows + i / columns : i;
    values[at] = to_16_bits(draw(seed, static_cast<std::uint64_t>(i)), bf16);
  }
}

/// y [n x m] = x [n x k] times w [m x k] transposed: a warp a tile of 16 rows of w and 8 of x.
template <bool k_bf16>
__global__ void chain_kernel(const std::uint16_t* w, const std::uint16_t* x, float* y, int m, int k,
                             int n) {
  const int group = threadIdx.x / 4;
  const int t = threadIdx.x % 4;
  const int row = blockIdx.x * 16 + group;
  const int column = blockIdx.y * 8 + group;
  const auto load = [&](const std::uint16_t* matrix, int line, int at, bool inside) {
    if (!inside) return 0u;
    return *reinterpret_cast<const std::uint32_t*>(matrix + static_cast<std::int64_t>(line) * k +
                                                   at);
  };
  Accumulator d{};
  for (int begin = 0; begin < k; begin += 16) {
    const int at = begin + 2 * t;
    const std::uint32_t a[4] = {load(w, row, at, true), load(w, row + 8, at, true),
                                load(w, row, at + 8, true), load(w, row + 8, at + 8, true)};
    const std::uint32_t b[2] = {load(x, column, at, column < n),
                                load(x, column, at + 8, column < n)};
    if constexpr (k_bf16) {
      mma_bf16_k16(d, a, b);
    } else {
      mma_f16_k16(d, a, b);
    }
  }
  for (int i = 0; i < 4; ++i) {
    const int out_column = blockIdx.y * 8 + 2 * t + i % 2;
    if (out_column < n) {
      y[static_cast<std::int64_t>(out_column) * m + row + i / 2 * 8] = d.value[i];
    }
  }
}

struct Layer {
  int m;
  int k;
};

constexpr int k_max_n = 256;
constexpr std::size_t k_workspace_bytes = 32 << 20;

std::size_t count_different(const std::vector<float>& a, const std::vector<float>& b,
                            std::size_t count) {
  std::size_t different = 0;
  for (std::size_t i = 0; i < count; ++i) different += std::memcmp(&a[i], &b[i], 4) != 0;
  return different;
}

/// One layer and type: the chain, cuBLAS's default, and the algorithms that cublasLt proposes.
class LayerProbe {
 public:
  LayerProbe(const Cublas& blas, Layer layer, bool bf16)
      : blas_(blas),
        layer_(layer),
        bf16_(bf16),
        w_(static_cast<std::size_t>(layer.m) * layer.k),
        w_by_columns_(static_cast<std::size_t>(layer.m) * layer.k),
        x_(static_cast<std::size_t>(k_max_n) * layer.k),
        y_(static_cast<std::size_t>(k_max_n) * layer.m),
        workspace_(k_workspace_bytes) {
    fill_kernel<<<512, 256>>>(w_.get(), layer.m, layer.k, 1, bf16, false);
    fill_kernel<<<512, 256>>>(w_by_columns_.get(), layer.m, layer.k, 1, bf16, true);
    fill_kernel<<<512, 256>>>(x_.get(), k_max_n, layer.k, 2, bf16, false);
    PROBE_CHECK(cudaDeviceSynchronize());
    BLAS_CHECK(blas_.create(&handle_));
    BLAS_CHECK(blas_.lt_create(&lt_handle_));
  }

  void run() {
    chain_ = run_chain(k_max_n);
    report_chain();
    for (const bool by_columns : {false, true}) {
      default_at_max_n_ = run_default(by_columns, k_max_n, -1);
      if (default_at_max_n_.empty()) {
        print_line("{\"error\": \"cublasGemmEx refuses\", %s}", name().c_str());
        return;
      }
      for (int n : {1, 8, 16, 64, 256}) {
        report(by_columns, n, "\"algorithm\": \"default\"", run_default(by_columns, n, -1));
        for (int algorithm = 99; algorithm < 116; algorithm += algorithm == 99 ? 1 : 5) {
          char what[64];
          std::snprintf(what, sizeof(what), "\"algorithm\": \"gemm_ex_%d\"", algorithm);
          report(by_columns, n, what, run_default(by_columns, n, algorithm));
        }
        run_proposals(by_columns, n);
      }
    }
  }

 private:
  std::vector<float> run_chain(int n) {
    y_.poison();
    const dim3 grid(static_cast<unsigned>(layer_.m / 16), static_cast<unsigned>((n + 7) / 8));
    if (bf16_) {
      chain_kernel<true><<<grid, 32>>>(w_.get(), x_.get(), y_.get(), layer_.m, layer_.k, n);
    } else {
      chain_kernel<false><<<grid, 32>>>(w_.get(), x_.get(), y_.get(), layer_.m, layer_.k, n);
    }
    PROBE_CHECK(cudaGetLastError());
    PROBE_CHECK(cudaDeviceSynchronize());
    return y_.download();
  }

  /// The chain against float64 in some outputs, and against itself at n = 1.
  void report_chain() {
    const std::vector<std::uint16_t> w = w_.download();
    const std::vector<std::uint16_t> x = x_.download();
    int far = 0;
    int checked = 0;
    double worst = 0;
    for (int i = 0; i < 4096; ++i) {
      const int row = static_cast<int>(mix(i) % static_cast<std::uint64_t>(layer_.m));
      const int column = i % k_max_n;
      double sum = 0;
      double magnitudes = 0;
      for (int p = 0; p < layer_.k; ++p) {
        const double product =
            from_16_bits(w[static_cast<std::size_t>(row) * layer_.k + p], bf16_) *
            from_16_bits(x[static_cast<std::size_t>(column) * layer_.k + p], bf16_);
        sum += product;
        magnitudes += std::abs(product);
      }
      const double error =
          std::abs(chain_[static_cast<std::size_t>(column) * layer_.m + row] - sum) / magnitudes;
      worst = std::max(worst, error);
      far += !(error <= layer_.k / 16 * 17 * std::ldexp(1.0, -23));
      ++checked;
    }
    const std::vector<float> one = run_chain(1);
    print_line(
        "{\"probe\": \"cublas\", %s, \"chain\": true, \"checked_in_float64\": %d, "
        "\"far_from_float64\": %d, \"worst_error_over_sum_of_magnitudes\": %.3g, "
        "\"different_at_n_1\": %zu}",
        name().c_str(), checked, far, worst, count_different(one, chain_, layer_.m));
  }

  /// cublasGemmEx; empty if it refuses the algorithm.
  std::vector<float> run_default(bool by_columns, int n, int algorithm) {
    y_.poison();
    const float one = 1;
    const float zero = 0;
    const int type = bf16_ ? k_cuda_r_16bf : k_cuda_r_16f;
    const int status = blas_.gemm(handle_, by_columns ? 0 : 1, 0, layer_.m, n, layer_.k, &one,
                                  by_columns ? w_by_columns_.get() : w_.get(), type,
                                  by_columns ? layer_.m : layer_.k, x_.get(), type, layer_.k, &zero,
                                  y_.get(), k_cuda_r_32f, layer_.m, k_compute_32f, algorithm);
    if (status != 0) return {};
    PROBE_CHECK(cudaDeviceSynchronize());
    return y_.download();
  }

  void run_proposals(bool by_columns, int n) {
    const int type = bf16_ ? k_cuda_r_16bf : k_cuda_r_16f;
    const int transposed = by_columns ? 0 : 1;
    const auto k = static_cast<std::uint64_t>(layer_.k);
    const auto m = static_cast<std::uint64_t>(layer_.m);
    Handle description, w, x, y, preference;
    BLAS_CHECK(blas_.lt_desc_create(&description, k_compute_32f, k_cuda_r_32f));
    BLAS_CHECK(blas_.lt_desc_set(description, 3, &transposed, sizeof(transposed)));
    BLAS_CHECK(blas_.lt_layout_create(&w, type, by_columns ? m : k, by_columns ? k : m,
                                      by_columns ? layer_.m : layer_.k));
    BLAS_CHECK(blas_.lt_layout_create(&x, type, k, static_cast<std::uint64_t>(n), layer_.k));
    BLAS_CHECK(
        blas_.lt_layout_create(&y, k_cuda_r_32f, m, static_cast<std::uint64_t>(n), layer_.m));
    BLAS_CHECK(blas_.lt_preference_create(&preference));
    const std::size_t workspace = k_workspace_bytes;
    BLAS_CHECK(blas_.lt_preference_set(preference, 1, &workspace, sizeof(workspace)));
    Heuristic proposals[12];
    int count = 0;
    if (blas_.lt_heuristic(lt_handle_, description, w, x, y, y, preference, 12, proposals,
                           &count) != 0) {
      count = 0;
    }
    for (int i = 0; i < count; ++i) {
      const float one = 1;
      const float zero = 0;
      y_.poison();
      if (blas_.lt_matmul(lt_handle_, description, &one,
                          by_columns ? w_by_columns_.get() : w_.get(), w, x_.get(), x, &zero,
                          y_.get(), y, y_.get(), y, &proposals[i].algorithm, workspace_.get(),
                          k_workspace_bytes, nullptr) != 0) {
        continue;
      }
      PROBE_CHECK(cudaDeviceSynchronize());
      report(by_columns, n, describe(i, proposals[i].algorithm), y_.download());
    }
  }

  std::string describe(int rank, const Algorithm& algorithm) const {
    const auto get = [&](int attribute) {
      std::uint64_t value = 0;  // of 2 or 4 bytes, little-endian
      std::size_t written = 0;
      const std::size_t size = attribute == 7 || attribute == 8 ? 2 : 4;
      return blas_.lt_algorithm_get(&algorithm, attribute, &value, size, &written) == 0
                 ? static_cast<int>(value)
                 : -1;
    };
    char text[256];
    std::snprintf(
        text, sizeof(text),
        "\"algorithm\": \"lt_%d\", \"id\": %d, \"tile\": %d, \"stages\": %d, \"split_k\": "
        "%d, \"reduction\": %d, \"inner_shape\": %d, \"cluster\": %d",
        rank, get(0), get(1), get(6), get(2), get(3), get(7), get(8));
    return text;
  }

  void report(bool by_columns, int n, const std::string& what, const std::vector<float>& y) const {
    if (y.empty()) {
      print_line("{\"probe\": \"cublas\", %s, \"n\": %d, %s, \"refused\": true}", name().c_str(), n,
                 what.c_str());
      return;
    }
    const std::size_t outputs = static_cast<std::size_t>(n) * layer_.m;
    print_line(
        "{\"probe\": \"cublas\", %s, \"w_by_columns\": %s, \"n\": %d, %s, \"outputs\": %zu, "
        "\"different_from_chain\": %zu, \"different_from_n_256\": %zu}",
        name().c_str(), by_columns ? "true" : "false", n, what.c_str(), outputs,
        count_different(y, chain_, outputs), count_different(y, default_at_max_n_, outputs));
  }

  std::string name() const {
    return std::string("\"type\": \"") + (bf16_ ? "bf16" : "f16") +
           "\", \"m\": " + std::to_string(layer_.m) + ", \"k\": " + std::to_string(layer_.k);
  }

  const Cublas& blas_;
  Layer layer_;
  bool bf16_;
  Handle handle_ = nullptr;
  Handle lt_handle_ = nullptr;
  DeviceArray<std::uint16_t> w_;
  DeviceArray<std::uint16_t> w_by_columns_;
  DeviceArray<std::uint16_t> x_;
  DeviceArray<float> y_;
  DeviceArray<char> workspace_;
  std::vector<float> chain_;
  std::vector<float> default_at_max_n_;
};

}  // namespace

int main() {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8", 1);
  open_card("cublas");
  const Cublas blas = open_cublas();
  Handle handle = nullptr;
  BLAS_CHECK(blas.create(&handle));
  int version = 0;
  BLAS_CHECK(blas.get_version(handle, &version));
  print_line("{\"probe\": \"cublas\", \"cublas_version\": %d}", version);
  for (const Layer layer : {Layer{256, 1024}, Layer{4096, 4096}}) {
    for (const bool bf16 : {true, false}) LayerProbe(blas, layer, bf16).run();
  }
  print_line("{\"probe\": \"cublas\", \"done\": true}");
}
