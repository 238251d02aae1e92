#pragma once

/// @file
/// From a matrix to a kernel.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "spjit/compilation.hpp"
#include "spjit/cuda_kernel.hpp"
#include "spjit/export.hpp"
#include "spjit/kernel.hpp"
#include "spjit/matrix.hpp"
#include "spjit/reorder.hpp"
#include "spjit/target.hpp"
#include "spjit/verification.hpp"

namespace spjit {

/// How the tile is chosen.
enum class SearchMode : std::uint8_t {
  instant,     ///< nothing is timed: measured rules name a tile, on a GPU the first of the ranking
  ranked,      ///< the best-ranked tiles are timed, by small proxies where those pay
  proxy,       ///< the same for every tile the rules leave
  exhaustive,  ///< every tile the rules leave is compiled in full and timed: the oracle
};

[[nodiscard]] SPJIT_EXPORT SearchMode parse_search(std::string_view name);
[[nodiscard]] SPJIT_EXPORT std::string_view to_string(SearchMode mode);

/// How a search stands; see CompileOptions::on_search_progress and CompileControl::progress.
struct SearchProgress {
  std::string_view stage;   ///< "proxies" or "kernels"; for a GPU "compiling" before each
  std::size_t done = 0;     ///< candidates that are out of this stage's race
  std::size_t total = 0;    ///< candidates of this stage
  std::string_view best;    ///< tile; empty before the first sample
  double best_us = 0;       ///< its time a run so far
  double seconds_left = 0;  ///< of this stage at most
};

/// Which of the two texts of a CUDA kernel becomes the cubin. Both give the same bits.
enum class CudaSource : std::uint8_t {
  ptx,   ///< through nvJitLink: fast to compile
  cuda,  ///< through NVRTC
};

[[nodiscard]] SPJIT_EXPORT CudaSource parse_cuda_source(std::string_view name);
[[nodiscard]] SPJIT_EXPORT std::string_view to_string(CudaSource source);

/// What only GPU targets look at.
struct CudaOptions {
  std::optional<std::int64_t> m1 = {};  ///< rows a tile, 1 .. 128; default: chosen
  std::optional<std::int64_t> n1 = {};  ///< columns a block = its threads, 32 .. 1024 by 32
  /// n, ldb and ldc as parameters of a launch instead of constants: one kernel for any n, at up to
  /// twice the code.
  bool runtime_sizes = false;
  CudaSource source = CudaSource::ptx;
  CudaSource proxy_source = CudaSource::ptx;  ///< the same of the proxies that a search times
  /// Nonzeros of a unit, the code that is compiled at once (docs/cuda-kernel.md).
  std::int64_t unit_nonzeros = 2048;
  int compile_threads = 0;      ///< units compiled at once; 0: one a CPU
  double compile_limit_ms = 0;  ///< compiling is given up after this long; 0: never; at most 1e9
  /// Where NVRTC and nvJitLink are: libraries, their folders, toolkits. Empty: SPJIT_CUDA_PATH, or
  /// the usual places (docs/cuda-kernel.md).
  std::vector<std::filesystem::path> toolkit_paths = {};
};

/// Everything besides the matrix that decides what comes out.
struct CompileOptions {
  std::int64_t n = 0;    ///< columns of B and C; >= 1, required
  std::int64_t ldb = 0;  ///< expected leading dimension of B; 0: n. Others work, maybe slower, on
                         ///< the host; a GPU kernel without runtime sizes takes no other.
  std::int64_t ldc = 0;  ///< the same of C; only GPU kernels look at it
  Target target = {};    ///< default: this CPU
  int threads = 1;       ///< threads a run uses; 0: all CPUs this process may use
  /// Compilations of one Compiler (its copies included) that run at once, 0 .. 4096; more wait
  /// their turn, first come first. 0: one a CPU this process may use. Each may use further threads
  /// by itself (LLVM's and NVIDIA's compilers: CudaOptions::compile_threads). While one times
  /// candidates the others go on, which disturbs its times a little: 1 is for the best choices.
  int parallel_compiles = 0;
  ReorderAlgorithm reorder = ReorderAlgorithm::similarity;
  SearchMode search = SearchMode::instant;
  double search_budget_ms = 60'000;  ///< for choosing: then the best so far is taken; at most 1e9
  int search_contenders = 10;        ///< K of `ranked`: tiles that are timed; >= 1
  /// What ranks the host's tiles in modes that time: empty, the model that is shipped for the
  /// target (else the prior); "prior", a formula; else the file of a model that `spjit train` made.
  std::filesystem::path rank_model = {};
  /// Called by the compiling thread after each sample of a search, many times a second; not part of
  /// what a kernel is cached by. What it throws ends the compilation. Compilations that run at once
  /// may call it at once.
  std::function<void(const SearchProgress&)> on_search_progress = {};
  /// Machine code a kernel may have. Above it a CSR kernel takes over on the host
  /// (KernelInfo::kind says so); for a GPU it is an error.
  std::int64_t code_budget_bytes = k_default_code_budget_bytes;
  /// Fixes the panel width (a multiple of the vector's lanes), so that layers chain panel-major.
  std::optional<std::int64_t> panel_columns = {};
  CudaOptions cuda = {};
  /// A kernel is run and checked before it is published or handed out, one from the cache too: what
  /// is wrong is withdrawn from the cache and compiled anew, and if that is wrong as well,
  /// VerificationFailed is thrown and nothing is kept. A GPU's kernel is checked if a GPU that runs
  /// it is in this machine. The check runs in this process: a kernel that crashes in it takes
  /// the process along, and its entry stays. One check at a time in a Compiler; the rows of B that
  /// are read and C in all layouts may take 8 GB, and half of the memory at most. Where that or
  /// what can be allocated is not enough, the kernel is not checked and KernelInfo::note says so.
  /// Not part of what a kernel is cached by.
  VerifyMode verify = VerifyMode::none;

  /// 256 MiB: code streams from DRAM at that size and still beats dense (docs/host-kernel.md).
  static constexpr std::int64_t k_default_code_budget_bytes = std::int64_t{256} << 20;
};

/// Where compiled kernels are kept. docs/cache-format.md has the details.
struct CacheOptions {
  bool enabled = true;
  /// Empty: SPJIT_CACHE_DIR, else $XDG_CACHE_HOME/spjit, else $HOME/.cache/spjit (for root the
  /// latter two only if they are root's). A default directory that cannot be used is a note in
  /// KernelInfo; one given here that cannot be created,
  /// is something else than a cache, or can be written to by other users, is a CacheError. A cache
  /// that can only be read still hits.
  std::filesystem::path directory = {};
  /// Bytes the kernels in the directory may have; the least recently used ones go, none that was
  /// used in the last minute. 0: no limit. Default: SPJIT_CACHE_SIZE, else 4 GiB.
  std::optional<std::int64_t> size_limit_bytes = {};
  /// Caches that are looked at next, in order, and never written to. One given here that is missing
  /// or unsafe is a CacheError. Empty: those in SPJIT_CACHE_LAYERS (separated by ':'), where such a
  /// one is a note in KernelInfo.
  std::vector<std::filesystem::path> read_only_layers = {};
  /// Also use directories and entries that belong to another user, root apart, or that the group or
  /// everybody can write to: whoever can, runs code as you. SPJIT_CACHE_UNSAFE=1 says the same.
  bool allow_unsafe_directory = false;

  static constexpr std::int64_t k_default_size_limit_bytes = std::int64_t{4} << 30;
};

/// What one compilation is given besides its matrix.
///
/// `stop` and `deadline` are looked at while it waits and all along its way. Of any matrix a host
/// kernel is given up within about 100 ms; what cannot be interrupted are single calls of LLVM for
/// the generic target (a row tile, some 20 us a nonzero) and of NVIDIA's libraries (assembling a
/// unit takes a fraction of a second, linking a large kernel longer), one run of a kernel that is
/// being timed or checked, and writing to a slow disk. No cache entry, temporary file or thread at
/// work is left behind. (A search's budget is no deadline: when it is spent, the best so far is
/// taken.)
struct CompileControl {
  std::stop_token stop = {};                                           ///< then Cancelled
  std::optional<std::chrono::steady_clock::time_point> deadline = {};  ///< then DeadlineExceeded
  /// Called by the compiling thread when a stage begins (CompileProgress::stage) and after each
  /// sample of a search, as CompileOptions::on_search_progress is. What it throws ends the
  /// compilation. It must not wait for this Compiler.
  std::function<void(const SearchProgress&)> progress = {};
};

/// Compiles matrices for one set of options, through one cache directory. Thread-safe; copies share
/// everything.
///
/// One compilation a key at a time: whoever asks for a kernel that another thread is just compiling
/// waits and gets the same kernel. If that compilation fails, all of them throw the same; if it was
/// cancelled or came to its deadline, which are its own, another one takes over. Compilations of
/// different kernels run in parallel, CompileOptions::parallel_compiles at once, but only one of
/// them times candidates at any time. (Between Compilers and processes nothing is shared but the
/// cache: the first entry stays.)
class SPJIT_EXPORT Compiler {
 public:
  /// Throws InvalidArgument for n < 1, ldb < n, threads < 0, a search's option out of its range, a
  /// panel width that is not a multiple of the target's lanes, a CUDA option out of its range, a
  /// value that its enumeration does not have, a path with a zero byte; CacheError as CacheOptions
  /// says; IoError or Error for a rank model that cannot be used.
  explicit Compiler(const CompileOptions& options, const CacheOptions& cache = {});

  [[nodiscard]] const CompileOptions& options() const noexcept;

  /// A kernel for `matrix`, from the cache if it is there, else compiled and published. The matrix
  /// is not needed afterwards. Throws InvalidMatrix, NotSupported if the target does not run here,
  /// CompileFailed, VerificationFailed; InvalidArgument for a GPU target; Cancelled and
  /// DeadlineExceeded as `control` says, and what its callback throws.
  [[nodiscard]] SpmmKernel compile(const CsrMatrix& matrix,
                                   const CompileControl& control = {}) const;

  /// The same in another thread. The queue is worked off in order by at most `parallel_compiles`
  /// threads, which the Compiler keeps. Errors of the compilation come out of Compilation::get();
  /// here InvalidArgument is thrown for a null pointer, Error if no thread can be started. Not for
  /// a process that was forked after the first call.
  [[nodiscard]] Compilation<SpmmKernel> compile_async(CsrMatrix matrix,
                                                      CompileControl control = {}) const;
  /// The same for a matrix that others use too.
  [[nodiscard]] Compilation<SpmmKernel> compile_async(std::shared_ptr<const CsrMatrix> matrix,
                                                      CompileControl control = {}) const;

  /// The same for a GPU target; needs NVIDIA's compiler libraries, no GPU. Throws InvalidMatrix;
  /// InvalidArgument for a host target and a matrix without rows; NotSupported, in one line, if the
  /// libraries are missing or do not compile for the target; CompileFailed if the code is over its
  /// budget or does not compile, or once `compile_limit_ms` are over; VerificationFailed, and
  /// DeviceError of a GPU that checks; Cancelled, DeadlineExceeded.
  [[nodiscard]] CudaKernel compile_cuda(const CsrMatrix& matrix,
                                        const CompileControl& control = {}) const;

  /// compile_cuda() as compile_async().
  [[nodiscard]] Compilation<CudaKernel> compile_cuda_async(CsrMatrix matrix,
                                                           CompileControl control = {}) const;
  [[nodiscard]] Compilation<CudaKernel> compile_cuda_async(std::shared_ptr<const CsrMatrix> matrix,
                                                           CompileControl control = {}) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
  std::shared_ptr<CompileQueue> queue_;
};

/// Shorthand for `Compiler(options).compile(matrix)`.
[[nodiscard]] SPJIT_EXPORT SpmmKernel compile(const CsrMatrix& matrix,
                                              const CompileOptions& options);
/// Shorthand for `Compiler(options).compile_cuda(matrix)`.
[[nodiscard]] SPJIT_EXPORT CudaKernel compile_cuda(const CsrMatrix& matrix,
                                                   const CompileOptions& options);

}  // namespace spjit
