#pragma once

/// @file
/// Calls of ONNX Runtime's functions from callbacks that it calls.

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "bindings/ort/onnxruntime_abi.hpp"
#include "spjit/error.hpp"

namespace spjit::ort {

template <class Object>
using Owned = std::unique_ptr<Object, void (*)(Object*)>;

/// OrtApi. Valid as long as ONNX Runtime is loaded.
class Api {
 public:
  explicit Api(ApiTable* table) : table_(table) {}

  /// A function that gives no status.
  template <class Called, class... Arguments>
  auto plain(Arguments... arguments) const {
    return Called::of(table_)(arguments...);
  }

  /// Throws Error with what ONNX Runtime says if it fails.
  template <class Called, class... Arguments>
  void call(Arguments... arguments) const {
    const Owned<Status> status(Called::of(table_)(arguments...), ReleaseStatus::of(table_));
    if (status == nullptr) return;
    throw Error(std::string("ONNX Runtime: ") + GetErrorMessage::of(table_)(status.get()));
  }

  /// The result that the function gives through its last parameter; it stays ONNX Runtime's.
  template <class Object, class Called, class... Arguments>
  Object get(Arguments... arguments) const {
    Object result{};
    call<Called>(arguments..., &result);
    return result;
  }

  /// The result of such a function; none where it fails.
  template <class Object, class Called, class... Arguments>
  std::optional<Object> find(Arguments... arguments) const {
    Object result{};
    const Owned<Status> status(Called::of(table_)(arguments..., &result),
                               ReleaseStatus::of(table_));
    return status == nullptr ? std::optional(result) : std::nullopt;
  }

  /// The object that `Create` makes, to be released by `Destroy`.
  template <class Object, class Create, class Destroy, class... Arguments>
  Owned<Object> make(Arguments... arguments) const {
    return Owned<Object>(get<Object*, Create>(arguments...), Destroy::of(table_));
  }

  /// Text that the function writes to memory of the caller.
  template <class Called, class... Arguments>
  std::string text(Arguments... arguments) const {
    std::size_t bytes = 0;
    call<Called>(arguments..., static_cast<char*>(nullptr), &bytes);
    std::string result(bytes, '\0');
    call<Called>(arguments..., result.data(), &bytes);
    result.resize(bytes == 0 ? 0 : bytes - 1);
    return result;
  }

  /// Runs `body`: null, or what it threw as a status, which `where` begins.
  template <class Body>
  Status* guarded(const std::string& where, Body&& body) const noexcept {
    try {
      std::forward<Body>(body)();
      return nullptr;
    } catch (const InvalidArgument& error) {
      return failed(k_invalid_argument, where, error.what());
    } catch (const std::exception& error) {
      return failed(k_fail, where, error.what());
    }
  }

 private:
  Status* failed(int code, const std::string& where, const char* what) const noexcept {
    try {
      return plain<CreateStatus>(code, (where + ": " + what).c_str());
    } catch (const std::exception&) {
      return plain<CreateStatus>(code, "spjit: out of memory");
    }
  }

  ApiTable* table_;
};

}  // namespace spjit::ort
