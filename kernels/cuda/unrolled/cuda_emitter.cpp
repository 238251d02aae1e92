#include "kernels/cuda/unrolled/cuda_emitter.hpp"

#include "base/arithmetic.hpp"
#include "kernels/cuda/code/activation_code.hpp"
#include "kernels/cuda/code/source_text.hpp"
#include "kernels/cuda/unrolled/cuda_patches.hpp"
#include "kernels/cuda/unrolled/cuda_tokens.hpp"
#include "kernels/cuda/unrolled/cuda_units.hpp"
#include "kernels/cuda/unrolled/value_stream.hpp"

namespace spjit {
namespace {

/// Text of about this size for each nonzero; only a reservation.
constexpr std::int64_t k_bytes_a_nonzero = 64;

class CudaEmission {
 public:
  CudaEmission(const KernelPlan& plan, const CudaKernelSpec& spec, const Cancellation& cancel)
      : plan_(plan),
        spec_(spec),
        pace_(cancel),
        patches_(spec.layer, spec.ldb),
        units_(cut_into_units(plan, spec.tile.unit_nonzeros)) {
    if (spec.layer.runtime_values) value_ptrs_ = value_ptrs(plan);
  }

  std::vector<SourceUnit> run() {
    return emit_units(units_, pace_, [this](const UnitRange& range) { return unit(range); });
  }

 private:
  bool has_tokens() const { return spec_.layer.has_tokens(); }
  bool has_values() const { return spec_.layer.runtime_values; }
  bool whole() const { return units_.size() == 1; }
  /// Whether a block may have several.
  bool has_tiles() const { return spec_.tile.tiles_a_block > 1 || spec_.runtime_threads; }

  SourceUnit unit(const UnitRange& range) {
    SourceUnit unit = describe_unit(plan_, units_, range, spec_);
    unit.language = SourceLanguage::cuda;
    SourceText text(range.nonzeros * k_bytes_a_nonzero + (1 << 14));
    header(text, range);
    emit_cuda_activation(text, spec_.layer.epilogue);
    emit_cuda_tokens(text, spec_);
    for (std::int64_t function = range.begin; function < range.end; ++function) {
      this->function(text, function);
    }
    if (!unit.kernel.empty()) kernel(text);
    unit.text = std::move(text).take();
    return unit;
  }

  void header(SourceText& text, const UnitRange& range) const {
    const CudaTile& tile = spec_.tile;
    text << "// spjit, CUDA C++ emitter " << std::int64_t{k_cuda_emitter_version} << ".\n"
         << "// C [" << plan_.rows << " x n] = A [" << plan_.rows << " x " << plan_.cols
         << "] * B [" << plan_.cols << " x n], A with " << plan_.nnz() << " nonzeros, "
         << range.nonzeros << " of them here.\n"
         << "// Tile " << tile.m1 << "x" << tile.n1 << " u" << tile.unit_nonzeros
         << (tile.runtime_sizes ? " runtime; " : "; ");
    if (tile.runtime_sizes) {
      text << "n, ldb and ldc are parameters.\n\n";
    } else {
      text << "n = " << spec_.n << ", ldb = " << spec_.ldb << ", ldc = " << spec_.ldc << ".\n";
      if (spec_.layer.convolution) {
        text << "// B is patches of an image: " << to_string(*spec_.layer.convolution) << ".\n";
      }
      text << "\n";
    }
  }

  /// "void name(parameters)"
  void signature(SourceText& text, std::int64_t function) const {
    const Epilogue& epilogue = spec_.layer.epilogue;
    text << "void " << function_name(function) << "(const float* __restrict__ b, "
         << pointer_to_c();
    if (spec_.tile.runtime_sizes) text << ", unsigned ldb, unsigned ldc";
    if (epilogue.scale) text << ", const float* __restrict__ scale";
    if (epilogue.bias) text << ", const float* __restrict__ bias";
    if (epilogue.residual) text << ", const float* residual, unsigned ldr";
    if (has_tokens()) text << ", unsigned left";
    if (has_values()) text << ", const float4* __restrict__ values";
    for (std::int64_t word = 0; word < patches_.words(); ++word) {
      text << ", unsigned " << CudaPatches::word_name(word);
    }
    text << ")";
  }

  void function(SourceText& text, std::int64_t function) {
    const bool is_tile = function < plan_.grouping.tiles();
    const std::vector<std::int32_t> empty =
        is_tile ? std::vector<std::int32_t>{} : zero_rows(plan_, function);
    const RowsOfFunction rows = {function, is_tile ? plan_.tile_rows(function) : empty};
    if (spec_.layer.has_tokens_of_c()) emit_cuda_rows(text, rows);
    text << linkage();
    signature(text, function);
    text << " {\n";
    if (is_tile) {
      tile(text, rows);
    } else if (spec_.layer.has_tokens_of_c()) {
      emit_cuda_stores(text, spec_, rows, true);
    } else {
      if (has_tokens()) text << "  if (threadIdx.x < left) {\n";
      empty_rows(text, rows.rows);
      if (has_tokens()) text << "  }\n";
    }
    text << (whole() ? "}\n\n" : "  asm volatile(\"exit;\");\n  __builtin_unreachable();\n}\n\n");
  }

  /// A residual may be C itself.
  std::string_view pointer_to_c() const {
    return spec_.layer.epilogue.residual ? "float* c" : "float* __restrict__ c";
  }

  void empty_rows(SourceText& text, std::span<const std::int32_t> rows) const {
    std::int64_t number = 0;
    for (const std::int32_t row : rows) {
      if (spec_.layer.epilogue.empty()) {
        store_row(text, row) << "0.0f;\n";
        continue;
      }
      text << "  float c" << number << " = 0.0f;\n";
      finish(text, row, number);
      store_row(text, row) << "c" << number++ << ";\n";
    }
  }

  /// The epilogue of a row whose sum is c`accumulator`.
  void finish(SourceText& text, std::int64_t row, std::int64_t accumulator) const {
    const Epilogue& epilogue = spec_.layer.epilogue;
    const auto begin = [&](std::string_view function) -> SourceText& {
      return text << "  c" << accumulator << " = " << function << "(c" << accumulator;
    };
    if (epilogue.scale) begin("__fmul_rn") << ", __ldg(scale + " << row << "));\n";
    if (epilogue.bias) begin("__fadd_rn") << ", __ldg(bias + " << row << "));\n";
    if (epilogue.residual) begin("__fadd_rn") << ", residual[" << row << "ull * ldr]);\n";
    if (epilogue.activation != Activation::none) begin("spjit_activate") << ");\n";
  }

  /// A function of a whole program is inlined into the kernel. One of several units is called and
  /// ends the thread: what need not return need not save the caller's registers either.
  const char* linkage() const {
    return whole() ? "static __device__ __forceinline__ "
                   : "extern \"C\" __device__ __noinline__ __attribute__((noreturn)) ";
  }

  void tile(SourceText& text, const RowsOfFunction& function) {
    const std::span<const std::int32_t> rows = function.rows;
    for (std::int64_t row = 0; row < std::ssize(rows); ++row) {
      text << "  float c" << row << " = 0.0f;\n";
    }
    std::int64_t base = -1;
    CudaTextValues values(has_values() ? value_ptrs_[to_size(function.function)] : 0);
    const PlanSegment segment = plan_.segment(function.function, 0);
    for (std::int64_t column = segment.column_begin; column < segment.column_end; ++column) {
      pace_.spend(k_cuda_column_work);
      if (spec_.layer.has_tokens_of_b()) {
        base = emit_cuda_load(text, spec_, {plan_.columns[to_size(column)], base, plan_.cols});
      } else {
        load(text, plan_.columns[to_size(column)]);
      }
      multiply(text, column, values);
    }
    if (spec_.layer.has_tokens_of_c()) return emit_cuda_stores(text, spec_, function, false);
    if (has_tokens()) text << "  if (threadIdx.x < left) {\n";
    // Residuals are read before C is written: the compiler does not know that it may.
    for (std::int64_t row = 0; row < std::ssize(rows); ++row) {
      finish(text, rows[to_size(row)], row);
    }
    for (std::int64_t row = 0; row < std::ssize(rows); ++row) {
      store_row(text, rows[to_size(row)]) << "c" << row << ";\n";
    }
    if (has_tokens()) text << "  }\n";
  }

  /// "  c[96] = ", which the value to store follows: the one place that stores a row of C, be it
  /// empty.
  SourceText& store_row(SourceText& text, std::int64_t row) const {
    text << "  c[";
    offset(text, row, spec_.ldc, "ldc");
    return text << "] = ";
  }

  void load(SourceText& text, std::int64_t column) const {
    if (!spec_.tile.runtime_sizes) return patches_.cuda_load(text, column);
    text << "  const float b" << column << " = __ldg(b + ";
    offset(text, column, spec_.ldb, "ldb");
    text << ");\n";
  }

  void multiply(SourceText& text, std::int64_t column, CudaTextValues& values) const {
    for (std::int64_t e = plan_.entry_ptrs[to_size(column)];
         e < plan_.entry_ptrs[to_size(column) + 1]; ++e) {
      const std::int64_t row = plan_.entry_rows[to_size(e)];
      const std::string value = has_values() ? values.next(text) : std::string();
      text << "  c" << row << " = __fmaf_rn(" << value;
      if (!has_values()) append_cuda_literal(text, plan_.entry_values[to_size(e)]);
      text << ", b" << std::int64_t{plan_.columns[to_size(column)]} << ", c" << row << ");\n";
    }
  }

  /// Where a row of B or C starts, in floats: "96", or "3ull * ldb".
  void offset(SourceText& text, std::int64_t row, std::int64_t leading_dimension,
              std::string_view name) const {
    if (spec_.tile.runtime_sizes) {
      text << row << "ull * " << name;
    } else {
      text << row * leading_dimension;
    }
  }

  void kernel(SourceText& text) const {
    const Epilogue& epilogue = spec_.layer.epilogue;
    const std::int64_t functions = count_functions(plan_);
    for (std::int64_t function = 0; function < functions && !whole(); ++function) {
      text << linkage();
      signature(text, function);
      text << ";\n";
    }
    if (!spec_.function_of_tile.empty()) functions_of_tiles(text);
    head_of_kernel(text);
    const std::string_view of_b = has_tokens() || patches_.are_patches() ? "of_b" : "b + j";
    const std::string_view of_c = has_tokens() ? "of_c" : "c + j";
    const std::string_view of_residual = has_tokens() ? "of_residual" : "residual + j";
    for (std::int64_t function = 0; function < functions; ++function) {
      text << "      case " << function << ":\n        return " << function_name(function) << "("
           << of_b << ", " << of_c << (spec_.tile.runtime_sizes ? ", ldb, ldc" : "")
           << (epilogue.scale ? ", scale" : "") << (epilogue.bias ? ", bias" : "");
      if (epilogue.residual) text << ", " << of_residual << ", ldr";
      text << (has_tokens() ? ", left" : "") << (has_values() ? ", values" : "");
      for (std::int64_t word = 0; word < patches_.words(); ++word) {
        text << ", " << CudaPatches::word_name(word);
      }
      text << ");\n";
    }
    text << "    }\n  }\n}\n";
  }

  void head_of_kernel(SourceText& text) const {
    text << (whole() ? "" : "\n") << "extern \"C\" __global__ void __launch_bounds__("
         << spec_.tile.threads() << ", " << spec_.min_blocks << ")\n"
         << k_cuda_kernel_name << "(const float* __restrict__ b, " << pointer_to_c()
         << ", const float* __restrict__ scale, const float* __restrict__ bias, "
            "const float* residual, unsigned n, unsigned ldb, unsigned ldc, unsigned ldr, "
            "long long b_distance, long long c_distance, long long residual_distance, "
            "const float4* __restrict__ values) {\n"
            "  b += blockIdx.z * b_distance;\n  c += blockIdx.z * c_distance;\n"
         << (spec_.layer.epilogue.residual ? "  residual += blockIdx.z * residual_distance;\n" : "")
         << (has_tiles() ? "  const unsigned tile = blockIdx.x * " : "");
    if (has_tiles()) tile_of_thread(text);
    text << "  const unsigned j = blockIdx.y * ";
    if (spec_.runtime_threads) {
      text << "blockDim.x";
    } else {
      text << spec_.tile.n1 << "u";
    }
    text << " + threadIdx.x;\n";
    if (has_tokens()) tokens_of_block(text);
    if (patches_.are_patches()) patches_.cuda_thread(text, has_tokens() ? "column" : "j");
    if (has_tokens()) {
      text << "  {\n";
    } else {
      text << "  if (j < ";
      columns(text) << ") {\n";
    }
    const std::string_view tile = has_tiles() ? "tile" : "blockIdx.x";
    if (spec_.function_of_tile.empty()) {
      text << "    switch (" << tile << ") {\n";
    } else {
      text << "    switch (spjit_function_of_tile[" << tile << "]) {\n";
    }
  }

  /// What follows `tile = blockIdx.x * `; threads without a tile leave.
  void tile_of_thread(SourceText& text) const {
    if (spec_.runtime_threads) {
      text << "blockDim.y";
    } else {
      text << spec_.tile.tiles_a_block << "u";
    }
    text << " + threadIdx.y;\n  if (tile >= " << launched_tiles(plan_, spec_) << "u) return;\n";
  }

  SourceText& columns(SourceText& text) const {
    if (spec_.tile.runtime_sizes) return text << "n";
    return text << spec_.n << "u";
  }

  /// Pointers to the thread's first token, or to its column: the last one if it has none.
  void tokens_of_block(SourceText& text) const {
    const std::int64_t features = stage_of(spec_.layer, spec_.tile.n1).features;
    const CudaLayer& layer = spec_.layer;
    text << "  const unsigned left = ";
    columns(text) << " - blockIdx.y * " << spec_.tile.n1
                  << "u;\n  const unsigned long long first = blockIdx.y * " << spec_.tile.n1
                  << "u + threadIdx.x / " << features << "u;\n  const unsigned column = min(j, ";
    columns(text) << " - 1u);\n";
    if (layer.has_tokens_of_b()) {
      text << "  const float* const of_b = b + first * ";
      leading_dimension(text, spec_.ldb, "ldb") << " + threadIdx.x % " << features << "u;\n";
    } else if (!patches_.are_patches()) {
      text << "  const float* const of_b = b + column;\n";
    }
    text << "  float* const of_c = c + ";
    if (layer.has_tokens_of_c()) {
      text << "first * ";
      leading_dimension(text, spec_.ldc, "ldc");
    } else {
      text << "column";
    }
    text << ";\n";
    if (!layer.epilogue.residual) return;
    text << "  const float* const of_residual = residual + "
         << (layer.has_tokens_of_c() ? "first * ldr;\n" : "column;\n");
  }

  SourceText& leading_dimension(SourceText& text, std::int64_t fixed, std::string_view name) const {
    if (spec_.tile.runtime_sizes) return text << name;
    return text << fixed << "ull";
  }

  /// A load and a switch of few cases: with a case for each of 15 000 blocks NVRTC makes a search
  /// tree of 350 KB and needs 7 s for it (13.0, sm_90).
  void functions_of_tiles(SourceText& text) const {
    text << "static __device__ const unsigned spjit_function_of_tile["
         << launched_tiles(plan_, spec_) << "] = {";
    for (const std::int32_t function : spec_.function_of_tile) {
      text << std::int64_t{function} << ",";
    }
    text << "};\n\n";
  }

  const KernelPlan& plan_;
  const CudaKernelSpec& spec_;
  CancelPace pace_;
  CudaPatches patches_;
  std::vector<UnitRange> units_;
  std::vector<std::int64_t> value_ptrs_;  ///< of values at run time
};

}  // namespace

std::vector<SourceUnit> emit_cuda(const KernelPlan& plan, const CudaKernelSpec& spec,
                                  const Cancellation& cancel) {
  check_cuda_spec(plan, spec);
  return CudaEmission(plan, spec, cancel).run();
}

}  // namespace spjit
