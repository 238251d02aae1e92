/// @file
/// Whether the rules choose the fastest family of host kernels, over products drawn at random.
/// Times that were measured are read again with the rules of today. bench/README.md says how it is
/// called.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/host_cpu.hpp"
#include "base/timing.hpp"
#include "bench/choice/choice_case.hpp"
#include "bench/choice/measure_choice.hpp"
#include "bench/host/surroundings.hpp"
#include "bench/json_file.hpp"
#include "bench/run_options.hpp"
#include "spjit/error.hpp"

namespace {

namespace fs = std::filesystem;
using namespace spjit;

struct Options {
  Target target;
  std::uint64_t seed = 1;
  std::int64_t cases = 100;
  std::vector<std::string> caches = {"hot", "cold"};
  std::vector<std::string> named;
  std::vector<std::string> matrices;
  std::vector<std::int64_t> columns = {1, 8, 64, 256};
  bench::ChoiceTiming timing;
  double max_seconds = 0;  ///< 0: as long as it takes
  double limit = 1.3;
  bool append = false;
  bool retime = false;
  fs::path json = "choice.json";
  fs::path reread;
  std::string command;
};

void add_options(CLI::App& app, Options& options) {
  app.add_option_function<std::string>(
      "--target", [&options](const std::string& name) { options.target = Target::parse(name); },
      "What spjit compiles for, such as host-avx2");
  app.add_option("--seed", options.seed, "Of the drawn products");
  app.add_option("--cases", options.cases, "How many are drawn")->check(CLI::NonNegativeNumber);
  app.add_option("--caches", options.caches, "hot, cold")
      ->delimiter(',')
      ->check(CLI::IsMember({"hot", "cold"}));
  app.add_option("--case", options.named, "Instead of drawn ones: ROWSxCOLS:SPARSITY:N")
      ->delimiter(',');
  app.add_option("--matrices", options.matrices, "Instead of drawn ones: files of matrices")
      ->check(CLI::ExistingFile);
  app.add_option("--n", options.columns, "Of --matrices: columns of B")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--budget-ms", options.timing.budget_ms, "Timing of a product");
  app.add_option("--max-seconds", options.max_seconds,
                 "Begin no other product after this long; 0: go on to the end")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--limit", options.limit, "Over how many times the least a choice is listed");
  app.add_option("--json", options.json, "The result")->capture_default_str();
  app.add_flag("--append", options.append, "Keep the products of --json's file, time the others");
  app.add_flag("--retime", options.retime,
               "Of --json's file, time again what is over --limit now: noise does not stay");
  app.add_option("--reread", options.reread,
                 "Time nothing: what the rules choose today of a file's products")
      ->check(CLI::ExistingFile);
}

ChoiceCase parse_case(const std::string& text, bool hot) {
  ChoiceCase what;
  std::istringstream stream(text);
  char times = 0;
  char first_colon = 0;
  char second_colon = 0;
  stream >> what.rows >> times >> what.cols >> first_colon >> what.sparsity >> second_colon >>
      what.n;
  const bool is_whole = !stream.fail() && stream.peek() == std::char_traits<char>::eof();
  if (!is_whole || times != 'x' || first_colon != ':' || second_colon != ':') {
    throw Error(fmt::format("\"{}\"; expected ROWSxCOLS:SPARSITY:N, as 4096x4096:0.9:1", text));
  }
  what.hot = hot;
  return what;
}

std::vector<ChoiceCase> cases_of(const Options& options) {
  std::vector<ChoiceCase> cases;
  const auto add = [&](const ChoiceCase& what) {
    if (std::ranges::find(cases, what) == cases.end()) cases.push_back(what);
  };
  const bool draws = options.named.empty() && options.matrices.empty();
  const std::int64_t drawn = draws ? options.cases : 0;
  for (std::int64_t number = 0; number < drawn; ++number) {
    for (const std::string& cache : options.caches) {
      add(bench::draw_case(options.seed, number, cache == "hot"));
    }
  }
  for (const std::string& text : options.named) {
    for (const std::string& cache : options.caches) add(parse_case(text, cache == "hot"));
  }
  for (const std::string& file : options.matrices) {
    for (const std::int64_t n : options.columns) {
      for (const std::string& cache : options.caches)
        add(bench::file_case(file, n, cache == "hot"));
    }
  }
  return cases;
}

/// Asks the rules of today. A matrix that is not here keeps what they said when it was timed.
void choose_again(ChoiceResult& result, const HostDeviceInfo& limits) {
  if (!result.what.file.empty() && !fs::exists(result.what.file)) return;
  result.chosen = bench::family_chosen(result.what, bench::matrix_of(result.what), limits);
}

std::vector<ChoiceResult> results_of(const nlohmann::json& document) {
  std::vector<ChoiceResult> results;
  for (const nlohmann::json& record : document.at("cases")) {
    results.push_back(choice_result_of(record));
  }
  return results;
}

/// Of the hot or the cold ones: how far the choice is from the best, and the products where it is
/// over the limit.
void print_summary(const std::vector<ChoiceResult>& results, bool hot, double limit) {
  std::vector<ChoiceResult> some;
  std::ranges::copy_if(results, std::back_inserter(some),
                       [&](const ChoiceResult& result) { return result.what.hot == hot; });
  if (some.empty()) return;
  std::ranges::sort(some, std::ranges::greater(), &ChoiceResult::ratio);
  double logs = 0;
  for (const ChoiceResult& result : some) logs += std::log(result.ratio());
  const auto over = std::ranges::count_if(
      some, [&](const ChoiceResult& result) { return result.ratio() > limit; });
  fmt::print(
      "{}: {} products, the choice takes {:.3f} of the fastest family's time (geometric "
      "mean), {:.2f} at worst, over {:.2f} in {}\n",
      hot ? "hot" : "cold", some.size(), std::exp(logs / static_cast<double>(some.size())),
      some.front().ratio(), limit, over);
  for (const ChoiceResult& result : some) {
    if (result.ratio() > limit) fmt::print("  {}\n", to_string(result));
  }
}

int reread(const Options& options) {
  const nlohmann::json document = bench::load_json(options.reread, k_choice_schema);
  const HostDeviceInfo limits = limits_of(document.at("limits"));
  std::vector<ChoiceResult> results = results_of(document);
  for (ChoiceResult& result : results) choose_again(result, limits);
  for (const bool hot : {true, false}) print_summary(results, hot, options.limit);
  return 0;
}

void save(const Options& options, nlohmann::json& document,
          const std::vector<ChoiceResult>& results) {
  document["cases"] = nlohmann::json::array();
  for (const ChoiceResult& result : results) document["cases"].push_back(to_json(result));
  bench::save_json(options.json, document);
}

int measure(const Options& options) {
  const auto begin = std::chrono::steady_clock::now();
  nlohmann::json document = {{"schema", k_choice_schema},
                             {"command", options.command},
                             {"cpu", bench::cpu_name(host_cpu())},
                             {"load_average", bench::load_average()},
                             {"limits", to_json(host_device_info(options.target.isa()))}};
  std::vector<ChoiceResult> results;
  if ((options.append || options.retime) && fs::exists(options.json)) {
    const nlohmann::json earlier = bench::load_json(options.json, k_choice_schema);
    for (const char* name : {"cpu", "limits"}) {
      if (earlier.at(name) == document.at(name)) continue;
      throw Error(
          fmt::format("{}: made on another CPU or for another target", options.json.string()));
    }
    results = results_of(earlier);
  }
  if (options.retime) {
    const HostDeviceInfo limits = host_device_info(options.target.isa());
    for (ChoiceResult& result : results) choose_again(result, limits);
    std::erase_if(results,
                  [&](const ChoiceResult& result) { return result.ratio() > options.limit; });
  }
  CacheFlush caches(host_cpu(), nullptr);
  std::int64_t left = 0;
  for (const ChoiceCase& what : cases_of(options)) {
    if (std::ranges::find(results, what, &ChoiceResult::what) != results.end()) continue;
    if (options.max_seconds > 0 && ms_since(begin) > options.max_seconds * 1e3) {
      ++left;
      continue;
    }
    results.push_back(bench::measure_choice(what, options.target, caches, options.timing));
    fmt::print("{}\n", to_string(results.back()));
    std::fflush(stdout);
  }
  save(options, document, results);
  for (const bool hot : {true, false}) print_summary(results, hot, options.limit);
  if (left > 0) fmt::print("{} products are left, --append goes on\n", left);
  fmt::print("wrote {}\n", options.json.string());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.command = bench::command_line(argc, argv);
  CLI::App app{"Whether the rules choose the fastest family of host kernels."};
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  try {
    return options.reread.empty() ? measure(options) : reread(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "choice_bench: {}\n", error.what());
    return 2;
  }
}
