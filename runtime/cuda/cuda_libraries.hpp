#pragma once

/// @file
/// Finds CUDA's compiler libraries, NVRTC and nvJitLink, on this machine and chooses among them.
/// Nothing here needs a GPU, a driver or a CUDA toolkit.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/environment.hpp"
#include "base/safe_path.hpp"
#include "runtime/cuda/nvjitlink.hpp"
#include "runtime/cuda/nvrtc.hpp"

namespace spjit {

enum class CudaLibraryKind : std::uint8_t { nvrtc, nvjitlink };

/// "NVRTC" or "nvJitLink".
[[nodiscard]] const char* to_string(CudaLibraryKind kind);

struct CudaLibraryOptions {
  /// Libraries, folders that hold them, toolkits (`lib64` is looked at) or pip's targets
  /// (`nvidia/*/lib`). If there are any, nothing else is searched.
  std::vector<std::filesystem::path> paths;
};

/// A place to look for libraries.
struct CudaPlace {
  std::filesystem::path path;
  std::string origin;  ///< why it is looked at: "SPJIT_CUDA_PATH", "CUDA_HOME", ...
  bool named = false;  ///< for spjit, by the user: what is in it is trusted
};

/// Where libraries are looked for, in this order; of equal versions the first one is taken.
struct CudaPlaces {
  std::vector<CudaPlace> places;
  bool loader = false;  ///< also what the dynamic loader finds by itself
};

/// The paths of `options`; else those of SPJIT_CUDA_PATH (separated by ':'); else `.cuda` beside
/// or up to four folders above the program or libspjit.so (what scripts/build/setup_cuda.sh makes),
/// CUDA_HOME, CUDA_PATH, /usr/local/cuda*, and the loader. The first two are `named`.
[[nodiscard]] CudaPlaces cuda_places(const CudaLibraryOptions& options,
                                     const CudaEnvironment& environment);

struct FoundCudaLibrary {
  CudaLibraryKind kind = CudaLibraryKind::nvrtc;
  CudaVersion version;
  std::filesystem::path path;
  std::string origin;      ///< as in CudaPlace, or "loader"
  std::vector<int> archs;  ///< what NVRTC compiles for, ascending: 75, 80, ...; nvJitLink: none
  LibraryTrust trust = LibraryTrust::given;
};

struct FoundCudaLibraries {
  std::vector<FoundCudaLibrary> libraries;  ///< by kind, newest first, each file once
  /// A line for each file that could not be used, and each folder or file that others can change.
  std::vector<std::string> rejected;
  CudaPlaces places;
};

/// `path` in a place, its links resolved where the place is not `named`; see find_safely(). Of a
/// `named` place nothing is a problem.
[[nodiscard]] SafePath find_in(const CudaPlace& place, const std::filesystem::path& path);

/// Every NVRTC and nvJitLink there is. Loads each of them: code runs. So from places that are not
/// `named` only what find_safely() finds no problem with, folders and files; what the loader finds
/// by itself is the system's choice. Throws nothing for what it finds.
[[nodiscard]] FoundCudaLibraries found_cuda_libraries(const CudaPlaces& places);
/// The libraries in cuda_places() of these options and this process's environment.
[[nodiscard]] FoundCudaLibraries found_cuda_libraries(const CudaLibraryOptions& options = {});

/// The compilers for one build; those not asked for are empty.
struct CudaToolchain {
  std::optional<Nvrtc> nvrtc;
  std::optional<NvJitLink> nvjitlink;
};

struct CudaToolchainNeeds {
  int arch = 0;            ///< 90 for sm_90
  bool nvrtc = true;       ///< there is CUDA C++
  bool nvjitlink = false;  ///< there is PTX, or more than one unit
};

/// The newest of each kind that supports the arch; an NVRTC newer than the nvJitLink only if no
/// other one will do, because nvJitLink refuses code of compilers newer than itself. Throws
/// NotSupported, one line with the library's name and what to run, if one is missing or none
/// supports the arch.
[[nodiscard]] CudaToolchain load_cuda_toolchain(const CudaToolchainNeeds& needs,
                                                const FoundCudaLibraries& found);

}  // namespace spjit
