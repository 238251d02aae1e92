#pragma once

/// @file
/// Compiles tiles of GPUs without one, keeps their cubins, and times them where there is one, or by
/// the clock.

#include <filesystem>

#include "base/refusal.hpp"
#include "kernels/cuda/unrolled/cuda_samples.hpp"
#include "kernels/tuning/training/sample_file.hpp"
#include "kernels/tuning/training/tuned_family.hpp"
#include "runtime/cache/cache_store.hpp"
#include "spjit/problem.hpp"

namespace spjit {

/// A folder of compiled tiles:
///
///     folder = "tiles.jsonl" "cubins/"
///
/// tiles.jsonl has a line of samples without times for each group that is compiled whole, with the
/// keys of its tiles; cubins/ is a cache with an entry a tile, whose file is kernel.cubin.
class CompiledTiles {
 public:
  /// Makes the folder if need be. Throws IoError and Error as SampleFile, CacheError.
  explicit CompiledTiles(const std::filesystem::path& folder);

  [[nodiscard]] SampleFile& groups() noexcept { return groups_; }
  [[nodiscard]] const SampleFile& groups() const noexcept { return groups_; }
  [[nodiscard]] const CacheStore& cubins() const noexcept { return cubins_; }

  /// Whether the cubin of a tile can be read, if the tile did compile.
  [[nodiscard]] Refusal refusal(const CudaSample& sample) const;

  /// The entry of a tile that compiled. Throws Error where it is damaged or gone.
  [[nodiscard]] CacheEntry entry_of(const CudaSample& sample) const;

 private:
  SampleFile groups_;
  CacheStore cubins_;
};

/// Compiles tiles that the rules leave, the whole kernel of each, unless their cubins are there:
/// what was interrupted goes on. A tile whose compilation fails has no key. The problem is checked.
/// Throws NotSupported without NVIDIA's libraries, Error if no tile compiles, CacheError.
[[nodiscard]] CudaSampleGroup compile_tiles(const Problem& problem, const CollectOptions& options,
                                            const CompiledTiles& folder);

/// Times the group's tiles on GPU `ordinal` of this machine, with events, within the
/// budget: hot, one load each. A tile that does not run has no time. Throws Error for a cubin that
/// is damaged or gone and if no tile could be timed, DeviceError.
[[nodiscard]] CudaSampleGroup time_tiles(CudaSampleGroup group, const CompiledTiles& folder,
                                         int ordinal, double budget_ms);

/// Gives the group's tiles times that the clock models from their cubins (clock): no GPU
/// is needed, nothing is measured. A tile that the clock cannot follow says nothing and is left
/// out. Throws as time_tiles(), NotSupported where the clock has no constants of the architecture.
[[nodiscard]] CudaSampleGroup model_tiles(CudaSampleGroup group, const CompiledTiles& folder);

/// The GPU of this machine that tiles compiled for such a device may be timed on. Throws
/// NotSupported that says why there is none.
[[nodiscard]] int timing_gpu_of(const CudaDeviceInfo& limits);

}  // namespace spjit
