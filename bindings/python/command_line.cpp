// `python -m spjit`.

#include "tools/commands/command_line.hpp"

#include <array>
#include <cstddef>
#include <string>

#include "spjit/error.hpp"

namespace {

/// Writes to `result`, of so many bytes, the path of a .safetensors file that it made of the model;
/// returns other than 0 where it failed, and writes why. `shapes`: those of --input-shape, a line
/// each.
using ConvertModel = int (*)(const char* model, const char* shapes, char* result,
                             std::size_t result_bytes);

std::filesystem::path convert_model(ConvertModel convert, const std::filesystem::path& model,
                                    const std::vector<std::string>& shapes) {
  std::string lines;
  for (const std::string& shape : shapes) lines += shape + "\n";
  std::array<char, 4096> result{};
  const int failed = convert(model.c_str(), lines.c_str(), result.data(), result.size() - 1);
  if (failed != 0) throw spjit::IoError(model.string() + ": " + result.data());
  return result.data();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int spjit_python_main(int argc,
                                                                        const char* const* argv,
                                                                        ConvertModel convert) {
  return spjit::cli::run_command_line(argc, argv, [convert](const auto& model, const auto& shapes) {
    return convert_model(convert, model, shapes);
  });
}
