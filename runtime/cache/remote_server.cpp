#include "runtime/cache/remote_server.hpp"

#include <fmt/format.h>

#include <utility>

#include "runtime/cache/server_breakers.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

constexpr std::string_view k_content_type = "application/vnd.spjit.bundle.v1";

constexpr std::array<std::string_view, k_remote_misses> k_miss_names = {
    "absent",    "status",  "timeout",   "connection", "tls",     "redirect", "too_large",
    "cut_short", "damaged", "signature", "key",        "version", "local",    "breaker"};

RemoteMiss miss_of(HttpFault fault) {
  switch (fault) {
    case HttpFault::timeout:
      return RemoteMiss::timeout;
    case HttpFault::tls:
      return RemoteMiss::tls;
    case HttpFault::redirect:
      return RemoteMiss::redirect;
    case HttpFault::too_large:
      return RemoteMiss::too_large;
    case HttpFault::cut_short:
      return RemoteMiss::cut_short;
    case HttpFault::connection:
    case HttpFault::request:
      break;
  }
  return RemoteMiss::connection;
}

/// What to do about a refusal.
std::string_view advice_on(int status) {
  switch (status) {
    case 401:
      return "it does not know these credentials";
    case 403:
      return "it does not let these credentials do that";
    case 405:
      return "it takes no PUT; nginx needs dav_methods PUT";
    case 413:
      return "it takes smaller objects alone; nginx needs a larger client_max_body_size";
    case 507:
      return "its disk is full";
    default:
      return "an error of the server";
  }
}

/// Nothing that is written later would be taken.
bool is_final(int status) { return status == 401 || status == 403 || status == 405; }

}  // namespace

std::string_view to_string(RemoteMiss miss) noexcept {
  return k_miss_names.at(static_cast<std::size_t>(miss));
}

RemoteServer::RemoteServer(RemoteSettings settings)
    : settings_(std::move(settings)), client_(settings_.http), breaker_(breaker_of(settings_)) {}

std::string RemoteServer::url_of(std::string_view key) const {
  switch (settings_.layout) {
    case RemoteLayout::subdirs:
      return fmt::format("{}/{}/{}.spjit", settings_.url, key.substr(0, 2), key);
    case RemoteLayout::flat:
      return fmt::format("{}/{}.spjit", settings_.url, key);
    case RemoteLayout::bazel:
      break;
  }
  return fmt::format("{}/ac/{}", settings_.url, key);
}

RemoteCounts RemoteServer::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

RemoteAnswer RemoteServer::failed(RemoteMiss miss, std::string_view problem) const {
  std::string text = fmt::format("remote cache: {}", problem);
  if (breaker_->failed()) {
    text += fmt::format("; it is left alone for {} s",
                        std::chrono::ceil<std::chrono::seconds>(breaker_->rest()).count());
  }
  return {.is_found = false, .miss = miss, .problem = std::move(text)};
}

template <class Send>
RemoteAnswer RemoteServer::ask(std::string_view method, std::string_view key,
                               const Send& send) const {
  constexpr int k_found = 200;
  constexpr int k_absent = 404;
  if (!breaker_->lets_try()) return {.is_found = false, .miss = RemoteMiss::breaker};
  const std::string url = url_of(key);
  try {
    const int status = send(url);
    if (status != k_found && status != k_absent) {
      return failed(RemoteMiss::status,
                    fmt::format("{} {}: status {}: {}", method, url, status, advice_on(status)));
    }
    breaker_->succeeded();
    return {.is_found = status == k_found, .miss = RemoteMiss::absent};
  } catch (const HttpError& error) {
    return failed(miss_of(error.fault()), error.what());
  } catch (...) {
    breaker_->gave_up();
    throw;
  }
}

RemoteAnswer RemoteServer::get(std::string_view key, const HttpSink& sink,
                               const Cancellation& cancel) const {
  return ask("GET", key, [&](const std::string& url) {
    return client_.get(url, settings_.most_entry_bytes, sink, cancel);
  });
}

RemoteAnswer RemoteServer::look(std::string_view key, const Cancellation& cancel) const {
  return ask("HEAD", key, [&](const std::string& url) { return client_.head(url, cancel); });
}

RemotePutResult RemoteServer::answer_to_put(int status, std::string_view key,
                                            std::size_t bytes) const {
  constexpr int k_first_error = 300;
  constexpr int k_first_of_server = 500;
  constexpr int k_full = 507;
  if (status >= k_first_of_server && status != k_full) {
    breaker_->failed();
  } else {
    breaker_->succeeded();
  }
  if (status < k_first_error) return {.outcome = RemotePut::written};
  return {.outcome = RemotePut::failed,
          .problem = fmt::format("remote cache: PUT {} of {} bytes: status {}: {}", url_of(key),
                                 bytes, status, advice_on(status)),
          .kind = fmt::format("status {}", status),
          .is_final = is_final(status)};
}

RemotePutResult RemoteServer::put(std::string_view key, std::span<const std::byte> object,
                                  const Cancellation& cancel) const {
  constexpr int k_found = 200;
  const auto failure = [](std::string_view problem, std::string_view kind) {
    return RemotePutResult{.outcome = RemotePut::failed,
                           .problem = fmt::format("remote cache: {}", problem),
                           .kind = std::string(kind)};
  };
  if (!breaker_->lets_try()) {
    return failure(fmt::format("{} is left alone: it failed just before", settings_.url),
                   "breaker");
  }
  const std::string url = url_of(key);
  try {
    if (client_.head(url, cancel) == k_found) {
      breaker_->succeeded();
      return {.outcome = RemotePut::there_already};
    }
    const HttpPut what{.body = object, .content_type = std::string(k_content_type)};
    return answer_to_put(client_.put(url, what, cancel), key, object.size());
  } catch (const HttpError& error) {
    breaker_->failed();
    return failure(error.what(), to_string(miss_of(error.fault())));
  } catch (...) {
    breaker_->gave_up();
    throw;
  }
}

}  // namespace spjit
