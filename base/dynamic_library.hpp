#pragma once

/// @file
/// Shared libraries opened at run time. Knows nothing of what is in them.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace spjit {

/// Owns one open shared library. Move-only. The functions found in it stay valid after it is gone
/// if it was opened resident.
class DynamicLibrary {
 public:
  /// Whether the code stays mapped after the last handle is closed. Libraries that register exit
  /// handlers or keep data per thread crash if they are unmapped under those.
  enum class Lifetime { owned, resident };

  /// Opens a file, or a bare name ("libz.so.1") that the loader looks up its own way; the symbols
  /// are seen by nobody else (RTLD_LOCAL). Throws NotSupported with the loader's reason.
  explicit DynamicLibrary(const std::filesystem::path& file, Lifetime lifetime = Lifetime::owned);

  /// Opens a library as the constructor does, or gives nothing where that fails.
  [[nodiscard]] static std::optional<DynamicLibrary> try_open(const std::filesystem::path& file,
                                                              Lifetime lifetime = Lifetime::owned);

  /// Where the loader found it, absolute.
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  /// The function `name`, or null if the library does not export one. `Function` is the caller's
  /// claim: a wrong one is undefined behaviour.
  template <typename Function>
  [[nodiscard]] Function* find(const std::string& name) const {
    return reinterpret_cast<Function*>(symbol(name));
  }

  /// The function of that name. Throws NotSupported, with the library's path, if there is none.
  template <typename Function>
  [[nodiscard]] Function* require(const std::string& name) const {
    return reinterpret_cast<Function*>(required_symbol(name));
  }

 private:
  struct Close {
    void operator()(void* handle) const noexcept;
  };
  // A type of its own, or it would be tried as a path.
  struct Handle {
    std::unique_ptr<void, Close> pointer;
  };

  DynamicLibrary(Handle handle, const std::filesystem::path& name);
  [[nodiscard]] void* symbol(const std::string& name) const;
  [[nodiscard]] void* required_symbol(const std::string& name) const;

  Handle handle_;
  std::filesystem::path path_;
};

/// The file that the code at `address` was loaded from: the program or a shared library. Empty if
/// the loader cannot tell.
[[nodiscard]] std::filesystem::path file_of_code(const void* address);

}  // namespace spjit
