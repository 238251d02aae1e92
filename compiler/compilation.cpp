#include "spjit/compilation.hpp"

#include <algorithm>
#include <utility>

#include "compiler/compile_queue.hpp"
#include "compiler/compiler_impl.hpp"
#include "spjit/error.hpp"

namespace spjit {
Compilation::Compilation(std::shared_ptr<CompileQueue> queue,
                         std::shared_ptr<CompileJob> job) noexcept
    : queue_(std::move(queue)), job_(std::move(job)) {}

Compilation::Compilation(Compilation&& other) noexcept = default;

Compilation& Compilation::operator=(Compilation&& other) noexcept {
  if (this == &other) return *this;
  abandon();
  job_ = std::move(other.job_);
  queue_ = std::move(other.queue_);
  return *this;
}

Compilation::~Compilation() { abandon(); }

void Compilation::abandon() noexcept {
  if (job_ == nullptr) return;
  job_->cancel();
  // A callback may let go of what called it.
  if (!job_->runs_here()) job_->wait(std::nullopt);
}

Kernel Compilation::get() const { return *std::static_pointer_cast<const Kernel>(job_->result()); }

bool Compilation::ready() const { return wait_for(std::chrono::nanoseconds(0)); }

bool Compilation::wait_for(std::chrono::nanoseconds time) const {
  const auto now = std::chrono::steady_clock::now();
  const auto longest = std::chrono::steady_clock::time_point::max() - now;
  return job_->wait(now + std::min<std::chrono::steady_clock::duration>(time, longest));
}

CompileProgress Compilation::progress() const { return job_->progress(); }

void Compilation::cancel() const { job_->cancel(); }

Compilation Compiler::compile_async(Problem problem, CompileControl control) const {
  if (!problem.a) throw InvalidArgument("the problem has no matrix; set Problem::a");
  auto job = std::make_shared<CompileJob>(
      [impl = impl_, problem = std::move(problem)](const CompileControl& given) {
        return std::make_shared<const Kernel>(impl->compile(problem, given));
      },
      std::move(control));
  queue_->add(job);
  return {queue_, std::move(job)};
}

}  // namespace spjit
