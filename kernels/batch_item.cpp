#include "kernels/batch_item.hpp"

#include <cstddef>
#include <type_traits>

#include "spjit/data_type.hpp"

namespace spjit {
namespace {

/// Runs of small layers move their operands as often as they compute: most are f32.
std::int64_t element_bytes(DataType type) {
  return type == DataType::f32 ? std::int64_t{sizeof(float)} : bytes_of(type);
}

template <class Data>
void move_to_item(BasicOperand<Data>& operand, std::int64_t item) {
  using Byte = std::conditional_t<std::is_const_v<Data>, const std::byte, std::byte>;
  operand.data =
      static_cast<Byte*>(operand.data) + item * operand.distance * element_bytes(operand.type);
}

}  // namespace

Arguments item_of(Arguments arguments, std::int64_t item) {
  move_to_item(arguments.b, item);
  move_to_item(arguments.c, item);
  if (arguments.residual.data != nullptr) move_to_item(arguments.residual, item);
  return arguments;
}

}  // namespace spjit
