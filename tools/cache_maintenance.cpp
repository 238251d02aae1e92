// spjit cache verify and prune: what is damaged, and what is no longer wanted.

#include <fmt/format.h>

#include <memory>

#include "base/quantities.hpp"
#include "cache_actions.hpp"
#include "terminal.hpp"

namespace spjit::cli {
namespace {

struct PruneOptions : CacheActionOptions {
  CachePruneOptions prune;
};

ExitCode verify(const CacheActionOptions& options) {
  const CacheStore store = open_store(options);
  const CacheVerifyResult result = store.verify();
  for (const CacheListing& entry : result.damaged) {
    print_error(fmt::format("cache entry {}: {}", entry.key, printable(entry.problem)));
  }
  if (options.json) {
    Json damaged = Json::array();
    for (const CacheListing& entry : result.damaged) {
      damaged.push_back({{"key", entry.key}, {"bytes", entry.bytes}, {"problem", entry.problem}});
    }
    print_json({{"cache", store.root().string()},
                {"entries", result.entries},
                {"bytes", result.bytes},
                {"damaged", std::move(damaged)}});
  } else {
    print(fmt::format("{}: {} kernels, {}, {} damaged\n", shown(store.root()), result.entries,
                      size_text(result.bytes), result.damaged.size()));
  }
  return result.damaged.empty() ? ExitCode::ok : ExitCode::some_failed;
}

ExitCode prune(const PruneOptions& options) {
  const CachePruneOptions& what = options.prune;
  if (!what.most_bytes && !what.unused_for && !what.other_versions) {
    throw UsageError(
        "cache prune: nothing says what to remove; expected --size, --unused-for or "
        "--other-versions");
  }
  const CacheStore store = open_store(options);
  const CacheClearResult removed = store.prune(what);
  if (options.json) {
    print_json({{"cache", store.root().string()},
                {"dry_run", what.dry_run},
                {"entries_removed", removed.entries},
                {"bytes_removed", removed.bytes}});
  } else {
    print(fmt::format("{}: {} {} kernels, {}\n", shown(store.root()),
                      what.dry_run ? "would remove" : "removed", removed.entries,
                      size_text(removed.bytes)));
  }
  return ExitCode::ok;
}

void add_criteria(CLI::App& command, CachePruneOptions& prune) {
  command
      .add_option_function<std::string>(
          "--size",
          [&prune](const std::string& text) { prune.most_bytes = parse_byte_size(text, "--size"); },
          "Remove the least recently used kernels until the others have at most this size: bytes, "
          "or K, M, G or T after the number (powers of 1024).")
      ->type_name("SIZE");
  command
      .add_option_function<std::string>(
          "--unused-for",
          [&prune](const std::string& text) { prune.unused_for = parse_duration(text); },
          "Remove kernels that nobody used for this long: a number and s, m, h, d or w, for "
          "seconds, minutes, hours, days or weeks.")
      ->type_name("TIME");
  command.add_flag("--other-versions", prune.other_versions,
                   "Remove kernels of other versions of spjit, and damaged ones.");
  command.add_flag("--dry-run", prune.dry_run, "Say what would be removed, and remove nothing.");
}

}  // namespace

Subcommand add_cache_verify(CLI::App& cache) {
  const auto options = std::make_shared<CacheActionOptions>();
  CLI::App* command = add_cache_action(cache, *options, "verify");
  return {command, [options] { return verify(*options); }};
}

Subcommand add_cache_prune(CLI::App& cache) {
  const auto options = std::make_shared<PruneOptions>();
  CLI::App* command = add_cache_action(cache, *options, "prune");
  add_criteria(*command, options->prune);
  return {command, [options] { return prune(*options); }};
}

}  // namespace spjit::cli
