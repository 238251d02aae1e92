#pragma once

/// @file
/// Groups whose times are a function of their features.

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "rankmodel/training/rank_training.hpp"

namespace spjit_test {

inline const std::vector<std::string> k_made_up_features = {"size", "work", "noise", "unknown"};

/// The best `size` depends on the group's `work`; `noise` means nothing, `unknown` is NaN half of
/// the time. `slope` moves the optimum: another machine.
inline std::vector<spjit::TrainingGroup> made_up_groups(std::size_t count, unsigned seed,
                                                        double slope = 1) {
  std::mt19937 random(seed);
  const auto uniform = [&random] { return static_cast<double>(random() % 10'000) / 10'000; };
  std::vector<spjit::TrainingGroup> groups;
  for (std::size_t i = 0; i < count; ++i) {
    spjit::TrainingGroup group{.name = fmt::format("group-{}-{}", seed, i), .columns = 4};
    const double work = uniform();
    for (int tile = 0; tile < 40; ++tile) {
      const double size = uniform();
      const bool known = random() % 2 == 0;
      const double off = size - slope * work;
      group.rows.push_back(static_cast<float>(size));
      group.rows.push_back(static_cast<float>(work));
      group.rows.push_back(static_cast<float>(uniform()));
      group.rows.push_back(known ? static_cast<float>(off * off)
                                 : std::numeric_limits<float>::quiet_NaN());
      group.times_us.push_back((1 + work) * (1 + 3 * off * off));
    }
    groups.push_back(group);
  }
  return groups;
}

inline spjit::TrainingOptions made_up_options() {
  return {.schema = "made-up",
          .schema_version = 1,
          .features = k_made_up_features,
          .rounds = 40,
          .depth = 4};
}

}  // namespace spjit_test
