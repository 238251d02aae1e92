// mma_probe OUT: about 100,000 outputs of mma.sync, mma.sp and wgmma a type, from inputs that
// mma_judge makes anew, as OUT/TEST.bin; then the throughput of mma.sync from registers.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>

#include "mma_fragments.cuh"
#include "mma_inputs.hpp"
#include "probe.cuh"

namespace {

using namespace probe;

/// Two 16-bit elements in a register, or one of 32 bits.
template <int k_test>
__device__ std::uint32_t load_a(int tile, int row, int unit) {
  if constexpr (test_of(k_test).tf32) return a_bits(k_test, tile, row, unit);
  return a_bits(k_test, tile, row, 2 * unit) | a_bits(k_test, tile, row, 2 * unit + 1) << 16;
}

template <int k_test>
__device__ std::uint32_t load_b(int tile, int unit, int column) {
  if constexpr (test_of(k_test).tf32) return b_bits(k_test, tile, unit, column);
  return b_bits(k_test, tile, 2 * unit, column) | b_bits(k_test, tile, 2 * unit + 1, column) << 16;
}

/// Four bits of each four columns: where the two kept ones are.
__device__ std::uint32_t metadata_of(int tile) {
  const Kept kept = kept_of(tile);
  return static_cast<std::uint32_t>(kept.second << 2 | kept.first) * 0x11111111u;
}

template <int k_test>
__device__ void multiply_by_wgmma(Accumulator& d, const std::uint32_t (&a)[4], int tile) {
  __shared__ alignas(128) std::uint32_t b[64];  // 2 core matrices x 8 columns x 4 units
  for (int i = threadIdx.x; i < 64; i += blockDim.x) {
    b[i] = load_b<k_test>(tile, i / 32 * 4 + i % 4, i / 4 % 8);
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const std::uint64_t descriptor = wgmma_descriptor(b);
  if constexpr (k_test == 4) wgmma_f16_k16(d, a, descriptor);
  if constexpr (k_test == 5) wgmma_bf16_k16(d, a, descriptor);
  if constexpr (k_test == 6) wgmma_tf32_k8(d, a, descriptor);
}

/// A block of four warps, each with a tile of its own; they are one warpgroup of a wgmma.
template <int k_test>
__global__ void __launch_bounds__(128) arithmetic_kernel(float* outputs) {
  const int tile = blockIdx.x * 4 + threadIdx.x / 32;
  const int group = threadIdx.x % 32 / 4;
  const int t = threadIdx.x % 4;
  std::uint32_t a[4];
  for (int i = 0; i < 4; ++i) {
    a[i] = load_a<k_test>(tile, group + i % 2 * 8, t + i / 2 * 4);
  }
  Accumulator d;
  for (int i = 0; i < 4; ++i) {
    d.value[i] = __uint_as_float(c_bits(k_test, tile, group + i / 2 * 8, 2 * t + i % 2));
  }
  if constexpr (test_of(k_test).instruction == Instruction::wgmma) {
    multiply_by_wgmma<k_test>(d, a, tile);
  } else if constexpr (test_of(k_test).instruction == Instruction::mma_sp) {
    std::uint32_t b[4];
    for (int i = 0; i < 4; ++i) b[i] = load_b<k_test>(tile, t + 4 * i, group);
    mma_sp_f16_k32(d, a, b, metadata_of(tile));
  } else {
    std::uint32_t b[2];
    for (int i = 0; i < 2; ++i) b[i] = load_b<k_test>(tile, t + 4 * i, group);
    if constexpr (k_test == 0) mma_f16_k16(d, a, b);
    if constexpr (k_test == 1) mma_bf16_k16(d, a, b);
    if constexpr (k_test == 2) mma_tf32_k8(d, a, b);
  }
  float* const tile_outputs = outputs + static_cast<std::size_t>(tile) * k_tile_size;
  for (int i = 0; i < 4; ++i) {
    tile_outputs[(group + i / 2 * 8) * k_columns + 2 * t + i % 2] = d.value[i];
  }
}

double value_of(const Test& test, std::uint32_t bits) {
  if (test.tf32) bits &= ~0x1fffu;
  const Format format = test.format;
  const std::uint32_t mantissa = bits & ((1u << format.mantissa_bits) - 1);
  const int field = static_cast<int>(bits >> format.mantissa_bits & format.special_field());
  const double magnitude =
      std::ldexp(field == 0 ? mantissa : 1u << format.mantissa_bits | mantissa,
                 (field == 0 ? 1 : field) - format.bias() - format.mantissa_bits);
  return (bits >> (format.mantissa_bits + format.exponent_bits) & 1) != 0 ? -magnitude : magnitude;
}

/// Outputs further from float64 than 2^-19 of the sum of magnitudes: a wrong layout would show
/// here. raw_bits and overflow are left to the judge.
int count_far_outputs(int test_id, const std::vector<float>& outputs, int& checked) {
  const Test test = test_of(test_id);
  int far = 0;
  checked = 0;
  for (int i = 0; i < k_tiles * k_tile_size; ++i) {
    const int tile = i / k_tile_size;
    const int row = i % k_tile_size / k_columns;
    const int column = i % k_columns;
    if (kind_of(tile) == Kind::raw_bits || kind_of(tile) == Kind::overflow) continue;
    const std::uint32_t c_as_bits = c_bits(test_id, tile, row, column);
    float c;
    std::memcpy(&c, &c_as_bits, sizeof(c));
    double sum = c;
    double magnitudes = std::abs(sum);
    for (int p = 0; p < test.products; ++p) {
      const double product = value_of(test, a_bits(test_id, tile, row, p)) *
                             value_of(test, b_bits(test_id, tile, b_row(test, tile, p), column));
      sum += product;
      magnitudes += std::abs(product);
    }
    ++checked;
    const double bound = std::ldexp(magnitudes, -19) + std::ldexp(1.0, -149);
    far += !(std::abs(outputs[i] - sum) <= bound);
  }
  return far;
}

void write_results(const std::string& folder, int test_id, const std::vector<float>& outputs) {
  FileHeader header{};
  std::memcpy(header.magic, k_magic, sizeof(k_magic));
  header.test_id = static_cast<std::uint32_t>(test_id);
  header.tiles = k_tiles;
  const std::string path = folder + "/" + test_of(test_id).name + ".bin";
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&header), sizeof(header));
  out.write(reinterpret_cast<const char*>(outputs.data()),
            static_cast<std::streamsize>(outputs.size() * sizeof(float)));
  out.close();
  if (!out) print_line("{\"error\": \"%s: cannot be written\"}", path.c_str());
}

template <int k_test>
void run_test(const std::string& folder) {
  DeviceArray<float> outputs(static_cast<std::size_t>(k_tiles) * k_tile_size);
  arithmetic_kernel<k_test><<<k_tiles / 4, 128>>>(outputs.get());
  PROBE_CHECK(cudaGetLastError());
  PROBE_CHECK(cudaDeviceSynchronize());
  const std::vector<float> host = outputs.download();
  write_results(folder, k_test, host);
  int checked = 0;
  const int far = count_far_outputs(k_test, host, checked);
  print_line(
      "{\"probe\": \"mma\", \"test\": \"%s\", \"outputs\": %zu, \"checked_in_float64\": %d, "
      "\"far_from_float64\": %d}",
      test_of(k_test).name, host.size(), checked, far);
}

constexpr int k_iterations = 2000;
constexpr int k_chains = 8;  // accumulators of a warp that do not wait for one another

template <int k_test>
__global__ void throughput_kernel(float* sums) {
  std::uint32_t a[4];
  std::uint32_t b[4];
  for (int i = 0; i < 4; ++i) {
    a[i] = load_a<k_test>(8, threadIdx.x % 32 / 4 + i % 2 * 8, threadIdx.x % 4 + i / 2 * 4);
    b[i] = load_b<k_test>(8, threadIdx.x % 4 + i * 4 % 8, threadIdx.x % 32 / 4);
  }
  Accumulator d[k_chains] = {};
  for (int iteration = 0; iteration < k_iterations; ++iteration) {
#pragma unroll
    for (int chain = 0; chain < k_chains; ++chain) {
      const std::uint32_t two[2] = {b[0], b[1]};
      if constexpr (k_test == 0) mma_f16_k16(d[chain], a, two);
      if constexpr (k_test == 1) mma_bf16_k16(d[chain], a, two);
      if constexpr (k_test == 2) mma_tf32_k8(d[chain], a, two);
      if constexpr (k_test == 3) mma_sp_f16_k32(d[chain], a, b, 0x44444444u);
    }
  }
  float sum = 0;
  for (const Accumulator& chain : d)
    sum += chain.value[0] + chain.value[1] + chain.value[2] + chain.value[3];
  sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

template <int k_test>
void run_throughput(const Card& card) {
  for (int warps : {4, 8, 16, 32}) {
    DeviceArray<float> sums(static_cast<std::size_t>(card.sm_count) * warps * 32);
    const double us =
        median_us([&] { throughput_kernel<k_test><<<card.sm_count, warps * 32>>>(sums.get()); }, 5);
    PROBE_CHECK(cudaGetLastError());
    const Test test = test_of(k_test);
    const double flops =
        2.0 * k_rows * k_columns * test.depth * k_iterations * k_chains * warps * card.sm_count;
    print_line(
        "{\"probe\": \"mma_throughput\", \"card\": \"%s\", \"test\": \"%s\", "
        "\"warps_per_sm\": %d, \"chains\": %d, \"time_us\": %.2f, \"tflops\": %.1f}",
        card.name.c_str(), test.name, warps, k_chains, us, flops / us / 1e6);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "mma_probe: expected the folder of results\n");
    return 2;
  }
  const Card card = open_card("mma");
  const std::string folder = argv[1];
  run_test<0>(folder);
  run_test<1>(folder);
  run_test<2>(folder);
  run_test<3>(folder);
  run_throughput<1>(card);
  run_throughput<0>(card);
  run_throughput<2>(card);
  run_throughput<3>(card);
  run_test<4>(folder);
  run_test<5>(folder);
  run_test<6>(folder);
  print_line("{\"probe\": \"mma\", \"done\": true}");
}
