// Compilers, problems and compilations of the C interface.

#include <chrono>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "bindings/c/convert.hpp"
#include "bindings/c/guard.hpp"
#include "bindings/c/handles.hpp"

namespace spjit::c {
namespace {

static_assert(static_cast<int>(DataType::i4) == SPJIT_I4 &&
              static_cast<int>(DataType::bf16) == SPJIT_BF16 &&
              static_cast<int>(DataType::i8) == SPJIT_I8 &&
              static_cast<int>(Promise::bounded) == SPJIT_BOUNDED &&
              static_cast<int>(Promise::integer) == SPJIT_INTEGER &&
              static_cast<int>(Quantization::given) == SPJIT_QUANTIZATION_GIVEN &&
              static_cast<int>(Quantization::token) == SPJIT_QUANTIZATION_TOKEN);

CompileOptions compile_options(const spjit_compiler_options& given) {
  CompileOptions options;
  if (given.target != nullptr) options.target = Target::parse(given.target);
  if (given.search != nullptr) options.policy.search = parse_search(given.search);
  if (given.search_budget_ms != 0) options.policy.search_budget_ms = given.search_budget_ms;
  if (given.family != nullptr) options.policy.family = given.family;
  options.policy.network_nnz = given.network_nnz;
  options.policy.hot = checked_flag(given.hot, "hot");
  if (given.verify != nullptr) options.verify = parse_verify(given.verify);
  options.keep_source = checked_flag(given.keep_source, "keep_source");
  if (given.compile != nullptr) options.compile = parse_compile_when(given.compile);
  options.resources.threads = checked_threads(given.threads);
  options.resources.parallel_for = parallel_for_of(given.parallel_for, given.parallel_for_user);
  options.resources.parallel_compiles = given.parallel_compiles;
  return options;
}

CacheOptions cache_options(const spjit_compiler_options& given) {
  CacheOptions cache;
  cache.enabled = !checked_flag(given.no_cache, "no_cache");
  if (given.cache_directory != nullptr) {
    require_path(given.cache_directory, "cache_directory");
    cache.directory = given.cache_directory;
  }
  if (given.cache_size_limit_bytes < 0) {
    throw InvalidArgument(fmt::format("cache_size_limit_bytes is {}; expected 0 (default) or more",
                                      given.cache_size_limit_bytes));
  }
  if (given.cache_size_limit_bytes > 0) cache.size_limit_bytes = given.cache_size_limit_bytes;
  if (given.cache_layer_count < 0) {
    throw InvalidArgument(
        fmt::format("cache_layer_count is {}; expected 0 or more", given.cache_layer_count));
  }
  if (given.cache_layer_count > 0) require(given.cache_layers, "cache_layers");
  for (std::int64_t i = 0; i < given.cache_layer_count; ++i) {
    require_path(given.cache_layers[i], "a path of cache_layers");
    cache.read_only_layers.emplace_back(given.cache_layers[i]);
  }
  if (given.cache_remote != nullptr) {
    require_path(given.cache_remote, "cache_remote");
    const std::string_view remote = given.cache_remote;
    cache.remote = remote == "off" ? RemoteCacheOptions{} : read_remote_cache(std::string(remote));
  }
  return cache;
}

Activation activation_of(std::int32_t activation) {
  check_enum(activation, "activation", SPJIT_TANH,
             "SPJIT_NO_ACTIVATION, _RELU, _GELU, _GELU_TANH, _SILU, _CLAMP, _HARD_SWISH, "
             "_LEAKY_RELU, _HARD_SIGMOID, _SIGMOID, _TANH");
  constexpr Activation k_activations[] = {
      Activation::none,         Activation::relu,    Activation::gelu_erf,   Activation::gelu_tanh,
      Activation::silu,         Activation::clamp,   Activation::hard_swish, Activation::leaky_relu,
      Activation::hard_sigmoid, Activation::sigmoid, Activation::tanh};
  return k_activations[activation];
}

Numerics numerics_of(const spjit_problem& given) {
  const auto type_of = [](std::int32_t type, const char* name) {
    check_enum(type, name, SPJIT_I4, "SPJIT_F32, _BF16, _F16, _I32, _I8, _U8, _I4");
    return static_cast<DataType>(type);
  };
  check_enum(given.accumulate, "accumulate", SPJIT_INTEGER,
             "SPJIT_ORDERED, _TENSOR, _BOUNDED, _INTEGER");
  check_enum(given.quantization, "quantization", SPJIT_QUANTIZATION_TOKEN,
             "SPJIT_QUANTIZATION_NONE, _GIVEN, _TENSOR, _TOKEN");
  return {type_of(given.a_type, "a_type"),
          type_of(given.b_type, "b_type"),
          type_of(given.c_type, "c_type"),
          {static_cast<Promise>(given.accumulate), given.eps},
          static_cast<Quantization>(given.quantization)};
}

std::shared_ptr<const GroupScales> group_scales_of(const spjit_problem& given) {
  if (given.group_columns == 0 && given.group_scales == nullptr && given.group_scale_count == 0) {
    return nullptr;
  }
  if (given.group_scale_count < 0) {
    throw InvalidArgument(fmt::format("group_scale_count is {}; expected rows * groups of A",
                                      given.group_scale_count));
  }
  if (given.group_scale_count > 0) require(given.group_scales, "group_scales");
  return std::make_shared<const GroupScales>(GroupScales{
      given.group_columns, {given.group_scales, given.group_scales + given.group_scale_count}});
}

/// What is left out is 1, but for padding.
Convolution convolution_of(const spjit_convolution& given) {
  const auto or_one = [](std::int64_t size) { return size == 0 ? 1 : size; };
  return {.channels = given.channels,
          .height = given.height,
          .width = given.width,
          .kernel_height = or_one(given.kernel_height),
          .kernel_width = or_one(given.kernel_width),
          .stride_height = or_one(given.stride_height),
          .stride_width = or_one(given.stride_width),
          .pad_top = given.pad_top,
          .pad_left = given.pad_left,
          .pad_bottom = given.pad_bottom,
          .pad_right = given.pad_right,
          .dilation_height = or_one(given.dilation_height),
          .dilation_width = or_one(given.dilation_width),
          .groups = or_one(given.groups)};
}

CompileControl control_of(const spjit_compile_control& given) {
  CompileControl control;
  if (given.cancel != nullptr) control.stop = given.cancel->source.get_token();
  constexpr double k_most_ms = 1e9;  // 11 days; counts of nanoseconds must not overflow
  if (!(given.timeout_ms >= 0 && given.timeout_ms <= k_most_ms)) {
    throw InvalidArgument(
        fmt::format("timeout_ms is {}; expected 0 (never) to {}", given.timeout_ms, k_most_ms));
  }
  if (given.timeout_ms > 0) {
    using Clock = std::chrono::steady_clock;
    control.deadline =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(
                           std::chrono::duration<double, std::milli>(given.timeout_ms));
  }
  return control;
}

}  // namespace

std::optional<Layout> layout_of(std::int32_t layout, const char* name) {
  check_enum(layout, name, SPJIT_LAYOUT_PANELS,
             "SPJIT_LAYOUT_DEFAULT, _FEATURES, _TOKENS, _PANELS");
  constexpr Layout k_layouts[] = {Layout::row_major, Layout::tokens_major, Layout::panel_major};
  if (layout == SPJIT_LAYOUT_DEFAULT) return std::nullopt;
  return k_layouts[layout - SPJIT_LAYOUT_FEATURES];
}

Problem problem_of(const spjit_problem& given, const SharedMatrix& matrix) {
  Problem problem;
  problem.a = matrix;
  problem.n = given.n;
  problem.n.runtime = checked_flag(given.runtime_n, "runtime_n");
  problem.b = {given.ldb, layout_of(given.b_layout, "b_layout").value_or(Layout::row_major)};
  problem.c = {given.ldc, layout_of(given.c_layout, "c_layout").value_or(Layout::row_major)};
  if (given.panel_columns != 0) problem.panel_columns = given.panel_columns;
  problem.epilogue.scale = checked_flag(given.has_scale, "has_scale");
  problem.epilogue.bias = checked_flag(given.has_bias, "has_bias");
  problem.epilogue.bias_first = checked_flag(given.bias_first, "bias_first");
  problem.epilogue.residual = checked_flag(given.has_residual, "has_residual");
  problem.epilogue.activation = activation_of(given.activation);
  problem.epilogue.low = given.clamp_low;
  problem.epilogue.high = given.clamp_high;
  problem.epilogue.alpha = given.alpha;
  problem.epilogue.beta = given.beta;
  problem.runtime_values = checked_flag(given.runtime_values, "runtime_values");
  if (given.convolution != nullptr) {
    problem.operation = Operation::conv2d;
    problem.convolution = convolution_of(checked_struct(given.convolution, "spjit_convolution"));
  }
  problem.numerics = numerics_of(given);
  problem.group_scales = group_scales_of(given);
  return problem;
}

ParallelFor parallel_for_of(spjit_parallel_for parallel_for, void* user) {
  if (parallel_for == nullptr) return {};
  return [parallel_for, user](int tasks, void (*task)(void*, int), void* context) {
    static_assert(std::is_same_v<int, std::int32_t>);
    parallel_for(user, tasks, task, context);
  };
}

}  // namespace spjit::c

using namespace spjit::c;

int spjit_compiler_create(const spjit_compiler_options* options, spjit_compiler** compiler) {
  return guarded([&] {
    spjit_compiler*& result = result_of(compiler, "compiler");
    const auto given = optional_struct(options, "spjit_compiler_options",
                                       offsetof(spjit_compiler_options, cache_layers));
    result = new spjit_compiler{spjit::Compiler(compile_options(given), cache_options(given))};
  });
}

void spjit_compiler_destroy(spjit_compiler* compiler) { delete compiler; }

int spjit_cancel_create(spjit_cancel** cancel) {
  return guarded([&] {
    // Before `new`: the right side of an assignment is evaluated first.
    spjit_cancel*& result = result_of(cancel, "cancel");
    result = new spjit_cancel;
  });
}

int spjit_cancel_request(spjit_cancel* cancel) {
  return guarded([&] {
    require(cancel, "cancel");
    cancel->source.request_stop();
  });
}

void spjit_cancel_destroy(spjit_cancel* cancel) { delete cancel; }

int spjit_compiler_flush_remote(const spjit_compiler* compiler,
                                const spjit_compile_control* control, int32_t* done) {
  return guarded([&] {
    require(compiler, "compiler");
    require(done, "done");
    spjit::CompileControl controlled;
    if (control != nullptr) {
      controlled = control_of(checked_struct(control, "spjit_compile_control"));
    }
    *done = compiler->compiler.flush_remote(controlled).done ? 1 : 0;
  });
}

int spjit_compiler_metrics(const spjit_compiler* compiler, char* text, size_t capacity,
                           size_t* bytes) {
  return guarded([&] {
    require(compiler, "compiler");
    require(bytes, "bytes");
    if (capacity > 0) require(text, "text");
    const std::string all = spjit::prometheus_text(compiler->compiler.metrics());
    *bytes = all.size();
    if (capacity > 0) all.copy(text, capacity);
  });
}

int spjit_compile(const spjit_compiler* compiler, const spjit_matrix* matrix,
                  const spjit_problem* problem, const spjit_compile_control* control,
                  spjit_kernel** kernel) {
  return guarded([&] {
    spjit_kernel*& result = result_of(kernel, "kernel");
    require(compiler, "compiler");
    require(matrix, "matrix");
    const spjit_problem given =
        checked_struct(problem, "spjit_problem", offsetof(spjit_problem, convolution));
    spjit::CompileControl controlled;
    if (control != nullptr) {
      controlled = control_of(checked_struct(control, "spjit_compile_control"));
    }
    result =
        new spjit_kernel(compiler->compiler.compile(problem_of(given, matrix->matrix), controlled));
  });
}
