#pragma once

/// @file
/// The CUDA driver, loaded when it is first needed.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/dynamic_library.hpp"
#include "runtime/cuda/cuda_api.hpp"

namespace spjit {

/// An initialized CUDA driver with at least one device. Immutable, so it may be used from any
/// thread; the library stays in the process once loaded.
class CudaDriver {
 public:
  /// Loads `library`, else libcuda.so.1, and initializes it. Throws NotSupported, in one line, if
  /// there is no such library, it is not a driver, or the driver finds no device it can use.
  [[nodiscard]] static std::shared_ptr<const CudaDriver> load(
      const std::optional<std::filesystem::path>& library = std::nullopt);

  [[nodiscard]] const CudaApi& api() const noexcept { return api_; }
  /// Where the loader found it, absolute.
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return library_.path(); }
  /// The newest CUDA it supports, 1000 * major + 10 * minor: 13000 is CUDA 13.0.
  [[nodiscard]] int version() const noexcept { return version_; }

  /// "CUDA_ERROR_INVALID_VALUE (1), invalid argument".
  [[nodiscard]] std::string describe(int result) const;

  /// Throws DeviceError unless `result` is success. `what()` says what was being done, as in
  /// "copy 4096 bytes to device 0"; it is called only then.
  template <typename What>
  void check(int result, const What& what) const {
    if (result != k_cuda_success) fail(result, what());
  }

  /// Throws DeviceError "cannot `what`: ...".
  [[noreturn]] void fail(int result, const std::string& what) const;

 private:
  explicit CudaDriver(DynamicLibrary library);

  DynamicLibrary library_;
  CudaApi api_;
  int version_ = 0;
};

}  // namespace spjit
