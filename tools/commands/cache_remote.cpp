// spjit cache push, pull and check-remote: kernels on their way to a server and back.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "artifact/bundle_impl.hpp"
#include "base/hash.hpp"
#include "base/quantities.hpp"
#include "base/timing.hpp"
#include "compiler/remote_options.hpp"
#include "kernels/kernel_record.hpp"
#include "runtime/cache/remote_cache.hpp"
#include "spjit/error.hpp"
#include "tools/commands/cache_actions.hpp"
#include "tools/options/bundle_options.hpp"
#include "tools/options/cache_options.hpp"
#include "tools/report/kernel_cells.hpp"
#include "tools/report/terminal.hpp"

namespace spjit::cli {
namespace {

struct RemoteActionOptions : CacheActionOptions {
  std::vector<std::string> keys;
  std::string private_key;
  bool writes = false;
};

/// The server that --cache-remote or the environment names. Throws UsageError without one.
RemoteSettings settings_of(const RemoteActionOptions& options) {
  const std::optional<RemoteCacheOptions> remote =
      options.cache.remote ? options.cache.remote : default_remote(read_remote_environment());
  if (!remote || remote->url.empty()) {
    throw UsageError(
        "no remote cache is named; expected --cache-remote, SPJIT_CACHE_REMOTE or "
        "~/.config/spjit/remote.json");
  }
  RemoteSettings settings = remote_settings(*remote);
  if (!options.private_key.empty()) settings.private_key = read_private_key(options.private_key);
  return settings;
}

ExitCode run_push(const RemoteActionOptions& options) {
  const CacheStore store = open_store(options, CacheMustExist::yes);
  const RemoteServer server(settings_of(options));
  if (!server.settings().private_key) {
    print_note(
        "there is no private_key: kernels are written unsigned, and readers that trust keys "
        "do not take them");
  }
  std::size_t count = 0;
  Json failed = Json::array();
  const auto fail = [&](const std::string& key, const std::string& problem) {
    print_error(fmt::format("cache entry {}: not written: {}", key, printable(problem)));
    failed.push_back({{"key", key}, {"problem", problem}});
  };
  for (const std::string& key : select_keys(store, options.keys)) {
    ++count;
    try {
      if (is_code_record(store.read(key).record.kernel)) continue;  // kernels have their own copy
      const RemotePutResult result = push_entry(server, store, key);
      if (result.outcome != RemotePut::failed) continue;
      fail(key, result.problem);
      if (result.is_final) break;
    } catch (const CacheError& error) {
      fail(key, error.what());
    }
  }
  const RemoteCounts counts = server.counts();
  if (options.json) {
    print_json({{"cache", store.root().string()},
                {"remote", server.settings().url},
                {"written", counts.written},
                {"bytes", counts.bytes_out},
                {"there_already", counts.there_already},
                {"failed", failed}});
  } else {
    print(fmt::format("{}: wrote {} kernels, {}; {} were there already\n", server.settings().url,
                      counts.written, size_text(counts.bytes_out), counts.there_already));
  }
  return exit_code(count, failed.size());
}

ExitCode run_pull(const RemoteActionOptions& options) {
  const CacheStore store = open_store(options, CacheMustExist::no);
  const auto bad = std::ranges::find_if_not(options.keys, is_cache_key);
  if (bad != options.keys.end()) {
    throw UsageError(
        fmt::format("'{}' is no key; expected 64 lowercase hexadecimal digits: a server lists none",
                    printable(*bad)));
  }
  RemoteSettings settings = settings_of(options);
  settings.may_write = false;
  const RemoteCache remote(store, std::move(settings));
  std::size_t already = 0;
  Json failed = Json::array();
  for (const std::string& key : options.keys) {
    if (store.lookup(key).entry) {
      ++already;
      continue;
    }
    const CacheLookup found = remote.lookup(key);
    if (found.entry) continue;
    const std::string problem =
        found.miss_reason.empty() ? "the remote cache does not have it" : found.miss_reason;
    print_error(fmt::format("key {}: {}", key, printable(problem, 1000)));
    failed.push_back({{"key", key}, {"problem", problem}});
  }
  const RemoteCounts counts =
      remote.server() == nullptr ? RemoteCounts{} : remote.server()->counts();
  if (options.json) {
    print_json({{"cache", store.root().string()},
                {"remote", remote.settings().url},
                {"pulled", counts.hits},
                {"bytes", counts.bytes_in},
                {"there_already", already},
                {"failed", failed}});
  } else {
    print(fmt::format("{}: pulled {} kernels, {}; {} were there already\n", shown(store.root()),
                      counts.hits, size_text(counts.bytes_in), already));
  }
  return exit_code(options.keys.size(), failed.size());
}

/// What is written to see whether it can be: larger than nginx takes unless it is told to.
std::vector<std::byte> probe_object() {
  constexpr std::size_t k_bytes = std::size_t{2} << 20;
  std::vector<std::byte> probe(k_bytes);
  for (std::size_t i = 0; i < k_bytes; ++i) probe[i] = static_cast<std::byte>(i * i >> 3U);
  return probe;
}

/// Writes a probe and reads it again; the problem, or empty.
std::string try_writing(const RemoteServer& server) {
  const std::string key = KeyBuilder().field("spjit", "check-remote").hex();
  const std::vector<std::byte> probe = probe_object();
  const RemotePutResult written = server.put(key, probe, {});
  if (written.outcome == RemotePut::failed) return written.problem;
  std::vector<std::byte> read;
  const RemoteAnswer answer = server.get(
      key,
      [&](std::span<const std::byte> part) { read.insert(read.end(), part.begin(), part.end()); },
      {});
  if (answer.is_found) return read == probe ? "" : "what was written is read as something else";
  if (!answer.problem.empty()) return answer.problem;
  const bool is_bazel = server.settings().layout == RemoteLayout::bazel;
  return is_bazel ? "what was written is not there; bazel-remote needs --disable_http_ac_validation"
                  : "what was written is not there";
}

ExitCode run_check(const RemoteActionOptions& options) {
  const RemoteServer server(settings_of(options));
  const std::string absent = KeyBuilder().field("spjit", "no kernel").hex();
  const auto begin = std::chrono::steady_clock::now();
  const RemoteAnswer answer = server.get(absent, [](std::span<const std::byte>) {}, {});
  const double first_ms = ms_since(begin);
  std::string problem = answer.problem;
  if (problem.find("status 403") != std::string::npos) {
    problem += "; S3 says so of absent keys unless s3:ListBucket is allowed";
  }
  if (problem.empty() && options.writes) problem = try_writing(server);
  if (options.json) {
    Json reason(nullptr);
    if (!problem.empty()) reason = problem;
    print_json({{"remote", server.settings().url},
                {"miss_ms", first_ms},
                {"written", options.writes},
                {"problem", reason}});
  } else if (problem.empty()) {
    print(fmt::format("{}: answers, a miss took {:.1f} ms{}\n", server.settings().url, first_ms,
                      options.writes ? ", and takes objects" : ""));
  }
  if (problem.empty()) return ExitCode::ok;
  print_error(problem);
  return ExitCode::failed;
}

CLI::App* add_action(CLI::App& cache, RemoteActionOptions& options, const std::string& action) {
  CLI::App* command = add_cache_action(cache, options, action);
  add_cache_remote(*command, options.cache);
  return command;
}

}  // namespace

Subcommand add_cache_push(CLI::App& cache) {
  const auto options = std::make_shared<RemoteActionOptions>();
  CLI::App* command = add_action(cache, *options, "push");
  command->add_option("KEY-PREFIX", options->keys, "The first digits of keys.");
  add_signing_key(*command, options->private_key);
  return {command, [options] { return run_push(*options); }};
}

Subcommand add_cache_pull(CLI::App& cache) {
  const auto options = std::make_shared<RemoteActionOptions>();
  CLI::App* command = add_action(cache, *options, "pull");
  command->add_option("KEY", options->keys, "Whole keys.")->required();
  return {command, [options] { return run_pull(*options); }};
}

Subcommand add_cache_check_remote(CLI::App& cache) {
  const auto options = std::make_shared<RemoteActionOptions>();
  CLI::App* command = add_action(cache, *options, "check-remote");
  command->add_flag("--write", options->writes,
                    "Also write an object of 2 MB, which stays there, and read it again.");
  return {command, [options] { return run_check(*options); }};
}

}  // namespace spjit::cli
