#include "bindings/ort/sparse_recurrent.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_text.hpp"

namespace spjit::ort {
namespace {

enum RecurrentInput : std::size_t {
  k_operand_x,
  k_operand_bias,
  k_operand_lengths,
  k_operand_h,
  k_operand_c
};

constexpr std::array k_cells = {"lstm", "gru", "gru-reset-first", "rnn-tanh", "rnn-relu"};
constexpr std::array k_directions = {"forward", "reverse", "both"};

/// The place of a name among those that there are.
template <std::size_t Count>
std::int32_t place_of(const nlohmann::json& text, const std::array<const char*, Count>& names) {
  const std::string name = text;
  for (std::size_t i = 0; i < Count; ++i) {
    if (name == names[i]) return static_cast<std::int32_t>(i);
  }
  throw Error(fmt::format("'{}' is given; expected one of {}", name, fmt::join(names, ", ")));
}

/// Kernels of a layer, and it.
struct Loader {
  const spjit_bundle* bundle;
  const RecurrentSource& source;

  [[nodiscard]] OwnedKernel kernel(const nlohmann::json& kernels, const char* name) const {
    const auto found = kernels.find(name);
    if (found == kernels.end()) return nullptr;
    return load_kernel(bundle, {.path = source.path,
                                .layer = found->at("layer"),
                                .problem = found->at("problem").dump(),
                                .threads = source.threads});
  }
};

spjit_recurrent* create_recurrent(const spjit_recurrent_layer& layer) {
  spjit_recurrent* made = nullptr;
  if (spjit_recurrent_create(&layer, &made) != SPJIT_OK) throw_last_error();
  return made;
}

/// `info`: is filled in.
spjit_recurrent* make_layer(const Loader& loader, const nlohmann::json& text,
                            const nlohmann::json& kernels, RecurrentInfo& info) {
  spjit_recurrent_layer layer{};
  layer.struct_size = sizeof layer;
  layer.cell = place_of(text.at("cell"), k_cells) + SPJIT_LSTM;
  layer.direction = place_of(text.at("direction"), k_directions);
  if (kernels.empty() || kernels.size() > 2) throw Error("expected kernels of 1 or 2 directions");
  std::vector<OwnedKernel> owned;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const auto take = [&](const char* name) {
      owned.push_back(loader.kernel(kernels[i], name));
      return owned.back().get();
    };
    layer.input[i] = take("input");
    layer.recurrent[i] = take("recurrent");
    layer.candidate[i] = take("candidate");
  }
  spjit_recurrent* const made = create_recurrent(layer);
  const auto epilogue = nlohmann::json::parse(info_of(layer.input[0])).at("epilogue");
  info = {.directions = static_cast<std::int64_t>(kernels.size()),
          .inputs = spjit_kernel_cols(layer.input[0]),
          .gate_rows = spjit_kernel_rows(layer.input[0]),
          .hidden = spjit_kernel_cols(layer.recurrent[0]),
          .is_lstm = layer.cell == SPJIT_LSTM,
          .has_bias = epilogue.at("bias"),
          .resets_first = layer.cell == SPJIT_GRU_RESET_FIRST};
  return made;
}

/// An operand of that shape; null for one that is missing.
void* operand(const Api& api, const KernelContext* context, RecurrentInput index,
              const Shape& expected) {
  constexpr std::array k_names = {"X", "the bias", "sequence_lens", "initial_h", "initial_c"};
  const auto given = optional_input(api, context, index, k_names[index], expected);
  return given ? given->data : nullptr;
}

/// Null for an output that is not wanted.
float* output(const Api& api, KernelContext* context, std::size_t index, const Shape& shape) {
  auto* const value = api.get<Value*, GetOutput>(context, index, shape.data(), shape.size());
  return value == nullptr ? nullptr : static_cast<float*>(api.get<void*, GetTensorData>(value));
}

void set_biases(const RecurrentInfo& info, const float* bias, spjit_recurrent_arguments& to) {
  if (!info.has_bias) return;
  if (bias == nullptr) throw InvalidArgument("the bias is missing");
  for (std::int64_t i = 0; i < info.directions; ++i) {
    const float* const own = bias + 2 * i * info.gate_rows;
    to.input_bias[i] = own;
    to.recurrent_bias[i] = own + info.gate_rows;
    if (info.resets_first) to.candidate_bias[i] = own + info.gate_rows + 2 * info.hidden;
  }
}

/// ONNX Runtime has 0 for the last state of a sequence of 0 steps, whatever its first one is.
/// `state`: [directions x lengths x hidden], or null.
void clear_without_steps(const std::vector<std::int64_t>& lengths, const RecurrentInfo& info,
                         float* state) {
  if (state == nullptr) return;
  const auto batch = static_cast<std::int64_t>(lengths.size());
  for (std::int64_t i = 0; i < info.directions * batch; ++i) {
    if (lengths[static_cast<std::size_t>(i % batch)] == 0) {
      std::fill_n(state + i * info.hidden, info.hidden, 0.0F);
    }
  }
}

}  // namespace

SparseRecurrent::SparseRecurrent(Api api, std::string where, SharedBundle bundle,
                                 const RecurrentSource& source)
    : api_(api), where_(std::move(where)), bundle_(std::move(bundle)) {
  const Loader loader{bundle_.get(), source};
  try {
    const nlohmann::json text = parse_json(source.text);
    layer_.reset(make_layer(loader, text, text.at("kernels"), info_));
    const auto& fixed = text.at("fixed");
    if (fixed.is_null()) return;
    fixed_.reset(make_layer(loader, text, fixed.at("kernels"), info_));
    fixed_batch_ = fixed.at("batch");
    fixed_is_one_step_ = fixed.at("one_step");
  } catch (const nlohmann::json::exception& error) {
    throw Error(
        fmt::format("the attribute recurrent is none of spjit: {}", json_problem(error.what())));
  }
}

const spjit_recurrent* SparseRecurrent::layer_for(std::int64_t steps, std::int64_t batch) const {
  const bool is_fixed =
      fixed_ != nullptr && batch == fixed_batch_ && (steps == 1 || !fixed_is_one_step_);
  return is_fixed ? fixed_.get() : layer_.get();
}

void SparseRecurrent::run(KernelContext* context) const {
  const Tensor x =
      tensor_of(api_, api_.get<const Value*, GetInput>(static_cast<const KernelContext*>(context),
                                                       std::size_t{k_operand_x}));
  if (x.shape.size() != 3 || x.shape[2] != info_.inputs) {
    throw InvalidArgument(fmt::format("X has the shape [{}]; expected [steps, batch, {}]",
                                      fmt::join(x.shape, ", "), info_.inputs));
  }
  const std::int64_t steps = x.shape[0];
  const std::int64_t batch = x.shape[1];
  const Shape state = {info_.directions, batch, info_.hidden};
  const auto given = [&](RecurrentInput index, const Shape& shape) {
    return operand(api_, context, index, shape);
  };
  spjit_recurrent_arguments arguments{};
  arguments.struct_size = sizeof arguments;
  arguments.steps = steps;
  arguments.batch = batch;
  arguments.x = x.floats();
  set_biases(
      info_,
      static_cast<const float*>(given(k_operand_bias, {info_.directions, 2 * info_.gate_rows})),
      arguments);
  arguments.h0 = static_cast<const float*>(given(k_operand_h, state));
  if (info_.is_lstm) arguments.c0 = static_cast<const float*>(given(k_operand_c, state));
  std::vector<std::int64_t> lengths;
  if (const auto* of = static_cast<const std::int32_t*>(given(k_operand_lengths, {batch}))) {
    lengths.assign(of, of + batch);
    arguments.lengths = lengths.data();
  }
  arguments.y = output(api_, context, 0, {steps, info_.directions, batch, info_.hidden});
  arguments.y_batch = info_.hidden;
  arguments.y_direction = batch * info_.hidden;
  arguments.y_step = info_.directions * batch * info_.hidden;
  arguments.h_n = output(api_, context, 1, state);
  if (info_.is_lstm) arguments.c_n = output(api_, context, 2, state);
  run_in_session(api_, context,
                 [&] { return spjit_recurrent_run(layer_for(steps, batch), &arguments); });
  clear_without_steps(lengths, info_, arguments.h_n);
  clear_without_steps(lengths, info_, arguments.c_n);
}

}  // namespace spjit::ort
