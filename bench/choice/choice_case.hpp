#pragma once

/// @file
/// A product that the rules choose a family for, drawn at random, and how long each family takes.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/host/host_device_info.hpp"
#include "spjit/matrix.hpp"
#include "spjit/target.hpp"

namespace spjit::bench {

/// A matrix of the generator's pattern `uniform`, and how often its kernel runs.
struct ChoiceCase {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  double sparsity = 0;
  std::int64_t n = 0;
  bool hot = false;

  [[nodiscard]] bool operator==(const ChoiceCase&) const = default;
};

/// "4096x4096 at 90 %, n = 1, hot"
[[nodiscard]] std::string to_string(const ChoiceCase& what);

/// The case of that number: sides of 16 to 16384, 50 to 99 % zeros, n of 1 to 4096, each from a
/// list. Cases of more than 6 million nonzeros or 600 million products are drawn again.
[[nodiscard]] ChoiceCase draw_case(std::uint64_t seed, std::int64_t number, bool hot);

/// The matrix of a case: the same numbers on every machine.
[[nodiscard]] CsrMatrix matrix_of(const ChoiceCase& what);

/// The family that the rules choose on a host; nothing is compiled.
[[nodiscard]] std::string family_chosen(const ChoiceCase& what, const CsrMatrix& matrix,
                                        const HostDeviceInfo& limits);

/// One family's kernel. [us]
struct FamilyTime {
  std::string family;
  double median_us = 0;
  double noise = 0;  ///< as TimingResult has it
};

struct ChoiceResult {
  ChoiceCase what;
  std::int64_t nnz = 0;
  std::string chosen;
  std::vector<FamilyTime> times;  ///< of every family that takes it

  /// Time of the choice over the least.
  [[nodiscard]] double ratio() const;
  /// The fastest family.
  [[nodiscard]] const FamilyTime& best() const;
};

/// A line: "4096x4096 at 90 %, n = 1, hot: compact 1.24 (unrolled 10.1 us, compact 12.5 us)".
[[nodiscard]] std::string to_string(const ChoiceResult& result);

[[nodiscard]] nlohmann::json to_json(const ChoiceResult& result);
/// Throws Error for what is no such record.
[[nodiscard]] ChoiceResult choice_result_of(const nlohmann::json& record);

/// Properties of a host that rules look at, to JSON and back.
[[nodiscard]] nlohmann::json to_json(const HostDeviceInfo& limits);
[[nodiscard]] HostDeviceInfo limits_of(const nlohmann::json& record);

}  // namespace spjit::bench
