#include "compiler/cache_key.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "artifact/families.hpp"
#include "plan/search_policy.hpp"
#include "runtime/cache/cache_record.hpp"
#include "spjit/version.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/host/cpu_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

CompileOptions key_options() { return options_of(HostIsa::avx2); }

std::string key_of(const Problem& problem, const CompileOptions& options = key_options(),
                   const HostDeviceInfo& limits = {}) {
  const DeviceInfo device = limits;
  return cache_key({problem, options, device, {}});
}

std::string key_of(const CsrMatrix& matrix) { return key_of(problem_of(matrix, 64)); }

TEST(CacheKey, IsAKeyAndTheSameForTheSameInput) {
  const std::string one = key_of(small_matrix());
  const std::string two = key_of(small_matrix());

  EXPECT_TRUE(is_cache_key(one));
  EXPECT_EQ(one, two);
}

TEST(CacheKey, ASearchAlsoDependsOnItsBudgetItsContendersTheDeviceAndTheModel) {
  const Problem problem = problem_of(small_matrix(), 64);
  const DeviceInfo device = HostDeviceInfo{};
  const auto keys = [&](SearchMode mode) {
    CompileOptions options = key_options();
    options.policy.search = mode;
    CompileOptions longer = options;
    longer.policy.search_budget_ms += 1;
    CompileOptions more = options;
    more.policy.top_k += 1;
    return std::set<std::string>{cache_key({problem, options, device, {}}),
                                 cache_key({problem, longer, device, {}}),
                                 cache_key({problem, more, device, {}}),
                                 cache_key({problem, options, device, {}}, "", "another CPU"),
                                 cache_key({problem, options, device, {}}, "a model")};
  };

  EXPECT_EQ(keys(SearchMode::instant).size(), 1U);
  EXPECT_EQ(keys(SearchMode::ranked).size(), 5U);
  EXPECT_GE(keys(SearchMode::proxy).size(), 3U);
  EXPECT_GE(keys(SearchMode::exhaustive).size(), 3U);
}

// As docs/design/cache-format.md lists them: a kernel of another version of spjit, or of other
// families, is another one.
TEST(CacheKey, BeginsWithTheVersionsOfTheLibraryAndOfAllFamiliesForTheDevice) {
  const CompileOptions options = key_options();
  const Problem problem = problem_of(small_matrix(), 64);
  const DeviceInfo device = HostDeviceInfo{};
  std::string families;
  for (const KernelFamily* family : backend_named("host").families()) {
    families += (families.empty() ? "" : ", ") + std::string(family->name());
    families += " " + family->version();
  }
  KeyBuilder key;
  key.field("spjit", SPJIT_VERSION).field("families", families);
  key.field("isa", "avx2").field("threads", 1);
  add_to_key(problem, key);
  add_to_key(device, key);
  add_to_key(options.policy, named_options(), key);

  EXPECT_EQ(cache_key({problem, options, device, {}}), key.hex());
}

TEST(CacheKey, WhatAKernelIsCompiledWithDoesNotChangeIt) {
  const std::vector<std::function<void(CompileOptions&)>> changes = {
      [](CompileOptions& o) { o.resources.parallel_compiles = 3; },
      [](CompileOptions& o) { o.resources.compile_threads = 3; },
      [](CompileOptions& o) { o.resources.compile_limit_ms = 3; },
      [](CompileOptions& o) { o.resources.toolkit_paths = {"/nowhere"}; },
      [](CompileOptions& o) { o.verify = VerifyMode::full; },
      [](CompileOptions& o) { o.compile = CompileWhen::never; }};
  const std::string key = key_of(small_matrix());
  for (const auto& change : changes) {
    CompileOptions options = key_options();
    change(options);

    EXPECT_EQ(key_of(problem_of(small_matrix(), 64), options), key);
  }
}

TEST(CacheKey, EveryOptionThatDecidesTheKernelChangesIt) {
  const std::vector<std::function<void(CompileOptions&)>> changes = {
      [](CompileOptions&) {},
      [](CompileOptions& o) { o.target = Target(HostIsa::avx512); },
      [](CompileOptions& o) { o.target = Target(HostIsa::generic); },
      [](CompileOptions& o) { o.resources.threads = 2; },
      [](CompileOptions& o) { o.policy.reorder = ReorderAlgorithm::none; },
      [](CompileOptions& o) { o.policy.reorder = ReorderAlgorithm::balanced; },
      [](CompileOptions& o) { o.policy.reorder = ReorderAlgorithm::similarity; },
      [](CompileOptions& o) { o.policy.search = SearchMode::ranked; },
      [](CompileOptions& o) { o.policy.search = SearchMode::proxy; },
      [](CompileOptions& o) { o.policy.search = SearchMode::exhaustive; },
      [](CompileOptions& o) { o.policy.code_budget_bytes = 0; }};
  std::set<std::string> keys;
  for (const auto& change : changes) {
    CompileOptions options = key_options();
    change(options);

    keys.insert(key_of(problem_of(small_matrix(), 64), options));
  }

  EXPECT_EQ(keys.size(), changes.size());
}

TEST(CacheKey, SourcesAreAnotherKernelOnAGpuAlone) {
  const Problem problem = problem_of(small_matrix(), 64);
  const auto key = [&](const char* target, bool keep_source) {
    CompileOptions options = key_options();
    options.target = Target::parse(target);
    options.keep_source = keep_source;
    return cache_key({problem, options, device_info_of(options.target), {}});
  };

  EXPECT_NE(key("sm_90:h100", true), key("sm_90:h100", false));
  EXPECT_EQ(key("host-avx2", true), key("host-avx2", false));
}

TEST(CacheKey, ACardHasOneKeyWhereverItIsNamed) {
  const Problem problem = problem_of(small_matrix(), 64);
  CompileOptions options = key_options();
  HostCpu cpu = zen4_cpu();
  const DeviceInfo here = host_device_info(HostIsa::avx512, cpu);
  options.target = Target(HostIsa::avx512);
  const std::string at_home = cache_key({problem, options, here, {}});
  cpu.l3_bytes /= 2;  // another model
  cpu.model_name = "AMD EPYC 9754";
  cpu.logical_cpus = 256;
  const DeviceInfo next = host_device_info(HostIsa::avx512, cpu);
  const std::string of_the_next = cache_key({problem, options, next, {}});
  options.target = Target::parse("host-avx512:zen4");
  const std::string elsewhere = cache_key({problem, options, device_info_of(options.target), {}});
  options.target = Target::parse("host-avx512:zen5");
  const std::string of_zen5 = cache_key({problem, options, device_info_of(options.target), {}});

  EXPECT_EQ(at_home, of_the_next);
  EXPECT_EQ(at_home, elsewhere);
  EXPECT_NE(at_home, of_zen5);
}

TEST(CacheKey, EveryMemberOfTheProblemChangesIt) {
  const std::vector<std::function<void(Problem&)>> changes = {
      [](Problem&) {},
      [](Problem& p) { p.n = 65; },
      [](Problem& p) { p.n = Extent::at_run_time(64); },
      [](Problem& p) { p.b.leading_dimension = 80; },
      [](Problem& p) { p.c.leading_dimension = 80; },
      [](Problem& p) { p.b.leading_dimension = p.c.leading_dimension = 80; },
      [](Problem& p) {  // n alone, with equal rows of B and C
        p.n = 65;
        p.b.leading_dimension = p.c.leading_dimension = 80;
      },
      [](Problem& p) { p.panel_columns = 8; },
      [](Problem& p) { p.panel_columns = 16; }};
  std::set<std::string> keys;
  for (const auto& change : changes) {
    Problem problem = problem_of(small_matrix(), 64);
    change(problem);

    keys.insert(key_of(problem));
  }

  EXPECT_EQ(keys.size(), changes.size());
}

TEST(CacheKey, WhatTheChoiceOfTheTileLooksAtInTheDeviceChangesIt) {
  const std::vector<std::function<void(HostDeviceInfo&)>> changes = {
      [](HostDeviceInfo&) {},
      [](HostDeviceInfo& l) { l.l1i_bytes *= 2; },
      [](HostDeviceInfo& l) { l.l1d_bytes *= 2; },
      [](HostDeviceInfo& l) { l.l2_bytes *= 2; },
      [](HostDeviceInfo& l) { l.l3_bytes = 1; },
      [](HostDeviceInfo& l) { l.l3_is_far = true; },
      [](HostDeviceInfo& l) { l.fmas_per_cycle = 1; }};
  std::set<std::string> keys;
  for (const auto& change : changes) {
    HostDeviceInfo limits;
    change(limits);

    keys.insert(key_of(problem_of(small_matrix(), 64), key_options(), limits));
  }

  EXPECT_EQ(keys.size(), changes.size());
}

TEST(CacheKey, OneBitOfAnyValueChangesIt) {
  std::set<std::string> keys = {key_of(small_matrix())};
  std::size_t expected = 1;
  for (std::size_t i = 0; i < small_matrix().values.size(); ++i) {
    for (const unsigned bit : {0U, 12U, 31U}) {
      CsrMatrix matrix = small_matrix();
      matrix.values[i] =
          std::bit_cast<float>(std::bit_cast<std::uint32_t>(matrix.values[i]) ^ (1U << bit));

      keys.insert(key_of(matrix));
      ++expected;
    }
  }

  EXPECT_EQ(keys.size(), expected);
}

TEST(CacheKey, PlusAndMinusZeroAreDifferentValues) {
  CsrMatrix plus = small_matrix();
  CsrMatrix minus = small_matrix();
  plus.values[3] = 0.0F;
  minus.values[3] = -0.0F;

  EXPECT_NE(key_of(plus), key_of(minus));
}

TEST(CacheKey, ThePatternAndTheShapeChangeIt) {
  const CsrMatrix base = small_matrix();
  CsrMatrix moved = base;
  moved.col_idxs[2] = 2;
  CsrMatrix wider = base;
  wider.cols = 6;
  CsrMatrix taller = base;
  taller.rows = 6;
  taller.row_ptrs.push_back(7);
  CsrMatrix other_row = base;
  other_row.row_ptrs = {0, 2, 3, 3, 6, 7};

  const std::set<std::string> keys = {key_of(base), key_of(moved), key_of(wider), key_of(taller),
                                      key_of(other_row)};

  EXPECT_EQ(keys.size(), 5U);
}

}  // namespace
