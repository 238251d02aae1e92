// Which family the rules choose where L3 is near, of products whose times on a Zen 4 are in
// bench/results/choice.

#include <gtest/gtest.h>

#include <string>

#include "artifact/families.hpp"
#include "kernels/host/near_l3_rules.hpp"
#include "runtime/host/host_device_info.hpp"
#include "tests/support/family_choice.hpp"

namespace {

using spjit::HostDeviceInfo;
using spjit::HostIsa;
using spjit::testing_support::cold;
using spjit::testing_support::hot;
using spjit::testing_support::matrix_of;
using spjit::testing_support::Product;

/// 1 MB of L2 and 32 MB of a near L3.
HostDeviceInfo zen4(HostIsa isa) {
  HostDeviceInfo limits;
  limits.isa = isa;
  limits.lanes = spjit::lanes_of(isa);
  limits.registers = spjit::registers_of(isa);
  limits.l2_bytes = 1 << 20;
  limits.l3_bytes = 32 << 20;
  limits.fmas_per_cycle = isa == HostIsa::avx512 ? 1 : 2;
  return limits;
}

TEST(NearL3Choice, LongCodeAndALongPanelOfBAreLeftToCompact) {
  const HostDeviceInfo avx512 = zen4(HostIsa::avx512);

  EXPECT_EQ(hot(avx512, {16384, 8192, 0.99, 32}), "compact");
  EXPECT_EQ(hot(avx512, {1536, 8192, 0.9, 256}), "compact");
  EXPECT_EQ(hot(avx512, {2048, 4096, 0.9, 64}), "compact");
  EXPECT_EQ(hot(avx512, {768, 3072, 0.9, 64}), "compact");
  EXPECT_EQ(hot(avx512, {768, 3072, 0.95, 64}), "compact") << "B is half of L2";
  EXPECT_EQ(hot(avx512, {2048, 512, 0.9, 64}), "unrolled");
  EXPECT_EQ(hot(avx512, {16384, 64, 0.9, 64}), "compact") << "C is four times L2";
  EXPECT_EQ(hot(avx512, {768, 3072, 0.9, 48}), "unrolled") << "eight rows at once";
  HostDeviceInfo two_fmas = avx512;
  two_fmas.fmas_per_cycle = 2;
  EXPECT_EQ(hot(two_fmas, {768, 3072, 0.9, 64}), "unrolled") << "compact takes rows together";
  EXPECT_EQ(hot(avx512, {512, 4096, 0.98, 64}), "unrolled");
  EXPECT_EQ(cold(avx512, {1024, 8192, 0.95, 1024}), "compact");
  EXPECT_EQ(hot(avx512, {16384, 768, 0.8, 16}), "compact");
  EXPECT_EQ(hot(avx512, {2048, 768, 0.8, 16}), "unrolled");
}

TEST(NearL3Choice, Avx2LeavesLongCodeToCompactUnlessCPassesL3) {
  const HostDeviceInfo avx2 = zen4(HostIsa::avx2);

  EXPECT_EQ(hot(avx2, {1536, 8192, 0.9, 256}), "compact");
  EXPECT_EQ(hot(avx2, {2048, 512, 0.95, 16}), "compact");
  EXPECT_EQ(hot(avx2, {16384, 768, 0.98, 1024}), "unrolled");
}

TEST(NearL3Choice, PackingALargeBIsFasterThanCodeThatReadsItInPlace) {
  for (const HostIsa isa : {HostIsa::avx2, HostIsa::avx512}) {
    EXPECT_EQ(hot(zen4(isa), {128, 8192, 0.95, 512}), "compact");
    EXPECT_EQ(cold(zen4(isa), {128, 8192, 0.95, 512}), "compact");
    EXPECT_EQ(hot(zen4(isa), {128, 8192, 0.99, 256}), "csr");
    EXPECT_EQ(hot(zen4(isa), {16, 768, 0.99, 256}), "csr");
  }
  EXPECT_EQ(cold(zen4(HostIsa::avx512), {16, 8192, 0.6, 512}), "compact");
  EXPECT_EQ(hot(zen4(HostIsa::avx512), {64, 256, 0.8, 512}), "unrolled");
  EXPECT_EQ(hot(zen4(HostIsa::avx2), {384, 256, 0.95, 256}), "compact");
  EXPECT_EQ(hot(zen4(HostIsa::avx512), {16, 8192, 0.8, 256}), "unrolled");
  EXPECT_EQ(hot(zen4(HostIsa::avx2), {16, 8192, 0.8, 256}), "unrolled");
}

TEST(NearL3Choice, HotRowsOfLessThanAVectorAreNotStoredByCode) {
  EXPECT_EQ(hot(zen4(HostIsa::avx2), {384, 384, 0.95, 7}), "compact");
  EXPECT_EQ(hot(zen4(HostIsa::avx2), {384, 384, 0.95, 8}), "unrolled");
  EXPECT_EQ(hot(zen4(HostIsa::avx512), {1536, 16, 0.99, 4}), "compact");
  EXPECT_EQ(hot(zen4(HostIsa::avx2), {128, 8192, 0.99, 2}), "csr");
  EXPECT_EQ(hot(zen4(HostIsa::avx512), {384, 384, 0.95, 8}), "compact");
  EXPECT_EQ(hot(zen4(HostIsa::avx512), {384, 384, 0.95, 16}), "unrolled");
}

TEST(NearL3Choice, RowsOfCInOneSetOfL1AreWrittenByALoop) {
  for (const HostIsa isa : {HostIsa::avx2, HostIsa::avx512}) {
    EXPECT_EQ(hot(zen4(isa), {64, 64, 0.9, 1024}), "compact");
    EXPECT_EQ(hot(zen4(isa), {64, 64, 0.9, 1020}), "unrolled");
    EXPECT_EQ(hot(zen4(isa), {4096, 16, 0.95, 256}), "csr");
  }
  EXPECT_EQ(hot(zen4(HostIsa::avx512), {4096, 16, 0.95, 250}), "unrolled");
  EXPECT_EQ(hot(zen4(HostIsa::avx2), {4096, 16, 0.95, 250}), "compact");
}

TEST(NearL3Choice, WindowsAreForOneColumnOfAnyAHot) {
  for (const HostIsa isa : {HostIsa::avx2, HostIsa::avx512}) {
    for (const Product& product : {Product{384, 384, 0.8, 1},
                                   {64, 64, 0.8, 1},
                                   {4096, 4096, 0.98, 1},
                                   {192, 16, 0.98, 1},
                                   {16, 8192, 0.9, 1},
                                   {64, 20000, 0.98, 1},
                                   {1024, 1024, 0.5, 1}}) {
      EXPECT_EQ(hot(zen4(isa), product), "windows") << product.rows << ' ' << product.cols;
    }
  }
  // AVX2's steps name 65,536 columns.
  EXPECT_EQ(hot(zen4(HostIsa::avx2), {8, 65536, 0.9, 1}), "windows");
  EXPECT_EQ(hot(zen4(HostIsa::avx2), {8, 65537, 0.9, 1}), "compact");
  EXPECT_EQ(cold(zen4(HostIsa::avx2), {16, 65537, 0.9, 1}), "compact");
}

TEST(NearL3Choice, LongCodeOfFewColumnsIsLeftToCompact) {
  const HostDeviceInfo avx512 = zen4(HostIsa::avx512);

  EXPECT_EQ(hot(avx512, {768, 4096, 0.9, 16}), "compact") << "a panel of B is a quarter of L2";
  EXPECT_EQ(hot(avx512, {2048, 768, 0.8, 16}), "unrolled");
  EXPECT_EQ(hot(avx512, {8192, 384, 0.6, 32}), "compact") << "code is twelve times L2";
  EXPECT_EQ(hot(avx512, {8192, 256, 0.7, 32}), "compact") << "of many rows";
  EXPECT_EQ(hot(avx512, {768, 3072, 0.8, 32}), "unrolled");
  EXPECT_EQ(hot(zen4(HostIsa::avx2), {768, 1536, 0.98, 16}), "compact") << "B leaves L1";
  EXPECT_EQ(hot(zen4(HostIsa::avx2), {1024, 384, 0.98, 16}), "unrolled");
}

TEST(NearL3Choice, ALoopWritesShortRowsThatShareASetOfL1) {
  const HostDeviceInfo avx512 = zen4(HostIsa::avx512);
  const HostDeviceInfo avx2 = zen4(HostIsa::avx2);

  EXPECT_EQ(hot(avx512, {8192, 768, 0.99, 256}), "csr") << "C is eight times L2";
  EXPECT_EQ(hot(avx512, {1536, 768, 0.99, 256}), "unrolled") << "C is smaller";
  EXPECT_EQ(hot(avx512, {8192, 768, 0.99, 248}), "unrolled") << "rows of C have other sets";
  EXPECT_EQ(hot(avx512, {512, 128, 0.98, 512}), "csr") << "2.6 entries a row";
  EXPECT_EQ(hot(avx2, {512, 128, 0.98, 512}), "compact");
  for (const HostDeviceInfo& cpu : {avx512, avx2}) {
    EXPECT_EQ(hot(cpu, {256, 16, 0.9, 1024}), "csr");
    EXPECT_EQ(hot(cpu, {256, 384, 0.99, 512}), "csr");
    EXPECT_EQ(hot(cpu, {8192, 16, 0.95, 16}), "compact") << "n is small";
  }
}

TEST(NearL3Choice, ColdACopyOfBIsMadeWhereBIsAsLargeAsL3) {
  const HostDeviceInfo avx512 = zen4(HostIsa::avx512);
  const HostDeviceInfo avx2 = zen4(HostIsa::avx2);

  EXPECT_EQ(cold(avx512, {1024, 2048, 0.95, 4096}), "compact");
  EXPECT_EQ(cold(avx2, {1024, 2048, 0.95, 4096}), "compact");
  EXPECT_EQ(cold(avx512, {1536, 1024, 0.95, 4096}), "compact") << "half of L3 with AVX-512";
  EXPECT_EQ(cold(avx2, {384, 4096, 0.99, 4096}), "compact") << "rows of B are pages apart";
  EXPECT_EQ(cold(avx512, {384, 4096, 0.99, 4096}), "csr");
}

TEST(NearL3Choice, ColdALoopTakesWhatIsOverBeforeOtherCodeHasCome) {
  EXPECT_EQ(cold(zen4(HostIsa::avx2), {512, 256, 0.95, 8}), "csr");
  EXPECT_EQ(cold(zen4(HostIsa::avx2), {128, 384, 0.9, 4}), "csr");
  EXPECT_EQ(cold(zen4(HostIsa::avx2), {1024, 64, 0.9, 4}), "compact") << "rows are short";
  EXPECT_EQ(cold(zen4(HostIsa::avx512), {16, 64, 0.6, 128}), "csr");
  EXPECT_EQ(cold(zen4(HostIsa::avx2), {256, 384, 0.95, 128}), "csr");
  for (const HostIsa isa : {HostIsa::avx2, HostIsa::avx512}) {
    EXPECT_EQ(cold(zen4(isa), {4096, 64, 0.99, 2}), "windows") << "most rows are empty";
  }
}

TEST(NearL3Choice, WindowsOfOneColumnAreForEnoughEntriesCold) {
  for (const HostIsa isa : {HostIsa::avx2, HostIsa::avx512}) {
    EXPECT_EQ(cold(zen4(isa), {1024, 768, 0.9, 1}), "windows");
    EXPECT_EQ(cold(zen4(isa), {384, 384, 0.8, 1}), "windows");
    EXPECT_EQ(cold(zen4(isa), {2048, 2048, 0.98, 1}), "compact");
    EXPECT_EQ(cold(zen4(isa), {384, 1536, 0.98, 1}), "windows") << "a short A";
    EXPECT_EQ(cold(zen4(isa), {64, 128, 0.95, 1}), "csr");
  }
  EXPECT_EQ(cold(zen4(HostIsa::avx2), {128, 96, 0.9, 1}), "csr");
  EXPECT_EQ(cold(zen4(HostIsa::avx512), {128, 96, 0.9, 1}), "windows");
  EXPECT_EQ(cold(zen4(HostIsa::avx2), {384, 4096, 0.98, 1}), "compact");
  EXPECT_EQ(cold(zen4(HostIsa::avx2), {1024, 1024, 0.95, 1}), "windows");
  EXPECT_EQ(cold(zen4(HostIsa::avx2), {128, 8192, 0.98, 1}), "windows") << "rows share few entries";
  EXPECT_EQ(cold(zen4(HostIsa::avx2), {64, 20000, 0.98, 1}), "windows") << "rows share no entry";
  EXPECT_EQ(cold(zen4(HostIsa::avx512), {192, 8192, 0.98, 1}), "windows");
}

TEST(NearL3Choice, WindowsOfMoreColumnsAreForMoreEntries) {
  const HostDeviceInfo avx512 = zen4(HostIsa::avx512);
  const HostDeviceInfo avx2 = zen4(HostIsa::avx2);

  EXPECT_EQ(hot(avx512, {384, 16384, 0.99, 4}), "compact");
  EXPECT_EQ(hot(avx512, {256, 512, 0.7, 4}), "windows");
  EXPECT_EQ(hot(avx512, {2048, 16384, 0.9, 4}), "compact") << "A is larger than half of L3";
  EXPECT_EQ(hot(avx512, {384, 1024, 0.9, 4}), "windows");
  EXPECT_EQ(hot(avx512, {384, 1024, 0.92, 4}), "compact");
  EXPECT_EQ(hot(avx512, {10, 128, 0.9, 4}), "windows");
  EXPECT_EQ(hot(avx512, {256, 64, 0.9, 4}), "compact") << "rows are short";
  EXPECT_EQ(hot(avx512, {2048, 256, 0.98, 2}), "compact") << "rows are short";
  EXPECT_EQ(hot(avx512, {2048, 1024, 0.98, 2}), "windows");
  EXPECT_EQ(hot(avx512, {64, 20000, 0.98, 4}), "windows") << "no two rows share an entry";
  EXPECT_EQ(hot(avx512, {384, 16384, 0.98, 4}), "compact");
  EXPECT_EQ(hot(avx512, {384, 1536, 0.95, 2}), "windows");
  EXPECT_EQ(cold(avx512, {128, 4096, 0.9, 2}), "windows");
  EXPECT_EQ(cold(avx512, {256, 512, 0.7, 4}), "windows");
  EXPECT_EQ(cold(avx512, {2048, 2048, 0.98, 3}), "compact");
  EXPECT_EQ(hot(avx2, {384, 384, 0.95, 2}), "windows");
  EXPECT_EQ(hot(avx2, {512, 2048, 0.98, 2}), "compact");
  EXPECT_EQ(hot(avx2, {2048, 2048, 0.95, 3}), "compact");
  EXPECT_EQ(hot(avx2, {512, 64, 0.99, 2}), "windows") << "rows are nearly empty";
  EXPECT_EQ(cold(avx2, {256, 512, 0.7, 4}), "windows");
  EXPECT_EQ(cold(avx2, {2048, 16384, 0.9, 4}), "windows") << "A is larger than half of L3";
  EXPECT_EQ(cold(avx2, {2048, 1024, 0.9, 4}), "compact");
  EXPECT_EQ(cold(avx2, {2048, 2048, 0.95, 3}), "compact");
  EXPECT_NE(hot(avx2, {384, 384, 0.8, 5}), "windows");
}

TEST(NearL3Choice, OneTokenIsChosenForAsOneColumn) {
  const HostDeviceInfo limits = zen4(HostIsa::avx2);
  spjit::Problem problem = spjit::testing_support::problem_of(matrix_of({384, 384, 0.8, 1}), 1);
  problem.b.layout = problem.c.layout = spjit::Layout::tokens_major;
  spjit::CompileOptions options;
  options.target = spjit::Target(limits.isa);
  const spjit::DeviceInfo device = limits;

  EXPECT_EQ(spjit::chosen_family({problem, options, device, {}})->name(), "windows");
  options.policy.hot = true;
  EXPECT_EQ(spjit::chosen_family({problem, options, device, {}})->name(), "windows");
  options.policy.network_nnz = 60'000;
  options.policy.hot = false;
  EXPECT_EQ(spjit::chosen_family({problem, options, device, {}})->name(), "windows");
}

TEST(NearL3Choice, ColdFewEntriesInABlockAreALoop) {
  for (const HostIsa isa : {HostIsa::avx2, HostIsa::avx512}) {
    EXPECT_EQ(cold(zen4(isa), {2048, 2048, 0.98, 64}), "csr");
    EXPECT_EQ(cold(zen4(isa), {512, 512, 0.95, 64}), "csr");
    EXPECT_EQ(cold(zen4(isa), {2048, 2048, 0.99, 256}), "csr");
    EXPECT_EQ(cold(zen4(isa), {2048, 8192, 0.98, 64}), "compact");
    EXPECT_EQ(cold(zen4(isa), {1024, 2048, 0.9, 128}), "compact");
    EXPECT_EQ(cold(zen4(isa), {256, 768, 0.99, 16}), "csr");
    EXPECT_EQ(cold(zen4(isa), {64, 20000, 0.95, 32}), "compact");
  }
  EXPECT_EQ(cold(zen4(HostIsa::avx512), {2048, 2048, 0.98, 256}), "csr");
  EXPECT_EQ(cold(zen4(HostIsa::avx2), {2048, 2048, 0.98, 256}), "compact");
  EXPECT_EQ(cold(zen4(HostIsa::avx2), {384, 1536, 0.95, 32}), "compact");
  EXPECT_EQ(hot(zen4(HostIsa::avx2), {2048, 2048, 0.98, 64}), "compact");
  EXPECT_EQ(hot(zen4(HostIsa::avx2), {2048, 2048, 0.99, 64}), "csr");
  EXPECT_EQ(hot(zen4(HostIsa::avx512), {2048, 2048, 0.98, 64}), "compact");
}

TEST(NearL3Choice, Avx2TakesRowsOneByOneForManyColumns) {
  const HostDeviceInfo limits = zen4(HostIsa::avx2);
  for (const Product& product :
       {Product{256, 1024, 0.9, 255}, Product{2048, 8192, 0.98, 1024}, Product{1024, 128, 0.7, 512},
        Product{64, 4096, 0.8, 128}, Product{1536, 384, 0.8, 600}, Product{8192, 128, 0.9, 512}}) {
    EXPECT_EQ(hot(limits, product), "compact");
    EXPECT_EQ(cold(limits, product), "compact");
  }
  EXPECT_EQ(hot(limits, {1536, 384, 0.95, 32}), "compact");
  EXPECT_EQ(hot(limits, {1536, 384, 0.95, 16}), "unrolled") << "slices";
  EXPECT_EQ(hot(limits, {1536, 384, 0.98, 32}), "unrolled") << "few products";
  EXPECT_EQ(cold(limits, {16, 8192, 0.8, 256}), "compact") << "few entries, long rows";
  EXPECT_EQ(cold(limits, {64, 256, 0.95, 600}), "csr") << "few entries";
  EXPECT_EQ(cold(limits, {2048, 16, 0.95, 1024}), "compact") << "short rows, cold";
  EXPECT_EQ(hot(limits, {2048, 16, 0.95, 1024}), "csr") << "short rows";
  EXPECT_EQ(hot(limits, {16384, 768, 0.98, 1024}), "unrolled") << "a large C";
  EXPECT_EQ(hot(limits, {1536, 256, 0.8, 4096}), "unrolled") << "C passes L3";
}

TEST(NearL3Choice, Avx2TakesRowsOneByOneForAnyNAndTokens) {
  const HostDeviceInfo limits = zen4(HostIsa::avx2);
  spjit::Problem problem = spjit::testing_support::problem_of(matrix_of({512, 512, 0.8, 512}), 512);
  problem.n.runtime = true;
  spjit::CompileOptions options;
  options.target = spjit::Target(limits.isa);
  const spjit::DeviceInfo device = limits;
  const spjit::FamilyRequest request{problem, options, device, {}};

  EXPECT_EQ(spjit::chosen_family(request)->name(), "compact");
  const spjit::KernelFamily& compact = spjit::find_family("compact", "host");
  EXPECT_FALSE(spjit::backend_named("host").leaves_to_others(compact, request));
  problem.b.layout = problem.c.layout = spjit::Layout::tokens_major;
  EXPECT_TRUE(spjit::near_l3_suits_rows(request));
  problem.panel_columns = 16;
  EXPECT_FALSE(spjit::near_l3_suits_rows(request)) << "narrow panels";
}

TEST(NearL3Choice, IsNotAskedForASmallNetwork) {
  const HostDeviceInfo limits = zen4(HostIsa::avx512);
  const spjit::Problem problem =
      spjit::testing_support::problem_of(matrix_of({512, 512, 0.98, 64}), 64);
  spjit::CompileOptions options;
  options.target = spjit::Target(limits.isa);
  options.policy.network_nnz = 60'000;
  const spjit::DeviceInfo device = limits;
  const spjit::FamilyRequest request{problem, options, device, {}};

  EXPECT_FALSE(spjit::is_near_l3(request));
  options.policy.network_nnz = 0;
  EXPECT_TRUE(spjit::is_near_l3(request));
}

TEST(NearL3Choice, ZerosAreMultipliedOnlyWhereWindowsAndShorterAAreSlower) {
  for (const HostIsa isa : {HostIsa::avx2, HostIsa::avx512}) {
    EXPECT_EQ(hot(zen4(isa), {384, 384, 0.4, 1}), "dense");
    EXPECT_EQ(hot(zen4(isa), {384, 384, 0.7, 1}), "windows");
    EXPECT_EQ(hot(zen4(isa), {1024, 1024, 0.3, 1}), "dense");
    EXPECT_EQ(hot(zen4(isa), {1024, 1024, 0.5, 1}), "windows") << "beyond L2";
    EXPECT_EQ(cold(zen4(isa), {1024, 1024, 0.5, 1}), "windows");
    EXPECT_EQ(cold(zen4(isa), {1024, 1024, 0.2, 1}), "dense");
  }
  EXPECT_EQ(hot(zen4(HostIsa::avx2), {1024, 1024, 0.5, 4}), "dense");
  EXPECT_EQ(hot(zen4(HostIsa::avx512), {1024, 1024, 0.5, 4}), "windows") << "over three L2";
  EXPECT_EQ(cold(zen4(HostIsa::avx512), {1024, 1024, 0.5, 4}), "windows");
  EXPECT_EQ(cold(zen4(HostIsa::avx2), {1024, 1024, 0.5, 4}), "compact");
  EXPECT_EQ(hot(zen4(HostIsa::avx2), {384, 384, 0.5, 1}), "dense");
  EXPECT_EQ(hot(zen4(HostIsa::avx2), {256, 1024, 0.6, 1}), "dense");
  EXPECT_EQ(hot(zen4(HostIsa::avx512), {256, 1024, 0.6, 1}), "windows");
  EXPECT_EQ(hot(zen4(HostIsa::avx2), {16, 384, 0.6, 1}), "windows") << "few rows";
  EXPECT_EQ(hot(zen4(HostIsa::avx2), {64, 16, 0.6, 2}), "windows") << "two windows a row";
  EXPECT_EQ(hot(zen4(HostIsa::avx2), {64, 32, 0.6, 2}), "dense");
  EXPECT_EQ(hot(zen4(HostIsa::avx512), {384, 384, 0.5, 1}), "dense");
  EXPECT_EQ(hot(zen4(HostIsa::avx512), {4096, 2048, 0.5, 4}), "windows");
  EXPECT_EQ(cold(zen4(HostIsa::avx2), {1024, 1024, 0.3, 4}), "dense");
  EXPECT_EQ(cold(zen4(HostIsa::avx512), {1024, 1024, 0.3, 4}), "windows");
}

TEST(NearL3Choice, Avx512MultipliesZerosOfAnAInL2UpToSixtyPercent) {
  const auto of = [](const Product& what) { return hot(zen4(HostIsa::avx512), what); };

  EXPECT_EQ(of({384, 384, 0.6, 1}), "windows");
  for (const std::int64_t n : {2, 3, 4}) {
    EXPECT_EQ(of({384, 384, 0.6, n}), "dense");
    EXPECT_EQ(of({384, 384, 0.7, n}), "windows");
    EXPECT_EQ(of({16, 384, 0.6, n}), "windows") << "few rows";
  }
  EXPECT_EQ(of({16, 4096, 0.5, 1}), "windows") << "few rows";
  EXPECT_EQ(of({64, 16, 0.6, 2}), "windows") << "two windows a row";
  EXPECT_EQ(of({384, 384, 0.9, 4}), "compact") << "of one block";
  EXPECT_EQ(of({384, 1024, 0.9, 4}), "windows");
  EXPECT_EQ(of({64, 64, 0.9, 4}), "windows") << "is short";
  EXPECT_EQ(of({384, 384, 0.5, 6}), "dense");
  EXPECT_EQ(of({384, 384, 0.6, 6}), "compact");
  EXPECT_EQ(of({384, 384, 0.4, 7}), "dense");
  EXPECT_EQ(of({384, 384, 0.5, 7}), "compact");
}

TEST(NearL3Choice, Avx2TakesFourColumnsOfALongAByCompact) {
  const auto of = [](const Product& what, bool is_hot) {
    return is_hot ? hot(zen4(HostIsa::avx2), what) : cold(zen4(HostIsa::avx2), what);
  };

  EXPECT_EQ(of({1024, 1024, 0.8, 4}, true), "compact");
  EXPECT_EQ(of({1024, 1024, 0.8, 3}, true), "windows");
  EXPECT_EQ(of({1024, 1024, 0.8, 4}, false), "compact");
  EXPECT_EQ(of({384, 384, 0.7, 4}, false), "windows") << "is short";
  EXPECT_EQ(of({128, 128, 0.8, 4}, true), "windows");
  EXPECT_EQ(of({16, 16384, 0.8, 4}, false), "windows") << "few rows";
  EXPECT_EQ(of({128, 128, 0.9, 3}, true), "windows") << "is short";
  EXPECT_EQ(of({384, 384, 0.9, 3}, true), "compact");
  EXPECT_EQ(of({384, 384, 0.7, 2}, true), "dense");
  EXPECT_EQ(of({16, 16384, 0.7, 2}, true), "windows") << "few rows";
}

TEST(NearL3Choice, ColdACThatPassesL3IsWrittenOnce) {
  EXPECT_EQ(cold(zen4(HostIsa::avx2), {16384, 128, 0.6, 256}), "compact");
  EXPECT_EQ(cold(zen4(HostIsa::avx512), {16384, 128, 0.6, 256}), "compact") << "half of L3";
  EXPECT_EQ(cold(zen4(HostIsa::avx512), {8192, 128, 0.9, 512}), "compact") << "short rows";
  EXPECT_EQ(cold(zen4(HostIsa::avx512), {8192, 128, 0.7, 512}), "unrolled");
  EXPECT_EQ(cold(zen4(HostIsa::avx512), {1536, 256, 0.8, 4096}), "unrolled");
  EXPECT_EQ(cold(zen4(HostIsa::avx512), {4096, 64, 0.9, 4096}), "compact") << "one block";
  EXPECT_EQ(cold(zen4(HostIsa::avx2), {16384, 768, 0.98, 1024}), "csr");
  EXPECT_EQ(cold(zen4(HostIsa::avx2), {512, 384, 0.98, 4096}), "unrolled");
  EXPECT_EQ(cold(zen4(HostIsa::avx2), {1024, 128, 0.9, 4096}), "unrolled");
  EXPECT_EQ(cold(zen4(HostIsa::avx512), {8192, 256, 0.99, 4096}), "csr");
  EXPECT_EQ(cold(zen4(HostIsa::avx2), {8192, 256, 0.99, 4096}), "unrolled");
}

TEST(NearL3Choice, Avx2WritesALargeCPastTheCachesByCode) {
  EXPECT_EQ(hot(zen4(HostIsa::avx2), {512, 384, 0.98, 4096}), "unrolled");
  EXPECT_EQ(hot(zen4(HostIsa::avx2), {512, 16, 0.98, 4096}), "unrolled");
  EXPECT_EQ(cold(zen4(HostIsa::avx2), {512, 16, 0.98, 4096}), "unrolled");
  EXPECT_EQ(hot(zen4(HostIsa::avx2), {2048, 16, 0.95, 1024}), "csr") << "not all of C is zeros";
}

TEST(NearL3Choice, HotFewEntriesOfManyColumnsAreALoop) {
  EXPECT_EQ(hot(zen4(HostIsa::avx512), {2048, 2048, 0.99, 128}), "csr");
  EXPECT_EQ(hot(zen4(HostIsa::avx512), {2048, 1024, 0.99, 128}), "unrolled");
  EXPECT_EQ(hot(zen4(HostIsa::avx512), {2048, 2048, 0.98, 128}), "compact");
}

TEST(NearL3Choice, ColdRowsOneByOneTakeLongOrManyOnes) {
  const HostDeviceInfo avx512 = zen4(HostIsa::avx512);

  EXPECT_EQ(cold(avx512, {2048, 2048, 0.97, 256}), "compact");
  EXPECT_EQ(cold(avx512, {2048, 2048, 0.98, 256}), "csr");
  EXPECT_EQ(cold(avx512, {64, 1536, 0.95, 256}), "csr") << "few entries a column";
  EXPECT_EQ(cold(avx512, {1024, 128, 0.95, 1024}), "compact");
  EXPECT_EQ(cold(avx512, {1024, 128, 0.95, 256}), "csr");
}

}  // namespace
