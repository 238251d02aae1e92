#include "bench/layer/separate_pass.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/host/layer/activation.hpp"
#include "kernels/host/operands/finish.hpp"
#include "kernels/host/operands/simd.hpp"

namespace spjit::bench {
namespace {

void add(float* values, const float* summands, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) values[i] += summands[i];
}

/// The same: GCC makes vectors of the loop.
SPJIT_AVX2_TARGET void add_avx2(float* values, const float* summands, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) values[i] += summands[i];
}

void finish_features(const SeparatePass& pass, HostIsa isa, RowRange rows) {
  const std::int64_t n = pass.shape.n;
  Epilogue epilogue;
  epilogue.bias = true;
  epilogue.activation = pass.activation;
  Finish task;
  task.epilogue = &epilogue;
  task.from = {pass.c + rows.begin * n, n};
  task.rows = rows.end - rows.begin;
  task.columns = n;
  task.to = {pass.c + rows.begin * n, n};
  task.bias = pass.bias + rows.begin;
  finish(task, isa);
}

void finish_tokens(const SeparatePass& pass, HostIsa isa, RowRange tokens) {
  const auto add_here = isa == HostIsa::generic ? add : add_avx2;
  for (std::int64_t token = tokens.begin; token < tokens.end; ++token) {
    float* const values = pass.c + token * pass.features;
    add_here(values, pass.bias, pass.features);
    activate({values, static_cast<std::size_t>(pass.features)}, pass.activation, {}, isa);
  }
}

}  // namespace

void run_separate_pass(const SeparatePass& pass, HostIsa isa, ThreadPool& pool) {
  const bool has_tokens = pass.shape.layout == Layout::tokens_major;
  const std::int64_t rows = has_tokens ? pass.shape.n : pass.features;
  const std::int64_t parts = std::clamp<std::int64_t>(rows, 1, pool.threads());
  pool.run(static_cast<int>(parts), [&](int part, int) {
    const RowRange range{rows * part / parts, rows * (part + 1) / parts};
    has_tokens ? finish_tokens(pass, isa, range) : finish_features(pass, isa, range);
  });
}

}  // namespace spjit::bench
