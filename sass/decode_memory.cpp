// LDG LD STG ST LDS STS LDL STL LDC

#include <cstdint>

#include "sass/decoders.hpp"

namespace spjit::sass {
namespace {

using enum Modifier;

constexpr int k_first_arch_with_descriptors = 80;
constexpr int k_last_arch_with_u_modifier = 75;

std::uint8_t registers_of(Modifier size) { return size == b128 ? 4 : size == b64 ? 2 : 1; }

/// The size of an access; returns the registers of its data.
std::uint8_t access_size(Reader& in, Modifier of_seven) {
  const std::uint64_t size = in.take(73, 3);
  constexpr Modifier sizes[] = {u8, s8, u16, s16, none, b64, b128};
  if (size == 7) {
    if (of_seven == refused) in.refuse();
    in.add(u);
    in.add(b128);
    return 4;
  }
  in.add(sizes[size]);
  return registers_of(sizes[size]);
}

/// Which lines caches give up first.
void eviction(Reader& in) { in.add_from(84, 3, {ef, none, el, lu, eu, na}); }

/// The order and scope of an access to global memory: of sm_75, and of what followed.
void order_and_scope(Reader& in, bool is_load) {
  if (in.arch() < k_first_arch_with_descriptors) {
    in.expect(76, 1, 0);
    const std::uint64_t scope = in.take(77, 2);
    in.add_from(79, 2, {is_load ? constant : refused, none, strong});
    constexpr Modifier scopes[] = {cta, sm, gpu, sys};
    in.add(scopes[scope]);
    return;
  }
  switch (in.take(77, 4)) {
    case 0:
      break;
    case 4:
      in.add(is_load ? constant : refused);
      break;
    case 5:
      in.add(strong);
      in.add(sm);
      break;
    case 7:
      in.add(strong);
      in.add(gpu);
      break;
    case 10:
      in.add(strong);
      in.add(sys);
      break;
    default:
      in.refuse();
  }
}

/// The register and the offset, of 24 bits or, from bit 32 on, 32.
Operand address_of(Reader& in, std::uint8_t registers, unsigned offset_bits = 24) {
  Operand address;
  address.kind = OperandKind::memory;
  address.number = static_cast<std::uint8_t>(in.take(24, 8));
  address.value = in.take_signed(64 - offset_bits, offset_bits);
  address.registers = registers;
  return address;
}

/// sm_75's generic accesses have no uniform register, and a store's data where others have it.
bool has_long_offset(const Reader& in, Opcode opcode) {
  return in.arch() < k_first_arch_with_descriptors &&
         (opcode == Opcode::ld || opcode == Opcode::st);
}

Operand long_address(Reader& in, std::uint8_t registers) {
  Operand address = address_of(in, registers, 32);
  address.form = AddressForm::wide;
  return address;
}

/// [R2.64+0x8], [R2.64+UR4], [UR4]; from sm_80 on also with a descriptor of memory. `uniform_bits`
/// is where the uniform register is named.
Operand global_address(Reader& in, unsigned uniform_bits, std::uint8_t registers) {
  Operand address = address_of(in, registers);
  address.form = AddressForm::wide;
  const bool has_descriptors = in.arch() >= k_first_arch_with_descriptors;
  if (in.form() == 1) {
    if (has_descriptors) in.refuse();
    return address;
  }
  in.expect(91, 1, 1);
  const auto uniform = static_cast<std::uint8_t>(in.take(uniform_bits, 6));
  const bool is_descriptor = has_descriptors && in.flag(76);
  const bool is_wide = in.flag(90);
  if (is_descriptor) {
    if (!is_wide) in.refuse();
    address.descriptor = uniform;
  } else {
    address.uniform = uniform;
    if (!is_wide) address.form = AddressForm::u32_uniform;
  }
  return address;
}

void global_load(Reader& in, Opcode opcode) {
  in.begin(opcode);
  if (!in.flag(72)) in.refuse();
  in.add(e);
  eviction(in);
  const bool may_be_u = in.arch() <= k_last_arch_with_u_modifier;
  const std::uint8_t registers = access_size(in, may_be_u ? u : refused);
  order_and_scope(in, opcode == Opcode::ldg);
  in.expect(81, 3, opcode == Opcode::ldg ? k_true : 0);
  in.destination(registers);
  in.add(has_long_offset(in, opcode) ? long_address(in, registers)
                                     : global_address(in, 32, registers));
}

void ldg(Reader& in) { global_load(in, Opcode::ldg); }
void ld(Reader& in) { global_load(in, Opcode::ld); }

Operand& stored(Reader& in, std::uint8_t registers) {
  return in.plain_register(OperandKind::reg, 32, registers);
}

void global_store(Reader& in, Opcode opcode) {
  in.begin(opcode);
  if (!in.flag(72)) in.refuse();
  in.add(e);
  eviction(in);
  const std::uint8_t registers = access_size(in, refused);
  order_and_scope(in, false);
  if (has_long_offset(in, opcode)) {
    in.add(long_address(in, registers));
    in.plain_register(OperandKind::reg, 64, registers);
    return;
  }
  in.add(global_address(in, 64, registers));
  stored(in, registers);
}

void stg(Reader& in) { global_store(in, Opcode::stg); }
void st(Reader& in) { global_store(in, Opcode::st); }

/// [R2.X4+UR4+0x8]; `uniform_bits` as above.
Operand near_address(Reader& in, unsigned uniform_bits, std::uint8_t registers, bool may_scale) {
  Operand address = address_of(in, registers);
  const bool has_uniform = in.form() != 1 && in.flag(91);
  if (has_uniform) address.uniform = static_cast<std::uint8_t>(in.take(uniform_bits, 6));
  if (!has_uniform && uniform_bits == 64 && in.form() != 1) in.refuse();
  constexpr std::uint8_t scales[] = {1, 4, 8, 16};
  if (may_scale) address.scale = scales[in.take(78, 2)];
  return address;
}

void lds(Reader& in) {
  in.begin(Opcode::lds);
  if (in.arch() <= k_last_arch_with_u_modifier) in.add_if(in.flag(76), u);
  const std::uint8_t registers = access_size(in, refused);
  in.destination(registers);
  in.add(near_address(in, 32, registers, true));
}

void sts(Reader& in) {
  in.begin(Opcode::sts);
  const std::uint8_t registers = access_size(in, refused);
  in.add(near_address(in, 64, registers, true));
  stored(in, registers);
}

void ldl(Reader& in) {
  in.begin(Opcode::ldl);
  eviction(in);
  const std::uint8_t registers = access_size(in, refused);
  in.destination(registers);
  in.add(near_address(in, 32, registers, false));
}

void stl(Reader& in) {
  in.begin(Opcode::stl);
  eviction(in);
  const std::uint8_t registers = access_size(in, refused);
  in.add(near_address(in, 64, registers, false));
  stored(in, registers);
}

void ldc(Reader& in) {
  in.begin(Opcode::ldc);
  const std::uint64_t size = in.take(73, 3);
  if (size > 5) in.refuse();
  constexpr Modifier sizes[] = {u8, s8, u16, s16, none, b64};
  in.add(sizes[size]);
  const std::uint8_t registers = registers_of(sizes[size]);
  in.destination(registers);
  Operand from;
  from.kind = OperandKind::constant;
  from.number = static_cast<std::uint8_t>(in.take(24, 8));
  from.value = in.take_signed(38, 16);
  from.bank = static_cast<std::uint8_t>(in.take(54, 5));
  from.registers = registers;
  in.add(from);
}

constexpr Decoder k_memory_decoders[] = {
    {0x181, forms_of({1, 4}), ldg}, {0x180, forms_of({4}), ld},
    {0x186, forms_of({1, 4}), stg}, {0x185, forms_of({1}), st, 75, 79},
    {0x185, forms_of({4}), st, 80}, {0x184, forms_of({4}), lds},
    {0x188, forms_of({1, 4}), sts}, {0x183, forms_of({4}), ldl},
    {0x187, forms_of({1, 4}), stl}, {0x182, forms_of({5}), ldc},
};

}  // namespace

std::span<const Decoder> memory_decoders() noexcept { return k_memory_decoders; }

}  // namespace spjit::sass
