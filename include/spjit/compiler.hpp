#pragma once

/// @file
/// From a problem to a kernel.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "spjit/compilation.hpp"
#include "spjit/export.hpp"
#include "spjit/kernel.hpp"
#include "spjit/options.hpp"
#include "spjit/problem.hpp"
#include "spjit/progress.hpp"

namespace spjit {

/// A server that machines share kernels through (docs/use/remote-cache.md). Needs libcurl.
struct RemoteCacheOptions {
  /// "https://HOST/PATH", or "s3+https://BUCKET.s3.REGION.amazonaws.com/PREFIX". Empty: no server.
  std::string url = {};
  bool may_write = false;          ///< new kernels are written there, in the background
  std::string layout = "subdirs";  ///< or "flat", "bazel": what lies where
  /// "signed": only kernels that one of `public_keys` signed are taken. "server": all; whoever may
  /// write there runs code as you, and KernelInfo::note of each unsigned kernel says so.
  std::string trust = "signed";
  std::vector<std::string> public_keys = {};  ///< as BundleOptions::public_key
  std::string private_key = {};               ///< signs what is written; empty: it is not signed
  /// At most one of these. Files with secrets must be readable by their owner alone.
  std::filesystem::path token_file = {};  ///< "Authorization: Bearer ..."
  std::filesystem::path netrc = {};       ///< a file of that format
  std::string aws = {};     ///< "env", or a file as ~/.aws/credentials; of s3+https "env"
  std::string region = {};  ///< of S3; empty: of the URL, or AWS_REGION
  std::filesystem::path ca_file = {};  ///< certificates to trust; empty: the system's
  int timeout_ms = 500;                ///< until the first byte of an answer
  int total_ms = 10'000;               ///< of an answer
  /// Only kernels that take long to compile: those that are searched for, and those for GPUs.
  bool dear_only = true;
  std::int64_t max_entry_bytes = std::int64_t{1} << 30;
};

/// The options of a URL, with all else as the default file ($XDG_CONFIG_HOME/spjit/remote.json or
/// ~/.config/spjit/remote.json) says, or those of a file like it. Throws IoError and
/// InvalidArgument for a file that is not there, not JSON, or can be written to by others.
[[nodiscard]] SPJIT_EXPORT RemoteCacheOptions read_remote_cache(const std::string& url_or_file);

/// Where compiled kernels are kept. docs/use/cache.md has the details.
struct CacheOptions {
  /// false: kernels are not kept on disk, and only in the layers that are given here looked for.
  bool enabled = true;
  /// Empty: SPJIT_CACHE_DIR, else $XDG_CACHE_HOME/spjit, else $HOME/.cache/spjit (for root the
  /// latter two only if they are root's). A default directory that cannot be used is a note in
  /// KernelInfo. A directory given here is a CacheError if it cannot be created, is no cache, or
  /// can be written to by other users. A cache that can only be read still hits.
  std::filesystem::path directory = {};
  /// Bytes the kernels in the directory may have; the least recently used ones go, none that was
  /// used in the last minute. 0: no limit. Default: SPJIT_CACHE_SIZE, else 4 GiB.
  std::optional<std::int64_t> size_limit_bytes = {};
  /// Cache directories and bundles (a file each) that are looked at next, in order, and never
  /// written to. One given here that is missing, damaged or unsafe is a CacheError. Empty: those in
  /// SPJIT_CACHE_LAYERS (separated by ':'), where such a one is a note in KernelInfo.
  std::vector<std::filesystem::path> read_only_layers = {};
  /// Also use directories and entries that belong to another user (root is always trusted), or that
  /// the group or everybody can write to. Whoever can write there runs code as you.
  /// SPJIT_CACHE_UNSAFE=1 says the same.
  bool allow_unsafe_directory = false;
  /// A server that is asked last; what it has is published in the directory. It never makes a
  /// compilation fail: what goes wrong is a note in KernelInfo. Absent: what SPJIT_CACHE_REMOTE (a
  /// URL or a file, "off" for none) or else the default file names, as read_remote_cache() reads
  /// it; what is wrong with that is a note, too. Options given here that are wrong are an error.
  std::optional<RemoteCacheOptions> remote = {};

  static constexpr std::int64_t k_default_size_limit_bytes = std::int64_t{4} << 30;
};

/// Counts by name, as a sample of Prometheus has it: "spjit_cache_hits_total{place=\"layer\"}".
/// docs/use/remote-cache.md lists them. Names that end in "_total" never fall.
using Metrics = std::map<std::string, double>;

/// The text format of Prometheus: what a program serves to be scraped, or writes to a file of the
/// node exporter's textfile collector.
[[nodiscard]] SPJIT_EXPORT std::string prometheus_text(const Metrics& metrics);

/// The outcome of writing kernels to a server.
struct RemoteFlush {
  bool done = true;          ///< nothing waits; false at a deadline or when told to stop
  std::string refused = {};  ///< what the server refused, each kind once, since it was last told
};

/// Compiles problems with one set of options, through one cache directory. Thread-safe; copies
/// share everything.
///
/// One compilation a key at a time: whoever asks for a kernel that another thread is just compiling
/// waits and gets the same kernel. If that compilation fails, all of them throw the same. If it was
/// cancelled or came to its deadline, which are its own, another one takes over. Compilations of
/// different kernels run in parallel, Resources::parallel_compiles at once, but only one of them
/// times candidates at any time. (Between Compilers and processes nothing is shared but the cache:
/// the first entry stays.)
class SPJIT_EXPORT Compiler {
 public:
  /// Throws
  /// - InvalidArgument for threads < 0, an option of a search or of CUDA out of its range, a value
  ///   that its enumeration does not have, and a path with a zero byte
  /// - CacheError as CacheOptions says; InvalidArgument and IoError for options of a server
  /// - IoError or Error for a rank model that cannot be used
  explicit Compiler(const CompileOptions& options = {}, const CacheOptions& cache = {});

  [[nodiscard]] const CompileOptions& options() const noexcept;

  /// A kernel for `problem`, from the cache if it is there, else compiled and published. The matrix
  /// is not needed afterwards. Neither the CPU nor the GPU of the target need be in this machine. A
  /// GPU needs NVIDIA's compiler libraries.
  ///
  /// Throws
  /// - InvalidMatrix
  /// - InvalidArgument for no matrix, n < 1, a leading dimension below n, a panel width that is not
  ///   a multiple of the target's lanes, and on a GPU a matrix without rows
  /// - NotSupported if no family of kernels accepts the problem, if no cache has the kernel and
  ///   CompileOptions::compile is `never`, and, in one line, if NVIDIA's libraries are missing or
  ///   do not compile for the target
  /// - CompileFailed, for a GPU also once `compile_limit_ms` are over
  /// - VerificationFailed, and DeviceError of a GPU that checks
  /// - Cancelled and DeadlineExceeded as `control` says, and what its callback throws
  [[nodiscard]] Kernel compile(const Problem& problem, const CompileControl& control = {}) const;

  /// Compiles in another thread. The queue is worked off in order by at most `parallel_compiles`
  /// threads, which the Compiler keeps. Errors of the compilation come out of Compilation::get();
  /// here InvalidArgument is thrown for no matrix, Error if no thread can be started. Not for a
  /// process that was forked after the first call.
  [[nodiscard]] Compilation compile_async(Problem problem, CompileControl control = {}) const;

  /// Waits until new kernels are written to the server of CacheOptions::remote. The end of the last
  /// copy of a Compiler drops those that wait. Returns at once without a server.
  RemoteFlush flush_remote(const CompileControl& control = {}) const;

  /// Counts since the Compiler was made; copies share them.
  [[nodiscard]] Metrics metrics() const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
  std::shared_ptr<CompileQueue> queue_;
};

/// Shorthand for `Compiler(options).compile(problem)`.
[[nodiscard]] SPJIT_EXPORT Kernel compile(const Problem& problem,
                                          const CompileOptions& options = {});

}  // namespace spjit
