#include "base/identifiers.hpp"

#include <gtest/gtest.h>

namespace {

using spjit::is_function_name;
using spjit::is_reserved_word;

TEST(Identifiers, ReserveKeywordsOfCppAndMain) {
  for (const char* word : {"alignas", "int", "co_await", "xor_eq", "main", "while"}) {
    EXPECT_TRUE(is_reserved_word(word)) << word;
  }
  for (const char* word : {"layer", "Int", "in", "override", "", "xor_eqq"}) {
    EXPECT_FALSE(is_reserved_word(word)) << word;
  }
}

TEST(Identifiers, NameAFunctionWithLettersDigitsAndUnderscores) {
  for (const char* name : {"a", "layer_1", "_x", "Q0"}) EXPECT_TRUE(is_function_name(name)) << name;
  for (const char* name : {"", "1a", "a-b", "a b", "a\n", "for", "\xC3\xA4", "a;b", "a\"b"}) {
    EXPECT_FALSE(is_function_name(name)) << name;
  }
}

TEST(Identifiers, LeaveTheImplementationsNamesAlone) {
  for (const char* name : {"a__b", "__a", "a__", "_Layer", "_A"}) {
    EXPECT_FALSE(is_function_name(name)) << name;
  }
  for (const char* name : {"_layer", "_1", "_", "a_B", "A_"}) {
    EXPECT_TRUE(is_function_name(name)) << name;
  }
}

TEST(Identifiers, AreNotWhatAnEmittedHeaderIncludes) {
  for (const char* name :
       {"spjit", "std", "size_t", "int8_t", "uint64_t", "uintptr_t", "max_align_t", "exit", "abort",
        "abs", "NULL", "EOF", "errno", "assert", "stdin", "stdout", "stderr", "INT_MAX"}) {
    EXPECT_FALSE(is_function_name(name)) << name;
    EXPECT_FALSE(is_reserved_word(name)) << name;
  }
  for (const char* name : {"spjit_layer", "size", "Null", "int8", "exp", "vector"}) {
    EXPECT_TRUE(is_function_name(name)) << name;
  }
}

}  // namespace
