#pragma once

/// @file
/// A compiled CUDA kernel outside a GPU: a cubin, the two texts it can be made of, and what a
/// launch has to know.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "kernels/cuda/launch/cuda_program.hpp"
#include "kernels/cuda/unrolled/cuda_tile.hpp"
#include "plan/kernel_plan.hpp"
#include "spjit/kernel_info.hpp"

namespace spjit {

/// How the kernel of a cubin is launched.
struct UnrolledProgram : CudaProgram {
  std::int64_t threads = 0;        ///< a block
  std::int64_t tiles_a_block = 1;  ///< of which each has as many of them
  std::int64_t blocks_x = 0;

  /// Columns of a tile = its threads.
  [[nodiscard]] std::int64_t n1() const noexcept { return threads / tiles_a_block; }
  /// Column tiles of a launch.
  [[nodiscard]] std::int64_t blocks_y(std::int64_t columns) const noexcept {
    return (columns + n1() - 1) / n1();
  }
  /// Dynamic shared memory of a block.
  [[nodiscard]] std::int64_t shared_bytes() const {
    return stage_of(layer, n1()).bytes * tiles_a_block;
  }

  friend bool operator==(const UnrolledProgram&, const UnrolledProgram&) = default;
};

[[nodiscard]] UnrolledProgram make_program(const KernelPlan& plan, const CudaKernelSpec& spec,
                                           std::int64_t arch);

[[nodiscard]] nlohmann::json to_json(const UnrolledProgram& program);
/// Checks every member and their relations; throws Error that says what is wrong.
[[nodiscard]] UnrolledProgram read_unrolled_program(const nlohmann::json& json);

struct CudaArtifact {
  std::string cubin;
  /// The texts of all units, one after another; empty unless sources are kept.
  std::string cuda_source;
  std::string ptx;
  /// value_positions() of a kernel that takes values at run time; else empty.
  std::vector<std::uint32_t> positions;
};

}  // namespace spjit
