#pragma once

/// @file
/// One matrix file on its way through `spjit compile` for a GPU, and how it is reported.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "layer.hpp"
#include "spjit/compiler.hpp"
#include "spjit/kernel.hpp"

namespace spjit::cli {

/// What became of one file.
struct CudaLayer {
  std::filesystem::path path;
  std::string name;   ///< a C identifier, of the files
  std::string error;  ///< why it failed; then what follows may be missing
  MatrixStatistics statistics;
  std::optional<CudaKernelInfo> info;
  Json record;  ///< the kernel's own
  std::vector<std::filesystem::path> files;
  std::vector<std::string> notes;  ///< what the user should know, a line each

  [[nodiscard]] bool failed() const noexcept { return !error.empty(); }
};

/// Loads, compiles, checks if a GPU of the target is in this machine, and emits. Never throws for
/// what goes wrong with this file: `error` says it.
[[nodiscard]] CudaLayer process_cuda_layer(const std::filesystem::path& path,
                                           const std::string& name, const Compiler& compiler,
                                           const LayerOptions& options);

/// "512x512 90.0 % for sm_90, compiled in 812.1 ms, tile 32x128 u2048, 48 registers".
[[nodiscard]] std::string summarize(const CudaLayer& layer);

[[nodiscard]] Json describe(const CudaLayer& layer);

/// The closing table, with the notes of all layers under it.
[[nodiscard]] std::string layer_table(const std::vector<CudaLayer>& layers,
                                      const Terminal& terminal);

}  // namespace spjit::cli
