// How a Compiler's compilations are watched, stopped, and kept from getting in each other's way.

#include <utility>

#include "compiler/compiler_impl.hpp"

namespace spjit {
namespace {

using Callback = std::function<void(const SearchProgress&)>;

/// The same, with what it throws marked; empty if it is empty.
Callback marked(Callback callback) {
  if (!callback) return {};
  return [callback = std::move(callback)](const SearchProgress& progress) {
    try {
      callback(progress);
    } catch (...) {
      throw CallbackThrew{std::current_exception()};
    }
  };
}

}  // namespace

Compiler::Impl::Impl(CompileOptions checked)
    : options(std::move(checked)), compiles(options.resources.parallel_compiles) {}

CompileContext Compiler::Impl::context_of(const CompileControl& control) const {
  CompileContext context;
  context.cancel = {control.deadline, control.stop};
  context.progress = marked(control.progress);
  context.timing_turn = [this](const Cancellation& cancel) { return timings.take(cancel); };
  context.check_turn = [this](const Cancellation& cancel) { return checks.take(cancel); };
  context.check_ms = std::make_shared<double>(0);
  return context;
}

Turns::Place Compiler::Impl::take_place(const CompileContext& context) const {
  if (Turns::Place place = compiles.try_take()) return place;
  context.stage("waiting");
  return compiles.take(context.cancel);
}

}  // namespace spjit
