#pragma once

/// @file
/// The JSON record of a kernel: what was compiled, what was chosen and why.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "kernels/kernel_family.hpp"

namespace spjit {

/// The answer of a family to a problem.
struct FamilyVerdict {
  std::string family;
  std::string reason;  ///< why it refused; of the last one, why it chose what it built
};

/// The members that every record has, and the family's own. docs/design/cache-format.md lists both.
/// The last verdict is that of the family that built it. Throws what the request's `cancel` throws.
[[nodiscard]] nlohmann::json make_record(const FamilyRequest& request, const BuiltKernel& built,
                                         const std::vector<FamilyVerdict>& verdicts);

}  // namespace spjit
