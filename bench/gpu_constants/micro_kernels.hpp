#pragma once

/// @file
/// Small kernels that each keep one part of an SM busy and read its clock before and after.
///
/// Every kernel writes for each warp w of its grid clocks[2 w] before and clocks[2 w + 1] after its
/// loop, in cycles of the SM, and something to `out`, so that the loop is not left out.

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda/build/cuda_build.hpp"

namespace spjit::bench {

/// Instructions of a turn of the loops of arithmetic; three more are the loop's own.
inline constexpr int k_arithmetic_unroll = 256;
/// Loads of a turn of `chase`.
inline constexpr int k_chase_unroll = 16;
/// Loads of 16 bytes a thread of a turn of `stream`.
inline constexpr int k_stream_unroll = 4;
/// Bytes of an FFMA, as of every instruction since sm_70.
inline constexpr std::int64_t k_instruction_bytes = 16;

/// CUDA C++ of
///   fp32(float* out, u64* clocks, int rounds, float x, float y)        8 chains of FFMA a thread
///   fp32_chain(the same)                                               1 chain
///   integer(unsigned* out, u64* clocks, int rounds, unsigned x, unsigned y)   8 chains of LOP3
///   mixed(float* out, u64* clocks, int rounds, float x, float y)       an FFMA, a LOP3 and so on
///   chase(u64 start, u64* out, u64* clocks, int rounds)                p = *p from `start` on
///   stream(const float4* data, float* out, u64* clocks, unsigned apart, unsigned first,
///          unsigned count, int passes)   block b reads `count` vectors from data + apart b on, in
///                                        turn from first b on; first b < count, a multiple of 4
///                                        times the threads of a block
[[nodiscard]] std::string micro_kernels_source();

/// PTX of straight(float* out, u64* clocks, unsigned rounds, float x, float y): a loop over
/// `instructions` FFMAs without a branch, of 8 chains.
[[nodiscard]] std::string straight_line_ptx(std::int64_t instructions, int arch);

/// A program that the constants need.
struct MicroProgram {
  std::string name;  ///< "micro", "straight 65536 bytes"
  SourceUnit unit;
};

/// All of them: micro_kernels_source(), then straight lines of these sizes. [bytes]
[[nodiscard]] std::vector<MicroProgram> micro_programs(const std::vector<std::int64_t>& code_bytes,
                                                       int arch);

}  // namespace spjit::bench
