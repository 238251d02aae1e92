#pragma once

/// @file
/// The disk of a machine that lost power: it has all but what no fsync() came after.

#include <filesystem>
#include <ostream>
#include <vector>

#include "fault_injector.hpp"

namespace spjit::test {

/// Changes without a sync that are lost; file systems differ.
enum class PowerLoss : std::uint8_t {
  content,              ///< of files: they are empty then. Names stay, as where they are journaled
  content_and_names,    ///< and files are gone from directories that were not synced
  content_and_renames,  ///< and what was renamed has its old name
};

inline std::ostream& operator<<(std::ostream& stream, PowerLoss loss) {
  constexpr const char* k_names[] = {"content", "content and names", "content and renames"};
  return stream << k_names[static_cast<std::size_t>(loss)];
}

/// Takes from the files below `root` what is lost after these changes.
void lose_power(const std::filesystem::path& root, const std::vector<FileEvent>& journal,
                PowerLoss loss);

}  // namespace spjit::test
