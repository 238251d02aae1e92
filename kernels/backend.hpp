#pragma once

/// @file
/// A kind of device: its families of kernels, and all that differs between kinds outside of them.

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "base/refusal.hpp"
#include "base/thread_pool.hpp"
#include "base/tuning.hpp"
#include "kernels/choice_rule.hpp"
#include "kernels/executable.hpp"
#include "kernels/family_forecast.hpp"
#include "kernels/kernel_family.hpp"
#include "plan/compile_context.hpp"
#include "plan/search_policy.hpp"
#include "runtime/device.hpp"
#include "spjit/error.hpp"
#include "spjit/kernel_info.hpp"
#include "spjit/options.hpp"
#include "spjit/problem.hpp"

namespace spjit {

struct RaceEntry {
  std::string name;
  std::shared_ptr<const Executable> kernel;
};

/// Times kernels of one problem against each other; the i-th result belongs to the i-th entry.
/// Empty: they cannot be timed. Handed in, so that the pipeline itself runs nothing.
using RaceKernels = std::function<std::vector<TuningResult>(std::span<const RaceEntry>)>;

struct RaceOptions {
  std::int64_t between_bytes =
      std::numeric_limits<std::int64_t>::max();  ///< bytes_between_runs(); 0: hot
  double budget_ms = 0;  ///< making operands included, waiting for the turn to time not
  Device device = {};    ///< where the kernels are loaded
};

/// Where a kernel is run to check it, or why it is not.
struct CheckPlace {
  std::shared_ptr<const Executable> executable = nullptr;
  std::string device = {};  ///< its product
  Refusal why_not = Refusal::none();
};

/// A kind of file that `spjit compile --out` writes.
struct EmittedFile {
  std::string_view kind;  ///< "obj", of --emit
  const char* extension;
  bool by_default = true;
  std::string_view file = {};  ///< of the artifact, which some kernels have not; empty: made of it
};

/// Immutable; all members are thread-safe.
class Backend {
 public:
  /// `families` in the order in which they are asked: the first that accepts compiles.
  explicit Backend(std::vector<const KernelFamily*> families) : families_(std::move(families)) {}
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  [[nodiscard]] std::span<const KernelFamily* const> families() const noexcept { return families_; }
  /// The family of that name. Throws Error that lists those there are.
  [[nodiscard]] const KernelFamily& family(std::string_view name) const;

  /// Target::backend() of its targets.
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// Options that several of its families have.
  [[nodiscard]] virtual std::span<const NamedOption* const> options() const noexcept { return {}; }
  /// Which of its families are likely to be the fastest.
  [[nodiscard]] virtual std::span<const ChoiceRule> rules() const noexcept = 0;
  /// How fast its families are likely to be, by a model; empty: rules choose.
  [[nodiscard]] virtual FamilyForecast forecast(const FamilyRequest& request) const;
  /// Why another family is likely to be faster than one for a problem that it accepts, by the
  /// forecast where it has both, else by the rules. Where all that accept leave it to others the
  /// first of them takes it, unless that is_firm().
  [[nodiscard]] Refusal leaves_to_others(const KernelFamily& family,
                                         const FamilyRequest& request) const;
  /// ChoiceRule::is_firm.
  [[nodiscard]] bool is_firm(const KernelFamily& family, const FamilyRequest& request) const;
  /// The files of its kernels, in the order in which they are written.
  [[nodiscard]] virtual std::span<const EmittedFile> emitted() const noexcept = 0;

  /// The device that choices are made for. For a host target it is the named card, or this machine.
  /// For a GPU target it is the named card, or the GPU of this machine that the target names. For a
  /// bare architecture it is a GPU of this machine that has it, else the architecture's default
  /// card. Throws NotSupported and InvalidArgument as Target::parse().
  [[nodiscard]] virtual DeviceInfo device_info(const Target& target) const = 0;
  /// Throws InvalidArgument for a checked problem that its targets do not take.
  virtual void check(const Problem& problem, const Target& target) const = 0;
  /// Adds those parts of target and options, without the policy, that decide the artifact.
  virtual void add_to_key(const CompileOptions& options, const DeviceInfo& device,
                          KeyBuilder& key) const = 0;
  /// How well code for `code`, chosen for a card, serves this machine, or a target if one is given:
  /// the larger the better; negative: not at all.
  [[nodiscard]] virtual int fitness(const Target& code, const std::string& card,
                                    const Target* wanted) const = 0;

  /// The threads that its kernels run in; null for the caller's thread, or none.
  [[nodiscard]] virtual std::shared_ptr<ThreadPool> make_pool(const Resources& resources) const;
  /// Threads that a run may have.
  [[nodiscard]] virtual int most_threads(const Resources& resources) const;
  /// The device of that number, which a kernel is loaded into; nothing: kernels are where they are.
  [[nodiscard]] virtual std::optional<Device> device(int ordinal) const;
  /// Names the feature that this machine lacks to run kernels of the target, "needs AVX-512"; none
  /// where it lacks nothing, or where loading a kernel will tell.
  [[nodiscard]] virtual Refusal lacks(const Target& target) const;
  /// Throws NotSupported where lacks() names something.
  virtual void require(const Target& target) const;

  /// Where a search for the target, whose device_info() is given, times kernels, in the threads of
  /// `pool`; nothing: nowhere.
  [[nodiscard]] virtual std::optional<Device> timing_device(
      const Target& target, const DeviceInfo& info,
      const std::shared_ptr<ThreadPool>& pool) const = 0;
  /// The product that it would time on; empty: there is none.
  [[nodiscard]] virtual std::string timed_on(const Target& target,
                                             const DeviceInfo& info) const = 0;
  /// Whether kernels of a target are timed in this machine.
  [[nodiscard]] virtual Refusal why_not_timed(const Target& target) const = 0;
  /// Whether kernels of the problem can be timed at all.
  [[nodiscard]] virtual Refusal too_large_to_time(const Problem& problem) const;
  /// Times kernels on operands as the problem has them, in its layouts and with those of its
  /// epilogue. Empty where they do not fit the memory, and where the device cannot be used. Waits
  /// for the turn to time. Throws what `context` throws.
  [[nodiscard]] virtual std::vector<TuningResult> race(std::span<const RaceEntry> entries,
                                                       const Problem& problem,
                                                       const RaceOptions& options,
                                                       const CompileContext& context) const = 0;
  /// Whether SearchPolicy::hot says how its kernels are timed.
  [[nodiscard]] virtual bool has_cold_runs() const noexcept = 0;
  /// Whether runs of a batch are timed.
  [[nodiscard]] virtual bool times_batches() const noexcept = 0;
  /// Whether explain() of its families builds kernels, which may race.
  [[nodiscard]] virtual bool explains_by_building() const noexcept = 0;
  /// Whether instant mode ranks candidates, and explain() has all of them with their ranks.
  [[nodiscard]] virtual bool ranks_untimed() const noexcept = 0;
  /// The instruction set of whose multiply-adds times are given a share; nothing: of none.
  [[nodiscard]] virtual std::optional<HostIsa> peak_isa(const Target& target) const;

  /// Where a kernel is checked: as it is loaded, or by `load` where it is in no device yet. Throws
  /// what `load` throws; DeviceError for a device that something else has broken.
  [[nodiscard]] virtual CheckPlace check_place(
      const KernelInfo& info, const std::shared_ptr<const Executable>& loaded,
      const std::function<LoadedKernel(const Device&)>& load) const = 0;
  /// Whether an error in a check says that the kernel did what no right kernel does.
  [[nodiscard]] virtual bool is_fault(const DeviceError& error) const noexcept;
  /// Whether it says that the device has no memory left for the check.
  [[nodiscard]] virtual bool is_out_of_memory(const DeviceError& error) const noexcept;

 private:
  [[nodiscard]] Refusal slower_by_forecast(const KernelFamily& family,
                                           const FamilyForecast& forecast,
                                           const FamilyRequest& request) const;

  std::vector<const KernelFamily*> families_;
};

}  // namespace spjit
