#pragma once

/// @file
/// Arrays of a caller in Python as memory, without running Python's code.

#include <cstdint>

#include "bindings/python/python_abi.hpp"

namespace spjit::python {

/// A type of elements, as numpy and as DLPack name it.
struct ElementType {
  std::int32_t kind;  ///< numpy: 'f', 'i', 'u'; 0: numpy has none
  std::int32_t bytes;
  std::int32_t dlpack_code;
};

/// Memory of an array, which its owner keeps. An array that is none of the usual has no data.
struct ArrayView {
  char* data = nullptr;
  int dims = 0;
  const std::int64_t* shape = nullptr;    ///< none is 0
  const std::int64_t* strides = nullptr;  ///< in units of `unit`
  std::int64_t unit = 1;                  ///< of a stride that is one element
  bool read_only = false;
  Reference owner = {};  ///< of shape and strides, where the array itself is not

  explicit operator bool() const noexcept { return data != nullptr; }
};

/// The usual arrays: exactly numpy.ndarray, and exactly torch.Tensor where torch has DLPack's C
/// interface. Immutable; needs the interpreter's lock.
class ArrayTypes {
 public:
  explicit ArrayTypes(PyObject* ndarray);

  /// The memory of an array of such elements that is aligned, on the CPU and not empty; no data for
  /// other objects. Leaves no error of Python.
  [[nodiscard]] ArrayView view(PyObject* array, const ElementType& type) const;

 private:
  /// view() that may leave an error of Python.
  [[nodiscard]] ArrayView found(PyObject* array, const ElementType& type) const;
  [[nodiscard]] bool is_tensor(PyObject* type_of_array) const;

  Reference ndarray_;
  Reference array_struct_;
  Reference torch_;
  Reference tensor_;
  Reference exchange_;
  Reference requires_grad_;
  Reference is_neg_;
};

}  // namespace spjit::python
