// packed_probe [--only LIST] [--self-test]: at few tokens, what share of DRAM's bandwidth does a
// kernel reach that reads A as bitmaps and packed values, and is it faster than cuBLAS and
// cuSPARSE? LIST has commas between: plain, relay, bulk, split, peers. With --self-test it walks
// packed bytes on the CPU and needs no GPU.

#include <chrono>
#include <sstream>

#include "packed_case.cuh"

namespace {

using namespace probe;

constexpr double k_deadline_s = 45;  // no case begins later

/// What a kernel reads from DRAM and what a copy moves, of 1 GiB, and an empty kernel's time.
Device measure_device(const Card& card) {
  Device device{card};
  int value = 0;
  PROBE_CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrL2CacheSize, 0));
  device.l2_bytes = static_cast<std::size_t>(value);
  PROBE_CHECK(cudaStreamCreate(&device.stream));
  const std::size_t bytes = std::size_t{1} << 30;
  DeviceArray<unsigned char> from(bytes);
  DeviceArray<unsigned char> to(bytes);
  const double copy_us = median_us(
      [&] {
        PROBE_CHECK(
            cudaMemcpyAsync(to.get(), from.get(), bytes, cudaMemcpyDeviceToDevice, device.stream));
      },
      5, device.stream);
  const double read_us = median_us(
      [&] {
        read_kernel<<<card.sm_count * 8, 256, 0, device.stream>>>(
            reinterpret_cast<const uint4*>(from.get()), bytes / 16,
            reinterpret_cast<unsigned*>(to.get()));
      },
      5, device.stream);
  const double empty_us =
      time_us([&](int) { empty_kernel<<<1, 32, 0, device.stream>>>(); }, 64, device.stream);
  device.read_bytes_per_us = static_cast<double>(bytes) / read_us;
  print_line(
      "{\"probe\": \"packed\", \"card\": \"%s\", \"l2_bytes\": %zu, \"read_tb_s\": %.3f, "
      "\"copy_tb_s\": %.3f, \"empty_kernel_us\": %.2f}",
      card.name.c_str(), device.l2_bytes, device.read_bytes_per_us / 1e6,
      2.0 * static_cast<double>(bytes) / copy_us / 1e6, empty_us);
  return device;
}

/// Outputs of a walk over packed bytes that are not the sequential sum's; by columns, that are far
/// from it.
int count_wrong_in_walk(const SparseMatrix& matrix, const Packed& packed) {
  constexpr int n = 2;
  std::vector<float> x(static_cast<std::size_t>(n) * matrix.k);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = element_of_x(i);
  const std::vector<float> y = walk(matrix, packed, x, n);
  int wrong = 0;
  for (int q = 0; q < n; ++q) {
    for (int row = 0; row < matrix.m; ++row) {
      float sum = 0;
      for (int e = matrix.row_ptrs[row]; e < matrix.row_ptrs[row + 1]; ++e) {
        sum = std::fma(matrix.values[e],
                       x[static_cast<std::size_t>(q) * matrix.k + matrix.col_idxs[e]], sum);
      }
      const float walked = y[static_cast<std::size_t>(q) * matrix.m + row];
      wrong += packed.lanes == Lanes::by_rows ? std::memcmp(&sum, &walked, 4) != 0
                                              : !(std::abs(sum - walked) <= 1e-3f);
    }
  }
  return wrong;
}

/// 0 if all packings hold what they should and a changed value shows.
int self_test() {
  int failures = 0;
  for (const int zeros : {0, 50, 90, 100}) {
    const SparseMatrix matrix = random_matrix(64, 1024, zeros, true);
    for (const bool bf16 : {false, true}) {
      for (const int words : {0, 1, 2, 4}) {
        const Lanes lanes = words == 0 ? Lanes::by_columns : Lanes::by_rows;
        Packed packed = pack(matrix, lanes, std::max(words, 1), bf16);
        const int wrong = count_wrong_in_walk(matrix, packed);
        // Row 2 has a nonzero first in its chunk: the high half of its value is changed.
        const int lane_chunk = words == 0 ? 2 : 0;
        const std::size_t value = std::size_t{packed.begin_of(lane_chunk)} * 16 +
                                  static_cast<std::size_t>(std::max(words, 1)) * 128;
        packed.bytes[value + (bf16 ? 1 : 3)] ^= 0x01;
        const int seen = count_wrong_in_walk(matrix, packed);
        failures += wrong != 0 || seen == 0;
        print_line(
            "{\"self_test\": \"packed\", \"zeros\": %d, \"bf16\": %s, \"words\": %d, "
            "\"wrong\": %d, \"wrong_after_a_change\": %d, \"bytes\": %zu}",
            zeros, bf16 ? "true" : "false", words, wrong, seen, packed.bytes.size());
      }
    }
  }
  return failures == 0 ? 0 : 1;
}

void run_all(const std::string& only) {
  const auto start = std::chrono::steady_clock::now();
  const Device device = measure_device(open_card("packed"));
  const Blas blas(device.stream);
  const Sparse sparse(device.stream);
  for (const int zeros : {50, 90}) {
    CaseProbe(device, blas, sparse, {64, 1024, {1, 4, 8, 16}}, zeros, true).run(only);
  }
  const Shape shapes[] = {
      {4096, 4096, {1, 4, 8, 16}}, {768, 3072, {1, 4, 8, 16}}, {11008, 4096, {1, 16}}};
  for (const Shape& shape : shapes) {
    for (const int zeros : {50, 70, 90}) {
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
      if (passed.count() > k_deadline_s) {
        print_line("{\"probe\": \"packed\", \"m\": %d, \"zeros\": %d, \"no_time\": true}", shape.m,
                   zeros);
        continue;
      }
      CaseProbe(device, blas, sparse, shape, zeros, false).run(only);
    }
  }
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  print_line("{\"probe\": \"packed\", \"done\": true, \"seconds\": %.1f}", passed.count());
}

/// The first name of a list that is none of a kernel's; empty if there is none.
std::string unknown_name(const std::string& list) {
  std::istringstream in(list);
  for (std::string name; std::getline(in, name, ',');) {
    bool known = false;
    for (const char* each : {"plain", "relay", "bulk", "split", "peers"}) {
      known = known || name == each;
    }
    if (!known) return name;
  }
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--self-test") return self_test();
  const bool some = argc == 3 && std::string(argv[1]) == "--only";
  if (argc != 1 && !some) {
    print_line("{\"error\": \"packed_probe takes --only LIST, --self-test or nothing\"}");
    return 2;
  }
  const std::string only = some ? argv[2] : "plain,relay,bulk,split,peers";
  if (const std::string unknown = unknown_name(only); !unknown.empty()) {
    print_line("{\"error\": \"no kernel '%s'; expected some of plain,relay,bulk,split,peers\"}",
               unknown.c_str());
    return 2;
  }
  run_all(only);
}
