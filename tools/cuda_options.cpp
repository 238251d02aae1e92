// Options that only GPU targets look at.

#include <CLI/CLI.hpp>

#include "kernel_options.hpp"
#include "number_checks.hpp"

namespace spjit::cli {
namespace {

constexpr std::int64_t k_most = 2147483647;

CLI::Option* add_optional(CLI::App& command, const std::string& flag,
                          std::optional<std::int64_t>& value, const std::string& description) {
  return command
      .add_option_function<std::int64_t>(
          flag, [&value](std::int64_t given) { value = given; }, description)
      ->transform(whole_number(0, k_most))  // the library has each one's own range
      ->type_name("COUNT");
}

}  // namespace

void add_cuda_options(CLI::App& command, CudaOptions& options) {
  add_optional(command, "--m1", options.m1, "GPU: rows a tile, 1 to 128. Default: chosen.");
  add_optional(
      command, "--n1", options.n1,
      "GPU: columns a block, which are its threads: 32 to 1024, a multiple of 32. Default: "
      "chosen.");
  command.add_flag("--runtime-sizes", options.runtime_sizes,
                   "GPU: n and the leading dimensions are given with a launch, instead of being "
                   "constants of the code.");
  command
      .add_option_function<std::string>(
          "--from",
          [&options](const std::string& name) { options.source = parse_cuda_source(name); },
          "GPU: which text becomes the code: ptx (through nvJitLink, fast to compile) or cuda "
          "(through NVRTC). Both give the same results.")
      ->type_name("SOURCE")
      ->default_str(std::string(to_string(options.source)));
  command
      .add_option_function<std::string>(
          "--proxy-from",
          [&options](const std::string& name) { options.proxy_source = parse_cuda_source(name); },
          "GPU: the same for the proxies that a search times.")
      ->type_name("SOURCE")
      ->default_str(std::string(to_string(options.proxy_source)));
  command
      .add_option("--cuda", options.toolkit_paths,
                  "GPU: where NVRTC and nvJitLink are: a CUDA toolkit, a folder of libraries or a "
                  "library. Default: SPJIT_CUDA_PATH, else .cuda (what scripts/setup_cuda.sh "
                  "makes), CUDA_HOME, CUDA_PATH, /usr/local/cuda and the loader's places.")
      ->check(not_empty())
      ->type_name("PATH");
  command
      .add_option("--compile-limit", options.compile_limit_ms,
                  "GPU: compiling a kernel is given up after this many milliseconds. 0: never.")
      ->transform(real_number(0, 1e9))
      ->type_name("MS")
      ->capture_default_str();
}

}  // namespace spjit::cli
