// Which family the rules choose, given the caches. Nothing is timed: what was is in
// bench/results/choice, and bench/choice_bench holds the rules against it.

#include "tests/support/family_choice.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "artifact/families.hpp"
#include "runtime/host/host_device_info.hpp"
#include "spjit/compiler.hpp"
#include "tests/support/compile_testing.hpp"

namespace {

using spjit::HostDeviceInfo;
using spjit::HostIsa;
using spjit::testing_support::chosen;
using spjit::testing_support::cold;
using spjit::testing_support::hot;
using spjit::testing_support::matrix_of;
using spjit::testing_support::problem_of;
using spjit::testing_support::Product;
using spjit::testing_support::uncached;

/// 1 MB of L2 and 36 MB of L3, which is far for AVX-512.
HostDeviceInfo xeon(HostIsa isa) {
  HostDeviceInfo limits;
  limits.isa = isa;
  limits.lanes = spjit::lanes_of(isa);
  limits.registers = spjit::registers_of(isa);
  limits.l2_bytes = 1 << 20;
  limits.l3_bytes = 36608 << 10;
  limits.l3_is_far = isa == HostIsa::avx512;
  return limits;
}

/// 512 KB of L2 and 32 MB of a near L3.
HostDeviceInfo zen3() {
  HostDeviceInfo limits = xeon(HostIsa::avx2);
  limits.l2_bytes = 512 << 10;
  limits.l3_bytes = 32 << 20;
  limits.l3_is_far = false;
  return limits;
}

TEST(FamilyChoice, HotCodeThatNoCacheHoldsIsLeftToTheLoop) {
  for (const HostDeviceInfo& limits : {zen3(), xeon(HostIsa::avx2)}) {
    for (const double sparsity : {0.7, 0.8, 0.9}) {
      EXPECT_EQ(hot(limits, {4096, 4096, sparsity, 5}), "compact") << sparsity;
    }
    EXPECT_EQ(hot(limits, {4096, 4096, 0.8, 1}), "windows");
    EXPECT_EQ(hot(limits, {4096, 1024, 0.5, 8}), "compact");
    EXPECT_EQ(hot(limits, {2048, 1024, 0.8, 8}), "compact");
    EXPECT_EQ(hot(limits, {4096, 1024, 0.5, 16}), "compact");
  }
  EXPECT_EQ(hot(xeon(HostIsa::avx512), {1536, 384, 0.6, 8}), "compact");
  EXPECT_EQ(hot(xeon(HostIsa::avx512), {384, 768, 0.95, 8}), "compact");
  EXPECT_EQ(hot(xeon(HostIsa::avx512), {4096, 1024, 0.8, 16}), "compact");
}

TEST(FamilyChoice, HotCodeThatStaysInL2OrComputesManyColumnsIsUnrolled) {
  for (const HostDeviceInfo& limits : {zen3(), xeon(HostIsa::avx2), xeon(HostIsa::avx512)}) {
    EXPECT_EQ(hot(limits, {256, 128, 0.8, 16}), "unrolled");
    EXPECT_EQ(hot(limits, {256, 128, 0.8, 128}), limits.l3_is_far ? "unrolled" : "compact");
  }
  EXPECT_EQ(hot(xeon(HostIsa::avx2), {1536, 2048, 0.8, 128}), "compact");
  EXPECT_EQ(hot(xeon(HostIsa::avx512), {1536, 2048, 0.8, 128}), "unrolled");
  EXPECT_EQ(hot(zen3(), {384, 768, 0.95, 8}), "unrolled");
  HostDeviceInfo large = zen3();
  large.l2_bytes = 128 << 20;
  EXPECT_EQ(hot(large, {4096, 1024, 0.5, 8}), "unrolled");
}

TEST(FamilyChoice, HotFewColumnsHaveWindowsWithAvx512UnlessRowsAreEmpty) {
  const HostDeviceInfo limits = xeon(HostIsa::avx512);

  EXPECT_EQ(hot(limits, {2048, 1024, 0.8, 1}), "windows");
  EXPECT_EQ(hot(limits, {2048, 1024, 0.98, 4}), "windows");
  EXPECT_EQ(hot(limits, {16, 24, 0.8, 4}), "windows");
  EXPECT_EQ(hot(limits, {512, 64, 0.99, 2}), "compact");
}

TEST(FamilyChoice, HotLongWindowsOfFewEntriesAreNotTaken) {
  EXPECT_EQ(hot(xeon(HostIsa::avx512), {8192, 1536, 0.95, 4}), "compact");
  EXPECT_EQ(hot(xeon(HostIsa::avx512), {4096, 1024, 0.8, 4}), "windows");
}

TEST(FamilyChoice, HotAvx2MultipliesZerosForFewColumnsSooner) {
  EXPECT_EQ(hot(xeon(HostIsa::avx2), {1536, 256, 0.6, 4}), "dense");
  EXPECT_NE(hot(xeon(HostIsa::avx2), {1536, 256, 0.6, 5}), "dense");
  EXPECT_NE(hot(xeon(HostIsa::avx2), {1536, 256, 0.8, 4}), "dense");
  EXPECT_NE(hot(xeon(HostIsa::avx2), {4096, 1024, 0.6, 4}), "dense");
  EXPECT_NE(cold(xeon(HostIsa::avx2), {1536, 256, 0.6, 4}), "dense");
}

TEST(FamilyChoice, FromAFarL3WindowsOfManyEntriesComeSooner) {
  EXPECT_EQ(cold(xeon(HostIsa::avx512), {1024, 768, 0.9, 1}), "windows");
  EXPECT_EQ(cold(xeon(HostIsa::avx512), {2048, 256, 0.7, 4}), "windows");
  EXPECT_EQ(cold(xeon(HostIsa::avx512), {2048, 1024, 0.98, 1}), "compact");
  EXPECT_EQ(cold(xeon(HostIsa::avx512), {2048, 256, 0.8, 4}), "compact");
}

TEST(FamilyChoice, OfATinyLayerColdTheLeastCodeIsTaken) {
  for (const HostDeviceInfo& limits : {zen3(), xeon(HostIsa::avx2), xeon(HostIsa::avx512)}) {
    EXPECT_EQ(cold(limits, {16, 24, 0.8, 4}), "csr");
    EXPECT_EQ(cold(limits, {256, 128, 0.95, 4}), limits.l3_is_far ? "compact" : "csr");
  }
  EXPECT_EQ(hot(zen3(), {16, 24, 0.8, 4}), "windows");
}

TEST(FamilyChoice, ColdShortRowsAreALoopUnlessCIsStreamed) {
  EXPECT_EQ(cold(xeon(HostIsa::avx2), {512, 16, 0.7, 64}), "csr");
  EXPECT_EQ(cold(xeon(HostIsa::avx2), {8144, 11, 0.95, 16}), "csr");
  EXPECT_EQ(cold(xeon(HostIsa::avx2), {592, 192, 0.9, 192}), "csr");
  EXPECT_EQ(cold(xeon(HostIsa::avx512), {4096, 16, 0.98, 1024}), "unrolled");
  EXPECT_EQ(cold(xeon(HostIsa::avx512), {16384, 768, 0.98, 1024}), "unrolled");
  EXPECT_EQ(cold(xeon(HostIsa::avx512), {512, 1024, 0.98, 4096}), "unrolled");
}

TEST(FamilyChoice, FewRowsWithManyEntriesAreNoLoop) {
  for (const HostIsa isa : {HostIsa::avx2, HostIsa::avx512}) {
    const std::string fastest = isa == HostIsa::avx2 ? "compact" : "unrolled";
    EXPECT_EQ(hot(xeon(isa), {16, 8192, 0.6, 512}), fastest);
    EXPECT_EQ(hot(xeon(isa), {16, 2048, 0.6, 512}), fastest);
    EXPECT_EQ(cold(xeon(isa), {16, 8192, 0.6, 512}), fastest);
    EXPECT_EQ(hot(xeon(isa), {16, 16384, 0.98, 1024}), "csr");
    EXPECT_NE(cold(xeon(isa), {16, 16384, 0.7, 2}), "csr");
  }
  EXPECT_EQ(hot(xeon(HostIsa::avx2), {512, 1024, 0.98, 4096}), "unrolled");
}

TEST(FamilyChoice, Avx2FewEntriesInABlockAreALoop) {
  const HostDeviceInfo avx2 = xeon(HostIsa::avx2);
  for (const Product& product : {Product{2048, 2048, 0.98, 64},
                                 {2048, 2048, 0.98, 128},
                                 {3000, 3000, 0.98, 64},
                                 {1024, 1024, 0.98, 64},
                                 {2048, 2048, 0.95, 64},
                                 {4096, 1536, 0.95, 128}}) {
    EXPECT_EQ(hot(avx2, product), "compact") << product.rows << ' ' << product.n;
    EXPECT_NE(cold(avx2, product), "unrolled") << product.rows << ' ' << product.n;
  }
  EXPECT_EQ(cold(avx2, {4096, 768, 0.95, 64}), "csr");
  EXPECT_EQ(cold(avx2, {4096, 768, 0.95, 128}), "compact");
  EXPECT_NE(cold(avx2, {1024, 2048, 0.9, 128}), "csr");
  EXPECT_NE(cold(avx2, {2048, 16384, 0.95, 128}), "csr");  // B beyond L2
  EXPECT_NE(hot(avx2, {2048, 16384, 0.95, 128}), "csr");
  EXPECT_NE(hot(avx2, {416, 703, 0.98, 32}), "csr");  // B's lines stay in L1
}

TEST(FamilyChoice, ColdALargeCIsWrittenOnceFromAFarL3) {
  const HostDeviceInfo limits = xeon(HostIsa::avx512);
  for (const Product& product : {Product{4096, 768, 0.95, 128},
                                 {8192, 768, 0.95, 128},
                                 {9840, 656, 0.99, 255},
                                 {4096, 384, 0.95, 128},
                                 {2048, 2048, 0.99, 64}}) {
    EXPECT_EQ(cold(limits, product), "csr") << product.rows << ' ' << product.cols;
  }
  EXPECT_EQ(cold(limits, {4096, 768, 0.9, 128}), "unrolled");
  EXPECT_EQ(cold(limits, {2048, 2048, 0.98, 64}), "compact");
  EXPECT_NE(cold(limits, {1024, 8192, 0.99, 64}), "csr");
  EXPECT_EQ(cold(limits, {159, 1177, 0.98, 192}), "csr");  // B is read three times
}

TEST(FamilyChoice, HotShortRowsAreLeftToWhatWritesCRowByRow) {
  const HostDeviceInfo avx512 = xeon(HostIsa::avx512);
  for (const Product& product : {Product{768, 16, 0.95, 32},
                                 {768, 16, 0.95, 64},
                                 {3121, 16, 0.95, 64},
                                 {8144, 11, 0.95, 16},
                                 {3285, 16, 0.8, 64}}) {
    EXPECT_EQ(hot(avx512, product), "compact") << product.rows << ' ' << product.n;
  }
  EXPECT_EQ(hot(avx512, {320, 64, 0.95, 48}), "unrolled");
  EXPECT_EQ(hot(avx512, {512, 16, 0.7, 64}), "unrolled");
  EXPECT_EQ(hot(avx512, {9840, 656, 0.99, 255}), "csr");
  EXPECT_EQ(hot(avx512, {9903, 235, 0.99, 128}), "csr");
  EXPECT_EQ(hot(avx512, {1024, 64, 0.98, 1024}), "unrolled");
  EXPECT_EQ(hot(xeon(HostIsa::avx2), {8144, 11, 0.95, 16}), "compact");
  EXPECT_EQ(hot(xeon(HostIsa::avx2), {3141, 11, 0.98, 48}), "unrolled");
}

TEST(FamilyChoice, WindowsHaveEnoughEntriesForTheColumnsTheyWrite) {
  const HostDeviceInfo limits = xeon(HostIsa::avx512);

  EXPECT_EQ(hot(limits, {1024, 64, 0.95, 4}), "compact");
  EXPECT_EQ(hot(limits, {3184, 48, 0.95, 4}), "compact");
  EXPECT_EQ(hot(limits, {1024, 64, 0.95, 2}), "windows");
  EXPECT_EQ(hot(limits, {1552, 64, 0.98, 1}), "compact");
  EXPECT_EQ(hot(limits, {1024, 64, 0.9, 4}), "windows");
}

TEST(FamilyChoice, NoWindowsWhereMostOfTheCopyOfBWouldBeUnread) {
  for (const std::int64_t cols : {65536 + 8 * 200, 65537 + 8 * 200}) {
    spjit::CsrMatrix matrix{100, cols, {0}, {}, {}};
    for (std::int64_t row = 0; row < matrix.rows; ++row) {
      matrix.col_idxs.insert(matrix.col_idxs.end(), {0, 7});
      matrix.values.insert(matrix.values.end(), {1, 2});
      matrix.row_ptrs.push_back(matrix.nnz());
    }
    spjit::CompileOptions options;
    options.target = spjit::Target(HostIsa::avx512);
    options.policy.hot = true;
    const spjit::DeviceInfo device = xeon(HostIsa::avx512);
    const spjit::Problem problem = problem_of(matrix, 1);
    const spjit::FamilyRequest request{problem, options, device, {}};

    const std::string reason = spjit::backend_named("host")
                                   .leaves_to_others(spjit::find_family("windows"), request)
                                   .reason();

    EXPECT_EQ(reason.find("most of B is unread") != std::string::npos, cols == 65537 + 8 * 200)
        << reason;
  }
}

TEST(FamilyChoice, AShortAHasWindowsColdFromAFarL3) {
  const HostDeviceInfo limits = xeon(HostIsa::avx512);
  for (const Product& product : {Product{64, 208, 0.95, 1},
                                 {1024, 64, 0.95, 1},
                                 {140, 32, 0.9, 1},
                                 {144, 106, 0.8, 4},
                                 {96, 370, 0.9, 3}}) {
    EXPECT_EQ(cold(limits, product), "windows") << product.rows << ' ' << product.n;
  }
  EXPECT_EQ(cold(limits, {487, 128, 0.8, 3}), "windows");
  EXPECT_EQ(cold(limits, {1830, 192, 0.98, 3}), "compact");
}

TEST(FamilyChoice, HotFarCodeIsNotWaitedForUpTo64Columns) {
  for (const HostIsa isa : {HostIsa::avx2, HostIsa::avx512}) {
    EXPECT_EQ(hot(xeon(isa), {6812, 592, 0.8, 24}), "compact");
    EXPECT_EQ(hot(xeon(isa), {768, 768, 0.8, 32}), "compact");
    EXPECT_EQ(hot(xeon(isa), {7712, 304, 0.95, 24}), "compact");
  }
  EXPECT_EQ(hot(xeon(HostIsa::avx2), {4096, 768, 0.9, 128}), "compact");
  EXPECT_EQ(hot(xeon(HostIsa::avx512), {4096, 768, 0.9, 128}), "unrolled");
  EXPECT_EQ(hot(xeon(HostIsa::avx512), {2000, 2000, 0.98, 60}), "compact");
  EXPECT_EQ(hot(xeon(HostIsa::avx512), {2176, 3356, 0.99, 128}), "compact");
  EXPECT_EQ(hot(xeon(HostIsa::avx512), {16384, 8192, 0.99, 32}), "unrolled");
}

TEST(FamilyChoice, Avx2HasWindowsOfAVector) {
  EXPECT_EQ(hot(xeon(HostIsa::avx2), {512, 512, 0.8, 1}), "windows");
  EXPECT_EQ(hot(xeon(HostIsa::avx2), {1024, 768, 0.9, 1}), "windows");
  EXPECT_EQ(cold(xeon(HostIsa::avx2), {512, 512, 0.8, 1}), "windows");
  EXPECT_EQ(cold(xeon(HostIsa::avx2), {96, 240, 0.7, 1}), "windows");
}

/// What exact sums of bytes have in a network of so many entries, `groups`: columns that share a
/// scale, 0: none.
std::string of_bytes(const HostDeviceInfo& limits, const Product& product, std::int64_t network_nnz,
                     std::int64_t groups = 0) {
  spjit::Problem problem = problem_of(matrix_of(product), product.n);
  problem.numerics = {spjit::DataType::i8, spjit::DataType::i8, spjit::DataType::f32,
                      spjit::Accumulate::integer()};
  if (groups > 0) {
    spjit::GroupScales scales{groups, {}};
    scales.values.assign(
        static_cast<std::size_t>(product.rows * ((product.cols + groups - 1) / groups)), 1.0F);
    problem.group_scales = std::make_shared<const spjit::GroupScales>(scales);
  }
  return chosen(limits, problem, false, network_nnz);
}

TEST(FamilyChoice, BytesFromAfarHaveMasks) {
  constexpr std::int64_t k_far = 6'000'000;      // entries, of two bytes: 12 times L2
  constexpr std::int64_t k_memory = 30'000'000;  // beyond L3
  const HostDeviceInfo far = xeon(HostIsa::avx512);

  EXPECT_EQ(of_bytes(far, {256, 256, 0.7, 1}, k_memory), "bitmask");
  EXPECT_EQ(of_bytes(far, {256, 256, 0.7, 4}, k_memory), "bitmask");
  EXPECT_EQ(of_bytes(far, {256, 256, 0.7, 5}, k_memory), "byte_windows");
  EXPECT_EQ(of_bytes(far, {256, 256, 0.9, 1}, k_memory), "byte_windows");
  EXPECT_EQ(of_bytes(far, {256, 256, 0.78, 1}, k_memory), "bitmask");
  EXPECT_EQ(of_bytes(far, {256, 256, 0.78, 1}, 10'000'000), "bitmask");
  EXPECT_EQ(of_bytes(far, {256, 256, 0.78, 1}, k_far), "byte_windows");
  EXPECT_EQ(of_bytes(far, {256, 256, 0.5, 1}, 2'000'000), "bitmask");
  EXPECT_EQ(of_bytes(far, {256, 256, 0.5, 4}, 2'000'000), "byte_windows");
  EXPECT_EQ(of_bytes(far, {256, 256, 0.5, 1}, 0), "byte_windows") << "A alone is in L2";
  EXPECT_EQ(of_bytes(far, {2048, 2048, 0.5, 1}, 0), "bitmask");
  HostDeviceInfo near = far;
  near.l3_is_far = false;
  EXPECT_EQ(of_bytes(near, {256, 256, 0.5, 1}, k_far), "byte_windows");
  EXPECT_EQ(of_bytes(near, {256, 256, 0.5, 1}, k_memory), "bitmask");
  EXPECT_EQ(of_bytes(xeon(HostIsa::avx2), {256, 256, 0.5, 1}, k_memory), "byte_windows");
}

TEST(FamilyChoice, BytesInGroupsFromAfarHaveMasksForOneToken) {
  constexpr std::int64_t k_far = 6'000'000;
  constexpr std::int64_t k_memory = 30'000'000;
  const HostDeviceInfo far = xeon(HostIsa::avx512);

  EXPECT_EQ(of_bytes(far, {256, 256, 0.82, 1}, k_memory, 32), "bitmask");
  EXPECT_EQ(of_bytes(far, {256, 256, 0.82, 1}, k_memory, 128), "byte_windows");
  EXPECT_EQ(of_bytes(far, {256, 256, 0.5, 2}, k_memory, 32), "byte_windows");
  EXPECT_EQ(of_bytes(far, {256, 256, 0.6, 1}, k_far, 32), "bitmask");
  EXPECT_EQ(of_bytes(far, {256, 256, 0.6, 1}, k_far, 128), "byte_windows");
  EXPECT_EQ(of_bytes(far, {256, 256, 0.5, 1}, 2'000'000, 32), "bitmask");
  EXPECT_EQ(of_bytes(far, {256, 256, 0.5, 1}, 2'000'000, 128), "byte_windows");
}

TEST(FamilyChoice, IsWhatIsCompiled) {
  const HostIsa isa = spjit::Target().isa();
  const spjit::HostDeviceInfo here = spjit::host_device_info(isa);
  for (const Product& product : {Product{16, 24, 0.8, 4}, {96, 64, 0.7, 8}, {64, 64, 0.2, 40}}) {
    for (const bool is_hot : {true, false}) {
      spjit::CompileOptions options;
      options.target = spjit::Target(isa);
      options.policy.hot = is_hot;

      const spjit::Kernel kernel =
          spjit::Compiler(options, uncached()).compile(problem_of(matrix_of(product), product.n));

      EXPECT_EQ(kernel.info().family, chosen(here, product, is_hot));
    }
  }
}

}  // namespace
