#pragma once

/// @file
/// How a problem is compiled: for what, how the choice is made, with what.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "spjit/export.hpp"
#include "spjit/parallel_for.hpp"
#include "spjit/reorder.hpp"
#include "spjit/target.hpp"
#include "spjit/verification.hpp"

namespace spjit {

/// How the tile is chosen.
enum class SearchMode : std::uint8_t {
  instant,     ///< nothing is timed: measured rules name a tile, on a GPU the first of the ranking
  ranked,      ///< the best-ranked tiles are timed, by small proxies where those pay; for a GPU
               ///< that this machine has not, a model of it chooses among them
  proxy,       ///< the same for every tile the rules leave
  exhaustive,  ///< every tile the rules leave is compiled in full and timed: the oracle
};

[[nodiscard]] SPJIT_EXPORT SearchMode parse_search(std::string_view name);
[[nodiscard]] SPJIT_EXPORT std::string_view to_string(SearchMode mode);

/// Values of options by name.
using NamedValues = std::map<std::string, std::string, std::less<>>;

/// The policy that decides among kernels that compute the same. With the Problem, the target and
/// the threads it identifies a kernel: it can be written to a file and read back.
struct SearchPolicy {
  SearchMode search = SearchMode::instant;
  double search_budget_ms = 60'000;  ///< for choosing: then the best so far is taken; at most 1e9
  int top_k = 10;                    ///< K of `ranked`: tiles that are timed; >= 1
  /// The model that ranks tiles in modes that time: empty, the model that is shipped for the
  /// target, which hosts with AVX-512 or AVX2 have (else the prior); "prior", a formula; else the
  /// file of a model that `spjit train` made of tiles of such a target, host or GPU.
  std::filesystem::path rank_model = {};
  ReorderAlgorithm reorder = ReorderAlgorithm::automatic;
  /// "compact": the only family of kernels that is asked (docs/design/architecture.md lists them).
  /// Empty: all are, and one is chosen.
  std::string family = {};
  /// Runs of the kernel follow one another with nothing between, as in a benchmark: the choice is
  /// made, and a search times, with all of it in the caches. Default: as in a network, whose other
  /// layers pass through the caches between two runs. Hosts only.
  bool hot = false;
  /// Nonzeros of all layers of the network that this one is in, as far as they run in turn: code of
  /// a small network stays in the caches, and then more layers have some (docs/design/host.md).
  /// 0: not known, more than the caches hold. Hosts only; without meaning where `hot`.
  std::int64_t network_nnz = 0;
  /// Machine code a kernel may have. Above it a kernel that reads A takes over (KernelInfo::family
  /// says so).
  std::int64_t code_budget_bytes = k_default_code_budget_bytes;
  /// Options of single families, which check them. Of kernels for GPUs (docs/design/cuda.md):
  /// - "source": which of its two texts becomes the code, both with the same bits: "ptx" (through
  ///   nvJitLink, fast to compile; the default) or "cuda" (through NVRTC)
  /// - "m1", "n1": a tile of unrolled code, which is else chosen: rows, 1 to 128, and columns a
  ///   block, which are its threads, 32 to 1024 by 32
  /// - "proxy_source": as "source", of the proxies that a search times
  /// - "unit_nonzeros": of unrolled code that is compiled at once; 2048
  NamedValues values = {};

  /// 256 MiB: code streams from DRAM at that size and still beats dense (docs/results/host.md).
  static constexpr std::int64_t k_default_code_budget_bytes = std::int64_t{256} << 20;
};

/// Threads, libraries and times that compiling and running may use.
struct Resources {
  int threads = 1;  ///< threads a run on the host uses; 0: all CPUs this process may use
  /// Where runs on the host have their `threads`; empty: in threads of the Compiler's own.
  ParallelFor parallel_for = {};
  /// Compilations of one Compiler (its copies included) that run at once, 0 .. 4096; more wait
  /// their turn, first come first. 0: one a CPU this process may use. Each may use further threads
  /// by itself (LLVM's and NVIDIA's compilers: `compile_threads`). While one times candidates the
  /// others go on, which disturbs its times a little: 1 is for the best choices.
  int parallel_compiles = 0;
  int compile_threads = 0;  ///< units of a GPU kernel compiled at once; 0: one a CPU
  double compile_limit_ms =
      0;  ///< compiling GPU code is given up after this long; 0: never; <= 1e9
  /// Where NVRTC and nvJitLink are: libraries, their folders, toolkits. Empty: SPJIT_CUDA_PATH, or
  /// the usual places (docs/use/api.md).
  std::vector<std::filesystem::path> toolkit_paths = {};
};

/// Everything besides the problem.
struct CompileOptions {
  Target target = {};  ///< default: this CPU
  SearchPolicy policy = {};
  Resources resources = {};
  /// The texts of a kernel for a GPU stay with it, as files of its artifact and its cache entry
  /// (Kernel::cuda_source(), Kernel::ptx()), of which they are 40 % where code is unrolled. With
  /// and without them are two entries of a cache. Host kernels have none.
  bool keep_source = false;
  /// A kernel is run and checked before it is published or handed out, one from the cache too: a
  /// wrong one is withdrawn and compiled anew, and if that is wrong as well, VerificationFailed is
  /// thrown and nothing is kept. A GPU's kernel is checked on such a GPU of this machine: a fault
  /// there breaks the device's context, and compiling throws DeviceError while that lives. The
  /// check runs in this process: a kernel that crashes takes it along; its entry stays. One check
  /// at a time in a Compiler; the rows of B that are read and C in all layouts may take 8 GB, and
  /// half of the memory at most. Beyond that a kernel is not checked and KernelInfo::note says so.
  /// A cache key does not have it.
  VerifyMode verify = VerifyMode::none;
};

}  // namespace spjit
