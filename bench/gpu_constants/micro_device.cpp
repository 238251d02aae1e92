#include "bench/gpu_constants/micro_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/hash.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"

namespace spjit::bench {
namespace {

constexpr std::int64_t k_line_bytes = 128;
constexpr std::size_t k_most_threads = 1024;
/// What the arithmetic starts from.
constexpr float k_factor = 0.5F;
constexpr float k_summand = 0.25F;

std::size_t warps_of(unsigned threads) {
  return std::max<std::size_t>(threads / k_lanes_a_warp, 1);
}

std::size_t data_bytes(const ConstantSizes& sizes) {
  const std::int64_t blocks = sizes.blocks;
  const std::int64_t in_l1 = stream_count(sizes.l1_bytes) * blocks;
  const std::int64_t in_dram = stream_count(sizes.dram_bytes / blocks) * blocks;
  return static_cast<std::size_t>(std::max(
      {sizes.dram_bytes, sizes.l2_bytes, in_l1 * k_vector_bytes, in_dram * k_vector_bytes}));
}

}  // namespace

ConstantSizes constant_sizes(const CudaDeviceInfo& device, bool rehearse) {
  ConstantSizes sizes;
  if (rehearse) {
    sizes.launches = 1;
    sizes.rounds = 1;
    sizes.chase_rounds = 2;
    sizes.code_bytes = {4096, 8192};
    sizes.l2_bytes = sizes.dram_bytes = 64 << 10;
    sizes.stream_passes = 1;
    sizes.blocks = 2;
    return sizes;
  }
  for (const std::int64_t kib :
       {4, 8, 16, 24, 32, 48, 64, 96, 112, 128, 160, 192, 256, 384, 512, 1024, 2048, 4096}) {
    sizes.code_bytes.push_back(kib << 10);
  }
  sizes.l2_bytes = std::max<std::int64_t>(device.l2_bytes / 4, 1 << 20);
  sizes.dram_bytes = 4 * std::max<std::int64_t>(device.l2_bytes, 1 << 20);
  sizes.blocks = static_cast<unsigned>(device.sms);
  return sizes;
}

std::vector<std::string> micro_cubins(const std::vector<MicroProgram>& programs, int arch,
                                      CubinFolder* folder) {
  std::vector<std::string> cubins;
  for (const MicroProgram& program : programs) {
    const auto make = [&] {
      const std::span<const SourceUnit> units(&program.unit, 1);
      CudaBuildOptions options;
      options.arch = arch;
      options.threads = 1;
      return build_cubin(units, load_cuda_toolchain(needs_of(units, arch), found_cuda_libraries()),
                         options);
    };
    if (folder == nullptr) {
      cubins.push_back(make());
      continue;
    }
    const std::string key = KeyBuilder()
                                .field("spjit", SPJIT_VERSION)
                                .field("what", "micro-kernel")
                                .field("arch", arch)
                                .field("text", program.unit.text)
                                .hex();
    const bool is_ptx = program.unit.language == SourceLanguage::ptx;
    cubins.push_back(folder
                         ->cubin({"constants " + program.name, is_ptx ? "ptx" : "cuda"}, key,
                                 [&] { return StoredCubin{make()}; })
                         .cubin);
  }
  return cubins;
}

unsigned stream_count(std::int64_t bytes) {
  constexpr std::int64_t k_turn = std::int64_t{k_stream_unroll} * k_stream_threads;
  return static_cast<unsigned>(std::max(bytes / k_vector_bytes / k_turn, std::int64_t{1}) * k_turn);
}

MicroDevice::MicroDevice(const CudaContext& context, const std::vector<std::string>& cubins,
                         const ConstantSizes& sizes)
    : context_(context),
      sizes_(sizes),
      stream_(context),
      out_(context, std::size_t{sizes.blocks} * k_most_threads * sizeof(std::uint64_t)),
      clocks_(context, std::size_t{sizes.blocks} * k_lanes_a_warp * sizeof(WarpClocks)),
      data_(context, data_bytes(sizes)),
      flush_(context, static_cast<std::size_t>(sizes.dram_bytes / 2)) {
  for (const std::string& cubin : cubins) {
    modules_.emplace_back(context, std::as_bytes(std::span(cubin)));
  }
  longest_ = cubins.back();
  data_.fill_on(stream_.handle(), std::byte{0});
  stream_.synchronize();
}

LaunchCycles MicroDevice::arithmetic(const char* kernel, unsigned warps, std::size_t program,
                                     unsigned blocks) {
  int rounds = program == 0 ? sizes_.rounds : straight_rounds(program);
  float x = k_factor;
  float y = k_summand;
  CudaAddress out = out_.address();
  CudaAddress clocks = clocks_.address();
  void* parameters[] = {&out, &clocks, &rounds, &x, &y};
  flushes_ = false;
  return repeat(modules_.at(program).function(kernel),
                {blocks > 0 ? blocks : sizes_.blocks, warps * k_lanes_a_warp}, parameters);
}

LaunchCycles MicroDevice::chase(std::int64_t bytes) {
  const std::vector<std::uint32_t> next =
      random_cycle(static_cast<std::uint32_t>(bytes / k_line_bytes), 1);
  upload_chain(next);
  CudaAddress start = data_.address();
  CudaAddress out = out_.address();
  CudaAddress clocks = clocks_.address();
  int rounds = sizes_.chase_rounds;
  void* parameters[] = {&start, &out, &clocks, &rounds};
  flushes_ = bytes > sizes_.l2_bytes;
  LaunchCycles cycles = repeat(modules_.front().function("chase"), {1, 1}, parameters);
  expect_end_of(next);
  return cycles;
}

LaunchCycles MicroDevice::read(unsigned blocks, const Reading& what) {
  Reading reading = what;
  CudaAddress data = data_.address();
  CudaAddress out = out_.address();
  CudaAddress clocks = clocks_.address();
  void* parameters[] = {&data,          &out,           &clocks,        &reading.apart,
                        &reading.first, &reading.count, &reading.passes};
  flushes_ = false;
  return repeat(modules_.front().function("stream"), {blocks, k_stream_threads}, parameters);
}

LaunchCycles MicroDevice::in_turn(std::size_t copies) {
  while (copies_.size() < copies) {
    copies_.emplace_back(context_, std::as_bytes(std::span(longest_)));
  }
  const Launch launch{sizes_.blocks, k_partitions * k_lanes_a_warp};
  int rounds = 1;
  float x = k_factor;
  float y = k_summand;
  CudaAddress out = out_.address();
  CudaAddress clocks = clocks_.address();
  void* parameters[] = {&out, &clocks, &rounds, &x, &y};
  LaunchCycles cycles;
  for (const bool counts : {false, true}) {
    for (std::size_t i = 0; i < copies; ++i) {
      start(copies_[i].function("straight"), launch, parameters);
      stream_.synchronize();
      if (counts) cycles.push_back(read_clocks(launch));
    }
  }
  return cycles;
}

int MicroDevice::straight_rounds(std::size_t program) const {
  constexpr std::int64_t k_instructions = 1 << 19;
  if (sizes_.rounds == 1) return 1;
  const std::int64_t length = sizes_.code_bytes.at(program - 1) / k_instruction_bytes;
  return static_cast<int>(std::clamp<std::int64_t>(k_instructions / length, 8, 1024));
}

double MicroDevice::cycles_a_microsecond() {
  constexpr int k_longer = 64;
  const Launch launch{sizes_.blocks, k_arithmetic_warps * k_lanes_a_warp};
  int rounds = sizes_.rounds == 1 ? 1 : k_longer * sizes_.rounds;
  float x = k_factor;
  float y = k_summand;
  CudaAddress out = out_.address();
  CudaAddress clocks = clocks_.address();
  void* parameters[] = {&out, &clocks, &rounds, &x, &y};
  CudaEvent begin(context_);
  CudaEvent end(context_);
  begin.record(stream_.handle());
  start(modules_.front().function("fp32"), launch, parameters);
  end.record(stream_.handle());
  stream_.synchronize();
  return median_of(read_clocks(launch)) / (1e3 * end.ms_since(begin));
}

void MicroDevice::upload_chain(const std::vector<std::uint32_t>& next) {
  constexpr std::size_t k_words = k_line_bytes / sizeof(std::uint64_t);
  std::vector<std::uint64_t> chain(next.size() * k_words);
  for (std::size_t i = 0; i < next.size(); ++i) {
    chain[i * k_words] = data_.address() + std::uint64_t{next[i]} * k_line_bytes;
  }
  data_.upload(std::as_bytes(std::span(chain)));
}

void MicroDevice::expect_end_of(const std::vector<std::uint32_t>& next) const {
  std::uint32_t line = 0;
  for (int i = 0; i < sizes_.chase_rounds * k_chase_unroll; ++i) line = next[line];
  const std::uint64_t expected = data_.address() + std::uint64_t{line} * k_line_bytes;
  std::uint64_t end = 0;
  out_.download(std::as_writable_bytes(std::span(&end, 1)));
  if (end != expected) {
    throw Error(fmt::format("the chase ended at {:#x}, expected {:#x}", end, expected));
  }
}

void MicroDevice::start(const CudaFunction& function, const Launch& launch,
                        void** parameters) const {
  function.launch({{launch.blocks, 1, 1}, {launch.threads, 1, 1}, 0}, stream_.handle(), parameters);
}

std::vector<double> MicroDevice::read_clocks(const Launch& launch) const {
  std::vector<WarpClocks> clocks(launch.blocks * warps_of(launch.threads));
  clocks_.download(std::as_writable_bytes(std::span(clocks)));
  return cycles_of_blocks(clocks, warps_of(launch.threads));
}

LaunchCycles MicroDevice::repeat(const CudaFunction& function, const Launch& launch,
                                 void** parameters) {
  LaunchCycles cycles;
  for (int i = 0; i <= sizes_.launches; ++i) {
    clocks_.fill_on(stream_.handle(), std::byte{0});
    if (flushes_) flush_.fill_on(stream_.handle(), std::byte{0});
    start(function, launch, parameters);
    stream_.synchronize();
    if (i > 0) cycles.push_back(read_clocks(launch));
  }
  return cycles;
}

}  // namespace spjit::bench
