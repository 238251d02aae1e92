#pragma once

/// @file
/// The members of a Kernel.

#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "base/refusal.hpp"
#include "kernels/backend.hpp"
#include "spjit/kernel.hpp"

namespace spjit {

/// Immutable once it was handed out.
class Kernel::Impl {
 public:
  /// `code` makes the files of artifact() when somebody asks; null for a linked kernel.
  Impl(const KernelFamily& family_in, LoadedKernel loaded, std::shared_ptr<const BuiltCode> code_in,
       nlohmann::json record_in);

  /// A copy of this kernel, loaded in another place.
  [[nodiscard]] std::shared_ptr<const Impl> with(std::shared_ptr<const Executable> elsewhere) const;

  /// Made at the first call; thread-safe.
  [[nodiscard]] const Artifact& artifact() const;

  KernelInfo info;
  const KernelFamily* family = nullptr;
  const Backend* backend = nullptr;
  /// Backend::lacks(): of a host that this CPU is not it has an executable that must not run.
  Refusal lacks;
  std::shared_ptr<const Executable> executable;  ///< null: for a GPU, and in none
  std::shared_ptr<const BuiltCode> code;
  nlohmann::json record;

 private:
  mutable std::once_flag made_;
  mutable Artifact artifact_;
};

}  // namespace spjit
