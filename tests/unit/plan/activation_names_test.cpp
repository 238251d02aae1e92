#include <gtest/gtest.h>

#include <string_view>

#include "spjit/epilogue.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

TEST(ActivationNames, AreSpelledAsDocumentedAndReadBack) {
  const std::pair<Activation, std::string_view> names[] = {
      {Activation::none, "none"},
      {Activation::relu, "relu"},
      {Activation::gelu_erf, "gelu"},
      {Activation::gelu_tanh, "gelu-tanh"},
      {Activation::silu, "silu"},
      {Activation::clamp, "clamp"},
      {Activation::hard_swish, "hard-swish"},
      {Activation::leaky_relu, "leaky-relu"},
      {Activation::hard_sigmoid, "hard-sigmoid"},
      {Activation::sigmoid, "sigmoid"},
      {Activation::tanh, "tanh"},
  };
  for (const auto& [activation, name] : names) {
    EXPECT_EQ(to_string(activation), name);
    EXPECT_EQ(parse_activation(name), activation);
  }
}

TEST(ActivationNames, RefuseOthersAndSayWhatIsExpected) {
  for (const std::string_view name : {"", "ReLU", "gelu_tanh", "silu "}) {
    EXPECT_THROW(static_cast<void>(parse_activation(name)), InvalidArgument) << name;
  }
  try {
    static_cast<void>(parse_activation("swish"));
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(),
                 "activation \"swish\" is unknown; expected none, relu, gelu, gelu-tanh, silu, "
                 "clamp, hard-swish, leaky-relu, hard-sigmoid, sigmoid or tanh");
  }
}

}  // namespace
}  // namespace spjit
