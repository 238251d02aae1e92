#include "compiler/cache_miss.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "artifact/families.hpp"
#include "compiler/cache_key.hpp"
#include "plan/problem.hpp"
#include "spjit/bundle.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"

namespace {

namespace fs = std::filesystem;
using namespace spjit;
using namespace spjit::testing_support;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// All that a key is made of.
struct Asked {
  Problem problem = problem_of(random_matrix(12, 10, 0.5), 16);
  CompileOptions options = options_of(HostIsa::avx2);
  DeviceInfo device = HostDeviceInfo{};
  std::string rank_model = {};
  std::string timed_on = {};
};

nlohmann::json fields_of(const Asked& asked) {
  const Problem problem = checked_problem(asked.problem);
  return cache_key_fields({problem, asked.options, asked.device, {}}, asked.rank_model,
                          asked.timed_on);
}

std::string key_of(const Asked& asked) {
  const Problem problem = checked_problem(asked.problem);
  return cache_key({problem, asked.options, asked.device, {}}, asked.rank_model, asked.timed_on);
}

WantedKernel wanted(const Asked& asked) {
  return {.fields = fields_of(asked), .target = asked.options.target.name()};
}

ListedKernel listed(const Asked& asked, const std::string& layer = "") {
  return {.key = key_of(asked),
          .layer = layer,
          .where = "/cache",
          .record = {{"target", asked.options.target.name()}, {"key", fields_of(asked)}}};
}

std::vector<std::string> names(const std::vector<FieldDifference>& differences) {
  std::vector<std::string> names;
  for (const FieldDifference& one : differences) names.push_back(one.field);
  return names;
}

CsrMatrix changed_matrix(const std::function<void(CsrMatrix&)>& change) {
  CsrMatrix matrix = random_matrix(12, 10, 0.5);
  change(matrix);
  return matrix;
}

Asked on_gpu(const char* target) {
  Asked asked;
  asked.options.target = Target::parse(target);
  asked.device = device_info_of(asked.options.target);
  return asked;
}

Asked searching() {
  Asked asked;
  asked.options.policy.search = SearchMode::ranked;
  asked.timed_on = "zen4";
  asked.rank_model = "a model";
  return asked;
}

TEST(CacheMiss, NamesTheFieldThatDiffers) {
  struct Case {
    const char* field;
    Asked asked;
    std::function<void(Asked&)> change;
  };
  const std::vector<Case> cases = {
      {"values",
       {},
       [](Asked& a) { a.problem.a = changed_matrix([](CsrMatrix& m) { m.values[3] += 1; }); }},
      {"pattern", {}, [](Asked& a) { a.problem.a = random_matrix(12, 10, 0.5, 77); }},
      {"cols", {}, [](Asked& a) { a.problem.a = changed_matrix([](CsrMatrix& m) { ++m.cols; }); }},
      {"n", {}, [](Asked& a) { a.problem.n = 17; }},
      {"b_layout", {}, [](Asked& a) { a.problem.b.layout = Layout::tokens_major; }},
      {"ldc", {}, [](Asked& a) { a.problem.c.leading_dimension = 32; }},
      {"bias", {}, [](Asked& a) { a.problem.epilogue.bias = true; }},
      {"activation", {}, [](Asked& a) { a.problem.epilogue.activation = Activation::relu; }},
      {"scale", {}, [](Asked& a) { a.problem.epilogue.scale = true; }},
      {"types and sums", {}, [](Asked& a) { a.problem.numerics.b = DataType::bf16; }},
      {"target",
       {},
       [](Asked& a) {
         const Asked gpu = on_gpu("sm_90");
         a.options = gpu.options;
         a.device = gpu.device;
       }},
      {"target", {}, [](Asked& a) { a.options.target = Target(HostIsa::avx512); }},
      {"l2_bytes", {}, [](Asked& a) { std::get<HostDeviceInfo>(a.device).l2_bytes = 123; }},
      {"sms", on_gpu("sm_90:h100"), [](Asked& a) { std::get<CudaDeviceInfo>(a.device).sms = 7; }},
      {"threads", {}, [](Asked& a) { a.options.resources.threads = 2; }},
      {"hot", {}, [](Asked& a) { a.options.policy.hot = !a.options.policy.hot; }},
      {"code_budget_bytes", {}, [](Asked& a) { a.options.policy.code_budget_bytes = 5; }},
      {"top_k", searching(), [](Asked& a) { a.options.policy.top_k = 3; }},
      {"rank_model", searching(), [](Asked& a) { a.rank_model = "another"; }},
      {"timed_on", searching(), [](Asked& a) { a.timed_on = "zen5"; }},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.field);
    Asked changed = each.asked;
    each.change(changed);
    // Farther away: another A, and another n besides.
    Asked far = changed;
    far.problem.a = random_matrix(9, 8, 0.4);
    far.problem.n = 99;
    far.problem.c.leading_dimension = 0;
    const std::vector<ListedKernel> there = {listed(far), listed(changed, "fc1"), listed(far)};
    ASSERT_NE(key_of(changed), key_of(each.asked));

    const auto nearest = nearest_kernel(wanted(each.asked), there);

    ASSERT_TRUE(nearest);
    EXPECT_EQ(nearest->kernel.layer, "fc1");
    EXPECT_THAT(names(nearest->differences), ElementsAre(each.field));
  }
}

TEST(CacheMiss, NamesVersionsOfTheLibraryAndOfSingleFamilies) {
  const Asked asked;
  ListedKernel old = listed(asked);
  nlohmann::json& versions = old.record["key"]["versions"];
  versions["spjit"] = "0.0.9";
  auto& families = versions["families"].get_ref<std::string&>();
  const std::size_t end = families.find(',');
  families.replace(0, end, "csr 0");

  const auto found = differences(wanted(asked), old);

  ASSERT_TRUE(found);
  ASSERT_THAT(names(*found), ElementsAre("families", "spjit"));
  EXPECT_EQ(found->front().there, "csr 0");
  EXPECT_THAT(found->front().wanted, AllOf(Not(HasSubstr(",")), Not(HasSubstr("none"))));
  EXPECT_THAT(to_text(*found), HasSubstr("spjit (0.0.9 there, 0.1.0 wanted)"));
}

TEST(CacheMiss, ASearchIsAModeWithWhatItLooksAt) {
  Asked instant = searching();
  instant.options.policy.search = SearchMode::instant;

  const auto found = differences(wanted(searching()), listed(instant));

  ASSERT_TRUE(found);
  EXPECT_THAT(names(*found), testing::IsSupersetOf({"search", "rank_model", "timed_on"}));
  EXPECT_EQ(found->back().there, "none");
}

TEST(CacheMiss, TheSameKeyHasNoDifferenceAndARecordThatDoesNotSayIsLeftOut) {
  const Asked asked;

  EXPECT_TRUE(differences(wanted(asked), listed(asked))->empty());
  for (const nlohmann::json& record : {nlohmann::json(), nlohmann::json::object(),
                                       nlohmann::json{{"key", 3}}, nlohmann::json::array()}) {
    EXPECT_FALSE(
        differences(wanted(asked), {.key = "", .layer = "", .where = "", .record = record}));
  }
  EXPECT_FALSE(nearest_kernel(wanted(asked), {}));
}

TEST(CacheMiss, TextsOfRecordsAreMadeFitForALine) {
  ListedKernel hostile = listed({}, "fc\x1b[1m");
  hostile.record["target"] = "sm_90\n";
  hostile.record["key"]["target"]["isa"] = std::string("\x1b[2J");
  hostile.record["key"]["policy"]["hot"] = {{"a", 1}};

  const auto nearest = nearest_kernel(wanted({}), std::vector<ListedKernel>{hostile});

  ASSERT_TRUE(nearest);
  const std::string text = name_of(nearest->kernel) + to_text(nearest->differences);
  EXPECT_THAT(text, AllOf(HasSubstr("fc?[1m"), HasSubstr("sm_90?"), Not(HasSubstr("\x1b"))));
}

// ---- compile() that never compiles ------------------------------------------------------------

class NeverCompiledTest : public testing::Test {
 protected:
  static CompileOptions never(HostIsa isa = Target().isa()) {
    CompileOptions options = options_of(isa);
    options.compile = CompileWhen::never;
    return options;
  }
  [[nodiscard]] fs::path cache() const { return directory_.path() / "cache"; }
  [[nodiscard]] fs::path bundle() const { return directory_.path() / "model.spjit"; }
  void write_bundle(std::int64_t n = 16) const {
    BundleWriter writer(bundle());
    writer.add("fc1", Compiler(options_of(), cached_in(directory_.path() / "elsewhere"))
                          .compile(problem_of(matrix_, n)));
    writer.finish();
  }
  static std::string message_of(const Compiler& compiler, const Problem& problem) {
    try {
      static_cast<void>(compiler.compile(problem));
    } catch (const NotSupported& error) {
      return error.what();
    }
    return "no error";
  }

  CsrMatrix matrix_ = random_matrix(40, 50, 0.8);

 private:
  TemporaryDirectory directory_;
};

TEST_F(NeverCompiledTest, WhatIsInABundleOrACacheIsTaken) {
  write_bundle();
  CacheOptions layered = cached_in(cache());
  layered.read_only_layers = {bundle()};
  static_cast<void>(Compiler(options_of(), cached_in(cache())).compile(problem_of(matrix_, 33)));

  const Compiler compiler(never(), layered);
  const Kernel of_bundle = compiler.compile(problem_of(matrix_, 16));
  const Kernel of_cache = compiler.compile(problem_of(matrix_, 33));

  EXPECT_EQ(of_bundle.info().cache_directory, bundle());
  EXPECT_EQ(of_cache.info().cache_directory, cache());
  EXPECT_TRUE(is_kernel_of(of_bundle, matrix_));
}

TEST_F(NeverCompiledTest, AMissSaysWhatThereIsOfThatMatrixAndWhatToRun) {
  write_bundle();
  CacheOptions layered = uncached();
  layered.read_only_layers = {bundle()};

  const std::string message = message_of(Compiler(never(), layered), problem_of(matrix_, 17));

  const std::string target = Target().name();
  EXPECT_THAT(
      message,
      AllOf(HasSubstr("A [40 x 50] with " + std::to_string(matrix_.col_idxs.size()) + " nonzeros"),
            HasSubstr("for " + target + " with n = 17"),
            HasSubstr("1 kernels in '" + bundle().string() + "'"),
            HasSubstr("of this A " + target + " with n = 16"),
            HasSubstr("differs in n (16 there, 17 wanted)"), HasSubstr("layer 'fc1'"),
            HasSubstr("spjit compile FILE --n 17 --target " + target + " -o model.spjit")));
}

TEST_F(NeverCompiledTest, AMissOfAnotherMatrixOrWithoutACacheSaysThatThereIsNone) {
  write_bundle();
  CacheOptions layered = uncached();
  layered.read_only_layers = {bundle()};
  Problem any = problem_of(random_matrix(40, 50, 0.5), 16);
  any.n.runtime = true;

  EXPECT_THAT(message_of(Compiler(never(), layered), any),
              AllOf(HasSubstr("n = any"), HasSubstr("of this A none"), Not(HasSubstr("nearest"))));
  EXPECT_THAT(message_of(Compiler(never(), uncached()), any), HasSubstr("there are no kernels"));
}

TEST_F(NeverCompiledTest, NothingIsPublishedNorMade) {
  const CacheOptions own = cached_in(cache());

  EXPECT_THAT(message_of(Compiler(never(), own), problem_of(matrix_, 16)), HasSubstr("no cache"));

  EXPECT_TRUE(fs::is_empty(cache()));
}

TEST_F(NeverCompiledTest, IsNamedByWords) {
  EXPECT_EQ(parse_compile_when("never"), CompileWhen::never);
  EXPECT_EQ(parse_compile_when(to_string(CompileWhen::needed)), CompileWhen::needed);
  EXPECT_THROW(static_cast<void>(parse_compile_when("always")), InvalidArgument);
}

}  // namespace
