/// @file
/// spjit on a GPU, and the CSR kernel written by hand.

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "base/hash.hpp"
#include "bench/side_by_side/cuda/cuda_peers.hpp"
#include "bench/side_by_side/cuda/sputnik_kernel.hpp"
#include "bench/side_by_side/peers.hpp"
#include "runtime/cuda/cuda_libraries.hpp"
#include "runtime/cuda/cuda_module.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/error.hpp"
#include "spjit/kernel.hpp"
#include "spjit/version.hpp"

namespace spjit::side_by_side {
namespace {

/// Families by themselves, and what they are called among the libraries.
struct FamilyPeer {
  std::string_view name;
  const char* family;
};

constexpr FamilyPeer k_family_peers[] = {
    {"row-split", "csr"}, {"packed", "packed"}, {"narrow", "narrow"}, {"dense", "dense"}};

CompileOptions spjit_options(SearchMode search, const std::string& family) {
  CompileOptions options;
  options.policy.search = search;
  options.policy.family = family;
  return options;
}

class SpjitWork final : public DeviceWork {
 public:
  SpjitWork(const Kernel& kernel, int device) : kernel_(kernel.load(device)) {}

  void enqueue(const float* b, float* c, void* stream) override { kernel_.launch(b, c, stream); }
  [[nodiscard]] std::int64_t a_bytes() const override {
    return kernel_.info().code_bytes + kernel_.info().weight_bytes;
  }
  [[nodiscard]] std::string detail() const override {
    const KernelInfo& info = kernel_.info();
    return info.tile.empty() ? info.family : fmt::format("{} {}", info.family, info.tile);
  }

 private:
  Kernel kernel_;
};

/// A family of spjit's kernels, or the one that it chooses.
class CudaSpjitPeer final : public CudaPeer {
 public:
  CudaSpjitPeer(PeerInfo info, CudaPeerSettings settings, std::string family)
      : CudaPeer(std::move(info), settings.side),
        settings_(std::move(settings)),
        family_(std::move(family)) {}

  WorkMaker maker(const Problem& problem) override {
    return [kernel = compile(problem), device = side().context().device().ordinal](
               const DeviceBuffer& /*b*/, const DeviceBuffer& /*c*/) {
      return std::make_unique<SpjitWork>(kernel, device);
    };
  }

 private:
  [[nodiscard]] Kernel compile(const Problem& problem) const {
    const LocalGpu& device = side().context().device();
    CompileOptions options = spjit_options(settings_.search, family_);
    const spjit::Problem wanted{.a = *problem.matrix, .n = problem.n};
    if (settings_.cubins) return settings_.cubins->kernel(wanted, options);
    options.target = Target::parse(fmt::format("sm_{}:gpu{}", device.limits.arch, device.ordinal));
    CacheOptions no_cache;
    no_cache.enabled = false;
    return Compiler(options, no_cache).compile(wanted);
  }

  CudaPeerSettings settings_;
  std::string family_;
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

/// The same with zeros behind it, up to a multiple of k_sputnik_group.
template <typename Value>
std::vector<Value> padded(std::vector<Value> values) {
  constexpr auto group = static_cast<std::size_t>(k_sputnik_group);
  values.resize((values.size() + group - 1) / group * group);
  return values;
}

class SputnikWork final : public DeviceWork {
 public:
  SputnikWork(CudaFunction function, const CudaContext& context, const Problem& problem,
              const SputnikTile& tile)
      : function_(std::move(function)),
        m_(to_int(problem.matrix->rows)),
        n_(to_int(problem.n)),
        tile_(tile),
        row_order_(to_device(context, rows_by_length(*problem.matrix))),
        row_ptrs_(to_device(context, std::vector<int>(problem.matrix->row_ptrs.begin(),
                                                      problem.matrix->row_ptrs.end()))),
        col_idxs_(to_device(context, padded(problem.matrix->col_idxs))),
        values_(to_device(context, padded(problem.matrix->values))) {
    (void)to_int(problem.matrix->nnz() + std::int64_t{k_sputnik_threads} * k_sputnik_group);
  }

  void enqueue(const float* b, float* c, void* stream) override {
    const auto blocks = [](int size, int part) {
      return static_cast<unsigned>(ceil_div(size, part));
    };
    const CudaLaunchShape shape{{blocks(m_, tile_.rows_a_block()), blocks(n_, tile_.columns()), 1},
                                {static_cast<unsigned>(k_sputnik_threads), 1, 1},
                                0};
    CudaAddress order = row_order_.address();
    CudaAddress begins = row_ptrs_.address();
    CudaAddress cols = col_idxs_.address();
    CudaAddress values = values_.address();
    void* parameters[] = {&m_, &n_, &order, &begins, &cols, &values, &b, &c};
    function_.launch(shape, stream, parameters);
  }

  [[nodiscard]] std::int64_t a_bytes() const override {
    return static_cast<std::int64_t>(row_ptrs_.bytes() + col_idxs_.bytes() + values_.bytes());
  }
  [[nodiscard]] std::string detail() const override {
    return fmt::format("threads={} vector={}", tile_.threads, tile_.vector);
  }

 private:
  CudaFunction function_;
  int m_;
  int n_;
  SputnikTile tile_;
  DeviceBuffer row_order_;
  DeviceBuffer row_ptrs_;
  DeviceBuffer col_idxs_;
  DeviceBuffer values_;
};

/// The cubin of a tile, from the cache if there is one. Throws NotSupported without NVRTC where it
/// is needed.
std::string sputnik_cubin(const SputnikTile& tile, int arch, bench::CubinCache* cubins) {
  const std::string source = sputnik_source(tile);
  const auto compile = [&] {
    CudaToolchainNeeds needs;
    needs.arch = arch;
    NvrtcOptions options;
    options.arch = arch;
    return load_cuda_toolchain(needs, found_cuda_libraries())
        .nvrtc->compile("sputnik_style.cu", source, options)
        .code;
  };
  if (cubins == nullptr) return compile();
  const std::string key = KeyBuilder()
                              .field("spjit", SPJIT_VERSION)
                              .field("what", k_sputnik_kernel_name)
                              .field("arch", arch)
                              .field("text", source)
                              .hex();
  return cubins->cubin(key, [&] { return StoredCubin{compile()}; }).cubin;
}

class SputnikPeer final : public CudaPeer {
 public:
  explicit SputnikPeer(CudaPeerSettings settings)
      : CudaPeer({"sputnik-style", "of this repository, after Sputnik's design", "sparse"},
                 settings.side),
        settings_(std::move(settings)) {}

  WorkMaker maker(const Problem& problem) override {
    const SputnikTile tile = sputnik_tile_for(problem.n);
    return [this, &problem, tile](const DeviceBuffer& /*b*/, const DeviceBuffer& /*c*/) {
      return std::make_unique<SputnikWork>(module_of(tile).function(k_sputnik_kernel_name),
                                           side().context(), problem, tile);
    };
  }

 private:
  const CudaModule& module_of(const SputnikTile& tile) {
    const auto found = modules_.find(tile);
    if (found != modules_.end()) return found->second;
    const CudaContext& context = side().context();
    const std::string cubin =
        sputnik_cubin(tile, static_cast<int>(context.device().limits.arch), settings_.cubins.get());
    const CudaModule module(context, std::as_bytes(std::span(cubin)));
    return modules_.emplace(tile, module).first->second;
  }

  CudaPeerSettings settings_;
  std::map<SputnikTile, CudaModule> modules_;
};

}  // namespace

std::unique_ptr<Peer> make_cuda_spjit_peer(const CudaPeerSettings& settings) {
  const char* prepared = settings.cubins ? "" : "cold compile";
  return std::make_unique<CudaSpjitPeer>(PeerInfo{"spjit", SPJIT_VERSION, "jit", "", prepared},
                                         settings, "");
}

std::string family_of_peer(const std::string& name) {
  const auto* const found = std::ranges::find(k_family_peers, name, &FamilyPeer::name);
  return found == std::end(k_family_peers) ? "" : found->family;
}

std::unique_ptr<Peer> make_cuda_family_peer(const CudaPeerSettings& settings,
                                            const std::string& name) {
  const std::string family = family_of_peer(name);
  return std::make_unique<CudaSpjitPeer>(
      PeerInfo{name, fmt::format("{}, spjit's family {}", SPJIT_VERSION, family),
               name == "dense" ? "dense" : "sparse"},
      settings, family);
}

std::unique_ptr<Peer> make_sputnik_peer(const CudaPeerSettings& settings) {
  try {
    CudaToolchainNeeds needs;
    needs.arch = static_cast<int>(settings.side->context().device().limits.arch);
    if (!settings.cubins) (void)load_cuda_toolchain(needs, found_cuda_libraries());
    return std::make_unique<SputnikPeer>(settings);
  } catch (const NotSupported& error) {
    return make_missing_peer({"sputnik-style", "", "sparse", error.what()});
  }
}

void fill_cuda_peers(const std::vector<std::string>& names, const CsrMatrix& matrix, std::int64_t n,
                     bench::CubinCache& cubins) {
  const auto wanted = [&](const char* peer) {
    return std::ranges::find(names, peer) != names.end();
  };
  const spjit::Problem problem{.a = matrix, .n = n};
  for (const std::string& peer : names) {
    const std::string family = family_of_peer(peer);
    if (peer != "spjit" && family.empty()) continue;
    try {
      (void)cubins.kernel(problem, spjit_options(SearchMode::instant, family));
    } catch (const NotSupported& refusal) {
      if (family.empty()) throw;  // one family may refuse a problem
      fmt::print("{}: {}\n", peer, refusal.what());
    }
  }
  if (wanted("sputnik-style")) {
    (void)sputnik_cubin(sputnik_tile_for(n), static_cast<int>(cubins.card().arch), &cubins);
  }
}

}  // namespace spjit::side_by_side
