/// @file
/// spjit, and the CSR loop written by hand that is part of it.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "bench/side_by_side/peers.hpp"
#include "spjit/kernel.hpp"
#include "spjit/version.hpp"
#include "tools/peers/csr_peer.hpp"

namespace spjit::side_by_side {
namespace {

class SpjitRunnable final : public Runnable {
 public:
  SpjitRunnable(Kernel kernel, const Problem& problem)
      : kernel_(std::move(kernel)), b_(problem.b), c_(problem.c) {}

  void run() override { kernel_.run(b_, c_); }

  [[nodiscard]] std::string detail() const override {
    const KernelInfo& info = kernel_.info();
    return info.tile.empty() ? info.family : info.tile;
  }

 private:
  Kernel kernel_;
  const float* b_;
  float* c_;
};

class SpjitPeer final : public Peer {
 public:
  /// `family`: the only one that is asked; empty: one is chosen.
  SpjitPeer(const PeerSettings& settings, const std::string& family)
      : Peer({family.empty() ? "spjit" : family, SPJIT_VERSION, "jit", "", "cold compile"}) {
    options_.target = settings.target;
    options_.policy.search = settings.search;
    options_.policy.hot = settings.hot;
    options_.policy.family = family;
  }

  std::unique_ptr<Runnable> prepare(const Problem& problem) override {
    return make_spjit_runnable(
        compiler_for(problem).compile({.a = *problem.matrix, .n = problem.n}), problem);
  }

 private:
  /// The one of so many threads and such a network, whose kernels share a pool as those of a
  /// network do.
  const Compiler& compiler_for(const Problem& problem) {
    const std::pair key{problem.threads, problem.network_nnz};
    if (const auto found = compilers_.find(key); found != compilers_.end()) return found->second;
    CompileOptions options = options_;
    options.resources.threads = problem.threads;
    options.policy.network_nnz = problem.network_nnz;
    CacheOptions no_cache;
    no_cache.enabled = false;
    return compilers_.emplace(key, Compiler(options, no_cache)).first->second;
  }

  CompileOptions options_;
  std::map<std::pair<int, std::int64_t>, Compiler> compilers_;  // by threads and network
};

class CsrRunnable final : public Runnable {
 public:
  CsrRunnable(const Problem& problem, HostIsa isa)
      : csr_(*problem.matrix, isa, problem.threads),
        operands_{problem.b, problem.n, problem.c, problem.n, problem.n} {}

  void run() override { csr_.run(operands_); }

 private:
  CsrPeer csr_;
  Product operands_;
};

class HandWrittenCsr final : public Peer {
 public:
  explicit HandWrittenCsr(HostIsa isa)
      : Peer({"csr", "spjit " SPJIT_VERSION ", " + to_string(isa), "sparse"}), isa_(isa) {}

  std::unique_ptr<Runnable> prepare(const Problem& problem) override {
    return std::make_unique<CsrRunnable>(problem, isa_);
  }

 private:
  HostIsa isa_;
};

}  // namespace

std::unique_ptr<Runnable> make_spjit_runnable(Kernel kernel, const Problem& problem) {
  return std::make_unique<SpjitRunnable>(std::move(kernel), problem);
}

std::unique_ptr<Peer> make_spjit_peer(const PeerSettings& settings) {
  return std::make_unique<SpjitPeer>(settings, "");
}

std::unique_ptr<Peer> make_family_peer(const PeerSettings& settings, const std::string& family) {
  return std::make_unique<SpjitPeer>(settings, family);
}

std::unique_ptr<Peer> make_csr_peer(const PeerSettings& settings) {
  return std::make_unique<HandWrittenCsr>(settings.target.isa());
}

}  // namespace spjit::side_by_side
