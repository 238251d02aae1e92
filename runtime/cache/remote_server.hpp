#pragma once

/// @file
/// A server that holds kernels: where each lies, how it is asked, and what came of it.
///
///     subdirs = base "/" key[0..2] "/" key ".spjit"
///     flat    = base "/" key ".spjit"
///     bazel   = base "/ac/" key                      ; bazel-remote, --disable_http_ac_validation
///
/// An object is a bundle of one kernel.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.hpp"
#include "base/ed25519.hpp"
#include "base/fork_safe_mutex.hpp"
#include "base/http_client.hpp"
#include "runtime/cache/circuit_breaker.hpp"

namespace spjit {

enum class RemoteLayout : std::uint8_t { subdirs, flat, bazel };

/// Who may write what is taken.
enum class RemoteTrust : std::uint8_t {
  is_signed,  ///< the holders of keys
  server,     ///< whoever the server lets write
};

struct RemoteSettings {
  std::string url;  ///< http or https, without a slash at its end
  RemoteLayout layout = RemoteLayout::subdirs;
  bool may_write = false;
  RemoteTrust trust = RemoteTrust::is_signed;
  std::vector<Ed25519PublicKey> public_keys = {};
  std::optional<Ed25519PrivateKey> private_key = {};  ///< signs what is written
  bool dear_only = true;  ///< compilations that take milliseconds do not ask
  std::int64_t most_entry_bytes = std::int64_t{1} << 30;
  std::int64_t most_waiting_bytes = std::int64_t{64} << 20;  ///< to be written
  HttpOptions http = {};
  CircuitBreakerOptions breaker = {};
};

/// Why an entry was not taken.
enum class RemoteMiss : std::uint8_t {
  absent,      ///< 404
  status,      ///< any other but 200
  timeout,     ///< a deadline passed
  connection,  ///< no connection, or one that broke
  tls,         ///< an untrusted certificate
  redirect,    ///< too many, or to another scheme
  too_large,   ///< beyond RemoteSettings::most_entry_bytes
  cut_short,   ///< fewer bytes than were said
  damaged,     ///< no bundle of one kernel, or one that does not match its digests
  signature,   ///< not signed by a key that is trusted
  key,         ///< another kernel than was asked for
  version,     ///< of another version of spjit
  local,       ///< the directory cannot take it
  breaker,     ///< not asked: it failed just before
};
inline constexpr std::size_t k_remote_misses = 14;

[[nodiscard]] std::string_view to_string(RemoteMiss miss) noexcept;

/// Counts since a Compiler was made.
struct RemoteCounts {
  std::int64_t hits = 0;
  std::array<std::int64_t, k_remote_misses> misses{};  ///< by RemoteMiss
  std::int64_t bytes_in = 0;
  std::int64_t written = 0;
  std::int64_t bytes_out = 0;
  std::int64_t there_already = 0;  ///< not written: the server has them
  std::int64_t not_written = 0;    ///< the server refused, or could not be reached
  std::int64_t dropped = 0;        ///< too much was waiting, or the process ended
};

struct RemoteAnswer {
  bool is_found = false;
  RemoteMiss miss = RemoteMiss::absent;
  std::string problem = {};  ///< one line; empty if there simply is none, and for `breaker`
};

enum class RemotePut : std::uint8_t { written, there_already, failed };

struct RemotePutResult {
  RemotePut outcome = RemotePut::failed;
  std::string problem = {};  ///< one line, if it failed
  std::string kind = {};     ///< that it shares with other failures of the same cause
  bool is_final = false;     ///< the server takes nothing from us
};

/// Thread-safe; for a child of fork(), too.
class RemoteServer {
 public:
  /// Throws NotSupported without libcurl.
  explicit RemoteServer(RemoteSettings settings);

  [[nodiscard]] const RemoteSettings& settings() const noexcept { return settings_; }
  [[nodiscard]] std::string url_of(std::string_view key) const;

  /// Asks for the object of a key. Throws what the sink and `cancel` throw, nothing else.
  [[nodiscard]] RemoteAnswer get(std::string_view key, const HttpSink& sink,
                                 const Cancellation& cancel) const;
  /// Whether it has that object: as above, without taking it.
  [[nodiscard]] RemoteAnswer look(std::string_view key, const Cancellation& cancel) const;
  /// Writes it unless the server has one. Throws what `cancel` throws, nothing else.
  [[nodiscard]] RemotePutResult put(std::string_view key, std::span<const std::byte> object,
                                    const Cancellation& cancel) const;

  [[nodiscard]] RemoteCounts counts() const;
  /// Whether it is not asked, because it failed just before.
  [[nodiscard]] bool is_left_alone() const { return breaker_->is_open(); }
  /// Changes the counts: `change(counts)`.
  template <class Change>
  void count(const Change& change) const {
    const std::lock_guard lock(mutex_);
    change(counts_);
  }

 private:
  /// The answer to a request, which `send(url)` makes and gives the status of.
  template <class Send>
  [[nodiscard]] RemoteAnswer ask(std::string_view method, std::string_view key,
                                 const Send& send) const;
  [[nodiscard]] RemoteAnswer failed(RemoteMiss miss, std::string_view problem) const;
  [[nodiscard]] RemotePutResult answer_to_put(int status, std::string_view key,
                                              std::size_t bytes) const;

  RemoteSettings settings_;
  HttpClient client_;
  std::shared_ptr<CircuitBreaker> breaker_;  ///< of all that ask it in this process
  mutable ForkSafeMutex mutex_;
  mutable RemoteCounts counts_;
};

}  // namespace spjit
