#include "bindings/python/arrays.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "base/arithmetic.hpp"

namespace spjit::python {
namespace {

// Structs of other libraries, which promise their layout.

/// What numpy's `__array_struct__` points to.
struct NumpyArray {
  int two;
  int dims;
  char kind;
  int bytes;
  int flags;
  const std::int64_t* shape;
  const std::int64_t* strides;  ///< bytes
  char* data;
  PyObject* description;
};

constexpr int k_numpy_native = 0x200;
constexpr int k_numpy_writeable = 0x400;

struct DlpackTensor {
  char* data;
  std::int32_t device_type;
  std::int32_t device_id;
  std::int32_t dims;
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
  const std::int64_t* shape;
  const std::int64_t* strides;  ///< elements
  std::uint64_t byte_offset;
};

/// DLPackExchangeAPI of DLPack 1.
struct DlpackExchange {
  std::uint32_t major;
  std::uint32_t minor;
  void* previous;
  std::array<void*, 3> of_owners;
  int (*borrow)(PyObject* array, DlpackTensor* tensor);
  void* current_stream;
};

constexpr std::uint32_t k_dlpack_major = 1;
constexpr std::int32_t k_dlpack_cpu = 1;
constexpr int k_bits_a_byte = 8;

/// No data if it is empty or not aligned.
ArrayView checked(ArrayView view, const ElementType& type) {
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(view.data) % to_size(type.bytes) == 0;
  const bool is_empty = std::any_of(view.shape, view.shape + view.dims,
                                    [](std::int64_t extent) { return extent < 1; });
  if (!is_aligned || is_empty) view.data = nullptr;
  return view;
}

ArrayView view_of_struct(Reference capsule, const ElementType& type) {
  if (!capsule) return {};
  const auto* array = static_cast<const NumpyArray*>(PyCapsule_GetPointer(capsule.get(), nullptr));
  if (array == nullptr || array->two != 2 || array->kind != type.kind ||
      array->bytes != type.bytes || (array->flags & k_numpy_native) == 0) {
    return {};
  }
  return checked({.data = array->data,
                  .dims = array->dims,
                  .shape = array->shape,
                  .strides = array->strides,
                  .unit = type.bytes,
                  .read_only = (array->flags & k_numpy_writeable) == 0,
                  .owner = std::move(capsule)},
                 type);
}

ArrayView view_of_exchange(PyObject* capsule, PyObject* array, const ElementType& type) {
  const auto* exchange =
      static_cast<const DlpackExchange*>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
  DlpackTensor tensor{};
  if (exchange == nullptr || exchange->major != k_dlpack_major ||
      exchange->borrow(array, &tensor) != 0 || tensor.data == nullptr ||
      tensor.device_type != k_dlpack_cpu || tensor.code != type.dlpack_code ||
      tensor.bits != k_bits_a_byte * type.bytes || tensor.lanes != 1 || tensor.strides == nullptr) {
    return {};
  }
  return checked({.data = tensor.data + tensor.byte_offset,
                  .dims = tensor.dims,
                  .shape = tensor.shape,
                  .strides = tensor.strides},
                 type);
}

bool is_false(Reference value) { return value && PyObject_IsTrue(value.get()) == 0; }

Reference name_of(const char* text) { return Reference(PyUnicode_InternFromString(text)); }

}  // namespace

ArrayTypes::ArrayTypes(PyObject* ndarray)
    : ndarray_(Reference::to(ndarray)),
      array_struct_(name_of("__array_struct__")),
      torch_(name_of("torch")),
      tensor_(name_of("Tensor")),
      exchange_(name_of("__dlpack_c_exchange_api__")),
      requires_grad_(name_of("requires_grad")),
      is_neg_(name_of("is_neg")) {}

bool ArrayTypes::is_tensor(PyObject* type_of_array) const {
  const Reference torch(PyImport_GetModule(torch_.get()));
  if (!torch) return false;
  const Reference tensor(PyObject_GetAttr(torch.get(), tensor_.get()));
  return tensor.get() == type_of_array;
}

ArrayView ArrayTypes::view(PyObject* array, const ElementType& type) const {
  ArrayView view = found(array, type);
  if (!view) PyErr_Clear();
  return view;
}

ArrayView ArrayTypes::found(PyObject* array, const ElementType& type) const {
  const Reference type_of_array(PyObject_Type(array));
  if (type_of_array.get() == ndarray_.get()) {
    return view_of_struct(Reference(PyObject_GetAttr(array, array_struct_.get())), type);
  }
  if (!is_tensor(type_of_array.get())) return {};
  // What `__dlpack__()` refuses or spjit does: memory has the opposite numbers.
  const auto attribute = [&](const Reference& name) {
    return Reference(PyObject_GetAttr(array, name.get()));
  };
  if (!is_false(attribute(requires_grad_)) ||
      !is_false(Reference(PyObject_CallMethodObjArgs(array, is_neg_.get(), nullptr)))) {
    return {};
  }
  const Reference exchange(PyObject_GetAttr(type_of_array.get(), exchange_.get()));
  return exchange ? view_of_exchange(exchange.get(), array, type) : ArrayView{};
}

}  // namespace spjit::python
