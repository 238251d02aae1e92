#include "artifact/families.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/host/host_rules.hpp"
#include "kernels/host/object/csr_image.hpp"
#include "kernels/host/object/host_family.hpp"
#include "plan/operation.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"

namespace {

using spjit::Extent;
using spjit::HostIsa;
using spjit::Kernel;
using spjit::KernelFamily;
using spjit::Problem;
using spjit::testing_support::index;
using spjit::testing_support::open_image;
using spjit::testing_support::options_of;
using spjit::testing_support::problem_of;
using spjit::testing_support::random_matrix;
using spjit::testing_support::uncached;

std::string family_refusal(std::string_view family, const Problem& problem, HostIsa isa) {
  const spjit::CompileOptions options = options_of(isa);
  const spjit::DeviceInfo device = spjit::device_info_of(options.target);
  return spjit::why_not(spjit::find_family(family), {problem, options, device, {}}).reason();
}

Problem problem_of_operation(spjit::Operation operation) {
  Problem problem = problem_of(random_matrix(12, 9, 0.2), 2);
  problem.operation = operation;
  if (operation == spjit::Operation::conv2d) {
    problem.n = 0;
    problem.convolution = {
        .channels = 1, .height = 4, .width = 5, .kernel_height = 3, .kernel_width = 3};
  }
  return spjit::checked_problem(problem);
}

Problem with_runtime_n() {
  Problem problem = problem_of(random_matrix(12, 10, 0.2), 2);
  problem.n = Extent::at_run_time(2);
  return problem;
}

TEST(KernelFamilies, AreAskedInThisOrder) {
  const auto names_of = [](std::string_view backend) {
    std::vector<std::string_view> names;
    for (const KernelFamily* family : spjit::backend_named(backend).families()) {
      names.push_back(family->name());
    }
    return names;
  };

  EXPECT_THAT(names_of("host"),
              testing::ElementsAre("dense", "compact", "windows", "unrolled", "csr", "bitmask",
                                   "byte_windows", "reference"));
  EXPECT_THAT(names_of("cuda"),
              testing::ElementsAre("dense", "packed", "narrow", "unrolled", "csr"));
  EXPECT_THAT(spjit::family_names(),
              testing::ElementsAre("dense", "compact", "windows", "unrolled", "csr", "bitmask",
                                   "byte_windows", "reference", "packed", "narrow"));
}

TEST(KernelFamilies, AreThoseOfTheTargetsBackend) {
  for (const char* target : {"host-avx2", "host-generic", "sm_90:h100"}) {
    const spjit::Target parsed = spjit::Target::parse(target);

    EXPECT_EQ(spjit::backend_of(parsed).name(), parsed.backend());
    EXPECT_EQ(spjit::Target::backend_in(target), parsed.backend());
    EXPECT_EQ(spjit::families_for(parsed).data(), spjit::backend_of(parsed).families().data());
  }
  EXPECT_EQ(spjit::family_of({{"family", "csr"}, {"target", "sm_90:gpu7"}}).version(),
            spjit::find_family("csr", "cuda").version());
}

TEST(NamedOptions, AreTheFamiliesOwnAndChecked) {
  std::vector<std::string_view> names;
  for (const spjit::NamedOption* option : spjit::named_options()) names.push_back(option->name);

  EXPECT_THAT(
      names, testing::ElementsAre("choice", "m1", "n1", "proxy_source", "source", "unit_nonzeros"));
  EXPECT_TRUE(spjit::has_options(spjit::backend_named("cuda")));
  EXPECT_FALSE(spjit::has_options(spjit::backend_named("host")));
}

TEST(KernelFamilies, AreFoundByNameAndFitARecord) {
  for (const spjit::Backend* backend : spjit::backends()) {
    for (const KernelFamily* family : backend->families()) {
      EXPECT_EQ(&spjit::find_family(family->name(), backend->name()), family);
      EXPECT_FALSE(family->version().empty());
      spjit::HostProgramHeader header;
      header.family = family->name();
      EXPECT_NO_THROW(static_cast<void>(spjit::write_header(header))) << family->name();
    }
  }
}

TEST(KernelFamilies, AnUnknownNameIsAnErrorThatListsThem) {
  for (const std::string name : {"", "CSR", "csr ", "unknown"}) {
    try {
      static_cast<void>(spjit::find_family(name));
      FAIL() << "there is a family \"" << name << "\"";
    } catch (const spjit::Error& error) {
      EXPECT_EQ(std::string(error.what()), "the family of kernels \"" + name +
                                               "\" is unknown; expected one of dense, compact, "
                                               "windows, unrolled, csr, bitmask, byte_windows, "
                                               "reference");
    }
  }
}

TEST(KernelFamilies, RefuseARuntimeNInOneLineUnlessTheyKnowIt) {
  EXPECT_EQ(family_refusal("windows", with_runtime_n(), HostIsa::avx512),
            "it does not know a run-time n without scales of groups");
  for (const char* family : {"compact", "dense", "unrolled", "csr", "reference"}) {
    EXPECT_EQ(family_refusal(family, with_runtime_n(), HostIsa::avx512), "") << family;
  }
}

TEST(KernelFamilies, RefuseAnOperationInOneLineUnlessTheyListIt) {
  const spjit::CompileOptions options;
  const spjit::DeviceInfo device = spjit::device_info_of(options.target);
  for (const spjit::OperationRules* rules : spjit::all_operations()) {
    const Problem problem = problem_of_operation(rules->operation());
    int refusals = 0;
    for (const KernelFamily* family : spjit::families_for(options.target)) {
      const bool has_floats = !family->numerics_refusal(problem.numerics);
      if (family->features().has(rules->feature()) || !has_floats) continue;
      EXPECT_EQ(spjit::why_not(*family, {problem, options, device, {}}).reason(),
                "it does not know " + to_string(spjit::ProblemFeatures{rules->feature()}));
      ++refusals;
    }
    EXPECT_EQ(refusals, rules->operation() == spjit::Operation::conv2d ? 1 : 0);  // `windows`
  }
}

TEST(KernelFamilies, ListAnOperation) {
  spjit::ProblemFeatures operations;
  for (const spjit::OperationRules* rules : spjit::all_operations()) {
    operations.add(rules->feature());
  }
  for (const spjit::Backend* backend : spjit::backends()) {
    for (const KernelFamily* family : backend->families()) {
      const spjit::ProblemFeatures others = operations.without(family->features());
      EXPECT_FALSE(operations.without(others).empty()) << family->name();
    }
  }
}

TEST(KernelFamilies, SayAllThatTheyDoNotKnow) {
  Problem problem = with_runtime_n();
  problem.panel_columns = 16;

  Problem images = problem_of_operation(spjit::Operation::conv2d);
  images.panel_columns = 16;
  EXPECT_EQ(family_refusal("windows", images, HostIsa::avx512),
            "it does not know a fixed panel width, a convolution");
  problem.runtime_values = true;
  EXPECT_EQ(to_string(spjit::features_of(problem).without({spjit::ProblemFeature::runtime_n})),
            "a fixed panel width, values at run time, a product");
  EXPECT_EQ(family_refusal("reference", problem, HostIsa::avx512), "");
}

TEST(KernelFamilies, OfTheHostKnowEveryLayoutAndEpilogue) {
  Problem problem = problem_of(random_matrix(12, 10, 0.2), 2);
  problem.b.layout = problem.c.layout = spjit::Layout::tokens_major;
  problem.epilogue = {.scale = true, .bias = true, .activation = spjit::Activation::silu};

  for (const KernelFamily* family : spjit::backend_named("host").families()) {
    problem.numerics = {};
    if (family->name() == "byte_windows" || family->name() == "bitmask") {
      using enum spjit::DataType;
      problem.numerics = {i8, i8, f32, spjit::Accumulate::integer()};
    }
    EXPECT_EQ(family_refusal(family->name(), problem, HostIsa::avx512), "") << family->name();
  }
}

TEST(KernelFamilies, WindowsAreForFewColumns) {
  const Problem few = problem_of(random_matrix(100, 100, 0.5), 4);
  const Problem many = problem_of(random_matrix(100, 100, 0.5), 5);

  EXPECT_EQ(family_refusal("windows", few, HostIsa::avx512), "");
  EXPECT_EQ(family_refusal("windows", many, HostIsa::avx512),
            "it is for n of 1 to 4, avx512 and avx2; n is 5 and the target avx512");
  EXPECT_EQ(family_refusal("windows", few, HostIsa::generic),
            "it is for n of 1 to 4, avx512 and avx2; n is 4 and the target generic");
}

TEST(KernelFamilies, WindowsAreForColumnsThatAStepCanName) {
  const auto refusal = [](std::int64_t cols, HostIsa isa) {
    return family_refusal("windows", problem_of({1, cols, {0, 1}, {0}, {1}}, 1), isa);
  };
  EXPECT_EQ(refusal(65'536, HostIsa::avx2), "");
  EXPECT_EQ(refusal(65'537, HostIsa::avx2), "it is for up to 65536 columns of A, which has 65537");
  EXPECT_EQ(refusal(16 * 65'536, HostIsa::avx512), "");
  EXPECT_EQ(refusal(16 * 65'536 + 1, HostIsa::avx512),
            "it is for up to 1048576 columns of A, which has 1048577");
}

TEST(KernelFamilies, HotALoopTakesWhereFewEntriesReadRowsThatShareSets) {
  const auto is_loop = [](HostIsa isa, std::int64_t n, double density) {
    Problem problem = problem_of(random_matrix(128, 512, 1 - density), n);
    spjit::CompileOptions options = options_of(isa);
    options.policy.hot = true;
    spjit::HostDeviceInfo limits;  // 1 MiB of L2
    limits.isa = isa;
    const spjit::DeviceInfo device = limits;
    return bool(spjit::loop_preference({problem, options, device, {}}));
  };

  EXPECT_TRUE(is_loop(HostIsa::avx512, 512, 0.02));    // 3 entries a row of B, B of 1 MiB
  EXPECT_FALSE(is_loop(HostIsa::avx512, 512, 0.1));    // 13
  EXPECT_FALSE(is_loop(HostIsa::avx512, 512, 0.005));  // less than 1
  EXPECT_FALSE(is_loop(HostIsa::avx512, 640, 0.02));   // rows 2.5 KiB apart
  EXPECT_TRUE(is_loop(HostIsa::avx2, 640, 0.07));      // 9
  EXPECT_FALSE(is_loop(HostIsa::avx2, 256, 0.02));     // B of 512 KiB
  EXPECT_FALSE(is_loop(HostIsa::generic, 512, 0.02));
}

TEST(KernelFamilies, TheRecordHasAVerdictOfEachThatWasAsked) {
  const Kernel kernel =
      spjit::Compiler(options_of(HostIsa::generic), uncached()).compile(with_runtime_n());
  const auto record = nlohmann::json::parse(kernel.record());

  EXPECT_EQ(kernel.info().family, "unrolled");
  EXPECT_EQ(record.at("family"), "unrolled");
  ASSERT_EQ(record.at("verdicts").size(), 4U);
  EXPECT_EQ(record.at("verdicts").at(2).at("reason"),
            "it does not know a run-time n without scales of groups");
  EXPECT_EQ(record.at("verdicts").at(3).at("family"), "unrolled");
}

TEST(KernelFamilies, OfOneDoNotOpenTheKernelsOfAnother) {
  const auto artifact =
      spjit::make_csr_artifact(problem_of(random_matrix(12, 10, 0.5), 3), "csr", HostIsa::generic);
  const spjit::Artifact::File file = spjit::object_file(artifact.image());

  for (const char* name : {"reference", "windows"}) {
    try {
      static_cast<void>(spjit::find_family(name).load({.files = {file}}, nlohmann::json::object(),
                                                      spjit::HostDevice{}, {}));
      FAIL() << "a csr kernel was opened as " << name;
    } catch (const spjit::Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("program record: ")) << error.what();
    }
  }
}

TEST(KernelFamilies, RefuseImagesOfARuntimeNThatTheyDoNotKnow) {
  const auto refusal = [](const char* family, HostIsa isa) -> std::string {
    const auto artifact = spjit::make_csr_artifact(with_runtime_n(), family, isa);
    try {
      static_cast<void>(open_image(artifact.image()));
    } catch (const spjit::Error& error) {
      return error.what();
    }
    return "";
  };

  EXPECT_EQ(refusal("reference", HostIsa::generic), "");
  EXPECT_EQ(refusal("csr", HostIsa::generic), "");
  EXPECT_EQ(refusal("windows", HostIsa::avx2),
            "program record: a run-time n, which its family does not know");
}

TEST(KernelFamilies, AnUnrolledKernelThatReadsBInPlaceIsOfOneN) {
  const spjit::CsrMatrix matrix = random_matrix(12, 10, 0.5);
  spjit::HostTile tile = spjit::testing_support::host_tile(4);
  tile.pack_b = false;
  const auto plan = spjit::build_plan(
      matrix, spjit::group_rows(matrix, 4, spjit::ReorderAlgorithm::none), matrix.cols);
  spjit::HostArtifact artifact =
      spjit::make_unrolled_artifact(plan, tile, problem_of(matrix, 20), HostIsa::avx2);
  spjit::HostProgramRecord record = spjit::read_program(artifact.image());
  record.header.runtime_n = true;
  artifact.program = spjit::write_program(record);

  EXPECT_THROW(static_cast<void>(open_image(artifact.image())), spjit::Error);
}

TEST(KernelFamilies, OfTheHostTakeNoGpu) {
  for (const KernelFamily* family : spjit::backend_named("host").families()) {
    EXPECT_THROW(
        static_cast<void>(family->load({}, nlohmann::json::object(), spjit::GpuDevice{0}, {})),
        spjit::InvalidArgument)
        << family->name();
  }
}

}  // namespace
