#pragma once

/// @file
/// A way to compute: what a family of kernels answers to the pipeline.

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/cancel.hpp"
#include "base/refusal.hpp"
#include "kernels/executable.hpp"
#include "kernels/tuning/search_trace.hpp"
#include "kernels/tuning/tunable_space.hpp"
#include "plan/compile_context.hpp"
#include "plan/problem.hpp"
#include "plan/search_policy.hpp"
#include "runtime/device.hpp"
#include "spjit/kernel_info.hpp"
#include "spjit/numerics.hpp"
#include "spjit/options.hpp"

namespace spjit {

struct BuiltKernel;
struct LoadedRankModel;

/// A problem that is to be compiled. Refers to all of it.
struct FamilyRequest {
  const Problem& problem;  ///< checked
  const CompileOptions& options;
  const DeviceInfo& device;
  const Cancellation& cancel;
};

/// Machine code that depends on no matrix, and who made it.
struct SharedCode {
  std::string cubin;
  std::string toolchain;      ///< "nvJitLink 13.0"
  std::string compiled_from;  ///< "ptx" or "cuda"
  std::string note;           ///< for the user; or empty
  double build_ms = 0;        ///< now; 0: it had been made before
};

/// Finds code by a key of all that it is made of: what was made before, else what `make` gives now.
using FindCode =
    std::function<SharedCode(const std::string& key, const std::function<SharedCode()>& make)>;

/// Tools of building besides. Refers to all of it.
struct BuildRequest {
  const FamilyRequest& what;
  const CompileContext& context;
  std::shared_ptr<ThreadPool> pool = nullptr;  ///< that candidates run in
  /// The model that ranks candidates; null: the family's formula.
  std::shared_ptr<const LoadedRankModel> rank_model = nullptr;
  /// Times the candidates of a space as the policy says; handed in, so that a family runs nothing
  /// by itself.
  std::function<SearchOutcome(TunableSpace&, std::chrono::steady_clock::time_point)> search = {};
  /// Is told of a search that nothing timed: what a clock said of candidates. May be empty.
  std::function<void(const SearchTrace&)> modelled = {};
  FindCode find_code = {};                     ///< empty: code is always made
  const nlohmann::json* key_fields = nullptr;  ///< of the cache key, for the record; null: none
};

/// A loaded artifact.
struct LoadedKernel {
  /// The facts in the artifact and its record: all but key, from_cache and what follows it.
  KernelInfo info;
  /// Null for a kernel of a GPU that was not to be loaded into one.
  std::shared_ptr<const Executable> executable;
};

/// A family's result, before anybody needs it as files: copying megabytes of code takes longer than
/// much of a compilation. Immutable; what was loaded of it keeps it.
class BuiltCode {
 public:
  BuiltCode() = default;
  BuiltCode(const BuiltCode&) = delete;
  BuiltCode& operator=(const BuiltCode&) = delete;
  virtual ~BuiltCode() = default;

  /// Its files. Throws what `cancel` throws soon after it is reached.
  [[nodiscard]] virtual std::vector<Artifact::File> files(const Cancellation& cancel) const = 0;
  /// Loads its files, as KernelFamily::load() does.
  [[nodiscard]] virtual LoadedKernel load(const nlohmann::json& record, const Device& device,
                                          const Cancellation& cancel) const = 0;
};

/// Each family is a folder of kernels/ and one line in artifact/families.cpp.
class KernelFamily {
 public:
  KernelFamily() = default;
  KernelFamily(const KernelFamily&) = delete;
  KernelFamily& operator=(const KernelFamily&) = delete;
  virtual ~KernelFamily() = default;

  /// "csr": in KernelInfo::family and records; at most 16 of a-z and _.
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// Versions of what it emits and writes, for the cache key.
  [[nodiscard]] virtual std::string version() const = 0;
  /// Which features of a problem it knows.
  [[nodiscard]] virtual ProblemFeatures features() const noexcept = 0;

  /// Whether it computes with such types and keeps such a promise; a refusal names what it does
  /// not. By default a family has fp32 in order alone. One that has more lists
  /// ProblemFeature::numerics, too.
  [[nodiscard]] virtual Refusal numerics_refusal(const Numerics& numerics) const;

  /// Options of its own in SearchPolicy::values.
  [[nodiscard]] virtual std::span<const NamedOption* const> options() const noexcept { return {}; }

  /// Whether it takes such a problem for that device. It is not asked about targets of other
  /// backends and about problems with features it does not know (why_not()).
  [[nodiscard]] virtual Refusal refusal(const FamilyRequest& request) const {
    static_cast<void>(request);
    return Refusal::none();
  }

  /// Bytes of A as it arranges it, of a problem that it accepts; 0: as A is. Rules of the choice
  /// look at it. Throws what `cancel` throws.
  [[nodiscard]] virtual double bytes_of_a(const FamilyRequest& request) const {
    static_cast<void>(request);
    return 0;
  }

  /// Whether a kernel of it takes seconds to make, so that others are asked for it first. By
  /// default those of modes that time, and those that NVIDIA's compilers make.
  [[nodiscard]] virtual bool is_dear(const FamilyRequest& request) const {
    return request.options.policy.search != SearchMode::instant ||
           std::holds_alternative<CudaDeviceInfo>(request.device);
  }

  /// Whether its kernel is timed beside those of other families where the policy times: it may be
  /// the fastest.
  [[nodiscard]] virtual bool races() const noexcept { return true; }

  /// The model that ranks its candidates in the mode of these options; null: its formula or rules.
  /// Throws IoError, Error for a model that cannot be used.
  [[nodiscard]] virtual std::shared_ptr<const LoadedRankModel> rank_model(
      const CompileOptions& options) const {
    static_cast<void>(options);
    return nullptr;
  }

  /// Chooses among its candidates, timing them where the policy asks for it, and builds the choice.
  /// Throws CompileFailed, NotSupported, InvalidArgument and what the context throws.
  [[nodiscard]] virtual BuiltKernel build(const BuildRequest& request) const = 0;

  /// Returns its choice with the reason, as build() does, without files where those take long to
  /// make. Here alone the record's "search" has the member "space" where there are candidates,
  /// which take hundreds of kilobytes:
  ///   {"candidates": [{"tile": {"name", "m1", ...}, numbers ...,
  ///                    "dropped": {"rule", "numbers"} if a rule dropped it}],
  ///    "relaxed": [rule], "ranked": [{"tile": name, "score"}] best first where they were ranked}
  [[nodiscard]] virtual BuiltKernel explain(const BuildRequest& request) const;

  /// The assembly of an artifact that it built, with what each part computes; empty: its kernels
  /// have no code of their own. Throws NotSupported without a disassembler, Error if it is damaged.
  [[nodiscard]] virtual std::string listing(const Artifact& artifact) const {
    static_cast<void>(artifact);
    return {};
  }

  /// Whether the file may stand where the record lists another one of that name.
  [[nodiscard]] virtual bool takes_in_place(const Artifact::File& file) const {
    static_cast<void>(file);
    return false;
  }

  /// The kernel of an artifact that it built, for a host device or, if the device is a GPU, in it.
  /// `record` is the artifact's. Throws Error if it is damaged, NotSupported if the device cannot
  /// run it, DeviceError, what `cancel` throws.
  [[nodiscard]] virtual LoadedKernel load(const Artifact& artifact, const nlohmann::json& record,
                                          const Device& device,
                                          const Cancellation& cancel) const = 0;
};

/// A kernel that was built as files.
class BuiltFiles final : public BuiltCode {
 public:
  BuiltFiles(const KernelFamily& family, std::vector<Artifact::File> files)
      : family_(family), files_(std::move(files)) {}

  [[nodiscard]] std::vector<Artifact::File> files(const Cancellation& cancel) const override {
    cancel.check();
    return files_;
  }
  [[nodiscard]] LoadedKernel load(const nlohmann::json& record, const Device& device,
                                  const Cancellation& cancel) const override {
    return family_.load({.files = files_}, record, device, cancel);
  }

 private:
  const KernelFamily& family_;
  std::vector<Artifact::File> files_;
};

/// "it does not take B of bf16", "it does not keep the promise bounded:0.001": the first of the
/// numerics that is not the default.
[[nodiscard]] Refusal beyond_default(const Numerics& numerics);

/// Whether a family takes such a problem for a target of its backend.
[[nodiscard]] Refusal why_not(const KernelFamily& family, const FamilyRequest& request);

}  // namespace spjit
