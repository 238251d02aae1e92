#include "spjit/operand.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/batch_item.hpp"
#include "spjit/arguments.hpp"

namespace spjit {
namespace {

static_assert(std::is_convertible_v<Operand, ConstOperand>);
static_assert(!std::is_convertible_v<ConstOperand, Operand>);
static_assert(std::is_convertible_v<const float*, ConstOperand>);
static_assert(!std::is_convertible_v<const float*, Operand>, "it is written");
static_assert(!std::is_convertible_v<const void*, ConstOperand>, "it has no type");
static_assert(!std::is_convertible_v<const double*, ConstOperand>);
static_assert(!std::is_convertible_v<const std::uint16_t*, ConstOperand>, "bf16 or f16?");
static_assert(std::is_same_v<decltype(std::declval<Operand>().as<float>()), float*>);
static_assert(std::is_same_v<decltype(std::declval<ConstOperand>().as<float>()), const float*>);

template <class T>
ConstOperand operand_of(const T& element) {
  return &element;
}

TEST(Operands, HaveTheTypeOfTheirPointer) {
  EXPECT_EQ(operand_of(1.0F).type, DataType::f32);
  EXPECT_EQ(operand_of(std::int32_t{1}).type, DataType::i32);
  EXPECT_EQ(operand_of(std::int8_t{1}).type, DataType::i8);
  EXPECT_EQ(operand_of(std::uint8_t{1}).type, DataType::u8);
}

TEST(Operands, OfOtherTypesStateThem) {
  const std::uint16_t element = 0x3f80;

  const ConstOperand operand{&element, DataType::bf16, {.ld = 5}};

  EXPECT_EQ(operand.data, &element);
  EXPECT_EQ(operand.type, DataType::bf16);
  EXPECT_EQ(operand.ld, 5);
}

TEST(Operands, AreAsCompiledByDefault) {
  const float element = 0;

  const Arguments arguments{.b = &element};

  EXPECT_EQ(arguments.b.as<float>(), &element);
  EXPECT_EQ(arguments.b.ld, 0);
  EXPECT_FALSE(arguments.b.layout.has_value());
  EXPECT_EQ(arguments.b.distance, 0);
  EXPECT_EQ(arguments.c.data, nullptr);
  EXPECT_EQ(arguments.c.type, DataType::f32);
  EXPECT_EQ(arguments.residual.data, nullptr);
}

TEST(Operands, AreReadWithAllThatTheyAreWrittenWith) {
  std::int8_t element = 0;
  const Operand written{&element, {.ld = 7, .distance = -9, .layout = Layout::tokens_major}};

  const ConstOperand read = written;

  EXPECT_EQ(read.data, &element);
  EXPECT_EQ(read.type, DataType::i8);
  EXPECT_EQ(read.ld, 7);
  EXPECT_EQ(read.layout, Layout::tokens_major);
  EXPECT_EQ(read.distance, -9);
}

TEST(Operands, KeepTheirStridesWhenAPointerIsAssigned) {
  const float first = 0;
  const std::int32_t second = 0;
  ConstOperand operand{&first, {.ld = 7, .distance = 3, .layout = Layout::tokens_major}};

  operand = &second;

  EXPECT_EQ(operand.data, &second);
  EXPECT_EQ(operand.type, DataType::i32);
  EXPECT_EQ(operand.ld, 7);
  EXPECT_EQ(operand.layout, Layout::tokens_major);
  EXPECT_EQ(operand.distance, 3);
  operand = nullptr;
  EXPECT_EQ(operand.data, nullptr);
  EXPECT_EQ(operand.ld, 7);
}

TEST(Operands, OfABatchAreElementsApart) {
  std::array<float, 20> floats = {};
  std::array<std::int8_t, 20> bytes = {};
  Arguments arguments{
      .b = {&bytes[4], {.distance = 3}}, .c = {&floats[9], {.distance = -4}}, .batch = 3};

  const Arguments last = item_of(arguments, 2);

  EXPECT_EQ(last.b.as<std::int8_t>(), &bytes[10]);
  EXPECT_EQ(last.c.as<float>(), &floats[1]);
  EXPECT_EQ(last.residual.data, nullptr);
  EXPECT_EQ(last.b.distance, 3);
  arguments.residual = {floats.data(), {.distance = 5}};
  EXPECT_EQ(item_of(arguments, 2).residual.as<float>(), &floats[10]);
  EXPECT_EQ(item_of(arguments, 0).residual.as<float>(), floats.data());
}

#ifndef NDEBUG
TEST(OperandsDeathTest, AreNotReadAsAnotherType) {
  const float element = 0;
  const ConstOperand operand = &element;

  EXPECT_DEATH(static_cast<void>(operand.as<std::int32_t>()), "type");
}
#endif

}  // namespace
}  // namespace spjit
