#pragma once

// What the probes share: checked calls, JSON lines, times. A probe depends on the CUDA runtime
// only.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace probe {

/// One line of JSON on stdout, at once, so that a probe which is cut off loses nothing.
__attribute__((format(printf, 1, 2))) inline void print_line(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  std::vprintf(format, arguments);
  va_end(arguments);
  std::fputc('\n', stdout);
  std::fflush(stdout);
}

inline void check(cudaError_t status, const char* call, const char* file, int line) {
  if (status == cudaSuccess) return;
  print_line("{\"error\": \"%s\", \"call\": \"%s\", \"file\": \"%s\", \"line\": %d}",
             cudaGetErrorString(status), call, file, line);
  std::exit(1);
}

#define PROBE_CHECK(call) ::probe::check((call), #call, __FILE__, __LINE__)

struct Card {
  std::string name;
  int sm_count = 0;
  double max_clock_mhz = 0;
};

/// The card, once as a line of its own.
inline Card open_card(const char* probe_name) {
  cudaDeviceProp properties;
  PROBE_CHECK(cudaGetDeviceProperties(&properties, 0));
  int clock_khz = 0;
  PROBE_CHECK(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, 0));
  const Card card{properties.name, properties.multiProcessorCount, clock_khz / 1e3};
  print_line(
      "{\"probe\": \"%s\", \"card\": \"%s\", \"sm\": \"%d.%d\", \"sm_count\": %d, "
      "\"max_clock_mhz\": %.0f}",
      probe_name, card.name.c_str(), properties.major, properties.minor, card.sm_count,
      card.max_clock_mhz);
  if (properties.major != 9) {
    print_line("{\"error\": \"compute capability %d.%d; the probes are built for 9.0\"}",
               properties.major, properties.minor);
    std::exit(1);
  }
  return card;
}

/// Median of `repeats` times of launch(), in us; the card is warm.
template <typename Launch>
double median_us(Launch launch, int repeats, cudaStream_t stream = nullptr) {
  cudaEvent_t begin, end;
  PROBE_CHECK(cudaEventCreate(&begin));
  PROBE_CHECK(cudaEventCreate(&end));
  for (int i = 0; i < 3; ++i) launch();
  PROBE_CHECK(cudaDeviceSynchronize());
  std::vector<double> times_us;
  for (int r = 0; r < repeats; ++r) {
    PROBE_CHECK(cudaEventRecord(begin, stream));
    launch();
    PROBE_CHECK(cudaEventRecord(end, stream));
    PROBE_CHECK(cudaEventSynchronize(end));
    float ms = 0;
    PROBE_CHECK(cudaEventElapsedTime(&ms, begin, end));
    times_us.push_back(1e3 * ms);
  }
  PROBE_CHECK(cudaEventDestroy(begin));
  PROBE_CHECK(cudaEventDestroy(end));
  std::sort(times_us.begin(), times_us.end());
  return times_us[times_us.size() / 2];
}

template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t size) : size_(size) {
    PROBE_CHECK(cudaMalloc(&data_, size * sizeof(T)));
    PROBE_CHECK(cudaMemset(data_, 0xff, size * sizeof(T)));  // what is not written shows as NaN
  }
  explicit DeviceArray(const std::vector<T>& from) : DeviceArray(from.size()) {
    PROBE_CHECK(cudaMemcpy(data_, from.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }

  T* get() const { return data_; }
  std::vector<T> download() const {
    std::vector<T> host(size_);
    PROBE_CHECK(cudaMemcpy(host.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return host;
  }
  void poison() { PROBE_CHECK(cudaMemset(data_, 0xff, size_ * sizeof(T))); }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace probe
