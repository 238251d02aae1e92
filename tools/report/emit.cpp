#include "tools/report/emit.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <system_error>

#include "artifact/families.hpp"
#include "base/file_bytes.hpp"
#include "spjit/error.hpp"

namespace spjit::cli {
namespace fs = std::filesystem;
namespace {

std::string listing(const Kernel& kernel, const std::string& name) {
  const KernelInfo& info = kernel.info();
  const std::string text = fmt::format("# {}: {} x {}, n = {}, {}", name, kernel.rows(),
                                       kernel.cols(), kernel.n(), info.target.name());
  if (info.reads_a) {
    return fmt::format("{}\n# A kernel of the family {}: it has no code of its own. {}\n", text,
                       info.family, info.reason);
  }
  const KernelFamily& family = find_family(info.family, info.target.backend());
  return fmt::format("{}, tile {}\n{}", text, info.tile, family.listing(kernel.artifact()));
}

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// The layer with its files, itself included.
std::vector<std::byte> json_of(const Json& layer, const std::vector<fs::path>& files) {
  Json document = layer;
  document["files"] = Json::array();
  for (const fs::path& file : files) document["files"].push_back(file.string());
  return bytes_of(document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

/// A kind of file; `json`, which names all others, is none here.
std::vector<std::byte> content_of(const EmittedFile& kind, const Kernel& kernel,
                                  const std::string& name) {
  if (kind.kind == "obj") return kernel.object(name);
  if (kind.kind == "header") return bytes_of(kernel.aot_header(name));
  if (kind.kind == "asm") return bytes_of(listing(kernel, name));
  if (kind.kind == "cu") return bytes_of(kernel.cuda_source());
  if (kind.kind == "ptx") return bytes_of(kernel.ptx());
  const std::span<const std::byte> bytes = kernel.artifact().file(kind.file);
  return {bytes.begin(), bytes.end()};
}

}  // namespace

std::vector<std::string> checked_kinds(const std::vector<std::string>& kinds,
                                       const Target& target) {
  std::vector<std::string> known;
  for (const EmittedFile& file : backend_of(target).emitted()) known.emplace_back(file.kind);
  for (const std::string& kind : kinds) {
    if (std::ranges::find(known, kind) == known.end()) {
      throw InvalidArgument(fmt::format("--emit: '{}' is none of {} for target {}", kind,
                                        fmt::join(known, ", "), target.name()));
    }
  }
  std::erase_if(known, [&](const std::string& kind) {
    return std::ranges::find(kinds, kind) == kinds.end();
  });
  return known;
}

bool needs_source(const std::vector<std::string>& kinds) {
  return std::ranges::any_of(kinds,
                             [](const std::string& kind) { return kind == "cu" || kind == "ptx"; });
}

void prepare_directory(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (!error && !fs::is_directory(directory))
    error = std::make_error_code(std::errc::not_a_directory);
  if (!error && ::access(directory.c_str(), W_OK | X_OK) != 0) {
    error = std::error_code(errno, std::generic_category());
  }
  if (error) {
    throw IoError(fmt::format("{}: cannot be used as output directory: {}; name another with --out",
                              directory.string(), error.message()));
  }
}

std::vector<fs::path> emit_files(const EmitOptions& options, const std::string& name,
                                 const Kernel& kernel, const Json& layer) {
  const std::vector<std::string>& kinds = options.kinds;
  std::vector<fs::path> files;
  for (const EmittedFile& kind : backend_of(kernel.info().target).emitted()) {
    const bool wanted =
        kinds.empty() ? kind.by_default : std::ranges::find(kinds, kind.kind) != kinds.end();
    if (!wanted) continue;
    if (!kind.file.empty() && kernel.artifact().file(kind.file).empty()) continue;
    const fs::path& path = files.emplace_back(options.directory / (name + kind.extension));
    publish_file(path,
                 kind.kind == "json" ? json_of(layer, files) : content_of(kind, kernel, name));
  }
  return files;
}

}  // namespace spjit::cli
