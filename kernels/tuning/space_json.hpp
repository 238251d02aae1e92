#pragma once

/// @file
/// A tile space as JSON, for `spjit explain`.

#include <nlohmann/json.hpp>
#include <utility>

#include "kernels/tuning/candidate_space.hpp"

namespace spjit {

/// As KernelFamily::explain() has it, but for "ranked". `describe` says of a candidate all but why
/// it was dropped.
template <class Candidate, class Rule, class Describe>
[[nodiscard]] nlohmann::json space_json(const CandidateSpace<Candidate, Rule>& space,
                                        const Describe& describe) {
  nlohmann::json result = {{"candidates", nlohmann::json::array()},
                           {"relaxed", nlohmann::json::array()}};
  for (const Rule rule : space.relaxed) result["relaxed"].push_back(to_string(rule));
  for (const Candidate& candidate : space.candidates) {
    nlohmann::json entry = describe(candidate);
    if (candidate.dropped) {
      entry["dropped"] = {{"rule", to_string(candidate.dropped->rule)},
                          {"numbers", candidate.dropped->numbers}};
    }
    result["candidates"].push_back(std::move(entry));
  }
  return result;
}

}  // namespace spjit
