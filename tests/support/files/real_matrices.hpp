#pragma once

/// @file
/// The real matrices that tests read from ../shared/data; without it they skip.

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/spmm_testing.hpp"

namespace spjit::testing_support {

/// Matrices below a folder of the data, in a fixed order. Dense operands that lie beside them are
/// none of them.
[[nodiscard]] inline std::vector<std::filesystem::path> matrix_files(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code missing;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(data_directory() / folder, missing)) {
    const std::filesystem::path name = entry.path().filename();
    const std::string extension = entry.path().extension().string();
    const bool matrix =
        extension == ".smtx" || extension == ".mtx" || extension == ".npy" || extension == ".npz";
    if (matrix && name != "BC.npy" && name != "ref.npy") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace spjit::testing_support
