#pragma once

/// @file
/// NVRTC, NVIDIA's run-time compiler of CUDA C++: libnvrtc of CUDA 11.8 to 13.x, loaded at first
/// use. Needs no GPU and no CUDA headers.

#include <compare>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.hpp"

namespace spjit {

struct CudaVersion {
  int major = 0;
  int minor = 0;

  // clang-tidy 14 sees a 0 in the comparison that the compiler writes.
  // NOLINTNEXTLINE(modernize-use-nullptr)
  friend auto operator<=>(const CudaVersion&, const CudaVersion&) = default;
};

[[nodiscard]] inline std::string to_string(CudaVersion version) {
  return std::to_string(version.major) + '.' + std::to_string(version.minor);
}

struct NvrtcOptions {
  enum class Output { cubin, ptx };

  int arch = 0;  ///< 90 for sm_90: code for that device (cubin) or that virtual one (PTX)
  Output output = Output::cubin;
  bool relocatable = false;            ///< may call, or be called by, other units: has to be linked
  std::vector<std::string> more = {};  ///< passed on as they are, after the others
  Cancellation cancel = {};
};

/// The output of a compiler or linker: a cubin (an ELF file) or PTX text, and what it printed.
struct CompiledCode {
  std::string code;
  std::string log;
};

/// Whose word it is that a library may be loaded.
enum class LibraryTrust : std::uint8_t {
  given,     ///< the user named it, or the loader found it: it may
  searched,  ///< it was come across: only if find_safely() finds no problem with it
};

/// One loaded NVRTC. Copies share the library. All functions may be called from several threads at
/// once, and compile concurrently.
class Nvrtc {
 public:
  /// Also loads the libraries of built-in headers beside it, before it. Throws NotSupported if the
  /// file is no NVRTC of CUDA 11.8 or later, or, where it was `searched`, if there is a problem
  /// with one of those (whether the file itself is safe, the caller has found).
  explicit Nvrtc(const std::filesystem::path& file, LibraryTrust trust = LibraryTrust::given);

  [[nodiscard]] const std::filesystem::path& path() const noexcept;
  [[nodiscard]] CudaVersion version() const noexcept;
  /// The devices it compiles for, ascending: 75, 80, ...
  [[nodiscard]] const std::vector<int>& archs() const noexcept;
  [[nodiscard]] bool supports(int arch) const noexcept;
  /// Whether it can be told to give up in the middle of a compilation (13.0 can, 12.4 cannot).
  [[nodiscard]] bool can_cancel() const noexcept;

  /// The command line that `compile` gives NVRTC. Besides what NvrtcOptions say:
  /// - `--fmad=false`: a product and a sum round as they are written, and fused operations are
  ///   those that the source asks for (`__fmaf_rn`)
  /// - `--modify-stack-limit=false`: else NVRTC changes the limit of the whole process
  /// - `--no-cache` where it is known
  [[nodiscard]] std::vector<std::string> command_line(const NvrtcOptions& options) const;

  /// Compiles the CUDA C++ text `source`, which messages call `name`. Throws NotSupported if
  /// `options.arch` is none of archs(), CompileFailed with NVRTC's log if it does not compile, and
  /// CompileCancelled if `options.cancel` is reached first. NVRTC asks for that between its passes:
  /// a unit of 2000 multiply-adds ends in a fraction of a second, but a pass over 20000 in one
  /// block takes seconds. Without can_cancel() the compilation runs to its end first.
  [[nodiscard]] CompiledCode compile(std::string_view name, const std::string& source,
                                     const NvrtcOptions& options) const;

 private:
  struct Library;
  std::shared_ptr<const Library> library_;
};

}  // namespace spjit
