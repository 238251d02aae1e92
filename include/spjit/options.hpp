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
  ranked,      ///< the best-ranked tiles are timed, by small proxies where those pay; where a GPU
               ///< is not in this machine, a model of it chooses
  proxy,       ///< every tile the rules leave is timed as with `ranked`
  exhaustive,  ///< every tile the rules leave is compiled in full and timed: the oracle
};

[[nodiscard]] SPJIT_EXPORT SearchMode parse_search(std::string_view name);
[[nodiscard]] SPJIT_EXPORT std::string_view to_string(SearchMode mode);

/// Whether compile() makes a kernel that no cache has.
enum class CompileWhen : std::uint8_t {
  needed,  ///< it is compiled
  never,   ///< it is an error: for hosts that run what others have compiled
};

[[nodiscard]] SPJIT_EXPORT CompileWhen parse_compile_when(std::string_view name);
[[nodiscard]] SPJIT_EXPORT std::string_view to_string(CompileWhen when);

/// Values of options by name.
using NamedValues = std::map<std::string, std::string, std::less<>>;

/// The policy that decides among kernels that compute the same. With the Problem, the target and
/// the threads it identifies a kernel: it can be written to a file and read back.
struct SearchPolicy {
  SearchMode search = SearchMode::instant;
  double search_budget_ms = 60'000;  ///< for choosing: then the best so far is taken; at most 1e9
  int top_k = 10;                    ///< K of `ranked`: tiles that are timed; >= 1
  /// The model that ranks tiles in modes that time. Empty: the model that is shipped for the
  /// target; those with AVX-512 and AVX2 have one, others have the prior. "prior": a formula. Else
  /// the file of a model that `spjit train` made of tiles of such a target, host or GPU.
  std::filesystem::path rank_model = {};
  ReorderAlgorithm reorder = ReorderAlgorithm::automatic;
  /// "compact": the only family of kernels that is asked (docs/design/architecture.md lists them).
  /// Empty: all are, and one is chosen.
  std::string family = {};
  /// Runs of the kernel follow one another with nothing between, as in a benchmark. spjit chooses,
  /// and a search times, with all of the kernel in the caches. Default: as in a network, whose
  /// other layers pass through the caches between two runs. A search times GPUs hot in any case.
  bool hot = false;
  /// Nonzeros of all layers of this layer's network that run in turn. Code of a small network stays
  /// in the caches, so more of its layers get code (docs/design/host.md). 0: not known, more than
  /// the caches hold; for a GPU as if the layer was alone. Without meaning where `hot`.
  std::int64_t network_nnz = 0;
  /// Machine code a kernel may have. Above it a kernel that reads A takes over (KernelInfo::family
  /// says so).
  std::int64_t code_budget_bytes = k_default_code_budget_bytes;
  /// Options of single families and backends, which check them. Of hosts:
  /// - "choice": what chooses the family where nothing is timed: "model" (default), if there is one
  ///   for this kind of CPU (docs/design/host.md), or "rules"
  ///
  /// Of kernels for GPUs (docs/design/cuda.md):
  /// - "source": the text that becomes the code, with the same bits: "ptx" (default; compiled fast,
  ///   through nvJitLink) or "cuda" (through NVRTC)
  /// - "m1", "n1": the tile of unrolled code. m1 is its rows, 1 to 128; n1 its columns, which are
  ///   threads, 32 to 1024 by 32. Otherwise spjit chooses
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
  /// (Kernel::cuda_source(), Kernel::ptx()). Of unrolled code they are 40 % of the entry. With and
  /// without them are two entries of a cache. Host kernels have none.
  bool keep_source = false;
  /// A kernel, also one from the cache, is run and checked before it is published or handed out. A
  /// wrong one from the cache is withdrawn and compiled anew. A wrong new one is not kept, and
  /// VerificationFailed is thrown. A GPU's kernel is checked if a GPU that runs it is in this
  /// machine. A fault there breaks the device's context, and compiling throws DeviceError while
  /// that lives. The check runs in this process: a kernel that crashes in it takes the process
  /// along, and its entry stays. A Compiler has one check at a time. The rows of B that are read
  /// and C in all layouts may take 8 GB, and half of the memory at most. Beyond that a kernel is
  /// not checked, and KernelInfo::note says so. Cache keys do not have `verify`.
  VerifyMode verify = VerifyMode::none;
  /// With `never` nothing is compiled or timed. A kernel that is in none of the caches is
  /// NotSupported; the message says what they have of that A. Cache keys do not have `compile`.
  CompileWhen compile = CompileWhen::needed;
};

}  // namespace spjit
