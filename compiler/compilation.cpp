#include "spjit/compilation.hpp"

#include <algorithm>
#include <utility>

#include "compiler/compile_job.hpp"
#include "compiler/compile_queue.hpp"
#include "compiler/compiler_impl.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using Matrix = std::shared_ptr<const CsrMatrix>;

void require_matrix(const Matrix& matrix) {
  if (matrix == nullptr) {
    throw InvalidArgument("no matrix to compile: the pointer is null; expected a CsrMatrix");
  }
}

}  // namespace

template <class Kernel>
Compilation::Compilation(std::shared_ptr<CompileQueue> queue,
                                 std::shared_ptr<CompileJob> job) noexcept
    : queue_(std::move(queue)), job_(std::move(job)) {}

template <class Kernel>
Compilation::Compilation(Compilation&& other) noexcept = default;

template <class Kernel>
Compilation& Compilation::operator=(Compilation&& other) noexcept {
  if (this == &other) return *this;
  abandon();
  job_ = std::move(other.job_);
  queue_ = std::move(other.queue_);
  return *this;
}

template <class Kernel>
Compilation::~Compilation() {
  abandon();
}

template <class Kernel>
void Compilation::abandon() noexcept {
  if (job_ == nullptr) return;
  job_->cancel();
  // A callback may let go of what called it.
  if (!job_->runs_here()) job_->wait(std::nullopt);
}

template <class Kernel>
Kernel Compilation::get() const {
  return *std::static_pointer_cast<const Kernel>(job_->result());
}

template <class Kernel>
bool Compilation::ready() const {
  return wait_for(std::chrono::nanoseconds(0));
}

template <class Kernel>
bool Compilation::wait_for(std::chrono::nanoseconds time) const {
  const auto now = std::chrono::steady_clock::now();
  const auto longest = std::chrono::steady_clock::time_point::max() - now;
  return job_->wait(now + std::min<std::chrono::steady_clock::duration>(time, longest));
}

template <class Kernel>
CompileProgress Compilation::progress() const {
  return job_->progress();
}

template <class Kernel>
void Compilation::cancel() const {
  job_->cancel();
}

template class Compilation;
template class Compilation;

Compilation Compiler::compile_async(Matrix matrix, CompileControl control) const {
  require_matrix(matrix);
  auto job = std::make_shared<CompileJob>(
      [impl = impl_, matrix = std::move(matrix)](const CompileControl& given) {
        return std::make_shared<const Kernel>(impl->compile(*matrix, given));
      },
      std::move(control));
  queue_->add(job);
  return {queue_, std::move(job)};
}

Compilation Compiler::compile_async(CsrMatrix matrix, CompileControl control) const {
  return compile_async(std::make_shared<const CsrMatrix>(std::move(matrix)), std::move(control));
}

Compilation Compiler::compile_cuda_async(Matrix matrix, CompileControl control) const {
  require_matrix(matrix);
  auto job = std::make_shared<CompileJob>(
      [impl = impl_, matrix = std::move(matrix)](const CompileControl& given) {
        return std::make_shared<const Kernel>(impl->compile_cuda(*matrix, given));
      },
      std::move(control));
  queue_->add(job);
  return {queue_, std::move(job)};
}

Compilation Compiler::compile_cuda_async(CsrMatrix matrix,
                                                     CompileControl control) const {
  return compile_cuda_async(std::make_shared<const CsrMatrix>(std::move(matrix)),
                            std::move(control));
}

}  // namespace spjit
