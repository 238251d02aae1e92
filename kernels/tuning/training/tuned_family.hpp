#pragma once

/// @file
/// A family whose tiles are timed to train rank models: what `spjit collect`, `spjit train` and
/// benchmarks ask it.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/refusal.hpp"
#include "base/thread_pool.hpp"
#include "kernels/kernel_family.hpp"
#include "kernels/tuning/search_trace.hpp"
#include "kernels/tuning/tile_samples.hpp"
#include "kernels/tuning/training/sample_file.hpp"
#include "kernels/tuning/training/sample_recipes.hpp"
#include "kernels/tuning/tunable_space.hpp"
#include "rankmodel/feature_schema.hpp"
#include "spjit/options.hpp"
#include "spjit/problem.hpp"

namespace spjit {

/// The tiles of a line of samples as a ranking sees them.
struct SampledTiles {
  std::string name;         ///< of the group
  std::string device = {};  ///< that the tiles are for: "sm_90:h100"
  std::vector<std::string> tiles = {};
  std::vector<double> times_us = {};  ///< infinite: it did not run, or has no time yet
  std::vector<float> features = {};   ///< [tiles x features of the schema]
  std::vector<double> prior = {};     ///< scores of the formula, larger is better
  /// 1 for the tile that the rules of mode `instant` choose, 0 for the others; empty: no rules.
  std::vector<double> rules = {};
};

/// Writes the members that a family does not write itself.
template <class Candidate, class DeviceInfo>
[[nodiscard]] SampledTiles tiles_of(const SampleGroup<Candidate, DeviceInfo>& group) {
  SampledTiles result{group.name};
  for (const TileSample<Candidate>& sample : group.samples) {
    result.tiles.push_back(to_string(sample.candidate.tile));
    result.times_us.push_back(sample.us > 0 ? sample.us : std::numeric_limits<double>::infinity());
  }
  return result;
}

/// How samples of a matrix are collected.
struct CollectOptions {
  CompileOptions compile;  ///< target, threads, budget of a search; the mode is not looked at
  int searches = 1;        ///< of a TileTimer: exhaustive ones; >= 1
  std::int64_t tiles = 0;  ///< of a TileFolder: the prior's best, the rest drawn; 0: all
  std::uint64_t seed = 1;  ///< of what is drawn
};

/// Times all candidates of a space in full, the best of them again; handed in, as in BuildRequest.
using TimeTiles = std::function<SearchTrace(TunableSpace&)>;

/// Tiles that are timed as they are compiled.
class TileTimer {
 public:
  virtual ~TileTimer() = default;

  /// Why tiles of that target cannot be timed here.
  [[nodiscard]] virtual Refusal refusal(const Target& target) const = 0;
  /// Times every tile of a problem, which is checked. The line has no name and recipe. `pool`: what
  /// kernels run in. Throws as compiling does, Error if nothing could be timed.
  [[nodiscard]] virtual SampleLine time(const Problem& problem, const CollectOptions& options,
                                        const std::shared_ptr<ThreadPool>& pool,
                                        const TimeTiles& time_tiles) const = 0;
};

/// A folder of tiles that are compiled first and timed later, maybe on another machine. The lines
/// of groups() are those of the groups that are compiled whole; they have no times.
class TileFolder {
 public:
  virtual ~TileFolder() = default;

  [[nodiscard]] virtual SampleFile& groups() = 0;
  /// Whether all code of a line can be read, of tiles that did compile.
  [[nodiscard]] virtual bool is_complete(const SampleLine& line) const = 0;
  /// Compiles tiles of a problem, which is checked, unless their code is there. The line has no
  /// name and recipe. Throws NotSupported without compilers, Error if no tile compiles, CacheError.
  [[nodiscard]] virtual SampleLine compile(const Problem& problem,
                                           const CollectOptions& options) = 0;
  /// Times the tiles of a line on this machine within the budget. Throws NotSupported where there
  /// is no such device, Error if no tile could be timed, DeviceError.
  [[nodiscard]] virtual SampleLine time(const SampleLine& line, double budget_ms) const = 0;
  /// Gives the tiles of a line times that a clock models. Throws as time().
  [[nodiscard]] virtual SampleLine model(const SampleLine& line) const = 0;
};

/// Code that is kept between runs, and what else its user has to know of it.
struct StoredCubin {
  std::string cubin;
  nlohmann::json more = nlohmann::json::object();
};

/// Finds code of a problem by a key of all else that it is made of, else has what `make` gives now.
using FindCubin =
    std::function<StoredCubin(const std::string& key, const std::function<StoredCubin()>& make)>;

/// How benchmarks build and time the candidates of a problem.
struct SpaceOptions {
  std::optional<int> gpu = {};            ///< that times; none: nothing is timed
  std::vector<std::string> without = {};  ///< reductions that proxies are made without
  FindCubin find_cubin = {};              ///< empty: code is always made
};

/// Each such family is one line in artifact/tuned_families.cpp. No part of libspjit, nor is what
/// implements it.
class TunedFamily {
 public:
  TunedFamily() = default;
  TunedFamily(const TunedFamily&) = delete;
  TunedFamily& operator=(const TunedFamily&) = delete;
  virtual ~TunedFamily() = default;

  /// The features that its rank models look at.
  [[nodiscard]] virtual const FeatureSchema& schema() const noexcept = 0;
  /// SampleLine::family, which is the name of the schema and Target::backend().
  [[nodiscard]] std::string_view name() const noexcept { return schema().name; }

  /// Throws Error that says what is wrong with the line.
  [[nodiscard]] virtual SampledTiles read(const SampleLine& line) const = 0;

  /// The i-th synthetic matrix of a sequence that depends on the seed alone.
  [[nodiscard]] virtual SampleRecipe draw(std::uint64_t seed, std::int64_t i) const = 0;
  /// The device of a target, in names of groups, with the threads of a run where they matter:
  /// "host-avx512 t4", "sm_90:h100".
  [[nodiscard]] virtual std::string device_name(const CompileOptions& options) const = 0;
  /// Null for a family that compiles first.
  [[nodiscard]] virtual const TileTimer* timer() const noexcept { return nullptr; }
  /// Makes the folder if need be. Throws IoError and Error as SampleFile, CacheError. Null for a
  /// family that has a timer().
  [[nodiscard]] virtual std::unique_ptr<TileFolder> open(
      const std::filesystem::path& folder) const {
    static_cast<void>(folder);
    return nullptr;
  }
  /// All candidates of a problem as its search sees them, ranked by the formula; unlike
  /// KernelFamily::build() it needs no device. Refers to all of the request. Throws InvalidArgument
  /// for reductions that there are not, and as choosing does. Null for a family that has a timer().
  [[nodiscard]] virtual std::shared_ptr<TunableSpace> space(const FamilyRequest& request,
                                                            const SpaceOptions& options) const {
    static_cast<void>(request);
    static_cast<void>(options);
    return nullptr;
  }
};

}  // namespace spjit
