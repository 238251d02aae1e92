#pragma once

/// @file
/// nvJitLink, NVIDIA's assembler of PTX and linker of device code: libnvJitLink of CUDA 12.0 to
/// 13.x (11.8 has none), loaded at first use. Needs no GPU and no CUDA headers.

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cuda/nvrtc.hpp"

namespace spjit {

struct LinkInput {
  enum class Kind { cubin, ptx };

  Kind kind = Kind::cubin;
  std::string_view name;  ///< what messages call it
  std::string_view code;  ///< a (relocatable) cubin, or PTX text
};

struct NvJitLinkOptions {
  int arch = 0;  ///< 90 for sm_90
  /// The result may have references to functions it lacks, and has to be linked again.
  bool relocatable = false;
  std::vector<std::string> more = {};  ///< passed on as they are, after the others
};

/// One loaded nvJitLink. Copies share the library. All functions may be called from several
/// threads at once; calls run concurrently. A call cannot be cancelled.
class NvJitLink {
 public:
  /// Throws NotSupported if the file is no nvJitLink.
  explicit NvJitLink(const std::filesystem::path& file);

  [[nodiscard]] const std::filesystem::path& path() const noexcept;
  [[nodiscard]] CudaVersion version() const noexcept;
  /// Whether it takes -arch=sm_`arch`.
  [[nodiscard]] bool supports(int arch) const;
  /// Whether it can assemble one unit of several by itself (`-r`): then units can be assembled
  /// concurrently, while as inputs of one link they are assembled one after another.
  [[nodiscard]] bool makes_relocatable(int arch) const;

  /// Assembles and links `inputs`, in this order, into one cubin. Throws NotSupported for an arch
  /// it does not know, CompileFailed with nvJitLink's error and info logs for everything else.
  [[nodiscard]] CompiledCode link(std::span<const LinkInput> inputs,
                                  const NvJitLinkOptions& options) const;

 private:
  struct Library;
  std::shared_ptr<const Library> library_;
};

}  // namespace spjit
