#pragma once

/// @file
/// A product that the rules choose a family for, drawn at random, and how long each family takes.

#include <cstdint>
#include <string>

#include "kernels/host/training/choice_samples.hpp"
#include "runtime/host/host_device_info.hpp"
#include "spjit/matrix.hpp"
#include "spjit/target.hpp"

namespace spjit::bench {

/// The case of that number: sides of 16 to 16384, 50 to 99 % zeros, n of 1 to 4096, each from a
/// list. Cases of more than 6 million nonzeros or 600 million products are drawn again.
[[nodiscard]] ChoiceCase draw_case(std::uint64_t seed, std::int64_t number, bool hot);

/// The case of a matrix in a file.
[[nodiscard]] ChoiceCase file_case(const std::string& file, std::int64_t n, bool hot);

/// The matrix of a case: the same numbers on every machine. Throws IoError for a file that is not
/// there.
[[nodiscard]] CsrMatrix matrix_of(const ChoiceCase& what);

/// The family that the rules choose on a host; nothing is compiled.
[[nodiscard]] std::string family_chosen(const ChoiceCase& what, const CsrMatrix& matrix,
                                        const HostDeviceInfo& limits);

}  // namespace spjit::bench
