#pragma once

/// @file
/// Where the driver puts what a kernel may ask for, in constant bank 0. What the parameters begin
/// at is each kernel's own (CubinKernel::parameter_base); the rest follows from what compilers read
/// there (sm_75, sm_80, sm_90).

#include <cstdint>

namespace spjit::sass {

inline constexpr std::uint64_t k_block_constants = 0x0;          ///< blockDim: three words
inline constexpr std::uint64_t k_grid_constants = 0xc;           ///< gridDim: three words
inline constexpr std::uint64_t k_shared_window_constant = 0x18;  ///< 8 bytes
inline constexpr std::uint64_t k_local_window_constant = 0x20;   ///< 8 bytes
inline constexpr std::uint64_t k_stack_constant = 0x28;          ///< the stack's end, 4 bytes

/// The descriptor of global memory, 8 bytes; from sm_80 on.
[[nodiscard]] constexpr std::uint64_t descriptor_constant(int arch) noexcept {
  return arch >= 90 ? 0x208 : 0x118;
}

/// Special registers by their numbers in the encoding.
inline constexpr std::uint8_t k_lane_id = 0;
inline constexpr std::uint8_t k_tid_x = 33;
inline constexpr std::uint8_t k_tid_z = 35;
inline constexpr std::uint8_t k_ctaid_x = 37;
inline constexpr std::uint8_t k_ctaid_z = 39;
inline constexpr std::uint8_t k_local_window_high = 46;
inline constexpr std::uint8_t k_shared_window_high = 47;
inline constexpr std::uint8_t k_clock_low = 80;
inline constexpr std::uint8_t k_cta_of_cluster = 136;
inline constexpr std::uint8_t k_special_zero = 255;

}  // namespace spjit::sass
