#include "compiler/cache_key.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "runtime/cache/cache_record.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::CompileOptions;
using spjit::CsrMatrix;
using spjit::HostDeviceInfo;
using spjit::HostIsa;
using spjit::testing_support::small_matrix;

CompileOptions key_options() {
  CompileOptions options;
  options.n = 64;
  options.target = spjit::Target(HostIsa::avx2);
  return options;
}

std::string key_of(const CsrMatrix& matrix) {
  return spjit::cache_key(matrix, key_options(), HostDeviceInfo{});
}

TEST(CacheKey, IsAKeyAndTheSameForTheSameInput) {
  const std::string one = key_of(small_matrix());
  const std::string two = key_of(small_matrix());

  EXPECT_TRUE(spjit::is_cache_key(one));
  EXPECT_EQ(one, two);
}

TEST(CacheKey, ASearchAlsoDependsOnItsBudgetItsContendersAndTheDevice) {
  HostDeviceInfo other;
  other.name = "another CPU";
  const auto keys = [&](spjit::SearchMode mode) {
    CompileOptions options = key_options();
    options.policy.search = mode;
    CompileOptions longer = options;
    longer.policy.search_budget_ms += 1;
    CompileOptions more = options;
    more.policy.top_k += 1;
    return std::set<std::string>{spjit::cache_key(small_matrix(), options, HostDeviceInfo{}),
                                 spjit::cache_key(small_matrix(), longer, HostDeviceInfo{}),
                                 spjit::cache_key(small_matrix(), more, HostDeviceInfo{}),
                                 spjit::cache_key(small_matrix(), options, other)};
  };

  EXPECT_EQ(keys(spjit::SearchMode::instant).size(), 1U);
  EXPECT_EQ(keys(spjit::SearchMode::ranked).size(), 4U);
  EXPECT_GE(keys(spjit::SearchMode::proxy).size(), 3U);
  EXPECT_GE(keys(spjit::SearchMode::exhaustive).size(), 3U);
}

TEST(CacheKey, WatchingASearchDoesNotChangeIt) {
  CompileOptions options = key_options();
  options.policy.search = spjit::SearchMode::ranked;
  CompileOptions watched = options;
  watched.on_search_progress = [](const spjit::SearchProgress&) {};

  EXPECT_EQ(spjit::cache_key(small_matrix(), options, HostDeviceInfo{}),
            spjit::cache_key(small_matrix(), watched, HostDeviceInfo{}));
}

TEST(CacheKey, EveryOptionThatDecidesTheKernelChangesIt) {
  const std::vector<std::function<void(CompileOptions&)>> changes = {
      [](CompileOptions&) {},
      [](CompileOptions& o) { o.n = 65; },
      [](CompileOptions& o) { o.ldb = 80; },
      [](CompileOptions& o) { o.target = spjit::Target(HostIsa::avx512); },
      [](CompileOptions& o) { o.target = spjit::Target(HostIsa::generic); },
      [](CompileOptions& o) { o.threads = 2; },
      [](CompileOptions& o) { o.reorder = spjit::ReorderAlgorithm::none; },
      [](CompileOptions& o) { o.reorder = spjit::ReorderAlgorithm::balanced; },
      [](CompileOptions& o) { o.search = spjit::SearchMode::ranked; },
      [](CompileOptions& o) { o.search = spjit::SearchMode::proxy; },
      [](CompileOptions& o) { o.search = spjit::SearchMode::exhaustive; },
      [](CompileOptions& o) { o.code_budget_bytes = 0; },
      [](CompileOptions& o) { o.panel_columns = 8; },
      [](CompileOptions& o) { o.panel_columns = 16; }};
  std::set<std::string> keys;
  for (const auto& change : changes) {
    CompileOptions options = key_options();
    change(options);

    keys.insert(spjit::cache_key(small_matrix(), options, HostDeviceInfo{}));
  }

  EXPECT_EQ(keys.size(), changes.size());
}

TEST(CacheKey, WhatTheChoiceOfTheTileLooksAtInTheDeviceChangesIt) {
  const std::vector<std::function<void(HostDeviceInfo&)>> changes = {
      [](HostDeviceInfo&) {}, [](HostDeviceInfo& l) { l.l1i_bytes *= 2; },
      [](HostDeviceInfo& l) { l.l1d_bytes *= 2; }, [](HostDeviceInfo& l) { l.l2_bytes *= 2; },
      [](HostDeviceInfo& l) { l.fmas_per_cycle = 1; }};
  std::set<std::string> keys;
  for (const auto& change : changes) {
    HostDeviceInfo limits;
    change(limits);

    keys.insert(spjit::cache_key(small_matrix(), key_options(), limits));
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
