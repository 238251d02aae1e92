#pragma once

/// @file
/// A ranking of tiles by boosted regression trees (LambdaMART, as in LO-SpMM section 3.5). Knows
/// nothing of what its features mean; a schema and its version say which features it was made for.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spjit {

/// A split or a leaf. A split sends a row to `left` if its feature is less than `value`, and to
/// `left + 1` if not; where the feature is NaN, `default_left` decides.
struct RankNode {
  float value = 0;            ///< threshold of a split, score of a leaf; finite
  std::int32_t feature = -1;  ///< -1: a leaf
  std::int32_t left = 0;      ///< index in the tree, after this node's; 0: a leaf
  bool default_left = false;  ///< false in a leaf

  [[nodiscard]] bool is_leaf() const noexcept { return left == 0; }
  bool operator==(const RankNode&) const = default;
};

/// The root is the first node; every other one is the child of exactly one before it.
struct RankTree {
  std::vector<RankNode> nodes;

  bool operator==(const RankTree&) const = default;
};

/// The name of what ranks without a model, a family's formula: in output, and as `--rank-model`.
inline constexpr const char* k_prior_name = "prior";

inline constexpr std::size_t k_most_rank_features = 1000;
inline constexpr std::size_t k_most_rank_trees = 10'000;
inline constexpr std::size_t k_most_rank_nodes = 32'767;  ///< of one tree
inline constexpr std::size_t k_deepest_rank_tree = 64;    ///< splits between root and leaf
inline constexpr std::size_t k_longest_rank_model_bytes = std::size_t{64} << 20;

/// The greater a score, the faster the tile should be. Scores compare only within one problem: they
/// are no times. What only reads is safe from many threads.
struct RankModel {
  std::string name;
  std::string schema{};  ///< which features, in which order and unit
  int schema_version = 0;
  std::vector<std::string> features{};                   ///< distinct names
  std::vector<RankTree> trees{};                         ///< a score is the sum over all
  nlohmann::json provenance = nlohmann::json::object();  ///< how it was made

  /// Throws InvalidArgument if the row is not as long as `features`.
  [[nodiscard]] double score(std::span<const float> row) const;

  /// Scores of rows that follow each other, each as long as `features`; exactly what `score` says
  /// of each, faster. Throws InvalidArgument if the length is no multiple of that of `features`.
  [[nodiscard]] std::vector<double> scores(std::span<const float> rows) const;

  bool operator==(const RankModel&) const = default;
};

/// Throws Error unless all that is said above of nodes, trees and features holds. `score` relies on
/// it; `read_rank_model` and `write_rank_model` call it.
void check_rank_model(const RankModel& model);

/// Throws Error unless the model was made for exactly these features; names both versions, or the
/// first feature that differs.
void check_schema(const RankModel& model, std::string_view schema, int version,
                  std::span<const std::string> features);

/// One JSON object, a line for each tree:
///
///     {"format": "spjit-rank-model-1",
///      "name": ..., "schema": ..., "schema_version": 1, "features": ["m1", ...],
///      "provenance": {...},
///      "trees": [
///       {"feature": [0, -1, -1], "value": [0.5, -1, 2], "left": [1, 0, 0],
///        "default_left": [1, 0, 0]}, ...]}
///
/// Equal models give equal bytes, and floats come back exactly. Throws Error for a model that
/// `check_rank_model` refuses, or with names that are not UTF-8.
[[nodiscard]] std::string write_rank_model(const RankModel& model);

/// Reads that form, from anyone. Throws Error that says the first thing wrong with it.
[[nodiscard]] RankModel read_rank_model(std::string_view text);

/// Label that a model must be shown with, if it was not trained on measurements: "trained on
/// modelled times, sm_75:t4". Empty for one whose times were measured. So it is for one that does
/// not say: models were trained on measured times only, before they said it. By its provenance, as
/// `spjit train` writes it: "times", and the devices of its samples.
[[nodiscard]] std::string label_of(const RankModel& model);

/// Whether `row` is within the numbers that the model was trained on, its "ranges", in each of the
/// features of these names; of none, in all. True where it does not say a range.
[[nodiscard]] bool has_seen(const RankModel& model, std::span<const float> row,
                            std::span<const std::string_view> features = {});

/// A model, and what a kernel that it helped to choose is cached by.
struct LoadedRankModel {
  RankModel model;
  std::string id;  ///< name and checksum
};

/// The name of what ranks, for output: "prior" without a model, else its name and, where it has
/// one, its label in brackets.
[[nodiscard]] std::string ranked_by(const LoadedRankModel* model);

}  // namespace spjit
