#include "number_checks.hpp"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>

#include "base/printable.hpp"

namespace spjit::cli {
namespace {

constexpr std::size_t k_longest_shown = 40;

/// `Number` as std::from_chars() reads it, which takes plain decimal text only. The text is written
/// anew, because the parser would take a number that begins with 0 for an octal one.
template <class Number>
CLI::Validator check_number(std::string_view what, Number least, Number most) {
  const auto check = [what, least, most](std::string& text) -> std::string {
    Number number{};
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    // Not "out of range": NaN is in none.
    const bool right = error == std::errc{} && rest == end && number >= least && number <= most;
    if (!right) {
      return fmt::format("expected a {} from {} to {}, not '{}'", what, least, most,
                         printable(text, k_longest_shown));
    }
    text = fmt::format("{}", number);
    return {};
  };
  return {check, ""};
}

}  // namespace

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  return check_number("whole number", least, most);
}

CLI::Validator seed_number() {
  return check_number("whole number", std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max());
}

CLI::Validator real_number(double least, double most) {
  return check_number("number", least, most);
}

}  // namespace spjit::cli
