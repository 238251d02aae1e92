#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/json_text.hpp"
#include "rankmodel/rank_model.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using nlohmann::json;

constexpr std::string_view k_format = "spjit-rank-model-1";

// The shortest number that comes back. A reader goes through double, which for a few floats (as
// 7.038531e-26) rounds the shortest digits to their neighbour, and takes those of the greatest
// float for more than a float holds; these are written in full.
std::string float_text(float value) {
  if (value == 0) return std::signbit(value) ? "-0.0" : "0";
  std::string text = fmt::format("{}", value);
  const double read = std::strtod(text.c_str(), nullptr);
  const bool comes_back =
      std::abs(read) <= std::numeric_limits<float>::max() && static_cast<float>(read) == value;
  return comes_back ? text : fmt::format("{}", static_cast<double>(value));
}

template <typename Field>
std::string array_text(const RankTree& tree, const Field& field) {
  std::string text = "[";
  for (const RankNode& node : tree.nodes) {
    if (text.size() > 1) text += ',';
    text += field(node);
  }
  return text + "]";
}

std::string tree_text(const RankTree& tree) {
  return fmt::format(
      R"({{"feature":{},"value":{},"left":{},"default_left":{}}})",
      array_text(tree, [](const RankNode& node) { return fmt::format("{}", node.feature); }),
      array_text(tree, [](const RankNode& node) { return float_text(node.value); }),
      array_text(tree, [](const RankNode& node) { return fmt::format("{}", node.left); }),
      array_text(tree, [](const RankNode& node) { return node.default_left ? "1" : "0"; }));
}

template <typename Integer>
Integer integer_of(const json& value, const char* what) {
  return static_cast<Integer>(json_integer(value, what, -1, std::numeric_limits<Integer>::max()));
}

float float_of(const json& value) {
  if (value.is_number()) {
    const auto number = value.get<double>();
    if (std::abs(number) <= std::numeric_limits<float>::max()) return static_cast<float>(number);
  }
  throw Error(fmt::format("value is {}; expected a number that a float holds", quoted_json(value)));
}

bool flag_of(const json& value) { return json_integer(value, "default_left", 0, 1) == 1; }

void check_keys(const json& object, std::initializer_list<const char*> keys, const char* what) {
  if (!object.is_object() || object.size() != keys.size()) {
    throw Error(fmt::format("{} is no object of {} members", what, keys.size()));
  }
  for (const char* key : keys) {
    if (!object.contains(key)) throw Error(fmt::format("{} has no '{}'", what, key));
  }
}

const json& array_of(const json& object, const char* key, std::size_t most) {
  const json& array = object.at(key);
  if (!array.is_array() || array.size() > most) {
    throw Error(fmt::format("'{}' is no array of at most {} elements", key, most));
  }
  return array;
}

RankTree tree_of(const json& object) {
  check_keys(object, {"feature", "value", "left", "default_left"}, "it");
  const json& features = array_of(object, "feature", k_most_rank_nodes);
  const json& values = array_of(object, "value", k_most_rank_nodes);
  const json& lefts = array_of(object, "left", k_most_rank_nodes);
  const json& defaults = array_of(object, "default_left", k_most_rank_nodes);
  if (values.size() != features.size() || lefts.size() != features.size() ||
      defaults.size() != features.size()) {
    throw Error(fmt::format("arrays of {}, {}, {} and {} nodes; expected as many", features.size(),
                            values.size(), lefts.size(), defaults.size()));
  }
  RankTree tree;
  for (std::size_t i = 0; i < features.size(); ++i) {
    tree.nodes.push_back({.value = float_of(values[i]),
                          .feature = integer_of<std::int32_t>(features[i], "feature"),
                          .left = integer_of<std::int32_t>(lefts[i], "left"),
                          .default_left = flag_of(defaults[i])});
  }
  return tree;
}

json parse(std::string_view text) {
  if (text.size() > k_longest_rank_model_bytes) {
    throw Error(
        fmt::format("{} bytes; expected at most {}", text.size(), k_longest_rank_model_bytes));
  }
  return parse_json(text);
}

RankModel model_of(const json& object) {
  const auto format = object.is_object() ? object.find("format") : object.end();
  if (format == object.end() || *format != k_format) {
    throw Error(fmt::format("its format is not '{}'", k_format));
  }
  check_keys(object,
             {"format", "name", "schema", "schema_version", "features", "provenance", "trees"},
             "it");
  RankModel model{.name = object.at("name").get<std::string>(),
                  .schema = object.at("schema").get<std::string>(),
                  .schema_version = integer_of<int>(object.at("schema_version"), "schema_version"),
                  .provenance = object.at("provenance")};
  for (const json& feature : array_of(object, "features", k_most_rank_features)) {
    model.features.push_back(feature.get<std::string>());
  }
  for (const json& tree : array_of(object, "trees", k_most_rank_trees)) {
    try {
      model.trees.push_back(tree_of(tree));
    } catch (const Error& error) {
      throw Error(fmt::format("tree {}: {}", model.trees.size(), error.what()));
    }
  }
  return model;
}

}  // namespace

std::string write_rank_model(const RankModel& model) {
  check_rank_model(model);
  try {
    std::string text = fmt::format(
        "{{\"format\": {},\n \"name\": {},\n \"schema\": {},\n \"schema_version\": {},\n"
        " \"features\": {},\n \"provenance\": {},\n \"trees\": [",
        json(k_format).dump(), json(model.name).dump(), json(model.schema).dump(),
        model.schema_version, json(model.features).dump(), model.provenance.dump());
    for (std::size_t i = 0; i < model.trees.size(); ++i) {
      text += (i == 0 ? "\n  " : ",\n  ") + tree_text(model.trees[i]);
    }
    return text + "]}\n";
  } catch (const json::exception& error) {
    throw Error(fmt::format("a rank model that cannot be written: {}", json_problem(error.what())));
  }
}

RankModel read_rank_model(std::string_view text) {
  try {
    RankModel model = model_of(parse(text));
    check_rank_model(model);
    return model;
  } catch (const json::exception& error) {
    throw Error(fmt::format("not a rank model: {}", json_problem(error.what())));
  } catch (const Error& error) {
    throw Error(fmt::format("not a rank model: {}", error.what()));
  }
}

}  // namespace spjit
