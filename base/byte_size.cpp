#include "base/byte_size.hpp"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <system_error>

#include "spjit/error.hpp"

namespace spjit {

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

}  // namespace spjit
