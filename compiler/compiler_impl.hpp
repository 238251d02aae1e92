#pragma once

/// @file
/// The members of a Compiler.

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "artifact/kernel_impl.hpp"
#include "base/fork_safe_mutex.hpp"
#include "base/single_flight.hpp"
#include "base/thread_pool.hpp"
#include "base/turns.hpp"
#include "compiler/code_cache.hpp"
#include "compiler/kernel_cache.hpp"
#include "compiler/metrics.hpp"
#include "compiler/pipeline.hpp"
#include "plan/compile_context.hpp"
#include "runtime/cache/cache_layers.hpp"
#include "spjit/compiler.hpp"

namespace spjit {

struct Compiler::Impl {
  /// `checked`: what checked_options() returned.
  explicit Impl(CompileOptions checked);

  CompileOptions options;
  DeviceInfo device;
  std::shared_ptr<const LoadedRankModel> rank_model;  ///< null: instant mode, or a formula ranks
  std::string cache_note;
  std::optional<LayeredCache> cache;
  std::shared_ptr<ThreadPool> pool;  ///< shared by all host kernels; null for one thread
  /// Where they are loaded: also those that another CPU will run.
  [[nodiscard]] HostDevice host_device() const { return {.pool = pool, .any_isa = true}; }

  /// Turns that threads wait for. Who waits for a flight has no place, and who leads one has at
  /// most one of each kind, taken in this order: so nobody waits in a circle.
  struct Waits {
    explicit Waits(int parallel_compiles) : compiles(parallel_compiles) {}

    SingleFlight<Kernel::Impl> flights;
    CodeCache code;    ///< of kernels that share it; who leads has a turn to compile
    Turns compiles;    ///< compilations that run at once
    Turns timings{1};  ///< searches that time at once
    Turns checks{1};   ///< kernels that are checked at once: each takes some GB
  };
  PerProcess<Waits> waits;
  std::unique_ptr<MetricsCounter> metrics = std::make_unique<MetricsCounter>();

  [[nodiscard]] Kernel compile(const Problem& problem, const CompileControl& control) const;

 private:
  [[nodiscard]] CompileContext context_of(const CompileControl& control) const;
  /// Waits for a place among the compilations that run.
  [[nodiscard]] Turns::Place take_place(const CompileContext& context) const;

  [[nodiscard]] std::shared_ptr<Kernel::Impl> find_or_make(const Problem& problem,
                                                           const CompileContext& context) const;
  /// The kernel of an entry that was checked as the options say, or null; `note` gets what is wrong
  /// with one that is there. `is_dear`: a server is asked, too.
  [[nodiscard]] std::shared_ptr<Kernel::Impl> from_cache(const Problem& problem,
                                                         const std::string& key, bool is_dear,
                                                         std::string& note,
                                                         const CompileContext& context) const;
  /// Throws NotSupported for a kernel that is in no cache.
  [[noreturn]] void refuse_to_compile(const FamilyRequest& request, const std::string& note) const;
  /// The model's part of a key; empty without a model.
  [[nodiscard]] std::string rank_model_id() const;
  [[nodiscard]] nlohmann::json key_fields(const FamilyRequest& request) const;
  [[nodiscard]] std::shared_ptr<Kernel::Impl> fresh(const FamilyRequest& request,
                                                    const std::string& key, bool is_dear,
                                                    std::string& note,
                                                    const CompileContext& context) const;
  /// Why the kernel could not be published, which is added to the note too; empty if it was.
  [[nodiscard]] std::string publish(const std::string& key, bool is_dear,
                                    const Kernel::Impl& kernel, std::string& note,
                                    const CompileContext& context) const;
};

}  // namespace spjit
