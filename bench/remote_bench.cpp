/// @file
/// What a remote cache costs beside no cache: a hit of 250 KB and of 2 MB with its signature, a
/// miss, and what a publication in the directory takes of a hit, with and without waiting for the
/// disk. Every hit is of a key of its own. Needs a server that takes PUT (nginx with DAV) and a key
/// pair of Ed25519. A line a case: median and worst tenth, in milliseconds.
///
///     remote_bench http://127.0.0.1:8080/spjit --cache /tmp/cache --private-key k.pem
///                  --public-key k.pub

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "base/timing.hpp"
#include "compiler/remote_options.hpp"
#include "runtime/cache/remote_cache.hpp"
#include "spjit/version.hpp"

namespace {

using namespace spjit;

struct Options {
  std::string url;
  std::filesystem::path cache = "/tmp/spjit-remote-bench";
  std::string private_key;
  std::string public_key;
  int count = 40;
};

std::string key_of(std::int64_t bytes, std::int64_t number, std::int64_t run) {
  return KeyBuilder().field("bytes", bytes).field("number", number).field("run", run).hex();
}

std::vector<std::byte> made_up(std::int64_t bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> content(static_cast<std::size_t>(bytes));
  for (std::byte& byte : content) byte = static_cast<std::byte>(random());
  return content;
}

void print_case(const char* name, std::int64_t bytes, std::vector<double> ms) {
  std::ranges::sort(ms);
  const auto at = [&](double share) {
    return ms[static_cast<std::size_t>(share * static_cast<double>(ms.size() - 1))];
  };
  fmt::print("{:<24} {:>8} bytes  median {:7.2f} ms  worst tenth {:7.2f} ms\n", name, bytes,
             at(0.5), at(0.9));
}

/// Milliseconds of `call(i)` for each i.
std::vector<double> times(int count, const std::function<void(int)>& call) {
  std::vector<double> ms;
  for (int i = 0; i < count; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    call(i);
    ms.push_back(ms_since(begin));
  }
  return ms;
}

CacheStore store_in(const std::filesystem::path& folder, const char* name) {
  return {folder / name, SPJIT_VERSION};
}

void measure(const Options& options, const RemoteSettings& settings, std::int64_t bytes,
             std::int64_t run) {
  const CacheStore source = store_in(options.cache, "source");
  const RemoteServer server(settings);
  const std::vector<std::byte> content = made_up(bytes, static_cast<std::uint64_t>(run + bytes));
  const std::vector<CacheFile> files = {{.name = "kernel.o", .bytes = content}};
  const nlohmann::json record = {{"target", "made up"}};
  const auto key = [&](int i) { return key_of(bytes, i, run); };
  print_case("publish, waited for", bytes,
             times(options.count, [&](int i) { source.publish(key(i), files, record); }));
  const CacheStore copies = store_in(options.cache, "copies");
  print_case("publish, not waited for", bytes, times(options.count, [&](int i) {
               copies.publish(key(i), files, record, {}, EntrySync::no);
             }));
  print_case("put", bytes, times(options.count, [&](int i) {
               const RemotePutResult result = push_entry(server, source, key(i));
               if (result.outcome == RemotePut::failed) throw IoError(result.problem);
             }));
  const RemoteCache cache(store_in(options.cache, "taken"), settings);
  static_cast<void>(cache.lookup(key_of(bytes, -1, run)));  // the connection
  print_case("hit", bytes, times(options.count, [&](int i) {
               const CacheLookup found = cache.lookup(key(i));
               if (!found.entry) throw IoError("no hit: " + found.miss_reason);
             }));
  print_case("miss", 0, times(options.count, [&](int i) {
               static_cast<void>(cache.lookup(key_of(bytes, 1'000'000 + i, run)));
             }));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("What a remote cache costs.");
  app.add_option("URL", options.url, "Of a server that takes PUT.")->required();
  app.add_option("--cache", options.cache, "A folder, which is emptied: on a disk, or on tmpfs.");
  app.add_option("--private-key", options.private_key, "The file of a key.")->required();
  app.add_option("--public-key", options.public_key, "The file of its public key.")->required();
  app.add_option("--count", options.count, "Keys of each size.");
  CLI11_PARSE(app, argc, argv);
  try {
    std::filesystem::remove_all(options.cache);
    RemoteCacheOptions remote;
    remote.url = options.url;
    remote.may_write = true;
    remote.private_key = options.private_key;
    remote.public_keys = {options.public_key};
    const RemoteSettings settings = remote_settings(remote);
    const auto run = std::chrono::system_clock::now().time_since_epoch().count();
    for (const std::int64_t bytes : {std::int64_t{250} << 10, std::int64_t{2} << 20}) {
      measure(options, settings, bytes, run);
    }
    std::filesystem::remove_all(options.cache);
  } catch (const std::exception& error) {
    fmt::print(stderr, "remote_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
