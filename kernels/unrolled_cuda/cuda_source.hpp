#pragma once

/// @file
/// A piece of source text on its way to a compiler of NVIDIA's.

#include <cstdint>
#include <string>
#include <vector>

namespace spjit {

/// What a SourceUnit is written in.
enum class SourceLanguage : std::uint8_t {
  cuda,  ///< CUDA C++17, for NVRTC or nvcc
  ptx,   ///< PTX, for nvJitLink or ptxas
};

/// Text that is compiled on its own. The first unit of a program holds the kernel; a program of one
/// unit is whole, the units of a longer one are relocatable and have to be linked.
struct SourceUnit {
  std::string name;  ///< e.g. "spjit_unit_3", for file names and logs
  SourceLanguage language = SourceLanguage::cuda;
  std::string text;
  std::string kernel;                     ///< the kernel it defines; empty in every unit but one
  std::vector<std::string> functions;     ///< the tile functions it defines, in order
  std::int64_t nonzeros = 0;              ///< FMAs a thread of all its functions together
  std::int64_t estimated_code_bytes = 0;  ///< machine code, see estimate_code_bytes()
  bool relocatable = false;               ///< has to be linked with the program's other units
};

}  // namespace spjit
