#include "rankmodel/time_kind.hpp"

#include <fmt/format.h>

#include "base/printable.hpp"
#include "spjit/error.hpp"

namespace spjit {

std::string_view to_string(TimeKind kind) noexcept {
  switch (kind) {
    case TimeKind::none:
      return "none";
    case TimeKind::measured:
      return "measured";
    case TimeKind::modelled:
      return "modelled";
  }
  return "?";
}

TimeKind parse_time_kind(std::string_view name) {
  for (const TimeKind kind : {TimeKind::none, TimeKind::measured, TimeKind::modelled}) {
    if (name == to_string(kind)) return kind;
  }
  throw Error(fmt::format("times are '{}'; expected none, measured or modelled", printable(name)));
}

}  // namespace spjit
