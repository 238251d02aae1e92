#pragma once

/// @file
/// The base of families of host kernels: an object file and a program record.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file_descriptor.hpp"
#include "base/refusal.hpp"
#include "kernels/host/object/csr_image.hpp"
#include "kernels/host/object/host_executable.hpp"
#include "kernels/host/object/program_words.hpp"
#include "kernels/kernel_family.hpp"

namespace spjit {

/// Families whose artifact is one object file.
class HostFamily : public KernelFamily {
 public:
  [[nodiscard]] std::string version() const override;
  [[nodiscard]] LoadedKernel load(const Artifact& artifact, const nlohmann::json& record,
                                  const Device& device, const Cancellation& cancel) const final;

  /// The kernel of an image of this family. Throws as load().
  [[nodiscard]] virtual LoadedKernel open(const HostObject& object,
                                          const Cancellation& cancel) const = 0;

  /// Throws InvalidArgument for a GPU.
  [[nodiscard]] const HostDevice& host_of(const Device& device) const;
  /// An image on a host. Throws as host_of().
  [[nodiscard]] HostObject object_on(const Device& device, const HostImage& image,
                                     std::shared_ptr<const void> owner,
                                     bool executable = false) const;

 protected:
  /// The facts in the header of a kernel of this family. Throws Error for one of another family and
  /// for a run-time n that this one does not know; NotSupported if this CPU lacks the instruction
  /// set, which the object is to have.
  [[nodiscard]] KernelInfo info_of(const HostProgramHeader& header, const HostObject& object) const;

  /// The kernel of an image that is A, whose products a `Family` computes: made of threads, A and
  /// `cancel`.
  template <class Family>
  [[nodiscard]] LoadedKernel open_csr(const HostObject& object, CsrImage read,
                                      const Cancellation& cancel) const {
    LoadedKernel loaded{.info = info_of(read.header, object), .executable = nullptr};
    loaded.info.panel_columns = read.panel_columns;
    loaded.executable = csr_executable<Family>(object, std::move(read), cancel);
    return loaded;
  }
};

/// Families whose products are fp32 in order. The layer around them widens a B of bf16 or f16, and
/// rounds to such a C; A has what its type has exactly.
class LayerFamily : public HostFamily {
 public:
  [[nodiscard]] Refusal numerics_refusal(const Numerics& numerics) const override;
};

/// The file of an image. Throws what `cancel` throws soon after it is reached.
[[nodiscard]] Artifact::File object_file(const HostImage& image, const Cancellation& cancel = {});

/// A host kernel as it was compiled.
class BuiltImage final : public BuiltCode, public std::enable_shared_from_this<BuiltImage> {
 public:
  BuiltImage(const HostFamily& family, HostArtifact artifact)
      : family_(family), artifact_(std::move(artifact)) {}

  [[nodiscard]] std::vector<Artifact::File> files(const Cancellation& cancel) const override;
  [[nodiscard]] LoadedKernel load(const nlohmann::json& record, const Device& device,
                                  const Cancellation& cancel) const override;

 private:
  const HostFamily& family_;
  HostArtifact artifact_;
};

/// A host kernel in a file of the cache, which processes share: its text runs in the file's pages,
/// unless they must not be executed or it begins within one; then it is copied.
class MappedImage final : public BuiltCode, public std::enable_shared_from_this<MappedImage> {
 public:
  /// Precondition: `file.is_mapped()`. Throws Error if it holds no kernel.
  MappedImage(const HostFamily& family, FileBytes file);

  [[nodiscard]] std::vector<Artifact::File> files(const Cancellation& cancel) const override;
  [[nodiscard]] LoadedKernel load(const nlohmann::json& record, const Device& device,
                                  const Cancellation& cancel) const override;

 private:
  const HostFamily& family_;
  FileBytes file_;
  HostImage image_;
  bool executable_;
};

/// Whether a family that copies B takes such an A: not where few of B's rows are read.
[[nodiscard]] Refusal unread_refusal(const CsrMatrix& a);

/// The kernel of a family that reads A: A itself.
[[nodiscard]] BuiltKernel build_csr(const BuildRequest& request, const HostFamily& family);

/// The members of a record that every host family writes: sizes of code and weights.
[[nodiscard]] nlohmann::json image_record(const HostImage& image);

}  // namespace spjit
