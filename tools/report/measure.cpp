#include "tools/report/measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "artifact/families.hpp"
#include "base/call_timer.hpp"
#include "base/host_cpu.hpp"
#include "base/tuning.hpp"
#include "kernels/cuda/launch/cuda_timing.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "runtime/host/host_device_info.hpp"
#include "spjit/error.hpp"
#include "tools/options/operands.hpp"
#include "tools/peers/peers.hpp"

namespace spjit::cli {
namespace {

// Whether there is a dense peer.
Refusal dense_refusal(const CsrMatrix& matrix, std::int64_t n) {
  const double elements = static_cast<double>(matrix.rows) * static_cast<double>(matrix.cols);
  if (elements == 0) return Refusal("no dense peer: the matrix has no rows or no columns");
  if (4 * elements > k_most_dense_bytes) {
    return Refusal(
        fmt::format("no dense peer: A with its zeros would take {:.1f} GB, over {:.0f} GB",
                    4 * elements / 1e9, k_most_dense_bytes / 1e9));
  }
  const double products = elements * static_cast<double>(n);
  if (products > k_most_dense_products) {
    return Refusal(fmt::format("no dense peer: {:.1e} multiply-adds a run, over {:.0e}", products,
                               k_most_dense_products));
  }
  return Refusal::none();
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

// OpenBLAS on a dense copy of A, in the fastest way that it has for so many columns.
class DensePeer {
 public:
  DensePeer(OpenBlas library, const Problem& problem, const Operands& operands, int threads)
      : library_(std::move(library)), a_(make_dense(*problem.a)) {
    library_.set_threads(threads);
    for (std::int64_t item = 0; item < operands.batch(); ++item) {
      const DenseProblem one = {problem.a->rows, problem.a->cols,  problem.n.value,
                                a_.data(),       operands.b(item), operands.c(item)};
      products_.emplace_back(library_.calls(one), one);
    }
  }

  void run() {
    for (FastestCall& product : products_) product.run();
  }

 private:
  OpenBlas library_;
  FloatBuffer a_;
  std::vector<FastestCall> products_;  // of a batch
};

std::shared_ptr<DensePeer> make_dense_peer(int threads, const Problem& problem,
                                           const Operands& operands, PeerTiming& timing) {
  timing.skipped = dense_refusal(*problem.a, problem.n.value * operands.batch()).reason();
  if (!timing.skipped.empty()) return nullptr;
  const OpenBlas::Loaded loaded = OpenBlas::load();
  if (!loaded.library) {
    timing.skipped = "no dense peer: " + loaded.reason;
    return nullptr;
  }
  return std::make_shared<DensePeer>(*loaded.library, problem, operands, threads);
}

void run_csr_peer(const CsrPeer& csr, const Operands& operands, std::int64_t n) {
  for (std::int64_t item = 0; item < operands.batch(); ++item) {
    csr.run({.b = operands.b(item), .ldb = n, .c = operands.c(item), .ldc = n, .n = n});
  }
}

// Of C that a run has made of operands whose C was spoiled.
CheckResult checked(const Operands& operands) {
  CheckResult result = operands.compare();
  if (!result.passed()) {
    throw VerificationFailed(
        fmt::format("{}; please report this matrix and 'spjit devices'", result.problem));
  }
  return result;
}

std::vector<TimingResult> times_of(const std::vector<TimingCandidate>& candidates,
                                   const InputRows& b, int threads, const MeasureOptions& options) {
  if (options.between_bytes == 0) {
    TimingOptions timing;
    timing.budget_ms = options.budget_ms;
    return measure_interleaved(candidates, timing);
  }
  WorkerPool pool(threads, std::chrono::nanoseconds::zero());  // its threads do not spin
  const CallTimer timer(std::make_shared<CacheFlush>(host_cpu(), &pool, options.between_bytes), b);
  return measure_single_calls(candidates, timer, {.budget_ms = options.budget_ms});
}

Measurement measure_on_host(const Kernel& kernel, const Problem& problem,
                            const MeasureOptions& options) {
  Measurement measurement;
  measurement.batch = options.batch;
  Operands operands(problem, options.operands, options.batch);
  const int threads = kernel.info().threads;
  std::optional<CsrPeer> csr;
  PreparedValues values;
  Arguments arguments = operands.arguments();
  if (problem.runtime_values) {
    values = kernel.prepare_values(problem.a->values);
    arguments.values = &values;
  }
  std::vector<TimingCandidate> candidates = {{"spjit", [&] { kernel.run(arguments); }}};
  if (problem.operation != Operation::spmm) {
    measurement.csr.skipped = measurement.dense.skipped = "no peer has convolutions here";
  } else if (!problem.numerics.is_default()) {
    measurement.csr.skipped = measurement.dense.skipped = "no peer has other types than f32 here";
  } else {
    csr.emplace(*problem.a, kernel.info().target.isa(), threads);
    candidates.push_back({"csr", [&] { run_csr_peer(*csr, operands, problem.n.value); }});
    if (const auto dense = make_dense_peer(threads, problem, operands, measurement.dense)) {
      candidates.push_back({"dense", [dense] { dense->run(); }});
    }
  }
  const std::vector<TimingResult> results =
      times_of(candidates, operands.all_of_b(), threads, options);

  measurement.kernel = results[0];
  if (results.size() > 1) measurement.csr.timing = results[1];
  if (results.size() > 2) measurement.dense.timing = results[2];
  if (options.check) {
    operands.spoil_c();
    kernel.run(arguments);
    measurement.check = checked(operands);
  }
  return measurement;
}

TimingGpu timing_gpu_of(const Target& target) {
  return find_timing_gpu(target, cuda_device_info_of(target));
}

Measurement measure_on_gpu(const Kernel& kernel, const Problem& problem,
                           const MeasureOptions& options) {
  const TimingGpu gpu = timing_gpu_of(kernel.info().target);
  if (!gpu.ordinal) throw NotSupported(gpu.problem);
  CudaTimingOperands timed(CudaContext(local_cuda_driver(), *gpu.ordinal), problem);
  const Kernel loaded = kernel.load(*gpu.ordinal);
  PreparedValues values;
  Arguments launched = timed.arguments();
  if (problem.runtime_values) {
    values = loaded.prepare_values(problem.a->values);
    launched.values = &values;
  }
  const std::vector<TuningEntry> entries = {
      {"spjit", [&](std::int64_t calls) {
         return timed.time_us(calls, [&] { loaded.launch(launched); }) * static_cast<double>(calls);
       }}};
  TuningOptions tuning;
  tuning.budget_ms = options.budget_ms;
  const TuningResult result = run_tuning(entries, tuning).front();
  if (result.timing.samples == 0) {
    throw Error(
        fmt::format("the kernel could not be timed: {}",
                    result.failure.empty()
                        ? fmt::format("{} ms were over before the first sample", options.budget_ms)
                        : result.failure));
  }
  constexpr const char* k_no_peer = "no peer on a GPU";
  Measurement measurement{result.timing, {{}, k_no_peer}, {{}, k_no_peer}};
  if (!options.check) return measurement;
  Operands operands(problem, options.operands, 1);
  Arguments arguments = operands.arguments();
  arguments.values = launched.values;
  loaded.run(arguments);
  measurement.check = checked(operands);
  return measurement;
}

}  // namespace

double measure_peak_gflops(const Target& target) {
  const std::optional<HostIsa> isa = backend_of(target).peak_isa(target);
  return isa && target.runs_here() ? measure_fma_peak_gflops(*isa) : 0;
}

Refusal why_not_timed(const Target& target) { return backend_of(target).why_not_timed(target); }

std::string how_measured(bool hot) {
  return hot ? "hot: runs follow one another, with all they need in the caches"
             : "cold: other data passes through the caches before each run (--hot: nothing does)";
}

Measurement measure(const Kernel& kernel, const Problem& problem, const MeasureOptions& options) {
  return kernel.info().cuda ? measure_on_gpu(kernel, problem, options)
                            : measure_on_host(kernel, problem, options);
}

double gflops(const Work& work, const TimingResult& timing) {
  return 2.0 * static_cast<double>(work.info.nnz) * static_cast<double>(work.info.n) *
         static_cast<double>(work.batch) / (timing.median_us * 1e3);
}

std::optional<double> share_of_peak(const Work& work, const TimingResult& timing,
                                    double peak_gflops) {
  if (work.info.cuda) return std::nullopt;
  // More threads than CPUs do not raise the peak.
  const int cores = std::min(work.info.threads, usable_cpus());
  return gflops(work, timing) / (peak_gflops * cores);
}

std::vector<std::string> skipped_peers(const Measurement& measurement) {
  std::vector<std::string> reasons;
  for (const PeerTiming* peer : {&measurement.dense, &measurement.csr}) {
    const bool is_new = reasons.empty() || reasons.back() != peer->skipped;
    if (!peer->skipped.empty() && is_new) reasons.push_back(peer->skipped);
  }
  return reasons;
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

Json describe(const CheckResult& check) {
  return {{"rows_checked", check.rows_checked},
          {"columns_checked", check.columns_checked},
          {"max_abs_error", check.max_abs_error},
          {"max_error_over_bound", check.max_error_over_bound}};
}

Json describe(const Measurement& measurement, const KernelInfo& info, double peak_gflops) {
  const auto number = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json(nullptr);
  };
  const TimingResult& timing = measurement.kernel;
  Json kernel = describe(timing);
  const Work work{info, measurement.batch};
  kernel["gflops"] = gflops(work, timing);
  kernel["share_of_peak"] = number(share_of_peak(work, timing, peak_gflops));
  return {{"kernel", std::move(kernel)},
          {"dense", describe(measurement.dense)},
          {"csr", describe(measurement.csr)},
          {"speedup_over_dense", number(speedup(measurement.dense, timing))},
          {"speedup_over_csr", number(speedup(measurement.csr, timing))}};
}

}  // namespace spjit::cli
