#include "compiler/kernel_cache.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "artifact/kernel_files.hpp"
#include "base/environment.hpp"
#include "base/file_descriptor.hpp"
#include "base/json_text.hpp"
#include "base/page_mapping.hpp"
#include "base/refusal.hpp"
#include "base/safe_path.hpp"
#include "compiler/remote_options.hpp"
#include "runtime/bundle/bundle_layer.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"

namespace spjit {
namespace {

CacheStoreOptions store_options(const CacheOptions& options, const CacheEnvironment& environment) {
  const std::int64_t fallback =
      default_cache_size(environment, CacheOptions::k_default_size_limit_bytes);
  return {.size_limit_bytes = options.size_limit_bytes.value_or(fallback),
          .allow_unsafe = default_cache_unsafe(environment) || options.allow_unsafe_directory,
          .read_only = false};
}

/// Throws CacheError also where the variables are those of another user than root, who runs this.
std::filesystem::path default_directory(const Environment& environment) {
  std::filesystem::path directory = default_cache_directory(environment);
  if (environment.spjit_cache_dir) return directory;
  const bool from_xdg = environment.xdg_cache_home &&
                        std::filesystem::path(*environment.xdg_cache_home).is_absolute();
  const char* variable = from_xdg ? "XDG_CACHE_HOME" : "HOME";
  const std::string home = from_xdg ? *environment.xdg_cache_home : environment.home.value_or("");
  const Refusal foreign = foreign_home(home, directory, ::geteuid());
  if (!foreign) return directory;
  throw CacheError(fmt::format(
      "{} leads to '{}', but {}: kernels of root are not kept there; name a cache directory with "
      "--cache or SPJIT_CACHE_DIR, or set {} to root's",
      variable, directory.native(), foreign.reason(), variable));
}

CacheStore open_store(const CacheOptions& options, const CacheStoreOptions& store) {
  const bool given = !options.directory.empty();
  return {given ? options.directory : default_directory(read_environment()), SPJIT_VERSION, store};
}

struct OpenedLayers {
  std::vector<std::shared_ptr<const CacheLayer>> layers;
  std::string note;
};

std::shared_ptr<const CacheLayer> open_layer(const std::filesystem::path& path,
                                             const CacheStoreOptions& store) {
  std::error_code none;
  // The system would look at what stands before a zero byte.
  const bool is_whole = path.native().find('\0') == std::string::npos;
  if (!is_whole || !std::filesystem::is_regular_file(path, none)) {
    return std::make_shared<CacheStore>(path, SPJIT_VERSION, store);
  }
  try {
    return std::make_shared<BundleLayer>(
        BundleFile::open(path, {.key = {}, .any_owner = store.allow_unsafe}), SPJIT_VERSION);
  } catch (const IoError& error) {
    throw CacheError(error.what());
  }
}

OpenedLayers open_layers(const CacheOptions& options, const CacheEnvironment& environment,
                         CacheStoreOptions store) {
  const bool given = !options.read_only_layers.empty();
  store.read_only = true;
  OpenedLayers opened;
  for (const std::filesystem::path& path :
       given ? options.read_only_layers : default_cache_layers(environment)) {
    try {
      opened.layers.push_back(open_layer(path, store));
    } catch (const CacheError& error) {
      if (given) throw;
      add_note(opened.note, fmt::format("cache layer not used: {}", error.what()));
    }
  }
  return opened;
}

/// The server of the options, else the default one; null if there is none. What is wrong with the
/// default is noted.
std::shared_ptr<const RemoteCache> open_remote(const CacheOptions& options,
                                               const std::optional<CacheStore>& writable,
                                               std::string& note) {
  try {
    const std::optional<RemoteCacheOptions> remote =
        options.remote ? options.remote : default_remote(read_remote_environment());
    if (!remote || remote->url.empty()) return nullptr;
    RemoteSettings settings = remote_settings(*remote);
    if (writable) return std::make_shared<const RemoteCache>(*writable, std::move(settings));
    add_note(note, "remote cache not used: there is no cache directory that could keep kernels");
  } catch (const NotSupported& error) {  // no libcrypto
    add_note(note, fmt::format("remote cache not used: {}", error.what()));
  } catch (const Error& error) {
    if (options.remote) throw;
    add_note(note, fmt::format("remote cache not used: {}", error.what()));
  }
  return nullptr;
}

Refusal mismatch(const KernelInfo& info, const Problem& problem, const Target& target) {
  if (info.target.code() == target.code() && info.n == problem.n.value) {
    return Refusal::none();
  }
  return Refusal(fmt::format("its code is for {} and n = {}, asked for were {} and n = {}",
                             info.target.name(), info.n, target.name(), problem.n.value));
}

}  // namespace

void add_note(std::string& notes, std::string_view note) {
  if (note.empty()) return;
  if (!notes.empty()) notes += "; ";
  notes += note;
}

OpenedCache open_cache(const CacheOptions& options) {
  OpenedCache opened;
  if (!options.enabled && options.read_only_layers.empty()) return opened;
  const CacheEnvironment environment = read_cache_environment();
  const CacheStoreOptions store = store_options(options, environment);
  std::optional<CacheStore> writable;
  try {
    if (options.enabled) {
      writable = open_store(options, store);
      if (!options.directory.empty()) create_private_directories(options.directory);
    }
  } catch (const CacheError& error) {
    if (!options.directory.empty()) throw;
    opened.note = fmt::format("not cached: {}", error.what());
  }
  OpenedLayers below = open_layers(options, environment, store);
  add_note(opened.note, below.note);
  std::shared_ptr<const RemoteCache> remote;
  if (options.enabled) remote = open_remote(options, writable, opened.note);
  if (writable || !below.layers.empty()) {
    opened.cache.emplace(std::move(writable), std::move(below.layers), std::move(remote));
  }
  return opened;
}

CacheStore open_cache_directory(const CacheOptions& options) {
  return open_store(options, store_options(options, read_cache_environment()));
}

LoadedEntry load_entry(CacheEntry& entry, const Problem& problem, const Target& target,
                       const HostDevice& device, const Cancellation& cancel) {
  try {
    auto kernel =
        load_kernel_files(std::move(entry.files), std::move(entry.record.kernel), device, cancel);
    if (Refusal wrong = mismatch(kernel->info, problem, target)) {
      return {.problem = std::move(wrong).reason()};
    }
    kernel->info.cache_directory = entry.root.string();
    return {.kernel = std::move(kernel)};
  } catch (const Cancelled&) {
    throw;  // it was not the entry's fault
  } catch (const DeadlineExceeded&) {
    throw;
  } catch (const NoPages& error) {
    // It was not the entry's fault either.
    return {.note = fmt::format("cache: entry {} cannot be loaded: {}", entry.record.key,
                                error.what())};
  } catch (const nlohmann::json::exception& error) {
    return {.problem = json_problem(error.what())};
  } catch (const Error& error) {
    return {.problem = error.what()};
  }
}

}  // namespace spjit
