#include "bench/gpu/cubin_folder.hpp"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/hash.hpp"
#include "bench/json_file.hpp"
#include "kernels/cuda/build/cuda_build.hpp"
#include "kernels/cuda/launch/cuda_program.hpp"
#include "kernels/kernel_record.hpp"
#include "runtime/cuda/cuda_libraries.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"

namespace spjit::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Cubins that an interrupted run may have to look up again.
constexpr std::size_t k_most_unsaved = 16;

CacheStore open_store(const fs::path& folder, bool read_only) {
  CacheStoreOptions options;
  options.read_only = read_only;
  return {folder, SPJIT_VERSION, options};
}

std::string sha256_of(std::span<const std::byte> bytes) { return hex_text(sha256(bytes)); }

[[noreturn]] void no_manifest(const fs::path& file, const std::string& problem) {
  throw IoError(
      fmt::format("{}: {}; expected a manifest of schema {}, as scripts/gpu/gpu.sh "
                  "--precompile writes",
                  file.string(), problem, k_cubin_folder_schema));
}

CubinEntry read_entry(const json& from) {
  return {from.at("name").get<std::string>(), from.at("options").get<std::string>(),
          from.at("key").get<std::string>(), from.at("bytes").get<std::int64_t>(),
          from.at("sha256").get<std::string>()};
}

CubinManifest read_manifest(const json& from) {
  CubinManifest manifest;
  manifest.spjit = from.at("spjit").get<std::string>();
  manifest.target = from.at("target").get<std::string>();
  manifest.arch = from.at("arch").get<std::int64_t>();
  manifest.sms = from.at("sms").get<std::int64_t>();
  manifest.toolchain = from.at("toolchain").get<std::string>();
  manifest.finished = from.at("finished").get<std::set<std::string>>();
  for (const json& entry : from.at("cubins")) manifest.cubins.push_back(read_entry(entry));
  for (const CubinEntry& entry : manifest.cubins) {
    if (!is_cache_key(entry.key)) throw Error(fmt::format("'{}' is no key", entry.key));
  }
  return manifest;
}

/// Whether an entry of the manifest is there and whole.
Refusal problem_of(const CacheStore& store, const CubinEntry& expected) {
  try {
    const CacheEntry entry = store.read(expected.key);
    const std::span<const std::byte> cubin = entry.file(k_cubin_file);
    const std::string sha256 = sha256_of(cubin);
    if (sha256 == expected.sha256) return Refusal::none();
    return Refusal(fmt::format("its kernel.cubin has the SHA-256 {}, the manifest {}", sha256,
                               expected.sha256));
  } catch (const CacheError& error) {
    return Refusal(error.what());
  }
}

}  // namespace

std::string stored_step(const std::string& step, bool rehearsal) {
  return rehearsal ? step + "-rehearsal" : step;
}

json to_json(const CubinManifest& manifest) {
  json cubins = json::array();
  for (const CubinEntry& entry : manifest.cubins) {
    cubins.push_back({{"name", entry.name},
                      {"options", entry.options},
                      {"key", entry.key},
                      {"bytes", entry.bytes},
                      {"sha256", entry.sha256}});
  }
  return {{"schema", k_cubin_folder_schema},
          {"spjit", manifest.spjit},
          {"target", manifest.target},
          {"arch", manifest.arch},
          {"sms", manifest.sms},
          {"toolchain", manifest.toolchain},
          {"finished", manifest.finished},
          {"cubins", std::move(cubins)}};
}

CubinManifest read_cubin_manifest(const fs::path& folder) {
  const fs::path path = folder / k_cubin_manifest_file;
  std::ifstream file(path);
  if (!file) no_manifest(path, "cannot be read");
  const json document = json::parse(file, nullptr, false);
  if (!document.is_object()) no_manifest(path, "is no JSON object");
  if (document.value("schema", "") != k_cubin_folder_schema)
    no_manifest(path, "is of another schema");
  try {
    return read_manifest(document);
  } catch (const json::exception& error) {
    no_manifest(path, error.what());
  } catch (const Error& error) {
    no_manifest(path, error.what());
  }
}

Refusal why_not_for(const CubinManifest& manifest, const CudaDeviceInfo& device) {
  if (manifest.spjit != SPJIT_VERSION) {
    return Refusal(fmt::format("compiled by spjit {}, this is spjit {}; compile them anew",
                               manifest.spjit, SPJIT_VERSION));
  }
  if (manifest.arch != device.arch) {
    return Refusal(
        fmt::format("compiled for {}, the device {} is sm_{}; compile them with --target sm_{}",
                    manifest.target, device.product, device.arch, device.arch));
  }
  if (manifest.sms != device.sms) {
    return Refusal(
        fmt::format("tiles chosen for {} with {} SMs, the device {} has {}; compile them with "
                    "--target of its card",
                    manifest.target, manifest.sms, device.product, device.sms));
  }
  return Refusal::none();
}

std::vector<std::string> damaged_cubins(const fs::path& folder, const CubinManifest& manifest) {
  const CacheStore store = open_store(folder, true);
  std::vector<std::string> problems;
  for (const CubinEntry& entry : manifest.cubins) {
    const Refusal problem = problem_of(store, entry);
    if (problem) problems.push_back(fmt::format("{}: {}", entry.name, problem.reason()));
  }
  return problems;
}

std::shared_ptr<CubinFolder> CubinFolder::to_fill(const fs::path& folder,
                                                  const std::string& target) {
  CudaDeviceInfo card = parse_cuda_target(target);
  CubinManifest manifest{SPJIT_VERSION, card.name(), card.arch, card.sms, {}, {}, {}};
  if (fs::exists(folder / k_cubin_manifest_file)) {
    CubinManifest earlier = read_cubin_manifest(folder);
    if (earlier.spjit != manifest.spjit || earlier.target != manifest.target) {
      throw IoError(fmt::format(
          "{}: has cubins of spjit {} for {}, expected spjit {} for {}; remove it or choose "
          "another "
          "folder",
          folder.string(), earlier.spjit, earlier.target, manifest.spjit, manifest.target));
    }
    manifest = std::move(earlier);
  }
  return std::shared_ptr<CubinFolder>(
      new CubinFolder(folder, std::move(manifest), std::move(card), true));
}

std::shared_ptr<CubinFolder> CubinFolder::for_device(const fs::path& folder,
                                                     const CudaDeviceInfo& device) {
  CubinManifest manifest = read_cubin_manifest(folder);
  const Refusal problem = why_not_for(manifest, device);
  if (problem) throw IoError(fmt::format("{}: {}", folder.string(), problem.reason()));
  CudaDeviceInfo card = parse_cuda_target(manifest.target);
  return std::shared_ptr<CubinFolder>(
      new CubinFolder(folder, std::move(manifest), std::move(card), false));
}

CubinFolder::CubinFolder(fs::path folder, CubinManifest manifest, CudaDeviceInfo card,
                         bool is_to_fill)
    : folder_(std::move(folder)),
      card_(std::move(card)),
      is_to_fill_(is_to_fill),
      store_(open_store(folder_, false)),
      manifest_(std::move(manifest)) {
  for (std::size_t i = 0; i < manifest_.cubins.size(); ++i) places_[manifest_.cubins[i].key] = i;
}

CubinFolder::~CubinFolder() {
  try {
    if (unsaved_ > 0) save();
  } catch (const std::exception&) {
    // The cubins are there; the next run lists them.
  }
}

void CubinFolder::require_compilers() {
  CudaToolchainNeeds needs;
  needs.arch = static_cast<int>(card_.arch);
  needs.nvrtc = needs.nvjitlink = true;
  const CudaToolchain toolchain = load_cuda_toolchain(needs, found_cuda_libraries());
  const std::lock_guard lock(mutex_);
  manifest_.toolchain = to_string(toolchain);
}

Kernel CubinFolder::kernel(const std::string& name, const Problem& problem,
                           CompileOptions options) {
  options.target = Target::parse(card_.name());
  CacheOptions cache;
  cache.directory = folder_;
  cache.size_limit_bytes = 0;
  Kernel kernel = Compiler(options, cache).compile(problem);
  const KernelInfo& info = kernel.info();
  if (!info.not_cached.empty()) throw CacheError(info.not_cached);
  add({name, fmt::format("{} {}", info.family, info.tile)}, info.key,
      kernel.artifact().file(k_cubin_file), info.from_cache);
  return kernel;
}

StoredCubin CubinFolder::cubin(const CubinName& what, const std::string& key,
                               const std::function<StoredCubin()>& make) {
  StoredCubin found;
  const CacheLookup lookup = store_.lookup(key);
  const bool was_there = lookup.entry && is_code_record(lookup.entry->record.kernel);
  if (was_there) {
    const std::span<const std::byte> bytes = lookup.entry->file(k_cubin_file);
    found.cubin.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    found.more = lookup.entry->record.kernel.at("more");
  } else {
    found = make();
    json record = code_record();
    record["more"] = found.more;
    const std::array files = {
        CacheFile{std::string(k_cubin_file), std::as_bytes(std::span(found.cubin))}};
    store_.publish(key, files, record);
  }
  add(what, key, std::as_bytes(std::span(found.cubin)), was_there);
  return found;
}

void CubinFolder::add(const CubinName& what, const std::string& key,
                      std::span<const std::byte> cubin, bool was_there) {
  const std::string sha256 = is_to_fill_ ? sha256_of(cubin) : std::string();
  const std::lock_guard lock(mutex_);
  ++(was_there ? counts_.found : counts_.compiled);
  if (!is_to_fill_) return;
  CubinEntry entry{what.name, what.options, key, static_cast<std::int64_t>(cubin.size()), sha256};
  const auto [place, is_new] = places_.try_emplace(key, manifest_.cubins.size());
  if (is_new) {
    manifest_.cubins.push_back(std::move(entry));
  } else if (manifest_.cubins[place->second].sha256 != sha256) {
    manifest_.cubins[place->second] = std::move(entry);
  } else {
    return;
  }
  if (++unsaved_ >= k_most_unsaved) save();
}

void CubinFolder::finish(const std::string& step) {
  const std::lock_guard lock(mutex_);
  manifest_.finished.insert(step);
  save();
}

CubinCounts CubinFolder::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void CubinFolder::save() {
  save_json(folder_ / k_cubin_manifest_file, to_json(manifest_));
  unsaved_ = 0;
}

std::string to_string(const CubinCounts& counts) {
  return fmt::format("{} cubins found in the folder, {} compiled", counts.found, counts.compiled);
}

}  // namespace spjit::bench
