#include "base/quantities.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <limits>
#include <system_error>
#include <utility>

#include "base/printable.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

constexpr std::int64_t k_day = std::int64_t{24} * 60 * 60;
constexpr std::int64_t k_most_seconds = 36500 * k_day;

constexpr auto k_units = std::to_array<std::pair<std::string_view, std::int64_t>>(
    {{"s", 1}, {"m", 60}, {"h", 60 * 60}, {"d", k_day}, {"w", 7 * k_day}});

}  // namespace

std::int64_t parse_byte_size(std::string_view text, std::string_view what) {
  constexpr std::string_view k_letters = "KMGTkmgt";
  constexpr std::size_t k_powers = 4;
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  std::int64_t unit = 1;
  bool right = error == std::errc{} && number >= 0;
  if (right && rest != end) {
    const std::size_t letter = k_letters.find(*rest);
    right = rest + 1 == end && letter != std::string_view::npos;
    if (right) unit = std::int64_t{1} << (10 * (letter % k_powers + 1));
  }
  if (!right || number > std::numeric_limits<std::int64_t>::max() / unit) {
    throw InvalidArgument(
        fmt::format("{} is '{}': expected bytes, or a number with K, M, G or T (powers of 1024), "
                    "such as 2G",
                    what, text));
  }
  return number * unit;
}

std::chrono::seconds parse_duration(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view suffix = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const auto& [name, seconds] : k_units) {
    const bool fits =
        error == std::errc{} && !text.starts_with('-') && number <= k_most_seconds / seconds;
    if (fits && suffix == name) return std::chrono::seconds(number * seconds);
  }
  throw InvalidArgument(
      fmt::format("time '{}': expected a whole number with s, m, h, d or w after it (seconds to "
                  "weeks), such as 30d, at most 36500d",
                  printable(text)));
}

}  // namespace spjit
