#include "kernels/cuda/unrolled/cuda_tokens.hpp"

#include <algorithm>
#include <string_view>

#include "base/arithmetic.hpp"
#include "kernels/cuda/unrolled/ptx_tokens.hpp"

namespace spjit {
namespace {

CudaStage stage_of(const CudaKernelSpec& spec) { return stage_of(spec.layer, spec.tile.n1); }

/// Shared memory and barrier of the threads of one tile, of which a block may have several.
struct TileTexts {
  std::string_view shared;
  std::string_view barrier;
};
TileTexts texts_of(const CudaKernelSpec& spec) {
  if (spec.tile.tiles_a_block == 1) return {"spjit_shared", "__syncthreads()"};
  return {"spjit_of_tile()", "spjit_barrier()"};
}

void emit_tiles(SourceText& text, const CudaKernelSpec& spec) {
  text << "static __device__ __forceinline__ float* spjit_of_tile() {\n"
          "  return spjit_shared + threadIdx.y * "
       << stage_of(spec).bytes / std::int64_t{sizeof(float)}
       << "u;\n}\n\nstatic __device__ __forceinline__ void spjit_barrier() {\n"
          "  asm volatile(\"bar.sync %0, "
       << spec.tile.n1 << ";\" ::\"r\"(threadIdx.y) : \"memory\");\n}\n\n";
}

/// Floats between a thread's tokens: "4ull * ldb", or "2048".
void stride(SourceText& text, const CudaKernelSpec& spec, std::int64_t fixed,
            std::string_view name) {
  const std::int64_t step = stage_of(spec).step;
  if (spec.tile.runtime_sizes) {
    text << step << "ull * " << name;
  } else {
    text << step * fixed << "ull";
  }
}

void emit_stage(SourceText& text, const CudaKernelSpec& spec) {
  const CudaStage stage = stage_of(spec);
  const TileTexts tile = texts_of(spec);
  text << "// Features [0, features) of the block's tokens, from b on, and zeros behind them.\n"
          "static __device__ __forceinline__ void spjit_stage(const float* __restrict__ b, "
          "unsigned long long stride, unsigned features, unsigned left) {\n"
          "  const unsigned feature = threadIdx.x % "
       << stage.features << "u;\n  const unsigned token = threadIdx.x / " << stage.features
       << "u;\n  " << tile.barrier << ";\n#pragma unroll 4\n  for (unsigned i = 0; i < "
       << stage.features << "u; ++i) {\n    const bool inside = feature < features && token + i * "
       << stage.step << "u < left;\n    " << tile.shared << "[feature * " << stage.pitch
       << "u + token + i * " << stage.step << "u] = inside ? __ldg(b + i * stride) : 0.0f;\n  }\n  "
       << tile.barrier << ";\n}\n\n";
}

void emit_finish(SourceText& text, const CudaKernelSpec& spec, const CudaStage& stage) {
  const Epilogue& epilogue = spec.layer.epilogue;
  text
      << "// One row of C for each feature of shared memory, or zeros.\n"
         "static __device__ __forceinline__ void spjit_finish(float* c, unsigned long long stride, "
         "unsigned row, unsigned rows, bool zeros"
      << (epilogue.scale ? ", const float* __restrict__ scale" : "")
      << (epilogue.bias ? ", const float* __restrict__ bias" : "")
      << (epilogue.residual ? ", const float* residual, unsigned long long residual_stride" : "")
      << ", unsigned left) {\n  const unsigned feature = threadIdx.x % " << stage.features
      << "u;\n  const unsigned token = threadIdx.x / " << stage.features
      << "u;\n  if (feature >= rows) return;\n"
      << (epilogue.scale ? "  const float factor = __ldg(scale + row);\n" : "")
      << (epilogue.bias ? "  const float summand = __ldg(bias + row);\n" : "")
      << "#pragma unroll 4\n  for (unsigned i = 0; i < " << stage.features
      << "u; ++i) {\n    if (token + i * " << stage.step
      << "u >= left) break;\n    float y = zeros ? 0.0f : " << texts_of(spec).shared
      << "[feature * " << stage.pitch << "u + token + i * " << stage.step << "u];\n"
      << (epilogue.scale ? "    y = __fmul_rn(y, factor);\n" : "")
      << (epilogue.bias ? "    y = __fadd_rn(y, summand);\n" : "")
      << (epilogue.residual ? "    y = __fadd_rn(y, residual[row + i * residual_stride]);\n" : "")
      << (epilogue.activation != Activation::none ? "    y = spjit_activate(y);\n" : "")
      << "    c[row + i * stride] = y;\n  }\n}\n\n";
}

/// The row of this thread's feature, from row number `begin` of the function on.
void row_of_feature(SourceText& text, const RowsOfFunction& rows, std::int64_t begin,
                    std::int64_t count, const CudaStage& stage) {
  if (are_neighbours(rows.rows)) {
    text << std::int64_t{rows.rows[to_size(begin)]} << "u + threadIdx.x % " << stage.features
         << "u";
    return;
  }
  text << "__ldg(spjit_rows_" << rows.function << " + " << begin << " + min(threadIdx.x % "
       << stage.features << "u, " << count - 1 << "u))";
}

}  // namespace

void emit_cuda_tokens(SourceText& text, const CudaKernelSpec& spec) {
  if (!spec.layer.has_tokens()) return;
  text << "extern __shared__ float spjit_shared[];\n\n";
  if (spec.tile.tiles_a_block > 1) emit_tiles(text, spec);
  if (spec.layer.has_tokens_of_b()) emit_stage(text, spec);
  if (spec.layer.has_tokens_of_c()) emit_finish(text, spec, stage_of(spec));
}

void emit_cuda_rows(SourceText& text, const RowsOfFunction& rows) {
  if (are_neighbours(rows.rows)) return;
  text << "static __device__ const unsigned spjit_rows_" << rows.function << "["
       << std::ssize(rows.rows) << "] = {";
  for (const std::int32_t row : rows.rows) text << std::int64_t{row} << ",";
  text << "};\n";
}

std::int64_t emit_cuda_load(SourceText& text, const CudaKernelSpec& spec,
                            const ColumnOfTokens& column) {
  const CudaStage stage = stage_of(spec);
  const std::int64_t base = column.column / stage.features * stage.features;
  if (base != column.base) {
    text << "  spjit_stage(b + " << base << ", ";
    stride(text, spec, spec.ldb, "ldb");
    text << ", " << std::min(stage.features, column.cols - base) << "u, left);\n";
  }
  text << "  const float b" << column.column << " = " << texts_of(spec).shared << "["
       << (column.column - base) * stage.pitch << "u + threadIdx.x];\n";
  return base;
}

void emit_cuda_stores(SourceText& text, const CudaKernelSpec& spec, const RowsOfFunction& rows,
                      bool are_zeros) {
  const CudaStage stage = stage_of(spec);
  const TileTexts tile = texts_of(spec);
  const Epilogue& epilogue = spec.layer.epilogue;
  for (std::int64_t begin = 0; begin < std::ssize(rows.rows); begin += stage.features) {
    const std::int64_t count = std::min(stage.features, std::ssize(rows.rows) - begin);
    if (!are_zeros) {
      text << "  " << tile.barrier << ";\n";
      for (std::int64_t i = 0; i < count; ++i) {
        text << "  " << tile.shared << "[" << i * stage.pitch << "u + threadIdx.x] = c" << begin + i
             << ";\n";
      }
      text << "  " << tile.barrier << ";\n";
    }
    text << "  spjit_finish(c, ";
    stride(text, spec, spec.ldc, "ldc");
    text << ", ";
    row_of_feature(text, rows, begin, count, stage);
    text << ", " << count << "u, " << (are_zeros ? "true" : "false")
         << (epilogue.scale ? ", scale" : "") << (epilogue.bias ? ", bias" : "");
    if (epilogue.residual) text << ", residual, " << stage.step << "ull * ldr";
    text << ", left);\n";
  }
}

}  // namespace spjit
