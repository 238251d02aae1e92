#include "bench/side_by_side/peers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/host/surroundings.hpp"
#include "bench/side_by_side/measure_case.hpp"
#include "bench/side_by_side/peer_folders.hpp"
#include "bench/side_by_side/peer_ways.hpp"
#include "spjit/error.hpp"
#include "spjit/generate.hpp"

namespace {

using namespace spjit::side_by_side;
using spjit::CsrMatrix;
using testing::HasSubstr;
using testing::Not;

/// 37 x 64, its first, last and two middle rows and one column empty.
CsrMatrix with_empty_rows() {
  spjit::GenerateOptions options;
  options.rows = 37;
  options.cols = 64;
  options.sparsity = 0.8;
  const CsrMatrix full = spjit::generate_matrix(options);
  CsrMatrix matrix{full.rows, full.cols, {0}, {}, {}};
  for (std::int64_t row = 0; row < full.rows; ++row) {
    const bool empty = row == 0 || row == 17 || row == 18 || row == 36;
    const auto first = full.row_ptrs[static_cast<std::size_t>(row)];
    const auto last = full.row_ptrs[static_cast<std::size_t>(row) + 1];
    for (std::int64_t i = first; i < last && !empty; ++i) {
      const std::int32_t col = full.col_idxs[static_cast<std::size_t>(i)];
      if (col == 5) continue;
      matrix.col_idxs.push_back(col);
      matrix.values.push_back(full.values[static_cast<std::size_t>(i)]);
    }
    matrix.row_ptrs.push_back(matrix.nnz());
  }
  return matrix;
}

CsrMatrix without_nonzeros() { return {16, 16, std::vector<std::int64_t>(17, 0), {}, {}}; }

/// The peers as a user has them: MKL, ONNX Runtime and scipy where scripts/build/setup_peers.sh
/// puts it.
class Peers : public testing::Test {
 protected:
  Peers() {
    prepare_environment();
    std::filesystem::create_directory(scratch_.path());
    settings_ = settings_of(SPJIT_SOURCE_DIR);
    settings_.scratch = scratch_.path();
  }

  std::vector<std::unique_ptr<Peer>> make(const std::vector<std::string>& names) {
    return make_peers(settings_, names);
  }

  spjit::bench::ScratchDirectory scratch_{"spjit-peers-test"};
  PeerSettings settings_;
};

/// What is wrong with the peer's product; "" if nothing is.
std::string problem_of(Peer& peer, const CsrMatrix& matrix, std::int64_t n, int threads) {
  Operands operands(matrix, n);
  const auto runnable = peer.prepare(operands.problem(threads));
  for (int run = 0; run < 2; ++run) {  // a run must not depend on what C holds
    operands.spoil_c();
    runnable->receive();
    runnable->run();
    runnable->publish();
    runnable->rest();
    std::string wrong = operands.check_c();
    if (!wrong.empty()) return wrong;
  }
  return {};
}

/// Empty rows and columns, odd n, n = 1, no nonzeros; on 1 and 2 threads. A library may refuse a
/// case, with a reason, but not compute it wrongly.
void expect_right_or_refused(Peer& peer) {
  for (const CsrMatrix& matrix : {with_empty_rows(), without_nonzeros()}) {
    for (const std::int64_t n : {1, 2, 3, 4, 5, 16, 17, 33}) {
      for (const int threads : {1, 2}) {
        try {
          EXPECT_EQ(problem_of(peer, matrix, n, threads), "")
              << peer.info().name << ", n = " << n << ", " << threads << " threads";
        } catch (const spjit::Error& refused) {
          EXPECT_STRNE(refused.what(), "");
        }
      }
    }
  }
}

/// For n of 1 to 4.
std::array<std::vector<std::string>, 4> same(const std::vector<std::string>& ways) {
  return {ways, ways, ways, ways};
}
std::array<std::vector<std::string>, 4> vector_or_tokens(const std::vector<std::string>& one,
                                                         const std::vector<std::string>& more) {
  return {one, more, more, more};
}

TEST_F(Peers, OfThisRepositoryComputeEverything) {
  for (const auto& peer : make({"spjit", "csr"})) {
    for (const CsrMatrix& matrix : {with_empty_rows(), without_nonzeros()}) {
      for (const std::int64_t n : {1, 17, 32}) {
        EXPECT_EQ(problem_of(*peer, matrix, n, 1), "") << peer->info().name;
        EXPECT_EQ(problem_of(*peer, matrix, n, 2), "") << peer->info().name;
      }
    }
  }
}

TEST_F(Peers, ThatAreInstalledAgreeWithTheReferenceOrRefuse) {
  for (const auto& peer : make(all_peer_names())) {
    if (peer->info().missing.empty()) expect_right_or_refused(*peer);
  }
}

TEST_F(Peers, ThatAreInstalledComputeAnOrdinaryCaseOnOneThread) {
  for (const auto& peer : make(all_peer_names())) {
    if (!peer->info().missing.empty()) continue;

    EXPECT_EQ(problem_of(*peer, with_empty_rows(), 64, 1), "") << peer->info().name;
  }
}

/// libxsmm's search for equal values is quadratic.
TEST_F(Peers, RefuseWhatWouldTakeThemSecondsToPrepare) {
  const auto peers = make({"libxsmm"});
  if (!peers[0]->info().missing.empty()) GTEST_SKIP() << peers[0]->info().missing;
  spjit::GenerateOptions options;
  options.rows = 300;
  options.cols = 300;
  options.sparsity = 0.5;
  Operands operands(spjit::generate_matrix(options), 16);

  try {
    (void)peers[0]->prepare(operands.problem(1));
    FAIL() << "accepted";
  } catch (const spjit::NotSupported& refused) {
    EXPECT_THAT(refused.what(), HasSubstr("distinct values"));
  }
}

TEST_F(Peers, ThatAreMissingSayWhatToInstall) {
  settings_.mkl_folder = "/nonexistent";
  settings_.onnxruntime_folder = "/nonexistent";
  settings_.pythons = {"/nonexistent/python3"};

  const auto peers = make({"mkl-dense", "mkl-sparse", "onnxruntime", "scipy"});

  ASSERT_EQ(peers.size(), 4);
  EXPECT_THAT(peers[0]->info().missing, HasSubstr("setup_peers.sh"));
  EXPECT_THAT(peers[1]->info().missing, HasSubstr("/nonexistent"));
  EXPECT_THAT(peers[2]->info().missing, HasSubstr("/nonexistent"));
  EXPECT_THAT(peers[2]->info().missing, HasSubstr("setup_peers.sh"));
  EXPECT_THAT(peers[3]->info().missing, HasSubstr("setup_peers.sh"));
  Operands operands(with_empty_rows(), 8);
  EXPECT_THROW((void)peers[0]->prepare(operands.problem(1)), spjit::NotSupported);
}

TEST_F(Peers, AreListedOnceAndInOrder) {
  std::vector<std::string> names;
  for (const auto& peer : make(all_peer_names())) {
    names.push_back(peer->info().name);
    EXPECT_THAT(peer->info().kind, testing::AnyOf("dense", "sparse", "jit"));
    if (peer->info().missing.empty()) {
      EXPECT_THAT(peer->info().version, Not(testing::IsEmpty()));
    }
  }

  EXPECT_EQ(names, all_peer_names());
}

/// Nobody is measured below his best: every way that his documentation offers for few columns, of
/// which the fastest is taken. A peer that is not here, or calls that are new, fail.
TEST_F(Peers, AreCalledInTheseWaysForFewColumns) {
  using Ways = std::vector<std::string>;
  const std::map<std::string, std::array<Ways, 4>> expected = {
      {"spjit", same({"Kernel::run"})},
      {"csr", same({"a loop over A"})},
      {"openblas", vector_or_tokens({"sgemv", "sgemm", "sgemm of tokens, A transposed before"},
                                    {"sgemv a token", "sgemm of tokens",
                                     "sgemm of tokens, A transposed before", "sgemm"})},
      {"onednn",
       vector_or_tokens({"dnnl_sgemm", "dnnl_matmul of tokens, A packed before"},
                        {"dnnl_sgemm of tokens", "dnnl_sgemm of tokens, A transposed before",
                         "dnnl_sgemm", "dnnl_matmul of tokens, A packed before"})},
      {"eigen", vector_or_tokens({"sparse matrix times vector"}, {"sparse matrix times matrix"})},
      {"libxsmm", same({"libxsmm_sfsspmdm_execute"})},
      {"xnnpack", same({"convolution2d_nchw_f32"})},
      {"mkl-dense",
       vector_or_tokens(
           {"sgemv", "sgemm", "sgemm of tokens, A transposed before", "sgemm, A packed before"},
           {"sgemv a token", "sgemm of tokens", "sgemm of tokens, A transposed before", "sgemm",
            "sgemm, A packed before", "sgemm of tokens, A packed before"})},
      {"mkl-sparse", vector_or_tokens({"mkl_sparse_s_mv", "mkl_sparse_s_mm"},
                                      {"mkl_sparse_s_mm", "mkl_sparse_s_mm of tokens"})},
      {"onnxruntime", same({"MatMul of tokens, W constant and packed"})},
      {"scipy", vector_or_tokens({"sparse matrix times vector"}, {"sparse matrix times matrix"})}};

  for (const std::string& name : all_peer_names()) {
    ASSERT_TRUE(expected.contains(name)) << name;
    for (std::int64_t n = 1; n <= 4; ++n) {
      EXPECT_EQ(ways_of(name, n), expected.at(name)[static_cast<std::size_t>(n - 1)])
          << name << ", n = " << n;
    }
  }
}

/// The list is what is called.
TEST_F(Peers, ThatHaveSeveralWaysTakeOneOfTheList) {
  for (const auto& peer : make({"openblas", "onednn", "mkl-dense", "mkl-sparse"})) {
    if (!peer->info().missing.empty()) continue;
    for (const std::int64_t n : {1, 2, 3, 4, 32}) {
      Operands operands(with_empty_rows(), n);

      const std::string way = peer->prepare(operands.problem(1))->detail();

      EXPECT_TRUE(
          std::ranges::any_of(ways_of(peer->info().name, n),
                              [&](const std::string& listed) { return way.starts_with(listed); }))
          << peer->info().name << ", n = " << n << ": " << way;
    }
  }
}

TEST_F(Peers, OfAnUnknownNameAreRefusedWithTheList) {
  try {
    (void)make({"cublas"});
    FAIL() << "accepted";
  } catch (const spjit::InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("'cublas'"));
    EXPECT_THAT(error.what(), HasSubstr("openblas"));
  }
}

}  // namespace
