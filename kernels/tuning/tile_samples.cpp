#include "kernels/tuning/tile_samples.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/hash.hpp"
#include "base/json_text.hpp"
#include "base/printable.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"

namespace spjit {
namespace {

using nlohmann::json;

constexpr std::size_t k_key_digits = 64;

json work_json(const Workload& work) {
  json result = {{"rows", work.rows}, {"cols", work.cols},       {"nnz", work.nnz},
                 {"n", work.n},       {"threads", work.threads}, {"row_nnz_cv", work.row_nnz_cv}};
  if (work.m > 0) result["m"] = work.m;
  return result;
}

Workload read_work(const json& work) {
  const auto count = [&](const char* key) {
    return json_integer(work.at(key), key, 0, k_most_of_samples);
  };
  Workload result;
  result.rows = count("rows");
  result.cols = count("cols");
  result.nnz = count("nnz");
  result.n = count("n");
  result.threads = count("threads");
  result.row_nnz_cv = work.at("row_nnz_cv");
  if (work.contains("m")) result.m = count("m");
  return result;
}

std::vector<std::string> read_keys(const json& keys, std::size_t tiles) {
  std::vector<std::string> result;
  for (const json& key : keys) {
    result.push_back(key.get<std::string>());
    if (!result.back().empty() && !is_hex_text(result.back(), k_key_digits)) {
      throw Error(fmt::format("{} is no key of a compiled tile", quoted_json(key)));
    }
  }
  if (result.size() != tiles) {
    throw Error(fmt::format("{} keys for {} tiles", result.size(), tiles));
  }
  return result;
}

SampleLine read_document(json document) {
  const json& schema = document.at("schema");
  if (schema != k_samples_schema) {
    throw Error(fmt::format("schema {}; expected \"{}\"", quoted_json(schema), k_samples_schema));
  }
  SampleLine line;
  line.family = document.at("family");
  line.name = document.at("name");
  line.recipe = std::move(document.at("recipe"));
  line.times = parse_time_kind(document.at("times").get<std::string>());
  line.device = document.at("device");
  line.work = read_work(document.at("work"));
  if (document.contains("groupings")) line.groupings = document.at("groupings");
  line.columns = document.at("columns");
  line.tiles = std::move(document.at("tiles"));
  if (!line.tiles.is_array()) throw Error("tiles are no array");
  if (document.contains("keys")) line.keys = read_keys(document.at("keys"), line.tiles.size());
  line.seconds = document.at("seconds");
  return line;
}

}  // namespace

std::string write_sample_line(const SampleLine& line) {
  json document = {{"schema", k_samples_schema}, {"spjit", SPJIT_VERSION},
                   {"family", line.family},      {"name", line.name},
                   {"recipe", line.recipe},      {"times", std::string(to_string(line.times))},
                   {"device", line.device},      {"work", work_json(line.work)},
                   {"columns", line.columns},    {"tiles", line.tiles},
                   {"seconds", line.seconds}};
  if (!line.groupings.is_null()) document["groupings"] = line.groupings;
  if (!line.keys.empty()) document["keys"] = line.keys;
  return document.dump();
}

SampleLine read_sample_line(std::string_view text) {
  return reading_samples([&] { return read_document(parse_json(text)); });
}

TimeKind common_times(std::span<const SampleLine> lines) {
  for (const SampleLine& line : lines) {
    if (line.times == TimeKind::none) {
      throw Error(
          fmt::format("'{}' has no times: its tiles were compiled; 'spjit collect --time' "
                      "times them",
                      printable(line.name)));
    }
    if (line.times != lines.front().times) {
      throw Error(fmt::format("the times of '{}' are {}, those of '{}' are {}: expected one kind",
                              printable(lines.front().name), to_string(lines.front().times),
                              printable(line.name), to_string(line.times)));
    }
  }
  return lines.empty() ? TimeKind::none : lines.front().times;
}

std::string common_family(std::span<const SampleLine> lines) {
  for (const SampleLine& line : lines) {
    if (line.family != lines.front().family) {
      throw Error(fmt::format("'{}' is of {}, '{}' of {}: expected tiles of one kind of device",
                              printable(lines.front().name), printable(lines.front().family),
                              printable(line.name), printable(line.family)));
    }
  }
  return lines.empty() ? "" : lines.front().family;
}

void check_family(const SampleLine& line, std::string_view family,
                  const std::vector<std::string>& columns) {
  if (line.family != family) {
    throw Error(fmt::format("tiles of '{}'; expected {}", printable(line.family), family));
  }
  if (line.columns != json(columns)) {
    throw Error("the columns of the tiles are not those of this version");
  }
}

TileNumbers::TileNumbers(const json& row, const std::vector<std::string>& columns)
    : row_(row), columns_(columns) {
  if (row.size() != columns.size()) {
    throw Error(fmt::format("a tile has {} numbers; expected {}", row.size(), columns.size()));
  }
}

std::int64_t TileNumbers::integer(std::int64_t most) {
  const std::size_t at = next_++;
  return json_integer(row_.at(at), columns_[at], 0, most);
}

double TileNumbers::number() { return row_.at(next_++).get<double>(); }

}  // namespace spjit
