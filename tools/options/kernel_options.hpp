#pragma once

/// @file
/// Options that several subcommands have, and checks of those that are numbers: what the parser
/// takes for one beyond plain decimal text (0x10, 010, nan) is refused, and so is what is out of
/// range.

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "spjit/compiler.hpp"
#include "spjit/matrix_io.hpp"
#include "tools/options/inputs.hpp"
#include "tools/options/model_inputs.hpp"
#include "tools/options/problem_options.hpp"
#include "tools/report/terminal.hpp"

namespace spjit::cli {

/// Rows, columns and what else is counted with 31 bits.
inline constexpr std::int64_t k_most_count = std::numeric_limits<std::int32_t>::max();
/// Bytes of a wrong word that an error repeats.
inline constexpr std::size_t k_longest_shown = 40;

/// The use of a matrix file.
struct KernelOptions {
  Problem problem;  ///< without its matrix
  /// Targets of --target, each once; compile.target is the first.
  std::vector<Target> targets = {Target()};
  bool takes_several_targets = false;  ///< else naming more than one is an error
  OperandFiles operands;
  CompileOptions compile;
  CacheOptions cache;
  LoadOptions load;
  ModelOptions model;
};

/// `FILE...`, required.
void add_file_arguments(CLI::App& command, std::vector<std::string>& files,
                        FileKinds kinds = FileKinds::matrices_and_models);

/// --seed and --drop-zeros.
void add_load_options(CLI::App& command, LoadOptions& options);

/// Adds the options of the problem (add_problem_options()), --target, --threads (with the default
/// `resources.threads`), --reorder, --search, --search-budget, --top-k, --code-budget, the load
/// options, and what only GPU targets look at: --m1, --n1, --from, --proxy-from, --cuda,
/// --compile-limit.
void add_kernel_options(CLI::App& command, KernelOptions& options);

/// The options of one input: with those of its own, of a layer of a model, and with the bias beside
/// it for --bias without a file (without one there, without bias). Throws InvalidArgument, IoError.
[[nodiscard]] KernelOptions options_for(const Input& input, const KernelOptions& options);

/// The input's matrix and what `options`, its own, make of it. Throws InvalidArgument for one that
/// the operands' files are not for, and as the readers.
[[nodiscard]] Problem load_problem(const Input& input, const KernelOptions& options);

/// Makes a value of a flag an error: the parser takes `--no-cache=false` for --no-cache.
void take_no_values(CLI::App& command);

/// The message of the parser, in the words of this program.
[[nodiscard]] std::string problem_of(const CLI::ParseError& error);

/// Changes what is computed as arguments of a command line say, "--activation=gelu". Throws
/// InvalidArgument for others than add_problem_options() knows.
void apply_arguments(const std::vector<std::string>& arguments, KernelOptions& options);

/// Reads the operands and the options of layers; without --n, models get a run-time n. Throws
/// UsageError and InvalidArgument for options that are wrong for every matrix, which are not its
/// failure; IoError.
void prepare(KernelOptions& options, const std::vector<std::string>& files);

/// The inputs that arguments stand for, those of models a layer each; see expand_models().
[[nodiscard]] ModelInputs expand_all(const std::vector<std::string>& files,
                                     const KernelOptions& options, bool required = true);

/// A name that a parser of the library understands; its error message is the usage error.
template <typename T, typename Parse>
CLI::Option* add_name(CLI::App& command, const std::string& flag, T& value, Parse parse,
                      const std::string& description) {
  return command.add_option_function<std::string>(
      flag, [&value, parse](const std::string& name) { value = parse(name); }, description);
}

/// For CLI::Option::check(): the value of an option that names a file or folder has to name one.
/// An empty one, as of a variable of a script that is not set, would stand for the default.
[[nodiscard]] CLI::Validator not_empty();

/// --json.
void add_json(CLI::App& command, bool& json);

/// `threads`, or for 0 what it stands for: SPJIT_NUM_THREADS, else all CPUs this process may use.
/// Throws InvalidArgument if the variable is not a number of threads.
[[nodiscard]] int resolve_threads(int threads);

/// The options as they went into the work, for JSON documents.
[[nodiscard]] Json describe(const KernelOptions& options);

/// For CLI::Option::transform(): the text has to be a whole decimal number in this range.
[[nodiscard]] CLI::Validator whole_number(std::int64_t least, std::int64_t most);

/// A validator of seeds: 0 to 2^64 - 1.
[[nodiscard]] CLI::Validator seed_number();

/// A validator of decimal numbers such as 250, 0.5 and 1e3.
[[nodiscard]] CLI::Validator real_number(double least, double most);

}  // namespace spjit::cli
