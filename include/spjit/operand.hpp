#pragma once

/// @file
/// B, C or a residual of a run.

#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "spjit/data_type.hpp"
#include "spjit/layout.hpp"

namespace spjit {

/// C++ types that are elements. bf16, f16 and i4 have none.
template <class T>
concept ElementType = std::same_as<T, float> || std::same_as<T, std::int32_t> ||
    std::same_as<T, std::int8_t> || std::same_as<T, std::uint8_t>;

template <ElementType T>
inline constexpr DataType k_data_type_of = std::same_as<T, float>          ? DataType::f32
                                           : std::same_as<T, std::int32_t> ? DataType::i32
                                           : std::same_as<T, std::int8_t>  ? DataType::i8
                                                                           : DataType::u8;

/// Elements that an operand of `Data`, void or const void, can be of.
template <class T, class Data>
concept ElementTypeOf = ElementType<std::remove_const_t<T>> && std::convertible_to<T*, Data*>;

/// How the elements of an operand follow one another. All distances count elements.
struct Strides {
  /// Between rows; tokens-major: between tokens. 0: as compiled; where n or the layout is another
  /// one, a row or token follows the last without a gap. Panels have none. Tokens of B and of a
  /// residual may overlap.
  std::int64_t ld = 0;
  std::int64_t distance = 0;          ///< between products of a batch; may be negative
  std::optional<Layout> layout = {};  ///< default: as compiled
};

/// An operand in memory of the caller. `Data` is void or const void.
template <class Data>
struct BasicOperand : Strides {
  DataType type = DataType::f32;
  Data* data = nullptr;  ///< the first element; null: none

  BasicOperand() = default;
  BasicOperand(std::nullptr_t, const Strides& strides = {}) : Strides(strides) {}
  /// The type of the elements is T's.
  template <ElementTypeOf<Data> T>
  BasicOperand(T* elements, const Strides& strides = {})
      : Strides(strides), type(k_data_type_of<std::remove_const_t<T>>), data(elements) {}
  /// For types that C++ lacks.
  BasicOperand(Data* elements, DataType type_in, const Strides& strides = {})
      : Strides(strides), type(type_in), data(elements) {}
  /// An operand to read is made of one to write.
  template <std::same_as<void> Other>
  requires std::is_const_v<Data> BasicOperand(const BasicOperand<Other>& other)
      : BasicOperand(other.data, other.type, other) {}

  /// Changes where the elements are, and their type; the strides stay.
  template <ElementTypeOf<Data> T>
  BasicOperand& operator=(T* elements) {
    data = elements;
    type = k_data_type_of<std::remove_const_t<T>>;
    return *this;
  }
  BasicOperand& operator=(std::nullptr_t) {
    data = nullptr;
    return *this;
  }

  /// The elements, whose type is T's.
  template <ElementType T>
  [[nodiscard]] auto as() const noexcept {
    assert(data == nullptr || type == k_data_type_of<T>);
    return static_cast<std::conditional_t<std::is_const_v<Data>, const T, T>*>(data);
  }
};

using Operand = BasicOperand<void>;             ///< is written
using ConstOperand = BasicOperand<const void>;  ///< is read

}  // namespace spjit
