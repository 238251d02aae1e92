#include "bench/side_by_side/dnnl_library.hpp"

#include <fmt/format.h>

#include "spjit/error.hpp"

namespace spjit::side_by_side {
namespace {

// From oneDNN's dnnl_types.h and dnnl.h, versions 1 to 3.
struct DnnlVersion {
  int major;
  int minor;
  int patch;
};
using DnnlGetVersion = const DnnlVersion*();
using OmpSetThreads = void(int threads);

constexpr const char* k_dnnl_files[] = {"libdnnl.so.3", "libdnnl.so.2"};

}  // namespace

DnnlLibrary::DnnlLibrary(DynamicLibrary library)
    : library_(std::make_shared<const DynamicLibrary>(std::move(library))) {
  const DnnlVersion& version = *library_->require<DnnlGetVersion>("dnnl_version")();
  major_version_ = version.major;
  version_ = fmt::format("oneDNN {}.{}.{}", version.major, version.minor, version.patch);
}

std::optional<DnnlLibrary> DnnlLibrary::load(const std::filesystem::path& folder) {
  for (const char* file : k_dnnl_files) {
    // Resident: OpenMP's threads would run into unmapped code.
    auto library = DynamicLibrary::try_open(folder / file, DynamicLibrary::Lifetime::resident);
    if (library) return DnnlLibrary(*std::move(library));
  }
  return {};
}

void DnnlLibrary::set_threads(int threads) const {
  // Of the OpenMP that oneDNN itself was linked with: a handle's symbols are also those of what it
  // depends on.
  auto* const set = library_->find<OmpSetThreads>("omp_set_num_threads");
  if (set == nullptr) {
    throw NotSupported("this oneDNN is not built with OpenMP: its threads cannot be set");
  }
  set(threads);
}

}  // namespace spjit::side_by_side
