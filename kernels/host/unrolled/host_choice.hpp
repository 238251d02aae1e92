#pragma once

/// @file
/// Which tile a problem gets on the host, and what else was looked at.

#include <string>

#include "kernels/host/unrolled/host_tunable.hpp"
#include "kernels/kernel_family.hpp"

namespace spjit {

/// The course of a choice, for the record and for `spjit explain`.
struct HostChoiceTrace {
  HostTile tile;
  std::string reason;
  TileSpace space;              ///< no candidates where nothing was searched
  SearchTrace search;           ///< no entries where nothing was searched
  GroupingStatistics grouping;  ///< of the choice
  double group_ms = 0;
  double emit_ms = 0;  ///< plan and code
};

/// The rules' choice and its reason, without compiling. Throws what the request's `cancel` throws.
[[nodiscard]] HostChoiceTrace host_choice_by_rules(const FamilyRequest& request);

struct BuiltHost {
  HostArtifact artifact;
  HostChoiceTrace trace;
};

/// Chooses, timing candidates with `timer` where the policy asks for it and B and C fit the memory,
/// and emits the choice. Throws what the context throws.
[[nodiscard]] BuiltHost build_host_choice(const BuildRequest& request,
                                          const TimeHostKernels& timer);

}  // namespace spjit
