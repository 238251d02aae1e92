#include "runtime/cache/server_breakers.hpp"

#include <map>
#include <mutex>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/fork_safe_mutex.hpp"
#include "base/hash.hpp"
#include "runtime/cache/remote_server.hpp"

namespace spjit {
namespace {

using Breakers = std::map<std::string, std::shared_ptr<CircuitBreaker>>;

struct KnownServers {
  ForkSafeMutex mutex;
  Breakers breakers;
};

void add_credentials(const HttpCredentials& credentials, KeyBuilder& way) {
  way.field("kind", static_cast<std::int64_t>(credentials.index()));
  if (const auto* bearer = std::get_if<HttpBearer>(&credentials)) {
    way.field("token", bearer->token);
  } else if (const auto* netrc = std::get_if<HttpNetrc>(&credentials)) {
    way.field("netrc", netrc->file.native());
  } else if (const auto* keys = std::get_if<HttpAwsKeys>(&credentials)) {
    way.field("access", keys->access_key)
        .field("secret", keys->secret_key)
        .field("session", keys->session_token)
        .field("region", keys->region);
  }
}

/// A digest, so that no secret stays in memory for it.
std::string way_of(const RemoteSettings& settings) {
  KeyBuilder way;
  way.field("url", settings.url)
      .field("first byte", settings.http.first_byte.count())
      .field("total", settings.http.total.count())
      .field("ca file", settings.http.ca_file.native())
      .field("failures", std::int64_t{settings.breaker.failures})
      .field("rest", settings.breaker.rest.count());
  add_credentials(settings.http.credentials, way);
  return way.hex();
}

}  // namespace

std::shared_ptr<CircuitBreaker> breaker_of(const RemoteSettings& settings) {
  // State of the process, because what it is about is: whether a server answers this machine.
  static constinit FoundOnce<std::shared_ptr<KnownServers>> known;
  constexpr std::size_t k_most_idle = 64;
  const std::shared_ptr<KnownServers>& servers =
      known.get([] { return std::make_shared<KnownServers>(); });
  const std::string way = way_of(settings);
  // Neither made nor destroyed under the lock: breakers have such locks, too.
  auto mine = std::make_shared<CircuitBreaker>(settings.breaker);
  Breakers dropped;
  const std::lock_guard lock(servers->mutex);
  if (const auto found = servers->breakers.find(way); found != servers->breakers.end()) {
    return found->second;
  }
  if (servers->breakers.size() >= k_most_idle) {
    for (auto each = servers->breakers.begin(); each != servers->breakers.end();) {
      const auto next = std::next(each);
      if (each->second.use_count() == 1) dropped.insert(servers->breakers.extract(each));
      each = next;
    }
  }
  return servers->breakers.emplace(way, std::move(mine)).first->second;
}

}  // namespace spjit
