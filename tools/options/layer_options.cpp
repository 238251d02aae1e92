#include "tools/options/layer_options.hpp"

#include "spjit/verification.hpp"
#include "tools/options/kernel_options.hpp"

namespace spjit::cli {
namespace {

void add_checks(CLI::App& command, VerifyMode& verify) {
  verify = VerifyMode::sampled;
  CLI::Option* mode =
      add_name(command, "--verify", verify, parse_verify,
               "What of a kernel's result is compared with a float64 reference before the kernel "
               "is published: sampled (all of it up to some 33 million multiply-adds, then rows "
               "and columns at even distances), full (all of it, however long that takes) or none.")
          ->type_name("MODE")
          ->default_str(std::string(to_string(verify)));
  command
      .add_flag_function(
          "--no-verify", [&verify](std::int64_t) { verify = VerifyMode::none; },
          "Short for --verify none.")
      ->excludes(mode);
}

}  // namespace

void add_layer_options(CLI::App& command, LayerOptions& options, const ModelConverter& convert) {
  options.kernel.takes_several_targets = true;
  add_kernel_options(command, options.kernel);
  options.kernel.model.convert = convert;
  command.add_flag(
      "--keep-source", options.kernel.compile.keep_source,
      "GPU: the kernel as CUDA C++ and as PTX stays with its code, in the cache and in "
      "a bundle. A kernel without them is another entry of the cache.");
  constexpr double k_longest_s = 1e8;  // three years; counts of nanoseconds must not overflow
  command
      .add_option("--timeout", options.timeout_s,
                  "Seconds that compiling and checking a layer may take: then it has failed, and "
                  "nothing of it is kept. 0: any time.")
      ->transform(real_number(0, k_longest_s))
      ->type_name("SECONDS")
      ->default_str("0");
  add_checks(command, options.kernel.compile.verify);
}

}  // namespace spjit::cli
