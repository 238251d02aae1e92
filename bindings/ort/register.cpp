// RegisterCustomOps(), which ONNX Runtime calls in a library of operators.

#include <fmt/format.h>

#include <climits>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "base/number_text.hpp"
#include "bindings/ort/interleave.hpp"
#include "bindings/ort/sparse_layer.hpp"
#include "bindings/ort/sparse_recurrent.hpp"

namespace spjit::ort {
namespace {

constexpr const char* k_domain = "spjit";
constexpr std::int64_t k_most_threads = 4096;
// What a session's configuration says in place of the nodes' attributes.
constexpr const char* k_bundle_entry = "spjit.bundle";
constexpr const char* k_threads_entry = "spjit.threads";
// Whom the bundles have to be signed by: a key as PEM text, or the path of a file that has it.
constexpr const char* k_public_key_entry = "spjit.public_key";

/// An operator in one session.
struct SessionOp : CustomOp {
  std::string bundle;        ///< its path; empty: what nodes say
  std::int32_t threads = 0;  ///< 0: the same
  std::shared_ptr<OpenBundles> bundles;
  LayerKind kind = LayerKind::floats;  ///< of a SparseLayer
};

/// Empty where there is none. An entry that is there and empty is refused: as a key, it would let
/// any bundle in.
std::string config_entry(const Api& api, const SessionOptions* options, const char* key) {
  if (api.get<int, HasSessionConfigEntry>(options, key) == 0) return {};
  std::string value = api.text<GetSessionConfigEntry>(options, key);
  if (value.empty()) {
    throw InvalidArgument(fmt::format("{} is empty; expected a value, or no such entry", key));
  }
  return value;
}

std::int32_t parse_threads(const std::string& text) {
  if (text.empty()) return 0;
  const std::int32_t threads = read_number<std::int32_t>(text).value_or(0);
  if (threads < 1) {
    throw InvalidArgument(fmt::format("{} is '{}'; expected 1 or more", k_threads_entry, text));
  }
  return threads;
}

std::int32_t threads_of(const SessionOp& op, const Api& api, const NodeInfo* info) {
  const std::int64_t threads =
      op.threads > 0 ? op.threads : api.get<std::int64_t, GetIntegerAttribute>(info, "threads");
  if (threads < 1 || threads > k_most_threads) {
    throw InvalidArgument(fmt::format("threads is {}; expected 1 .. {}", threads, k_most_threads));
  }
  return static_cast<std::int32_t>(threads);
}

std::string bundle_of(const SessionOp& op, const Api& api, const NodeInfo* info) {
  return op.bundle.empty() ? api.text<GetTextAttribute>(info, "bundle") : op.bundle;
}

/// What computes a node, whose place in messages is `where`.
template <class Kernel>
Kernel* make(const SessionOp& op, const Api& api, const NodeInfo* info, const std::string& where);

template <>
SparseLayer* make(const SessionOp& op, const Api& api, const NodeInfo* info,
                  const std::string& where) {
  const KernelSource source{.path = bundle_of(op, api, info),
                            .layer = api.text<GetTextAttribute>(info, "layer"),
                            .problem = api.text<GetTextAttribute>(info, "problem"),
                            .threads = threads_of(op, api, info)};
  // Models of before have no such attributes.
  const auto is_set = [&](const char* name) {
    return api.find<std::int64_t, GetIntegerAttribute>(info, name).value_or(0) != 0;
  };
  return new SparseLayer(api, where, op.bundles->open(source.path), source,
                         {op.kind, info, {is_set("x_tokens"), is_set("y_tokens")}});
}

template <>
SparseRecurrent* make(const SessionOp& op, const Api& api, const NodeInfo* info,
                      const std::string& where) {
  const RecurrentSource source{.path = bundle_of(op, api, info),
                               .text = api.text<GetTextAttribute>(info, "recurrent"),
                               .threads = threads_of(op, api, info)};
  return new SparseRecurrent(api, where, op.bundles->open(source.path), source);
}

template <>
Interleave* make(const SessionOp& /*op*/, const Api& api, const NodeInfo* info,
                 const std::string& where) {
  const auto number = [&](const char* name) {
    return api.get<std::int64_t, GetIntegerAttribute>(info, name);
  };
  return new Interleave(api, where,
                        {.phases = {number("rows"), number("columns")},
                         .crop = {number("crop_rows"), number("crop_columns")},
                         .groups = number("groups")});
}

template <class Kernel>
Status* create(const CustomOp* given, ApiTable* table, const NodeInfo* info, void** kernel) {
  const Api api(table);
  const auto& op = static_cast<const SessionOp&>(*given);
  std::string where = "spjit";
  return api.guarded(where, [&] {
    where += ", node " + api.text<GetNodeName>(info);
    *kernel = make<Kernel>(op, api, info, where);
  });
}

template <class Kernel>
Status* compute(void* given, KernelContext* context) {
  const Kernel& kernel = *static_cast<const Kernel*>(given);
  return kernel.api().guarded(kernel.where(), [&] { kernel.run(context); });
}

/// Of an operator of one output, whose inputs and output are floats, but for what the caller says.
template <class Kernel>
CustomOp callbacks() {
  CustomOp op{};
  op.version = k_parallel_for_version;
  op.execution_provider = [](const CustomOp*) -> const char* { return nullptr; };
  op.input_type = [](const CustomOp*, std::size_t) { return k_float_element; };
  op.output_type = op.input_type;
  op.input_characteristic = [](const CustomOp*, std::size_t index) -> int {
    return index == 0 ? k_required : k_optional;
  };
  op.input_memory_type = [](const CustomOp*, std::size_t) { return k_default_memory; };
  op.variadic_input_least = [](const CustomOp*) { return 1; };
  op.variadic_input_homogeneous = [](const CustomOp*) { return 1; };
  op.variadic_output_least = [](const CustomOp*) { return 1; };
  op.variadic_output_homogeneous = [](const CustomOp*) { return 1; };
  op.output_count = [](const CustomOp*) -> std::size_t { return 1; };
  op.output_characteristic = [](const CustomOp*, std::size_t) -> int { return k_required; };
  op.destroy_kernel = [](void* kernel) { delete static_cast<Kernel*>(kernel); };
  op.create_kernel_or_fail = create<Kernel>;
  op.compute_or_fail = compute<Kernel>;
  op.start_version = [](const CustomOp*) { return 1; };
  op.end_version = [](const CustomOp*) { return INT_MAX; };
  return op;
}

CustomOp sparse_layer_callbacks() {
  CustomOp op = callbacks<SparseLayer>();
  op.name = [](const CustomOp*) { return "SparseLayer"; };
  op.input_count = [](const CustomOp*) -> std::size_t { return 4; };
  return op;
}

constexpr std::size_t k_byte_layer_inputs = 8;

/// Of a layer of bytes, whose Y is of `element`.
int type_of_input(std::size_t index, int element) {
  constexpr std::size_t k_zero_point = 5;
  if (index == k_byte_layer_inputs - 1) return element;
  return index == 0 || index == k_zero_point ? k_any_element : k_float_element;
}

CustomOp sparse_integer_layer_callbacks() {
  CustomOp op = callbacks<SparseLayer>();
  op.name = [](const CustomOp*) { return "SparseIntegerLayer"; };
  op.input_count = [](const CustomOp*) -> std::size_t { return 6; };
  op.input_type = [](const CustomOp*, std::size_t index) {
    return type_of_input(index, k_float_element);
  };
  return op;
}

/// X as that of SparseIntegerLayer. An output of any type would follow the type of one input.
CustomOp sparse_uint8_layer_callbacks() {
  CustomOp op = sparse_integer_layer_callbacks();
  op.name = [](const CustomOp*) { return "SparseUint8Layer"; };
  op.input_count = [](const CustomOp*) -> std::size_t { return k_byte_layer_inputs; };
  op.input_type = [](const CustomOp*, std::size_t index) {
    return type_of_input(index, k_uint8_element);
  };
  op.output_type = [](const CustomOp*, std::size_t) { return k_uint8_element; };
  return op;
}

CustomOp sparse_int8_layer_callbacks() {
  CustomOp op = sparse_uint8_layer_callbacks();
  op.name = [](const CustomOp*) { return "SparseInt8Layer"; };
  op.input_type = [](const CustomOp*, std::size_t index) {
    return type_of_input(index, k_int8_element);
  };
  op.output_type = [](const CustomOp*, std::size_t) { return k_int8_element; };
  return op;
}

CustomOp sparse_integer_product_callbacks() {
  CustomOp op = callbacks<SparseLayer>();
  op.name = [](const CustomOp*) { return "SparseIntegerProduct"; };
  op.input_count = [](const CustomOp*) -> std::size_t { return 1; };
  op.input_type = [](const CustomOp*, std::size_t) { return k_any_element; };
  op.output_type = [](const CustomOp*, std::size_t) { return k_int32_element; };
  return op;
}

CustomOp sparse_recurrent_callbacks() {
  CustomOp op = callbacks<SparseRecurrent>();
  op.name = [](const CustomOp*) { return "SparseRecurrent"; };
  op.input_count = [](const CustomOp*) -> std::size_t { return 5; };
  op.input_type = [](const CustomOp*, std::size_t index) {
    constexpr std::size_t k_lengths = 2;
    return index == k_lengths ? k_int32_element : k_float_element;
  };
  op.output_count = [](const CustomOp*) -> std::size_t { return 3; };
  op.output_characteristic = [](const CustomOp*, std::size_t) -> int { return k_optional; };
  return op;
}

CustomOp interleave_callbacks() {
  CustomOp op = callbacks<Interleave>();
  op.name = [](const CustomOp*) { return "Interleave"; };
  op.input_count = [](const CustomOp*) -> std::size_t { return 1; };
  return op;
}

/// Makes the operators known to sessions of these options. They and their domain are never
/// released: they have to outlive the sessions, and nothing says when those are gone.
void add_operators(const Api& api, SessionOptions* options) {
  const std::string bundle = config_entry(api, options, k_bundle_entry);
  const std::int32_t threads = parse_threads(config_entry(api, options, k_threads_entry));
  const auto bundles =
      std::make_shared<OpenBundles>(config_entry(api, options, k_public_key_entry));
  auto* const domain = api.get<CustomOpDomain*, CreateCustomOpDomain>(k_domain);
  for (const auto& [of, kind] : {std::pair{sparse_layer_callbacks(), LayerKind::floats},
                                 {sparse_integer_layer_callbacks(), LayerKind::bytes},
                                 {sparse_integer_product_callbacks(), LayerKind::sums},
                                 {sparse_uint8_layer_callbacks(), LayerKind::uint8},
                                 {sparse_int8_layer_callbacks(), LayerKind::int8},
                                 {sparse_recurrent_callbacks(), LayerKind::floats},
                                 {interleave_callbacks(), LayerKind::floats}}) {
    auto op = std::make_unique<SessionOp>(SessionOp{of, bundle, threads, bundles, kind});
    api.call<AddToCustomOpDomain>(domain, static_cast<const CustomOp*>(op.release()));
  }
  api.call<AddCustomOpDomain>(options, domain);
}

}  // namespace
}  // namespace spjit::ort

using namespace spjit::ort;

// NOLINTNEXTLINE(readability-identifier-naming): the name that ONNX Runtime looks for
extern "C" __attribute__((visibility("default"))) Status* RegisterCustomOps(SessionOptions* options,
                                                                            const ApiBase* base) {
  ApiTable* const table = base->get_api(k_parallel_for_version);
  if (table == nullptr) {
    constexpr std::uint32_t k_oldest_version = 1;
    const Api oldest(base->get_api(k_oldest_version));
    return oldest.guarded("spjit", [&] {
      throw spjit::NotSupported(
          fmt::format("this is ONNX Runtime {}; expected 1.17 or later", base->version()));
    });
  }
  const Api api(table);
  return api.guarded("spjit", [&] { add_operators(api, options); });
}
