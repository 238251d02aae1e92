#include "kernels/host/operands/held_values.hpp"

#include <utility>

#include "base/arithmetic.hpp"
#include "kernels/host/operands/half_floats.hpp"

namespace spjit {

HeldValues::HeldValues(HeldType type, FloatBuffer values)
    : type_(type), bytes_(static_cast<std::int64_t>(values.size()) * bytes_of(type)) {
  if (type == HeldType::f32) {
    memory_ = std::move(values);
    return;
  }
  memory_ = FloatBuffer(to_size(ceil_div(bytes_, std::int64_t{sizeof(float)})));
  const auto count = static_cast<std::int64_t>(values.size());
  if (type == HeldType::i8) {
    auto* const to = reinterpret_cast<std::int8_t*>(memory_.data());
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<std::int8_t>(values.data()[i]);
    return;
  }
  const DataType half = type == HeldType::bf16 ? DataType::bf16 : DataType::f16;
  round_of(half, HostIsa::generic)(values.data(), count,
                                   reinterpret_cast<std::uint16_t*>(memory_.data()));
}

}  // namespace spjit
