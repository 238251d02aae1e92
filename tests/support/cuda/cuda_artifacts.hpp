#pragma once

/// @file
/// Artifacts of GPU kernels with PTX for an image, which the emulated driver takes.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>

#include "kernels/cuda/unrolled/cuda_artifact.hpp"
#include "spjit/kernel.hpp"

namespace spjit::testing_support {

/// The record that Kernel::from_artifact() needs for a program.
[[nodiscard]] inline nlohmann::json record_of(const UnrolledProgram& program,
                                              const CudaTile& tile) {
  const nlohmann::json resources = {{"predicted_registers", 0},
                                    {"registers", 0},
                                    {"spilled_bytes", 0},
                                    {"active_blocks", 0},
                                    {"code_bytes", 0}};
  return {{"family", "unrolled"},
          {"target", "sm_90"},
          {"program", to_json(program)},
          {"device", "H100"},
          {"tile", {{"name", to_string(tile)}}},
          {"search", {{"reason", ""}}},
          {"resources", resources},
          {"compiled_from", "ptx"},
          {"toolchain", ""},
          {"note", ""}};
}

[[nodiscard]] inline Artifact ptx_artifact(const std::string& ptx, std::string record) {
  Artifact artifact;
  artifact.record = std::move(record);
  const auto image = std::as_bytes(std::span(ptx));
  artifact.add("kernel.cubin", {image.begin(), image.end()});
  return artifact;
}

/// Adds where a kernel's values at run time come from.
inline void add_positions(Artifact& artifact, std::span<const std::uint32_t> positions) {
  const auto bytes = std::as_bytes(positions);
  artifact.add(k_positions_file, {bytes.begin(), bytes.end()});
}

}  // namespace spjit::testing_support
