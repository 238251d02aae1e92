// Calls of kernels from Python with usual arrays, in a tenth of the time that Python code takes to
// look at them. Whatever else a call has is left to spjit._kernel, which says what is wrong.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "base/arithmetic.hpp"
#include "bindings/python/arrays.hpp"
#include "bindings/python/python_abi.hpp"
#include "spjit.h"

namespace spjit::python {

/// What spjit._fast_call says of a kernel, in C's layout.
struct KernelFacts {
  const spjit_kernel* kernel;  ///< outlives the function
  std::int64_t in_features;
  std::int64_t out_features;
  std::int64_t n;  ///< below 0: any
  std::int32_t tokens_major;
  std::int32_t has_scale;
  std::int32_t has_bias;
  std::int32_t has_residual;
  ElementType x;
  ElementType y;
  PyObject* none;     ///< None
  PyObject* ndarray;  ///< numpy.ndarray
  PyObject* empty;    ///< numpy.empty
  PyObject* y_dtype;  ///< of a new y
  PyObject* check;    ///< raises what a status means
};

namespace {

constexpr const char* k_capsule_name = "spjit.KernelCall";
constexpr ElementType k_float = {'f', 4, 2};

/// How an operand lies: columns of B or C, and elements between its tokens or rows.
struct Place {
  std::int64_t n;
  std::int64_t ld;
};

/// Elements of a stride; none if it is no positive multiple of one.
std::optional<std::int64_t> elements_of(std::int64_t stride, std::int64_t unit) {
  if (stride <= 0 || stride % unit != 0) return {};
  return stride / unit;
}

/// Of [..., tokens, features], whose tokens follow one another evenly.
std::optional<Place> place_of_tokens(const ArrayView& array, std::int64_t features) {
  const int last = array.dims - 1;
  if (last < 0 || array.shape[last] != features) return {};
  if (features > 1 && array.strides[last] != array.unit) return {};
  std::int64_t tokens = 1;
  std::int64_t stride = 0;
  for (int dim = last - 1; dim >= 0; --dim) {
    const std::int64_t extent = array.shape[dim];
    if (extent == 1) continue;
    std::int64_t expected = 0;
    if (__builtin_mul_overflow(stride, tokens, &expected)) return {};
    if (tokens == 1) {
      stride = array.strides[dim];
    } else if (array.strides[dim] != expected) {
      return {};
    }
    if (__builtin_mul_overflow(tokens, extent, &tokens)) return {};
  }
  if (tokens == 1) return Place{1, features};
  const auto ld = elements_of(stride, array.unit);
  if (!ld) return {};
  return Place{tokens, *ld};
}

/// Of [..., features, n], of which there is one.
std::optional<Place> place_of_features(const ArrayView& array, std::int64_t features) {
  const int last = array.dims - 1;
  if (last < 1 || array.shape[last - 1] != features) return {};
  for (int dim = 0; dim < last - 1; ++dim) {
    if (array.shape[dim] != 1) return {};
  }
  const std::int64_t n = array.shape[last];
  if (n > 1 && array.strides[last] != array.unit) return {};
  if (features == 1) return Place{n, n};
  const auto ld = elements_of(array.strides[last - 1], array.unit);
  if (!ld) return {};
  return Place{n, *ld};
}

bool is_of_shape(const ArrayView& array, const ArrayView& x, std::int64_t features,
                 int feature_dim) {
  if (array.dims != x.dims) return false;
  for (int dim = 0; dim < x.dims; ++dim) {
    const std::int64_t extent = dim == x.dims + feature_dim ? features : x.shape[dim];
    if (array.shape[dim] != extent) return false;
  }
  return true;
}

/// Operands as Python gives them.
struct Given {
  PyObject* x;
  PyObject* out;
  PyObject* bias;
  PyObject* scale;
  PyObject* residual;
};

/// A kernel's calls. Immutable.
class KernelCall {
 public:
  explicit KernelCall(const KernelFacts& kernel)
      : kernel_(kernel),
        types_(kernel.ndarray),
        empty_(Reference::to(kernel.empty)),
        y_dtype_(Reference::to(kernel.y_dtype)),
        check_(Reference::to(kernel.check)) {}

  /// y; None for what is not usual, of which nothing was computed; null if an error was raised.
  [[nodiscard]] PyObject* call(const Given& given) const {
    const ArrayView x = types_.view(given.x, kernel_.x);
    const std::optional<Place> place = x ? place_of(x, kernel_.in_features) : std::nullopt;
    if (!place || !is_of_n(x, place->n)) return not_usual();
    const Reference y = is_none(given.out) ? empty_like(x) : Reference::to(given.out);
    if (!y) return not_usual();
    spjit_arguments arguments{};
    arguments.struct_size = sizeof(arguments);
    arguments.b = x.data;
    arguments.ldb = place->ld;
    arguments.n = place->n;
    arguments.b_layout = arguments.c_layout =
        kernel_.tokens_major != 0 ? SPJIT_LAYOUT_TOKENS : SPJIT_LAYOUT_FEATURES;
    const ArrayView to = types_.view(y.get(), kernel_.y);
    if (!to || to.read_only || !is_of_shape(to, x, kernel_.out_features, feature_dim())) {
      return not_usual();
    }
    const std::optional<Place> c = place_of(to, kernel_.out_features);
    if (!c) return not_usual();
    arguments.c = to.data;
    arguments.ldc = c->ld;
    return with_epilogue(arguments, given, x, y.get());
  }

 private:
  /// The rest of call(), once x and y are known.
  [[nodiscard]] PyObject* with_epilogue(spjit_arguments& arguments, const Given& given,
                                        const ArrayView& x, PyObject* y) const {
    const ArrayView scale = vector(given.scale, kernel_.has_scale);
    const ArrayView bias = vector(given.bias, kernel_.has_bias);
    const ArrayView residual = summand(given.residual, x);
    if (!is_given(scale, given.scale, kernel_.has_scale) ||
        !is_given(bias, given.bias, kernel_.has_bias) ||
        !is_given(residual, given.residual, kernel_.has_residual)) {
      return not_usual();
    }
    if (residual) {
      const std::optional<Place> place = place_of(residual, kernel_.out_features);
      // A column without gaps counts as a token, and y and the residual have to be of one layout.
      if (!place || (place->n == 1 && (place->ld == 1) != (arguments.ldc == 1))) return not_usual();
      arguments.residual = residual.data;
      arguments.ldr = place->ld;
    }
    arguments.scale = reinterpret_cast<const float*>(scale.data);
    arguments.bias = reinterpret_cast<const float*>(bias.data);
    return run(arguments, y);
  }

  [[nodiscard]] PyObject* run(const spjit_arguments& arguments, PyObject* y) const {
    void* const thread = PyEval_SaveThread();
    const int status = spjit_kernel_run(kernel_.kernel, &arguments);
    PyEval_RestoreThread(thread);
    if (status == SPJIT_OK) return Reference::to(y).release();
    const Reference number(PyLong_FromLongLong(status));
    if (!number) return nullptr;
    return PyObject_CallFunctionObjArgs(check_.get(), number.get(), nullptr);
  }

  /// Whether it is x of one product. With an n that is fixed the tokens are its last dimension but
  /// one.
  [[nodiscard]] bool is_of_n(const ArrayView& x, std::int64_t n) const {
    if (kernel_.n < 0) return true;
    const bool has_batch = kernel_.tokens_major != 0 && x.dims > 1 && x.shape[x.dims - 2] != n;
    return n == kernel_.n && !has_batch;
  }

  [[nodiscard]] PyObject* not_usual() const {
    PyErr_Clear();  // of a new y
    return Reference::to(kernel_.none).release();
  }
  [[nodiscard]] bool is_none(PyObject* object) const { return object == kernel_.none; }
  [[nodiscard]] int feature_dim() const { return kernel_.tokens_major != 0 ? -1 : -2; }
  [[nodiscard]] std::optional<Place> place_of(const ArrayView& array, std::int64_t features) const {
    return kernel_.tokens_major != 0 ? place_of_tokens(array, features)
                                     : place_of_features(array, features);
  }

  /// A new array for y.
  [[nodiscard]] Reference empty_like(const ArrayView& x) const {
    const Reference shape(PyTuple_New(x.dims));
    for (int dim = 0; shape && dim < x.dims; ++dim) {
      const bool is_features = dim == x.dims + feature_dim();
      PyObject* extent = PyLong_FromLongLong(is_features ? kernel_.out_features : x.shape[dim]);
      if (extent == nullptr || PyTuple_SetItem(shape.get(), dim, extent) != 0) return {};
    }
    if (!shape) return {};
    return Reference(
        PyObject_CallFunctionObjArgs(empty_.get(), shape.get(), y_dtype_.get(), nullptr));
  }

  /// A contiguous [out_features].
  [[nodiscard]] ArrayView vector(PyObject* given, std::int32_t is_expected) const {
    if (is_expected == 0 || is_none(given)) return {};
    ArrayView array = types_.view(given, k_float);
    const bool fits = array && array.dims == 1 && array.shape[0] == kernel_.out_features &&
                      (array.shape[0] == 1 || array.strides[0] == array.unit);
    return fits ? std::move(array) : ArrayView{};
  }

  /// The residual, of y's shape.
  [[nodiscard]] ArrayView summand(PyObject* given, const ArrayView& x) const {
    if (kernel_.has_residual == 0 || is_none(given)) return {};
    ArrayView array = types_.view(given, kernel_.y);
    const bool fits = array && is_of_shape(array, x, kernel_.out_features, feature_dim());
    return fits ? std::move(array) : ArrayView{};
  }

  /// Whether an operand is there exactly if it has to be.
  [[nodiscard]] bool is_given(const ArrayView& array, PyObject* given,
                              std::int32_t is_expected) const {
    return is_expected != 0 ? array.data != nullptr : is_none(given);
  }

  KernelFacts kernel_;
  ArrayTypes types_;
  Reference empty_;
  Reference y_dtype_;
  Reference check_;
};

KernelCall* call_in(PyObject* capsule) {
  return static_cast<KernelCall*>(PyCapsule_GetPointer(capsule, k_capsule_name));
}

PyObject* call(PyObject* capsule, PyObject* const* arguments, std::ptrdiff_t /*count*/) {
  const KernelCall* kernel = call_in(capsule);
  if (kernel == nullptr) return nullptr;
  return kernel->call({arguments[0], arguments[1], arguments[2], arguments[3], arguments[4]});
}

PyMethodDef k_method = {"call", call, k_python_fastcall, nullptr};  // NOLINT: Python wants it so

}  // namespace
}  // namespace spjit::python

/// A function of (x, out, bias, scale, residual), which are exactly five. It computes y as
/// spjit.Kernel does, or returns None and has done nothing. Null: this is no CPython.
extern "C" __attribute__((visibility("default"))) PyObject* spjit_python_call_of(
    const spjit::python::KernelFacts* kernel) {
  using spjit::python::KernelCall;
  if (PyCFunction_NewEx == nullptr || PyObject_CallMethodObjArgs == nullptr) return nullptr;
  auto made = std::make_unique<KernelCall>(*kernel);
  const spjit::python::Reference capsule(
      PyCapsule_New(made.get(), spjit::python::k_capsule_name,
                    [](PyObject* given_back) { delete spjit::python::call_in(given_back); }));
  if (!capsule) return nullptr;
  static_cast<void>(made.release());
  return PyCFunction_NewEx(&spjit::python::k_method, capsule.get(), nullptr);
}
