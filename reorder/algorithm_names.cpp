#include <fmt/format.h>

#include "spjit/error.hpp"
#include "spjit/reorder.hpp"

namespace spjit {

ReorderAlgorithm parse_reorder(std::string_view name) {
  if (name == "none") return ReorderAlgorithm::none;
  if (name == "balanced") return ReorderAlgorithm::balanced;
  if (name == "similarity") return ReorderAlgorithm::similarity;
  if (name == "auto") return ReorderAlgorithm::automatic;
  throw InvalidArgument(
      fmt::format("unknown reorder algorithm '{}': expected none, balanced, similarity or auto; "
                  "choose one of these",
                  name));
}

std::string_view to_string(ReorderAlgorithm algorithm) {
  switch (algorithm) {
    case ReorderAlgorithm::none:
      return "none";
    case ReorderAlgorithm::balanced:
      return "balanced";
    case ReorderAlgorithm::similarity:
      return "similarity";
    case ReorderAlgorithm::automatic:
      return "auto";
  }
  throw InvalidArgument(
      fmt::format("reorder algorithm {} is none of the enumerators: expected none, balanced, "
                  "similarity or automatic; pass one of these",
                  static_cast<int>(algorithm)));
}

}  // namespace spjit
