#pragma once

/// @file
/// What a Compiler holds.

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/single_flight.hpp"
#include "base/thread_pool.hpp"
#include "base/turns.hpp"
#include "compiler/cuda_kernel_impl.hpp"
#include "compiler/kernel_cache.hpp"
#include "compiler/verification.hpp"
#include "kernels/spmm_kernel_impl.hpp"
#include "kernels/unrolled_host/host_rank_model.hpp"
#include "plan/compile_context.hpp"
#include "runtime/cache/cache_layers.hpp"
#include "runtime/cuda/cuda_device_info.hpp"
#include "runtime/host/host_device_info.hpp"
#include "spjit/compiler.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// A kernel of an entry of the cache, or why there is none.
template <class KernelImpl>
struct LoadedEntry {
  std::shared_ptr<KernelImpl> kernel = nullptr;
  std::string problem = {};  ///< of the entry, which is of no use then
  std::string note = {};     ///< what else went wrong, for the user
};

struct Compiler::Impl {
  /// `checked`: what checked_options() returned.
  explicit Impl(CompileOptions checked);

  CompileOptions options;
  HostDeviceInfo limits;                            ///< of a host target
  std::optional<CudaDeviceInfo> cuda_limits;        ///< of a GPU target
  std::shared_ptr<const HostRankModel> rank_model;  ///< null: instant mode, or the prior ranks
  std::string cache_note;
  std::optional<LayeredCache> cache;
  std::shared_ptr<ThreadPool> pool;  ///< shared by all kernels; null for one thread

  // What threads wait for. Who waits for a flight has no place, and who leads one has at most one
  // of each kind, taken in this order: so nobody waits in a circle.
  mutable SingleFlight<SpmmKernel::Impl> host_flights;
  mutable SingleFlight<CudaKernel::Impl> cuda_flights;
  mutable Turns compiles;   ///< compilations that run at once
  mutable Turns races{1};   ///< searches that time at once
  mutable Turns checks{1};  ///< kernels that are checked at once: each takes some GB

  [[nodiscard]] SpmmKernel compile(const CsrMatrix& matrix, const CompileControl& control) const;
  [[nodiscard]] CudaKernel compile_cuda(const CsrMatrix& matrix,
                                        const CompileControl& control) const;

 private:
  [[nodiscard]] CompileContext context_of(const CompileControl& control) const;
  /// The options, with a search reported to the watch too.
  [[nodiscard]] CompileOptions watched_options(const CompileContext& watch) const;
  /// Waits for a place among the compilations that run.
  [[nodiscard]] Turns::Place take_place(const CompileContext& watch) const;

  [[nodiscard]] std::shared_ptr<SpmmKernel::Impl> find_or_make(const CsrMatrix& matrix,
                                                               const CompileContext& watch) const;
  /// The kernel of an entry that was checked as the options say, or null; `note` gets what is wrong
  /// with one that is there.
  [[nodiscard]] std::shared_ptr<SpmmKernel::Impl> from_cache(const CsrMatrix& matrix,
                                                             const std::string& key,
                                                             std::string& note,
                                                             const CompileContext& watch) const;
  [[nodiscard]] LoadedEntry<SpmmKernel::Impl> load_entry(CacheEntry& entry,
                                                         const Cancellation& cancel) const;
  /// Checks the kernel of an entry. Null if there is none, or if it is wrong: then the entry is
  /// withdrawn.
  template <class KernelImpl>
  [[nodiscard]] std::shared_ptr<KernelImpl> checked(LoadedEntry<KernelImpl> loaded,
                                                    const CacheEntry& entry,
                                                    const CsrMatrix& matrix, std::string& note,
                                                    const CompileContext& watch) const;
  [[nodiscard]] std::shared_ptr<SpmmKernel::Impl> fresh(const CsrMatrix& matrix,
                                                        const std::string& key, std::string& note,
                                                        const CompileContext& watch) const;
  [[nodiscard]] std::shared_ptr<CudaKernel::Impl> find_or_make_cuda(
      const CsrMatrix& matrix, const CompileContext& watch) const;
  [[nodiscard]] std::shared_ptr<CudaKernel::Impl> cuda_from_cache(
      const CsrMatrix& matrix, const std::string& key, std::string& note,
      const CompileContext& watch) const;
  [[nodiscard]] LoadedEntry<CudaKernel::Impl> load_cuda_entry(const CacheEntry& entry) const;
  /// Why the kernel could not be published, which is added to the note too; empty if it was.
  [[nodiscard]] std::string publish(const std::string& key, std::span<const CacheFile> files,
                                    const nlohmann::json& record, std::string& note,
                                    const CompileContext& watch) const;
  [[nodiscard]] std::shared_ptr<CudaKernel::Impl> cuda_fresh(const CsrMatrix& matrix,
                                                             const std::string& key,
                                                             std::string& note,
                                                             const CompileContext& watch) const;
};

template <class KernelImpl>
std::shared_ptr<KernelImpl> Compiler::Impl::checked(LoadedEntry<KernelImpl> loaded,
                                                    const CacheEntry& entry,
                                                    const CsrMatrix& matrix, std::string& note,
                                                    const CompileContext& watch) const {
  add_note(note, loaded.note);
  if (loaded.kernel != nullptr) {
    Verdict verdict = verify_kernel(*loaded.kernel, matrix, options, watch);
    add_note(note, verdict.note);
    if (verdict.passed()) {
      loaded.kernel->info.verification = std::move(verdict.verification);
      return loaded.kernel;
    }
    loaded.problem = "its kernel failed the check: " + verdict.problem;
  }
  if (loaded.problem.empty()) return nullptr;
  const std::string report = cache->reject(entry, loaded.problem);
  if (!report.empty()) add_note(note, "cache: " + report);
  return nullptr;
}

/// Runs `work`, and throws what a callback of the user's threw in it as that.
template <class Work>
auto past_callbacks(const Work& work) {
  try {
    return work();
  } catch (const CallbackThrew& thrown) {
    std::rethrow_exception(thrown.error);
  }
}

/// The options with defaults filled in. Throws InvalidArgument for what is out of range.
[[nodiscard]] CompileOptions checked_options(CompileOptions options);

/// A valid matrix, with rows sorted by column as plans need them; `copy` is filled only if they are
/// not. Throws InvalidMatrix; what `cancel` throws soon after it is reached.
[[nodiscard]] const CsrMatrix& checked_matrix(const CsrMatrix& matrix, CsrMatrix& copy,
                                              const Cancellation& cancel);

}  // namespace spjit
