#include "measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "base/call_timer.hpp"
#include "base/host_cpu.hpp"
#include "kernels/unrolled_cuda/cuda_timer.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/error.hpp"
#include "spjit/matrix_io.hpp"
#include "tools/peers/peers.hpp"

namespace spjit::cli {
namespace {

constexpr std::uint64_t k_b_seed = 20240229;

// Why the dense peer is left out; empty if it is not.
std::string dense_problem(const CsrMatrix& matrix, std::int64_t n) {
  const double elements = static_cast<double>(matrix.rows) * static_cast<double>(matrix.cols);
  if (elements == 0) return "no dense peer: the matrix has no rows or no columns";
  if (4 * elements > k_most_dense_bytes) {
    return fmt::format("no dense peer: A with its zeros would take {:.1f} GB, over {:.0f} GB",
                       4 * elements / 1e9, k_most_dense_bytes / 1e9);
  }
  const double products = elements * static_cast<double>(n);
  if (products > k_most_dense_products) {
    return fmt::format("no dense peer: {:.1e} multiply-adds a run, over {:.0e}", products,
                       k_most_dense_products);
  }
  return "";
}

FloatBuffer make_dense(const CsrMatrix& matrix) {
  FloatBuffer dense(static_cast<std::size_t>(matrix.rows * matrix.cols));
  std::fill(dense.span().begin(), dense.span().end(), 0.0F);
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    const auto begin = static_cast<std::size_t>(matrix.row_ptrs[static_cast<std::size_t>(row)]);
    const auto end = static_cast<std::size_t>(matrix.row_ptrs[static_cast<std::size_t>(row) + 1]);
    for (std::size_t i = begin; i < end; ++i) {
      dense.data()[row * matrix.cols + matrix.col_idxs[i]] = matrix.values[i];
    }
  }
  return dense;
}

// OpenBLAS on a dense copy of A.
class DensePeer {
 public:
  DensePeer(OpenBlas library, const CsrMatrix& matrix, const Operands& operands, int threads)
      : library_(std::move(library)), a_(make_dense(matrix)), problem_{matrix.rows,
                                                                       matrix.cols,
                                                                       operands.n,
                                                                       a_.data(),
                                                                       operands.b.data(),
                                                                       operands.c.data()} {
    library_.set_threads(threads);
  }

  void run() const { library_.sgemm(problem_); }

 private:
  OpenBlas library_;
  FloatBuffer a_;
  DenseProblem problem_;
};

std::shared_ptr<const DensePeer> make_dense_peer(const Kernel& kernel, const CsrMatrix& matrix,
                                                 const Operands& operands, PeerTiming& timing) {
  timing.skipped = dense_problem(matrix, operands.n);
  if (!timing.skipped.empty()) return nullptr;
  const OpenBlas::Loaded loaded = OpenBlas::load();
  if (!loaded.library) {
    timing.skipped = "no dense peer: " + loaded.reason;
    return nullptr;
  }
  return std::make_shared<const DensePeer>(*loaded.library, matrix, operands,
                                           kernel.info().threads);
}

std::vector<TimingResult> times_of(const std::vector<TimingCandidate>& candidates,
                                   const InputRows& b, int threads, const MeasureOptions& options) {
  if (options.between_bytes == 0) {
    TimingOptions timing;
    timing.budget_ms = options.budget_ms;
    return measure_interleaved(candidates, timing);
  }
  ThreadPool pool(threads, std::chrono::nanoseconds::zero());  // its threads do not spin
  const CallTimer timer(std::make_shared<CacheFlush>(host_cpu(), &pool, options.between_bytes), b);
  return measure_single_calls(candidates, timer, {.budget_ms = options.budget_ms});
}

Measurement measure_on_host(const Kernel& kernel, const CsrMatrix& matrix,
                            const MeasureOptions& options) {
  Measurement measurement;
  Operands operands(matrix.rows, matrix.cols, kernel.n());
  const float* const b = operands.b.data();
  float* const c = operands.c.data();
  const CsrPeer csr(matrix, kernel.info().target.isa(), kernel.info().threads);
  const Product arguments{.b = b, .ldb = operands.n, .c = c, .ldc = operands.n, .n = operands.n};
  std::vector<TimingCandidate> candidates = {{"spjit", [&] { kernel.run(b, c); }},
                                             {"csr", [&] { csr.run(arguments); }}};
  if (const auto dense = make_dense_peer(kernel, matrix, operands, measurement.dense)) {
    candidates.push_back({"dense", [dense] { dense->run(); }});
  }
  const std::vector<TimingResult> results = times_of(
      candidates, {b, matrix.cols, operands.n, operands.n}, kernel.info().threads, options);

  measurement.kernel = results[0];
  measurement.csr.timing = results[1];
  if (results.size() > 2) measurement.dense.timing = results[2];
  return measurement;
}

TimingGpu timing_gpu_of(const Target& target) {
  return find_timing_gpu(target, cuda_device_info_of(target));
}

Measurement measure_on_gpu(const Kernel& kernel, const Problem& problem, double budget_ms) {
  const TimingGpu gpu = timing_gpu_of(kernel.info().target);
  if (!gpu.ordinal) throw NotSupported(gpu.problem);
  const CudaKernelInfo& info = *kernel.info().cuda;
  CudaTimer timer(*gpu.ordinal, problem);
  const std::vector<CudaTuningCandidate> candidates = {
      {"spjit", kernel.image(), {info.blocks_x, info.blocks_y, info.threads, 0, {}}}};
  TuningOptions options;
  options.budget_ms = budget_ms;
  const TuningResult result = time_cuda_kernels(candidates, options, timer).front();
  if (result.timing.samples == 0) {
    throw Error(fmt::format("the kernel could not be timed: {}",
                            result.failure.empty()
                                ? fmt::format("{} ms were over before the first sample", budget_ms)
                                : result.failure));
  }
  constexpr const char* k_no_peer = "no peer on a GPU";
  return {result.timing, {{}, k_no_peer}, {{}, k_no_peer}};
}

}  // namespace

Operands::Operands(std::int64_t m, std::int64_t k, std::int64_t columns)
    : n(columns),
      b(static_cast<std::size_t>(k * columns)),
      c(static_cast<std::size_t>(m * columns)) {
  float* next = b.data();
  for (std::int64_t row = 0; row < k; ++row) {
    for (std::int64_t col = 0; col < n; ++col) *next++ = pattern_value(k_b_seed, row, col);
  }
  std::fill(c.span().begin(), c.span().end(), std::numeric_limits<float>::quiet_NaN());
}

double measure_peak_gflops(HostIsa isa) { return measure_fma_peak_gflops(isa); }

std::string why_not_timed(const Target& target) {
  return target.is_cuda() ? timing_gpu_of(target).problem : "";
}

std::string how_measured(bool hot) {
  return hot ? "hot: runs follow one another, with all they need in the caches"
             : "cold: other data passes through the caches before each run (--hot: nothing does)";
}

Measurement measure(const Kernel& kernel, const Problem& problem, const MeasureOptions& options) {
  return kernel.info().cuda ? measure_on_gpu(kernel, problem, options.budget_ms)
                            : measure_on_host(kernel, *problem.a, options);
}

double gflops(const KernelInfo& info, const TimingResult& timing) {
  return 2.0 * static_cast<double>(info.nnz) * static_cast<double>(info.n) /
         (timing.median_us * 1e3);
}

std::optional<double> share_of_peak(const KernelInfo& info, const TimingResult& timing,
                                    double peak_gflops) {
  if (info.cuda) return std::nullopt;
  // More threads than CPUs do not raise the peak.
  const int cores = std::min(info.threads, usable_cpus());
  return gflops(info, timing) / (peak_gflops * cores);
}

std::optional<double> speedup(const PeerTiming& peer, const TimingResult& kernel) {
  if (!peer.timing) return std::nullopt;
  return peer.timing->median_us / kernel.median_us;
}

Json describe(const TimingResult& timing) {
  return {{"median_us", timing.median_us},
          {"min_us", timing.min_us},
          {"noise", timing.noise},
          {"samples", timing.samples}};
}

Json describe(const PeerTiming& timing) {
  if (timing.timing) return describe(*timing.timing);
  return {{"skipped", timing.skipped}};
}

Json describe(const Measurement& measurement, const KernelInfo& info, double peak_gflops) {
  const auto number = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json(nullptr);
  };
  const TimingResult& timing = measurement.kernel;
  Json kernel = describe(timing);
  kernel["gflops"] = gflops(info, timing);
  kernel["share_of_peak"] = number(share_of_peak(info, timing, peak_gflops));
  return {{"kernel", std::move(kernel)},
          {"dense", describe(measurement.dense)},
          {"csr", describe(measurement.csr)},
          {"speedup_over_dense", number(speedup(measurement.dense, timing))},
          {"speedup_over_csr", number(speedup(measurement.csr, timing))}};
}

}  // namespace spjit::cli
