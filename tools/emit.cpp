#include "emit.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <map>
#include <span>
#include <system_error>

#include "kernels/unrolled_host/disassembler.hpp"
#include "kernels/unrolled_host/host_program.hpp"
#include "matrix/file_bytes.hpp"
#include "spjit/error.hpp"

namespace spjit::cli {
namespace fs = std::filesystem;
namespace {

// A segment's code ends where the next one's begins.
std::string listing(const Kernel& kernel, const std::string& name) {
  const std::vector<std::byte> object = kernel.object(name);
  const HostImage image = read_object(object, name);
  const HostProgramRecord program = read_program(image);
  std::string text = fmt::format("# {}: {} x {}, n = {}, {}", name, program.rows, program.cols,
                                 program.n, kernel.info().target.name());
  if (program.kind != "unrolled") {
    return fmt::format("{}\n# A kernel of kind {}: it has no code of its own. {}\n", text,
                       to_string(program.kind), kernel.info().reason);
  }
  text += fmt::format(", tile {}\n", kernel.info().tile);
  const std::span<const std::uint8_t> code(reinterpret_cast<const std::uint8_t*>(image.text.data()),
                                           image.text.size());
  for (std::size_t i = 0; i < program.segment_offsets.size(); ++i) {
    const auto begin = static_cast<std::size_t>(program.segment_offsets[i]);
    const auto end = i + 1 < program.segment_offsets.size()
                         ? static_cast<std::size_t>(program.segment_offsets[i + 1])
                         : code.size();
    const auto segment = static_cast<std::int64_t>(i);
    text += fmt::format("\n# row tile {}, block of columns {}: at {:#x}\n",
                        segment / program.k_blocks, segment % program.k_blocks, begin);
    text += disassembly_listing(code.subspan(begin, end - begin));
  }
  return text;
}

void publish_text(const fs::path& path, const std::string& text) {
  publish_file(path, std::as_bytes(std::span(text)));
}

/// The layer with its files, itself included.
void publish_json(const fs::path& path, const Json& layer, const std::vector<fs::path>& files) {
  Json document = layer;
  document["files"] = Json::array();
  for (const fs::path& file : files) document["files"].push_back(file.string());
  publish_text(path, document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace

void select_emitted(EmitOptions& options, const std::vector<std::string>& kinds,
                    const Target& target) {
  const std::map<std::string, bool*> host = {{"obj", &options.object},
                                             {"header", &options.header},
                                             {"json", &options.json},
                                             {"asm", &options.assembly}};
  const std::map<std::string, bool*> gpu = {{"cubin", &options.cubin},
                                            {"cu", &options.cuda_source},
                                            {"ptx", &options.ptx},
                                            {"json", &options.json}};
  for (const auto& [kind, wanted] : host) *wanted = false;
  for (const auto& [kind, wanted] : gpu) *wanted = false;
  for (const std::string& kind : kinds) {
    const auto& known = target.is_cuda() ? gpu : host;
    const auto found = known.find(kind);
    if (found == known.end()) {
      throw InvalidArgument(
          fmt::format("--emit: '{}' is none of {} for target {}", kind,
                      target.is_cuda() ? "cubin, cu, ptx and json" : "obj, header, json and asm",
                      target.name()));
    }
    *found->second = true;
  }
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
  std::vector<fs::path> files;
  const auto path = [&](const char* extension) {
    return files.emplace_back(options.directory / (name + extension));
  };
  if (options.object) publish_file(path(".o"), kernel.object(name));
  if (options.header) publish_text(path(".hpp"), kernel.aot_header(name));
  if (options.assembly) publish_text(path(".asm"), listing(kernel, name));
  if (options.json) publish_json(path(".json"), layer, files);
  return files;
}

std::vector<fs::path> emit_files(const EmitOptions& options, const std::string& name,
                                 const Kernel& kernel, const Json& layer) {
  std::vector<fs::path> files;
  const auto path = [&](const char* extension) {
    return files.emplace_back(options.directory / (name + extension));
  };
  if (options.cubin) publish_file(path(".cubin"), kernel.image());
  if (options.cuda_source) publish_text(path(".cu"), kernel.cuda_source());
  if (options.ptx) publish_text(path(".ptx"), kernel.ptx());
  if (options.json) publish_json(path(".json"), layer, files);
  return files;
}

}  // namespace spjit::cli
