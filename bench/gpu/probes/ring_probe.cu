// ring_probe FOLDER [CASE...]: an unrolled sparse kernel with B through a ring in shared memory, by
// cp.async and by TMA in clusters of 1, 2, 4, 8, beside the same tile with B from global memory.
// FOLDER is what ring_generate.py wrote.

#include <cuda.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>

#include "mma_inputs.hpp"
#include "probe.cuh"

namespace {

using namespace probe;

constexpr int k_ld = 12544;  // of B and C; ring_generate.py has the same
constexpr int k_sizes_n[] = {512, 3136, 12544};
constexpr int k_launches = 20;

struct Matrix {
  int m = 0;
  int k = 0;
  std::vector<int> row_ptrs;
  std::vector<int> columns;
  std::vector<float> values;
};

struct Kernel {
  std::string form;
  int m1 = 0;
  int n1 = 0;
  int stage_columns = 0;
  int shared_bytes = 0;
  std::string path;
};

struct Case {
  std::string name;
  int sparsity = 0;
  Matrix matrix;
  std::vector<Kernel> kernels;
};

[[noreturn]] void fail(const std::string& message) {
  print_line("{\"error\": \"%s\"}", message.c_str());
  std::exit(2);
}

template <typename T>
std::vector<T> read_values(std::ifstream& in, std::size_t count) {
  std::vector<T> values(count);
  in.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(count * sizeof(T)));
  return values;
}

Matrix read_matrix(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::vector<int> sizes = read_values<int>(in, 3);
  if (!in) fail(path + ": cannot be read");
  Matrix matrix{sizes[0], sizes[1], {}, {}, {}};
  matrix.row_ptrs = read_values<int>(in, static_cast<std::size_t>(sizes[0]) + 1);
  matrix.columns = read_values<int>(in, static_cast<std::size_t>(sizes[2]));
  matrix.values = read_values<float>(in, static_cast<std::size_t>(sizes[2]));
  if (!in) fail(path + ": ends early");
  return matrix;
}

std::vector<Case> read_cases(const std::string& folder) {
  std::ifstream in(folder + "/cases.txt");
  std::vector<Case> cases;
  std::string name;
  Kernel kernel;
  int m = 0, k = 0, sparsity = 0;
  while (in >> name >> kernel.form >> m >> k >> sparsity >> kernel.m1 >> kernel.n1 >>
         kernel.stage_columns >> kernel.shared_bytes) {
    if (cases.empty() || cases.back().name != name) {
      cases.push_back({name, sparsity, read_matrix(folder + "/" + name + ".csr"), {}});
    }
    kernel.path = folder + "/" + name + "-" + kernel.form + ".cubin";
    cases.back().kernels.push_back(kernel);
  }
  if (cases.empty()) fail(folder + "/cases.txt: no case; run ring_generate.py first");
  return cases;
}

/// In [-1, 1), of 16 bits.
__host__ __device__ float element_of_b(std::int64_t index) {
  return static_cast<float>(mix(static_cast<std::uint64_t>(index)) >> 48) / 32768.0f - 1.0f;
}

__global__ void fill_kernel(float* b, std::int64_t size) {
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    b[i] = element_of_b(i);
  }
}

__global__ void count_kernel(const float* a, const float* b, int m, int n, int* different) {
  for (int row = blockIdx.x; row < m; row += gridDim.x) {
    for (int column = threadIdx.x; column < n; column += blockDim.x) {
      const std::int64_t at = static_cast<std::int64_t>(row) * k_ld + column;
      if (__float_as_uint(a[at]) != __float_as_uint(b[at])) atomicAdd(different, 1);
    }
  }
}

/// Outputs of 48 columns that are not the ascending fma's, bit for bit.
int count_wrong(const Matrix& matrix, const std::vector<float>& c, int n) {
  int wrong = 0;
  for (int sample = 0; sample < 48; ++sample) {
    const int column = sample < 8    ? sample
                       : sample < 16 ? n - 1 - (sample - 8)
                                     : static_cast<int>(mix(sample) % static_cast<unsigned>(n));
    for (int row = 0; row < matrix.m; ++row) {
      float sum = 0;
      for (int e = matrix.row_ptrs[row]; e < matrix.row_ptrs[row + 1]; ++e) {
        const float b = element_of_b(static_cast<std::int64_t>(matrix.columns[e]) * k_ld + column);
        sum = std::fma(b, matrix.values[e], sum);
      }
      wrong += std::memcmp(&sum, &c[static_cast<std::size_t>(row) * k_ld + column], 4) != 0;
    }
  }
  return wrong;
}

using EncodeMap = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                               const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                               const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                               CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

EncodeMap find_encode_map() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  PROBE_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                               cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess) fail("the driver has no cuTensorMapEncodeTiled");
  EncodeMap encode;
  std::memcpy(&encode, &function, sizeof(encode));
  return encode;
}

class CaseProbe {
 public:
  CaseProbe(const Card& card, EncodeMap encode, const Case& sparse)
      : card_(card),
        encode_(encode),
        case_(sparse),
        b_(static_cast<std::size_t>(sparse.matrix.k) * k_ld),
        c_(static_cast<std::size_t>(sparse.matrix.m) * k_ld),
        c_plain_(static_cast<std::size_t>(sparse.matrix.m) * k_ld),
        counters_(2) {
    fill_kernel<<<1024, 256>>>(b_.get(), static_cast<std::int64_t>(sparse.matrix.k) * k_ld);
    PROBE_CHECK(cudaDeviceSynchronize());
    PROBE_CHECK(cudaStreamCreate(&stream_));
  }

  ~CaseProbe() { cudaStreamDestroy(stream_); }

  void run() {
    for (const Kernel& kernel : case_.kernels) {
      cudaLibrary_t library;
      cudaKernel_t function;
      PROBE_CHECK(cudaLibraryLoadFromFile(&library, kernel.path.c_str(), nullptr, nullptr, 0,
                                          nullptr, nullptr, 0));
      PROBE_CHECK(cudaLibraryGetKernel(&function, library, "ring_kernel"));
      function_ = reinterpret_cast<const void*>(function);
      PROBE_CHECK(cudaFuncSetAttribute(function_, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       kernel.shared_bytes));
      if (kernel.shared_bytes > 0) {
        PROBE_CHECK(
            cudaFuncSetAttribute(function_, cudaFuncAttributePreferredSharedMemoryCarveout, 100));
      }
      for (int cluster : {1, 2, 4, 8}) {
        if (cluster > 1 && kernel.form != "block") break;
        for (int n : k_sizes_n) measure(kernel, cluster, n);
      }
      PROBE_CHECK(cudaLibraryUnload(library));
    }
  }

 private:
  CUtensorMap map_of(const Kernel& kernel, int cluster) const {
    CUtensorMap map{};
    const cuuint64_t sizes[2] = {k_ld, static_cast<cuuint64_t>(case_.matrix.k)};
    const cuuint64_t strides[1] = {k_ld * sizeof(float)};
    const cuuint32_t box[2] = {static_cast<cuuint32_t>(kernel.n1),
                               static_cast<cuuint32_t>(kernel.stage_columns / cluster)};
    const cuuint32_t steps[2] = {1, 1};
    const CUresult status =
        encode_(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, b_.get(), sizes, strides, box, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status != CUDA_SUCCESS) fail("cuTensorMapEncodeTiled: " + std::to_string(status));
    return map;
  }

  void launch(const Kernel& kernel, int cluster, int n, float* c) {
    CUtensorMap map = map_of(kernel, cluster);
    const float* b = b_.get();
    int* gave_up = counters_.get() + 1;
    void* arguments[] = {&b, &c, &gave_up, &n, &map};
    cudaLaunchAttribute attribute;
    const cudaLaunchConfig_t config = configure(kernel, cluster, n, attribute);
    PROBE_CHECK(cudaLaunchKernelExC(&config, function_, arguments));
  }

  cudaLaunchConfig_t configure(const Kernel& kernel, int cluster, int n,
                               cudaLaunchAttribute& attribute) const {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(case_.matrix.m / kernel.m1),
                          static_cast<unsigned>((n + kernel.n1 - 1) / kernel.n1));
    config.blockDim = dim3(static_cast<unsigned>(kernel.n1 + (kernel.form == "block" ? 32 : 0)));
    config.dynamicSmemBytes = static_cast<std::size_t>(kernel.shared_bytes);
    config.stream = stream_;
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = static_cast<unsigned>(cluster);
    attribute.val.clusterDim.y = 1;
    attribute.val.clusterDim.z = 1;
    config.attrs = &attribute;
    config.numAttrs = cluster > 1 ? 1 : 0;
    return config;
  }

  /// Launches of a graph, one after another, into the C that plain does not keep: us a launch.
  double time_us(const Kernel& kernel, int cluster, int n) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    PROBE_CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < k_launches; ++i) launch(kernel, cluster, n, c_.get());
    PROBE_CHECK(cudaStreamEndCapture(stream_, &graph));
    PROBE_CHECK(cudaGraphInstantiate(&executable, graph, 0));
    const double us =
        median_us([&] { PROBE_CHECK(cudaGraphLaunch(executable, stream_)); }, 7, stream_);
    PROBE_CHECK(cudaGraphExecDestroy(executable));
    PROBE_CHECK(cudaGraphDestroy(graph));
    return us / k_launches;
  }

  void measure(const Kernel& kernel, int cluster, int n) {
    const bool plain = kernel.form == "plain";
    float* const c = plain ? c_plain_.get() : c_.get();
    (plain ? c_plain_ : c_).poison();
    PROBE_CHECK(cudaMemset(counters_.get(), 0, 2 * sizeof(int)));
    PROBE_CHECK(cudaDeviceSynchronize());
    launch(kernel, cluster, n, c);
    PROBE_CHECK(cudaStreamSynchronize(stream_));
    const std::string checked = check(kernel, n, c);
    const bool gave_up = counters_.download()[1] != 0;
    const double us = gave_up ? 0 : time_us(kernel, cluster, n);
    if (plain) plain_us_[n] = us;
    report(kernel, cluster, n, us, checked, gave_up);
  }

  /// Plain against the ascending fma on the CPU; the others against plain, whose greatest n came
  /// last and has the columns of the others.
  std::string check(const Kernel& kernel, int n, const float* c) {
    if (kernel.form == "plain") {
      return "\"wrong_in_48_columns\": " +
             std::to_string(count_wrong(case_.matrix, c_plain_.download(), n));
    }
    count_kernel<<<512, 256>>>(c, c_plain_.get(), case_.matrix.m, n, counters_.get());
    PROBE_CHECK(cudaDeviceSynchronize());
    return "\"different_from_plain\": " + std::to_string(counters_.download()[0]);
  }

  void report(const Kernel& kernel, int cluster, int n, double us, const std::string& checked,
              bool gave_up) {
    cudaLaunchAttribute attribute;
    const cudaLaunchConfig_t config = configure(kernel, cluster, n, attribute);
    int blocks_per_sm = 0;
    PROBE_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks_per_sm, function_, static_cast<int>(config.blockDim.x), config.dynamicSmemBytes));
    cudaFuncAttributes attributes;
    PROBE_CHECK(cudaFuncGetAttributes(&attributes, function_));
    const double flops = 2.0 * case_.matrix.values.size() * n;
    print_line(
        "{\"probe\": \"ring\", \"card\": \"%s\", \"m\": %d, \"k\": %d, \"sparsity\": %d, "
        "\"n\": %d, \"m1\": %d, \"n1\": %d, \"form\": \"%s\", \"cluster\": %d, \"time_us\": "
        "%.2f, \"over_plain\": %.3f, \"tflops\": %.2f, %s, \"gave_up\": %s, \"blocks\": %u, "
        "\"blocks_per_sm\": %d, \"registers\": %d, \"shared_bytes\": %d}",
        card_.name.c_str(), case_.matrix.m, case_.matrix.k, case_.sparsity, n, kernel.m1, kernel.n1,
        kernel.form.c_str(), cluster, us, us / plain_us_[n], flops / us / 1e6, checked.c_str(),
        gave_up ? "true" : "false", config.gridDim.x * config.gridDim.y, blocks_per_sm,
        attributes.numRegs, kernel.shared_bytes);
  }

  const Card& card_;
  EncodeMap encode_;
  const Case& case_;
  DeviceArray<float> b_;
  DeviceArray<float> c_;
  DeviceArray<float> c_plain_;
  DeviceArray<int> counters_;  // outputs that differ; whether a wait was given up
  cudaStream_t stream_ = nullptr;
  const void* function_ = nullptr;
  std::map<int, double> plain_us_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) fail("ring_probe: expected the folder that ring_generate.py wrote");
  const Card card = open_card("ring");
  const EncodeMap encode = find_encode_map();
  const std::vector<Case> cases = read_cases(argv[1]);
  for (const Case& sparse : cases) {
    bool wanted = argc == 2;
    for (int i = 2; i < argc; ++i) wanted = wanted || sparse.name == argv[i];
    if (wanted) CaseProbe(card, encode, sparse).run();
  }
  print_line("{\"probe\": \"ring\", \"done\": true}");
}
