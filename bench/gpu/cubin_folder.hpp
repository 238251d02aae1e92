#pragma once

/// @file
/// A folder of cubins for one card, compiled where there is no GPU and loaded where there is one.
///
///     folder   = cache "manifest.json"      ; a cache directory of spjit
///     (docs/design/cache-format.md) manifest = { "schema": "spjit-cubin-folder-1", "spjit",
///     "target", "arch", "sms", "toolchain",
///                  "finished": [step...], "cubins": [{ "name", "options", "key", "bytes",
///                  "sha256" }...] }
///
/// `spjit` is the version that compiled, `target` the card that tiles were chosen for, `finished`
/// the steps of scripts/gpu/gpu.sh whose cubins are all there, as stored_step() names them. Of a
/// cubin `name` says what it is for, `options` how it was compiled, `key` is that of its cache
/// entry, whose kernel.cubin has so many `bytes` and that `sha256`.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/refusal.hpp"
#include "runtime/cache/cache_store.hpp"
#include "runtime/cuda/cuda_device_info.hpp"
#include "spjit/compiler.hpp"
#include "spjit/kernel.hpp"

namespace spjit::bench {

inline constexpr std::string_view k_cubin_folder_schema = "spjit-cubin-folder-1";
inline constexpr std::string_view k_cubin_manifest_file = "manifest.json";

/// "ranks"; "ranks-rehearsal": other cases, for which a folder of the real ones is of no use, nor
/// the other way round.
[[nodiscard]] std::string stored_step(const std::string& step, bool rehearsal);

/// A line of the manifest.
struct CubinEntry {
  std::string name;     ///< "paper 01-768x768/0.5 n=512 spjit"
  std::string options;  ///< "ptx rows=32 columns=128"
  std::string key;      ///< of the cache entry
  std::int64_t bytes = 0;
  std::string sha256;  ///< of kernel.cubin, 64 hexadecimal digits

  friend bool operator==(const CubinEntry&, const CubinEntry&) = default;
};

struct CubinManifest {
  std::string spjit;   ///< version
  std::string target;  ///< "sm_90:h100"
  std::int64_t arch = 0;
  std::int64_t sms = 0;
  std::string toolchain;           ///< "NVRTC 13.0, nvJitLink 13.0"; empty: not known yet
  std::set<std::string> finished;  ///< steps
  std::vector<CubinEntry> cubins;  ///< by key, each once
};

[[nodiscard]] nlohmann::json to_json(const CubinManifest& manifest);

/// The manifest of a folder. Throws IoError, with the path first, if there is none or it is none.
[[nodiscard]] CubinManifest read_cubin_manifest(const std::filesystem::path& folder);

/// Why the cubins cannot be used on a device of this version of spjit: another version, another
/// architecture, another number of SMs.
[[nodiscard]] Refusal why_not_for(const CubinManifest& manifest, const CudaDeviceInfo& device);

/// Defects of the entries of a folder, a line each: missing, damaged, or another file than the
/// manifest lists. Reads all of them, changes nothing. Throws CacheError for a folder that other
/// users can write to.
[[nodiscard]] std::vector<std::string> damaged_cubins(const std::filesystem::path& folder,
                                                      const CubinManifest& manifest);

/// The purpose of a cubin, and how it is compiled.
struct CubinName {
  std::string name;
  std::string options;
};

/// A cubin that is no kernel of a Compiler, and what else its user has to know of it.
struct StoredCubin {
  std::string cubin;
  nlohmann::json more = nlohmann::json::object();
};

/// How many cubins were there and how many were compiled, in this process.
struct CubinCounts {
  std::size_t found = 0;
  std::size_t compiled = 0;
};

/// Thread-safe.
class CubinFolder {
 public:
  /// A folder to fill, new or interrupted before, for a card of the table: "sm_90:h100". Throws
  /// IoError for a folder of another version or card.
  [[nodiscard]] static std::shared_ptr<CubinFolder> to_fill(const std::filesystem::path& folder,
                                                            const std::string& target);
  /// A folder to load from on a device. What it lacks is compiled when it is asked for, and kept in
  /// it beside what the manifest lists. Throws IoError as read_cubin_manifest() does, and with
  /// why_not_for().
  [[nodiscard]] static std::shared_ptr<CubinFolder> for_device(const std::filesystem::path& folder,
                                                               const CudaDeviceInfo& device);
  CubinFolder(const CubinFolder&) = delete;
  CubinFolder& operator=(const CubinFolder&) = delete;
  ~CubinFolder();

  /// Looks for the compilers and lists them. Throws NotSupported where one is missing, before
  /// anything is compiled.
  void require_compilers();

  /// The card that tiles are chosen for.
  [[nodiscard]] const CudaDeviceInfo& card() const noexcept { return card_; }
  [[nodiscard]] bool is_to_fill() const noexcept { return is_to_fill_; }

  /// The kernel of a problem for the card, as Compiler::compile().
  [[nodiscard]] Kernel kernel(const std::string& name, const Problem& problem,
                              CompileOptions options);

  /// The cubin of that key, a SHA-256 of all that it is made of; what `make` gives where it is not
  /// there. Throws what `make` throws.
  [[nodiscard]] StoredCubin cubin(const CubinName& what, const std::string& key,
                                  const std::function<StoredCubin()>& make);

  /// All cubins of the step, a stored_step(), are there; writes the manifest.
  void finish(const std::string& step);

  [[nodiscard]] CubinCounts counts() const;

 private:
  CubinFolder(std::filesystem::path folder, CubinManifest manifest, CudaDeviceInfo card,
              bool is_to_fill);
  void add(const CubinName& what, const std::string& key, std::span<const std::byte> cubin,
           bool was_there);
  void save();

  std::filesystem::path folder_;
  CudaDeviceInfo card_;
  bool is_to_fill_;
  CacheStore store_;
  mutable std::mutex mutex_;
  CubinManifest manifest_;
  std::map<std::string, std::size_t> places_;  ///< in manifest_.cubins, by key
  CubinCounts counts_;
  std::size_t unsaved_ = 0;
};

/// "128 cubins found, 3 compiled here"
[[nodiscard]] std::string to_string(const CubinCounts& counts);

}  // namespace spjit::bench
