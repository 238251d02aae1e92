#pragma once

/// @file
/// Tiles with their times: what rank models are trained on, in one form for host and GPU.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_text.hpp"
#include "plan/workload.hpp"
#include "rankmodel/time_kind.hpp"
#include "spjit/error.hpp"

namespace spjit {

/// One tile and its time.
template <class Candidate>
struct TileSample {
  Candidate candidate;
  double us = 0;             ///< median time of a run; 0: it failed, or has none yet
  double noise = 0;          ///< share of the median
  std::int64_t samples = 0;  ///< that the median is of; 1 of a modelled time
  bool confirmed = false;    ///< `us` is the middle one of several loads, not that of one
  /// Key of a GPU tile's entry in the folder of compiled tiles; empty: it did not compile.
  std::string key = {};
};

/// Tiles that the rules leave for one matrix, n, number of threads and device: what a ranking is
/// about.
template <class Candidate, class DeviceInfo>
struct SampleGroup {
  std::string name;       ///< says which matrix, n, target and threads; unique in a file
  nlohmann::json recipe;  ///< how to get the matrix: a generator's options, or a file's name
  DeviceInfo limits;      ///< the device
  Workload work;          ///< the matrix
  std::vector<TileSample<Candidate>> samples;
  double seconds = 0;  ///< that compiling or timing took
  TimeKind times = TimeKind::measured;
};

/// A line of samples, with what only a family can read left as JSON.
struct SampleLine {
  std::string family;  ///< whose tiles: the name of its FeatureSchema, "host" or "cuda"
  std::string name;
  nlohmann::json recipe;
  TimeKind times = TimeKind::measured;
  nlohmann::json device;
  Workload work;
  nlohmann::json groupings;       ///< of the host; null: none
  nlohmann::json columns;         ///< what the numbers of a tile are
  nlohmann::json tiles;           ///< an array of numbers for each tile
  std::vector<std::string> keys;  ///< of each tile; empty: there are none
  double seconds = 0;
};

/// The line's `schema`.
inline constexpr const char* k_samples_schema = "spjit-samples-3";

/// Largest whole number of a line: sizes, counts and bytes.
inline constexpr std::int64_t k_most_of_samples = std::int64_t{1} << 48;

/// One line, without the newline. rankmodel/data/README.md lists the members.
[[nodiscard]] std::string write_sample_line(const SampleLine& line);

/// Throws Error that says what is wrong with the line.
[[nodiscard]] SampleLine read_sample_line(std::string_view text);

/// Returns the result of `read`. Exceptions of `read` and of the JSON library become an Error that
/// says this is no line of samples.
template <class Read>
auto reading_samples(const Read& read) {
  const std::string prefix = "not a line of samples: ";
  try {
    return read();
  } catch (const nlohmann::json::exception& error) {
    throw Error(prefix + json_problem(error.what()));
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with(prefix)) throw;
    throw Error(prefix + error.what());
  }
}

/// The kind of the times of all lines. Throws Error, naming the lines, where they are of more than
/// one kind or a line has none yet.
[[nodiscard]] TimeKind common_times(std::span<const SampleLine> lines);

/// Whose tiles all lines have; empty: there are no lines. Throws Error, naming two lines that
/// differ.
[[nodiscard]] std::string common_family(std::span<const SampleLine> lines);

/// Throws Error unless the line is of the family and its tiles have these columns.
void check_family(const SampleLine& line, std::string_view family,
                  const std::vector<std::string>& columns);

/// The numbers of a tile, in the order of its columns; each function reads the next. All throw
/// Error that names the column.
class TileNumbers {
 public:
  /// Throws Error unless there is one for each column. Refers to both.
  TileNumbers(const nlohmann::json& row, const std::vector<std::string>& columns);

  [[nodiscard]] std::int64_t integer(std::int64_t most = k_most_of_samples);
  [[nodiscard]] double number();
  /// A time, its noise and so on: what write_time() has written.
  template <class Candidate>
  void read_time(TileSample<Candidate>& sample) {
    sample.us = number();
    sample.noise = number();
    sample.samples = integer();
    sample.confirmed = integer(1) != 0;
  }

 private:
  const nlohmann::json& row_;
  const std::vector<std::string>& columns_;
  std::size_t next_ = 0;
};

/// The last columns of every family.
inline constexpr const char* k_time_columns[] = {"us", "noise", "samples", "confirmed"};

/// Adds them to the numbers of a tile.
template <class Candidate>
void write_time(const TileSample<Candidate>& sample, nlohmann::json& row) {
  row.push_back(sample.us);
  row.push_back(sample.noise);
  row.push_back(sample.samples);
  row.push_back(sample.confirmed ? 1 : 0);
}

/// Writes the members that a family does not write itself.
template <class Candidate, class DeviceInfo>
[[nodiscard]] SampleLine line_of(const SampleGroup<Candidate, DeviceInfo>& group) {
  SampleLine line;
  line.name = group.name;
  line.recipe = group.recipe;
  line.times = group.times;
  line.work = group.work;
  line.seconds = group.seconds;
  line.tiles = nlohmann::json::array();
  return line;
}

/// Reads the members that a family does not read itself.
template <class Candidate, class DeviceInfo>
void take_line(const SampleLine& line, SampleGroup<Candidate, DeviceInfo>& group) {
  group.name = line.name;
  group.recipe = line.recipe;
  group.times = line.times;
  group.work = line.work;
  group.seconds = line.seconds;
}

}  // namespace spjit
