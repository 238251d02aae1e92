#include "kernels/host/unrolled/x86_encoder.hpp"

#include "base/arithmetic.hpp"

namespace spjit {
namespace {

int code_of(Gpr reg) { return static_cast<int>(reg); }
int low3(int reg) { return reg & 7; }
int bit3(int reg) { return (reg >> 3) & 1; }
int bit4(int reg) { return (reg >> 4) & 1; }

std::uint32_t jump_distance(std::size_t from, std::size_t to) {
  const std::int64_t bytes = static_cast<std::int64_t>(to) - static_cast<std::int64_t>(from);
  return static_cast<std::uint32_t>(checked_cast<std::int32_t>(bytes, "bytes a jump goes over"));
}

}  // namespace

void X86Encoder::dword(std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) byte(static_cast<int>((value >> shift) & 0xFF));
}

// x_bit and b_bit extend the rm operand: for a register bit 4 and bit 3, for memory bit 3 of index
// and of base. EVEX and VEX store all of them inverted.
void X86Encoder::evex_prefix(const Opcode& opcode, const Operands& operands, int x_bit, int b_bit) {
  const int r = bit3(operands.reg) ^ 1;
  const int r_high = bit4(operands.reg) ^ 1;
  const int vvvv = ~operands.second & 15;
  const int v_high = bit4(operands.second) ^ 1;
  constexpr int k_vector_length_512 = 2;
  byte(0x62);
  byte(r << 7 | (x_bit ^ 1) << 6 | (b_bit ^ 1) << 5 | r_high << 4 | opcode.map);
  byte(vvvv << 3 | 1 << 2 | opcode.prefix);
  byte(k_vector_length_512 << 5 | (operands.broadcast ? 1 : 0) << 4 | v_high << 3 | operands.mask);
}

void X86Encoder::vex_prefix(const Opcode& opcode, const Operands& operands, int x_bit, int b_bit) {
  byte(0xC4);
  byte((bit3(operands.reg) ^ 1) << 7 | (x_bit ^ 1) << 6 | (b_bit ^ 1) << 5 | opcode.map);
  byte((~operands.second & 15) << 3 | 1 << 2 | opcode.prefix);
}

void X86Encoder::prefix(const Opcode& opcode, const Operands& operands, int x_bit, int b_bit) {
  begin_instruction();
  if (zmm_) {
    evex_prefix(opcode, operands, x_bit, b_bit);
  } else {
    vex_prefix(opcode, operands, x_bit, b_bit);
  }
  byte(opcode.byte);
}

void X86Encoder::vector_reg(const Opcode& opcode, const Operands& operands, int rm) {
  prefix(opcode, operands, zmm_ ? bit4(rm) : 0, bit3(rm));
  byte(0xC0 | low3(operands.reg) << 3 | low3(rm));
}

void X86Encoder::vector_mem(const Opcode& opcode, const Operands& operands,
                            const Address& address) {
  prefix(opcode, operands, address.has_index ? bit3(code_of(address.index)) : 0,
         bit3(code_of(address.base)));
  memory(operands.reg, address, operands.disp_scale);
}

void X86Encoder::memory(int reg, const Address& address, std::int32_t disp_scale) {
  constexpr int k_sib = 4;           // rm value that says a SIB byte follows
  constexpr int k_no_disp_base = 5;  // base that cannot go without a displacement
  const int base = low3(code_of(address.base));
  const bool fits8 = address.disp % disp_scale == 0 && address.disp / disp_scale >= -128 &&
                     address.disp / disp_scale <= 127;
  const int mod = address.disp == 0 && base != k_no_disp_base ? 0 : fits8 ? 1 : 2;
  const bool sib = address.has_index || base == k_sib;
  byte(mod << 6 | low3(reg) << 3 | (sib ? k_sib : base));
  if (sib) byte((address.has_index ? low3(code_of(address.index)) : k_sib) << 3 | base);
  if (mod == 1) byte((address.disp / disp_scale) & 0xFF);
  if (mod == 2) dword(static_cast<std::uint32_t>(address.disp));
}

void X86Encoder::fma(int acc, int a, int b) { vector_reg({2, 1, 0xB8}, {acc, a}, b); }

void X86Encoder::fma(int acc, int a, const Address& b) {
  vector_mem({2, 1, 0xB8}, {acc, a, 0, false, vector_scale()}, b);
}

void X86Encoder::fma_broadcast(int acc, int a, const Address& b) {
  vector_mem({2, 1, 0xB8}, {acc, a, 0, true, scalar_scale()}, b);
}

void X86Encoder::broadcast(int dst, const Address& src) {
  vector_mem({2, 1, 0x18}, {dst, 0, 0, false, scalar_scale()}, src);
}

void X86Encoder::load(int dst, const Address& src) {
  vector_mem({1, 0, 0x10}, {dst, 0, 0, false, vector_scale()}, src);
}

void X86Encoder::store(const Address& dst, int src) {
  vector_mem({1, 0, 0x11}, {src, 0, 0, false, vector_scale()}, dst);
}

void X86Encoder::store_streaming(const Address& dst, int src) {
  vector_mem({1, 0, 0x2B}, {src, 0, 0, false, vector_scale()}, dst);
}

void X86Encoder::store_masked(const Address& dst, int src, int mask) {
  if (zmm_) {
    vector_mem({1, 0, 0x11}, {src, 0, mask, false, vector_scale()}, dst);
  } else {
    vector_mem({2, 1, 0x2E}, {src, mask, 0, false, 1}, dst);
  }
}

void X86Encoder::load_mask(int mask, const Address& src) {
  begin_instruction();
  // VEX.L0.0F.W0 90 /r, three-byte VEX for the high registers of the address.
  const int x_bit = src.has_index ? bit3(code_of(src.index)) : 0;
  byte(0xC4);
  byte(1 << 7 | (x_bit ^ 1) << 6 | (bit3(code_of(src.base)) ^ 1) << 5 | 1);
  byte(15 << 3);
  byte(0x90);
  memory(mask, src, 1);
}

void X86Encoder::zero(int dst) { vector_reg({1, 1, 0xEF}, {dst, dst}, dst); }

void X86Encoder::rex(bool wide, int reg, int rm) {
  const int value = 0x40 | (wide ? 8 : 0) | bit3(reg) << 2 | bit3(rm);
  if (value != 0x40) byte(value);
}

void X86Encoder::load(Gpr dst, const Address& src) {
  begin_instruction();
  const int index = src.has_index ? bit3(code_of(src.index)) : 0;
  byte(0x48 | bit3(code_of(dst)) << 2 | index << 1 | bit3(code_of(src.base)));
  byte(0x8B);
  memory(code_of(dst), src, 1);
}

void X86Encoder::add(Gpr dst, std::int32_t value) {
  begin_instruction();
  rex(true, 0, code_of(dst));
  byte(0x81);
  byte(0xC0 | low3(code_of(dst)));
  dword(static_cast<std::uint32_t>(value));
}

void X86Encoder::add(Gpr dst, Gpr value) {
  begin_instruction();
  rex(true, code_of(value), code_of(dst));
  byte(0x01);
  byte(0xC0 | low3(code_of(value)) << 3 | low3(code_of(dst)));
}

void X86Encoder::set(Gpr dst, std::int64_t value) {
  begin_instruction();
  rex(true, 0, code_of(dst));
  byte(0xB8 | low3(code_of(dst)));
  const auto bits = static_cast<std::uint64_t>(value);
  dword(static_cast<std::uint32_t>(bits));
  dword(static_cast<std::uint32_t>(bits >> 32U));
}

void X86Encoder::multiply(Gpr dst, Gpr src, std::int32_t value) {
  begin_instruction();
  rex(true, code_of(dst), code_of(src));
  byte(0x69);
  byte(0xC0 | low3(code_of(dst)) << 3 | low3(code_of(src)));
  dword(static_cast<std::uint32_t>(value));
}

void X86Encoder::test(Gpr a) {
  begin_instruction();
  rex(true, code_of(a), code_of(a));
  byte(0x85);
  byte(0xC0 | low3(code_of(a)) << 3 | low3(code_of(a)));
}

PendingJump X86Encoder::jump_if_not_zero() {
  begin_instruction();
  byte(0x0F);
  byte(0x85);
  const PendingJump jump{size()};
  dword(0);
  return jump;
}

void X86Encoder::bind(PendingJump jump) {
  const std::uint32_t distance = jump_distance(jump.displacement_offset + 4, size());
  for (std::size_t i = 0; i < 4; ++i) {
    code_[jump.displacement_offset + i] = static_cast<std::uint8_t>(distance >> (8 * i));
  }
}

void X86Encoder::jump_back(std::size_t target) {
  begin_instruction();
  byte(0xE9);
  dword(jump_distance(size() + 4, target));
}

void X86Encoder::zero_upper() {
  begin_instruction();
  byte(0xC5);
  byte(0xF8);
  byte(0x77);
}

void X86Encoder::ret() {
  begin_instruction();
  byte(0xC3);
}

void X86Encoder::align(std::size_t alignment) {
  while (size() % alignment != 0) {
    begin_instruction();
    byte(0xCC);
  }
}

}  // namespace spjit
