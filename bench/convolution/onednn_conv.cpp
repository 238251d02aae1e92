#include "bench/convolution/onednn_conv.hpp"

#include <fmt/format.h>

#include <cstddef>

#include "spjit/error.hpp"

namespace spjit::bench {

// From oneDNN's dnnl_types.h, dnnl_common.h and dnnl.h of version 3.
struct DnnlEngineObject;
struct DnnlStreamObject;
struct DnnlPrimitiveDesc;
struct DnnlAttributes;
struct DnnlPostOps;

namespace {

using Status = int;
constexpr Status k_success = 0;
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

using Sizes = const std::int64_t*;

int tag_of(std::size_t dimensions, DnnlFormat format) {
  if (format == DnnlFormat::any) return k_tag_any;
  if (format == DnnlFormat::channels_last) return k_tag_acdb;
  constexpr std::array k_plain = {0, k_tag_one_plain, 3, 4, 5, 6};
  return k_plain[dimensions];
}

void succeed(const char* what, Status status) {
  if (status != k_success) throw Error(fmt::format("oneDNN: {}: status {}", what, status));
}

template <class Object>
using Made = std::unique_ptr<Object, Status (*)(Object*)>;

}  // namespace

struct DnnlEngine::Functions {
  explicit Functions(side_by_side::DnnlLibrary given) : library(std::move(given)) {
    succeed("engine", create_engine(&engine, k_cpu, 0));
    succeed("stream", create_stream(&stream, engine, k_default_stream));
  }
  Functions(const Functions&) = delete;
  Functions& operator=(const Functions&) = delete;
  ~Functions() {
    destroy_stream(stream);
    destroy_engine(engine);
  }

  template <class Signature>
  Signature* require(const char* name) const {
    return library.functions().require<Signature>(name);
  }

  side_by_side::DnnlLibrary library;
  Status (*create_engine)(DnnlEngineObject**, int kind, std::size_t index) =
      require<Status(DnnlEngineObject**, int, std::size_t)>("dnnl_engine_create");
  Status (*destroy_engine)(DnnlEngineObject*) =
      require<Status(DnnlEngineObject*)>("dnnl_engine_destroy");
  Status (*create_stream)(DnnlStreamObject**, DnnlEngineObject*, unsigned flags) =
      require<Status(DnnlStreamObject**, DnnlEngineObject*, unsigned)>("dnnl_stream_create");
  Status (*destroy_stream)(DnnlStreamObject*) =
      require<Status(DnnlStreamObject*)>("dnnl_stream_destroy");
  Status (*wait)(DnnlStreamObject*) = require<Status(DnnlStreamObject*)>("dnnl_stream_wait");
  Status (*create_desc)(DnnlMemoryDesc**, int dimensions, Sizes, int type, int tag) =
      require<Status(DnnlMemoryDesc**, int, Sizes, int, int)>("dnnl_memory_desc_create_with_tag");
  Status (*clone_desc)(DnnlMemoryDesc**, const DnnlMemoryDesc*) =
      require<Status(DnnlMemoryDesc**, const DnnlMemoryDesc*)>("dnnl_memory_desc_clone");
  Status (*destroy_desc)(DnnlMemoryDesc*) =
      require<Status(DnnlMemoryDesc*)>("dnnl_memory_desc_destroy");
  int (*equal_descs)(const DnnlMemoryDesc*, const DnnlMemoryDesc*) =
      require<int(const DnnlMemoryDesc*, const DnnlMemoryDesc*)>("dnnl_memory_desc_equal");
  Status (*create_memory)(DnnlMemory**, const DnnlMemoryDesc*, DnnlEngineObject*, void* floats) =
      require<Status(DnnlMemory**, const DnnlMemoryDesc*, DnnlEngineObject*, void*)>(
          "dnnl_memory_create");
  Status (*destroy_memory)(DnnlMemory*) = require<Status(DnnlMemory*)>("dnnl_memory_destroy");
  Status (*create_post_ops)(DnnlPostOps**) = require<Status(DnnlPostOps**)>("dnnl_post_ops_create");
  Status (*destroy_post_ops)(DnnlPostOps*) = require<Status(DnnlPostOps*)>("dnnl_post_ops_destroy");
  Status (*append_eltwise)(DnnlPostOps*, int algorithm, float alpha, float beta) =
      require<Status(DnnlPostOps*, int, float, float)>("dnnl_post_ops_append_eltwise");
  Status (*create_attributes)(DnnlAttributes**) =
      require<Status(DnnlAttributes**)>("dnnl_primitive_attr_create");
  Status (*destroy_attributes)(DnnlAttributes*) =
      require<Status(DnnlAttributes*)>("dnnl_primitive_attr_destroy");
  Status (*set_post_ops)(DnnlAttributes*, const DnnlPostOps*) =
      require<Status(DnnlAttributes*, const DnnlPostOps*)>("dnnl_primitive_attr_set_post_ops");
  Status (*describe_convolution)(DnnlPrimitiveDesc**, DnnlEngineObject*, int propagation,
                                 int algorithm, const DnnlMemoryDesc* src,
                                 const DnnlMemoryDesc* weights, const DnnlMemoryDesc* bias,
                                 const DnnlMemoryDesc* dst, Sizes strides, Sizes dilations,
                                 Sizes pad_before, Sizes pad_after, const DnnlAttributes*) =
      require<Status(DnnlPrimitiveDesc**, DnnlEngineObject*, int, int, const DnnlMemoryDesc*,
                     const DnnlMemoryDesc*, const DnnlMemoryDesc*, const DnnlMemoryDesc*, Sizes,
                     Sizes, Sizes, Sizes, const DnnlAttributes*)>(
          "dnnl_convolution_forward_primitive_desc_create");
  Status (*describe_reorder)(DnnlPrimitiveDesc**, const DnnlMemoryDesc* from, DnnlEngineObject*,
                             const DnnlMemoryDesc* to, DnnlEngineObject*, const DnnlAttributes*) =
      require<Status(DnnlPrimitiveDesc**, const DnnlMemoryDesc*, DnnlEngineObject*,
                     const DnnlMemoryDesc*, DnnlEngineObject*, const DnnlAttributes*)>(
          "dnnl_reorder_primitive_desc_create");
  const DnnlMemoryDesc* (*query_desc)(const DnnlPrimitiveDesc*, int what, int index) =
      require<const DnnlMemoryDesc*(const DnnlPrimitiveDesc*, int, int)>(
          "dnnl_primitive_desc_query_md");
  Status (*query)(const DnnlPrimitiveDesc*, int what, int index, void* result) =
      require<Status(const DnnlPrimitiveDesc*, int, int, void*)>("dnnl_primitive_desc_query");
  Status (*destroy_primitive_desc)(DnnlPrimitiveDesc*) =
      require<Status(DnnlPrimitiveDesc*)>("dnnl_primitive_desc_destroy");
  Status (*create_primitive)(DnnlPrimitive**, const DnnlPrimitiveDesc*) =
      require<Status(DnnlPrimitive**, const DnnlPrimitiveDesc*)>("dnnl_primitive_create");
  Status (*destroy_primitive)(DnnlPrimitive*) =
      require<Status(DnnlPrimitive*)>("dnnl_primitive_destroy");
  Status (*execute)(const DnnlPrimitive*, DnnlStreamObject*, int count, const DnnlCall::Argument*) =
      require<Status(const DnnlPrimitive*, DnnlStreamObject*, int, const DnnlCall::Argument*)>(
          "dnnl_primitive_execute");
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
  /// max(0, y)
  Made<DnnlAttributes> relu() const {
    DnnlPostOps* operations = nullptr;
    succeed("post-ops", create_post_ops(&operations));
    const Made<DnnlPostOps> owner(operations, destroy_post_ops);
    succeed("ReLU", append_eltwise(operations, k_eltwise_relu, 0.0F, 0.0F));
    DnnlAttributes* made = nullptr;
    succeed("attributes", create_attributes(&made));
    Made<DnnlAttributes> attributes(made, destroy_attributes);
    succeed("post-ops", set_post_ops(made, operations));
    return attributes;
  }
};

DnnlEngine::DnnlEngine(side_by_side::DnnlLibrary library) {
  if (library.major_version() != 3) {
    throw NotSupported(fmt::format("{}: expected version 3", library.version()));
  }
  functions_ = std::make_shared<const Functions>(std::move(library));
}

const side_by_side::DnnlLibrary& DnnlEngine::library() const noexcept {
  return functions_->library;
}

DnnlDesc DnnlEngine::describe(std::span<const std::int64_t> sizes, DnnlFormat format) const {
  DnnlMemoryDesc* made = nullptr;
  succeed("a description",
          functions_->create_desc(&made, static_cast<int>(sizes.size()), sizes.data(), k_f32,
                                  tag_of(sizes.size(), format)));
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

DnnlChoice DnnlEngine::choose(const DnnlConvolution& convolution, DnnlFormat images) const {
  const DnnlDesc src = describe(convolution.src, images);
  const DnnlDesc dst = describe(convolution.dst, images);
  const bool has_groups = convolution.weights[0] > 1;
  const std::array ungrouped = {convolution.weights[1], convolution.weights[2],
                                convolution.weights[3], convolution.weights[4]};
  const DnnlDesc weights = has_groups ? describe(convolution.weights, DnnlFormat::any)
                                      : describe(ungrouped, DnnlFormat::any);
  const DnnlDesc bias = describe(std::array{convolution.dst[1]}, DnnlFormat::plain);
  const Made<DnnlAttributes> relu = functions_->relu();
  DnnlPrimitiveDesc* desc = nullptr;
  succeed("convolution",
          functions_->describe_convolution(
              &desc, functions_->engine, k_forward_inference, k_convolution_auto, src.get(),
              weights.get(), bias.get(), dst.get(), convolution.stride.data(),
              convolution.dilation.data(), convolution.pad_before.data(),
              convolution.pad_after.data(), relu.get()));
  const Made<DnnlPrimitiveDesc> owner(desc, functions_->destroy_primitive_desc);
  const char* implementation = "";
  succeed("its name",
          functions_->query(desc, k_query_implementation, 0, static_cast<void*>(&implementation)));
  return {functions_->primitive_of(desc), functions_->queried(desc, k_query_src),
          functions_->queried(desc, k_query_weights), functions_->queried(desc, k_query_dst),
          implementation};
}

DnnlCall DnnlEngine::copy(const DnnlDesc& from_desc, const DnnlArray& from, const DnnlDesc& to_desc,
                          const DnnlArray& to) const {
  DnnlPrimitiveDesc* desc = nullptr;
  succeed("reorder", functions_->describe_reorder(&desc, from_desc.get(), functions_->engine,
                                                  to_desc.get(), functions_->engine, nullptr));
  const Made<DnnlPrimitiveDesc> owner(desc, functions_->destroy_primitive_desc);
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

void DnnlEngine::run(const DnnlCall& call) const {
  if (call.empty()) return;
  const auto arguments = call.arguments();
  succeed("execute", functions_->execute(call.primitive(), functions_->stream,
                                         static_cast<int>(arguments.size()), arguments.data()));
  succeed("wait", functions_->wait(functions_->stream));
}

}  // namespace spjit::bench
