#pragma once

/// @file
/// Kernels that other machines have compiled: a server as a layer of a cache.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cache/cache_layer.hpp"
#include "runtime/cache/cache_reports.hpp"
#include "runtime/cache/cache_store.hpp"
#include "runtime/cache/remote_queue.hpp"
#include "runtime/cache/remote_server.hpp"

namespace spjit {

class BundleFile;

/// Kernels found are first published in a directory: code runs from there alone. A server that
/// does not answer, or answers with anything else than a whole, trusted kernel of that key and
/// version, is a miss. Thread-safe; for a child of fork(), too.
class RemoteCache final : public CacheLayer {
 public:
  /// Without libcurl it finds nothing, and the first look-up says why.
  RemoteCache(CacheStore local, RemoteSettings settings);

  [[nodiscard]] const RemoteSettings& settings() const noexcept { return settings_; }

  /// Whether such kernels are looked for, and written, here.
  [[nodiscard]] bool takes(bool is_dear) const noexcept { return is_dear || !settings_.dear_only; }

  /// As `CacheStore::lookup()`, of the entry in the directory. Takes up to the deadlines of
  /// HttpOptions and the time of a publication.
  [[nodiscard]] CacheLookup lookup(std::string_view key,
                                   std::span<const std::string_view> wanted = {}) const override;
  /// As above; throws what `cancel` throws.
  [[nodiscard]] CacheLookup lookup(std::string_view key, std::span<const std::string_view> wanted,
                                   const Cancellation& cancel) const;

  /// As of an entry of the directory.
  [[nodiscard]] std::string reject(const CacheEntry& entry, std::string_view reason) const override;

  [[nodiscard]] std::vector<ListedKernel> kernels() const override { return {}; }

  /// Writes the directory's entry of `key` to the server later, in another thread, if it may be
  /// written to. `bytes`: of its files.
  void push_later(std::string_view key, std::int64_t bytes) const;
  /// As `RemoteQueue::flush()`.
  bool flush(const Cancellation& cancel) const;
  /// Refusals of the server since the last call, each kind once; empty if none.
  [[nodiscard]] std::string take_reports() const;

  /// Null without libcurl.
  [[nodiscard]] const RemoteServer* server() const noexcept { return server_.get(); }

 private:
  struct Checked;
  [[nodiscard]] RemoteAnswer fetch(std::string_view key, const Cancellation& cancel) const;
  [[nodiscard]] RemoteAnswer publish(std::string_view key, const std::filesystem::path& file,
                                     const Cancellation& cancel) const;
  [[nodiscard]] Checked check(std::string_view key, const std::filesystem::path& file) const;

  CacheStore local_;
  RemoteSettings settings_;
  std::shared_ptr<const RemoteServer> server_;
  std::unique_ptr<RemoteQueue> queue_;  ///< null: it is not written to
  std::string no_libcurl_;              ///< why there is none
  std::shared_ptr<CacheReports> reports_;
};

/// Writes an entry of a directory to the server, as a bundle of one kernel, signed if there is a
/// key. Throws CacheError for an entry that is not there, or damaged; IoError, and what `cancel`
/// throws.
[[nodiscard]] RemotePutResult push_entry(const RemoteServer& server, const CacheStore& store,
                                         std::string_view key, const Cancellation& cancel = {});

}  // namespace spjit
