#pragma once

/// @file
/// Files that `spjit compile --out` writes for a layer.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "spjit/kernel.hpp"
#include "terminal.hpp"

namespace spjit::cli {

struct EmitOptions {
  std::filesystem::path directory;  ///< empty: nothing is written
  bool object = true;               ///< NAME.o: an ELF object to link into a program
  bool header = true;               ///< NAME.hpp: the function that makes a kernel of it
  bool json = true;                 ///< NAME.json: shape, tile, record, times
  bool assembly = false;            ///< NAME.asm: its machine code as text; needs LLVM
  bool cubin = true;                ///< NAME.cubin: the code of a GPU kernel
  bool cuda_source = true;          ///< NAME.cu: a GPU kernel as CUDA C++
  bool ptx = true;                  ///< NAME.ptx: a GPU kernel as PTX
};

/// Takes "obj", "header", "json" and "asm" for the host, "cubin", "cu", "ptx" and "json" for a GPU.
/// Throws InvalidArgument for anything else.
void select_emitted(EmitOptions& options, const std::vector<std::string>& kinds,
                    const Target& target);

/// Makes the directory if need be. Throws IoError if it cannot be made or written to.
void prepare_directory(const std::filesystem::path& directory);

/// Writes NAME.o, NAME.hpp, NAME.json, NAME.asm as the options say, each published by rename;
/// returns their paths. `name` must be a C identifier. Throws IoError, NotSupported for `assembly`
/// without LLVM.
std::vector<std::filesystem::path> emit_files(const EmitOptions& options, const std::string& name,
                                              const Kernel& kernel, const Json& layer);
/// NAME.cubin, NAME.cu, NAME.ptx and NAME.json in the same way.
std::vector<std::filesystem::path> emit_files(const EmitOptions& options, const std::string& name,
                                              const Kernel& kernel, const Json& layer);

}  // namespace spjit::cli
