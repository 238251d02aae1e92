#include "spjit/bundle.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/host_cpu.hpp"
#include "runtime/bundle/bundle_file_writer.hpp"
#include "runtime/host/host_cards.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/files/signing_keys.hpp"

namespace {

namespace fs = std::filesystem;
using namespace spjit;
using spjit::testing_support::dense_values;
using spjit::testing_support::hot_options;
using spjit::testing_support::index;
using spjit::testing_support::isas_here;
using spjit::testing_support::options_of;
using spjit::testing_support::problem_of;
using spjit::testing_support::random_matrix;
using spjit::testing_support::same_bits;
using spjit::testing_support::uncached;
using testing::HasSubstr;

constexpr std::int64_t k_bundle_columns = 24;

class BundleTest : public testing::Test {
 protected:
  [[nodiscard]] fs::path path(const char* name = "model.spjit") const {
    return scratch_.path() / name;
  }
  [[nodiscard]] Problem problem() const { return problem_of(a_, k_bundle_columns); }
  [[nodiscard]] Kernel compile(const CompileOptions& options = hot_options()) const {
    return Compiler(options, uncached()).compile(problem());
  }
  /// A bundle whose kernels have records that say what the test wants, and no code.
  void write_records(const std::vector<nlohmann::json>& records) const {
    BundleFileWriter writer(path());
    for (const nlohmann::json& record : records) {
      writer.add({.layer = "fc1", .key = "", .spjit = "0.1.0", .record = record}, {});
    }
    writer.finish();
  }
  [[nodiscard]] nlohmann::json record_for(const std::string& target) const {
    nlohmann::json record = nlohmann::json::parse(compile().record());
    record["target"] = target;
    return record;
  }
  [[nodiscard]] std::string opening_error() const {
    try {
      static_cast<void>(Bundle::open(path()));
      return "";
    } catch (const IoError& error) {
      return error.what();
    }
  }
  [[nodiscard]] bool computes(const Kernel& kernel) const {
    const std::vector<float> b = dense_values(a_.cols * k_bundle_columns);
    std::vector<float> c(index(a_.rows * k_bundle_columns));
    std::vector<float> expected = c;
    kernel.run(b.data(), c.data());
    compile().run(b.data(), expected.data());
    return same_bits(c, expected);
  }

  CsrMatrix a_ = random_matrix(40, 60, 0.8);

 private:
  testing_support::TemporaryDirectory scratch_;
};

TEST_F(BundleTest, KernelsOfAllFamiliesComeBack) {
  std::vector<Kernel> kernels;
  for (const char* family : {"unrolled", "csr", "reference", "dense", "compact"}) {
    CompileOptions options = hot_options();
    options.policy.family = family;
    try {
      kernels.push_back(compile(options));
    } catch (const NotSupported&) {  // not on this CPU
    }
  }
  BundleWriter writer(path());
  for (const Kernel& kernel : kernels) writer.add(kernel.info().family, kernel);
  const std::int64_t bytes = writer.finish();

  const Bundle bundle = Bundle::open(path());

  EXPECT_EQ(bytes, static_cast<std::int64_t>(fs::file_size(path())));
  ASSERT_EQ(bundle.entries().size(), kernels.size());
  bundle.verify();
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const Kernel loaded = bundle.load(i);
    EXPECT_EQ(loaded.info().family, kernels[i].info().family);
    EXPECT_EQ(loaded.info().key, kernels[i].info().key);
    EXPECT_EQ(loaded.info().reason, kernels[i].info().reason);
    EXPECT_TRUE(computes(loaded)) << loaded.info().family;
  }
}

TEST_F(BundleTest, EntriesSayWhatIsThere) {
  BundleWriter writer(path());
  const Kernel kernel = compile();
  writer.add("fc1", kernel);
  writer.finish();

  const Bundle bundle = Bundle::open(path());
  const BundleEntry& entry = bundle.entries().front();

  EXPECT_EQ(entry.layer, "fc1");
  EXPECT_EQ(entry.target, Target());
  EXPECT_EQ(entry.weights, weight_hash(a_));
  EXPECT_EQ(entry.key, kernel.info().key);
  EXPECT_EQ(entry.rows, 40);
  EXPECT_EQ(entry.cols, 60);
  EXPECT_EQ(entry.nnz, a_.nnz());
  EXPECT_EQ(entry.n, Extent(k_bundle_columns));
  EXPECT_EQ(entry.bytes, std::ssize(kernel.artifact().files.front().bytes));
  nlohmann::json record = nlohmann::json::parse(kernel.record());
  record.erase("files");
  record.erase("compile_ms");
  EXPECT_EQ(nlohmann::json::parse(bundle.record(0)), record);
  EXPECT_EQ(nlohmann::json::parse(entry.problem), record.at("problem"));
  EXPECT_FALSE(bundle.is_signed());
  EXPECT_THROW(static_cast<void>(bundle.load(1)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(bundle.record(1)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(bundle.load(0, {.threads = -1})), InvalidArgument);
}

TEST_F(BundleTest, TheBestForThisCpuIsFound) {
  BundleWriter writer(path());
  const std::vector<HostIsa> isas = isas_here();
  for (auto isa = isas.rbegin(); isa != isas.rend(); ++isa) {
    writer.add("fc1", compile(options_of(*isa)));
  }
  writer.finish();

  const Bundle bundle = Bundle::open(path());
  const std::optional<std::size_t> best = bundle.find("fc1");

  ASSERT_TRUE(best);
  EXPECT_EQ(bundle.entries()[*best].target, Target());
  for (const HostIsa isa : isas) {
    const std::optional<std::size_t> found = bundle.find("fc1", Target(isa));
    ASSERT_TRUE(found);
    EXPECT_EQ(bundle.load(*found).info().target, Target(isa));
  }
  EXPECT_FALSE(bundle.find("fc2"));
}

TEST_F(BundleTest, OfSeveralForAnInstructionSetTheCardDecides) {
  const auto chosen_for = [&](const char* card) {
    nlohmann::json record = record_for(Target().name());
    record["card"]["name"] = card;
    return record;
  };
  const auto here = card_of_cpu(host_cpu());
  write_records({chosen_for("none"), chosen_for("any"), chosen_for("zen5"), chosen_for("zen3"),
                 record_for("host-generic")});

  const Bundle bundle = Bundle::open(path());

  EXPECT_EQ(bundle.entries()[2].card, "zen5");
  const std::string name = here ? std::string(here->name) : "";
  const std::size_t best = name == "zen5" ? 2 : name == "zen3" ? 3 : 1;
  EXPECT_EQ(bundle.find("fc1"), best);
  EXPECT_EQ(bundle.find("fc1", Target::parse(Target().name() + ":zen5")), 2U);
  EXPECT_EQ(bundle.find("fc1", Target::parse(Target().name() + ":zen4")), 1U) << "any";
  EXPECT_EQ(bundle.find("fc1", Target(HostIsa::generic)), 4U);
}

TEST_F(BundleTest, ABundleForOtherCpusAndGpusSaysWhatItHas) {
  write_records({record_for("sm_80"), record_for("sm_90:h200")});

  const Bundle bundle = Bundle::open(path());

  try {
    static_cast<void>(bundle.find("fc1"));
    FAIL() << "found one for this CPU";
  } catch (const NotSupported& error) {
    EXPECT_THAT(error.what(), HasSubstr("the layer 'fc1' is there for sm_80, sm_90; this CPU runs "
                                        "host-"));
  }
  EXPECT_THROW(static_cast<void>(bundle.find(problem())), NotSupported);
  EXPECT_EQ(bundle.find("fc1", Target::parse("sm_90")), 1U);
  EXPECT_EQ(bundle.find("fc1", Target::parse("sm_89")), 0U) << "of the same major version";
  EXPECT_THROW(static_cast<void>(bundle.find("fc1", Target::parse("sm_75"))), NotSupported);
}

TEST_F(BundleTest, KernelsAreFoundByWeightsAndProblem) {
  Problem layer = problem();
  layer.n = Extent::at_run_time(100);
  layer.b.layout = layer.c.layout = Layout::tokens_major;
  layer.epilogue = {.bias = true, .activation = Activation::relu};
  BundleWriter writer(path());
  writer.add("plain", compile());
  writer.add("layer", Compiler({}, uncached()).compile(layer));
  writer.finish();
  const Bundle bundle = Bundle::open(path());

  EXPECT_EQ(bundle.find(problem()), 0U);
  EXPECT_EQ(bundle.find(layer), 1U);
  // Of any n, whatever is typical; of other rows, the order of entries does not count.
  layer.n.value = 7;
  EXPECT_EQ(bundle.find(layer), 1U);
  CsrMatrix turned = a_;
  std::swap(turned.col_idxs[0], turned.col_idxs[1]);
  std::swap(turned.values[0], turned.values[1]);
  ASSERT_GT(turned.row_ptrs[1], 1);
  EXPECT_EQ(bundle.find(problem_of(turned, k_bundle_columns)), 0U);
  EXPECT_EQ(weight_hash(turned), weight_hash(a_));

  Problem other = problem();
  other.n = k_bundle_columns + 1;
  EXPECT_FALSE(bundle.find(other));
  other = problem();
  other.b.leading_dimension = 100;
  EXPECT_FALSE(bundle.find(other));
  other = layer;
  other.epilogue.activation = Activation::silu;
  EXPECT_FALSE(bundle.find(other));
  CsrMatrix changed = a_;
  changed.values[3] += 1;
  EXPECT_FALSE(bundle.find(problem_of(changed, k_bundle_columns)));
  EXPECT_NE(weight_hash(changed), weight_hash(a_));
  EXPECT_EQ(weight_hash(changed, true), weight_hash(a_, true));
  EXPECT_THROW(static_cast<void>(bundle.find(Problem{})), InvalidArgument);
}

TEST_F(BundleTest, BundlesAreMergedWithoutWhatIsThere) {
  BundleWriter first(path("a.spjit"));
  first.add("fc1", compile());
  first.finish();
  BundleWriter second(path("b.spjit"));
  second.add("fc1", compile());
  second.add("fc2", compile());
  second.finish();

  BundleWriter merged(path(), std::string(test::k_private_key));
  merged.add(Bundle::open(path("a.spjit")));
  merged.add(Bundle::open(path("b.spjit")));
  merged.finish();

  const Bundle bundle = Bundle::open(path(), {.public_key = std::string(test::k_public_key)});
  ASSERT_EQ(bundle.entries().size(), 2U);
  EXPECT_EQ(bundle.entries()[1].layer, "fc2");
  EXPECT_TRUE(bundle.is_signed());
  EXPECT_TRUE(computes(bundle.load(1)));
  // Both layers have one file.
  EXPECT_LT(fs::file_size(path()), 3 * bundle.entries()[0].bytes);
}

TEST_F(BundleTest, EntriesOfABundleAreTakenAlone) {
  BundleWriter all(path("all.spjit"));
  for (const char* layer : {"fc1", "fc2", "fc3"}) all.add(layer, compile());
  all.finish();
  const Bundle bundle = Bundle::open(path("all.spjit"));

  BundleWriter some(path());
  some.add(bundle, 2);
  some.add(bundle, 0);
  some.add(bundle, 2);
  EXPECT_THROW(some.add(bundle, 3), InvalidArgument);
  EXPECT_EQ(some.kernels(), 2);
  some.finish();

  const Bundle made = Bundle::open(path());
  made.verify();
  ASSERT_EQ(made.entries().size(), 2);
  EXPECT_EQ(made.entries()[0].layer, "fc3");
  EXPECT_EQ(made.entries()[1].layer, "fc1");
  EXPECT_TRUE(computes(made.load(0)));
  EXPECT_THAT(made.record(0), testing::Not(HasSubstr("compile_ms")));
}

TEST_F(BundleTest, ALayerThatIsThereWithAnotherComputationIsRefused) {
  CsrMatrix other_weights = a_;
  other_weights.values[3] += 1;
  Problem with_relu = problem();
  with_relu.epilogue.activation = Activation::relu;
  Problem for_more = problem();
  for_more.n = 2 * k_bundle_columns;
  const Compiler compiler(hot_options(), uncached());
  const Kernel changed = compiler.compile(problem_of(other_weights, k_bundle_columns));
  BundleWriter writer(path());
  writer.add("fc1", compile());

  const auto error_of = [&](const std::string& layer, const Kernel& kernel) -> std::string {
    try {
      writer.add(layer, kernel);
      return "";
    } catch (const InvalidArgument& error) {
      return error.what();
    }
  };
  EXPECT_THAT(error_of("fc1", changed), HasSubstr("'fc1' is in the bundle with weights"));
  EXPECT_THAT(error_of("fc1", compiler.compile(with_relu)), HasSubstr("an epilogue"));
  EXPECT_EQ(error_of("fc1", compiler.compile(for_more)), "") << "the same, of another n";
  EXPECT_EQ(error_of("fc2", changed), "");
  // What has no name is found by its weights.
  EXPECT_EQ(error_of("", compile()), "");
  EXPECT_EQ(error_of("", changed), "");
  writer.finish();
  EXPECT_EQ(Bundle::open(path()).entries().size(), 5U);
}

TEST_F(BundleTest, BundlesWithOneLayerOfTwoWeightsAreNotMerged) {
  CsrMatrix other_weights = a_;
  other_weights.values[3] += 1;
  BundleWriter first(path("a.spjit"));
  first.add("fc1", compile());
  first.finish();
  BundleWriter second(path("b.spjit"));
  second.add(
      "fc1",
      Compiler(hot_options(), uncached()).compile(problem_of(other_weights, k_bundle_columns)));
  second.finish();

  BundleWriter merged(path());
  merged.add(Bundle::open(path("a.spjit")));
  EXPECT_THROW(merged.add(Bundle::open(path("b.spjit"))), InvalidArgument);
}

TEST_F(BundleTest, RecordsThatDoNotSayWhatTheyAreOfAreRefused) {
  const nlohmann::json good = record_for("host-avx2");
  for (const char* member : {"family", "target", "problem"}) {
    nlohmann::json record = good;
    record.erase(member);
    write_records({good, record});
    EXPECT_THAT(opening_error(), HasSubstr("model.spjit: kernel 1: ")) << member;
    record[member] = 5;
    write_records({good, record});
    EXPECT_THAT(opening_error(), HasSubstr("model.spjit: kernel 1: ")) << member;
  }
  nlohmann::json record = good;
  record["target"] = "host-mmx";
  write_records({record});
  EXPECT_THAT(opening_error(), HasSubstr("host-mmx"));
  record = good;
  record["problem"]["n"]["value"] = 0;
  write_records({record});
  EXPECT_NE(opening_error(), "");
}

TEST_F(BundleTest, AKernelWhoseRecordIsOfAnotherOneIsRefusedWhenItIsLoaded) {
  nlohmann::json record = record_for(Target().name());
  write_records({record});
  EXPECT_THROW(static_cast<void>(Bundle::open(path()).load(0)), Error) << "no files";

  record["family"] = "jumbled";
  write_records({record});
  EXPECT_THROW(static_cast<void>(Bundle::open(path()).load(0)), Error);
}

TEST_F(BundleTest, KeysThatAreNoneAreRefusedBeforeAnythingIsWritten) {
  EXPECT_THROW(BundleWriter(path(), std::string(test::k_public_key)), InvalidArgument);
  EXPECT_THROW(BundleWriter(path(), path("no.pem").string()), IoError);
  BundleWriter(path()).finish();
  EXPECT_THROW(static_cast<void>(Bundle::open(path(), {.public_key = "-----BEGIN nothing"})),
               InvalidArgument);
  EXPECT_THROW(static_cast<void>(Bundle::open(path(), {.public_key = path().string()})),
               InvalidArgument);
}

}  // namespace
