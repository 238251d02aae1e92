#pragma once

/// @file
/// The matrices the host benchmark runs on.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "spjit/matrix.hpp"

namespace spjit::bench {

/// A matrix to be made when its turn comes, so that only one is in memory.
struct MatrixSource {
  std::string name;    ///< path below the folder without extension, or the generator's options
  std::string source;  ///< "dlmc" or "generated"
  std::filesystem::path file;  ///< empty: generated
  std::int64_t rows = 0;       ///< generated only, as the following
  std::int64_t cols = 0;
  double sparsity = 0;
  bool large = false;  ///< the one for the goal on 2M nonzeros: one n, one thread

  [[nodiscard]] CsrMatrix load() const;
};

/// Every `.smtx` below `folder`, sorted; where there is none, generated matrices of the shapes and
/// sparsities the goals name. In both cases those shapes that DLMC has no file for here (2048 x
/// 1024 and others at 90 and 95 %) and a 4096 x 4096 one with 2M nonzeros follow.
[[nodiscard]] std::vector<MatrixSource> list_matrix_sources(const std::filesystem::path& folder);

}  // namespace spjit::bench
