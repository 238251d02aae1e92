#include "bench/side_by_side/cuda/toolkit_library.hpp"

#include "base/environment.hpp"
#include "runtime/cuda/cuda_libraries.hpp"

namespace spjit::side_by_side {

std::optional<DynamicLibrary> open_toolkit_library(const std::string& file) {
  // Resident: they register what runs at exit.
  constexpr auto k_resident = DynamicLibrary::Lifetime::resident;
  for (const CudaPlace& place : cuda_places({}, read_cuda_environment()).places) {
    for (const char* folder : {"", "lib64", "lib"}) {
      const SafePath found = find_in(place, place.path / folder / file);
      if (found.path.empty()) continue;
      auto library = DynamicLibrary::try_open(found.path, k_resident);
      if (library) return library;
    }
  }
  return DynamicLibrary::try_open(file, k_resident);
}

}  // namespace spjit::side_by_side
