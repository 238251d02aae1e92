// spjit cache export and import: kernels on their way from one cache to another.

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/quantities.hpp"
#include "cache_actions.hpp"
#include "cache_archive.hpp"
#include "matrix/file_bytes.hpp"
#include "spjit/error.hpp"
#include "terminal.hpp"

namespace spjit::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view k_standard_stream = "-";

struct ExportOptions : CacheActionOptions {
  std::vector<std::string> key_prefixes;
  fs::path out;
};

struct ImportOptions : CacheActionOptions {
  fs::path archive;
  ArchiveLimits limits;
};

#ifdef SPJIT_HAVE_LIBARCHIVE

/// The keys that begin with one of the prefixes, all without any. Throws CacheError for a prefix
/// that no key has.
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

ArchiveExport write_archive(const CacheStore& store, const ExportOptions& options) {
  std::vector<std::string> keys = select_keys(store, options.key_prefixes);
  if (options.out == k_standard_stream) {
    return export_cache(store, std::move(keys), [](std::span<const std::byte> bytes) {
      print({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    });
  }
  TemporaryFile file(options.out);
  ArchiveExport result =
      export_cache(store, std::move(keys), [&](auto bytes) { file.write(bytes); });
  // Of nothing but damaged kernels there is no archive: what was there stays.
  if (result.bytes > 0) file.publish();
  return result;
}

void report(const ArchiveExport& result, const CacheStore& store, const ExportOptions& options) {
  if (options.json) {
    Json left_out = Json::array();
    for (const auto& [key, problem] : result.left_out) {
      left_out.push_back({{"key", key}, {"problem", problem}});
    }
    print_json({{"cache", store.root().string()},
                {"archive", options.out.string()},
                {"entries", result.entries},
                {"bytes", result.bytes},
                {"left_out", std::move(left_out)}});
    return;
  }
  const std::string text = fmt::format("{}: {} kernels, {}", shown(options.out), result.entries,
                                       size_text(result.bytes));
  if (options.out == k_standard_stream) {
    print_note(text);
  } else {
    print(text + "\n");
  }
}

ExitCode run_export(const ExportOptions& options) {
  if (options.out == k_standard_stream && options.json) {
    throw UsageError("cache export: --json and --out - would both write to standard output");
  }
  if (options.out == k_standard_stream && ::isatty(STDOUT_FILENO) != 0) {
    throw UsageError("cache export: standard output is a terminal; redirect it, or name a file");
  }
  const CacheStore store = open_store(options, CacheMustExist::yes);
  const ArchiveExport result = write_archive(store, options);
  for (const auto& [key, problem] : result.left_out) {
    print_error(fmt::format("cache entry {}: left out: {}", key, printable(problem)));
  }
  report(result, store, options);
  return exit_code(static_cast<std::size_t>(result.entries) + result.left_out.size(),
                   result.left_out.size());
}

std::size_t read_some(const FileDescriptor& file, std::span<std::byte> into) {
  while (true) {
    const ssize_t got = ::read(file.get(), into.data(), into.size());
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EINTR) throw IoError(fmt::format("cannot be read: {}", std::strerror(errno)));
  }
}

ExitCode run_import(const ImportOptions& options) {
  const CacheStore store = open_store(options, CacheMustExist::no);
  const std::string name = options.archive.string();
  const FileDescriptor file(options.archive == k_standard_stream
                                ? ::dup(STDIN_FILENO)
                                : ::open(name.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) throw IoError(fmt::format("{}: cannot be opened: {}", name, std::strerror(errno)));
  const ArchiveImport result = import_cache(
      store, name, [&](std::span<std::byte> into) { return read_some(file, into); },
      options.limits);
  if (options.json) {
    print_json({{"cache", store.root().string()},
                {"archive", name},
                {"imported", result.imported},
                {"already_there", result.already_there},
                {"other_versions", result.other_versions},
                {"bytes", result.bytes}});
    return ExitCode::ok;
  }
  print(fmt::format("{}: imported {} kernels, {}; {} were there already\n", shown(options.archive),
                    result.imported, size_text(result.bytes), result.already_there));
  if (result.other_versions > 0) {
    print_note(fmt::format("{}: {} kernels of other versions of spjit were skipped", name,
                           result.other_versions));
  }
  return ExitCode::ok;
}

#else

template <typename Options>
[[noreturn]] ExitCode fail_without_libarchive(const Options& /*options*/) {
  throw NotSupported(
      "this spjit was built without libarchive: install libarchive-dev and build again");
}
constexpr auto run_export = fail_without_libarchive<ExportOptions>;
constexpr auto run_import = fail_without_libarchive<ImportOptions>;

#endif

void add_limit(CLI::App& command, const char* flag, std::int64_t& bytes, const char* description,
               const char* shown_default) {
  command
      .add_option_function<std::string>(
          flag, [&bytes, flag](const std::string& text) { bytes = parse_byte_size(text, flag); },
          description)
      ->type_name("SIZE")
      ->default_str(shown_default);
}

}  // namespace

Subcommand add_cache_export(CLI::App& cache) {
  const auto options = std::make_shared<ExportOptions>();
  CLI::App* command = add_cache_action(cache, *options, "export");
  command->add_option("KEY-PREFIX", options->key_prefixes, "The first digits of keys.");
  command->add_option("--out", options->out, "The file; - is standard output.")
      ->check(not_empty())
      ->type_name("FILE")
      ->required();
  return {command, [options] { return run_export(*options); }};
}

Subcommand add_cache_import(CLI::App& cache) {
  const auto options = std::make_shared<ImportOptions>();
  CLI::App* command = add_cache_action(cache, *options, "import");
  command->add_option("FILE", options->archive, "The archive; - is standard input.")->required();
  add_limit(*command, "--max-size", options->limits.archive_bytes,
            "The most that the archive may have: bytes, or K, M, G or T after the number (powers "
            "of 1024).",
            "4G");
  add_limit(*command, "--max-entry-size", options->limits.entry_bytes,
            "The most that one kernel may have. About twice as much memory is used.", "1G");
  return {command, [options] { return run_import(*options); }};
}

}  // namespace spjit::cli
