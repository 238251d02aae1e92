// spjit gen: seeded synthetic matrices.

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "spjit/generate.hpp"
#include "spjit/matrix_io.hpp"
#include "tools/commands/subcommands.hpp"
#include "tools/options/kernel_options.hpp"
#include "tools/report/manual.hpp"

namespace spjit::cli {
namespace {

struct GenCommandOptions {
  GenerateOptions generate;
  std::filesystem::path out;
  bool json = false;
};

Json describe(const GenCommandOptions& options, const MatrixStatistics& statistics) {
  return {{"file", options.out.string()},
          {"rows", statistics.rows},
          {"cols", statistics.cols},
          {"nnz", statistics.nnz},
          {"sparsity", statistics.sparsity},
          {"pattern", to_string(options.generate.pattern)},
          {"seed", options.generate.seed},
          {"row_nnz", {{"min", statistics.row_nnz_min}, {"max", statistics.row_nnz_max}}}};
}

ExitCode generate(const GenCommandOptions& options) {
  const CsrMatrix matrix = generate_matrix(options.generate);
  save_matrix(matrix, options.out);
  const MatrixStatistics statistics = compute_statistics(matrix);
  if (options.json) {
    print_json(describe(options, statistics));
  } else {
    print(fmt::format("{}: {} x {}, {} nonzeros, {:.2f} % sparse, {} to {} a row\n",
                      shown(options.out), statistics.rows, statistics.cols, statistics.nnz,
                      100 * statistics.sparsity, statistics.row_nnz_min, statistics.row_nnz_max));
  }
  return ExitCode::ok;
}

// Checked while the command line is read: what save_matrix() would refuse after the work is done.
std::string check_extension(const std::string& name) {
  const std::string extension = std::filesystem::path(name).extension().string();
  if (extension == ".mtx" || extension == ".npz") return "";
  return fmt::format("'{}' ends in neither .mtx nor .npz, which choose the format", name);
}

void add_shape_options(CLI::App& command, GenerateOptions& options) {
  constexpr std::int64_t k_most = 2147483647;
  command.add_option("--rows", options.rows, "Rows of the matrix.")
      ->transform(whole_number(0, k_most))
      ->type_name("M")
      ->required();
  command.add_option("--cols", options.cols, "Columns of the matrix.")
      ->transform(whole_number(0, k_most))
      ->type_name("K")
      ->required();
  command
      .add_option(
          "--sparsity", options.sparsity,
          "Share of zeros, from 0 to 1; met exactly, by --pattern blocks to within one block.")
      ->transform(real_number(0, 1))
      ->type_name("S")
      ->capture_default_str();
  command.add_option("--block-rows", options.block_rows, "Rows of a block of --pattern blocks.")
      ->transform(whole_number(1, k_most))
      ->type_name("R")
      ->capture_default_str();
  command.add_option("--block-cols", options.block_cols, "Columns of a block of --pattern blocks.")
      ->transform(whole_number(1, k_most))
      ->type_name("C")
      ->capture_default_str();
}

}  // namespace

Subcommand add_gen(CLI::App& app) {
  const auto options = std::make_shared<GenCommandOptions>();
  CLI::App* command = app.add_subcommand("gen");
  set_manual(*command, "gen");
  add_shape_options(*command, options->generate);
  command
      ->add_option_function<std::string>(
          "--pattern",
          [options](const std::string& name) { options->generate.pattern = parse_pattern(name); },
          "How the nonzeros lie: uniform, uneven_rows, blocks, power_law, banded or magnitude.")
      ->type_name("PATTERN")
      ->default_str(std::string(to_string(options->generate.pattern)));
  command->add_option("--seed", options->generate.seed, "Seed of the positions and values.")
      ->transform(seed_number())
      ->type_name("S")
      ->capture_default_str();
  command
      ->add_option("--out", options->out, "The file; its extension, .mtx or .npz, is the format.")
      ->check(check_extension)
      ->type_name("FILE")
      ->required();
  add_json(*command, options->json);
  return {command, [options] { return generate(*options); }};
}

}  // namespace spjit::cli
