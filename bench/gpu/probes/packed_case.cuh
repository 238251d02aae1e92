#pragma once

// One matrix of the packed probe: the kernels and libraries that are asked for, checked and timed.

#include <functional>

#include "packed_kernels.cuh"
#include "packed_layout.hpp"
#include "packed_peers.hpp"
#include "probe.cuh"

namespace probe {

constexpr int k_min_launches = 16;  // of a graph
constexpr std::size_t k_ring_bytes = 160 << 10;

struct Shape {
  int m;
  int k;
  std::vector<int> sizes_n;
};

/// Kernels for chunks of `words` words a row, of which `steps` nonzeros a word lie in registers.
struct Form {
  int zeros;  // where it is timed
  int words;
  int steps;
  int warps;
  const void* relay[2];  // fp32, bf16 values
  const void* bulk[2];
};

template <int k_words, int k_steps, int k_warps>
Form form_of(int zeros) {
  return {zeros,
          k_words,
          k_steps,
          k_warps,
          {reinterpret_cast<const void*>(&relay_kernel<k_words, k_steps, k_warps, float>),
           reinterpret_cast<const void*>(&relay_kernel<k_words, k_steps, k_warps, std::uint16_t>)},
          {reinterpret_cast<const void*>(&bulk_kernel<k_words, k_steps, k_warps, float>),
           reinterpret_cast<const void*>(&bulk_kernel<k_words, k_steps, k_warps, std::uint16_t>)}};
}

inline const std::vector<Form>& forms() {
  static const std::vector<Form> all = {form_of<1, 28, 16>(50), form_of<2, 26, 8>(50),
                                        form_of<2, 18, 12>(70), form_of<4, 16, 8>(70),
                                        form_of<4, 10, 12>(90), form_of<2, 12, 16>(90)};
  return all;
}

inline const void* plain_of(int n) {
  switch (n) {
    case 1:
      return reinterpret_cast<const void*>(&plain_kernel<1, float>);
    case 4:
      return reinterpret_cast<const void*>(&plain_kernel<4, float>);
    case 8:
      return reinterpret_cast<const void*>(&plain_kernel<8, float>);
    default:
      return reinterpret_cast<const void*>(&plain_kernel<16, float>);
  }
}

template <typename Value>
const void* split_of(int n) {
  switch (n) {
    case 1:
      return reinterpret_cast<const void*>(&split_kernel<1, Value>);
    case 4:
      return reinterpret_cast<const void*>(&split_kernel<4, Value>);
    default:
      return reinterpret_cast<const void*>(&split_kernel<8, Value>);
  }
}

/// In [-1, 1), of 24 bits: products with A are rounded, so that the order of a sum shows.
inline float element_of_x(std::size_t index) {
  return static_cast<float>(mix(~index) >> 40) / 8388608.0f - 1.0f;
}

/// Copies of some bytes, used in turn: more than L2 holds lies between two uses of one.
class Copies {
 public:
  Copies(std::size_t bytes, std::size_t l2_bytes)
      : bytes_(bytes),
        stride_((bytes + 255) / 256 * 256),
        count_(static_cast<int>(2 * l2_bytes / stride_ + 2)),
        data_(stride_ * count_) {}
  Copies(const std::vector<unsigned char>& from, std::size_t l2_bytes)
      : Copies(from.size(), l2_bytes) {
    PROBE_CHECK(cudaMemcpy(at(0), from.data(), bytes_, cudaMemcpyHostToDevice));
    repeat();
  }

  /// Copies the first to all others.
  void repeat() {
    for (int i = 1; i < count_; ++i) {
      PROBE_CHECK(cudaMemcpy(at(i), at(0), bytes_, cudaMemcpyDeviceToDevice));
    }
  }
  unsigned char* at(int index) const { return data_.get() + stride_ * index; }
  int count() const { return count_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_;
  std::size_t stride_;
  int count_;
  DeviceArray<unsigned char> data_;
};

/// us a launch of `launches` in a CUDA graph, one after another; launch(i) puts the i-th on the
/// stream. Without a graph if the stream cannot be captured: then less than 3 us means nothing.
inline double time_us(const std::function<void(int)>& launch, int launches, cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  PROBE_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  for (int i = 0; i < launches; ++i) launch(i);
  const bool captured = cudaStreamEndCapture(stream, &graph) == cudaSuccess && graph != nullptr &&
                        cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess;
  if (!captured) {
    cudaGetLastError();
    print_line("{\"probe\": \"packed\", \"without_graph\": true}");
    return median_us(
               [&] {
                 for (int i = 0; i < launches; ++i) launch(i);
               },
               3, stream) /
           launches;
  }
  const double us =
      median_us([&] { PROBE_CHECK(cudaGraphLaunch(executable, stream)); }, 5, stream) / launches;
  PROBE_CHECK(cudaGraphExecDestroy(executable));
  PROBE_CHECK(cudaGraphDestroy(graph));
  return us;
}

struct Device {
  Card card;
  std::size_t l2_bytes = 0;
  double read_bytes_per_us = 0;
  cudaStream_t stream = nullptr;
};

/// A launch of one kernel or library call on A at `a`, the index of its copy given too.
using Launch = std::function<void(const unsigned char* a, int copy)>;

struct Subject {
  std::string name;  // "kernel": ..., and what tells it from others
  int n = 1;
  bool ordered = false;
  double tolerance = 0;  // of |error| over the sum of magnitudes
};

class CaseProbe {
 public:
  CaseProbe(const Device& device, const Blas& blas, const Sparse& sparse, const Shape& shape,
            int zeros, bool planted)
      : device_(device),
        blas_(blas),
        sparse_(sparse),
        shape_(shape),
        zeros_(zeros),
        planted_(planted),
        matrix_(random_matrix(shape.m, shape.k, zeros, planted)),
        row_ptrs_(matrix_.row_ptrs),
        col_idxs_(matrix_.col_idxs),
        values_(matrix_.values),
        x_(make_x(shape.k)),
        y_(static_cast<std::size_t>(k_max_n) * shape.m),
        gave_up_(1) {
    PROBE_CHECK(cudaMemset(gave_up_.get(), 0, sizeof(int)));
    make_reference();
  }

  /// What `only` names of plain, relay, bulk, split, peers.
  void run(const std::string& only) {
    only_ = only;
    report_case();
    const bool ordered = wants("plain") || wants("relay") || wants("bulk");
    for (const bool bf16 : {false, true}) {
      for (const Form& form : forms()) {
        if (ordered && (planted_ || form.zeros == zeros_)) run_ordered(form, bf16);
      }
      if (wants("split")) run_split(bf16);
    }
    if (!wants("peers")) return;
    run_blas();
    run_sparse();
  }

 private:
  bool wants(const char* what) const { return only_.find(what) != std::string::npos; }

  static std::vector<float> make_x(int k) {
    std::vector<float> x(static_cast<std::size_t>(k_max_n) * k);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = element_of_x(i);
    return x;
  }

  void make_reference() {
    const std::size_t outputs = static_cast<std::size_t>(k_max_n) * shape_.m;
    DeviceArray<double> exact(outputs);
    DeviceArray<double> magnitude(outputs);
    const dim3 grid(static_cast<unsigned>(shape_.m + 63) / 64, k_max_n);
    reference_kernel<<<grid, 64>>>(row_ptrs_.get(), col_idxs_.get(), values_.get(), x_.get(),
                                   y_.get(), exact.get(), magnitude.get(), shape_.m, shape_.k);
    PROBE_CHECK(cudaGetLastError());
    PROBE_CHECK(cudaDeviceSynchronize());
    reference_ = y_.download();
    exact_ = exact.download();
    magnitude_ = magnitude.download();
  }

  /// The reference on the CPU in the first token, and the steps that bind an ordered kernel.
  void report_case() {
    const std::vector<float> x = x_.download();
    int wrong = 0;
    int longest_row = 0;
    for (int row = 0; row < shape_.m; ++row) {
      float sum = 0;
      const int end = matrix_.row_ptrs[row + 1];
      for (int e = matrix_.row_ptrs[row]; e < end; ++e) {
        sum = std::fma(matrix_.values[e], x[matrix_.col_idxs[e]], sum);
      }
      wrong += std::memcmp(&sum, &reference_[row], 4) != 0;
      longest_row = std::max(longest_row, end - matrix_.row_ptrs[row]);
    }
    print_line(
        "{\"probe\": \"packed\", \"m\": %d, \"k\": %d, \"zeros\": %d, \"nonzeros\": %zu, "
        "\"reference_wrong\": %d, \"longest_row\": %d, \"most_steps_of_32_rows\": %d, "
        "\"chain_us\": %.2f}",
        shape_.m, shape_.k, zeros_, matrix_.values.size(), wrong, longest_row, most_steps(),
        4.0 * longest_row / device_.card.max_clock_mhz);
  }

  /// Sums over the words of 32 rows of the most nonzeros that one of them has; the greatest.
  int most_steps() const {
    int most = 0;
    for (int first = 0; first < shape_.m; first += 32) {
      int steps = 0;
      for (int w = 0; w < matrix_.words_of_row(); ++w) {
        int count = 0;
        for (int row = first; row < first + 32; ++row) {
          count = std::max(count, __builtin_popcount(matrix_.bitmaps[matrix_.word(row, w)]));
        }
        steps += count;
      }
      most = std::max(most, steps);
    }
    return most;
  }

  void run_ordered(const Form& form, bool bf16) {
    const Packed packed = pack(matrix_, Lanes::by_rows, form.words, bf16);
    const Copies copies(packed.bytes, device_.l2_bytes);
    const std::string type = bf16 ? "\"values\": \"bf16\"" : "\"values\": \"fp32\"";
    const std::string shape = ", \"words\": " + std::to_string(form.words) +
                              ", \"steps\": " + std::to_string(form.steps) +
                              ", \"warps\": " + std::to_string(form.warps);
    const bool first_of_zeros = &form == &forms()[0] || form.zeros != (&form)[-1].zeros;
    const bool plain_too = wants("plain") && !bf16 && first_of_zeros;
    for (const int n : shape_.sizes_n) {
      if (plain_too) {
        measure({"\"kernel\": \"plain\", " + type, n, true, 0}, copies,
                [&](const unsigned char* a, int) { launch_plain(plain_of(n), a, form.words); });
      }
      if (wants("relay")) {
        measure({"\"kernel\": \"relay\", " + type + shape, n, true, 0}, copies,
                [&](const unsigned char* a, int) { launch_relay(form, bf16, a, n); });
      }
      if (wants("bulk")) measure_bulk(form, bf16, packed, copies, n, type + shape);
    }
  }

  void measure_bulk(const Form& form, bool bf16, const Packed& packed, const Copies& copies, int n,
                    const std::string& name) {
    const int stage_bytes = static_cast<int>((packed.max_chunk_bytes + 127) / 128 * 128);
    const int stages = std::min<int>(k_max_stages, static_cast<int>(k_ring_bytes) / stage_bytes);
    // A consumer's wait tells a stage's round from the one before only if the warp's last chunk
    // came no earlier than the stage's last.
    if (stages < form.warps - 1) {
      print_line("{\"probe\": \"packed\", \"left_out\": \"bulk\", \"stages\": %d}", stages);
      return;
    }
    measure(
        {"\"kernel\": \"bulk\", " + name + ", \"stages\": " + std::to_string(stages), n, true, 0},
        copies,
        [&](const unsigned char* a, int) { launch_bulk(form, bf16, a, n, stages, stage_bytes); });
  }

  void launch(const void* kernel, dim3 grid, int threads, std::size_t shared, void** arguments) {
    PROBE_CHECK(cudaLaunchKernel(kernel, grid, dim3(static_cast<unsigned>(threads)), arguments,
                                 shared, device_.stream));
  }

  dim3 groups() const { return dim3(static_cast<unsigned>(shape_.m / 32)); }

  void launch_plain(const void* kernel, const unsigned char* a, int words) {
    const float* x = x_.get();
    float* y = y_.get();
    int* gave_up = gave_up_.get();
    void* arguments[] = {&a, &x, &y, &shape_.m, &shape_.k, &words, &gave_up};
    launch(kernel, groups(), 32, 0, arguments);
  }

  void launch_relay(const Form& form, bool bf16, const unsigned char* a, int n) {
    const float* x = x_.get();
    float* y = y_.get();
    int* gave_up = gave_up_.get();
    void* arguments[] = {&a, &x, &y, &shape_.m, &shape_.k, &n, &gave_up};
    launch(form.relay[bf16 ? 1 : 0], groups(), form.warps * 32, 0, arguments);
  }

  void launch_bulk(const Form& form, bool bf16, const unsigned char* a, int n, int stages,
                   int stage_bytes) {
    const float* x = x_.get();
    float* y = y_.get();
    int* gave_up = gave_up_.get();
    const void* const kernel = form.bulk[bf16 ? 1 : 0];
    const int shared = stages * stage_bytes;
    PROBE_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    void* arguments[] = {&a, &x, &y, &shape_.m, &shape_.k, &n, &stages, &stage_bytes, &gave_up};
    launch(kernel, groups(), form.warps * 32, static_cast<std::size_t>(shared), arguments);
  }

  void run_split(bool bf16) {
    const Packed packed = pack(matrix_, Lanes::by_columns, 1, bf16);
    const Copies copies(packed.bytes, device_.l2_bytes);
    for (const int n : shape_.sizes_n) {
      const void* const kernel = bf16 ? split_of<std::uint16_t>(n) : split_of<float>(n);
      const std::string type = bf16 ? "\"values\": \"bf16\"" : "\"values\": \"fp32\"";
      measure({"\"kernel\": \"split\", " + type, n, false, 1e-5}, copies,
              [&](const unsigned char* a, int) { launch_split(kernel, a, n); });
    }
  }

  void launch_split(const void* kernel, const unsigned char* a, int n) {
    const float* x = x_.get();
    float* y = y_.get();
    const int n_of_block = std::min(n, 8);
    const int warps = shape_.m >= 4096 ? 32 : 8;
    const int shared = n_of_block * (shape_.k / 32) * 33 * static_cast<int>(sizeof(float));
    PROBE_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    void* arguments[] = {&a, &x, &y, &shape_.m, &shape_.k};
    const dim3 grid(static_cast<unsigned>(shape_.m / warps), static_cast<unsigned>(n / n_of_block));
    launch(kernel, grid, warps * 32, static_cast<std::size_t>(shared), arguments);
  }

  void run_blas() {
    if (!blas_.ready()) return;
    const std::size_t elements = static_cast<std::size_t>(shape_.m) * shape_.k;
    Copies wide(elements * 4, device_.l2_bytes);
    Copies narrow(elements * 2, device_.l2_bytes);
    PROBE_CHECK(cudaMemset(wide.at(0), 0, wide.bytes()));
    PROBE_CHECK(cudaMemset(narrow.at(0), 0, narrow.bytes()));
    expand_kernel<<<shape_.m, 128>>>(row_ptrs_.get(), col_idxs_.get(), values_.get(),
                                     reinterpret_cast<float*>(wide.at(0)),
                                     reinterpret_cast<std::uint16_t*>(narrow.at(0)), shape_.k);
    PROBE_CHECK(cudaGetLastError());
    wide.repeat();
    narrow.repeat();
    PROBE_CHECK(cudaDeviceSynchronize());
    const DeviceArray<std::uint16_t> x_bf16(x_rounded());
    for (const int n : shape_.sizes_n) {
      measure({n == 1 ? "\"kernel\": \"cublas_sgemv\"" : "\"kernel\": \"cublas_sgemm\"", n, false,
               1e-4},
              wide, [&](const unsigned char* a, int) {
                const auto* const w = reinterpret_cast<const float*>(a);
                expect(n == 1 ? blas_.sgemv(w, x_.get(), y_.get(), shape_.m, shape_.k)
                              : blas_.gemm(w, x_.get(), y_.get(), shape_.m, shape_.k, n, false));
              });
      measure({"\"kernel\": \"cublas_bf16\"", n, false, 1e-2}, narrow,
              [&](const unsigned char* a, int) {
                expect(blas_.gemm(a, x_bf16.get(), y_.get(), shape_.m, shape_.k, n, true));
              });
    }
  }

  std::vector<std::uint16_t> x_rounded() const {
    std::vector<std::uint16_t> rounded;
    for (const float value : x_.download()) {
      std::uint32_t bits;
      std::memcpy(&bits, &value, sizeof(bits));
      rounded.push_back(static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16));
    }
    return rounded;
  }

  /// CSR in one piece: row_ptrs, col_idxs, values, each at a multiple of 256 bytes.
  void run_sparse() {
    if (!sparse_.ready()) return;
    const auto aligned = [](std::size_t bytes) { return (bytes + 255) / 256 * 256; };
    const std::size_t columns_at = aligned(matrix_.row_ptrs.size() * 4);
    const std::size_t values_at = columns_at + aligned(matrix_.col_idxs.size() * 4);
    std::vector<unsigned char> csr(values_at + matrix_.values.size() * 4);
    std::memcpy(csr.data(), matrix_.row_ptrs.data(), matrix_.row_ptrs.size() * 4);
    std::memcpy(csr.data() + columns_at, matrix_.col_idxs.data(), matrix_.col_idxs.size() * 4);
    std::memcpy(csr.data() + values_at, matrix_.values.data(), matrix_.values.size() * 4);
    const Copies copies(csr, device_.l2_bytes);
    std::vector<PeerHandle> matrices;
    for (int i = 0; i < copies.count(); ++i) {
      matrices.push_back(
          sparse_.describe(shape_.m, shape_.k, static_cast<std::int64_t>(matrix_.values.size()),
                           copies.at(i), copies.at(i) + columns_at, copies.at(i) + values_at));
    }
    for (const int n : shape_.sizes_n) {
      const std::vector<PeerHandle> vectors =
          sparse_.describe_vectors(x_.get(), y_.get(), shape_.m, shape_.k, n);
      if (!sparse_.fits(matrices.back(), vectors, n)) {
        print_line("{\"probe\": \"packed\", \"left_out\": \"cuSPARSE\", \"n\": %d}", n);
        continue;
      }
      measure({n == 1 ? "\"kernel\": \"cusparse_spmv\"" : "\"kernel\": \"cusparse_spmm\"", n, false,
               1e-4},
              copies, [&](const unsigned char*, int copy) {
                expect(sparse_.multiply(matrices[static_cast<std::size_t>(copy)], vectors, n));
              });
    }
  }

  void expect(int status) { refused_ = refused_ || status != 0; }

  /// Checks one launch on the last copy, then times launches hot (the first copy always) and cold.
  void measure(const Subject& subject, const Copies& copies, const Launch& launch) {
    refused_ = false;
    y_.poison();
    PROBE_CHECK(cudaDeviceSynchronize());
    const int last = copies.count() - 1;
    launch(copies.at(last), last);
    PROBE_CHECK(cudaStreamSynchronize(device_.stream));
    const std::string checked = check(subject);
    const bool gave_up = take_gave_up();
    if (gave_up || refused_ || planted_) {
      print_line("{\"probe\": \"packed\", %s, %s, \"gave_up\": %s, \"refused\": %s}",
                 name_of(subject).c_str(), checked.c_str(), gave_up ? "true" : "false",
                 refused_ ? "true" : "false");
      return;
    }
    for (const bool cold : {true, false}) {
      const int count = cold ? copies.count() : 1;
      const int launches = (k_min_launches + count - 1) / count * count;
      const double us = time_us([&](int i) { launch(copies.at(i % count), i % count); }, launches,
                                device_.stream);
      const double share = static_cast<double>(copies.bytes()) / us / device_.read_bytes_per_us;
      print_line(
          "{\"probe\": \"packed\", %s, \"state\": \"%s\", \"us\": %.2f, \"bytes\": %zu, "
          "\"share_of_read\": %.3f, %s, "
          "\"gave_up\": %s}",
          name_of(subject).c_str(), cold ? "cold" : "hot", us, copies.bytes(), share,
          checked.c_str(), take_gave_up() ? "true" : "false");
    }
  }

  /// Whether a wait was given up since the last call.
  bool take_gave_up() {
    const bool gave_up = gave_up_.download()[0] != 0;
    if (gave_up) PROBE_CHECK(cudaMemset(gave_up_.get(), 0, sizeof(int)));
    return gave_up;
  }

  std::string name_of(const Subject& subject) const {
    return "\"m\": " + std::to_string(shape_.m) + ", \"k\": " + std::to_string(shape_.k) +
           ", \"zeros\": " + std::to_string(zeros_) + (planted_ ? ", \"planted\": true" : "") +
           ", \"n\": " + std::to_string(subject.n) + ", " + subject.name;
  }

  std::string check(const Subject& subject) const {
    const std::vector<float> y = y_.download();
    int wrong = 0;
    double worst = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(subject.n) * shape_.m; ++i) {
      if (subject.ordered) {
        wrong += std::memcmp(&y[i], &reference_[i], 4) != 0;
        continue;
      }
      const double error = std::abs(y[i] - exact_[i]);
      const double bound = subject.tolerance * magnitude_[i];
      wrong += !(error <= bound);
      if (magnitude_[i] > 0) worst = std::max(worst, error / magnitude_[i]);
    }
    char text[96];
    std::snprintf(text, sizeof(text), "\"wrong\": %d", wrong);
    if (!subject.ordered) {
      std::snprintf(text, sizeof(text), "\"wrong\": %d, \"worst_error\": %.2g", wrong, worst);
    }
    return text;
  }

  const Device& device_;
  const Blas& blas_;
  const Sparse& sparse_;
  Shape shape_;
  int zeros_;
  bool planted_;  // a small matrix with an empty and a dense row: checks without times
  SparseMatrix matrix_;
  DeviceArray<int> row_ptrs_;
  DeviceArray<int> col_idxs_;
  DeviceArray<float> values_;
  DeviceArray<float> x_;
  DeviceArray<float> y_;
  DeviceArray<int> gave_up_;
  bool refused_ = false;
  std::string only_;
  std::vector<float> reference_;
  std::vector<double> exact_;
  std::vector<double> magnitude_;
};

}  // namespace probe
