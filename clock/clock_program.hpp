#pragma once

/// @file
/// A cubin made ready to be walked: its operations in one list, addresses patched in.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/small_list.hpp"
#include "runtime/cuda/cubin_info.hpp"
#include "sass/cubin_code.hpp"

namespace spjit {

/// The unit that executes an instruction, as far as its time differs.
enum class ClockUnit : std::uint8_t {
  fp32,      ///< FFMA FMUL FADD
  integer,   ///< integers, comparisons, moves
  half,      ///< HFMA2
  special,   ///< MUFU, conversions, S2R, SHFL ...: waited for by a scoreboard
  global,    ///< LDG STG LD ST
  local,     ///< LDL STL
  shared,    ///< LDS STS
  constant,  ///< LDC
  uniform,   ///< the uniform datapath
  control,   ///< branches, barriers
};

/// An instruction with what the clock asks of it, precomputed.
struct ClockOperation {
  sass::Instruction instruction;
  std::uint32_t function = 0;  ///< index
  std::uint32_t target = 0;    ///< of a branch: the operation that it goes to
  ClockUnit unit = ClockUnit::integer;
  bool is_load = false;
  bool is_store = false;
  std::uint8_t width_bytes = 4;  ///< of a lane's access
  bool has_values = true;        ///< its results can be known: it computes on integers
};

struct ClockFunction {
  std::string name;
  std::uint32_t first = 0;  ///< of its operations
  std::uint32_t count = 0;
};

/// One kernel with the constant banks that the file gives it, by their numbers.
struct ClockKernel {
  CubinKernel info;
  std::uint32_t entry = 0;  ///< operation
  std::map<int, std::vector<std::byte>> constants;
};

/// Where code and the cubin's own variables lie, in the clock's address space.
inline constexpr std::uint64_t k_clock_code_base = std::uint64_t{1} << 40;
inline constexpr std::uint64_t k_clock_globals_base = std::uint64_t{1} << 41;

struct ClockProgram {
  int arch = 0;
  std::vector<ClockOperation> operations;
  std::vector<ClockFunction> functions;
  std::vector<sass::Function> sections;  ///< for places in messages
  std::vector<ClockKernel> kernels;
  std::uint64_t code_bytes = 0;

  /// "spjit_tile_3+0x40: 'LDG.E R2, [R4]'" of an operation, for messages.
  [[nodiscard]] std::string describe(std::uint32_t operation) const;
  /// The kernel called `name`. Throws InvalidArgument, which lists what there is.
  [[nodiscard]] const ClockKernel& kernel(std::string_view name) const;
};

/// Throws NotSupported for another architecture than sm_75 to sm_90 and for a relocatable cubin,
/// Error for bytes that are no cubin and for what the decoder does not know.
[[nodiscard]] ClockProgram load_clock_program(std::span<const std::byte> cubin);

}  // namespace spjit
