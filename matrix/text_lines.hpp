#pragma once

/// @file
/// Text files, taken apart into lines, words and numbers without copying. Nothing here depends on
/// the locale.

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "spjit/error.hpp"

namespace spjit {

/// Walks over the lines of a text and knows where it is, for error messages.
class TextLines {
 public:
  /// Both views must outlive the object. `name` is what errors call the text: the file's path.
  TextLines(std::string_view text, std::string_view name) : rest_(text), name_(name) {}

  /// Goes to the next line; false at the end of the text. Before the first call there is no line.
  bool next();

  /// The line without its end ("\n" or "\r\n").
  [[nodiscard]] std::string_view line() const { return line_; }
  /// Its number, from 1; past the end, the number of the last line.
  [[nodiscard]] std::int64_t number() const { return number_; }
  /// Bytes after this line.
  [[nodiscard]] std::size_t bytes_left() const { return rest_.size(); }

  /// Throws IoError "name:line: reason".
  [[noreturn]] void fail(const std::string& reason) const;
  /// "name:line: reason", for errors of another type.
  [[nodiscard]] std::string located(const std::string& reason) const;

 private:
  std::string_view rest_;
  std::string_view name_;
  std::string_view line_;
  std::int64_t number_ = 0;
};

/// Walks over the words of a line. Blanks separate words; so does a comma where `commas` says so.
class Words {
 public:
  explicit Words(std::string_view line, bool commas = false) : rest_(line), commas_(commas) {}

  /// The next word, empty at the end.
  [[nodiscard]] std::string_view next();

 private:
  std::string_view rest_;
  bool commas_;
};

/// A word fit for an error message: in quotes, at most 24 characters, nothing unprintable.
[[nodiscard]] std::string quoted_word(std::string_view word);

/// The whole word as a decimal integer; nothing if it is not one, or does not fit 64 bits.
[[nodiscard]] std::optional<std::int64_t> parse_integer(std::string_view word);

enum class NumberError { none, not_a_number, too_large };

struct ParsedFloat {
  float value = 0;
  NumberError error = NumberError::none;
};

/// The whole word as a decimal number, "nan" or "inf", rounded once to the nearest fp32. What is
/// too small for fp32 becomes a denormal or 0; a finite number that would round to infinity is
/// `too_large`.
[[nodiscard]] ParsedFloat parse_float(std::string_view word);

/// Throws IoError: what was read, and what is wrong with it.
[[noreturn]] inline void fail_to_read(std::string_view name, const std::string& reason) {
  throw IoError(fmt::format("{}: {}", name, reason));
}

}  // namespace spjit
