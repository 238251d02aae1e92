#include "bench/side_by_side/dnnl_engine.hpp"

#include <fmt/format.h>

#include <cstddef>

#include "spjit/error.hpp"

namespace spjit::side_by_side {

// From oneDNN's dnnl_types.h, dnnl_common.h and dnnl.h of version 3.
struct DnnlEngineObject;
struct DnnlStreamObject;
struct DnnlPrimitiveDesc;
struct DnnlAttributes;
struct DnnlPostOps;

namespace {

using DnnlStatus = int;
constexpr DnnlStatus k_success = 0;
constexpr int k_cpu = 1;
constexpr unsigned k_default_stream = 1;
constexpr int k_f32 = 3;
constexpr int k_forward_inference = 96;
constexpr int k_convolution_auto = 3;
constexpr int k_eltwise_relu = 32;
constexpr int k_query_implementation = 8;
constexpr int k_query_src = 129;
constexpr int k_query_weights = 131;
constexpr int k_query_dst = 133;
constexpr int k_arg_src = 1;
constexpr int k_arg_dst = 17;
constexpr int k_arg_weights = 33;
constexpr int k_arg_bias = 41;
// Formats: of all sizes from one to five "plain", and 4 with the second last.
constexpr int k_tag_any = 1;
constexpr int k_tag_one_plain = 2;
constexpr int k_tag_acdb = 22;

using DnnlSizes = const std::int64_t*;

int tag_of(std::size_t dimensions, DnnlFormat format) {
  if (format == DnnlFormat::any) return k_tag_any;
  if (format == DnnlFormat::channels_last) return k_tag_acdb;
  constexpr std::array k_plain = {0, k_tag_one_plain, 3, 4, 5, 6};
  return k_plain[dimensions];
}

void succeed(const char* what, DnnlStatus status) {
  if (status != k_success) throw Error(fmt::format("oneDNN: {}: status {}", what, status));
}

template <class Object>
using DnnlMade = std::unique_ptr<Object, DnnlStatus (*)(Object*)>;

}  // namespace

struct DnnlEngine::Functions {
  explicit Functions(DnnlLibrary given) : library(std::move(given)) {
    succeed("engine", create_engine(&engine, k_cpu, 0));
    succeed("stream", create_stream(&stream, engine, k_default_stream));
  }
  Functions(const Functions&) = delete;
  Functions& operator=(const Functions&) = delete;
  ~Functions() {
    destroy_stream(stream);
    destroy_engine(engine);
  }

  /// The function of that name, of whatever type it is assigned to.
  struct Required {
    template <class Signature>
    operator Signature*() const {  // NOLINT(google-explicit-constructor): that is its purpose
      return library.functions().require<Signature>(name);
    }
    const DnnlLibrary& library;
    const char* name;
  };
  [[nodiscard]] Required require(const char* name) const { return {library, name}; }

  DnnlLibrary library;
  DnnlStatus (*create_engine)(DnnlEngineObject**, int kind,
                              std::size_t index) = require("dnnl_engine_create");
  DnnlStatus (*destroy_engine)(DnnlEngineObject*) = require("dnnl_engine_destroy");
  DnnlStatus (*create_stream)(DnnlStreamObject**, DnnlEngineObject*,
                              unsigned flags) = require("dnnl_stream_create");
  DnnlStatus (*destroy_stream)(DnnlStreamObject*) = require("dnnl_stream_destroy");
  DnnlStatus (*wait)(DnnlStreamObject*) = require("dnnl_stream_wait");
  DnnlStatus (*create_desc)(DnnlMemoryDesc**, int dimensions, DnnlSizes, int type,
                            int tag) = require("dnnl_memory_desc_create_with_tag");
  DnnlStatus (*create_strided)(DnnlMemoryDesc**, int dimensions, DnnlSizes, int type,
                               DnnlSizes strides) = require("dnnl_memory_desc_create_with_strides");
  DnnlStatus (*clone_desc)(DnnlMemoryDesc**,
                           const DnnlMemoryDesc*) = require("dnnl_memory_desc_clone");
  DnnlStatus (*destroy_desc)(DnnlMemoryDesc*) = require("dnnl_memory_desc_destroy");
  int (*equal_descs)(const DnnlMemoryDesc*,
                     const DnnlMemoryDesc*) = require("dnnl_memory_desc_equal");
  DnnlStatus (*create_memory)(DnnlMemory**, const DnnlMemoryDesc*, DnnlEngineObject*,
                              void* floats) = require("dnnl_memory_create");
  DnnlStatus (*set_handle)(DnnlMemory*, void* floats) = require("dnnl_memory_set_data_handle");
  DnnlStatus (*destroy_memory)(DnnlMemory*) = require("dnnl_memory_destroy");
  DnnlStatus (*create_post_ops)(DnnlPostOps**) = require("dnnl_post_ops_create");
  DnnlStatus (*destroy_post_ops)(DnnlPostOps*) = require("dnnl_post_ops_destroy");
  DnnlStatus (*append_eltwise)(DnnlPostOps*, int algorithm, float alpha,
                               float beta) = require("dnnl_post_ops_append_eltwise");
  DnnlStatus (*create_attributes)(DnnlAttributes**) = require("dnnl_primitive_attr_create");
  DnnlStatus (*destroy_attributes)(DnnlAttributes*) = require("dnnl_primitive_attr_destroy");
  DnnlStatus (*set_post_ops)(DnnlAttributes*,
                             const DnnlPostOps*) = require("dnnl_primitive_attr_set_post_ops");
  DnnlStatus (*describe_convolution)(
      DnnlPrimitiveDesc**, DnnlEngineObject*, int propagation, int algorithm,
      const DnnlMemoryDesc* src, const DnnlMemoryDesc* weights, const DnnlMemoryDesc* bias,
      const DnnlMemoryDesc* dst, DnnlSizes strides, DnnlSizes dilations, DnnlSizes pad_before,
      DnnlSizes pad_after,
      const DnnlAttributes*) = require("dnnl_convolution_forward_primitive_desc_create");
  DnnlStatus (*describe_matmul)(DnnlPrimitiveDesc**, DnnlEngineObject*, const DnnlMemoryDesc* src,
                                const DnnlMemoryDesc* weights, const DnnlMemoryDesc* bias,
                                const DnnlMemoryDesc* dst, const DnnlAttributes*) =
      require("dnnl_matmul_primitive_desc_create");
  DnnlStatus (*describe_reorder)(
      DnnlPrimitiveDesc**, const DnnlMemoryDesc* from, DnnlEngineObject*, const DnnlMemoryDesc* to,
      DnnlEngineObject*, const DnnlAttributes*) = require("dnnl_reorder_primitive_desc_create");
  const DnnlMemoryDesc* (*query_desc)(const DnnlPrimitiveDesc*, int what,
                                      int index) = require("dnnl_primitive_desc_query_md");
  DnnlStatus (*query)(const DnnlPrimitiveDesc*, int what, int index,
                      void* result) = require("dnnl_primitive_desc_query");
  DnnlStatus (*destroy_primitive_desc)(DnnlPrimitiveDesc*) = require("dnnl_primitive_desc_destroy");
  DnnlStatus (*create_primitive)(DnnlPrimitive**,
                                 const DnnlPrimitiveDesc*) = require("dnnl_primitive_create");
  DnnlStatus (*destroy_primitive)(DnnlPrimitive*) = require("dnnl_primitive_destroy");
  DnnlStatus (*execute)(const DnnlPrimitive*, DnnlStreamObject*, int count,
                        const DnnlCall::Argument*) = require("dnnl_primitive_execute");
  DnnlEngineObject* engine = nullptr;
  DnnlStreamObject* stream = nullptr;

  /// The primitive of a description, which goes away.
  std::shared_ptr<DnnlPrimitive> primitive_of(const DnnlPrimitiveDesc* desc) const {
    DnnlPrimitive* made = nullptr;
    succeed("primitive", create_primitive(&made, desc));
    return {made, destroy_primitive};
  }
  DnnlDesc queried(const DnnlPrimitiveDesc* desc, int what) const {
    DnnlMemoryDesc* made = nullptr;
    succeed("a description", clone_desc(&made, query_desc(desc, what, 0)));
    return {made, destroy_desc};
  }
  /// What a description, which goes away, chose.
  DnnlChoice choice_of(DnnlPrimitiveDesc* desc) const {
    const DnnlMade<DnnlPrimitiveDesc> owner(desc, destroy_primitive_desc);
    const char* implementation = "";
    succeed("its name",
            query(desc, k_query_implementation, 0, static_cast<void*>(&implementation)));
    return {primitive_of(desc), queried(desc, k_query_src), queried(desc, k_query_weights),
            queried(desc, k_query_dst), implementation};
  }
  /// max(0, y)
  DnnlMade<DnnlAttributes> relu() const {
    DnnlPostOps* operations = nullptr;
    succeed("post-ops", create_post_ops(&operations));
    const DnnlMade<DnnlPostOps> owner(operations, destroy_post_ops);
    succeed("ReLU", append_eltwise(operations, k_eltwise_relu, 0.0F, 0.0F));
    DnnlAttributes* made = nullptr;
    succeed("attributes", create_attributes(&made));
    DnnlMade<DnnlAttributes> attributes(made, destroy_attributes);
    succeed("post-ops", set_post_ops(made, operations));
    return attributes;
  }
};

DnnlEngine::DnnlEngine(DnnlLibrary library) {
  if (library.major_version() != 3) {
    throw NotSupported(fmt::format("{}: expected version 3", library.version()));
  }
  functions_ = std::make_shared<const Functions>(std::move(library));
}

const DnnlLibrary& DnnlEngine::library() const noexcept { return functions_->library; }

DnnlDesc DnnlEngine::describe(std::span<const std::int64_t> sizes, DnnlFormat format) const {
  DnnlMemoryDesc* made = nullptr;
  succeed("a description",
          functions_->create_desc(&made, static_cast<int>(sizes.size()), sizes.data(), k_f32,
                                  tag_of(sizes.size(), format)));
  return {made, functions_->destroy_desc};
}

DnnlDesc DnnlEngine::describe_columns(std::int64_t rows, std::int64_t cols) const {
  const std::array sizes = {rows, cols};
  const std::array strides = {std::int64_t{1}, rows};
  DnnlMemoryDesc* made = nullptr;
  succeed("a description",
          functions_->create_strided(&made, 2, sizes.data(), k_f32, strides.data()));
  return {made, functions_->destroy_desc};
}

bool DnnlEngine::are_equal(const DnnlDesc& one, const DnnlDesc& other) const {
  return functions_->equal_descs(one.get(), other.get()) != 0;
}

DnnlArray DnnlEngine::array(const DnnlDesc& desc, float* floats) const {
  // DNNL_MEMORY_ALLOCATE
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the value that oneDNN's header gives it
  void* const handle = floats == nullptr ? reinterpret_cast<void*>(~std::uintptr_t{0}) : floats;
  DnnlMemory* made = nullptr;
  succeed("memory", functions_->create_memory(&made, desc.get(), functions_->engine, handle));
  return {made, functions_->destroy_memory};
}

void DnnlEngine::move(const DnnlArray& array, const float* floats) const {
  // Its interface has no const floats.
  succeed("memory", functions_->set_handle(array.get(), const_cast<float*>(floats)));
}

DnnlChoice DnnlEngine::choose(const DnnlConvolution& convolution, DnnlFormat images) const {
  const DnnlDesc src = describe(convolution.src, images);
  const DnnlDesc dst = describe(convolution.dst, images);
  const bool has_groups = convolution.weights[0] > 1;
  const std::array ungrouped = {convolution.weights[1], convolution.weights[2],
                                convolution.weights[3], convolution.weights[4]};
  const DnnlDesc weights = has_groups ? describe(convolution.weights, DnnlFormat::any)
                                      : describe(ungrouped, DnnlFormat::any);
  const DnnlDesc bias = describe(std::array{convolution.dst[1]}, DnnlFormat::plain);
  const DnnlMade<DnnlAttributes> relu = functions_->relu();
  DnnlPrimitiveDesc* desc = nullptr;
  succeed("convolution",
          functions_->describe_convolution(
              &desc, functions_->engine, k_forward_inference, k_convolution_auto, src.get(),
              weights.get(), bias.get(), dst.get(), convolution.stride.data(),
              convolution.dilation.data(), convolution.pad_before.data(),
              convolution.pad_after.data(), relu.get()));
  return functions_->choice_of(desc);
}

DnnlChoice DnnlEngine::choose(const DnnlProduct& of) const {
  const DnnlDesc src = describe(std::array{of.tokens, of.features}, DnnlFormat::plain);
  const DnnlDesc weights = describe(std::array{of.features, of.outputs}, DnnlFormat::any);
  const DnnlDesc dst = describe(std::array{of.tokens, of.outputs}, DnnlFormat::plain);
  DnnlPrimitiveDesc* desc = nullptr;
  succeed("matmul", functions_->describe_matmul(&desc, functions_->engine, src.get(), weights.get(),
                                                nullptr, dst.get(), nullptr));
  return functions_->choice_of(desc);
}

DnnlCall DnnlEngine::copy(const DnnlDesc& from_desc, const DnnlArray& from, const DnnlDesc& to_desc,
                          const DnnlArray& to) const {
  DnnlPrimitiveDesc* desc = nullptr;
  succeed("reorder", functions_->describe_reorder(&desc, from_desc.get(), functions_->engine,
                                                  to_desc.get(), functions_->engine, nullptr));
  const DnnlMade<DnnlPrimitiveDesc> owner(desc, functions_->destroy_primitive_desc);
  return {functions_->primitive_of(desc), {{{k_arg_src, from.get()}, {k_arg_dst, to.get()}}}, 2};
}

DnnlCall DnnlEngine::convolution(const DnnlChoice& choice,
                                 const std::array<DnnlMemory*, 4>& arrays) {
  return {choice.primitive,
          {{{k_arg_src, arrays[0]},
            {k_arg_weights, arrays[1]},
            {k_arg_bias, arrays[2]},
            {k_arg_dst, arrays[3]}}},
          4};
}

DnnlCall DnnlEngine::product(const DnnlChoice& choice, const std::array<DnnlMemory*, 3>& arrays) {
  return {choice.primitive,
          {{{k_arg_src, arrays[0]}, {k_arg_weights, arrays[1]}, {k_arg_dst, arrays[2]}}},
          3};
}

void DnnlEngine::run(const DnnlCall& call) const {
  if (call.empty()) return;
  const auto arguments = call.arguments();
  succeed("execute", functions_->execute(call.primitive(), functions_->stream,
                                         static_cast<int>(arguments.size()), arguments.data()));
  succeed("wait", functions_->wait(functions_->stream));
}

}  // namespace spjit::side_by_side
