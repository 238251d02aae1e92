#include "runtime/cuda/cuda_libraries.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <set>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/dynamic_library.hpp"
#include "runtime/cuda/cuda_device_info.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

namespace fs = std::filesystem;

constexpr int k_folders_above = 4;
constexpr std::array k_kinds = {CudaLibraryKind::nvrtc, CudaLibraryKind::nvjitlink};
constexpr const char* k_advice =
    "run scripts/build/setup_cuda.sh, install a CUDA toolkit, or name a folder that holds it in "
    "SPJIT_CUDA_PATH";

const char* file_name(CudaLibraryKind kind) {
  return kind == CudaLibraryKind::nvrtc ? "libnvrtc.so" : "libnvJitLink.so";
}

// The names under which the loader knows the major versions; 11.8's NVRTC still calls itself 11.2.
std::vector<std::string> loader_names(CudaLibraryKind kind) {
  const std::string name = file_name(kind);
  std::vector<std::string> names = {name + ".13", name + ".12"};
  if (kind == CudaLibraryKind::nvrtc) names.push_back(name + ".11.2");
  return names;
}

std::vector<fs::path> sorted_children(const fs::path& folder) {
  std::vector<fs::path> result;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    result.push_back(it->path());
  }
  std::ranges::sort(result);
  return result;
}

void add_project_folders(std::vector<CudaPlace>& places) {
  fs::path folder = file_of_code(reinterpret_cast<const void*>(&cuda_places)).parent_path();
  for (int above = 0; above <= k_folders_above && !folder.empty(); ++above) {
    const fs::path candidate = folder / ".cuda";
    std::error_code ignored;
    if (fs::is_directory(candidate, ignored)) places.push_back({candidate, ".cuda"});
    if (folder == folder.parent_path()) return;
    folder = folder.parent_path();
  }
}

void add_separated(std::vector<CudaPlace>& places, std::string_view paths, const char* origin) {
  while (!paths.empty()) {
    const std::size_t end = std::min(paths.find(':'), paths.size());
    if (end > 0) places.push_back({fs::path(paths.substr(0, end)), origin, true});
    paths.remove_prefix(std::min(end + 1, paths.size()));
  }
}

class Search {
 public:
  /// A place is a library, a folder of them, a toolkit, or what pip installed wheels into.
  void look_in(const CudaPlace& place, CudaLibraryKind kind) {
    const auto top = usable(place, place.path);
    if (!top) return;
    std::error_code ignored;
    if (fs::is_regular_file(*top, ignored)) return look_at(place, place.path, kind);
    look_in_folder(place, *top, kind);
    look_in_folder(place, *top / "lib64", kind);
    look_in_folder(place, *top / "lib", kind);
    for (const fs::path& parent : {*top, *top / "nvidia"}) {
      if (!usable(place, parent)) continue;
      for (const fs::path& child : sorted_children(parent)) {
        look_in_folder(place, child / "lib", kind);
      }
    }
  }

  void load(const fs::path& file, CudaLibraryKind kind, const std::string& origin,
            LibraryTrust trust) {
    std::error_code error;
    const fs::path canonical = fs::canonical(file, error);
    if (error || !seen_.insert(canonical).second) return;
    try {
      FoundCudaLibrary library{.kind = kind,
                               .version = {},
                               .path = canonical,
                               .origin = origin,
                               .archs = {},
                               .trust = trust};
      if (kind == CudaLibraryKind::nvrtc) {
        const Nvrtc nvrtc(canonical, trust);
        library.version = nvrtc.version();
        library.archs = nvrtc.archs();
      } else {
        library.version = NvJitLink(canonical).version();
      }
      result.libraries.push_back(std::move(library));
    } catch (const NotSupported& unusable) {
      result.rejected.emplace_back(unusable.what());
    }
  }

  FoundCudaLibraries result;

 private:
  /// Where `path` leads, if there is something that may be used; else says once why it may not.
  std::optional<fs::path> usable(const CudaPlace& place, const fs::path& path) {
    SafePath found = find_in(place, path);
    if (!found.problem.empty() && problems_.insert(found.problem).second) {
      result.rejected.push_back(
          fmt::format("{} ({}): {}; make it yours (chown, chmod go-w), or name the place in "
                      "SPJIT_CUDA_PATH if you trust whoever can change it",
                      path.string(), place.origin, found.problem));
    }
    if (found.path.empty()) return std::nullopt;
    return std::move(found.path);
  }

  void look_in_folder(const CudaPlace& place, const fs::path& path, CudaLibraryKind kind) {
    const auto folder = usable(place, path);
    if (!folder) return;
    for (const fs::path& file : sorted_children(*folder)) look_at(place, file, kind);
  }

  void look_at(const CudaPlace& place, const fs::path& path, CudaLibraryKind kind) {
    std::error_code ignored;
    const bool named_so = path.filename().string().starts_with(file_name(kind));
    if (!named_so || !fs::is_regular_file(path, ignored)) return;
    const auto file = usable(place, path);
    if (!file) return;
    load(*file, kind, place.origin, place.named ? LibraryTrust::given : LibraryTrust::searched);
  }

  std::set<fs::path> seen_;
  std::set<std::string> problems_;
};

std::string describe_places(const CudaPlaces& places) {
  std::vector<std::string> words;
  words.reserve(places.places.size());
  for (const CudaPlace& place : places.places) {
    words.push_back(fmt::format("{} ({})", place.path.string(), place.origin));
  }
  if (places.loader) words.emplace_back("the loader's folders");
  return words.empty() ? "nowhere" : fmt::format("{}", fmt::join(words, ", "));
}

std::string rejected_text(const std::vector<std::string>& rejected) {
  return rejected.empty() ? "" : fmt::format("; not used: {}", fmt::join(rejected, "; "));
}

// Of one kind, newest first.
std::vector<FoundCudaLibrary> of_kind(const FoundCudaLibraries& found, CudaLibraryKind kind) {
  std::vector<FoundCudaLibrary> result;
  std::ranges::copy_if(found.libraries, std::back_inserter(result),
                       [&](const FoundCudaLibrary& library) { return library.kind == kind; });
  if (result.empty()) {
    throw NotSupported(fmt::format("{} ({}) was not found; looked in {}{}: {}", to_string(kind),
                                   file_name(kind), describe_places(found.places),
                                   rejected_text(found.rejected), k_advice));
  }
  return result;
}

std::string none_supports(int arch, const std::vector<FoundCudaLibrary>& libraries,
                          const std::vector<std::string>& rejected) {
  std::vector<std::string> words;
  for (const FoundCudaLibrary& library : libraries) {
    std::string word = fmt::format("{} ({})", to_string(library.version), library.path.string());
    if (!library.archs.empty())
      word += fmt::format(" has sm_{}", fmt::join(library.archs, ", sm_"));
    words.push_back(std::move(word));
  }
  const std::string_view dropped = cuda_that_dropped(arch);
  const std::string older = dropped.empty() ? "" : fmt::format(" (older than {})", dropped);
  return fmt::format(
      "no {} that was found compiles for sm_{}: {}{}; choose one of those targets, or install a "
      "CUDA version{} that has sm_{} and name its folder in SPJIT_CUDA_PATH",
      to_string(libraries.front().kind), arch, fmt::join(words, "; "), rejected_text(rejected),
      older, arch);
}

NvJitLink load_nvjitlink(int arch, const FoundCudaLibraries& found) {
  const std::vector<FoundCudaLibrary> libraries = of_kind(found, CudaLibraryKind::nvjitlink);
  for (const FoundCudaLibrary& library : libraries) {
    NvJitLink nvjitlink(library.path);
    if (nvjitlink.supports(arch)) return nvjitlink;
  }
  throw NotSupported(none_supports(arch, libraries, found.rejected));
}

Nvrtc load_nvrtc(int arch, const FoundCudaLibraries& found,
                 const std::optional<NvJitLink>& nvjitlink) {
  const std::vector<FoundCudaLibrary> libraries = of_kind(found, CudaLibraryKind::nvrtc);
  const FoundCudaLibrary* newest = nullptr;
  for (const FoundCudaLibrary& library : libraries) {
    if (std::ranges::find(library.archs, arch) == library.archs.end()) continue;
    if (newest == nullptr) newest = &library;
    if (!nvjitlink || library.version <= nvjitlink->version())
      return Nvrtc(library.path, library.trust);
  }
  if (newest == nullptr) throw NotSupported(none_supports(arch, libraries, found.rejected));
  return Nvrtc(newest->path, newest->trust);
}

}  // namespace

const char* to_string(CudaLibraryKind kind) {
  return kind == CudaLibraryKind::nvrtc ? "NVRTC" : "nvJitLink";
}

SafePath find_in(const CudaPlace& place, const fs::path& path) {
  if (!place.named) return find_safely(path);
  std::error_code error;
  fs::path canonical = fs::canonical(path, error);
  if (error) return {};
  return {.path = std::move(canonical), .problem = {}};
}

CudaPlaces cuda_places(const CudaLibraryOptions& options, const CudaEnvironment& environment) {
  CudaPlaces result;
  for (const fs::path& path : options.paths) result.places.push_back({path, "given", true});
  if (result.places.empty() && environment.spjit_cuda_path) {
    add_separated(result.places, *environment.spjit_cuda_path, "SPJIT_CUDA_PATH");
  }
  if (!result.places.empty()) return result;

  add_project_folders(result.places);
  if (environment.cuda_home) result.places.push_back({*environment.cuda_home, "CUDA_HOME"});
  if (environment.cuda_path) result.places.push_back({*environment.cuda_path, "CUDA_PATH"});
  for (const fs::path& path : sorted_children("/usr/local")) {
    if (path.filename().string().starts_with("cuda")) result.places.push_back({path, "toolkit"});
  }
  result.loader = true;
  return result;
}

FoundCudaLibraries found_cuda_libraries(const CudaPlaces& places) {
  Search search;
  for (const CudaLibraryKind kind : k_kinds) {
    for (const CudaPlace& place : places.places) search.look_in(place, kind);
    if (!places.loader) continue;
    for (const std::string& name : loader_names(kind)) {
      const auto library = DynamicLibrary::try_open(name, DynamicLibrary::Lifetime::resident);
      if (library) search.load(library->path(), kind, "loader", LibraryTrust::given);
    }
  }
  std::ranges::stable_sort(search.result.libraries, [](const auto& left, const auto& right) {
    return std::tie(left.kind, right.version) < std::tie(right.kind, left.version);
  });
  search.result.places = places;
  return std::move(search.result);
}

FoundCudaLibraries found_cuda_libraries(const CudaLibraryOptions& options) {
  return found_cuda_libraries(cuda_places(options, read_cuda_environment()));
}

CudaToolchain load_cuda_toolchain(const CudaToolchainNeeds& needs,
                                  const FoundCudaLibraries& found) {
  CudaToolchain toolchain;
  if (needs.nvjitlink) toolchain.nvjitlink = load_nvjitlink(needs.arch, found);
  if (needs.nvrtc) toolchain.nvrtc = load_nvrtc(needs.arch, found, toolchain.nvjitlink);
  return toolchain;
}

}  // namespace spjit
