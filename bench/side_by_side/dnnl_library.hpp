#pragma once

/// @file
/// oneDNN, loaded at run time.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/dynamic_library.hpp"

namespace spjit::side_by_side {

/// Copies share the library.
class DnnlLibrary {
 public:
  /// Loads libdnnl.so.3, else libdnnl.so.2, of that folder, of an empty one from the loader's
  /// places. Nothing if neither can be loaded.
  [[nodiscard]] static std::optional<DnnlLibrary> load(const std::filesystem::path& folder);

  [[nodiscard]] const DynamicLibrary& functions() const noexcept { return *library_; }
  [[nodiscard]] int major_version() const noexcept { return major_version_; }
  /// "oneDNN 3.2.0".
  [[nodiscard]] const std::string& version() const noexcept { return version_; }

  /// A setting of the process. Throws NotSupported for a oneDNN that is not built with OpenMP.
  void set_threads(int threads) const;

 private:
  explicit DnnlLibrary(DynamicLibrary library);

  std::shared_ptr<const DynamicLibrary> library_;
  int major_version_ = 0;
  std::string version_;
};

}  // namespace spjit::side_by_side
