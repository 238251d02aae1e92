#include "bench/host/case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "base/host_cpu.hpp"
#include "base/timing.hpp"
#include "bench/host/buffers.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "spjit/kernel.hpp"

namespace spjit::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int k_warm_hits = 5;
constexpr int k_cold_compiles = 3;
constexpr std::int64_t k_long_compile_nnz = 500'000;  // from here on, one is enough to tell
constexpr double k_peak_ms = 15;

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// B with seeded values and one C for each library, so that results can be compared.
struct Buffers {
  Buffers(const CsrMatrix& matrix, std::int64_t columns)
      : n(columns),
        c_floats(matrix.rows * columns),
        b(matrix.cols * columns, 0.0F),
        c(c_floats, -1.0F),
        c_csr(c_floats, -2.0F) {
    fill_operand(b.data(), matrix.cols, n);
  }

  std::int64_t n;
  std::int64_t c_floats;
  AlignedFloats b;
  AlignedFloats c;
  AlignedFloats c_csr;
};

/// Cold and warm compiles; fills what they measure.
Kernel compile_timed(const CaseSettings& settings, const CsrMatrix& matrix, const CaseShape& shape,
                     CaseResult& result) {
  CompileOptions options;
  options.target = settings.target;
  options.resources.threads = shape.threads;
  options.policy.hot = true;
  const CacheOptions cache{true, settings.cache_directory};
  Problem problem;
  problem.a = matrix;
  problem.n = shape.n;
  std::vector<double> colds;
  std::vector<double> encodes;
  const int compiles = matrix.nnz() < k_long_compile_nnz ? k_cold_compiles : 1;
  for (int compile = 0; compile < compiles; ++compile) {
    fs::remove_all(settings.cache_directory);
    const auto begin = Clock::now();
    const Kernel kernel = Compiler(options, cache).compile(problem);
    colds.push_back(ms_since(begin));
    const auto record = nlohmann::json::parse(kernel.record());
    encodes.push_back(record.at("compile_ms").at("emit").get<double>());
  }
  result.cold_compile_ms = median_of(colds);
  result.encode_ms = median_of(encodes);

  Kernel kernel = Compiler(options, cache).compile(problem);
  std::vector<double> hits;
  for (int hit = 0; hit < k_warm_hits; ++hit) {
    const Compiler compiler(options, cache);
    const auto begin = Clock::now();
    const Kernel cached = compiler.compile(problem);
    hits.push_back(ms_since(begin));
    if (!cached.info().from_cache) {
      throw Error(fmt::format("{}: a kernel just cached was compiled again: {}", result.matrix,
                              cached.info().note));
    }
  }
  result.warm_hit_ms = median_of(hits);
  result.kind = kernel.info().family;
  result.tile = kernel.info().tile;
  result.code_bytes = kernel.info().code_bytes;
  return kernel;
}

/// What computes A * B from the nonzeros.
struct SparseLibraries {
  Kernel kernel;
  CsrPeer csr;
};

/// Runs both sparse kernels once and compares.
void check_results(const CsrMatrix& matrix, const SparseLibraries& sparse, Buffers& buffers,
                   CaseResult& result) {
  const std::int64_t n = buffers.n;
  const Product operands{buffers.b.data(), n, buffers.c.data(), n, n};
  sparse.kernel.run(buffers.b.data(), buffers.c.data());
  sparse.csr.run({buffers.b.data(), n, buffers.c_csr.data(), n, n});
  result.error = compare_with_float64(matrix, operands);
  if (!result.error.within_bound()) {
    throw Error(fmt::format("{}: C[{}][{}] is off by {:.3g} times what rounding explains",
                            result.matrix, result.error.row, result.error.col,
                            result.error.max_bound_ratio));
  }
  const auto bytes = static_cast<std::size_t>(buffers.c_floats) * sizeof(float);
  if (bytes != 0 && std::memcmp(buffers.c.data(), buffers.c_csr.data(), bytes) != 0) {
    throw Error(fmt::format("{}: the kernel's bits are not the CSR kernel's", result.matrix));
  }
}

void check_dense(const CsrMatrix& matrix, Buffers& buffers, const std::string& name) {
  const std::int64_t n = buffers.n;
  // OpenBLAS adds in an order of its own, over k terms of which most are exact zeros.
  const ErrorReport error =
      compare_with_float64(matrix, {buffers.b.data(), n, buffers.c_csr.data(), n, n});
  if (!error.within_bound()) {
    throw Error(
        fmt::format("{}: OpenBLAS's C[{}][{}] is off by {:.3g} times what rounding explains", name,
                    error.row, error.col, error.max_bound_ratio));
  }
}

void time_libraries(const CaseSettings& settings, const CsrMatrix& matrix,
                    const SparseLibraries& sparse, Buffers& buffers, CaseResult& result) {
  const std::int64_t n = buffers.n;
  std::vector<TimingCandidate> candidates = {
      {"spjit", [&] { sparse.kernel.run(buffers.b.data(), buffers.c.data()); }},
      {"csr", [&] {
         sparse.csr.run({buffers.b.data(), n, buffers.c_csr.data(), n, n});
       }}};
  std::vector<float> dense;
  if (settings.openblas) {
    dense = dense_of(matrix);
    settings.openblas->set_threads(result.threads);
    candidates.push_back({"openblas", [&] {
                            settings.openblas->multiply({matrix.rows, matrix.cols, n, dense.data(),
                                                         buffers.b.data(), buffers.c_csr.data()});
                          }});
    candidates.back().run();
    check_dense(matrix, buffers, result.matrix);
  }
  TimingOptions options;
  options.budget_ms = settings.budget_ms;
  const HostIsa isa = settings.target.isa();
  result.peak_gflops = measure_fma_peak_gflops(isa, k_peak_ms);
  const std::vector<TimingResult> timings = measure_interleaved(candidates, options);
  result.peak_gflops = std::max(result.peak_gflops, measure_fma_peak_gflops(isa, k_peak_ms));
  result.kernel = timings[0];
  result.csr = timings[1];
  if (timings.size() > 2) result.dense = timings[2];
}

}  // namespace

double CaseResult::sparsity() const noexcept {
  const double elements = static_cast<double>(rows) * static_cast<double>(cols);
  return elements > 0 ? 1 - static_cast<double>(nnz) / elements : 0;
}

double CaseResult::gflops(const TimingResult& timing) const noexcept {
  const double operations = 2 * static_cast<double>(nnz) * static_cast<double>(n);
  return timing.median_us > 0 ? operations / (timing.median_us * 1e3) : 0;
}

double CaseResult::peak_share(const TimingResult& timing) const noexcept {
  return gflops(timing) / (peak_gflops * std::min(threads, usable_cpus()));
}

CaseResult run_case(const CaseSettings& settings, const Workload& workload, const CsrMatrix& matrix,
                    const CaseShape& shape) {
  CaseResult result;
  result.matrix = workload.name;
  result.source = workload.source;
  result.rows = matrix.rows;
  result.cols = matrix.cols;
  result.nnz = matrix.nnz();
  result.n = shape.n;
  result.threads = shape.threads;
  Buffers buffers(matrix, shape.n);
  const SparseLibraries sparse{compile_timed(settings, matrix, shape, result),
                               CsrPeer(matrix, settings.target.isa(), shape.threads)};
  check_results(matrix, sparse, buffers, result);
  time_libraries(settings, matrix, sparse, buffers, result);
  return result;
}

}  // namespace spjit::bench
