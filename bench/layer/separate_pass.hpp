#pragma once

/// @file
/// Bias and activation as a pass of its own over C, which a fused epilogue saves.

#include "base/thread_pool.hpp"
#include "bench/model/layer_buffers.hpp"
#include "spjit/epilogue.hpp"
#include "spjit/target.hpp"

namespace spjit::bench {

/// C of one layer, and what is done to it.
struct SeparatePass {
  float* c = nullptr;
  std::int64_t features = 0;
  TokenShape shape = {};        ///< a batch of one
  const float* bias = nullptr;  ///< [features]
  Activation activation = Activation::none;
};

/// c = activation(c + bias), each rounded, with the library's loops over vectors. Reads and writes
/// C once, in rows that stay in L1; threads share the rows.
void run_separate_pass(const SeparatePass& pass, HostIsa isa, ThreadPool& pool);

}  // namespace spjit::bench
