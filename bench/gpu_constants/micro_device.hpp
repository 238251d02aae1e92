#pragma once

/// @file
/// Launches of the small kernels on one device.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/gpu/cubin_folder.hpp"
#include "bench/gpu_constants/micro_kernels.hpp"
#include "bench/gpu_constants/readings.hpp"
#include "runtime/cuda/cuda_context.hpp"
#include "runtime/cuda/cuda_memory.hpp"
#include "runtime/cuda/cuda_module.hpp"
#include "runtime/cuda/cuda_stream.hpp"

namespace spjit::bench {

inline constexpr unsigned k_lanes_a_warp = 32;
inline constexpr unsigned k_partitions = 4;
inline constexpr unsigned k_arithmetic_warps = 16;  ///< four a partition
inline constexpr unsigned k_stream_threads = 512;
inline constexpr std::int64_t k_vector_bytes = 16;  ///< of a load of `stream`

/// How much is run: a rehearsal on the emulated driver runs every kernel once, over little memory.
struct ConstantSizes {
  int launches = 7;  ///< whose median counts, after one that is not counted
  int rounds = 256;  ///< of arithmetic
  int chase_rounds = 512;
  std::vector<std::int64_t> code_bytes;  ///< of straight lines, ascending
  std::int64_t l1_bytes = 16 << 10;      ///< a chase or a block's stream stays in it
  std::int64_t l2_bytes = 0;             ///< of memory that is in L2 and not in L1
  std::int64_t dram_bytes = 0;           ///< of memory that is not in L2
  int stream_passes = 64;                ///< over what an L1 holds
  unsigned blocks = 0;                   ///< as many as SMs
};

[[nodiscard]] ConstantSizes constant_sizes(const CudaDeviceInfo& device, bool rehearse);

/// The cubins of micro_programs() in their order, from the folder where there is one, else
/// compiled. Throws NotSupported without the compilers, CompileFailed.
[[nodiscard]] std::vector<std::string> micro_cubins(const std::vector<MicroProgram>& programs,
                                                    int arch, CubinFolder* folder);

/// Reads of `stream`: see micro_kernels.hpp.
struct Reading {
  unsigned apart = 0;
  unsigned first = 0;
  unsigned count = 0;
  int passes = 1;
};

/// Vectors of about so many bytes: a whole number of turns of `stream`, at least one.
[[nodiscard]] unsigned stream_count(std::int64_t bytes);

/// Of each launch that counts, the cycles of its blocks.
using LaunchCycles = std::vector<std::vector<double>>;

/// Refers to context and sizes. All throw DeviceError; Error for clocks that cannot be.
class MicroDevice {
 public:
  /// `cubins`: those of micro_programs() in their order.
  MicroDevice(const CudaContext& context, const std::vector<std::string>& cubins,
              const ConstantSizes& sizes);

  [[nodiscard]] const ConstantSizes& sizes() const noexcept { return sizes_; }

  /// A kernel of arithmetic, or `straight` of a later program, with so many warps on every SM, or
  /// on as many as `blocks` says.
  [[nodiscard]] LaunchCycles arithmetic(const char* kernel, unsigned warps, std::size_t program = 0,
                                        unsigned blocks = 0);
  /// One thread follows pointers through `bytes` from line to line, in an order that is drawn.
  /// Throws Error also where it does not end at the line that its steps lead to.
  [[nodiscard]] LaunchCycles chase(std::int64_t bytes);
  [[nodiscard]] LaunchCycles read(unsigned blocks, const Reading& what);

  /// `copies` of the longest straight line, which run one after another, once each, with four warps
  /// on every SM: of a second turn, the cycles of each launch's blocks. So code is as far away as
  /// the others leave it.
  [[nodiscard]] LaunchCycles in_turn(std::size_t copies);

  /// Turns of a straight line: enough that the first, whose code is further away, counts little.
  [[nodiscard]] int straight_rounds(std::size_t program) const;

  /// Cycles of an SM a microsecond, over one launch of `fp32` of some milliseconds.
  [[nodiscard]] double cycles_a_microsecond();

 private:
  struct Launch {
    unsigned blocks = 1;
    unsigned threads = k_lanes_a_warp;
  };

  void upload_chain(const std::vector<std::uint32_t>& next);
  void expect_end_of(const std::vector<std::uint32_t>& next) const;
  void start(const CudaFunction& function, const Launch& launch, void** parameters) const;
  [[nodiscard]] std::vector<double> read_clocks(const Launch& launch) const;
  [[nodiscard]] LaunchCycles repeat(const CudaFunction& function, const Launch& launch,
                                    void** parameters);

  const CudaContext& context_;
  const ConstantSizes& sizes_;
  CudaStream stream_;
  bool flushes_ = false;  ///< before each launch other data passes through L2
  DeviceBuffer out_;
  DeviceBuffer clocks_;
  DeviceBuffer data_;
  DeviceBuffer flush_;  ///< twice L2
  std::vector<CudaModule> modules_;
  std::string longest_;             ///< cubin of the longest straight line
  std::vector<CudaModule> copies_;  ///< of it
};

}  // namespace spjit::bench
