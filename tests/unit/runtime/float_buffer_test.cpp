#include "base/float_buffer.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <new>

namespace {

using spjit::FloatBuffer;

TEST(FloatBuffer, BeginsAtACacheLine) {
  const FloatBuffer buffer(3);

  EXPECT_EQ(buffer.size(), 3U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % FloatBuffer::k_alignment, 0U);
}

// 2^62 floats are 2^64 bytes: a product that wraps around to 0.
TEST(FloatBuffer, RefusesMoreBytesThanCanBeCounted) {
  EXPECT_THROW(FloatBuffer(std::size_t{1} << 62), std::bad_array_new_length);
}

}  // namespace
