#pragma once

/// @file
/// The tile space of a family: candidates with their statistics, and why some were dropped. A
/// `Rule` is an enumeration with to_string().

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

namespace spjit {

/// Why a candidate is out, with the numbers.
template <class Rule>
struct DroppedBy {
  Rule rule = {};
  std::string numbers;  ///< e.g. "needs 33 vector registers, has 32"
};

/// Every candidate worth a name, dropped ones included.
template <class Candidate, class Rule>
struct CandidateSpace {
  std::vector<Candidate> candidates;
  std::vector<Rule> relaxed;  ///< rules given up because nothing was left, in that order

  /// The candidates that no rule dropped.
  [[nodiscard]] std::vector<Candidate> survivors() const {
    std::vector<Candidate> result;
    std::ranges::copy_if(candidates, std::back_inserter(result),
                         [](const Candidate& candidate) { return !candidate.dropped; });
    return result;
  }
};

}  // namespace spjit
