#include "bench/side_by_side/cuda/toolkit_library.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/environment.hpp"
#include "runtime/cuda/cuda_libraries.hpp"

namespace spjit::side_by_side {
namespace {

namespace fs = std::filesystem;

/// Of a toolkit, and of wheels: nvidia/cu13/lib.
std::vector<fs::path> folders_of(const fs::path& place) {
  std::vector<fs::path> folders = {place, place / "lib64", place / "lib"};
  std::error_code ignored;
  for (const auto& child : fs::directory_iterator(place / "nvidia", ignored)) {
    folders.push_back(child.path() / "lib");
  }
  std::sort(folders.begin() + 3, folders.end());
  return folders;
}

}  // namespace

std::optional<DynamicLibrary> open_toolkit_library(const std::string& file) {
  // Resident: they register what runs at exit.
  constexpr auto k_resident = DynamicLibrary::Lifetime::resident;
  for (const CudaPlace& place : cuda_places({}, read_cuda_environment()).places) {
    for (const fs::path& folder : folders_of(place.path)) {
      const SafePath found = find_in(place, folder / file);
      if (found.path.empty()) continue;
      auto library = DynamicLibrary::try_open(found.path, k_resident);
      if (library) return library;
    }
  }
  return DynamicLibrary::try_open(file, k_resident);
}

}  // namespace spjit::side_by_side
