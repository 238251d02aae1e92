#pragma once

/// @file
/// HTTP by libcurl, 7.66 or later, which is opened when it is first needed: who names no server
/// needs none. Proxies are those of libcurl's environment (https_proxy, no_proxy).

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>

#include "base/cancel.hpp"
#include "spjit/error.hpp"

namespace spjit {

/// The cause of a request without a whole answer.
enum class HttpFault : std::uint8_t {
  timeout,     ///< a deadline passed
  connection,  ///< no host of that name, refused, reset, no HTTP
  tls,         ///< the certificate is not trusted, or there is no common protocol
  redirect,    ///< too many, or to another scheme
  too_large,   ///< more bytes than the caller takes
  cut_short,   ///< fewer bytes than the server said
  request,     ///< a URL that is none, an option that this libcurl lacks
};

/// The message names the URL; credentials are never in it.
class HttpError : public IoError {
 public:
  HttpError(HttpFault fault, const std::string& message) : IoError(message), fault_(fault) {}
  [[nodiscard]] HttpFault fault() const noexcept { return fault_; }

 private:
  HttpFault fault_;
};

struct HttpBearer {
  std::string token;
};
struct HttpNetrc {
  std::filesystem::path file;
};
/// Signature version 4 of S3.
struct HttpAwsKeys {
  std::string access_key;
  std::string secret_key;
  std::string session_token;  ///< empty: none
  std::string region;
};
/// They go to the host of the URL alone, never where a redirect leads.
using HttpCredentials = std::variant<std::monostate, HttpBearer, HttpNetrc, HttpAwsKeys>;

struct HttpOptions {
  std::chrono::milliseconds first_byte{500};  ///< of the last answer, from the call on
  std::chrono::milliseconds total{10'000};    ///< of a call with its redirects
  std::filesystem::path ca_file = {};         ///< certificates that are trusted; empty: libcurl's
  HttpCredentials credentials = {};
};

/// Takes a part of the body. What it throws ends the call and comes out of it.
using HttpSink = std::function<void(std::span<const std::byte>)>;

struct HttpPut {
  std::span<const std::byte> body;  ///< borrowed for the call
  std::string content_type;
};

/// Requests with one set of options. Connections are kept for the next request. Thread-safe: each
/// thread has a connection of its own; a child of fork() makes new ones. Copies share them.
///
/// All calls follow at most 3 redirects (PUT none), of the same scheme. They throw HttpError if
/// there is no whole answer, and what `cancel` throws at most 50 ms after it is reached. Any status
/// is an answer.
class HttpClient {
 public:
  static constexpr int k_most_redirects = 3;

  /// Throws NotSupported where there is no libcurl.
  explicit HttpClient(HttpOptions options);

  /// The status. The body of a 200 goes to `sink`, up to `most_bytes`; others are not read.
  [[nodiscard]] int get(const std::string& url, std::int64_t most_bytes, const HttpSink& sink,
                        const Cancellation& cancel = {}) const;
  [[nodiscard]] int head(const std::string& url, const Cancellation& cancel = {}) const;
  /// Has no limit for the first byte, which comes when the body has been sent.
  [[nodiscard]] int put(const std::string& url, const HttpPut& what,
                        const Cancellation& cancel = {}) const;

 private:
  class Impl;
  std::shared_ptr<const Impl> impl_;
};

/// The parts of a URL that say whom one talks to.
struct UrlOrigin {
  std::string scheme;  ///< "http" or "https"
  std::string host;
  std::string port;

  bool operator==(const UrlOrigin&) const = default;
};

/// Throws InvalidArgument for what is no URL of http or https, or holds a user or a password, which
/// the message does not repeat; NotSupported where there is no libcurl.
[[nodiscard]] UrlOrigin origin_of(const std::string& url);

}  // namespace spjit
