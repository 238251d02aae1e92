// Arguments of a plain run, which are checked by a shorter way, against what they touch.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "artifact/argument_checks.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

constexpr Layout k_rows = Layout::row_major;
constexpr Layout k_tokens = Layout::tokens_major;
constexpr std::int64_t k_floats = 400;

/// A [6 x 5], n = 4.
KernelInfo info_of(Layout b, Layout c, bool any_n, bool has_bias) {
  KernelInfo info;
  info.rows = 6;
  info.cols = 5;
  info.n = 4;
  info.runtime_n = any_n;
  info.b_layout = b;
  info.c_layout = c;
  info.ldb = b == k_tokens ? 7 : 4;
  info.ldc = c == k_tokens ? 6 : 5;
  info.epilogue.bias = has_bias;
  return info;
}

using Floats = std::set<const float*>;

Floats floats_of(const ConstOperand& operand, std::int64_t features, std::int64_t n) {
  const bool has_tokens = operand.layout == k_tokens;
  const std::int64_t width = has_tokens ? features : n;
  Floats floats;
  for (std::int64_t i = 0; i < features * n; ++i) {
    floats.insert(static_cast<const float*>(operand.data) + i / width * operand.ld + i % width);
  }
  return floats;
}

bool share(const Floats& left, const Floats& right) {
  return std::ranges::any_of(left, [&](const float* one) { return right.contains(one); });
}

/// "" if they are taken, and then what `checked_arguments` made of them.
std::string said_of(const KernelInfo& info, Arguments& arguments) {
  try {
    arguments = checked_arguments(info, arguments);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

class PlainArguments : public testing::Test {
 protected:
  std::int64_t draw(std::int64_t first, std::int64_t last) {
    return std::uniform_int_distribution(first, last)(random_);
  }
  template <class Value>
  Value one_of(const std::vector<Value>& values) {
    return values[static_cast<std::size_t>(draw(0, std::ssize(values) - 1))];
  }
  /// Nearly always somewhere in the memory.
  float* place() { return draw(0, 30) == 0 ? nullptr : memory_.data() + draw(0, 150); }
  Strides strides() {
    constexpr std::array k_lds = {0, 0, 4, 5, 6, 7, 12};
    return {.ld = k_lds.at(static_cast<std::size_t>(draw(0, std::ssize(k_lds) - 1))),
            .layout = one_of<std::optional<Layout>>({{}, k_rows, k_tokens})};
  }

 private:
  std::mt19937 random_{1};
  std::vector<float> memory_ = std::vector<float>(k_floats);
};

TEST_F(PlainArguments, AreTakenWhereSizesFitAndRefusedWhereAFloatOfCIsShared) {
  constexpr int k_runs = 20'000;
  int taken = 0;
  int shared = 0;
  for (int run = 0; run < k_runs; ++run) {
    const KernelInfo info =
        info_of(one_of<Layout>({k_rows, k_tokens}), one_of<Layout>({k_rows, k_tokens}),
                draw(0, 1) == 1, draw(0, 2) == 0);
    Arguments arguments{.b = {place(), strides()}, .c = {place(), strides()}};
    arguments.n = one_of<std::int64_t>({Arguments::k_as_compiled, 4, 4, 2, 6, -1});
    arguments.bias = draw(0, 8) == 0 || info.epilogue.bias ? place() : nullptr;
    Arguments sizes;
    std::string expected;
    try {
      sizes = checked_sizes(info, arguments);
    } catch (const InvalidArgument& error) {
      expected = error.what();
    }
    const bool is_complete = arguments.b.data != nullptr && arguments.c.data != nullptr &&
                             (arguments.bias != nullptr) == info.epilogue.bias;

    const std::string said = said_of(info, arguments);

    if (!expected.empty() || !is_complete) {
      EXPECT_NE(said, "");
      continue;
    }
    const Floats c = floats_of(sizes.c, info.rows, sizes.n);
    Floats read = floats_of(sizes.b, info.cols, sizes.n);
    for (int i = 0; info.epilogue.bias && i < info.rows; ++i) read.insert(arguments.bias + i);
    if (share(c, read)) {
      EXPECT_NE(said, "");
    } else if (*c.rbegin() < *read.begin() || *read.rbegin() < *c.begin()) {
      EXPECT_EQ(said, "");
    }
    shared += said != "" ? 1 : 0;
    if (said != "") continue;
    ++taken;
    EXPECT_EQ(arguments.n, sizes.n);
    EXPECT_EQ(arguments.b.ld, sizes.b.ld);
    EXPECT_EQ(arguments.c.ld, sizes.c.ld);
    EXPECT_EQ(arguments.b.layout, sizes.b.layout);
    EXPECT_EQ(arguments.c.layout, sizes.c.layout);
    EXPECT_EQ(arguments.residual.layout, sizes.c.layout);
  }
  EXPECT_GT(taken, k_runs / 20);
  EXPECT_GT(shared, k_runs / 20);
}

TEST_F(PlainArguments, OfWhatTheKernelDoesNotTakeAreRefused) {
  KernelInfo info = info_of(k_tokens, k_tokens, true, false);
  std::vector<float> memory(k_floats);
  const auto said_with = [&](const auto& change) {
    Arguments arguments{.b = memory.data(), .c = memory.data() + 200, .n = 2};
    change(arguments);
    return said_of(info, arguments);
  };

  EXPECT_EQ(said_with([](Arguments& /*given*/) {}), "");
  EXPECT_NE(said_with([](Arguments& given) { given.batch = -1; }), "");
  EXPECT_NE(said_with([](Arguments& given) { given.height = 1; }), "");
  EXPECT_NE(said_with([](Arguments& given) { given.width = 1; }), "");
  EXPECT_NE(said_with([](Arguments& given) { given.b.type = DataType::i8; }), "");
  EXPECT_NE(said_with([](Arguments& given) { given.c.type = DataType::i8; }), "");
  EXPECT_NE(said_with([&](Arguments& given) { given.scale = memory.data(); }), "");
  EXPECT_NE(said_with([&](Arguments& given) { given.residual = memory.data(); }), "");
  EXPECT_NE(said_with([](Arguments& given) { given.residual.layout = k_rows; }), "");
}

}  // namespace
}  // namespace spjit
