// ld and st of every state space, one element or a vector; prefetch.

#include <array>

#include "emulated_driver/form_types.hpp"

namespace spjit::emulated {

namespace {

template <typename T>
T element(const std::uint8_t* bytes) {
  T value{};
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

template <Space space, typename T>
void run_load(Thread& thread, const Instruction& instruction) {
  const Address address = thread.address(instruction, 1);
  const Place place = thread.place(space, address, sizeof(T), false);
  check_defined(place, address, sizeof(T));
  thread.write_extended<T>(instruction.operands[0], element<T>(place.bytes), instruction.width);
}

template <Space space, typename T>
void run_load_vector(Thread& thread, const Instruction& instruction) {
  const Address address = thread.address(instruction, 1);
  const std::uint32_t size = instruction.flags * std::uint32_t{sizeof(T)};
  const Place place = thread.place(space, address, size, false);
  check_defined(place, address, size);
  for (std::uint32_t i = 0; i < instruction.flags; ++i) {
    const Operand slot = thread.function().vector_slots[instruction.extra + i];
    if (slot != k_no_operand) {
      thread.write_extended<T>(slot, element<T>(place.bytes + i * sizeof(T)), instruction.width);
    }
  }
}

template <typename T>
void put(const Place& place, std::size_t offset, T value) {
  std::memcpy(place.bytes + offset, &value, sizeof(T));
  std::memset(place.defined + offset, 1, sizeof(T));
}

template <Space space, typename T>
void run_store(Thread& thread, const Instruction& instruction) {
  const Place place = thread.place(space, thread.address(instruction, 0), sizeof(T), true);
  put(place, 0, thread.read<T>(instruction.operands[1]));
}

template <Space space, typename T>
void run_store_vector(Thread& thread, const Instruction& instruction) {
  const std::uint32_t size = instruction.flags * std::uint32_t{sizeof(T)};
  const Place place = thread.place(space, thread.address(instruction, 0), size, true);
  for (std::uint32_t i = 0; i < instruction.flags; ++i) {
    const Operand slot = thread.function().vector_slots[instruction.extra + i];
    put(place, i * sizeof(T), thread.read<T>(slot));
  }
}

// A hint: it moves nothing that the program can see.
void run_prefetch(Thread& thread, const Instruction& instruction) {
  static_cast<void>(thread.address(instruction, 0));
}

bool take_any(Modifiers& modifiers, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (modifiers.take(name)) {
      return true;
    }
  }
  return false;
}

Space take_space(Modifiers& modifiers, bool is_load) {
  if (modifiers.take("global")) {
    return Space::global;
  }
  if (is_load && modifiers.take("const")) {
    return Space::constant;
  }
  if (take_any(modifiers, {"shared", "shared::cta"})) {
    return Space::shared;
  }
  if (modifiers.take("local")) {
    return Space::local;
  }
  return modifiers.take("param") ? Space::param : Space::generic;
}

// What only says how caches treat the access.
void take_cache_hints(Modifiers& modifiers, Space space, bool is_load) {
  if (space == Space::global && is_load) {
    modifiers.take("nc");
  }
  if (space == Space::param) {
    return;
  }
  if (is_load) {
    take_any(modifiers, {"ca", "cg", "cs", "lu", "cv"});
  } else {
    take_any(modifiers, {"wb", "cg", "cs", "wt"});
  }
  if (space == Space::global || space == Space::generic) {
    take_any(modifiers, {"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first",
                         "L1::evict_last", "L1::no_allocate"});
    take_any(modifiers, {"L2::64B", "L2::128B", "L2::256B"});
  }
}

std::uint32_t take_vector(Modifiers& modifiers) {
  if (modifiers.take("v2")) {
    return 2;
  }
  if (modifiers.take("v4")) {
    return 4;
  }
  return modifiers.take("v8") ? 8 : 1;
}

template <Space space>
Handler access_handler(Type type, bool is_load, bool is_vector) {
  // Floats travel as their bits.
  const Type carried = type == Type::f32 ? Type::u32 : type == Type::f64 ? Type::u64 : type;
  return with_integer(carried, [&]<typename T>(Tag<T>) -> Handler {
    if (is_load) {
      return is_vector ? run_load_vector<space, T> : run_load<space, T>;
    }
    return is_vector ? run_store_vector<space, T> : run_store<space, T>;
  });
}

Handler access_handler(Space space, Type type, bool is_load, bool is_vector) {
  switch (space) {
    case Space::global:
      return access_handler<Space::global>(type, is_load, is_vector);
    case Space::constant:
      return access_handler<Space::constant>(type, is_load, is_vector);
    case Space::shared:
      return access_handler<Space::shared>(type, is_load, is_vector);
    case Space::local:
      return access_handler<Space::local>(type, is_load, is_vector);
    case Space::param:
      return access_handler<Space::param>(type, is_load, is_vector);
    default:
      return access_handler<Space::generic>(type, is_load, is_vector);
  }
}

Form access_form(bool is_load, Modifiers& modifiers) {
  take_any(modifiers, {"weak", "volatile"});
  Form form;
  form.shape = is_load ? Shape::load : Shape::store;
  form.space = take_space(modifiers, is_load);
  take_cache_hints(modifiers, form.space, is_load);
  form.vector = take_vector(modifiers);
  const Type type = modifiers.take_type();
  const std::uint32_t bytes = form.vector * size_bytes(type);
  if (type == Type::pred || bytes > (form.vector == 8 ? 32U : 16U)) {
    modifiers.refuse("no such access: at most 16 bytes, or .v8 of 32 bits");
  }
  form.types = {type, type, type, type};
  form.may_be_wider = true;
  form.handler = access_handler(form.space, type, is_load, form.vector > 1);
  form.flags = static_cast<std::uint16_t>(form.vector);
  return form;
}

}  // namespace

std::optional<Form> memory_form(std::string_view name, Modifiers& modifiers) {
  if (name == "ld" || name == "st") {
    return access_form(name == "ld", modifiers);
  }
  if (name == "prefetch") {
    if (!modifiers.take("global") || !take_any(modifiers, {"L1", "L2"})) {
      modifiers.refuse("only prefetch.global.L1 and .L2 are known");
    }
    Form form;
    form.shape = Shape::prefetch;
    form.space = Space::global;
    form.handler = run_prefetch;
    return form;
  }
  return std::nullopt;
}

}  // namespace spjit::emulated
