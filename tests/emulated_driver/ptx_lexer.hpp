#pragma once

#include <cstdint>
#include <string_view>

#include "emulated_driver/ptx_type.hpp"

namespace spjit::emulated {

struct Token {
  std::string_view text;   ///< empty at the end
  std::uint32_t line = 1;  ///< from 1

  [[nodiscard]] bool is_number() const { return !text.empty() && text[0] >= '0' && text[0] <= '9'; }
};

/// Cuts PTX into words (with their dots and %), numbers, strings and single signs; comments are
/// skipped. The text must outlive the tokens.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { advance(); }

  [[nodiscard]] const Token& peek() const noexcept { return current_; }
  Token next();
  /// True, and one further, if the next token is `text`.
  bool take(std::string_view text);
  /// As take(), but throws if the next token is another.
  void expect(std::string_view text);

  [[nodiscard]] bool at_end() const noexcept { return current_.text.empty(); }

 private:
  void advance();
  void skip_blanks();

  std::string_view text_;
  std::size_t position_ = 0;
  std::uint32_t line_ = 1;
  Token current_;
};

/// The bits of number `token`, with `negative` for a minus before it, as a value of `type`. Throws
/// if it is not one: integers have to fit, 0f... is for f32 and b32, 0d... for f64 and b64.
[[nodiscard]] std::uint64_t parse_number(const Token& token, bool negative, Type type);

}  // namespace spjit::emulated
