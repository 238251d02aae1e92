#pragma once

/// @file
/// How many cycles after an instruction's issue another may read its result, where a stall count
/// and no scoreboard waits for it. NVIDIA publishes no such numbers. These are the least distances
/// that ptxas 13.0 leaves in over 300 cubins of sm_75, sm_80 and sm_90, each a row of the table in
/// latency.cpp. tests/nvrtc/sass compares it with what ptxas makes.

#include <cstdint>

#include "sass/dependencies.hpp"

namespace spjit::sass {

/// Who writes: results of a class are there after as many cycles.
enum class ResultClass : std::uint8_t {
  float_product,     ///< FFMA FMUL FADD
  integer_product,   ///< IMAD, also as a move or sum; VIADD
  high_product,      ///< IMAD.HI
  wide_low,          ///< the first register of IMAD.WIDE
  wide_high,         ///< the second
  logic,             ///< IADD3 LOP3 LEA SHF SEL MOV ISETP FSETP ...
  half,              ///< HFMA2
  special,           ///< CS2R
  from_predicates,   ///< P2R
  predicate,         ///< P, of whatever writes one
  uniform,           ///< UR of UIADD3 UIMAD ULEA USHF ...
  uniform_constant,  ///< UR of ULDC
  uniform_move,      ///< UR of UMOV
  from_register,     ///< UR of sm_90's R2UR
  uniform_predicate,
  count
};

/// Who reads, and where.
enum class UseClass : std::uint8_t {
  float_product,
  integer_product,
  high_product,
  wide_factor,    ///< A and B of IMAD.WIDE
  wide_sum_low,   ///< the first register of its C
  wide_sum_high,  ///< the second
  logic,
  half,
  memory,    ///< addresses and data of loads and stores
  variable,  ///< other operations of no fixed latency
  branch,
  uniform,  ///< the uniform datapath
  guard,
  count
};

/// The class of register `index` of the result `span`.
[[nodiscard]] ResultClass result_class(const Instruction& instruction, const RegisterSpan& span,
                                       unsigned index) noexcept;

/// A register that an instruction reads, and how.
struct Use {
  RegisterSpan span;  ///< of one register
  UseClass use = UseClass::logic;
};
using Uses = SmallList<Use, 24>;

/// Every register that is read, the guard's predicate first.
[[nodiscard]] Uses uses_of(const Instruction& instruction);

/// Cycles from the issue of the writer to that of the reader, at least. Of pairs that no cubin has,
/// the least of the row. Architectures between two of the table are as the older one.
[[nodiscard]] int least_distance(int arch, ResultClass result, UseClass use) noexcept;

/// Cycles from an instruction that names a scoreboard to one that waits for it, at least.
inline constexpr int k_least_wait_distance = 2;

/// Queues whose instructions finish in their order, so that a scoreboard of a later one also tells
/// that earlier ones without any are done.
enum class InOrder : std::uint8_t {
  none,
  memory,    ///< operands of loads, stores and shuffles are read in order; LDS also finish so
  special,   ///< MUFU and conversions
  registers  ///< S2R, S2UR
};

/// The queue in which an instruction's operands are read, and in which its result comes.
struct Queues {
  InOrder of_sources = InOrder::none;
  InOrder of_results = InOrder::none;
};
[[nodiscard]] Queues queues_of(Opcode opcode) noexcept;

}  // namespace spjit::sass
