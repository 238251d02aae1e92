#include "compiler/identifiers.hpp"

#include <algorithm>
#include <array>

namespace spjit {
namespace {

// Ascending. [lex.key] and [lex.digraph] of C++20.
constexpr auto k_reserved = std::to_array<std::string_view>(
    {"alignas",      "alignof",      "and",           "and_eq",
     "asm",          "auto",         "bitand",        "bitor",
     "bool",         "break",        "case",          "catch",
     "char",         "char16_t",     "char32_t",      "char8_t",
     "class",        "co_await",     "co_return",     "co_yield",
     "compl",        "concept",      "const",         "const_cast",
     "consteval",    "constexpr",    "constinit",     "continue",
     "decltype",     "default",      "delete",        "do",
     "double",       "dynamic_cast", "else",          "enum",
     "explicit",     "export",       "extern",        "false",
     "float",        "for",          "friend",        "goto",
     "if",           "inline",       "int",           "long",
     "main",         "mutable",      "namespace",     "new",
     "noexcept",     "not",          "not_eq",        "nullptr",
     "operator",     "or",           "or_eq",         "private",
     "protected",    "public",       "register",      "reinterpret_cast",
     "requires",     "return",       "short",         "signed",
     "sizeof",       "static",       "static_assert", "static_cast",
     "struct",       "switch",       "template",      "this",
     "thread_local", "throw",        "true",          "try",
     "typedef",      "typeid",       "typename",      "union",
     "unsigned",     "using",        "virtual",       "void",
     "volatile",     "wchar_t",      "while",         "xor",
     "xor_eq"});
static_assert(std::ranges::is_sorted(k_reserved));

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

bool is_reserved_word(std::string_view text) noexcept {
  return std::ranges::binary_search(k_reserved, text);
}

bool is_function_name(std::string_view text) noexcept {
  return !text.empty() && !is_digit(text.front()) &&
         std::ranges::all_of(text, [](char c) { return is_letter(c) || is_digit(c); }) &&
         !is_reserved_word(text);
}

}  // namespace spjit
