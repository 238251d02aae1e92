#include "bench/gpu/gpu_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <span>

#include "runtime/cuda/cuda_context.hpp"
#include "runtime/cuda/cuda_memory.hpp"
#include "runtime/cuda/cuda_stream.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/error.hpp"
#include "spjit/generate.hpp"
#include "tests/support/cuda/cuda_graph.hpp"
#include "tests/support/float64_check.hpp"

namespace spjit::bench {
namespace {

/// Launches a sample repeats as one graph, so that the driver's work for a launch is not timed.
constexpr int k_launches_a_graph = 20;

std::vector<float> dense_values(std::int64_t rows, std::int64_t cols) {
  GenerateOptions options;
  options.rows = rows;
  options.cols = cols;
  options.sparsity = 0;
  options.seed = 7;
  return generate_matrix(options).values;
}

/// B and C of a case, on the device and on the host.
class Buffers {
 public:
  Buffers(const CudaContext& context, const GpuCase& item)
      : host_b(dense_values(item.problem.a->cols, item.problem.n.value)),
        host_c(static_cast<std::size_t>(item.problem.a->rows * item.problem.n.value)),
        b_(context, host_b.size() * sizeof(float)),
        c_(context, host_c.size() * sizeof(float)) {
    b_.upload(std::as_bytes(std::span(host_b)));
  }

  [[nodiscard]] const float* b() const { return static_cast<const float*>(b_.pointer()); }
  [[nodiscard]] float* c() const { return static_cast<float*>(c_.pointer()); }
  void fetch() { c_.download(std::as_writable_bytes(std::span(host_c))); }

  std::vector<float> host_b;
  std::vector<float> host_c;

 private:
  DeviceBuffer b_;
  DeviceBuffer c_;
};

double check(const GpuCase& item, Buffers& buffers) {
  buffers.fetch();
  const std::int64_t n = item.problem.n.value;
  return compare_with_float64(*item.problem.a,
                              {buffers.host_b.data(), n, buffers.host_c.data(), n, n})
      .max_bound_ratio;
}

TimingResult time_launches(const CudaContext& context, const Kernel& kernel, const Buffers& buffers,
                           const GpuBenchOptions& options) {
  const CudaStream stream(context);
  const CudaGraph graph = CudaGraph::capture(stream, [&] {
    for (int i = 0; i < k_launches_a_graph; ++i) {
      kernel.launch(buffers.b(), buffers.c(), stream.handle());
    }
  });
  TimingOptions timing;
  timing.budget_ms = options.budget_ms;
  timing.min_batch_us = 2000;
  timing.warm_up_ms = 50;  // clocks rise under load
  timing.clock = [&] {
    stream.synchronize();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::steady_clock::now().time_since_epoch());
  };
  const TimingCandidate candidate{"kernel", [&] { graph.launch(stream.handle()); }};
  TimingResult result = measure_interleaved({&candidate, 1}, timing).front();
  result.median_us /= k_launches_a_graph;
  result.min_us /= k_launches_a_graph;
  result.mean_us /= k_launches_a_graph;
  return result;
}

void fill(GpuResult& result, const GpuCase& item, const GpuBenchOptions& options) {
  const Kernel kernel =
      options.cubins
          ? options.cubins->kernel(item.name, item.problem, item.options)
          : Compiler(item.options, {.enabled = false, .directory = {}}).compile(item.problem);
  result.info = kernel.info();
  const Kernel prepared = kernel.load(options.device);
  result.driver_active_blocks = prepared.driver_active_blocks();
  const CudaContext context(local_cuda_driver(), options.device);
  Buffers buffers(context, item);
  prepared.launch(buffers.b(), buffers.c());
  context.synchronize();
  result.max_error = check(item, buffers);
  if (result.max_error > 1) {
    result.failure = fmt::format("wrong result: {:.3g} times its error bound", result.max_error);
    return;
  }
  if (!options.check_only) result.timing = time_launches(context, prepared, buffers, options);
}

GpuCase make_case(const CompileOptions& base, std::int64_t rows, std::int64_t cols, double sparsity,
                  std::int64_t n) {
  GenerateOptions generate;
  generate.rows = rows;
  generate.cols = cols;
  generate.sparsity = sparsity;
  GpuCase item;
  item.name = fmt::format("{}x{} {:.0f} % n={}", rows, cols, 100 * sparsity, n);
  item.problem.a = generate_matrix(generate);
  item.problem.n = n;
  item.options = base;
  return item;
}

}  // namespace

GpuResult run_case(const GpuCase& item, const GpuBenchOptions& options) {
  GpuResult result;
  result.name = item.name;
  try {
    fill(result, item, options);
  } catch (const std::exception& error) {
    result.failure = error.what();
  }
  return result;
}

void fill_case(const GpuCase& item, const GpuBenchOptions& options) {
  static_cast<void>(options.cubins->kernel(item.name, item.problem, item.options));
}

std::vector<GpuCase> code_bytes_cases(const CompileOptions& base) {
  constexpr std::int64_t k_elements = std::int64_t{64} * 32768;  // of C
  std::vector<GpuCase> cases;
  for (const std::int64_t n1 : {128, 512}) {
    for (std::int64_t rows = 64; rows <= 8192; rows *= 2) {
      GpuCase item = make_case(base, rows, 256, 0.5, k_elements / rows);
      item.options.policy.values["m1"] = "32";
      item.options.policy.values["n1"] = std::to_string(std::min(n1, item.problem.n.value));
      item.name += fmt::format(" N1={}", n1);
      cases.push_back(std::move(item));
    }
  }
  return cases;
}

std::vector<GpuCase> shape_cases(const CompileOptions& base) {
  struct Shape {
    std::int64_t rows;
    std::int64_t cols;
  };
  constexpr Shape k_shapes[] = {{512, 512}, {2048, 512}, {512, 2048}, {2048, 1024}};
  std::vector<GpuCase> cases;
  for (const Shape& shape : k_shapes) {
    for (const double sparsity : {0.5, 0.7, 0.8, 0.9, 0.95, 0.98}) {
      for (const std::int64_t n : {128, 512, 4096}) {
        cases.push_back(make_case(base, shape.rows, shape.cols, sparsity, n));
      }
    }
  }
  return cases;
}

double gflops(const GpuResult& result) {
  if (result.timing.median_us <= 0) return 0;
  return 2e-3 * static_cast<double>(result.info.nnz) * static_cast<double>(result.info.n) /
         result.timing.median_us;
}

nlohmann::json to_json(const GpuResult& result) {
  const KernelInfo& info = result.info;
  const CudaKernelInfo gpu = info.cuda.value_or(CudaKernelInfo{});
  nlohmann::json json = {{"name", result.name},
                         {"rows", info.rows},
                         {"cols", info.cols},
                         {"nnz", info.nnz},
                         {"n", info.n},
                         {"tile", info.tile},
                         {"code_bytes", info.code_bytes},
                         {"predicted_registers", gpu.predicted_registers},
                         {"registers", gpu.registers},
                         {"spilled_bytes", gpu.spilled_bytes},
                         {"active_blocks", gpu.active_blocks},
                         {"driver_active_blocks", result.driver_active_blocks},
                         {"compile_ms", info.compile_ms},
                         {"max_error_over_bound", result.max_error},
                         {"failure", nullptr},
                         {"median_us", nullptr}};
  if (!result.failure.empty()) json["failure"] = result.failure;
  if (result.timing.samples > 0) {
    json["median_us"] = result.timing.median_us;
    json["min_us"] = result.timing.min_us;
    json["noise"] = result.timing.noise;
    json["samples"] = result.timing.samples;
    json["gflops"] = gflops(result);
  }
  return json;
}

std::string result_table(const std::string& title, const std::vector<GpuResult>& results) {
  std::string text =
      fmt::format("{}\n{:<34} {:<16} {:>9} {:>5} {:>5} {:>7} {:>10} {:>9} {:>7}\n", title, "case",
                  "tile", "code KiB", "regs", "spill", "blocks", "median us", "GFLOP/s", "noise");
  for (const GpuResult& result : results) {
    const KernelInfo& info = result.info;
    const CudaKernelInfo gpu = info.cuda.value_or(CudaKernelInfo{});
    if (!result.failure.empty()) {
      text += fmt::format("{:<34} {}\n", result.name, result.failure);
      continue;
    }
    text += fmt::format("{:<34} {:<16} {:>9} {:>5} {:>5} {:>3}/{:<3}", result.name, info.tile,
                        info.code_bytes >> 10, gpu.registers, gpu.spilled_bytes, gpu.active_blocks,
                        result.driver_active_blocks);
    text += result.timing.samples > 0
                ? fmt::format(" {:>10.2f} {:>9.0f} {:>5.1f} %\n", result.timing.median_us,
                              gflops(result), 100 * result.timing.noise)
                : " checked, not timed\n";
  }
  return text;
}

}  // namespace spjit::bench
