#include "artifact/kernel_folder.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "artifact/kernel_files.hpp"
#include "base/file_bytes.hpp"
#include "base/file_descriptor.hpp"
#include "base/json_text.hpp"
#include "runtime/cache/cache_entry.hpp"
#include "runtime/cache/cache_record.hpp"
#include "runtime/cache/cache_store.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"

namespace spjit {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t k_key_digits = 64;

[[noreturn]] void fail_with(const fs::path& folder, const char* what, const std::error_code& code) {
  throw IoError(fmt::format("{}: {}: {}", folder.string(), what, code.message()));
}

}  // namespace

void save_kernel(const Kernel& kernel, const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_with(folder, "cannot be made", error);
  const Artifact& artifact = kernel.artifact();
  std::vector<CacheFile> files;
  for (const Artifact::File& file : artifact.files) {
    publish_file(folder / file.name, file.bytes);
    files.push_back({file.name, file.bytes});
  }
  nlohmann::json record = parse_json(artifact.record);
  record.erase("files");  // of the entry, too
  // One that came from a file has no key, and nobody looks it up here.
  const std::string& own_key = kernel.info().key;
  const std::string key = own_key.empty() ? std::string(k_key_digits, '0') : own_key;
  const std::string text = write_cache_record(make_cache_record(key, SPJIT_VERSION, files, record));
  publish_file(folder / k_record_file_name, std::as_bytes(std::span(text)));
}

Kernel load_kernel(KernelFolder folder) {
  const FileDescriptor directory = open_directory(folder.path);
  if (!directory) {
    fail_with(folder.path, "cannot be opened as a kernel's folder",
              std::error_code(errno, std::generic_category()));
  }
  try {
    const std::string key = read_cache_record(directory).key;
    CacheEntry entry = read_cache_entry(directory, {.key = key, .any_owner = folder.any_owner});
    const HostDevice device{thread_pool_of({folder.threads, std::move(folder.parallel_for)})};
    return Kernel(
        load_kernel_files(std::move(entry.files), std::move(entry.record.kernel), device));
  } catch (const CacheError& error) {
    throw CacheError(fmt::format("{}: {}", folder.path.string(), error.what()));
  }
}

}  // namespace spjit
