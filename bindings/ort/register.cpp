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

namespace spjit::ort {
namespace {

constexpr const char* k_domain = "spjit";
constexpr std::size_t k_inputs = 3;
constexpr std::int64_t k_most_threads = 4096;
// What a session's configuration says in place of the nodes' attributes.
constexpr const char* k_bundle_entry = "spjit.bundle";
constexpr const char* k_threads_entry = "spjit.threads";
// Whom the bundles have to be signed by: a key as PEM text, or the path of a file that has it.
constexpr const char* k_public_key_entry = "spjit.public_key";

/// The operator SparseLayer in one session.
struct SparseLayerOp : CustomOp {
  std::string bundle;        ///< its path; empty: what nodes say
  std::int32_t threads = 0;  ///< 0: the same
  std::unique_ptr<OpenBundles> bundles;
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

KernelSource source_of(const SparseLayerOp& op, const Api& api, const NodeInfo* info) {
  KernelSource source{.path = op.bundle,
                      .layer = api.text<GetTextAttribute>(info, "layer"),
                      .problem = api.text<GetTextAttribute>(info, "problem")};
  if (source.path.empty()) source.path = api.text<GetTextAttribute>(info, "bundle");
  const std::int64_t threads =
      op.threads > 0 ? op.threads : api.get<std::int64_t, GetIntegerAttribute>(info, "threads");
  if (threads < 1 || threads > k_most_threads) {
    throw InvalidArgument(fmt::format("threads is {}; expected 1 .. {}", threads, k_most_threads));
  }
  source.threads = static_cast<std::int32_t>(threads);
  return source;
}

/// Of the node in messages.
std::string place_of(const Api& api, const NodeInfo* info) {
  return "spjit, node " + api.text<GetNodeName>(info);
}

Status* create(const CustomOp* given, ApiTable* table, const NodeInfo* info, void** kernel) {
  const Api api(table);
  const auto& op = static_cast<const SparseLayerOp&>(*given);
  std::string where = "spjit";
  return api.guarded(where, [&] {
    where = place_of(api, info);
    const KernelSource source = source_of(op, api, info);
    *kernel = new SparseLayer(api, where, op.bundles->open(source.path), source);
  });
}

Status* create_interleave(const CustomOp*, ApiTable* table, const NodeInfo* info, void** kernel) {
  const Api api(table);
  std::string where = "spjit";
  return api.guarded(where, [&] {
    where = place_of(api, info);
    const auto number = [&](const char* name) {
      return api.get<std::int64_t, GetIntegerAttribute>(info, name);
    };
    *kernel = new Interleave(api, where,
                             {.phases = {number("rows"), number("columns")},
                              .crop = {number("crop_rows"), number("crop_columns")},
                              .groups = number("groups")});
  });
}

template <class Kernel>
Status* compute(void* given, KernelContext* context) {
  const Kernel& kernel = *static_cast<const Kernel*>(given);
  return kernel.api().guarded(kernel.where(), [&] { kernel.run(context); });
}

/// What an operator has that `Kernel` computes, besides its name, its inputs and what makes it.
template <class Kernel>
CustomOp callbacks_of() {
  CustomOp op{};
  op.version = k_parallel_for_version;
  op.execution_provider = [](const CustomOp*) -> const char* { return nullptr; };
  op.input_type = [](const CustomOp*, std::size_t) { return k_float_element; };
  op.output_type = op.input_type;
  op.output_count = [](const CustomOp*) -> std::size_t { return 1; };
  op.input_characteristic = [](const CustomOp*, std::size_t index) -> int {
    return index == 0 ? k_required : k_optional;
  };
  op.output_characteristic = [](const CustomOp*, std::size_t) -> int { return k_required; };
  op.input_memory_type = [](const CustomOp*, std::size_t) { return k_default_memory; };
  op.variadic_input_least = [](const CustomOp*) { return 1; };
  op.variadic_input_homogeneous = [](const CustomOp*) { return 1; };
  op.variadic_output_least = [](const CustomOp*) { return 1; };
  op.variadic_output_homogeneous = [](const CustomOp*) { return 1; };
  op.destroy_kernel = [](void* kernel) { delete static_cast<Kernel*>(kernel); };
  op.compute_or_fail = compute<Kernel>;
  op.start_version = [](const CustomOp*) { return 1; };
  op.end_version = [](const CustomOp*) { return INT_MAX; };
  return op;
}

std::unique_ptr<SparseLayerOp> sparse_layer_op(const Api& api, const SessionOptions* options) {
  auto op = std::make_unique<SparseLayerOp>();
  static_cast<CustomOp&>(*op) = callbacks_of<SparseLayer>();
  op->name = [](const CustomOp*) { return "SparseLayer"; };
  op->input_count = [](const CustomOp*) { return k_inputs; };
  op->create_kernel_or_fail = create;
  op->bundle = config_entry(api, options, k_bundle_entry);
  op->threads = parse_threads(config_entry(api, options, k_threads_entry));
  op->bundles = std::make_unique<OpenBundles>(config_entry(api, options, k_public_key_entry));
  return op;
}

std::unique_ptr<CustomOp> interleave_op() {
  auto op = std::make_unique<CustomOp>(callbacks_of<Interleave>());
  op->name = [](const CustomOp*) { return "Interleave"; };
  op->input_count = [](const CustomOp*) -> std::size_t { return 1; };
  op->create_kernel_or_fail = create_interleave;
  return op;
}

/// Makes the operators known to sessions of these options. They and their domain are never
/// released: they have to outlive the sessions, and nothing says when those are gone.
void add_operators(const Api& api, SessionOptions* options) {
  auto layer = sparse_layer_op(api, options);
  auto interleave = interleave_op();
  auto* const domain = api.get<CustomOpDomain*, CreateCustomOpDomain>(k_domain);
  api.call<AddToCustomOpDomain>(domain, static_cast<const CustomOp*>(layer.release()));
  api.call<AddToCustomOpDomain>(domain, static_cast<const CustomOp*>(interleave.release()));
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
