// spjit cache stats: what is in the cache directory, and how the server is.

#include <fmt/format.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "base/printable.hpp"
#include "base/timing.hpp"
#include "compiler/remote_options.hpp"
#include "runtime/cache/remote_server.hpp"
#include "spjit/error.hpp"
#include "tools/commands/cache_actions.hpp"
#include "tools/options/cache_options.hpp"
#include "tools/report/kernel_cells.hpp"
#include "tools/report/terminal.hpp"

namespace spjit::cli {
namespace {

struct StatsOptions : CacheActionOptions {
  bool is_prometheus = false;
};

struct Size {
  std::int64_t kernels = 0;
  std::int64_t bytes = 0;
};

/// The contents of a directory, by target.
std::map<std::string, Size> sizes_by_target(const CacheStore& store) {
  constexpr const char* k_damaged = "damaged";
  std::map<std::string, Size> sizes;
  for (const CacheListing& entry : store.list()) {
    std::string target = k_damaged;
    if (entry.record) {
      const auto named = entry.record->kernel.find("target");
      const bool is_text = named != entry.record->kernel.end() && named->is_string();
      target = is_text ? printable(named->get<std::string>(), 40) : "code";
    }
    Size& size = sizes[target];
    ++size.kernels;
    size.bytes += entry.bytes;
  }
  return sizes;
}

struct ServerState {
  std::string url;
  std::string problem;  ///< empty: it answers
  double seconds = 0;   ///< for a kernel that it cannot have
};

std::optional<ServerState> server_state(const CacheOptions& options) {
  const std::optional<RemoteCacheOptions> remote =
      options.remote ? options.remote : default_remote(read_remote_environment());
  if (!remote || remote->url.empty()) return std::nullopt;
  const RemoteServer server(remote_settings(*remote));
  const auto begin = std::chrono::steady_clock::now();
  const RemoteAnswer answer = server.look(KeyBuilder().field("spjit", "no kernel").hex(), {});
  return ServerState{
      .url = server.settings().url, .problem = answer.problem, .seconds = ms_since(begin) * 1e-3};
}

Metrics metrics_of(const std::map<std::string, Size>& sizes,
                   const std::optional<ServerState>& server) {
  Metrics metrics;
  for (const auto& [target, size] : sizes) {
    // A record's text must not end the label.
    std::string label = target;
    for (char& c : label) {
      if (c == '"' || c == '\\') c = '?';
    }
    metrics[fmt::format("spjit_cache_kernels{{target=\"{}\"}}", label)] +=
        static_cast<double>(size.kernels);
    metrics[fmt::format("spjit_cache_bytes{{target=\"{}\"}}", label)] +=
        static_cast<double>(size.bytes);
  }
  if (server) {
    metrics["spjit_remote_up"] = server->problem.empty() ? 1 : 0;
    metrics["spjit_remote_answer_seconds"] = server->seconds;
  }
  return metrics;
}

Json describe(const std::optional<ServerState>& server) {
  if (!server) return nullptr;
  Json problem(nullptr);
  if (!server->problem.empty()) problem = server->problem;
  return {{"url", server->url}, {"problem", problem}, {"answer_ms", 1e3 * server->seconds}};
}

ExitCode stats(const StatsOptions& options) {
  const CacheStore store = open_store(options);
  const std::map<std::string, Size> sizes = sizes_by_target(store);
  const std::optional<ServerState> server = server_state(options.cache);
  if (options.is_prometheus) {
    print(prometheus_text(metrics_of(sizes, server)));
    return ExitCode::ok;
  }
  if (options.json) {
    Json targets = Json::object();
    for (const auto& [target, size] : sizes) {
      targets[target] = {{"kernels", size.kernels}, {"bytes", size.bytes}};
    }
    print_json({{"cache", store.root().string()},
                {"targets", std::move(targets)},
                {"remote", describe(server)}});
    return ExitCode::ok;
  }
  Size all;
  std::string text;
  for (const auto& [target, size] : sizes) {
    all.kernels += size.kernels;
    all.bytes += size.bytes;
    text += fmt::format("  {:<20} {:>8} {:>10}\n", target, size.kernels, size_text(size.bytes));
  }
  print(kernels_line(store.root(), static_cast<std::size_t>(all.kernels), all.bytes) + text);
  if (server) {
    print(server->problem.empty() ? fmt::format("{}: answers, a miss took {:.1f} ms\n", server->url,
                                                1e3 * server->seconds)
                                  : one_line(server->problem) + "\n");
  }
  return ExitCode::ok;
}

}  // namespace

Subcommand add_cache_stats(CLI::App& cache) {
  const auto options = std::make_shared<StatsOptions>();
  CLI::App* command = add_cache_action(cache, *options, "stats");
  command->add_flag("--prometheus", options->is_prometheus, "Print the text format of Prometheus.");
  add_cache_remote(*command, options->cache);
  return {command, [options] { return stats(*options); }};
}

}  // namespace spjit::cli
