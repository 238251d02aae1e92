#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "bench/convolution/tests/small_network.hpp"
#include "bench/lab/measure.hpp"
#include "bench/model/tests/three_layers.hpp"
#include "spjit/error.hpp"
#include "spjit/matrix_io.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;
using namespace spjit::testing_support;
using side_by_side::Peer;
using side_by_side::PeerInfo;
using side_by_side::Runnable;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;
using testing::ThrowsMessage;

LabOptions quick(const std::string& kind) {
  LabOptions options = default_options(kind, SPJIT_SOURCE_DIR);
  options.timing.budget_ms = 0;
  options.timing.min_samples = 2;
  options.quick = true;
  return options;
}

// Layers.

/// Two layers of one shape, and two others.
std::vector<NetworkLayer> four_layers() {
  std::vector<NetworkLayer> layers = three_layers();
  layers.push_back({"square again", random_matrix(30, 30, 0.5, 4)});
  return layers;
}

std::vector<Case> compared(const Comparison& comparison, const Conditions& conditions,
                           const std::vector<NetworkLayer>& layers = four_layers()) {
  return measure_comparison(layers, comparison.ways, conditions, quick("layer"));
}

Comparison comparison_of(const std::string& name) { return list_comparisons({name}).front(); }

/// Of a way, in all cases.
std::string reason_of(const std::vector<Case>& cases, std::size_t way) {
  for (const Case& one : cases) EXPECT_EQ(one.timings.at(way).failed, cases[0].timings[way].failed);
  return cases.front().timings.at(way).failed;
}

TEST(MeasureComparison, TimesEveryWayOfEveryComparison) {
  for (const Comparison& comparison : list_comparisons()) {
    const std::int64_t n = comparison.n.size() == 1 ? comparison.n.front() : 16;
    const std::vector<Case> cases = compared(comparison, {comparison.name, n});

    ASSERT_THAT(cases, SizeIs(3)) << comparison.name;
    const Case& squares = cases[1];
    EXPECT_EQ(squares.layers, 2);
    EXPECT_EQ(squares.rows, 30);
    EXPECT_EQ(squares.nnz, 2 * 450);
    ASSERT_THAT(squares.timings, SizeIs(comparison.ways.size()));
    for (const WayTiming& timing : squares.timings) {
      EXPECT_EQ(timing.failed, "") << comparison.name << ", " << timing.way;
      EXPECT_GT(timing.time.median_us, 0);
      EXPECT_EQ(timing.time.samples, 2);
      EXPECT_FALSE(timing.chosen.empty());
      EXPECT_EQ(timing.paired.has_value(), &timing != &squares.timings.front());
    }
  }
}

TEST(MeasureComparison, TakesOneLayerOfAShapeWhereItIsHot) {
  const auto cases = compared(comparison_of("epilogue"), {"epilogue", 16, 2, true});

  ASSERT_THAT(cases, SizeIs(3));
  EXPECT_EQ(cases[1].layers, 1);
  EXPECT_TRUE(cases[1].hot);
  EXPECT_EQ(cases[1].threads, 2);
}

TEST(MeasureComparison, SaysWhatPreparingValuesTakes) {
  const auto cases = compared(comparison_of("values"), {"values", 16});

  EXPECT_FALSE(cases[0].find("own values")->values_ms);
  EXPECT_GT(cases[0].find("buffer")->values_ms.value_or(0), 0);
}

TEST(MeasureComparison, TimesNothingIfTheFirstWayIsWrong) {
  std::vector<NetworkLayer> layers = four_layers();
  // Sums that are finite in float64 and infinite in float.
  for (float& value : layers[1].matrix.values) value = 3e38F;

  const auto cases = compared(comparison_of("runtime-n"), {"runtime-n", 16}, layers);

  EXPECT_THAT(cases[0].timings, SizeIs(1));
  EXPECT_THAT(reason_of(cases, 0), StartsWith("wrong: layer 1 (square)"));
}

/// What is compiled for host-generic rounds each product: right, but other bits.
TEST(MeasureComparison, DoesNotTimeOtherBitsThanTheFirst) {
  if (Target().isa() == HostIsa::generic) GTEST_SKIP() << "this CPU computes as host-generic";
  Comparison comparison = comparison_of("epilogue-tokens");
  Way other = comparison.ways[0];
  other.name = "rounded twice";
  other.target = Target(HostIsa::generic);
  comparison.ways.push_back(other);

  const auto cases = compared(comparison, {"epilogue-tokens", 16});

  EXPECT_THAT(reason_of(cases, 3),
              AllOf(StartsWith("wrong: layer "), HasSubstr("; expected the bits of ")));
  EXPECT_EQ(reason_of(cases, 2), "");
}

TEST(MeasureComparison, GoesOnWithoutAWayThatCannot) {
  Comparison comparison = comparison_of("runtime-n");
  comparison.ways[1].typical_n = 0;

  const auto cases = compared(comparison, {"runtime-n", 16});

  EXPECT_THAT(reason_of(cases, 1), HasSubstr("n is 0"));
  EXPECT_NE(cases[0].find("any n, made for 128"), nullptr);
}

// Models.

using Compute = std::function<void(const side_by_side::Problem&)>;

class MadeUpRunnable final : public Runnable {
 public:
  MadeUpRunnable(const Compute& compute, const side_by_side::Problem& problem)
      : compute_(compute), problem_(problem) {}
  void run() override { compute_(problem_); }
  [[nodiscard]] std::string detail() const override { return "made up"; }

 private:
  Compute compute_;
  side_by_side::Problem problem_;
};

class MadeUpPeer final : public Peer {
 public:
  MadeUpPeer(PeerInfo info, Compute compute)
      : Peer(std::move(info)), compute_(std::move(compute)) {}
  std::unique_ptr<Runnable> prepare(const side_by_side::Problem& problem) override {
    if (problem.threads > 2) throw NotSupported("no more than two threads");
    return std::make_unique<MadeUpRunnable>(compute_, problem);
  }

 private:
  Compute compute_;
};

void multiply(const side_by_side::Problem& problem) {
  const CsrMatrix& a = *problem.matrix;
  for (std::int64_t row = 0; row < a.rows; ++row) {
    for (std::int64_t j = 0; j < problem.n; ++j) {
      float sum = 0;
      for (auto i = a.row_ptrs[to_size(row)]; i < a.row_ptrs[to_size(row + 1)]; ++i) {
        sum += a.values[to_size(i)] * problem.b[a.col_idxs[to_size(i)] * problem.n + j];
      }
      problem.c[row * problem.n + j] = sum;
    }
  }
}

void leave_the_last_of_square_layers(const side_by_side::Problem& problem) {
  multiply(problem);
  const CsrMatrix& a = *problem.matrix;
  if (a.rows == a.cols) problem.c[a.rows * problem.n - 1] = std::numeric_limits<float>::quiet_NaN();
}

Case model_case(std::vector<std::pair<PeerInfo, Compute>> all, const Conditions& conditions) {
  std::vector<std::unique_ptr<Peer>> peers;
  for (auto& [info, compute] : all) peers.push_back(std::make_unique<MadeUpPeer>(info, compute));
  LayerOperands operands(three_layers(), conditions.n, false);
  return measure_model(peers, operands, conditions, quick("model").timing);
}

TEST(MeasureModel, TimesPassesOfEveryLibrary) {
  for (const bool hot : {false, true}) {
    const Case one = model_case({{{"one", "1", "sparse"}, multiply},
                                 {{"absent", "", "sparse", "not there"}, multiply},
                                 {{"other", "1", "sparse"}, multiply}},
                                {{}, 5, 1, hot});

    ASSERT_EQ(one.timings.size(), 2U);
    EXPECT_EQ(one.timings[1].way, "other");
    EXPECT_EQ(one.layers, 3);
    for (const WayTiming& timing : one.timings) {
      EXPECT_EQ(timing.failed, "");
      EXPECT_GE(timing.time.samples, 2);
      EXPECT_THAT(timing.chosen, ElementsAre("made up", "made up", "made up"));
      EXPECT_THAT(timing.layers_us, SizeIs(hot ? 0 : 3));
    }
  }
}

TEST(MeasureModel, DoesNotTimeWhatIsWrong) {
  const Case one = model_case({{{"right", "1", "sparse"}, multiply},
                               {{"wrong", "1", "sparse"}, leave_the_last_of_square_layers}},
                              {{}, 20});

  EXPECT_EQ(one.timings[0].failed, "");
  EXPECT_THAT(one.timings[1].failed, StartsWith("wrong: layer 1 (square): C[29][19]"));
  EXPECT_EQ(one.timings[1].time.samples, 0);
}

TEST(MeasureModel, SaysWhyALibraryCannot) {
  const Case one = model_case({{{"one", "1", "sparse"}, multiply}}, {{}, 5, 3});

  EXPECT_THAT(one.timings[0].failed, HasSubstr("two threads"));
}

// Convolutions.

std::vector<Case> convolved(const std::vector<std::unique_ptr<ConvPeer>>& peers,
                            const Conditions& conditions = {{}, 2}) {
  ConvOperands operands(small_network(), conditions.n);
  return measure_convolutions(peers, operands, conditions, quick("conv"));
}

ConvPeerSettings repository_settings() { return quick("conv").settings; }

/// Adds one to a result of spjit's.
class WrongPeer final : public ConvPeer {
 public:
  WrongPeer() : ConvPeer({"wrong one", "", "jit"}, Layout::row_major) {}

  std::unique_ptr<Runnable> prepare(const ConvProblem& problem) override {
    struct Wrong final : Runnable {
      void run() override {
        right->run();
        y[0] += 1;
      }
      std::unique_ptr<Runnable> right;
      float* y = nullptr;
    };
    if (problem.layer->shape.groups > 1) throw NotSupported("groups");
    auto runnable = std::make_unique<Wrong>();
    runnable->right = right_->prepare(problem);
    runnable->y = problem.y;
    return runnable;
  }

 private:
  std::unique_ptr<ConvPeer> right_ = make_spjit_conv_peer({}, "", Layout::row_major);
};

TEST(MeasureConvolutions, EveryLibraryIsRight) {
  std::vector<std::string> names = all_conv_peer_names();
  names.insert(names.end(), {"dense", "compact", "csr", "csr-nhwc", "reference"});
  for (const int threads : {1, 2}) {
    for (const Case& one :
         convolved(make_conv_peers(repository_settings(), names), {{}, 2, threads})) {
      for (const WayTiming& timing : one.timings) {
        EXPECT_THAT(timing.failed, Not(StartsWith("wrong"))) << timing.way;
        EXPECT_EQ(timing.time.samples, timing.failed.empty() ? 2 : 0) << timing.way;
      }
      for (const char* library :
           {"spjit", "spjit-nhwc", "im2col+spmm", "im2col+spmm-nhwc", "reference"}) {
        ASSERT_NE(one.find(library), nullptr) << library;
        EXPECT_GT(one.find(library)->time.median_us, 0);
        EXPECT_THAT(one.find(library)->chosen, Not(IsEmpty()));
      }
    }
  }
}

TEST(MeasureConvolutions, WhatIsWrongIsNotTimed) {
  std::vector<std::unique_ptr<ConvPeer>> peers;
  peers.push_back(std::make_unique<WrongPeer>());

  const std::vector<Case> cases = convolved(peers);

  ASSERT_THAT(cases, SizeIs(3));
  EXPECT_THAT(cases[0].timings.at(0).failed, StartsWith("wrong: layer 0 (stem): image 0 filter 0"));
  EXPECT_EQ(cases[0].find("wrong one"), nullptr);
  EXPECT_EQ(cases[2].timings.at(0).failed, "groups");
}

TEST(MeasureConvolutions, TakesOneLayerOfAShapeWhereItIsHot) {
  const std::vector<Case> cases = convolved(make_conv_peers({}, {"spjit"}), {{}, 2, 1, true});

  ASSERT_THAT(cases, SizeIs(3));
  EXPECT_TRUE(cases[1].hot);
  EXPECT_EQ(cases[1].layers, 2);
  EXPECT_GT(cases[1].find("spjit")->time.median_us, 0);
}

TEST(MakeConvPeers, KnowLibrariesAndFamilies) {
  const auto peers = make_conv_peers({}, {"csr-nhwc", "spjit"});
  ASSERT_THAT(peers, SizeIs(2));
  EXPECT_EQ(peers[0]->info().name, "csr-nhwc");
  EXPECT_EQ(peers[0]->layout(), Layout::tokens_major);
  EXPECT_THAT([] { (void)make_conv_peers({}, {"cudnn"}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("no peer 'cudnn'; there are")));
}

TEST(MakeConvPeers, ListWhatIsMissing) {
  ConvPeerSettings settings;
  settings.onnxruntime_folder = "/nowhere";
  const auto peers = make_conv_peers(settings, {"onnxruntime"});
  EXPECT_THAT(peers[0]->info().missing, HasSubstr("/nowhere"));
  EXPECT_TRUE(convolved(peers)[0].timings.empty());
}

// The driver.

class RunLab : public testing::Test {
 protected:
  LabOptions options(const std::string& kind) const {
    LabOptions options = quick(kind);
    options.json = folder_.path() / "result.json";
    options.threads = {1};
    options.n = {8};
    if (!options.families.empty()) options.families = {"csr"};
    options.peers =
        kind == "host" ? std::vector<std::string>{"csr"} : std::vector<std::string>{"spjit"};
    options.comparisons = {"values"};
    if (kind == "layer") options.n = {16};
    return options;
  }
  [[nodiscard]] nlohmann::json document() const {
    std::ifstream file(folder_.path() / "result.json");
    return nlohmann::json::parse(file);
  }

  TemporaryDirectory folder_;
};

TEST_F(RunLab, WritesOneSchemaOfEveryKind) {
  for (const std::string& kind : all_kinds()) {
    ASSERT_EQ(run_lab(options(kind)), 0) << kind;

    const nlohmann::json written = document();
    EXPECT_EQ(written.at("schema"), "spjit-lab-1");
    EXPECT_EQ(written.at("kind"), kind);
    ASSERT_FALSE(written.at("cases").empty()) << kind;
    for (const nlohmann::json& record : written.at("cases")) {
      EXPECT_EQ(record.at("caches"), kind == "host" ? "hot" : "cold");
      EXPECT_GE(record.at("timings").size(), 2U);
    }
  }
}

TEST_F(RunLab, TheHostIsCompiledCheckedAndHeldAgainstThePeak) {
  ASSERT_EQ(run_lab(options("host")), 0);

  const nlohmann::json facts = document().at("cases").at(0).at("facts");
  for (const char* fact : {"cold_compile_ms", "warm_hit_ms", "peak_gflops", "max_error"}) {
    EXPECT_GT(facts.at(fact).get<double>(), 0) << fact;
  }
  EXPECT_LE(facts.at("max_bound_ratio").get<double>(), 1);
}

TEST_F(RunLab, GoesOnOnlyWithItsOwnKind) {
  ASSERT_EQ(run_lab(options("model")), 0);
  LabOptions other = options("layer");
  other.append = true;
  EXPECT_THROW((void)run_lab(other), Error);

  LabOptions same = options("model");
  same.append = true;
  same.n = {8, 16};
  ASSERT_EQ(run_lab(same), 0);

  EXPECT_EQ(document().at("cases").size(), 2U);
  EXPECT_EQ(document().at("workloads").size(), 1U);
}

TEST_F(RunLab, KeepsWorkloadsWhoseNameIsWanted) {
  LabOptions some = options("model");
  some.quick = false;
  some.data = "/nowhere";
  some.networks = folder_.path();
  for (const char* name : {"one-50", "two-90"}) {
    std::filesystem::create_directories(folder_.path() / name);
    save_matrix(random_matrix(2, 2, 0.5, 1), folder_.path() / name / "0.npz");
  }
  some.only = {"-90", "three"};

  ASSERT_EQ(run_lab(some), 0);

  ASSERT_EQ(document().at("cases").size(), 1U);
  EXPECT_EQ(document().at("cases").at(0).at("workload"), "two-90");
  some.only = {"vgg"};
  EXPECT_THAT([&] { (void)run_lab(some); }, ThrowsMessage<Error>(HasSubstr("no workload matches")));
}

TEST(DefaultOptions, AreThoseOfTheKind) {
  EXPECT_THAT(all_kinds(), ElementsAre("host", "layer", "conv", "model"));
  EXPECT_THAT(default_options("host", ".").n, ElementsAre(128, 512));
  EXPECT_THAT(default_options("conv", ".").n, ElementsAre(1, 8));
  EXPECT_THROW((void)make_kind(LabOptions{}), InvalidArgument);
}

}  // namespace
