// compile_async(): the queue, the handle, and who may go first.

#include "spjit/compilation.hpp"

#include <gtest/gtest.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <latch>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

using MatrixPointer = std::shared_ptr<const CsrMatrix>;

MatrixPointer shared_matrix_number(std::uint64_t number) {
  return std::make_shared<const CsrMatrix>(random_matrix(40, 50, 0.8, number));
}

Problem problem_with(MatrixPointer matrix) { return {.a = std::move(matrix), .n = 24}; }

Problem problem_number(std::uint64_t number) { return problem_with(shared_matrix_number(number)); }

/// A compilation that stays at "emitting" until it is let go.
class HeldUp {
 public:
  explicit HeldUp(const Compiler& compiler, std::uint64_t number = 99)
      : matrix_(shared_matrix_number(number)),
        compilation_(compiler.compile_async(problem_with(matrix_), at_stage("emitting", [this] {
                                              begun_.count_down();
                                              release_.wait();
                                            }))) {
    begun_.wait();
  }
  HeldUp(const HeldUp&) = delete;
  HeldUp& operator=(const HeldUp&) = delete;
  ~HeldUp() { let_go(); }

  void let_go() {
    if (!let_go_) release_.count_down();
    let_go_ = true;
  }
  Compilation& compilation() { return compilation_; }
  [[nodiscard]] const CsrMatrix& matrix() const { return *matrix_; }

 private:
  std::latch begun_{1};
  std::latch release_{1};
  bool let_go_ = false;
  MatrixPointer matrix_;
  Compilation compilation_;
};

TEST(CompilationThreads, GivesTheKernelThatCompileGives) {
  const TemporaryDirectory directory;
  const Compiler compiler(small_options(), cached_in(directory.path()));
  const MatrixPointer matrix = shared_matrix_number(1);

  const Compilation compilation = compiler.compile_async(problem_with(matrix));
  const Kernel kernel = compilation.get();

  EXPECT_TRUE(is_kernel_of(kernel, *matrix));
  EXPECT_EQ(&compilation.get().info(), &kernel.info());
  EXPECT_TRUE(compilation.ready());
  EXPECT_TRUE(compiler.compile(problem_with(matrix)).info().from_cache);
}

TEST(CompilationThreads, TakesAMatrixByValue) {
  const Compiler compiler(small_options(), uncached());
  CsrMatrix matrix = random_matrix(40, 50, 0.8);

  const Kernel kernel = compiler.compile_async(small_problem(matrix)).get();

  EXPECT_TRUE(is_kernel_of(kernel, matrix));
}

TEST(CompilationThreads, TellsHowItStands) {
  const Compiler compiler(small_options(1), uncached());
  HeldUp first(compiler);
  const Compilation second = compiler.compile_async(problem_number(2));

  EXPECT_EQ(first.compilation().progress().stage, "emitting");
  EXPECT_FALSE(first.compilation().ready());
  EXPECT_EQ(second.progress().stage, "waiting");
  EXPECT_FALSE(second.wait_for(std::chrono::milliseconds(1)));

  first.let_go();
  EXPECT_TRUE(is_kernel_of(first.compilation().get(), first.matrix()));
  EXPECT_TRUE(second.wait_for(std::chrono::hours(1000)));
  EXPECT_EQ(second.progress().stage, "done");
}

TEST(CompilationThreads, CancellingOneThatWaitsEndsItAtOnceAndLetsItsMatrixGo) {
  const Compiler compiler(small_options(1), uncached());
  const HeldUp first(compiler);
  MatrixPointer matrix = shared_matrix_number(2);
  const Compilation second = compiler.compile_async(problem_with(matrix));

  second.cancel();

  EXPECT_TRUE(second.ready());
  EXPECT_TRUE(throws<Cancelled>([&] { return second.get(); }));
  EXPECT_EQ(matrix.use_count(), 1);
}

TEST(CompilationThreads, TheUsersTokenDoesTheSame) {
  const Compiler compiler(small_options(1), uncached());
  const HeldUp first(compiler);
  std::stop_source stop;
  CompileControl control;
  control.stop = stop.get_token();
  const Compilation before = compiler.compile_async(problem_number(2), control);

  stop.request_stop();
  const Compilation after = compiler.compile_async(problem_number(3), control);

  EXPECT_TRUE(throws<Cancelled>([&] { return before.get(); }));
  EXPECT_TRUE(throws<Cancelled>([&] { return after.get(); }));
}

TEST(CompilationThreads, ADeadlineEndsTheWaitingInTheQueue) {
  const Compiler compiler(small_options(1), uncached());
  const HeldUp first(compiler);
  CompileControl control;
  control.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);

  const Compilation second = compiler.compile_async(problem_number(2), control);

  EXPECT_TRUE(throws<DeadlineExceeded>([&] { return second.get(); }));
  EXPECT_EQ(second.progress().stage, "done");
}

TEST(CompilationThreads, CancellingOneThatRunsEndsItAndLeavesNothingBehind) {
  const TemporaryDirectory directory;
  const Compiler compiler(small_options(), cached_in(directory.path()));
  HeldUp held(compiler);

  held.compilation().cancel();
  held.let_go();

  EXPECT_TRUE(throws<Cancelled>([&] { return held.compilation().get(); }));
  EXPECT_EQ(left_in(directory.path()), std::vector<std::string>());
}

TEST(CompilationThreads, ErrorsComeOutOfGet) {
  const Compiler compiler(small_options(), uncached());
  CsrMatrix bad = random_matrix(6, 5, 0.5);
  bad.col_idxs[0] = 5;
  struct Enough {};

  const Compilation invalid = compiler.compile_async(small_problem(bad));
  const Compilation thrown =
      compiler.compile_async(problem_number(1), at_stage("grouping", [] { throw Enough(); }));
  const Compilation wrong = compiler.compile_async({.a = shared_matrix_number(1), .n = 0});

  EXPECT_TRUE(throws<InvalidMatrix>([&] { return invalid.get(); }));
  EXPECT_TRUE(throws<InvalidMatrix>([&] { return invalid.get(); }));
  EXPECT_TRUE(throws<Enough>([&] { return thrown.get(); }));
  EXPECT_TRUE(throws<InvalidArgument>([&] { return wrong.get(); }));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] { return compiler.compile_async(problem_with(MatrixPointer())); }));
}

TEST(CompilationThreads, ForAGpuErrorsComeOutOfGetToo) {
  CompileOptions options = small_options();
  options.target = Target::parse("sm_90:h200");
  options.resources.toolkit_paths = {"/nowhere"};
  const Compiler compiler(options, uncached());

  const Compilation missing = compiler.compile_async(problem_number(1));

  EXPECT_TRUE(throws<NotSupported>([&] { return missing.get(); }));
}

TEST(CompilationThreads, SameKernelsAreCompiledOnce) {
  const Compiler compiler(small_options(2), uncached());
  const MatrixPointer matrix = shared_matrix_number(1);
  std::latch other_waits(1);
  std::atomic<int> compiled = 0;
  CompileControl control;
  control.progress = [&](const SearchProgress& progress) {
    if (progress.stage == "waiting") other_waits.count_down();
    if (progress.stage != "emitting") return;
    ++compiled;
    other_waits.wait();
  };

  const Compilation one = compiler.compile_async(problem_with(matrix), control);
  const Compilation two = compiler.compile_async(problem_with(matrix), control);

  EXPECT_EQ(&one.get().info(), &two.get().info());
  EXPECT_EQ(compiled, 1);
}

TEST(CompilationThreads, ManyJobsShareAFewThreads) {
  constexpr std::size_t k_threads = 2;
  const Compiler compiler(small_options(k_threads), uncached());
  std::mutex mutex;
  std::set<std::thread::id> threads;
  CompileControl control;
  control.progress = [&](const SearchProgress&) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  };
  std::vector<Compilation> compilations;

  for (std::uint64_t i = 0; i < 100; ++i) {
    compilations.push_back(compiler.compile_async(problem_number(i), control));
  }

  for (std::uint64_t i = 0; i < 100; ++i) {
    EXPECT_TRUE(is_kernel_of(compilations[i].get(), *shared_matrix_number(i)));
  }
  EXPECT_LE(threads.size(), k_threads);
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
}

TEST(CompilationThreads, OutliveTheirCompiler) {
  const MatrixPointer matrix = shared_matrix_number(1);
  auto compiler = std::make_optional<Compiler>(small_options(1), uncached());
  HeldUp first(*compiler);
  const Compilation second = compiler->compile_async(problem_with(matrix));

  compiler.reset();
  first.let_go();

  EXPECT_TRUE(is_kernel_of(first.compilation().get(), first.matrix()));
  EXPECT_TRUE(is_kernel_of(second.get(), *matrix));
}

TEST(CompilationThreads, LettingGoOfAHandleCancelsAndWaits) {
  const Compiler compiler(small_options(), uncached());
  const MatrixPointer matrix = shared_matrix_number(1);
  std::latch begun(1);
  std::latch release(1);
  bool went_on = false;  // only a thread that is waited for may write this
  CompileControl control = at_stage("emitting", [&] {
    begun.count_down();
    release.wait();
    went_on = true;
  });
  {
    const Compilation compilation = compiler.compile_async(problem_with(matrix), control);
    begun.wait();
    release.count_down();
  }

  EXPECT_TRUE(went_on);
  EXPECT_EQ(matrix.use_count(), 1);
}

TEST(CompilationThreads, LettingGoOfManyThatWaitIsSafeInAnyOrder) {
  for (const bool compiler_first : {true, false}) {
    auto compiler = std::make_optional<Compiler>(small_options(2), uncached());
    std::vector<Compilation> compilations;
    for (std::uint64_t i = 0; i < 50; ++i) {
      compilations.push_back(compiler->compile_async(problem_number(i)));
    }

    if (compiler_first) compiler.reset();
    while (compilations.size() > 25) compilations.erase(compilations.begin());
    compilations.clear();
  }
}

TEST(CompilationThreads, AssigningCancelsWhatWasThere) {
  const Compiler compiler(small_options(1), uncached());
  const HeldUp first(compiler);
  const MatrixPointer old = shared_matrix_number(2);
  const MatrixPointer matrix = shared_matrix_number(3);
  Compilation compilation = compiler.compile_async(problem_with(old));

  compilation = compiler.compile_async(problem_with(matrix));

  EXPECT_EQ(old.use_count(), 1);
  EXPECT_EQ(compilation.progress().stage, "waiting");
}

bool is_running(pid_t thread) {
  return std::filesystem::exists("/proc/self/task/" + std::to_string(thread));
}

TEST(CompilationThreads, ACallbackMayLetGoOfItsOwnHandleAndCompiler) {
  struct Both {
    std::optional<Compilation> compilation;
    std::optional<Compiler> compiler;
  };
  std::latch held(1);
  std::latch begun(1);
  std::weak_ptr<Both> watched;
  std::atomic<pid_t> compiling = 0;
  {
    const auto both = std::make_shared<Both>();
    watched = both;
    both->compiler.emplace(small_options(1), uncached());
    both->compilation = both->compiler->compile_async(
        problem_number(1), at_stage("grouping", [both, &held, &begun, &compiling] {
          compiling = ::gettid();
          begun.count_down();
          held.wait();
        }));
    begun.wait();
  }
  EXPECT_FALSE(watched.expired());  // the callback has the last one
  held.count_down();

  // Nobody is left to wait for that thread: it has to be watched from outside.
  while (!watched.expired()) std::this_thread::yield();
  // Until it is gone, too: what libraries keep for a thread that is just ending looks leaked.
  while (is_running(compiling)) std::this_thread::yield();
}

TEST(CompilationThreads, IsAskedAndCancelledFromManyThreads) {
  const Compiler compiler(small_options(2), uncached());
  for (std::uint64_t round = 0; round < 20; ++round) {
    const MatrixPointer matrix = shared_matrix_number(round);
    const Compilation compilation = compiler.compile_async(problem_with(matrix));
    std::atomic<int> kernels = 0;
    std::atomic<int> cancelled = 0;
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&, i] {
          if (i == 3 && round % 2 == 0) compilation.cancel();
          static_cast<void>(compilation.progress());
          try {
            if (is_kernel_of(compilation.get(), *matrix)) ++kernels;
          } catch (const Cancelled&) {
            ++cancelled;
          }
        });
      }
    }

    EXPECT_TRUE(kernels == 4 || cancelled == 4) << kernels << " " << cancelled;
  }
}

}  // namespace
