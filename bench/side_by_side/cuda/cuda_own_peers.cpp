/// @file
/// spjit on a GPU, and the CSR kernel written by hand.

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "bench/side_by_side/cuda/cuda_peers.hpp"
#include "bench/side_by_side/cuda/row_split_kernel.hpp"
#include "bench/side_by_side/peers.hpp"
#include "runtime/cuda/cuda_libraries.hpp"
#include "runtime/cuda/cuda_module.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/error.hpp"
#include "spjit/kernel.hpp"
#include "spjit/version.hpp"

namespace spjit::side_by_side {
namespace {

class SpjitWork final : public DeviceWork {
 public:
  SpjitWork(const Kernel& kernel, int device)
      : tile_(kernel.info().tile), kernel_(kernel.load(device)) {}

  void enqueue(const float* b, float* c, void* stream) override { kernel_.launch(b, c, stream); }
  [[nodiscard]] std::string detail() const override { return tile_; }

 private:
  std::string tile_;
  Kernel kernel_;
};

class CudaSpjitPeer final : public Peer {
 public:
  explicit CudaSpjitPeer(CudaPeerSettings settings)
      : Peer({"spjit", SPJIT_VERSION, "jit", "", "cold compile"}), settings_(std::move(settings)) {}

  std::unique_ptr<Runnable> prepare(const Problem& problem) override {
    const int device = settings_.side->context().device().ordinal;
    CompileOptions options;
    options.target = Target::parse(fmt::format("sm_{}:gpu{}", arch(), device));
    options.policy.search = settings_.search;
    CacheOptions no_cache;
    no_cache.enabled = false;
    const Kernel kernel =
        Compiler(options, no_cache).compile({.a = *problem.matrix, .n = problem.n});
    return std::make_unique<DeviceRunnable>(settings_.side, problem,
                                            std::make_unique<SpjitWork>(kernel, device));
  }

 private:
  [[nodiscard]] std::int64_t arch() const { return settings_.side->context().device().limits.arch; }

  CudaPeerSettings settings_;
};

/// Rows by falling number of entries.
std::vector<int> rows_by_length(const CsrMatrix& matrix) {
  std::vector<int> rows(static_cast<std::size_t>(matrix.rows));
  std::iota(rows.begin(), rows.end(), 0);
  const auto entries = [&](int row) {
    const auto at = static_cast<std::size_t>(row);
    return matrix.row_ptrs[at + 1] - matrix.row_ptrs[at];
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](int left, int right) { return entries(left) > entries(right); });
  return rows;
}

class RowSplitWork final : public DeviceWork {
 public:
  RowSplitWork(CudaFunction function, const CudaContext& context, const Problem& problem,
               int vector)
      : function_(std::move(function)),
        m_(to_int(problem.matrix->rows)),
        n_(to_int(problem.n)),
        vector_(vector),
        row_order_(to_device(context, rows_by_length(*problem.matrix))),
        row_ptrs_(to_device(context, std::vector<int>(problem.matrix->row_ptrs.begin(),
                                                      problem.matrix->row_ptrs.end()))),
        col_idxs_(to_device(context, problem.matrix->col_idxs)),
        values_(to_device(context, problem.matrix->values)) {
    (void)to_int(problem.matrix->nnz());
  }

  void enqueue(const float* b, float* c, void* stream) override {
    const auto blocks = [](int size, int part) {
      return static_cast<unsigned>(ceil_div(size, part));
    };
    const CudaLaunchShape shape{{blocks(m_, k_row_split_rows), blocks(n_, 32 * vector_), 1},
                                {32, static_cast<unsigned>(k_row_split_rows), 1},
                                0};
    CudaAddress order = row_order_.address();
    CudaAddress begins = row_ptrs_.address();
    CudaAddress cols = col_idxs_.address();
    CudaAddress values = values_.address();
    void* parameters[] = {&m_, &n_, &order, &begins, &cols, &values, &b, &c};
    function_.launch(shape, stream, parameters);
  }

  [[nodiscard]] std::string detail() const override {
    return fmt::format("{} columns a warp", 32 * vector_);
  }

 private:
  CudaFunction function_;
  int m_;
  int n_;
  int vector_;
  DeviceBuffer row_order_;
  DeviceBuffer row_ptrs_;
  DeviceBuffer col_idxs_;
  DeviceBuffer values_;
};

class RowSplitPeer final : public Peer {
 public:
  RowSplitPeer(CudaPeerSettings settings, Nvrtc nvrtc)
      : Peer({"row-split", "of this repository, after Sputnik's design", "sparse"}),
        settings_(std::move(settings)),
        nvrtc_(std::move(nvrtc)) {}

  std::unique_ptr<Runnable> prepare(const Problem& problem) override {
    const int vector = problem.n % 4 == 0 ? 4 : problem.n % 2 == 0 ? 2 : 1;
    const CudaContext& context = settings_.side->context();
    return std::make_unique<DeviceRunnable>(
        settings_.side, problem,
        std::make_unique<RowSplitWork>(module_of(vector).function(k_row_split_name), context,
                                       problem, vector));
  }

 private:
  const CudaModule& module_of(int vector) {
    const auto found = modules_.find(vector);
    if (found != modules_.end()) return found->second;
    const CudaContext& context = settings_.side->context();
    NvrtcOptions options;
    options.arch = static_cast<int>(context.device().limits.arch);
    const CompiledCode code = nvrtc_.compile("row_split.cu", row_split_source(vector), options);
    const CudaModule module(context, std::as_bytes(std::span(code.code)));
    return modules_.emplace(vector, module).first->second;
  }

  CudaPeerSettings settings_;
  Nvrtc nvrtc_;
  std::map<int, CudaModule> modules_;  ///< by floats a thread
};

}  // namespace

std::unique_ptr<Peer> make_cuda_spjit_peer(const CudaPeerSettings& settings) {
  return std::make_unique<CudaSpjitPeer>(settings);
}

std::unique_ptr<Peer> make_row_split_peer(const CudaPeerSettings& settings) {
  try {
    CudaToolchainNeeds needs;
    needs.arch = static_cast<int>(settings.side->context().device().limits.arch);
    CudaToolchain toolchain = load_cuda_toolchain(needs, found_cuda_libraries());
    return std::make_unique<RowSplitPeer>(settings, *std::move(toolchain.nvrtc));
  } catch (const NotSupported& error) {
    return make_missing_peer({"row-split", "", "sparse", error.what()});
  }
}

}  // namespace spjit::side_by_side
