#pragma once

/// @file
/// What calls of kernels need of CPython's stable ABI. It is declared here, so that one library
/// serves every version and is built without Python's headers. The functions are weak: what loads
/// the library need not be Python (a program with ONNX Runtime), nor CPython. Then they are null.

#include <cstddef>

#define SPJIT_PYTHON_FUNCTION __attribute__((weak))

// NOLINTBEGIN(readability-identifier-naming): they are Python's names.
extern "C" {

struct PyObject;

/// METH_FASTCALL, which is the same since Python 3.7.
using PythonFunction = PyObject*(PyObject* self, PyObject* const* arguments, std::ptrdiff_t count);
inline constexpr int k_python_fastcall = 0x80;

struct PyMethodDef {
  const char* name;
  PythonFunction* function;
  int flags;
  const char* text;
};

SPJIT_PYTHON_FUNCTION PyObject* PyCFunction_NewEx(PyMethodDef* method, PyObject* self,
                                                  PyObject* module);
SPJIT_PYTHON_FUNCTION PyObject* PyCapsule_New(void* pointer, const char* name,
                                              void (*destroy)(PyObject*));
SPJIT_PYTHON_FUNCTION void* PyCapsule_GetPointer(PyObject* capsule, const char* name);
SPJIT_PYTHON_FUNCTION PyObject* PyImport_GetModule(PyObject* name);
SPJIT_PYTHON_FUNCTION PyObject* PyLong_FromLongLong(long long value);
SPJIT_PYTHON_FUNCTION PyObject* PyObject_CallFunctionObjArgs(PyObject* callable, ...);
SPJIT_PYTHON_FUNCTION PyObject* PyObject_CallMethodObjArgs(PyObject* object, PyObject* name, ...);
SPJIT_PYTHON_FUNCTION PyObject* PyObject_GetAttr(PyObject* object, PyObject* name);
SPJIT_PYTHON_FUNCTION int PyObject_IsTrue(PyObject* object);
SPJIT_PYTHON_FUNCTION PyObject* PyObject_Type(PyObject* object);
SPJIT_PYTHON_FUNCTION PyObject* PyTuple_New(std::ptrdiff_t count);
SPJIT_PYTHON_FUNCTION int PyTuple_SetItem(PyObject* tuple, std::ptrdiff_t index, PyObject* stolen);
SPJIT_PYTHON_FUNCTION PyObject* PyUnicode_InternFromString(const char* text);
SPJIT_PYTHON_FUNCTION void Py_IncRef(PyObject* object);
SPJIT_PYTHON_FUNCTION void Py_DecRef(PyObject* object);
SPJIT_PYTHON_FUNCTION void PyErr_Clear();
SPJIT_PYTHON_FUNCTION void* PyEval_SaveThread();
SPJIT_PYTHON_FUNCTION void PyEval_RestoreThread(void* thread);

}  // extern "C"
// NOLINTEND(readability-identifier-naming)

#undef SPJIT_PYTHON_FUNCTION

namespace spjit::python {

/// A reference to an object that is given back; null: none.
class Reference {
 public:
  Reference() = default;
  /// Takes a new reference.
  explicit Reference(PyObject* owned) noexcept : object_(owned) {}
  [[nodiscard]] static Reference to(PyObject* borrowed) noexcept {
    Py_IncRef(borrowed);
    return Reference(borrowed);
  }
  Reference(Reference&& other) noexcept : object_(other.release()) {}
  Reference& operator=(Reference&& other) noexcept {
    Reference given_back(object_);
    object_ = other.release();
    return *this;
  }
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;
  ~Reference() {
    if (object_ != nullptr) Py_DecRef(object_);
  }

  [[nodiscard]] PyObject* get() const noexcept { return object_; }
  [[nodiscard]] PyObject* release() noexcept {
    PyObject* object = object_;
    object_ = nullptr;
    return object;
  }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

}  // namespace spjit::python
