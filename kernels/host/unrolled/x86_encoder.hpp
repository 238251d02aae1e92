#pragma once

/// @file
/// The x86-64 instructions the host emitter writes, and nothing else. Encodings follow the Intel
/// SDM volume 2 (EVEX: 2.7, compressed displacement: 2.7.5; VEX: 2.3). Every form is decoded back
/// by LLVM's disassembler in tests/unit/kernels.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace spjit {

/// General-purpose registers by their encoding.
enum class Gpr : std::uint8_t { rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11 };

/// `[base + disp]`, or `[base + index + disp]` when `has_index`.
struct Address {
  Gpr base = Gpr::rax;
  std::int32_t disp = 0;
  bool has_index = false;
  Gpr index = Gpr::rax;
};

/// A jump whose target is not known yet: where its 32-bit displacement lies.
struct PendingJump {
  std::size_t displacement_offset = 0;
};

/// Appends machine code to a buffer it owns. A vector is a zmm register (EVEX, registers 0-31) or a
/// ymm register (VEX, registers 0-15), chosen once.
class X86Encoder {
 public:
  enum class Vectors : std::uint8_t { zmm, ymm };

  explicit X86Encoder(Vectors vectors) : zmm_(vectors == Vectors::zmm) {}

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::span<const std::uint8_t> code() const noexcept {
    return {code_.data(), size_};
  }
  [[nodiscard]] std::vector<std::uint8_t> take() && {
    code_.resize(size_);
    return std::move(code_);
  }
  void reserve(std::size_t bytes) { code_.resize(std::max(code_.size(), bytes)); }

  // acc += a * b, one rounding (vfmadd231ps)
  void fma(int acc, int a, int b);
  void fma(int acc, int a, const Address& b);            ///< b: a whole vector in memory
  void fma_broadcast(int acc, int a, const Address& b);  ///< b: one float; zmm only
  // Moves
  void broadcast(int dst, const Address& src);        ///< vbroadcastss from memory
  void load(int dst, const Address& src);             ///< vmovups
  void store(const Address& dst, int src);            ///< vmovups
  void store_streaming(const Address& dst, int src);  ///< vmovntps; dst aligned to the vector
  void store_masked(const Address& dst, int src, int mask);  ///< zmm: k register; ymm: vmaskmovps
  void load_mask(int mask, const Address& src);              ///< zmm: kmovw from 16 bits
  void zero(int dst);                                        ///< all bits of the register
  // Scalars and control
  void load(Gpr dst, const Address& src);               ///< mov r64, m64
  void add(Gpr dst, std::int32_t value);                ///< add r64, imm32
  void add(Gpr dst, Gpr value);                         ///< add r64, r64
  void set(Gpr dst, std::int64_t value);                ///< mov r64, imm64
  void multiply(Gpr dst, Gpr src, std::int32_t value);  ///< imul r64, r64, imm32
  void test(Gpr a);                                     ///< test r64, r64
  [[nodiscard]] PendingJump jump_if_not_zero();         ///< jnz rel32
  void bind(PendingJump jump);                          ///< the jump lands at the current end
  void jump_back(std::size_t target);                   ///< jmp rel32, to a size() of before
  void zero_upper();                                    ///< vzeroupper
  void ret();
  /// Fills with one-byte int3 up to a multiple of `alignment`.
  void align(std::size_t alignment);

 private:
  struct Opcode {
    int map = 1;     ///< 1: 0F, 2: 0F38
    int prefix = 0;  ///< 0: none, 1: 66
    std::uint8_t byte = 0;
  };
  struct Operands {
    int reg = 0;
    int second = 0;  ///< vvvv
    int mask = 0;    ///< EVEX aaa
    bool broadcast = false;
    std::int32_t disp_scale = 1;  ///< EVEX compressed displacement unit in bytes
  };

  // Room is made once an instruction, not once a byte: that is most of the encoder's speed.
  static constexpr std::size_t k_longest_instruction = 16;
  void begin_instruction() {
    if (size_ + k_longest_instruction > code_.size()) {
      code_.resize(2 * code_.size() + k_longest_instruction);
    }
  }
  void byte(int value) { code_[size_++] = static_cast<std::uint8_t>(value); }
  void dword(std::uint32_t value);
  void vector_reg(const Opcode& opcode, const Operands& operands, int rm);
  void vector_mem(const Opcode& opcode, const Operands& operands, const Address& address);
  void evex_prefix(const Opcode& opcode, const Operands& operands, int x_bit, int b_bit);
  void vex_prefix(const Opcode& opcode, const Operands& operands, int x_bit, int b_bit);
  void prefix(const Opcode& opcode, const Operands& operands, int x_bit, int b_bit);
  void memory(int reg, const Address& address, std::int32_t disp_scale);
  void rex(bool wide, int reg, int rm);
  [[nodiscard]] std::int32_t vector_scale() const noexcept { return zmm_ ? 64 : 1; }
  [[nodiscard]] std::int32_t scalar_scale() const noexcept { return zmm_ ? 4 : 1; }

  bool zmm_;
  std::vector<std::uint8_t> code_;  // the first size_ bytes are code, the rest is room
  std::size_t size_ = 0;
};

}  // namespace spjit
