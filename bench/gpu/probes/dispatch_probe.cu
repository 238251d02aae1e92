// dispatch_probe FOLDER [--limit SECONDS] | --self-test: a sparse kernel that reads A as data and
// jumps by the mask of a few rows, beside kernels that skip zeros otherwise and cuBLAS sgemm.
// FOLDER is what dispatch_generate.py wrote. --self-test checks records on the CPU, without a GPU.

#include <chrono>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <utility>

#include "dispatch_matrix.hpp"
#include "dynamic_library.hpp"
#include "probe.cuh"

namespace {

using namespace probe;

constexpr int k_stage_columns = 16;  // dispatch_generate.py has the same

struct Kernel {
  std::string name;
  std::string form;
  int rows = 0;     // of a warp
  int columns = 0;  // of a lane
  int group = 0;
  int warps = 0;
  std::string copy;
  std::string records;
  int shared_bytes = 0;
  const void* function = nullptr;

  int n1() const { return 32 * columns; }
};

[[noreturn]] void fail(const std::string& message) {
  print_line("{\"error\": \"%s\"}", message.c_str());
  std::exit(2);
}

std::vector<Kernel> read_kernels(const std::string& folder) {
  std::ifstream in(folder + "/kernels.txt");
  std::vector<Kernel> kernels;
  Kernel kernel;
  while (in >> kernel.name >> kernel.form >> kernel.rows >> kernel.columns >> kernel.group >>
         kernel.warps >> kernel.copy >> kernel.records >> kernel.shared_bytes) {
    kernels.push_back(kernel);
  }
  if (kernels.empty()) fail(folder + "/kernels.txt: no kernel; run dispatch_generate.py first");
  return kernels;
}

void load(const std::string& folder, Kernel& kernel) {
  cudaLibrary_t library;
  cudaKernel_t function;
  const std::string path = folder + "/" + kernel.name + ".cubin";
  PROBE_CHECK(
      cudaLibraryLoadFromFile(&library, path.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  PROBE_CHECK(cudaLibraryGetKernel(&function, library, "dispatch_kernel"));
  kernel.function = reinterpret_cast<const void*>(function);
  PROBE_CHECK(cudaFuncSetAttribute(kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   kernel.shared_bytes));
  PROBE_CHECK(
      cudaFuncSetAttribute(kernel.function, cudaFuncAttributePreferredSharedMemoryCarveout, 100));
}

/// cuBLAS's sgemm; without the library `handle` is null.
struct Sgemm {
  void* handle = nullptr;
  int (*gemm)(void*, int, int, int, int, int, const float*, const float*, int, const float*, int,
              const float*, float*, int) = nullptr;
};

Sgemm open_sgemm() {
  Sgemm sgemm;
  int (*create)(void**) = nullptr;
  find_library("libcublasLt");
  void* const library = find_library("libcublas");
  if (library == nullptr || !find_function(library, "cublasCreate_v2", create) ||
      !find_function(library, "cublasSgemm_v2", sgemm.gemm) || create(&sgemm.handle) != 0) {
    print_line("{\"error\": \"cuBLAS is not found; name its folder in LD_LIBRARY_PATH\"}");
    sgemm.handle = nullptr;
  }
  return sgemm;
}

__global__ void fill_kernel(float* b, int k, int n) {
  for (int row = blockIdx.x; row < k; row += gridDim.x) {
    for (int column = threadIdx.x; column < n; column += blockDim.x) {
      b[static_cast<std::int64_t>(row) * n + column] = element_of_b(row, column);
    }
  }
}

/// C by ascending fma: a thread an element.
__global__ void reference_kernel(const int* row_ptrs, const int* columns, const float* values,
                                 const float* b, float* c, int n) {
  const int row = blockIdx.y;
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= n) return;
  float sum = 0;
  for (int e = row_ptrs[row]; e < row_ptrs[row + 1]; ++e) {
    sum = fmaf(values[e], b[static_cast<std::int64_t>(columns[e]) * n + column], sum);
  }
  c[static_cast<std::int64_t>(row) * n + column] = sum;
}

/// counters[0]: elements of other bits; counters[1]: elements further than 1e-3 from each other.
__global__ void compare_kernel(const float* a, const float* b, std::int64_t size, int* counters) {
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    if (__float_as_uint(a[i]) != __float_as_uint(b[i])) atomicAdd(counters, 1);
    if (!(fabsf(a[i] - b[i]) <= 1e-3f)) atomicAdd(counters + 1, 1);
  }
}

constexpr int k_peak_steps = 4096;

/// 16 chains of FMAs a thread and nothing else.
__global__ void peak_kernel(float* out, float factor) {
  float sums[16];
  for (int i = 0; i < 16; ++i) sums[i] = static_cast<float>(threadIdx.x + i);
#pragma unroll 8
  for (int step = 0; step < k_peak_steps; ++step) {
    for (int i = 0; i < 16; ++i) sums[i] = fmaf(sums[i], factor, factor);
  }
  float sum = 0;
  for (int i = 0; i < 16; ++i) sum += sums[i];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

/// TFLOP/s: at the highest clock, and what FMAs alone reach.
double report_peak(const Card& card) {
  const int blocks = card.sm_count * 8;
  DeviceArray<float> out(static_cast<std::size_t>(blocks) * 256);
  const double us = median_us([&] { peak_kernel<<<blocks, 256>>>(out.get(), 0.5f); }, 5);
  PROBE_CHECK(cudaGetLastError());
  const double peak = card.max_clock_mhz * card.sm_count * 256 / 1e6;
  print_line(
      "{\"probe\": \"dispatch\", \"card\": \"%s\", \"fma_peak_tflops\": %.2f, "
      "\"fma_measured_tflops\": %.2f}",
      card.name.c_str(), peak, 2.0 * 16 * k_peak_steps * blocks * 256 / us / 1e6);
  return peak;
}

struct Deadline {
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  double limit_s = 25;

  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  bool passed() const { return seconds() > limit_s; }
};

struct Shape {
  int m;
  int k;
  int sparsity;
  std::vector<int> sizes_n;
};

using Layout = std::pair<int, int>;  // rows, group

/// One matrix: each kernel and cuBLAS at each n.
class MatrixProbe {
 public:
  MatrixProbe(const Card& card, double peak_tflops, const Sgemm& sgemm, const Shape& shape)
      : card_(card),
        peak_tflops_(peak_tflops),
        sgemm_(sgemm),
        shape_(shape),
        matrix_(random_matrix(shape.m, shape.k, shape.sparsity)),
        row_ptrs_(matrix_.row_ptrs),
        columns_(matrix_.columns),
        values_(matrix_.values),
        dense_(to_dense(matrix_)),
        counters_(2) {}

  void run(const std::vector<Kernel>& kernels, const Deadline& deadline) {
    bool is_first = true;
    for (int n : shape_.sizes_n) {
      if (deadline.passed()) return;
      set_n(n, is_first);
      is_first = false;
      for (const Kernel& kernel : kernels) {
        if (deadline.passed()) return;
        if (n % kernel.n1() == 0 && shape_.k % k_stage_columns == 0) measure(kernel);
      }
      report_best();
    }
  }

 private:
  /// B, the reference and cuBLAS's time.
  void set_n(int n, bool checks_reference) {
    n_ = n;
    // The most rows with which a kernel pads: four tiles.
    const auto c_size = (static_cast<std::size_t>(shape_.m) + 64) * n;
    b_ = std::make_unique<DeviceArray<float>>(static_cast<std::size_t>(shape_.k) * n);
    c_ = std::make_unique<DeviceArray<float>>(c_size);
    reference_ = std::make_unique<DeviceArray<float>>(static_cast<std::size_t>(shape_.m) * n);
    fill_kernel<<<1024, 256>>>(b_->get(), shape_.k, n);
    const dim3 grid(static_cast<unsigned>((n + 127) / 128), static_cast<unsigned>(shape_.m));
    reference_kernel<<<grid, 128>>>(row_ptrs_.get(), columns_.get(), values_.get(), b_->get(),
                                    reference_->get(), n);
    PROBE_CHECK(cudaGetLastError());
    PROBE_CHECK(cudaDeviceSynchronize());
    if (checks_reference) report_reference();
    best_.clear();
    cublas_us_ = 0;
    if (sgemm_.handle != nullptr) measure_cublas();
  }

  /// The reference against the CPU in some columns.
  void report_reference() const {
    const std::vector<float> c = reference_->download();
    int wrong = 0;
    for (int column : {0, 1, n_ / 2 + 3, n_ - 1}) {
      std::vector<float> of_column;
      for (int row = 0; row < shape_.m; ++row) {
        of_column.push_back(c[static_cast<std::size_t>(row) * n_ + column]);
      }
      wrong += count_different_bits(of_column, ascending(matrix_, column), shape_.m);
    }
    print_line(
        "{\"probe\": \"dispatch\", %s, \"reference\": true, \"nonzeros\": %zu, "
        "\"wrong_in_4_columns\": %d}",
        name().c_str(), matrix_.values.size(), wrong);
  }

  void measure_cublas() {
    const float one = 1;
    const float zero = 0;
    int status = 0;
    // Rows of C are columns to cuBLAS: C^T = B^T A^T.
    const auto launch = [&] {
      status |= sgemm_.gemm(sgemm_.handle, 0, 0, n_, shape_.m, shape_.k, &one, b_->get(), n_,
                            dense_.get(), shape_.k, &zero, c_->get(), n_);
    };
    c_->poison();
    launch();
    PROBE_CHECK(cudaDeviceSynchronize());
    compare();
    cublas_us_ = time_us(launch);
    if (status != 0) {
      print_line("{\"error\": \"cublasSgemm refuses\", %s}", name().c_str());
      cublas_us_ = 0;
      return;
    }
    const double flops = 2.0 * shape_.m * shape_.k * n_;
    print_line(
        "{\"probe\": \"dispatch\", %s, \"form\": \"cublas\", \"time_us\": %.2f, "
        "\"tflops\": %.2f, \"of_fma_peak_percent\": %.1f, \"further_than_1e-3\": %d}",
        name().c_str(), cublas_us_, flops / cublas_us_ / 1e6,
        100 * flops / cublas_us_ / 1e6 / peak_tflops_, counters_.download()[1]);
  }

  void compare() {
    PROBE_CHECK(cudaMemset(counters_.get(), 0, 2 * sizeof(int)));
    compare_kernel<<<512, 256>>>(c_->get(), reference_->get(),
                                 static_cast<std::int64_t>(shape_.m) * n_, counters_.get());
    PROBE_CHECK(cudaGetLastError());
    PROBE_CHECK(cudaDeviceSynchronize());
  }

  /// Launches one after another, for at least a millisecond; us a launch.
  template <typename Launch>
  double time_us(Launch launch) const {
    const double about_us = median_us(launch, 1);
    const int launches = std::clamp(static_cast<int>(1500 / about_us), 2, 20);
    const double us = median_us(
        [&] {
          for (int i = 0; i < launches; ++i) launch();
        },
        5);
    return us / launches;
  }

  /// Records are packed and uploaded when the first kernel needs them.
  const std::uint32_t* records_of(const Kernel& kernel, int& tiles) {
    std::unique_ptr<DeviceArray<std::uint32_t>>& device = records_[{kernel.rows, kernel.group}];
    if (device == nullptr) {
      const Records records = pack(matrix_, kernel.rows, kernel.group);
      device = std::make_unique<DeviceArray<std::uint32_t>>(records.words);
      tiles_[{kernel.rows, kernel.group}] = records.tiles;
    }
    tiles = tiles_[{kernel.rows, kernel.group}];
    return device->get();
  }

  void measure(const Kernel& kernel) {
    int tiles = 0;
    const std::uint32_t* a = records_of(kernel, tiles);
    const float* b = b_->get();
    float* c = c_->get();
    void* arguments[] = {&a, &b, &c, &n_, &shape_.k};
    cudaLaunchConfig_t config{};
    config.gridDim =
        dim3(static_cast<unsigned>(tiles / kernel.warps), static_cast<unsigned>(n_ / kernel.n1()));
    config.blockDim = dim3(static_cast<unsigned>(32 * kernel.warps));
    config.dynamicSmemBytes = static_cast<std::size_t>(kernel.shared_bytes);
    const auto launch = [&] {
      PROBE_CHECK(cudaLaunchKernelExC(&config, kernel.function, arguments));
    };
    c_->poison();
    launch();
    PROBE_CHECK(cudaDeviceSynchronize());
    compare();
    report(kernel, time_us(launch), config.gridDim);
  }

  void report(const Kernel& kernel, double us, dim3 grid) {
    cudaFuncAttributes attributes;
    PROBE_CHECK(cudaFuncGetAttributes(&attributes, kernel.function));
    int blocks_per_sm = 0;
    PROBE_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks_per_sm, kernel.function, 32 * kernel.warps,
        static_cast<std::size_t>(kernel.shared_bytes)));
    const double tflops = 2.0 * static_cast<double>(matrix_.values.size()) * n_ / us / 1e6;
    const int different = counters_.download()[0];
    print_line(
        "{\"probe\": \"dispatch\", %s, \"form\": \"%s\", \"rows\": %d, \"columns\": %d, "
        "\"group\": %d, \"warps\": %d, \"copy\": \"%s\", \"records\": \"%s\", \"time_us\": %.2f, "
        "\"tflops\": %.2f, \"of_fma_peak_percent\": %.1f, \"cublas_over_time\": %.3f, "
        "\"different_bits\": %d, \"blocks\": %u, \"blocks_per_sm\": %d, \"registers\": %d, "
        "\"local_bytes\": %zu}",
        name().c_str(), kernel.form.c_str(), kernel.rows, kernel.columns, kernel.group,
        kernel.warps, kernel.copy.c_str(), kernel.records.c_str(), us, tflops,
        100 * tflops / peak_tflops_, cublas_us_ / us, different, grid.x * grid.y, blocks_per_sm,
        attributes.numRegs, attributes.localSizeBytes);
    if (different != 0) return;
    const auto at = best_.find(kernel.form);
    if (at == best_.end() || us < at->second.first) best_[kernel.form] = {us, kernel.name};
  }

  void report_best() const {
    const double gflop = 2e-9 * static_cast<double>(matrix_.values.size()) * n_;
    for (const auto& [form, best] : best_) {
      const double percent = 100 * gflop / best.first * 1e3 / peak_tflops_;
      print_line(
          "{\"probe\": \"dispatch\", %s, \"best_of_form\": \"%s\", \"kernel\": \"%s\", "
          "\"time_us\": %.2f, \"of_fma_peak_percent\": %.1f, \"cublas_over_time\": %.3f}",
          name().c_str(), form.c_str(), best.second.c_str(), best.first, percent,
          cublas_us_ / best.first);
    }
  }

  std::string name() const {
    return "\"card\": \"" + card_.name + "\", \"m\": " + std::to_string(shape_.m) +
           ", \"k\": " + std::to_string(shape_.k) +
           ", \"sparsity\": " + std::to_string(shape_.sparsity) + ", \"n\": " + std::to_string(n_);
  }

  const Card& card_;
  double peak_tflops_;
  const Sgemm& sgemm_;
  Shape shape_;
  Csr matrix_;
  DeviceArray<int> row_ptrs_;
  DeviceArray<int> columns_;
  DeviceArray<float> values_;
  DeviceArray<float> dense_;
  DeviceArray<int> counters_;
  std::map<Layout, std::unique_ptr<DeviceArray<std::uint32_t>>> records_;
  std::map<Layout, int> tiles_;
  int n_ = 0;
  std::unique_ptr<DeviceArray<float>> b_;
  std::unique_ptr<DeviceArray<float>> c_;
  std::unique_ptr<DeviceArray<float>> reference_;
  double cublas_us_ = 0;
  std::map<std::string, std::pair<double, std::string>> best_;  // form -> us, kernel
};

/// Records of several layouts give the bits of ascending fma, and those of a wrong mask do not.
int self_test() {
  int failed = 0;
  const auto expect = [&](bool holds, const char* what, int m, int rows, int group) {
    if (holds) return;
    print_line("{\"error\": \"self-test: %s\", \"m\": %d, \"rows\": %d, \"group\": %d}", what, m,
               rows, group);
    ++failed;
  };
  for (const Layout layout : {Layout{16, 4}, {8, 4}, {12, 4}, {12, 6}, {8, 8}}) {
    for (int m : {3, 16, 64, 100, 193}) {
      for (int sparsity : {0, 50, 70, 100}) {
        const Csr matrix = random_matrix(m, 48, sparsity);
        Records records = pack(matrix, layout.first, layout.second);
        const std::vector<float> expected = ascending(matrix, 5);
        std::vector<float> got = walk(records, 48, 5);
        expect(count_different_bits(expected, got, m) == 0, "other bits", m, layout.first,
               layout.second);
        bool is_zero = true;
        for (std::size_t row = m; row < got.size(); ++row) is_zero = is_zero && got[row] == 0;
        expect(is_zero, "padding is not zero", m, layout.first, layout.second);
        expect(records.tiles % 4 == 0 && records.tiles * layout.first - m < 64, "tiles", m,
               layout.first, layout.second);
        records.words[layout.first] ^= 1u << 2;  // row 2 is full: one entry less
        got = walk(records, 48, 5);
        expect(count_different_bits(expected, got, m) == 1, "a wrong mask is not seen", m,
               layout.first, layout.second);
      }
    }
  }
  print_line("{\"probe\": \"dispatch\", \"self_test\": true, \"failed\": %d}", failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 1 && arguments[0] == "--self-test") return self_test();
  Deadline deadline;
  if (arguments.size() == 3 && arguments[1] == "--limit") {
    deadline.limit_s = std::atof(arguments[2].c_str());
  } else if (arguments.size() != 1) {
    fail(
        "dispatch_probe: expected the folder that dispatch_generate.py wrote [--limit SECONDS], "
        "or --self-test");
  }
  std::vector<Kernel> kernels = read_kernels(arguments[0]);
  const Card card = open_card("dispatch");
  for (Kernel& kernel : kernels) load(arguments[0], kernel);
  const double peak_tflops = report_peak(card);
  const Sgemm sgemm = open_sgemm();
  // 0 and 100 % say what FMAs, loads and jumps take by themselves.
  const std::vector<Shape> shapes = {
      {3072, 768, 50, {4096, 512}}, {768, 3072, 50, {4096, 512}}, {4096, 4096, 50, {256}},
      {3072, 768, 0, {4096}},       {3072, 768, 100, {4096}},     {3072, 768, 70, {4096, 512}},
      {768, 3072, 70, {4096, 512}}, {4096, 4096, 70, {256}},
  };
  for (const Shape& shape : shapes) {
    if (!deadline.passed()) MatrixProbe(card, peak_tflops, sgemm, shape).run(kernels, deadline);
  }
  print_line("{\"probe\": \"dispatch\", \"done\": %s, \"seconds\": %.1f}",
             deadline.passed() ? "false" : "true", deadline.seconds());
}
