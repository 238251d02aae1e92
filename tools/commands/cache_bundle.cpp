#include "tools/commands/cache_bundle.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/kernel_record.hpp"
#include "spjit/error.hpp"

namespace spjit::cli {

CacheExport export_cache(const CacheStore& store, std::vector<std::string> keys,
                         BundleFileWriter& bundle) {
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  CacheExport result;
  for (const std::string& key : keys) {
    CacheEntry entry;
    try {
      entry = store.read(key);
    } catch (const CacheError& error) {
      result.left_out.push_back({.key = key, .problem = error.what()});
      continue;
    }
    if (is_code_record(entry.record.kernel)) continue;  // kernels have their own copy
    std::vector<CacheFile> files;
    files.reserve(entry.record.files.size());
    for (const CacheFileRecord& file : entry.record.files) {
      files.push_back({.name = file.name, .bytes = entry.file(file.name)});
    }
    bundle.add({.layer = "",
                .key = key,
                .spjit = entry.record.spjit_version,
                .record = std::move(entry.record.kernel)},
               files);
    ++result.entries;
  }
  return result;
}

CacheImport import_cache(const CacheStore& store, const BundleFile& bundle) {
  CacheImport result;
  for (const BundleKernel& kernel : bundle.index().kernels) {
    if (kernel.key.empty()) {
      ++result.without_key;
      continue;
    }
    if (kernel.spjit != store.spjit_version()) {
      ++result.other_versions;
      continue;
    }
    KernelFiles read;
    try {
      read = bundle.read(kernel);
    } catch (const IoError& error) {
      throw IoError(
          fmt::format("{}; {} kernels were imported before that", error.what(), result.imported));
    }
    std::vector<CacheFile> files;
    std::int64_t bytes = 0;
    for (const auto& [name, file] : read) {
      files.push_back({.name = name, .bytes = file.bytes()});
      bytes += std::ssize(file.bytes());
    }
    if (store.publish(kernel.key, files, kernel.record) == PublishResult::published) {
      ++result.imported;
      result.bytes += bytes;
    } else {
      ++result.already_there;
    }
  }
  return result;
}

}  // namespace spjit::cli
