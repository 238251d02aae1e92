#include "base/arithmetic.hpp"

#include <fmt/format.h>

#include "spjit/error.hpp"

namespace spjit {

void throw_cast_overflow(std::string_view what, std::int64_t value, int bits) {
  throw InvalidArgument(
      fmt::format("{}: {} does not fit {} bits; use a smaller matrix, n or leading dimension", what,
                  value, bits));
}

void throw_overflow(std::string_view what, std::int64_t left, char operation, std::int64_t right) {
  throw InvalidArgument(
      fmt::format("{}: {} {} {} does not fit 63 bits; use a smaller matrix, n or leading dimension",
                  what, left, operation, right));
}

}  // namespace spjit
