#pragma once

/// @file
/// Times of every family of kernels for one product.

#include "base/cache_flush.hpp"
#include "bench/choice/choice_case.hpp"
#include "spjit/target.hpp"

namespace spjit::bench {

struct ChoiceTiming {
  double budget_ms = 250;  ///< of all families of a case together
  int min_samples = 5;     ///< of each, whatever the budget says
};

/// One thread. Hot kernels run again and again, cold ones each after `caches` was flushed and B
/// read. The kernel of a family is the one that is chosen where the rules choose the family. Throws
/// Error where two families differ in a bit of C.
[[nodiscard]] ChoiceResult measure_choice(const ChoiceCase& what, const Target& target,
                                          CacheFlush& caches, const ChoiceTiming& timing);

}  // namespace spjit::bench
