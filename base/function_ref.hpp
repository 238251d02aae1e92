#pragma once

/// @file
/// A reference to a callable: two pointers, no allocation, no ownership.

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

namespace spjit {

template <class Signature>
class FunctionRef;

/// Refers to any callable `Result(Args...)`. Meant for parameters only: the callable must outlive
/// every call.
template <class Result, class... Args>
class FunctionRef<Result(Args...)> {
 public:
  template <class Callable>
  requires(!std::same_as<std::remove_cvref_t<Callable>, FunctionRef> &&
           !std::is_function_v<std::remove_reference_t<Callable>> &&
           std::is_invocable_r_v<Result, Callable&, Args...>)
      // Implicit on purpose: a lambda is passed where a FunctionRef is taken.
      FunctionRef(Callable&& callable)
  noexcept  // NOLINT(bugprone-forwarding-reference-overload)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* object, Args... args) -> Result {
          return (*static_cast<std::remove_reference_t<Callable>*>(object))(
              std::forward<Args>(args)...);
        }) {}

  Result operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  Result (*call_)(void*, Args...);
};

}  // namespace spjit
