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
    : options(std::move(checked)), compiles(options.parallel_compiles) {}

CompileContext Compiler::Impl::context_of(const CompileControl& control) const {
  CompileContext watch;
  watch.cancel = {control.deadline, control.stop};
  watch.progress = marked(control.progress);
  watch.race_turn = [this](const Cancellation& cancel) { return races.take(cancel); };
  watch.check_turn = [this](const Cancellation& cancel) { return checks.take(cancel); };
  watch.check_ms = std::make_shared<double>(0);
  return watch;
}

CompileOptions Compiler::Impl::watched_options(const CompileContext& watch) const {
  CompileOptions watched = options;
  if (!watch.progress && !options.on_search_progress) return watched;
  watched.on_search_progress = [own = marked(options.on_search_progress),
                                more = watch.progress](const SearchProgress& progress) {
    if (own) own(progress);
    if (more) more(progress);
  };
  return watched;
}

Turns::Place Compiler::Impl::take_place(const CompileContext& watch) const {
  if (Turns::Place place = compiles.try_take()) return place;
  watch.stage("waiting");
  return compiles.take(watch.cancel);
}

}  // namespace spjit
