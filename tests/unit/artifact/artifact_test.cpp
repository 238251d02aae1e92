#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"

namespace {

using spjit::Artifact;
using spjit::CompileOptions;
using spjit::CsrMatrix;
using spjit::HostIsa;
using spjit::Kernel;
using spjit::KernelInfo;
using spjit::Problem;
using spjit::testing_support::dense_values;
using spjit::testing_support::index;
using spjit::testing_support::options_of;
using spjit::testing_support::problem_of;
using spjit::testing_support::random_matrix;
using spjit::testing_support::same_bits;
using spjit::testing_support::uncached;

constexpr std::int64_t k_m = 40;
constexpr std::int64_t k_k = 60;

Kernel compiled(const Problem& problem, const CompileOptions& options = {}) {
  return spjit::Compiler(options, uncached()).compile(problem);
}

CsrMatrix some_matrix() { return random_matrix(k_m, k_k, 0.8); }

Kernel csr_kernel() {
  CompileOptions options = spjit::testing_support::hot_options();
  options.policy.family = "csr";
  return compiled(problem_of(some_matrix(), 20), options);
}

/// A kernel of each host family that there is on this CPU.
std::vector<Kernel> kernels_of_all_families() {
  Problem runtime_n = problem_of(some_matrix(), 20);
  runtime_n.n.runtime = true;
  CompileOptions slow;
  slow.policy.family = "reference";
  std::vector<Kernel> result = {csr_kernel(), compiled(runtime_n, slow)};
  for (const HostIsa isa : spjit::testing_support::isas_here()) {
    result.push_back(compiled(problem_of(some_matrix(), 50), options_of(isa)));
    if (isa == HostIsa::avx512)
      result.push_back(compiled(problem_of(some_matrix(), 2), options_of(isa)));
  }
  return result;
}

std::vector<float> product_of_one(const Kernel& kernel) {
  const std::vector<float> b = dense_values(k_k * kernel.n());
  std::vector<float> c(index(k_m * kernel.n()), -7.0F);
  kernel.run(b.data(), c.data());
  return c;
}

std::string artifact_refusal(Artifact artifact) {
  try {
    static_cast<void>(Kernel::from_artifact(std::move(artifact)));
  } catch (const spjit::Error& error) {
    return error.what();
  }
  return "";
}

TEST(KernelArtifact, IsTheSameKernelAgain) {
  std::vector<std::string> families;
  for (const Kernel& kernel : kernels_of_all_families()) {
    for (const int threads : {1, 3}) {
      const Kernel again = Kernel::from_artifact(kernel.artifact(), threads);

      const KernelInfo& info = kernel.info();
      EXPECT_EQ(again.info().family, info.family);
      EXPECT_EQ(again.info().target, info.target);
      EXPECT_EQ(again.info().device, info.device);
      EXPECT_EQ(again.info().nnz, info.nnz);
      EXPECT_EQ(again.info().runtime_n, info.runtime_n);
      EXPECT_EQ(again.info().ldb, info.ldb);
      EXPECT_EQ(again.info().tile, info.tile);
      EXPECT_EQ(again.info().reason, info.reason);
      EXPECT_FALSE(info.reason.empty());
      EXPECT_EQ(again.info().code_bytes, info.code_bytes);
      EXPECT_EQ(again.info().weight_bytes, info.weight_bytes);
      EXPECT_EQ(again.info().panel_columns, info.panel_columns);
      EXPECT_EQ(again.info().threads, threads);
      EXPECT_TRUE(same_bits(product_of_one(again), product_of_one(kernel))) << info.family;
    }
    families.push_back(kernel.info().family);
  }
  EXPECT_EQ(families[0], "csr");
  EXPECT_EQ(families[1], "reference");
}

TEST(KernelArtifact, OutlivesTheKernelItCameFrom) {
  Artifact artifact;
  std::vector<float> expected;
  {
    const Kernel kernel = csr_kernel();
    artifact = kernel.artifact();
    expected = product_of_one(kernel);
  }

  EXPECT_TRUE(same_bits(product_of_one(Kernel::from_artifact(std::move(artifact))), expected));
}

TEST(KernelArtifact, OutlivesBytesThatNobodyOwns) {
  const Kernel fresh = csr_kernel();
  const auto bytes = fresh.artifact().files.front().bytes;
  auto read = std::make_unique<std::vector<std::byte>>(bytes.begin(), bytes.end());
  Artifact borrowed{{{fresh.artifact().files.front().name, *read}}, fresh.record()};

  const Kernel again = Kernel::from_artifact(std::move(borrowed));
  std::ranges::fill(*read, std::byte{0xFF});
  read.reset();

  EXPECT_TRUE(same_bits(product_of_one(again), product_of_one(fresh)));
}

TEST(KernelArtifact, HasOneObjectAndARecordOfItsFamily) {
  for (const Kernel& kernel : kernels_of_all_families()) {
    const Artifact& artifact = kernel.artifact();
    const auto record = nlohmann::json::parse(artifact.record);

    ASSERT_EQ(artifact.files.size(), 1U);
    EXPECT_EQ(artifact.files[0].name, "kernel.o");
    EXPECT_FALSE(artifact.file("kernel.o").empty());
    EXPECT_TRUE(artifact.file("kernel.cubin").empty());
    EXPECT_EQ(record.at("family"), kernel.info().family);
    EXPECT_EQ(record.at("problem").at("n").at("value"), kernel.n());
    EXPECT_TRUE(kernel.image().empty());
    EXPECT_EQ(kernel.ptx(), "");
    EXPECT_EQ(kernel.cuda_source(), "");
    EXPECT_EQ(kernel.device(), -1);
  }
}

TEST(KernelArtifact, TakesTheRecordThatTheToolWrapsIt) {
  Artifact artifact = csr_kernel().artifact();
  artifact.record = "{\"record\": " + artifact.record + "}";

  EXPECT_EQ(artifact_refusal(artifact), "");
}

TEST(KernelArtifact, WithoutItsFileIsRefused) {
  Artifact artifact = csr_kernel().artifact();
  artifact.files[0].name = "kernel.cubin";

  EXPECT_EQ(artifact_refusal(artifact), "the artifact has no file \"kernel.o\"");
  artifact.files.clear();
  EXPECT_EQ(artifact_refusal(artifact), "the artifact has no file \"kernel.o\"");
}

TEST(KernelArtifact, OfADamagedFileIsRefused) {
  const Artifact good = csr_kernel().artifact();
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, good.files[0].bytes.size() - 1}) {
    Artifact artifact = good;
    artifact.files[0].bytes = good.files[0].bytes.first(size);

    EXPECT_NE(artifact_refusal(artifact), "") << size;
  }
}

TEST(KernelArtifact, OfAFileWithAnyOtherByteIsRefused) {
  for (const Kernel& kernel : kernels_of_all_families()) {
    const auto good = kernel.artifact().file("kernel.o");
    for (std::size_t at = 0; at < good.size(); at += 97) {
      std::vector<std::byte> bytes(good.begin(), good.end());
      bytes[at] ^= std::byte{4};
      Artifact artifact{{}, kernel.record()};
      artifact.add("kernel.o", std::move(bytes));

      EXPECT_TRUE(artifact_refusal(artifact).starts_with("the file \"kernel.o\" is damaged"))
          << kernel.info().family << " byte " << at << ": " << artifact_refusal(artifact);
    }
  }
}

TEST(KernelArtifact, WithTheRecordOfAnotherKernelOfItsFamilyIsRefused) {
  const Kernel one = csr_kernel();
  CompileOptions options = spjit::testing_support::hot_options();
  options.policy.family = "csr";
  const Kernel two = compiled(problem_of(random_matrix(12, 9, 0.5), 20), options);
  ASSERT_EQ(two.info().family, one.info().family);

  EXPECT_NE(artifact_refusal({one.artifact().files, two.record()}), "");
  EXPECT_EQ(artifact_refusal({two.artifact().files, two.record()}), "");
}

TEST(KernelArtifact, WithDamagedFilesInItsRecordIsRefused) {
  const Artifact good = csr_kernel().artifact();
  for (const std::string files : {"7", "[7]", R"([{"name": "kernel.o"}])",
                                  R"([{"name": "kernel.o", "bytes": "1", "checksum": ""}])"}) {
    auto record = nlohmann::json::parse(good.record);
    record["files"] = nlohmann::json::parse(files);

    EXPECT_NE(artifact_refusal({good.files, record.dump()}), "") << files;
  }
}

TEST(KernelArtifact, HasARecordWhereAPathOfThePolicyIsNoUtf8) {
  CompileOptions options = spjit::testing_support::hot_options();
  options.policy.rank_model = "\xff.json";
  const Kernel kernel = compiled(problem_of(random_matrix(12, 9, 0.5), 20), options);

  const auto record = nlohmann::json::parse(kernel.record());
  EXPECT_EQ(record.at("policy").at("rank_model"), "\uFFFD.json");
}

TEST(KernelArtifact, WithARecordOfNoFamilyIsRefused) {
  for (const std::string record : {"{}", "[]", "7", R"({"family": 7})", R"({"kind": "csr"})"}) {
    Artifact artifact = csr_kernel().artifact();
    artifact.record = record;

    EXPECT_TRUE(artifact_refusal(artifact).starts_with(
        "the record of a kernel is no JSON object with a \"family\"; expected what "
        "Kernel::record() or spjit compile --emit json gave"))
        << artifact_refusal(artifact);
  }
}

TEST(KernelArtifact, WithARecordThatIsNoJsonIsRefused) {
  for (const std::string record : {"", "{", "family: csr"}) {
    Artifact artifact = csr_kernel().artifact();
    artifact.record = record;

    EXPECT_TRUE(artifact_refusal(artifact).starts_with("the record of a kernel is no JSON: "))
        << record;
  }
}

TEST(KernelArtifact, OfAnUnknownFamilyIsRefused) {
  Artifact artifact = csr_kernel().artifact();
  artifact.record = R"({"family": "fast"})";

  EXPECT_EQ(artifact_refusal(artifact),
            "the family of kernels \"fast\" is unknown; expected one of dense, compact, windows, "
            "unrolled, csr, bitmask, byte_windows, reference");
}

TEST(KernelArtifact, WithTheRecordOfAnotherFamilyIsRefused) {
  Artifact artifact = csr_kernel().artifact();
  artifact.record = R"({"family": "reference"})";

  EXPECT_EQ(artifact_refusal(artifact),
            "program record: a kernel of the family csr; expected one of reference");
}

TEST(KernelArtifact, TakesThreadsThatThereCanBe) {
  const Artifact artifact = csr_kernel().artifact();

  EXPECT_THROW(static_cast<void>(Kernel::from_artifact(artifact, -1)), spjit::InvalidArgument);
  EXPECT_THROW(static_cast<void>(Kernel::from_artifact(artifact, 4097)), spjit::InvalidArgument);
  EXPECT_GE(Kernel::from_artifact(artifact, 0).info().threads, 1);
}

}  // namespace
