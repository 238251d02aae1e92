#include "emulated_driver/ptx_lexer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "emulated_driver/program_error.hpp"

namespace spjit::emulated {

namespace {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%' ||
         c == '.';
}

[[noreturn]] void refuse_number(const Token& token, Type type) {
  throw ProgramError(FaultKind::invalid_ptx,
                     fmt::format("'{}' is not a number of type .{}", token.text, name_of(type)));
}

std::uint64_t parse_digits(const Token& token, std::string_view digits, int base, Type type) {
  std::uint64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value, base);
  if (error != std::errc() || stop != end || digits.empty()) {
    refuse_number(token, type);
  }
  return value;
}

}  // namespace

Token Lexer::next() {
  const Token token = current_;
  advance();
  return token;
}

bool Lexer::take(std::string_view text) {
  if (current_.text != text) {
    return false;
  }
  advance();
  return true;
}

void Lexer::expect(std::string_view text) {
  if (!take(text)) {
    throw ProgramError(FaultKind::invalid_ptx,
                       fmt::format("'{}' is expected, not '{}'", text, current_.text));
  }
}

void Lexer::skip_blanks() {
  while (position_ < text_.size()) {
    const std::string_view rest = text_.substr(position_);
    if (rest.starts_with("//")) {
      position_ += std::min(rest.find('\n'), rest.size());
    } else if (rest.starts_with("/*")) {
      const std::size_t length = std::min(rest.find("*/"), rest.size() - 2) + 2;
      line_ += static_cast<std::uint32_t>(
          std::count(rest.begin(), rest.begin() + static_cast<long>(length), '\n'));
      position_ += length;
    } else if (std::isspace(static_cast<unsigned char>(rest[0])) != 0) {
      line_ += rest[0] == '\n' ? 1U : 0U;
      ++position_;
    } else {
      return;
    }
  }
}

void Lexer::advance() {
  skip_blanks();
  const std::string_view rest = text_.substr(position_);
  std::size_t length = std::min<std::size_t>(rest.size(), 1);
  if (!rest.empty() && rest[0] == '"') {
    length = std::min(rest.find('"', 1), rest.size() - 1) + 1;
  } else if (!rest.empty() && is_word(rest[0])) {
    while (length < rest.size()) {
      if (is_word(rest[length])) {
        ++length;
      } else if (rest.substr(length).starts_with("::")) {
        length += 2;  // L1::no_allocate
      } else {
        break;
      }
    }
  }
  current_ = {rest.substr(0, length), line_};
  position_ += length;
}

std::uint64_t parse_number(const Token& token, bool negative, Type type) {
  std::string_view digits = token.text;
  if (digits.starts_with("0f") || digits.starts_with("0F")) {
    if ((type != Type::f32 && type != Type::b32) || digits.size() != 10 || negative) {
      refuse_number(token, type);
    }
    return parse_digits(token, digits.substr(2), 16, type);
  }
  if (digits.starts_with("0d") || digits.starts_with("0D")) {
    if ((type != Type::f64 && type != Type::b64) || digits.size() != 18 || negative) {
      refuse_number(token, type);
    }
    return parse_digits(token, digits.substr(2), 16, type);
  }
  if (is_float(type) || type == Type::pred || !token.is_number()) {
    refuse_number(token, type);
  }
  if (digits.ends_with('U')) {
    digits.remove_suffix(1);
  }
  const bool is_hex = digits.starts_with("0x") || digits.starts_with("0X");
  const std::uint64_t magnitude =
      parse_digits(token, is_hex ? digits.substr(2) : digits, is_hex ? 16 : 10, type);
  const std::uint32_t bits = 8 * size_bytes(type);
  const std::uint64_t mask = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  if (negative ? magnitude > mask / 2 + 1 : magnitude > mask) {
    refuse_number(token, type);
  }
  return (negative ? 0 - magnitude : magnitude) & mask;
}

}  // namespace spjit::emulated
