#include "bench/lab/text.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "bench/lab/tests/made_up_case.hpp"

namespace {

using namespace spjit::bench;
using spjit::testing_support::layer_case;

TEST(LabText, HoldsWaysAgainstTheFirstOverAllCases) {
  std::vector<Case> cases = {layer_case("layout", {{"a", 10}, {"b", 10}, {"c", 30}}),
                             layer_case("layout", {{"a", 20}, {"b", 80}, {"c", 10}})};
  cases[1].timings[0].time.noise = 0.015;
  cases[1].timings[2].failed = "no such layer";

  EXPECT_EQ(to_text(cases),
            "minilm-80 layout n=64 t=1 cold: a 30.00 us +-1.5 %; times as long: "
            "b 2.00 (1.00-4.00), c 3.00 (3.00-3.00) 1/2\n"
            "  not timed: c: no such layer\n");
}

TEST(LabText, HasNoFigureWithoutATime) {
  std::vector<Case> cases = {layer_case("layout", {{"a", 10}, {"b", 10}})};
  for (WayTiming& timing : cases[0].timings) {
    timing.failed = "wrong";
    timing.time = {};
  }
  EXPECT_EQ(to_text(cases),
            "minilm-80 layout n=64 t=1 cold: a -; times as long: b -\n"
            "  not timed: a: wrong\n  not timed: b: wrong\n");
}

}  // namespace
