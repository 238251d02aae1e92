// The options of a compilation: their names, and what is a legal value.

#include <fmt/format.h>

#include <filesystem>

#include "base/environment.hpp"
#include "base/host_cpu.hpp"
#include "base/thread_pool.hpp"
#include "compiler/compiler_impl.hpp"
#include "kernels/unrolled_cuda/cuda_tile.hpp"
#include "kernels/unrolled_host/host_tile.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

constexpr double k_most_ms = 1e9;  // 11 days; counts of nanoseconds must not overflow

/// Rows a CUDA tile: more accumulators leave no registers for B (seed 001 searches up to 128).
constexpr std::int64_t k_most_rows = 128;

/// Floats between rows that a compilation can be told to expect: 2^50 bytes, beyond what a process
/// can map. What is multiplied with it, a distance in bytes or a thousand rows, fits 64 bits.
constexpr std::int64_t k_max_leading_dimension = std::int64_t{1} << 48;

void check_range(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most) {
    throw InvalidArgument(fmt::format("{} is {}; expected {} to {}", name, value, least, most));
  }
}

/// `last`: the enumerator that stands last; they count from 0.
template <class Enum>
void check_enum(const char* name, Enum value, Enum last) {
  check_range(name, static_cast<std::int64_t>(value), 0, static_cast<std::int64_t>(last));
}

void check_path(const char* name, const std::filesystem::path& path) {
  if (path.native().find('\0') == std::string::npos) return;
  throw InvalidArgument(fmt::format("{} is '{}', with a zero byte in it", name, path.native()));
}

void check_sizes(const CompileOptions& options) {
  if (options.n < 1) {
    throw InvalidArgument(fmt::format("n is {}; expected at least 1 column of B", options.n));
  }
  constexpr std::int64_t k_most = (std::int64_t{1} << 31) - 1;
  if (options.n > k_most) {
    throw InvalidArgument(fmt::format("n is {}; expected at most {}", options.n, k_most));
  }
  if (options.ldb != 0 && options.ldb < options.n) {
    throw InvalidArgument(
        fmt::format("ldb is {}; expected 0 or at least n = {}", options.ldb, options.n));
  }
  if (options.ldc != 0 && options.ldc < options.n) {
    throw InvalidArgument(
        fmt::format("ldc is {}; expected 0 or at least n = {}", options.ldc, options.n));
  }
  check_range("ldb", options.ldb, 0, k_max_leading_dimension);
  check_range("ldc", options.ldc, 0, k_max_leading_dimension);
  if (options.code_budget_bytes < 0) {
    throw InvalidArgument(
        fmt::format("the code budget is {} bytes; expected 0 or more", options.code_budget_bytes));
  }
}

void check_search(const CompileOptions& options) {
  check_enum("search", options.search, SearchMode::exhaustive);
  check_enum("reorder", options.reorder, ReorderAlgorithm::similarity);
  check_path("rank_model", options.rank_model);
  if (options.search_contenders < 1) {
    throw InvalidArgument(fmt::format("search_contenders is {}; expected at least 1 tile to time",
                                      options.search_contenders));
  }
  if (!(options.search_budget_ms >= 0 && options.search_budget_ms <= k_most_ms)) {
    throw InvalidArgument(fmt::format("the search budget is {} ms; expected 0 to {}",
                                      options.search_budget_ms, k_most_ms));
  }
}

void check_host(const CompileOptions& options) {
  check_enum("the target's instruction set", options.target.isa(), HostIsa::generic);
  const std::int64_t lanes = lanes_of(options.target.isa());
  const std::int64_t widest = widest_panel_vectors(options.target.isa()) * lanes;
  if (const auto width = options.panel_columns;
      width && (*width < lanes || *width % lanes != 0 || *width > widest)) {
    throw InvalidArgument(fmt::format("panel_columns is {}; expected a multiple of {} up to {}",
                                      *width, lanes, widest));
  }
}

/// Of a host target too: a value that is wrong is not silently left aside.
void check_cuda_options(const CudaOptions& cuda) {
  if (cuda.m1) check_range("m1", *cuda.m1, 1, k_most_rows);
  if (cuda.n1) {
    check_range("n1", *cuda.n1, k_cuda_warp, k_cuda_max_threads);
    if (*cuda.n1 % k_cuda_warp != 0) {
      throw InvalidArgument(
          fmt::format("n1 is {}; expected a multiple of {} threads", *cuda.n1, k_cuda_warp));
    }
  }
  check_range("unit_nonzeros", cuda.unit_nonzeros, 1, std::int64_t{1} << 40);
  check_range("compile_threads", cuda.compile_threads, 0, k_most_threads);
  if (!(cuda.compile_limit_ms >= 0 && cuda.compile_limit_ms <= k_most_ms)) {
    throw InvalidArgument(fmt::format("compile_limit_ms is {}; expected 0 (none) to {}",
                                      cuda.compile_limit_ms, k_most_ms));
  }
  check_enum("the CUDA source", cuda.source, CudaSource::cuda);
  check_enum("the CUDA source of proxies", cuda.proxy_source, CudaSource::cuda);
  for (const auto& path : cuda.toolkit_paths) check_path("a toolkit path", path);
}

void check_cuda(const CompileOptions& options) {
  check_range("n", options.n, 1, k_cuda_max_leading_dimension);
  check_range("ldb", options.ldb, 0, k_cuda_max_leading_dimension);
  check_range("ldc", options.ldc, 0, k_cuda_max_leading_dimension);
  if (options.panel_columns) {
    throw InvalidArgument("panel_columns is for host targets; a GPU kernel has no panels");
  }
  if (!options.rank_model.empty()) {
    throw InvalidArgument("rank_model is for host targets; tiles of a GPU are ranked by the prior");
  }
}

}  // namespace

CompileOptions checked_options(CompileOptions options) {
  check_sizes(options);
  check_search(options);
  if (options.threads < 0 || options.threads > k_most_threads) {
    throw InvalidArgument(
        fmt::format("threads is {}; expected 0 (all) to {}", options.threads, k_most_threads));
  }
  check_enum("verify", options.verify, VerifyMode::full);
  check_range("parallel_compiles", options.parallel_compiles, 0, k_most_threads);
  if (options.parallel_compiles == 0) options.parallel_compiles = usable_cpus();
  if (options.threads == 0) {
    options.threads = default_threads(read_environment(), usable_cpus());
  }
  check_cuda_options(options.cuda);
  if (options.target.is_cuda()) {
    check_cuda(options);
  } else {
    check_host(options);
  }
  return options;
}

SearchMode parse_search(std::string_view name) {
  for (const SearchMode mode :
       {SearchMode::instant, SearchMode::ranked, SearchMode::proxy, SearchMode::exhaustive}) {
    if (name == to_string(mode)) return mode;
  }
  throw InvalidArgument(fmt::format(
      "search mode \"{}\" is unknown; expected instant, ranked, proxy or exhaustive", name));
}

std::string_view to_string(SearchMode mode) {
  switch (mode) {
    case SearchMode::instant:
      return "instant";
    case SearchMode::ranked:
      return "ranked";
    case SearchMode::proxy:
      return "proxy";
    case SearchMode::exhaustive:
      return "exhaustive";
  }
  return "?";
}

VerifyMode parse_verify(std::string_view name) {
  for (const VerifyMode mode : {VerifyMode::none, VerifyMode::sampled, VerifyMode::full}) {
    if (name == to_string(mode)) return mode;
  }
  throw InvalidArgument(
      fmt::format("verify mode \"{}\" is unknown; expected none, sampled or full", name));
}

std::string_view to_string(VerifyMode mode) {
  switch (mode) {
    case VerifyMode::none:
      return "none";
    case VerifyMode::sampled:
      return "sampled";
    case VerifyMode::full:
      return "full";
  }
  return "?";
}

CudaSource parse_cuda_source(std::string_view name) {
  for (const CudaSource source : {CudaSource::ptx, CudaSource::cuda}) {
    if (name == to_string(source)) return source;
  }
  throw InvalidArgument(fmt::format("CUDA source \"{}\" is unknown; expected ptx or cuda", name));
}

std::string_view to_string(CudaSource source) { return source == CudaSource::ptx ? "ptx" : "cuda"; }

}  // namespace spjit
