#include "matrix/text_lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/number_text.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }

// from_chars takes no plus sign, files have some.
std::string_view without_plus(std::string_view word) {
  if (word.size() > 1 && word[0] == '+' && word[1] != '-') {
    word.remove_prefix(1);
  }
  return word;
}

// The power of ten of the first digit that is not 0. from_chars says "out of range" to what is too
// small and to what is too large alike; the sign of this tells them apart.
std::int64_t decimal_magnitude(std::string_view word) {
  const std::size_t mark = std::min(word.find_first_of("eE"), word.size());
  const std::string_view digits = word.substr(0, mark);
  const std::size_t first = digits.find_first_of("123456789");
  if (first == std::string_view::npos) {
    return -1;
  }
  const std::size_t point = std::min(digits.find('.'), digits.size());
  const std::int64_t shift = static_cast<std::int64_t>(point) - static_cast<std::int64_t>(first);
  if (mark == word.size()) {
    return shift;
  }
  const std::string_view exponent = word.substr(mark + 1);
  const std::int64_t far = exponent.starts_with('-') ? INT32_MIN : INT32_MAX;
  return shift +
         std::clamp<std::int64_t>(parse_integer(exponent).value_or(far), INT32_MIN, INT32_MAX);
}

ParsedFloat parse_out_of_range(std::string_view word) {
  if (decimal_magnitude(word) > 0) {
    return {0, NumberError::too_large};
  }
  // Rounding twice is harmless here: from_chars refuses what rounds to 0, and so will the cast.
  double tiny = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), tiny);
  if (error == std::errc::result_out_of_range) {
    tiny = word.starts_with('-') ? -0.0 : 0.0;
  }
  return {static_cast<float>(tiny), NumberError::none};
}

}  // namespace

bool TextLines::next() {
  if (rest_.empty()) {
    return false;
  }
  const std::size_t end = rest_.find('\n');
  line_ = rest_.substr(0, end);
  rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
  if (line_.ends_with('\r')) {
    line_.remove_suffix(1);
  }
  ++number_;
  return true;
}

std::string TextLines::located(const std::string& reason) const {
  return fmt::format("{}:{}: {}", name_, std::max<std::int64_t>(number_, 1), reason);
}

void TextLines::fail(const std::string& reason) const { throw IoError(located(reason)); }

std::string_view Words::next() {
  const auto separates = [this](char c) { return is_blank(c) || (commas_ && c == ','); };
  std::size_t begin = 0;
  while (begin < rest_.size() && separates(rest_[begin])) {
    ++begin;
  }
  std::size_t end = begin;
  while (end < rest_.size() && !separates(rest_[end])) {
    ++end;
  }
  const std::string_view word = rest_.substr(begin, end - begin);
  rest_.remove_prefix(end);
  return word;
}

std::string quoted_word(std::string_view word) {
  constexpr std::size_t k_longest = 24;
  std::string text = "'";
  for (const char c : word.substr(0, k_longest)) {
    text += c >= ' ' && c <= '~' ? c : '?';
  }
  return text + (word.size() > k_longest ? "...'" : "'");
}

std::optional<std::int64_t> parse_integer(std::string_view word) {
  return read_number<std::int64_t>(without_plus(word));
}

ParsedFloat parse_float(std::string_view word) {
  word = without_plus(word);
  float value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (end != word.data() + word.size() || error == std::errc::invalid_argument) {
    return {0, NumberError::not_a_number};
  }
  if (error == std::errc::result_out_of_range) {
    return parse_out_of_range(word);
  }
  return {value, NumberError::none};
}

}  // namespace spjit
