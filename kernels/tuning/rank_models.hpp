#pragma once

/// @file
/// Which rank model a compilation uses. Those that come with the library are inside it, so that
/// ranking needs no file; their provenance names the machines and says how the times came about.

#include <filesystem>
#include <memory>
#include <string_view>

#include "rankmodel/feature_schema.hpp"

namespace spjit {

struct LoadedRankModel;

/// The one that comes with the library under that name, as a file of rankmodel/models/ has it; null
/// if there is none.
[[nodiscard]] std::shared_ptr<const LoadedRankModel> load_shipped_model(
    std::string_view name, const FeatureSchema& schema);

/// Reads a model from text, as `spjit train` writes it. Throws Error if it is malformed or not for
/// these features.
[[nodiscard]] std::shared_ptr<const LoadedRankModel> parse_model(std::string_view text,
                                                                 const FeatureSchema& schema);

/// The one that `named` (SearchPolicy::rank_model) asks for: empty, the shipped one, which may be
/// null; "prior", none; else a file. Null: the prior ranks. Throws IoError for a file that cannot
/// be read, Error for one that is no model for these features.
[[nodiscard]] std::shared_ptr<const LoadedRankModel> find_rank_model(
    const std::filesystem::path& named, const FeatureSchema& schema,
    const std::shared_ptr<const LoadedRankModel>& shipped);

}  // namespace spjit
