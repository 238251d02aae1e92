#include "base/dynamic_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <system_error>
#include <utility>

#include "spjit/error.hpp"

namespace spjit {
namespace {

void* open_library(const std::filesystem::path& file, DynamicLibrary::Lifetime lifetime) {
  const int resident = lifetime == DynamicLibrary::Lifetime::resident ? RTLD_NODELETE : 0;
  return ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | resident);
}

std::string loader_reason() {
  const char* reason = ::dlerror();  // kept for each thread by glibc
  return reason == nullptr ? "the loader gives no reason" : reason;
}

std::filesystem::path absolute_path(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::path absolute = std::filesystem::absolute(path, ignored);
  return absolute.empty() ? path : absolute;
}

}  // namespace

void DynamicLibrary::Close::operator()(void* handle) const noexcept { ::dlclose(handle); }

DynamicLibrary::DynamicLibrary(const std::filesystem::path& file, Lifetime lifetime)
    : DynamicLibrary(Handle{{open_library(file, lifetime), {}}}, file) {}

DynamicLibrary::DynamicLibrary(Handle handle, const std::filesystem::path& name)
    : handle_(std::move(handle)), path_(name) {
  if (!handle_.pointer) {
    throw NotSupported(
        fmt::format("cannot load the shared library {}: {}", name.string(), loader_reason()));
  }
  ::link_map* entry = nullptr;
  if (::dlinfo(handle_.pointer.get(), RTLD_DI_LINKMAP, &entry) == 0 && entry != nullptr &&
      entry->l_name != nullptr && *entry->l_name != '\0') {
    path_ = absolute_path(entry->l_name);
  }
}

std::optional<DynamicLibrary> DynamicLibrary::try_open(const std::filesystem::path& file,
                                                       Lifetime lifetime) {
  Handle handle{{open_library(file, lifetime), {}}};
  if (!handle.pointer) {
    static_cast<void>(::dlerror());  // or the next caller would be told this reason
    return std::nullopt;
  }
  return DynamicLibrary(std::move(handle), file);
}

void* DynamicLibrary::symbol(const std::string& name) const {
  return ::dlsym(handle_.pointer.get(), name.c_str());
}

void* DynamicLibrary::required_symbol(const std::string& name) const {
  void* address = symbol(name);
  if (address == nullptr) {
    throw NotSupported(fmt::format(
        "{} has no function {}: it is another library, or of a version this build does not know",
        path_.string(), name));
  }
  return address;
}

std::filesystem::path file_of_code(const void* address) {
  ::Dl_info info{};
  void* entry = nullptr;
  if (::dladdr1(address, &info, &entry, RTLD_DL_LINKMAP) == 0 || info.dli_fname == nullptr) {
    return {};
  }
  // The program has no name of its own there, and what it was called as says nothing: run by its
  // bare name, it would seem to lie in the current directory.
  const auto* loaded = static_cast<const ::link_map*>(entry);
  const bool is_program = loaded != nullptr && loaded->l_name != nullptr && *loaded->l_name == '\0';
  std::error_code error;
  if (is_program) return std::filesystem::read_symlink("/proc/self/exe", error);
  return absolute_path(info.dli_fname);
}

}  // namespace spjit
