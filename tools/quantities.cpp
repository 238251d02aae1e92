#include "quantities.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <system_error>
#include <utility>

#include "spjit/error.hpp"
#include "terminal.hpp"

namespace spjit::cli {
namespace {

constexpr std::int64_t k_day = std::int64_t{24} * 60 * 60;
constexpr std::int64_t k_most_seconds = 36500 * k_day;

constexpr auto k_units = std::to_array<std::pair<std::string_view, std::int64_t>>(
    {{"s", 1}, {"m", 60}, {"h", 60 * 60}, {"d", k_day}, {"w", 7 * k_day}});

}  // namespace

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

}  // namespace spjit::cli
