// spjit_soak: random matrices, options and routes against two slow references, for as long as one
// likes. scripts/check/soak.sh builds and runs it; docs/design/testing.md says what it compares.

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <new>
#include <string>

#include "base/timing.hpp"
#include "spjit/error.hpp"
#include "spjit/matrix_io.hpp"
#include "tests/soak/isolated.hpp"
#include "tests/soak/shrink.hpp"
#include "tests/soak/soak_check.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit::soak;
using Clock = std::chrono::steady_clock;

constexpr unsigned k_case_seconds = 300;  // then a case counts as hanging
constexpr std::uint64_t k_batch = 200;    // cases a process runs
constexpr std::array<Route, 5> k_routes = {Route::rows, Route::panels, Route::cached, Route::object,
                                           Route::ptx};

struct Options {
  double minutes = 0;
  std::uint64_t cases = 0;
  std::uint64_t seed = 1;
  std::string out = ".";
};

/// What a child tells while it works; in memory that parent and child share.
struct Tally {
  std::atomic<std::uint64_t> seed;  ///< of the case at hand
  std::atomic<std::uint64_t> cases;
  std::array<std::atomic<std::uint64_t>, k_routes.size()> by_route;
  std::array<std::atomic<std::uint64_t>, 3> by_isa;
  std::atomic<std::uint64_t> far;   ///< with rows of B or C 2^31 bytes apart or more
  std::atomic<std::uint64_t> huge;  ///< with 2^31 products or more
};

Tally& shared_tally() {
  void* memory =
      ::mmap(nullptr, sizeof(Tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return *new (memory) Tally{};
}

void count(Tally& tally, const SoakCase& item) {
  constexpr std::int64_t k_far = std::int64_t{1} << 29;  // floats
  ++tally.cases;
  ++tally.by_route[static_cast<std::size_t>(item.route)];
  if (item.route != Route::ptx) ++tally.by_isa[static_cast<std::size_t>(item.isa)];
  if (item.matrix.cols * item.ldb >= k_far || item.matrix.rows * item.ldc >= k_far) ++tally.far;
  if (item.matrix.nnz() * item.n >= std::int64_t{1} << 31) ++tally.huge;
}

std::string check(const SoakCase& item) {
  const spjit::testing_support::TemporaryDirectory directory;
  ::alarm(k_case_seconds);
  return check_case(item, run_kernel((directory.path() / "cache").string()));
}

/// Cases from `first` on, in this process; the first that fails ends it.
std::string check_batch(std::uint64_t first, std::uint64_t cases, Clock::time_point end,
                        Tally& tally) {
  for (std::uint64_t seed = first; seed < first + cases && Clock::now() < end; ++seed) {
    tally.seed = seed;
    const SoakCase item = draw_case(seed);
    if (std::string problem = check(item); !problem.empty()) return problem;
    count(tally, item);
  }
  return {};
}

void report(const SoakCase& item, const std::string& problem, const std::string& out) {
  fmt::print("FAILED {}\n  {}\n", describe(item), problem);
  std::fflush(stdout);
  std::string last = problem;
  const SoakCase small = shrink(item, [&](const SoakCase& candidate) {
    const std::string found = isolated([&] { return check(candidate); });
    if (!found.empty()) last = found;
    return !found.empty();
  });
  const std::filesystem::path file =
      std::filesystem::path(out) / fmt::format("soak-{}.mtx", item.seed);
  spjit::save_matrix(small.matrix, file);
  fmt::print("shrunk to {}\n  {}\n  its matrix: {}\n", describe(small), last, file.string());
}

void print_summary(const Tally& tally, std::uint64_t failures, double minutes) {
  fmt::print("{} cases in {:.1f} minutes:", tally.cases.load(), minutes);
  for (const Route route : k_routes) {
    fmt::print(" {}={}", to_string(route), tally.by_route[static_cast<std::size_t>(route)].load());
  }
  for (const spjit::HostIsa isa :
       {spjit::HostIsa::avx512, spjit::HostIsa::avx2, spjit::HostIsa::generic}) {
    fmt::print(" {}={}", to_string(isa), tally.by_isa[static_cast<std::size_t>(isa)].load());
  }
  fmt::print(" far={} huge={}\n{} passed, {} failed\n", tally.far.load(), tally.huge.load(),
             tally.cases.load(), failures);
}

int soak(const Options& options) {
  const auto start = Clock::now();
  const auto end = options.minutes > 0
                       ? start + std::chrono::duration_cast<Clock::duration>(
                                     std::chrono::duration<double, std::ratio<60>>(options.minutes))
                       : Clock::time_point::max();
  const std::uint64_t last = options.cases > 0 ? options.seed + options.cases : UINT64_MAX;
  Tally& tally = shared_tally();
  std::uint64_t failures = 0;
  for (std::uint64_t first = options.seed; first < last && Clock::now() < end;) {
    const std::uint64_t cases = std::min(k_batch, last - first);
    const std::string problem = isolated([&] { return check_batch(first, cases, end, tally); });
    if (problem.empty()) {
      first += cases;
      continue;
    }
    ++failures;
    first = tally.seed + 1;
    report(draw_case(tally.seed), problem, options.out);
  }
  print_summary(tally, failures, spjit::ms_since(start) / 60'000);
  return failures == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Compares kernels of random matrices with two slow references.");
  Options options;
  app.add_option("--minutes", options.minutes, "for so long")->check(CLI::Range(0.0, 100'000.0));
  app.add_option("--cases", options.cases, "so many");
  app.add_option("--seed", options.seed, "of the first case; the others follow it")
      ->capture_default_str();
  app.add_option("--out", options.out, "folder for the matrices of failures")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (options.minutes <= 0 && options.cases == 0) {
    fmt::print(stderr, "spjit_soak: give --minutes or --cases; 0 of both would run for ever\n");
    return 2;
  }
  try {
    return soak(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "spjit_soak: {}\n", error.what());
    return 2;
  }
}
