#pragma once

/// @file
/// Machine code of NVIDIA GPUs (SASS) as plain values: an instruction with its operands and what
/// its control bits ask of the scheduler. Of the encoding that sm_75 to sm_90 share, 128 bits each.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/small_list.hpp"

namespace spjit::sass {

inline constexpr std::uint32_t k_instruction_bytes = 16;

/// The operation of an instruction, by nvdisasm's name without modifiers. IMAD, which nvdisasm also
/// calls IMAD.MOV, IMAD.IADD and IMAD.SHL by its operands, is one operation.
enum class Opcode : std::uint8_t {
  bar,
  bmov,
  bra,
  break_,
  brx,
  brxu,
  bssy,
  bsync,
  call,
  cs2r,
  endcollective,
  exit,
  f2i,
  fadd,
  fchk,
  ffma,
  flo,
  fmnmx,
  fmul,
  frnd,
  fsel,
  fsetp,
  hfma2,
  i2f,
  i2fp,
  iabs,
  iadd3,
  imad,
  imnmx,
  isetp,
  ld,
  ldc,
  ldg,
  ldl,
  lds,
  lea,
  lop3,
  mov,
  mufu,
  nop,
  p2r,
  plop3,
  popc,
  prmt,
  r2p,
  r2ur,
  ret,
  s2r,
  s2ur,
  sel,
  shf,
  shfl,
  st,
  stg,
  stl,
  sts,
  uflo,
  uiadd3,
  uimad,
  uisetp,
  uldc,
  ulea,
  ulop3,
  umov,
  usel,
  ushf,
  viadd,
  viaddmnmx,
  vimnmx,
  vimnmx3,
  vote,
  voteu,
  warpsync,
  yield,
  count  // clang-format off: as many lines as opcodes otherwise
};       // clang-format on

/// A suffix of an opcode's name, after a dot, in nvdisasm's order. `none` stands where a table has
/// nothing to print, `refused` where it has what is not known.
enum class Modifier : std::uint8_t {
  none,
  refused,
  e,
  u8,
  s8,
  u16,
  s16,
  u,
  b32,
  b64,
  b128,
  u32,
  s32,
  u64,
  s64,
  f32,
  f64,
  constant,
  strong,
  cta,
  sm,
  gpu,
  sys,
  ef,
  el,
  lu,
  eu,
  na,
  ltc64b,
  ltc128b,
  ftz,
  sat,
  rm,
  rp,
  rz,
  nan,
  ntz,
  floor,
  ceil,
  trunc,
  f,
  lt,
  eq,
  le,
  gt,
  ne,
  ge,
  num,
  ltu,
  equ,
  leu,
  gtu,
  neu,
  geu,
  t,
  and_,
  or_,
  xor_,
  ex,
  x,
  hi,
  sx32,
  wide,
  lut,
  l,
  r,
  w,
  sh,
  cos,
  sin,
  ex2,
  lg2,
  rcp,
  rsq,
  sqrt,
  tanh,
  mma,
  clear,
  sync,
  defer_blocking,
  noinc,
  nodec,
  abs,
  rel,
  div,
  all,
  any,
  collective,
  idx,
  up,
  down,
  bfly,
  b1,
  b2,
  b3,
  count
};

[[nodiscard]] std::string_view to_string(Opcode opcode) noexcept;
[[nodiscard]] std::string_view to_string(Modifier modifier) noexcept;
/// Name of a special register by its number in the encoding: "SR_TID.X"; empty if it is not known.
[[nodiscard]] std::string_view special_register_name(std::uint8_t number) noexcept;

/// The numbers that stand for a register which reads as 0 and drops what is written, for the
/// predicate that is true, and for no scoreboard.
inline constexpr std::uint8_t k_zero_register = 255;
inline constexpr std::uint8_t k_zero_uniform = 63;
inline constexpr std::uint8_t k_true = 7;
inline constexpr std::uint8_t k_no_scoreboard = 7;

enum class OperandKind : std::uint8_t {
  none,
  reg,                ///< R0 .. R254 of a lane, RZ
  uniform,            ///< UR0 .. UR62 of a warp, URZ
  predicate,          ///< P0 .. P6 of a lane, PT
  uniform_predicate,  ///< UP0 .. UP6 of a warp, UPT
  all_predicates,     ///< PR: bit i is Pi
  integer,            ///< `value`
  float32,            ///< `value`: its bits
  half,               ///< `value`: its bits
  constant,           ///< c[bank][value], c[bank][register + value]
  memory,             ///< [register + uniform + value]
  convergence,        ///< B0 .. B15: which lanes wait for one another
  special,            ///< SR_TID.X ...: `number` as encoded
  target,             ///< `value`: an instruction's offset in the function's section
};

/// How an address is computed from `number` (a register, or none) and `uniform` (or none).
enum class AddressForm : std::uint8_t {
  narrow,       ///< 32 bits
  wide,         ///< a pair of registers, 64 bits
  u32_uniform,  ///< 32 bits of a register without sign and 64 of a uniform one
};

struct Operand {
  OperandKind kind = OperandKind::none;
  std::uint8_t number = 0;     ///< the (first) register, predicate or special register
  std::uint8_t registers = 1;  ///< 32-bit registers from `number` on that are read or written
  bool negated = false;        ///< -x; !p
  bool absolute = false;       ///< |x|
  bool inverted = false;       ///< ~x
  bool reuse = false;          ///< the next instruction takes it from the operand cache
  bool hidden = false;         ///< what nvdisasm leaves out: the neutral value, say PT
  std::int64_t value = 0;      ///< an immediate's bits, an offset [bytes], a target

  // Members of constants and addresses.
  std::uint8_t bank = 0;
  std::uint8_t uniform = k_zero_uniform;     ///< base besides `number`
  std::uint8_t descriptor = k_zero_uniform;  ///< the pair that describes global memory, or none
  AddressForm form = AddressForm::narrow;
  std::uint8_t scale = 1;  ///< of the register in an address: .X4, .X8, .X16

  [[nodiscard]] bool is_register() const noexcept {
    return kind == OperandKind::reg || kind == OperandKind::uniform;
  }
  /// RZ, URZ; as a predicate PT or !PT.
  [[nodiscard]] bool is_fixed() const noexcept {
    return number == (kind == OperandKind::reg       ? k_zero_register
                      : kind == OperandKind::uniform ? k_zero_uniform
                                                     : k_true);
  }
};

/// Executed by the lanes whose predicate is true, or not true.
struct Guard {
  std::uint8_t predicate = k_true;
  bool negated = false;
  bool uniform = false;  ///< UP instead of P
};

/// The compiler's hints to the scheduler. Fixed latencies are waited for by stall counts, others by
/// one of six counters (scoreboards).
struct Control {
  std::uint8_t stall = 0;                        ///< cycles until the warp's next issue, 0 .. 15
  bool yield = false;                            ///< another warp may go first
  std::uint8_t write_barrier = k_no_scoreboard;  ///< counts until results are there
  std::uint8_t read_barrier = k_no_scoreboard;   ///< counts until operands have been read
  std::uint8_t wait_mask = 0;                    ///< bit i: waits until scoreboard i is 0
};

using Encoding = std::array<std::uint64_t, 2>;  ///< bits 0..63, 64..127

struct Instruction {
  std::uint32_t offset = 0;  ///< bytes from the beginning of its section
  Opcode opcode = Opcode::nop;
  Guard guard;
  Control control;
  SmallList<Modifier, 8> modifiers;
  /// In nvdisasm's order, those that it leaves out in their places: an opcode's (with its
  /// modifiers) are always as many. Destinations come first.
  SmallList<Operand, 9> operands;
  std::uint8_t destinations = 0;  ///< leading operands that are written
  bool shows_descriptor = false;  ///< nvdisasm names memory's descriptor: from sm_90 on
  Encoding encoding = {};

  [[nodiscard]] bool has(Modifier modifier) const noexcept {
    return std::ranges::find(modifiers, modifier) != modifiers.end();
  }
};

/// Whether the operation's sources can be kept for the next instruction (`reuse`).
[[nodiscard]] bool has_operand_cache(Opcode opcode) noexcept;

/// Which scoreboards an instruction may name.
struct Scoreboards {
  bool of_results = true;
  bool of_sources = true;
};
[[nodiscard]] Scoreboards scoreboards_of(const Instruction& instruction) noexcept;

/// In nvdisasm's spelling, without the blank and semicolon at its end: "@!P0 FFMA R8, R4.reuse,
/// 1.5, R8". Targets are hexadecimal offsets, as of a raw binary.
[[nodiscard]] std::string to_text(const Instruction& instruction);

}  // namespace spjit::sass
