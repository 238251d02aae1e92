#include "bench/side_by_side/cuda/cuda_peers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/side_by_side/cuda/sputnik_kernel.hpp"
#include "bench/side_by_side/cuda/toolkit_library.hpp"
#include "bench/side_by_side/measure_case.hpp"
#include "runtime/cuda/cuda_libraries.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/error.hpp"
#include "spjit/generate.hpp"

namespace {

using namespace spjit::side_by_side;
using spjit::CsrMatrix;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// 9 x 80, its first and last row empty, one of its rows full: more than a warp stages at a time.
CsrMatrix with_long_and_empty_rows() {
  CsrMatrix matrix{9, 80, {0}, {}, {}};
  for (std::int32_t row = 0; row < 9; ++row) {
    const std::int32_t step = row == 4 ? 1 : 5;
    for (std::int32_t col = row; col < 80 && row > 0 && row < 8; col += step) {
      matrix.col_idxs.push_back(col);
      matrix.values.push_back(0.25F * static_cast<float>(1 + (row + col) % 7));
    }
    matrix.row_ptrs.push_back(matrix.nnz());
  }
  return matrix;
}

/// On the emulated driver, which computes, but in no time that means anything.
class CudaPeers : public testing::Test {
 protected:
  CudaPeers() {
    ::setenv("SPJIT_CUDA_DRIVER", SPJIT_EMULATED_CUDA, 1);
    const spjit::CudaContext context(spjit::local_cuda_driver(), 0);
    settings_.side = std::make_shared<DeviceSide>(context);
  }

  CudaPeerSettings settings_;
};

std::string problem_of(Peer& peer, const CsrMatrix& matrix, std::int64_t n) {
  Operands operands(matrix, n);
  const auto runnable = peer.prepare(operands.problem(1));
  operands.spoil_c();
  runnable->run();
  runnable->publish();
  return operands.check_c();
}

TEST_F(CudaPeers, OfThisRepositoryComputeOddAndEvenColumnsLongAndEmptyRows) {
  for (const auto& peer : make_cuda_peers(
           settings_, {"spjit", "row-split", "packed", "narrow", "dense", "sputnik-style"})) {
    if (!peer->info().missing.empty()) GTEST_SKIP() << peer->info().missing;
    for (const std::int64_t n : {1, 6, 32, 33, 64, 132}) {
      const std::string& name = peer->info().name;
      if ((name == "packed" || name == "narrow") && n > 16) continue;  // they refuse them
      try {
        EXPECT_EQ(problem_of(*peer, with_long_and_empty_rows(), n), "") << peer->info().name;
      } catch (const spjit::NotSupported& missing) {
        GTEST_SKIP() << missing.what();  // the compiler libraries
      }
    }
  }
}

TEST_F(CudaPeers, HaveSoManyCopiesOfAThatEnoughPassesBetweenTwoUsesOfOne) {
  const DeviceSide cold(settings_.side->context(), 1000);

  EXPECT_EQ(settings_.side->copies(500), 1);
  EXPECT_EQ(cold.copies(500), 3);
  EXPECT_EQ(cold.copies(1000), 2);
  EXPECT_EQ(cold.copies(1500), 2);
  EXPECT_EQ(cold.copies(300), 5);
}

/// Notes the order in which its works are called.
class NumberedWork final : public DeviceWork {
 public:
  NumberedWork(std::int64_t a_bytes, std::vector<int>& order, int number)
      : a_bytes_(a_bytes), order_(order), number_(number) {}
  void enqueue(const float* /*b*/, float* /*c*/, void* /*stream*/) override {
    order_.push_back(number_);
  }
  [[nodiscard]] std::int64_t a_bytes() const override { return a_bytes_; }

 private:
  std::int64_t a_bytes_;
  std::vector<int>& order_;
  int number_;
};

TEST_F(CudaPeers, TakeTurnsWithTheirCopiesWhenItIsCold) {
  const auto cold = std::make_shared<DeviceSide>(settings_.side->context(), 400);
  Operands operands(with_long_and_empty_rows(), 1);
  std::vector<int> order;
  int made = 0;

  const DeviceRunnable runnable(cold, operands.problem(1),
                                [&](const auto& /*b*/, const auto& /*c*/) {
                                  return std::make_unique<NumberedWork>(100, order, made++);
                                });

  EXPECT_EQ(made, 5);
  ASSERT_EQ(order.size(), 5 + 20);  // each once before the recording
  for (int i = 0; i < 20; ++i) EXPECT_EQ(order.at(static_cast<std::size_t>(5 + i)), i % 5);
}

TEST_F(CudaPeers, AreTimedByTheProductNotByTheRun) {
  const auto peers = make_cuda_peers(settings_, {"sputnik-style"});
  if (!peers[0]->info().missing.empty()) GTEST_SKIP() << peers[0]->info().missing;
  Operands operands(with_long_and_empty_rows(), 4);
  MeasureOptions options;
  options.budget_ms = 1;
  options.warm_up_ms = 0;
  options.min_batch_us = 0;
  options.cold_runs = 0;
  // 40 ms between two readings: a sample of one run, 20 products.
  options.clock = [now = std::chrono::nanoseconds(0)]() mutable {
    return now += std::chrono::milliseconds(40);
  };
  spjit::HostCpu small_caches;
  small_caches.l3_bytes = 65536;
  spjit::CacheFlush caches(small_caches, nullptr);

  const CaseResult result = measure_case(peers, operands, 1, options, caches);

  EXPECT_TRUE(result.checked);
  EXPECT_EQ(result.peak_gflops, 0);
  EXPECT_DOUBLE_EQ(result.timings.at(0).warm.median_us, 2000);
}

TEST_F(CudaPeers, AreAllListedWithAVersionOrAReason) {
  std::vector<std::string> names;
  for (const auto& peer : make_cuda_peers(settings_, all_cuda_peer_names())) {
    names.push_back(peer->info().name);
    EXPECT_THAT(peer->info().version + peer->info().missing, Not(IsEmpty())) << names.back();
  }

  EXPECT_EQ(names, all_cuda_peer_names());
}

TEST_F(CudaPeers, OfAnUnknownNameAreRefusedWithTheList) {
  try {
    (void)make_cuda_peers(settings_, {"openblas"});
    FAIL() << "accepted";
  } catch (const spjit::InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("'openblas'"));
    EXPECT_THAT(error.what(), HasSubstr("cublas-tf32"));
  }
}

/// For a GPU that this machine need not have.
/// scripts/build/setup_cuda.sh --peers makes such a folder.
TEST(ToolkitLibrary, IsFoundWherePipInstalledIt) {
  namespace fs = std::filesystem;
  const fs::path folder =
      fs::temp_directory_path() / ("spjit-toolkit-" + std::to_string(::getpid()));
  fs::create_directories(folder / "nvidia/cu13/lib");
  fs::copy_file(SPJIT_EMULATED_CUDA, folder / "nvidia/cu13/lib/libspjit_some_peer.so.13");
  const char* before = std::getenv("SPJIT_CUDA_PATH");
  const auto earlier = before == nullptr ? std::nullopt : std::optional<std::string>(before);
  ::setenv("SPJIT_CUDA_PATH", folder.c_str(), 1);

  const bool is_found = open_toolkit_library("libspjit_some_peer.so.13").has_value();
  const bool other_is_found = open_toolkit_library("libspjit_some_peer.so.12").has_value();

  ::unsetenv("SPJIT_CUDA_PATH");
  if (earlier) ::setenv("SPJIT_CUDA_PATH", earlier->c_str(), 1);
  fs::remove_all(folder);
  EXPECT_TRUE(is_found);
  EXPECT_FALSE(other_is_found);
}

TEST(SputnikKernel, CompilesToMachineCodeForEveryTile) {
  spjit::CudaToolchainNeeds needs;
  needs.arch = 90;
  try {
    const auto toolchain = spjit::load_cuda_toolchain(needs, spjit::found_cuda_libraries());
    spjit::NvrtcOptions options;
    options.arch = needs.arch;
    for (const SputnikTile tile : {SputnikTile{8, 4}, SputnikTile{16, 2}, SputnikTile{32, 1}}) {
      const spjit::CompiledCode code =
          toolchain.nvrtc->compile("sputnik_style.cu", sputnik_source(tile), options);

      EXPECT_THAT(code.code, HasSubstr(k_sputnik_kernel_name)) << tile.threads;
    }
  } catch (const spjit::NotSupported& missing) {
    GTEST_SKIP() << missing.what();
  }
}

TEST(SputnikKernel, HasATileThatLeavesFewThreadsIdle) {
  EXPECT_EQ(sputnik_tile_for(512), (SputnikTile{32, 4}));
  EXPECT_EQ(sputnik_tile_for(32), (SputnikTile{8, 4}));
  EXPECT_EQ(sputnik_tile_for(64), (SputnikTile{16, 4}));
  EXPECT_EQ(sputnik_tile_for(66), (SputnikTile{8, 2}));
  EXPECT_EQ(sputnik_tile_for(49), (SputnikTile{8, 1}));
}

}  // namespace
