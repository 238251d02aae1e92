#include "tools/report/emit.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <system_error>

#include "base/file_bytes.hpp"
#include "kernels/cuda/launch/cuda_program.hpp"
#include "kernels/host/unrolled/disassembler.hpp"
#include "kernels/host/unrolled/host_program.hpp"
#include "spjit/error.hpp"

namespace spjit::cli {
namespace fs = std::filesystem;
namespace {

// A segment's code ends where the next one's begins.
std::string listing(const Kernel& kernel, const std::string& name) {
  const std::vector<std::byte> object = kernel.object(name);
  const HostImage image = read_object(object, name);
  std::string text = fmt::format("# {}: {} x {}, n = {}, {}", name, kernel.rows(), kernel.cols(),
                                 kernel.n(), kernel.info().target.name());
  if (image.text.empty()) {
    return fmt::format("{}\n# A kernel of the family {}: it has no code of its own. {}\n", text,
                       kernel.info().family, kernel.info().reason);
  }
  const HostProgramRecord program = read_program(image);
  text += fmt::format(", tile {}\n", kernel.info().tile);
  const std::span<const std::uint8_t> code(reinterpret_cast<const std::uint8_t*>(image.text.data()),
                                           image.text.size());
  for (std::size_t i = 0; i < program.segment_offsets.size(); ++i) {
    const auto begin = static_cast<std::size_t>(program.segment_offsets[i]);
    const auto end = i + 1 < program.segment_offsets.size()
                         ? static_cast<std::size_t>(program.segment_offsets[i + 1])
                         : code.size();
    const std::size_t tile = i / static_cast<std::size_t>(program.k_blocks);
    text += fmt::format("\n# row tiles {} to {}, block of columns {}: at {:#x}\n",
                        tile == 0 ? 0 : program.tile_ends[tile - 1], program.tile_ends[tile] - 1,
                        i % static_cast<std::size_t>(program.k_blocks), begin);
    text += disassembly_listing(code.subspan(begin, end - begin));
  }
  return text;
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

/// A kind of file. `json`, which names all others, has no `content` here.
struct EmittedKind {
  std::string_view name;
  const char* extension;
  bool cuda;
  bool by_default;
  std::vector<std::byte> (*content)(const Kernel& kernel, const std::string& name);
  /// The artifact's file that it is; nothing is written of kernels without.
  std::string_view file = {};
};

std::vector<std::byte> copied_file(const Kernel& kernel, std::string_view name) {
  const std::span<const std::byte> bytes = kernel.artifact().file(name);
  return {bytes.begin(), bytes.end()};
}

/// In the order in which they are written.
constexpr EmittedKind k_kinds[] = {
    {"obj", ".o", false, true,
     [](const Kernel& kernel, const std::string& name) { return kernel.object(name); }},
    {"header", ".hpp", false, true,
     [](const Kernel& kernel, const std::string& name) {
       return bytes_of(kernel.aot_header(name));
     }},
    {"asm", ".asm", false, false,
     [](const Kernel& kernel, const std::string& name) { return bytes_of(listing(kernel, name)); }},
    {"cubin", ".cubin", true, true,
     [](const Kernel& kernel, const std::string&) {
       return std::vector(kernel.image().begin(), kernel.image().end());
     }},
    {"cu", ".cu", true, true,
     [](const Kernel& kernel, const std::string&) { return bytes_of(kernel.cuda_source()); },
     k_cuda_file},
    {"ptx", ".ptx", true, true,
     [](const Kernel& kernel, const std::string&) { return bytes_of(kernel.ptx()); }, k_ptx_file},
    {"positions", ".positions", true, true,
     [](const Kernel& kernel, const std::string&) {
       return copied_file(kernel, "kernel.positions");
     },
     "kernel.positions"},
    {"matrix", ".matrix", true, true,
     [](const Kernel& kernel, const std::string&) { return copied_file(kernel, "kernel.matrix"); },
     "kernel.matrix"},
    {"json", ".json", false, true, nullptr},
    {"json", ".json", true, true, nullptr}};

}  // namespace

std::vector<std::string> checked_kinds(const std::vector<std::string>& kinds,
                                       const Target& target) {
  std::vector<std::string> known;
  for (const EmittedKind& kind : k_kinds) {
    if (kind.cuda == target.is_cuda()) known.emplace_back(kind.name);
  }
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
  for (const EmittedKind& kind : k_kinds) {
    const bool wanted =
        kinds.empty() ? kind.by_default : std::ranges::find(kinds, kind.name) != kinds.end();
    if (!wanted || kind.cuda != kernel.info().target.is_cuda()) continue;
    if (!kind.file.empty() && kernel.artifact().file(kind.file).empty()) continue;
    const fs::path& path = files.emplace_back(options.directory / (name + kind.extension));
    publish_file(path,
                 kind.content == nullptr ? json_of(layer, files) : kind.content(kernel, name));
  }
  return files;
}

}  // namespace spjit::cli
