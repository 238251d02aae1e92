// spjit cache: ls, show, verify, prune and clear, and what the actions share. What moves kernels
// has files of its own.

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>

#include "base/quantities.hpp"
#include "compiler/kernel_cache.hpp"
#include "spjit/error.hpp"
#include "tools/commands/cache_actions.hpp"
#include "tools/options/cache_options.hpp"
#include "tools/report/kernel_cells.hpp"
#include "tools/report/table.hpp"
#include "tools/report/terminal.hpp"

namespace spjit::cli {
namespace {

constexpr std::size_t k_shown_key_digits = 12;

struct CacheCommandOptions : CacheActionOptions {
  std::string key_prefix;
  CachePruneOptions prune;
  bool yes = false;
};

/// "2025-01-31T23:59:59Z".
std::string time_text(std::chrono::system_clock::time_point time) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(time));
}

Json describe(const CacheListing& listing) {
  Json json = {{"key", listing.key},
               {"bytes", listing.bytes},
               {"last_used", time_text(listing.last_used)},
               {"problem", nullptr}};
  if (!listing.problem.empty()) json["problem"] = listing.problem;
  if (!listing.record) return json;
  json["spjit"] = listing.record->spjit_version;
  json["created"] = listing.record->created;
  Json files = Json::array();
  for (const CacheFileRecord& file : listing.record->files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"checksum", file.checksum}});
  }
  json["files"] = std::move(files);
  json["kernel"] = Json(listing.record->kernel);
  return json;
}

std::vector<std::string> list_row(const CacheListing& listing) {
  std::vector<std::string> cells = {listing.key.substr(0, k_shown_key_digits),
                                    time_text(listing.last_used), size_text(listing.bytes)};
  if (!listing.record) {
    cells.push_back("damaged: " + listing.problem);
    return cells;
  }
  const std::vector<std::string> kernel = kernel_cells(listing.record->kernel);
  cells.insert(cells.end(), kernel.begin(), kernel.end());
  return cells;
}

ExitCode list(const CacheCommandOptions& options) {
  const CacheStore store = open_store(options);
  const std::vector<CacheListing> entries = store.list();
  std::int64_t bytes = 0;
  for (const CacheListing& entry : entries) bytes += entry.bytes;
  if (options.json) {
    Json array = Json::array();
    for (const CacheListing& entry : entries) array.push_back(describe(entry));
    print_json({{"cache", store.root().string()}, {"bytes", bytes}, {"entries", std::move(array)}});
    return ExitCode::ok;
  }
  using enum Column::Align;
  std::vector<Column> columns = {{"key", left}, {"last used", left}, {"size"}};
  for (Column& column : kernel_columns()) columns.push_back(std::move(column));
  Table table(std::move(columns));
  for (const CacheListing& entry : entries) table.add(list_row(entry));
  if (!entries.empty()) print(table.text(inspect_stdout()) + "\n");
  print(kernels_line(store.root(), entries.size(), bytes));
  return ExitCode::ok;
}

CacheListing find_entry(const CacheStore& store, const std::string& prefix) {
  std::vector<CacheListing> found = find_entries(store, prefix);
  if (found.size() > 1) {
    throw CacheError(fmt::format("{} keys in {} begin with '{}'; give more digits", found.size(),
                                 store.root().string(), prefix));
  }
  return std::move(found.front());
}

ExitCode show(const CacheCommandOptions& options) {
  const CacheListing entry = find_entry(open_store(options), options.key_prefix);
  const Json json = describe(entry);
  if (options.json) {
    print_json(json);
    return ExitCode::ok;
  }
  std::string text = fmt::format("key        {}\nlast used  {}\nsize       {}\n", entry.key,
                                 time_text(entry.last_used), size_text(entry.bytes));
  if (entry.record) {
    text += fmt::format("created    {} by spjit {}\n", printable(entry.record->created),
                        printable(entry.record->spjit_version));
    for (const CacheFileRecord& file : entry.record->files) {
      text += fmt::format("file       {}, {} bytes, checksum {}\n", printable(file.name),
                          file.bytes, printable(file.checksum));
    }
    text += json_text(json["kernel"]) + "\n";
  } else {
    text += fmt::format("damaged    {}\n", one_line(entry.problem));
  }
  print(text);
  return ExitCode::ok;
}

bool confirm(const CacheStore& store) {
  if (::isatty(STDIN_FILENO) == 0) {
    throw UsageError(
        "cache clear asks before it removes anything, and standard input is no "
        "terminal: add --yes");
  }
  print(fmt::format("Remove {} kernels from {}? [y/N] ", store.list().size(), shown(store.root())));
  flush_stdout();
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

ExitCode clear(const CacheCommandOptions& options) {
  const CacheStore store = open_store(options);
  if (!options.yes && !confirm(store)) {
    print("nothing removed\n");
    return ExitCode::ok;
  }
  const CacheClearResult cleared = store.clear();
  if (options.json) {
    print_json({{"cache", store.root().string()},
                {"entries_removed", cleared.entries},
                {"bytes_removed", cleared.bytes}});
  } else {
    print(fmt::format("{}: removed {} kernels, {}\n", shown(store.root()), cleared.entries,
                      size_text(cleared.bytes)));
  }
  return ExitCode::ok;
}

CLI::App* add_show(CLI::App& cache, CacheCommandOptions& options) {
  CLI::App* command = add_cache_action(cache, options, "show");
  command
      ->add_option("KEY-PREFIX", options.key_prefix,
                   "The first digits of a key, as many as make it unique.")
      ->required();
  return command;
}

CLI::App* add_clear(CLI::App& cache, CacheCommandOptions& options) {
  CLI::App* command = add_cache_action(cache, options, "clear");
  command->add_flag("--yes", options.yes, "Do not ask.");
  return command;
}

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

ExitCode prune(const CacheCommandOptions& options) {
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

CLI::App* add_prune(CLI::App& cache, CacheCommandOptions& options) {
  CachePruneOptions& prune = options.prune;
  CLI::App* command = add_cache_action(cache, options, "prune");
  command
      ->add_option_function<std::string>(
          "--size",
          [&prune](const std::string& text) { prune.most_bytes = parse_byte_size(text, "--size"); },
          "Remove the least recently used kernels until the others have at most this size: bytes, "
          "or K, M, G or T after the number (powers of 1024).")
      ->type_name("SIZE");
  command
      ->add_option_function<std::string>(
          "--unused-for",
          [&prune](const std::string& text) { prune.unused_for = parse_duration(text); },
          "Remove kernels that nobody used for this long: a number and s, m, h, d or w, for "
          "seconds, minutes, hours, days or weeks.")
      ->type_name("TIME");
  command->add_flag("--other-versions", prune.other_versions,
                    "Remove kernels of other versions of spjit, and damaged ones.");
  command->add_flag("--dry-run", prune.dry_run, "Say what would be removed, and remove nothing.");
  return command;
}

}  // namespace

CLI::App* add_cache_action(CLI::App& cache, CacheActionOptions& options,
                           const std::string& action) {
  CLI::App* command = cache.add_subcommand(action);
  set_manual(*command, "cache_" + action);
  add_cache_directory(*command, options.cache);
  add_json(*command, options.json);
  return command;
}

CacheStore open_store(const CacheActionOptions& options, CacheMustExist must_exist) {
  CacheStore store = open_cache_directory(options.cache);
  const bool must = must_exist == CacheMustExist::yes ||
                    (must_exist == CacheMustExist::if_named && !options.cache.directory.empty());
  std::error_code ignored;
  if (must && !std::filesystem::exists(store.root(), ignored)) {
    throw CacheError(
        fmt::format("there is no cache directory '{}'; name one that 'spjit compile' "
                    "has put kernels in",
                    store.root().string()));
  }
  return store;
}

std::vector<CacheListing> find_entries(const CacheStore& store, const std::string& prefix) {
  std::vector<CacheListing> found = store.list();
  std::erase_if(found, [&](const CacheListing& entry) { return !entry.key.starts_with(prefix); });
  if (found.empty()) {
    throw CacheError(fmt::format("no key in {} begins with '{}'; 'spjit cache ls' lists them",
                                 store.root().string(), prefix));
  }
  return found;
}

std::vector<std::string> select_keys(const CacheStore& store,
                                     const std::vector<std::string>& prefixes) {
  std::vector<std::string> keys;
  const auto add = [&](const std::vector<CacheListing>& entries) {
    for (const CacheListing& entry : entries) keys.push_back(entry.key);
  };
  if (prefixes.empty()) add(store.list());
  for (const std::string& prefix : prefixes) add(find_entries(store, prefix));
  return keys;
}

Subcommand add_cache(CLI::App& app, const ModelConverter& convert) {
  const auto options = std::make_shared<CacheCommandOptions>();
  CLI::App* command = app.add_subcommand("cache");
  set_manual(*command, "cache");
  command->require_subcommand(1);
  std::vector<Subcommand> actions;
  actions.push_back(
      {add_cache_action(*command, *options, "ls"), [options] { return list(*options); }});
  actions.push_back({add_show(*command, *options), [options] { return show(*options); }});
  actions.push_back(
      {add_cache_action(*command, *options, "verify"), [options] { return verify(*options); }});
  actions.push_back({add_prune(*command, *options), [options] { return prune(*options); }});
  actions.push_back({add_clear(*command, *options), [options] { return clear(*options); }});
  actions.push_back(add_cache_export(*command));
  actions.push_back(add_cache_import(*command));
  actions.push_back(add_cache_push(*command));
  actions.push_back(add_cache_pull(*command));
  actions.push_back(add_cache_check_remote(*command));
  actions.push_back(add_cache_stats(*command));
  actions.push_back(add_cache_why(*command, convert));
  return {command, [actions] {
            // The parser requires one of them.
            return std::ranges::find_if(
                       actions, [](const Subcommand& action) { return action.parser->parsed(); })
                ->run();
          }};
}

}  // namespace spjit::cli
