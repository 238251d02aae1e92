#pragma once

/// @file
/// Files of numbers that belong to the rows of A.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "spjit/group_scales.hpp"
#include "spjit/matrix.hpp"
#include "tools/report/terminal.hpp"

namespace spjit::cli {

/// `[m]` floats of an epilogue. Without a path they are made up where a kernel runs.
struct OperandFile {
  std::filesystem::path path;
  std::vector<float> values;  ///< once read_operands() has run
};

/// Scales of groups of A's columns. They are part of a kernel.
struct GroupScalesFile {
  std::filesystem::path path;
  std::int64_t columns = 0;  ///< of a group; 0: not said
  std::int64_t rows = 0;     ///< of the file, once read_operands() has run
  std::int64_t groups = 0;   ///< the same
  std::shared_ptr<const GroupScales> scales;
};

struct OperandFiles {
  OperandFile scale;
  OperandFile bias;
  GroupScalesFile group_scales;
};

/// Reads the files that were named. Throws IoError for one that is no `.npy` of one dimension, of
/// group scales no `.npy` or `.npz`; InvalidArgument for half of the options of
/// group scales.
void read_operands(OperandFiles& files);

/// Throws InvalidArgument unless each file has a number for each row of A, that of group scales one
/// for each row and group.
void check_shape(const OperandFiles& files, const CsrMatrix& matrix);

/// {"scale": null or path, "bias": the same, "group_scales": null or {"path", "columns"}}.
[[nodiscard]] Json describe(const OperandFiles& files);

}  // namespace spjit::cli
