#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <span>
#include <utility>

#include "base/host_cpu.hpp"
#include "bench/host/read_bandwidth.hpp"
#include "bench/lab/kind.hpp"
#include "bench/lab/ways.hpp"
#include "bench/model/network.hpp"
#include "bench/side_by_side/case_sets.hpp"
#include "bench/side_by_side/measure_case.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "spjit/kernel.hpp"
#include "spjit/version.hpp"
#include "tests/support/float64_check.hpp"
#include "tools/peers/machine_peak.hpp"

namespace spjit::bench {
namespace {

namespace fs = std::filesystem;
using side_by_side::MatrixEntry;
using side_by_side::Operands;
using side_by_side::Peer;
using side_by_side::PeerInfo;
using Peers = std::vector<std::unique_ptr<Peer>>;

constexpr int k_warm_hits = 5;
constexpr int k_cold_compiles = 3;
constexpr std::int64_t k_long_compile_nnz = 500'000;  // from here on, one is enough to tell
constexpr double k_peak_ms = 15;

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

bool same_bits(const std::vector<float>& one, const std::vector<float>& other) {
  return std::ranges::equal(std::as_bytes(std::span(one)), std::as_bytes(std::span(other)));
}

/// DLMC's; where there are none, those shapes and sparsities that goals name. Then the ones that
/// DLMC has no file for here, and last one of 2M nonzeros.
std::vector<MatrixEntry> host_matrices(const LabOptions& options) {
  std::vector<MatrixEntry> all;
  const auto add = [&](std::int64_t rows, std::int64_t cols, double sparsity) {
    all.push_back(side_by_side::uniform_entry("generated", rows, cols, sparsity));
    all.back().name = fmt::format("uniform/{}x{}/{:.4g}", rows, cols, sparsity);
  };
  if (!options.quick && fs::is_directory(options.data / "dlmc")) {
    side_by_side::SetOptions sets;
    sets.data = options.data;
    all = side_by_side::list_matrices("dlmc", sets);
    for (MatrixEntry& entry : all) entry.name = fs::path(entry.name).replace_extension().string();
  }
  if (all.empty()) {
    for (const double sparsity : {0.5, 0.7, 0.8, 0.9, 0.95}) add(512, 512, sparsity);
    add(2048, 512, 0.9);
    add(512, 2048, 0.9);
  }
  add(2048, 512, 0.95);
  add(512, 2048, 0.95);
  for (const double sparsity : {0.9, 0.95}) add(2048, 1024, sparsity);
  add(4096, 4096, 1 - 2e6 / (4096.0 * 4096.0));
  return all;
}

class HostMatrix final : public Workload {
 public:
  HostMatrix(const LabOptions& options, const MatrixEntry& of, Peers& peers)
      : options_(options), source_(of.set), matrix_(of.load()), peers_(peers) {}

  std::vector<Case> measure(const Conditions& conditions) override;

 private:
  Kernel compile_timed(const Conditions& conditions, nlohmann::json& facts) const;
  std::vector<ReadyWay> prepare(const Conditions& conditions, Operands& operands,
                                nlohmann::json& facts);

  const LabOptions& options_;
  std::string source_;
  CsrMatrix matrix_;
  Peers& peers_;
};

/// Cold and warm compiles, through a cache of their own.
Kernel HostMatrix::compile_timed(const Conditions& conditions, nlohmann::json& facts) const {
  CompileOptions options;
  options.target = options_.settings.target;
  options.resources.threads = conditions.threads;
  options.policy.hot = true;
  const fs::path folder = options_.settings.scratch / "cache";
  const CacheOptions cache{true, folder};
  Problem problem;
  problem.a = matrix_;
  problem.n = conditions.n;
  std::vector<double> colds;
  std::vector<double> encodes;
  const int compiles = matrix_.nnz() < k_long_compile_nnz ? k_cold_compiles : 1;
  for (int compile = 0; compile < compiles; ++compile) {
    fs::remove_all(folder);
    const auto begin = std::chrono::steady_clock::now();
    const Kernel kernel = Compiler(options, cache).compile(problem);
    colds.push_back(ms_since(begin));
    const auto record = nlohmann::json::parse(kernel.record());
    encodes.push_back(record.at("compile_ms").at("emit").get<double>());
  }
  Kernel kernel = Compiler(options, cache).compile(problem);
  std::vector<double> hits;
  for (int hit = 0; hit < k_warm_hits; ++hit) {
    const Compiler compiler(options, cache);
    const auto begin = std::chrono::steady_clock::now();
    const Kernel cached = compiler.compile(problem);
    hits.push_back(ms_since(begin));
    if (cached.info().from_cache) continue;
    throw Error("a kernel just cached was compiled again: " + cached.info().note);
  }
  facts["cold_compile_ms"] = median_of(colds);
  facts["encode_ms"] = median_of(encodes);
  facts["warm_hit_ms"] = median_of(hits);
  facts["family"] = kernel.info().family;
  facts["code_bytes"] = kernel.info().code_bytes;
  return kernel;
}

/// spjit, whose bits must be those of `csr`, then its peers.
std::vector<ReadyWay> HostMatrix::prepare(const Conditions& conditions, Operands& operands,
                                          nlohmann::json& facts) {
  const side_by_side::Problem problem = operands.problem(conditions.threads);
  const std::int64_t n = conditions.n;
  const auto c = [&] { return std::vector<float>(problem.c, problem.c + matrix_.rows * n); };
  std::vector<float> own;
  WayMaker maker;
  maker.name = "spjit";
  maker.prepare = [&](std::size_t /*layer*/) {
    return side_by_side::make_spjit_runnable(compile_timed(conditions, facts), problem);
  };
  maker.spoil = [&] { operands.spoil_c(); };
  maker.check = [&](std::size_t /*layer*/) {
    const ErrorReport error = compare_with_float64(matrix_, {problem.b, n, problem.c, n, n});
    facts["max_error"] = error.max_error;
    facts["max_bound_ratio"] = error.max_bound_ratio;
    own = c();
    return operands.check_c();
  };
  std::vector<ReadyWay> ways;
  ways.push_back(prepare_way(maker, 1, conditions.threads));
  if (!ways.front().failed.empty()) throw Error(ways.front().failed);
  for (const auto& peer : peers_) {
    if (!peer->info().missing.empty()) continue;
    maker.name = peer->info().name;
    maker.prepare = [&](std::size_t /*layer*/) { return peer->prepare(problem); };
    maker.check = [&](std::size_t /*layer*/) {
      if (maker.name == "csr" && !same_bits(own, c())) {
        return std::string("wrong: its bits are not the kernel's");
      }
      return operands.check_c(peer->info().rounding);
    };
    ways.push_back(prepare_way(maker, 1, conditions.threads));
  }
  return ways;
}

std::vector<Case> HostMatrix::measure(const Conditions& conditions) {
  Case one;
  one.rows = matrix_.rows;
  one.cols = matrix_.cols;
  one.nnz = matrix_.nnz();
  one.sparsity = sparsity_of({{"", matrix_}});
  one.threads = conditions.threads;
  one.hot = true;
  one.facts["source"] = source_;
  Operands operands(matrix_, conditions.n);
  const std::vector<ReadyWay> ways = prepare(conditions, operands, one.facts);
  const HostIsa isa = options_.settings.target.isa();
  const double before = measure_fma_peak_gflops(isa, k_peak_ms);
  std::vector<Case> cases = {std::move(one)};
  time_ways(ways, {LayerGroup{{0}}}, options_.timing, cases);
  cases.front().timings.front().prepare_ms = cases.front().facts.at("cold_compile_ms");
  cases.front().facts["peak_gflops"] = std::max(before, measure_fma_peak_gflops(isa, k_peak_ms));
  return cases;
}

class HostKind final : public Kind {
 public:
  explicit HostKind(const LabOptions& options)
      : options_(options), peers_(side_by_side::make_peers(options.settings, options.peers)) {}

  std::vector<PeerInfo> libraries() override {
    std::vector<PeerInfo> infos = {{"spjit", SPJIT_VERSION, "jit", "", "cold compile"}};
    for (const PeerInfo& info : side_by_side::infos_of(peers_)) infos.push_back(info);
    return infos;
  }

  std::vector<WorkloadEntry> workloads() override {
    std::vector<WorkloadEntry> entries;
    const std::vector<MatrixEntry> matrices = host_matrices(options_);
    for (const MatrixEntry& matrix : matrices) {
      LabOptions some = options_;
      if (&matrix == &matrices.back()) {  // so large that one condition says enough
        some.n.resize(1);
        some.threads = {1};
      }
      std::vector<Conditions> conditions = all_conditions(some);
      for (Conditions& one : conditions) one.hot = true;
      entries.push_back({matrix.name, std::move(conditions), [this, matrix] {
                           return std::make_unique<HostMatrix>(options_, matrix, peers_);
                         }});
      if (options_.quick) break;
    }
    return entries;
  }

  void describe_device(nlohmann::json& device) const override {
    const HostCpu& cpu = host_cpu();
    device["l2_gbytes_per_s"] =
        measure_read_bandwidth(options_.settings.target.isa(), cpu.l2_bytes / 2);
  }

 private:
  LabOptions options_;
  Peers peers_;
};

}  // namespace

std::unique_ptr<Kind> make_host_kind(const LabOptions& options) {
  return std::make_unique<HostKind>(options);
}

}  // namespace spjit::bench
