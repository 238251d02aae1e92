#pragma once

/// @file
/// How large a record may become: an index of a bundle has those of thousands of kernels.

#include <cstddef>
#include <nlohmann/json_fwd.hpp>

namespace spjit {

/// As text without spaces.
inline constexpr std::size_t k_most_record_bytes = 8192;
/// Bytes of these for a kernel's check, which is written into the record once it has run.
inline constexpr std::size_t k_verification_bytes = 512;

/// A record from make_record() in at most that many bytes. Texts that have no bound end in dots. Of
/// "search.entries" those go first that were not timed, then those timed by a proxy, of equals the
/// lowest ranked. What was chosen stays. "search.entries_left_out" is their number; it is not there
/// where all stay. Over the limit is only what is not bounded by spjit: a path of a rank model,
/// say, of 5000 bytes.
[[nodiscard]] nlohmann::json limited_record(nlohmann::json record);

}  // namespace spjit
