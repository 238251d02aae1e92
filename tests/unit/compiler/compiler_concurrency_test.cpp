// One Compiler, many threads: who compiles, who waits, who runs.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <latch>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/forked_child.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

CsrMatrix matrix_number(std::uint64_t number) { return random_matrix(40, 50, 0.8, number); }

/// A control whose callback is called with each stage's name.
CompileControl telling(std::function<void(const std::string&)> stage) {
  CompileControl control;
  control.progress = [stage = std::move(stage)](const SearchProgress& progress) {
    stage(std::string(progress.stage));
  };
  return control;
}

TEST(ConcurrentCompiler, EightThreadsThatWantOneKernelCompileItOnce) {
  const TemporaryDirectory directory;
  const Compiler compiler(small_options(), cached_in(directory.path()));
  const CsrMatrix matrix = matrix_number(1);
  constexpr int k_threads = 8;
  std::latch others_wait(k_threads - 1);
  std::atomic<int> compiled = 0;
  std::array<std::optional<Kernel>, k_threads> kernels;
  {
    std::vector<std::jthread> threads;
    for (auto& kernel : kernels) {
      threads.emplace_back([&] {
        kernel = compiler.compile(small_problem(matrix), telling([&](const std::string& stage) {
                                    if (stage == "waiting") others_wait.count_down();
                                    if (stage == "emitting") {
                                      ++compiled;
                                      others_wait.wait();
                                    }
                                  }));
      });
    }
  }

  EXPECT_EQ(compiled, 1);
  for (const auto& kernel : kernels) {
    EXPECT_EQ(&kernel->info(), &kernels[0]->info());  // copies of one kernel
    EXPECT_TRUE(is_kernel_of(*kernel, matrix));
  }
  EXPECT_FALSE(kernels[0]->info().from_cache);
}

TEST(ConcurrentCompiler, CopiesOfACompilerShareItsFlights) {
  const Compiler compiler(small_options(), uncached());
  const Compiler copy = compiler;
  const CsrMatrix matrix = matrix_number(1);
  std::latch other_waits(1);
  std::latch begun(1);
  std::optional<Kernel> kernel;
  std::jthread leader([&] {
    kernel = compiler.compile(small_problem(matrix), at_stage("emitting", [&] {
                                begun.count_down();
                                other_waits.wait();
                              }));
  });
  begun.wait();

  const Kernel same =
      copy.compile(small_problem(matrix), at_stage("waiting", [&] { other_waits.count_down(); }));
  leader.join();

  EXPECT_EQ(&same.info(), &kernel->info());
}

TEST(ConcurrentCompiler, DifferentKernelsAreCompiledAtOnce) {
  const Compiler compiler(small_options(2), uncached());
  std::latch both(2);
  std::vector<std::jthread> threads;
  std::array<std::optional<Kernel>, 2> kernels;

  for (std::size_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      kernels[i] = compiler.compile(small_problem(matrix_number(i)),
                                    at_stage("emitting", [&] { both.arrive_and_wait(); }));
    });
  }
  threads.clear();

  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(is_kernel_of(*kernels[i], matrix_number(i)));
}

TEST(ConcurrentCompiler, NoMoreRunAtOnceThanTheUserSays) {
  const TemporaryDirectory directory;
  constexpr int k_limit = 2;
  constexpr int k_kernels = 6;
  const Compiler compiler(small_options(k_limit), cached_in(directory.path()));
  std::latch rest_waits(k_kernels - k_limit);
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  const auto on_stage = [&](const std::string& stage) {
    if (stage == "waiting") rest_waits.count_down();
    if (stage == "publishing") --running;
    if (stage != "grouping") return;
    const int now = ++running;
    int seen = most;
    while (now > seen && !most.compare_exchange_weak(seen, now)) {
    }
    rest_waits.wait();
  };
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t i = 0; i < k_kernels; ++i) {
      threads.emplace_back([&, i] {
        static_cast<void>(compiler.compile(small_problem(matrix_number(i)), telling(on_stage)));
      });
    }
  }

  EXPECT_EQ(most, k_limit);
  EXPECT_EQ(running, 0);
}

TEST(ConcurrentCompiler, TheLimitIsOneACpuUnlessTheUserSays) {
  EXPECT_GE(Compiler(small_options(), uncached()).options().resources.parallel_compiles, 1);
  EXPECT_EQ(Compiler(small_options(3), uncached()).options().resources.parallel_compiles, 3);
  for (const int bad : {-1, 4097}) {
    EXPECT_TRUE(throws<InvalidArgument>([&] { return Compiler(small_options(bad), uncached()); }));
  }
}

TEST(ConcurrentCompiler, WhatIsInTheCacheWaitsForNoTurn) {
  const TemporaryDirectory directory;
  const Compiler compiler(small_options(1), cached_in(directory.path()));
  static_cast<void>(compiler.compile(small_problem(matrix_number(1))));
  std::latch begun(1);
  std::latch release(1);
  std::jthread slow([&] {
    static_cast<void>(compiler.compile(small_problem(matrix_number(2)), at_stage("emitting", [&] {
                                         begun.count_down();
                                         release.wait();
                                       })));
  });
  begun.wait();

  EXPECT_TRUE(compiler.compile(small_problem(matrix_number(1))).info().from_cache);

  release.count_down();
}

TEST(ConcurrentCompiler, AChildOfAForkWaitsForNoThreadOfItsParent) {
  const Compiler compiler(small_options(1), uncached());
  const CsrMatrix matrix = matrix_number(1);
  const CsrMatrix other = matrix_number(2);
  std::latch begun(1);
  std::latch forked(1);
  std::jthread first([&] {
    static_cast<void>(
        compiler.compile(small_problem(matrix), telling([&](const std::string& stage) {
                           if (stage != "emitting") return;
                           begun.count_down();
                           forked.wait();
                         })));
  });
  begun.wait();

  const bool ends = ends_in_a_child([&] {
    const Compilation in_its_thread = compiler.compile_async(small_problem(other));
    return is_kernel_of(compiler.compile(small_problem(matrix)), matrix) &&
           is_kernel_of(in_its_thread.get(), other);
  });
  forked.count_down();

  EXPECT_TRUE(ends);
}

/// Two threads want one kernel. The first one, with the stop and deadline of `first_control`, is at
/// it when the other one waits; then `in_first` is called in it.
struct TakenOver {
  std::exception_ptr first_error;
  std::optional<Kernel> second;
  int compiled = 0;

  TakenOver(const CsrMatrix& matrix, CompileControl first_control,
            const std::function<void()>& in_first) {
    const Compiler compiler(small_options(), uncached());
    std::atomic<bool> begun = false;
    std::latch other_waits(1);
    const auto begin = [&] {
      begun = true;
      begun.notify_all();
    };
    first_control.progress = [&](const SearchProgress& progress) {
      if (progress.stage != "emitting") return;
      ++compiled;
      begin();
      other_waits.wait();
      in_first();
    };
    std::jthread first([&] {
      try {
        static_cast<void>(compiler.compile(small_problem(matrix), first_control));
      } catch (...) {
        first_error = std::current_exception();
      }
      begin();  // should it never have come that far
    });
    begun.wait(false);
    second = compiler.compile(small_problem(matrix), telling([&](const std::string& stage) {
                                if (stage == "waiting") other_waits.count_down();
                                if (stage == "emitting") ++compiled;
                              }));
  }
};

struct UsersOwn {};

template <class Expected>
void expect_is(const std::exception_ptr& error) {
  ASSERT_TRUE(error);
  EXPECT_TRUE(throws<Expected>([&]() -> int { std::rethrow_exception(error); }));
}

TEST(ConcurrentCompiler, WhereTheFirstIsCancelledAnotherTakesOver) {
  const CsrMatrix matrix = matrix_number(1);
  std::stop_source stop;
  CompileControl control;
  control.stop = stop.get_token();

  const TakenOver result(matrix, control, [&] { stop.request_stop(); });

  expect_is<Cancelled>(result.first_error);
  EXPECT_EQ(result.compiled, 2);
  EXPECT_TRUE(is_kernel_of(*result.second, matrix));
}

TEST(ConcurrentCompiler, WhereTheFirstIsAtItsDeadlineAnotherTakesOver) {
  const CsrMatrix matrix = matrix_number(1);
  CompileControl control;
  control.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);

  const TakenOver result(matrix, control,
                         [&] { std::this_thread::sleep_until(*control.deadline); });

  expect_is<DeadlineExceeded>(result.first_error);
  EXPECT_TRUE(is_kernel_of(*result.second, matrix));
}

TEST(ConcurrentCompiler, WhatACallbackThrowsIsItsOwnCompilationsOnly) {
  const CsrMatrix matrix = matrix_number(1);

  const TakenOver own(matrix, {}, [] { throw UsersOwn(); });
  const TakenOver looks_like_ours(matrix, {}, [] { throw NotSupported("by the callback"); });

  expect_is<UsersOwn>(own.first_error);
  EXPECT_TRUE(is_kernel_of(*own.second, matrix));
  expect_is<NotSupported>(looks_like_ours.first_error);
  EXPECT_TRUE(is_kernel_of(*looks_like_ours.second, matrix));
}

TEST(ConcurrentCompiler, WhoWaitsIsCancelledByItself) {
  const Compiler compiler(small_options(), uncached());
  const CsrMatrix matrix = matrix_number(1);
  std::latch begun(1);
  std::latch release(1);
  std::jthread leader([&] {
    const Kernel kernel = compiler.compile(small_problem(matrix), at_stage("emitting", [&] {
                                             begun.count_down();
                                             release.wait();
                                           }));
    EXPECT_TRUE(is_kernel_of(kernel, matrix));
  });
  begun.wait();
  std::stop_source stop;
  CompileControl control = at_stage("waiting", [&] { stop.request_stop(); });
  control.stop = stop.get_token();

  EXPECT_TRUE(throws<Cancelled>([&] { return compiler.compile(small_problem(matrix), control); }));

  release.count_down();
}

TEST(ConcurrentCompiler, OnlyOneSearchTimesAtOnce) {
  CompileOptions options = small_options(4);
  options.policy.search = SearchMode::exhaustive;
  options.policy.search_budget_ms = 2'000;
  std::atomic<int> timing = 0;
  std::atomic<bool> alone = true;
  std::atomic<int> samples = 0;
  CompileControl control;
  control.progress = [&](const SearchProgress& progress) {
    if (progress.stage != "kernels") return;
    if (timing.fetch_add(1) != 0) alone = false;
    ++samples;
    std::this_thread::yield();
    timing.fetch_sub(1);
  };
  const Compiler compiler(options, uncached());
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t i = 0; i < 3; ++i) {
      threads.emplace_back([&, i] {
        const CsrMatrix matrix = random_matrix(12, 16, 0.7, i);
        EXPECT_TRUE(is_kernel_of(compiler.compile(small_problem(matrix), control), matrix));
      });
    }
  }

  EXPECT_TRUE(alone);
  EXPECT_GT(samples, 3);
}

TEST(ConcurrentKernels, OfOnePoolRunFromManyThreadsWithTheSameBits) {
  CompileOptions options = small_options();
  options.resources.threads = 3;
  const Compiler compiler(options, uncached());
  const std::array matrices = {matrix_number(1), random_matrix(30, 400, 0.9, 2)};
  std::vector<Kernel> kernels;
  for (const CsrMatrix& matrix : matrices)
    kernels.push_back(compiler.compile(small_problem(matrix)));
  options.policy.family = "csr";  // and of a CSR kernel
  kernels.push_back(Compiler(options, uncached()).compile(small_problem(matrices[0])));
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < 6; ++i) {
      threads.emplace_back([&, i] {
        for (std::size_t round = 0; round < 10; ++round) {
          const std::size_t which = (i + round) % kernels.size();
          if (!is_kernel_of(kernels[which], matrices[which % 2])) ++wrong;
        }
      });
    }
  }

  EXPECT_EQ(wrong, 0);
}

}  // namespace
