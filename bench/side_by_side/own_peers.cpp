/// @file
/// spjit, and the CSR loop written by hand that is part of it.

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
  SpjitPeer(const PeerSettings& settings, std::string family)
      : Peer({family.empty() ? "spjit" : family, SPJIT_VERSION, "jit", "", "cold compile"}),
        target_(settings.target),
        search_(settings.search),
        hot_(settings.hot),
        family_(std::move(family)) {}

  std::unique_ptr<Runnable> prepare(const Problem& problem) override {
    CompileOptions options;
    options.target = target_;
    options.resources.threads = problem.threads;
    options.policy.search = search_;
    options.policy.hot = hot_;
    options.policy.family = family_;
    CacheOptions no_cache;
    no_cache.enabled = false;
    return std::make_unique<SpjitRunnable>(
        Compiler(options, no_cache).compile({.a = *problem.matrix, .n = problem.n}), problem);
  }

 private:
  Target target_;
  SearchMode search_;
  bool hot_;
  std::string family_;
};

class CsrRunnable final : public Runnable {
 public:
  CsrRunnable(const Problem& problem, HostIsa isa)
      : csr_(*problem.matrix, isa, problem.threads),
        operands_{problem.b, problem.n, problem.c, problem.n, problem.n} {}

  void run() override { csr_.run(operands_); }

 private:
  CsrPeer csr_;
  Arguments operands_;
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
