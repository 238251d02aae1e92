#pragma once

/// @file
/// The base of families of CUDA kernels: a cubin, two texts, and a record with what a launch has to
/// know.

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernel_family.hpp"

namespace spjit {

/// An artifact on its way to a kernel. Refers to all of it.
struct CudaObject {
  const Artifact& artifact;
  std::span<const std::byte> image;  ///< a cubin, or PTX
  const nlohmann::json& record;
  const nlohmann::json& program;  ///< of the record
  const GpuDevice* gpu;           ///< that it is loaded into; null: none
  const Cancellation& cancel;
};

/// Families whose artifact is a cubin and what its launch reads.
class CudaFamily : public KernelFamily {
 public:
  /// PTX for the cubin.
  [[nodiscard]] bool takes_in_place(const Artifact::File& file) const final;
  [[nodiscard]] LoadedKernel load(const Artifact& artifact, const nlohmann::json& record,
                                  const Device& device, const Cancellation& cancel) const final;

 protected:
  /// The kernel, in a GPU if one is given. Throws as load().
  [[nodiscard]] virtual LoadedKernel open(const CudaObject& object) const = 0;
};

/// The texts that a cubin can be made of: each of them, all units one after another.
struct CudaTexts {
  const std::string& cuda_source;
  const std::string& ptx;
};

/// The cubin as a file, and where the options keep sources, both texts. Throws what the request's
/// `cancel` throws.
[[nodiscard]] std::vector<Artifact::File> cuda_files(const std::string& cubin,
                                                     const CudaTexts& texts,
                                                     const FamilyRequest& what);

/// A file of an artifact that owns its bytes.
[[nodiscard]] Artifact::File owned_file(const char* name, std::vector<std::byte> bytes);

}  // namespace spjit
