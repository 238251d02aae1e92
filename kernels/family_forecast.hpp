#pragma once

/// @file
/// How fast families are predicted to be.

#include <string>
#include <string_view>
#include <vector>

namespace spjit {

/// Empty: nobody predicts.
struct FamilyForecast {
  struct Entry {
    std::string_view family;
    double log2_time = 0;  ///< of its time over that of the fastest, as the model has it
  };

  std::string model = {};  ///< its name
  std::vector<Entry> families = {};

  [[nodiscard]] bool empty() const noexcept { return families.empty(); }
};

}  // namespace spjit
