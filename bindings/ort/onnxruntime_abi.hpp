#pragma once

/// @file
/// The part of ONNX Runtime's C interface that is used here. It comes from onnxruntime_c_api.h,
/// which is neither in its wheel nor in Debian 12. OrtApi is a struct of pointers to functions that
/// only grows at its end: a function keeps its place in all versions. So does OrtCustomOp.

#include <cstddef>
#include <cstdint>

namespace spjit::ort {

struct Status;  ///< null: success
struct Environment;
struct ThreadingOptions;
struct SessionOptions;
struct Session;
struct MemoryInfo;
struct Value;
struct RunOptions;
struct TensorInfo;  ///< OrtTensorTypeAndShapeInfo
struct CustomOpDomain;
struct NodeInfo;  ///< OrtKernelInfo
struct KernelContext;

using Slot = void();
using ApiTable = Slot* const;  ///< the first function of OrtApi
struct ApiBase {
  ApiTable* (*get_api)(std::uint32_t version);  ///< null for a version that it does not have
  const char* (*version)();                     ///< "1.17.0"
};
using GetApiBase = const ApiBase*();  ///< of `OrtGetApiBase`

enum ErrorCode : int { k_fail = 1, k_invalid_argument = 2 };
inline constexpr int k_log_errors = 3;
inline constexpr int k_arena_allocator = 1;
inline constexpr int k_default_memory = 0;
inline constexpr int k_any_element = 0;
inline constexpr int k_float_element = 1;
inline constexpr int k_uint8_element = 2;
inline constexpr int k_int8_element = 3;
inline constexpr int k_int32_element = 6;

/// A function of OrtApi: its type, and its place.
template <class Signature, std::size_t place>
struct Function {
  static Signature* of(ApiTable* table) { return reinterpret_cast<Signature*>(table[place]); }
};
template <class Object, std::size_t place>
using Release = Function<void(Object*), place>;

// Status.
using CreateStatus = Function<Status*(int code, const char* message), 0>;
using GetErrorMessage = Function<const char*(const Status*), 2>;
using ReleaseStatus = Release<Status, 93>;

// Sessions.
using CreateSessionFromArray =
    Function<Status*(const Environment*, const void* model, std::size_t bytes,
                     const SessionOptions*, Session**),
             8>;
using Run =
    Function<Status*(Session*, const RunOptions*, const char* const* input_names,
                     const Value* const* inputs, std::size_t input_count,
                     const char* const* output_names, std::size_t output_count, Value** outputs),
             9>;
using CreateSessionOptions = Function<Status*(SessionOptions**), 10>;
using ReleaseEnvironment = Release<Environment, 92>;
using ReleaseSession = Release<Session, 95>;
using ReleaseSessionOptions = Release<SessionOptions, 100>;
using CreateEnvironmentWithThreads =
    Function<Status*(int log_level, const char* name, const ThreadingOptions*, Environment**), 119>;
using DisableThreadsOfSession = Function<Status*(SessionOptions*), 120>;
using CreateThreadingOptions = Function<Status*(ThreadingOptions**), 121>;
using ReleaseThreadingOptions = Release<ThreadingOptions, 122>;
using SetIntraOpThreads = Function<Status*(ThreadingOptions*, int threads), 147>;
using SetInterOpThreads = Function<Status*(ThreadingOptions*, int threads), 148>;
using HasSessionConfigEntry = Function<Status*(const SessionOptions*, const char* key, int*), 237>;
/// `bytes`: of `value` with its zero byte; where that is null, set to what it needs.
using GetSessionConfigEntry =
    Function<Status*(const SessionOptions*, const char* key, char* value, std::size_t* bytes), 238>;

// Tensors.
using CreateTensorWithData =
    Function<Status*(const MemoryInfo*, void* data, std::size_t bytes, const std::int64_t* shape,
                     std::size_t dimensions, int element_type, Value**),
             49>;
using GetTensorData = Function<Status*(const Value*, void**), 51>;  ///< GetTensorMutableData
using GetElementType = Function<Status*(const TensorInfo*, int*), 60>;
using GetDimensionCount = Function<Status*(const TensorInfo*, std::size_t*), 61>;
using GetDimensions = Function<Status*(const TensorInfo*, std::int64_t*, std::size_t count), 62>;
using GetTensorInfo = Function<Status*(const Value*, TensorInfo**), 65>;
using CreateCpuMemoryInfo = Function<Status*(int allocator, int memory, MemoryInfo**), 69>;
using ReleaseMemoryInfo = Release<MemoryInfo, 94>;
using ReleaseValue = Release<Value, 96>;
using ReleaseTensorInfo = Release<TensorInfo, 99>;

// Operators of one's own.
using CreateCustomOpDomain = Function<Status*(const char* name, CustomOpDomain**), 26>;
using AddToCustomOpDomain = Function<Status*(CustomOpDomain*, const struct CustomOp*), 27>;
using AddCustomOpDomain = Function<Status*(SessionOptions*, CustomOpDomain*), 28>;
using GetIntegerAttribute = Function<Status*(const NodeInfo*, const char* name, std::int64_t*), 86>;
/// As GetSessionConfigEntry.
using GetTextAttribute =
    Function<Status*(const NodeInfo*, const char* name, char* value, std::size_t* bytes), 87>;
using GetNodeName = Function<Status*(const NodeInfo*, char* value, std::size_t* bytes), 244>;
/// A value that is the same in every run, and whether the input is such a one.
using GetConstantInput =
    Function<Status*(const NodeInfo*, std::size_t index, int* is_constant, const Value**), 249>;
using GetInput = Function<Status*(const KernelContext*, std::size_t index, const Value**), 90>;
/// Allocates the output.
using GetOutput = Function<Status*(KernelContext*, std::size_t index, const std::int64_t* shape,
                                   std::size_t dimensions, Value**),
                           91>;
using ParallelFor = Function<Status*(const KernelContext*, void (*task)(void*, std::size_t),
                                     std::size_t tasks, std::size_t batches, void* context),
                             274>;

/// The version that has ParallelFor: ONNX Runtime 1.17.
inline constexpr std::uint32_t k_parallel_for_version = 17;

enum Characteristic : int { k_required = 0, k_optional = 1 };

/// OrtCustomOp as of version 17. Those that may be null are.
struct CustomOp {
  std::uint32_t version;
  void* (*create_kernel)(const CustomOp*, ApiTable*, const NodeInfo*);
  const char* (*name)(const CustomOp*);
  const char* (*execution_provider)(const CustomOp*);  ///< gives null: the CPU's
  int (*input_type)(const CustomOp*, std::size_t index);
  std::size_t (*input_count)(const CustomOp*);
  int (*output_type)(const CustomOp*, std::size_t index);
  std::size_t (*output_count)(const CustomOp*);
  void (*compute)(void* kernel, KernelContext*);
  void (*destroy_kernel)(void* kernel);
  int (*input_characteristic)(const CustomOp*, std::size_t index);
  int (*output_characteristic)(const CustomOp*, std::size_t index);
  int (*input_memory_type)(const CustomOp*, std::size_t index);
  int (*variadic_input_least)(const CustomOp*);
  int (*variadic_input_homogeneous)(const CustomOp*);
  int (*variadic_output_least)(const CustomOp*);
  int (*variadic_output_homogeneous)(const CustomOp*);
  Status* (*create_kernel_or_fail)(const CustomOp*, ApiTable*, const NodeInfo*, void** kernel);
  Status* (*compute_or_fail)(void* kernel, KernelContext*);
  Status* (*infer_shape)(const CustomOp*, void* context);
  int (*start_version)(const CustomOp*);
  int (*end_version)(const CustomOp*);
};

}  // namespace spjit::ort
