// spjit bench: kernels beside a dense and a CSR multiplication, on 1 .. T threads.

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "artifact/families.hpp"
#include "plan/search_policy.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"
#include "tools/commands/subcommands.hpp"
#include "tools/options/cache_options.hpp"
#include "tools/options/inputs.hpp"
#include "tools/options/kernel_options.hpp"
#include "tools/options/operands.hpp"
#include "tools/report/manual.hpp"
#include "tools/report/measure.hpp"
#include "tools/report/table.hpp"

namespace spjit::cli {
namespace {

// Past these, every thread count would take longer than it tells.
constexpr int k_most_single_steps = 4;

struct BenchCommandOptions {
  std::vector<std::string> files;
  KernelOptions kernel;
  double budget_ms = 1000;
  std::int64_t batch = 1;
  bool json = false;
};

/// A file on a number of threads.
struct Run {
  KernelInfo info;
  Measurement measurement;
};

Work work_of(const Run& run) { return {run.info, run.measurement.batch}; }

struct Result {
  std::filesystem::path path;
  std::string error;
  std::vector<Run> runs;
};

// 1 .. T up to 4, then powers of two and T itself.
std::vector<int> thread_counts(int most) {
  std::vector<int> counts;
  for (int threads = 1; threads < most; threads += threads < k_most_single_steps ? 1 : threads) {
    counts.push_back(threads);
  }
  counts.push_back(most);
  return counts;
}

void run_file(Result& result, const Input& input, const BenchCommandOptions& options) {
  const KernelOptions own = options_for(input, options.kernel);
  const Problem problem = load_problem(input, own);
  const double bytes = Operands::bytes(problem, options.batch);
  if (bytes > k_most_operand_bytes) {
    throw Error(
        fmt::format("operands would take {:.1f} GB, over {:.0f} GB; use fewer columns (--n)",
                    bytes / 1e9, k_most_operand_bytes / 1e9));
  }
  CompileOptions compile = options.kernel.compile;
  const int most = backend_of(compile.target).most_threads(compile.resources);
  for (const int threads : thread_counts(most)) {
    compile.resources.threads = threads;
    const Compiler compiler(compile, options.kernel.cache);
    const Kernel kernel = compiler.compile(problem);
    flush_remote(compiler);
    require_cached(kernel.info().not_cached, options.kernel.cache);
    result.runs.push_back(
        {kernel.info(), measure(kernel, problem,
                                {options.budget_ms, bytes_between_runs(compile.policy),
                                 own.operands, options.batch, true})});
  }
}

Result bench_file(const Input& input, const BenchCommandOptions& options) {
  Result result{input.path, input.problem, {}};
  if (!result.error.empty()) return result;
  result.error = attempt(
      input.path, [&] { run_file(result, input, options); }, "; use fewer columns (--n)");
  return result;
}

std::string summarize(const Result& result, double peak_gflops) {
  std::string text = shown(result.path) + ":";
  for (const Run& run : result.runs) {
    const TimingResult& timing = run.measurement.kernel;
    text += fmt::format("{} {:.2f} us", &run == result.runs.data() ? "" : ",", timing.median_us);
    if (run.info.cuda) continue;
    text += fmt::format(" on {} thread{} ({:.0f} % of peak)", run.info.threads,
                        run.info.threads == 1 ? "" : "s",
                        100 * *share_of_peak(work_of(run), timing, peak_gflops));
  }
  return text;
}

std::vector<Result> bench_all(const BenchCommandOptions& options, double peak_gflops) {
  const ModelInputs expanded = expand_all(options.files, options.kernel);
  const std::vector<Input>& inputs = expanded.inputs;
  if (const std::string note = left_dense_note(expanded); !note.empty()) print_note(note);
  std::vector<Result> results;
  Progress progress(inspect_stderr(), inputs.size());
  for (const Input& input : inputs) {
    progress.begin(input.path.string());
    results.push_back(bench_file(input, options));
    if (results.back().error.empty()) {
      progress.finish(summarize(results.back(), peak_gflops));
    } else {
      progress.fail(results.back().error);
    }
  }
  return results;
}

Json describe(const Run& run, double peak_gflops) {
  Json json = {{"threads", run.info.threads}, {"family", run.info.family}, {"tile", run.info.tile}};
  json.update(describe(run.measurement, run.info, peak_gflops));
  json["check"] = cli::describe(*run.measurement.check);
  return json;
}

Json describe(const Result& result, double peak_gflops) {
  Json json = {{"file", result.path.string()}, {"error", nullptr}};
  if (!result.error.empty()) {
    json["error"] = result.error;
    return json;
  }
  const KernelInfo& info = result.runs.front().info;
  json["rows"] = info.rows;
  json["cols"] = info.cols;
  json["n"] = info.n;
  json["nnz"] = info.nnz;
  Json runs = Json::array();
  for (const Run& run : result.runs) runs.push_back(describe(run, peak_gflops));
  json["runs"] = std::move(runs);
  return json;
}

void add_row(Table& table, const Result& result, const Run& run, const std::string& name,
             const TimingResult& timing) {
  const bool is_peer = &timing != &run.measurement.kernel;
  table.add({result.path.filename().string(), run.info.cuda ? "" : std::to_string(run.info.threads),
             name, fmt::format("{:.2f}", timing.median_us), fmt::format("{:.2f}", timing.min_us),
             fmt::format("{:.1f} %", 100 * timing.noise), std::to_string(timing.samples),
             fmt::format("{:.1f}", gflops(work_of(run), timing)),
             fmt::format("{:.2f}", run.measurement.kernel.median_us / timing.median_us),
             is_peer ? "" : fmt::format("{:.1e}", run.measurement.check->max_abs_error)});
}

std::string results_table(const std::vector<Result>& results, const Terminal& terminal) {
  using enum Column::Align;
  Table table({{"file", left},
               {"threads"},
               {"what", left},
               {"median us"},
               {"min us"},
               {"noise"},
               {"samples"},
               {"GFLOP/s"},
               {"speed"},
               {"max error"}});
  std::string notes;
  for (const Result& result : results) {
    if (!result.error.empty()) continue;
    for (const Run& run : result.runs) {
      add_row(table, result, run, fmt::format("spjit ({})", run.info.family),
              run.measurement.kernel);
      const auto add_peer = [&](const std::string& name, const PeerTiming& peer) {
        if (peer.timing) add_row(table, result, run, name, *peer.timing);
      };
      add_peer("dense", run.measurement.dense);
      add_peer("CSR", run.measurement.csr);
    }
    for (const std::string& reason : skipped_peers(result.runs.front().measurement)) {
      notes += fmt::format("{}: {}\n", shown(result.path.filename()), reason);
    }
  }
  return table.text(terminal) + (notes.empty() ? "" : "\n" + notes);
}

ExitCode bench(BenchCommandOptions& options) {
  prepare(options.kernel, options.files);
  const Target& target = options.kernel.compile.target;
  const Backend& backend = backend_of(target);
  if (!backend.times_batches() && options.batch > 1) {
    throw UsageError("--batch is for host targets: a launch on a GPU is timed for one product");
  }
  if (const Refusal missing = why_not_timed(target)) {
    throw NotSupported(fmt::format("--target {}: nothing to time kernels on: {}", target.name(),
                                   missing.reason()));
  }
  const double peak = measure_peak_gflops(target);
  const std::vector<Result> results = bench_all(options, peak);
  const auto failures = static_cast<std::size_t>(std::count_if(
      results.begin(), results.end(), [](const Result& result) { return !result.error.empty(); }));
  if (options.json) {
    Json list = Json::array();
    for (const Result& result : results) list.push_back(describe(result, peak));
    Json described = describe(options.kernel);
    described["batch"] = options.batch;
    print_json({{"spjit", SPJIT_VERSION},
                {"command", "bench"},
                {"options", std::move(described)},
                {"peak_gflops_per_core", peak == 0 ? Json(nullptr) : Json(peak)},
                {"matrices", std::move(list)},
                {"failed", failures}});
  } else if (failures < results.size()) {
    print(results_table(results, inspect_stdout()) + layer_text(options.kernel.problem));
    if (options.batch > 1) print(fmt::format("batch: {} products a run\n", options.batch));
    if (backend.has_cold_runs()) {
      print(fmt::format("\n{}\nmeasured FMA peak: {:.1f} GFLOP/s a core\n",
                        how_measured(options.kernel.compile.policy.hot), peak));
    }
  }
  // What failed has had its line.
  if (failures > 0 && results.size() > 1) {
    print_note(fmt::format("{} of {} inputs failed", failures, results.size()));
  }
  return exit_code(results.size(), failures);
}

}  // namespace

Subcommand add_bench(CLI::App& app, const ModelConverter& convert) {
  const auto options = std::make_shared<BenchCommandOptions>();
  CLI::App* command = app.add_subcommand("bench");
  set_manual(*command, "bench");
  options->kernel.compile.resources.threads = 0;
  add_file_arguments(*command, options->files);
  add_kernel_options(*command, options->kernel);
  options->kernel.model.convert = convert;
  command
      ->add_option("--budget", options->budget_ms,
                   "Time for the samples of one matrix on one number of threads, in milliseconds.")
      ->transform(real_number(1e-3, 1e9))
      ->type_name("MS")
      ->default_str("1000");
  command
      ->add_option(
          "--batch", options->batch,
          "Products of a run on the host, each with a B and C of its own and all with the same A.")
      ->transform(whole_number(1, k_most_count))
      ->type_name("COUNT")
      ->capture_default_str();
  add_cache_directory(*command, options->kernel.cache);
  add_cache_use(*command, options->kernel.cache);
  add_compile_when(*command, options->kernel.compile.compile);
  add_json(*command, options->json);
  return {command, [options] { return bench(*options); }};
}

}  // namespace spjit::cli
