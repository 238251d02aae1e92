#pragma once

/// @file
/// Activations as text. Both texts give the same bits, and those of AVX-512
/// (activation_vectors.inc) in all but SiLU, which has the same error bounds.

#include <cstdint>

#include "kernels/cuda/code/source_text.hpp"
#include "spjit/epilogue.hpp"

namespace spjit {

/// Instructions a row of machine code, about.
[[nodiscard]] std::int64_t activation_instructions(Activation activation);

/// The beginning of a unit: the table that the activation looks up, or nothing.
void emit_ptx_table(SourceText& text, Activation activation);
/// Declares the registers of emit_ptx_activation(), once a function.
void emit_ptx_activation_registers(SourceText& text, Activation activation);
/// Replaces the register c`accumulator` by its activation.
void emit_ptx_activation(SourceText& text, const Epilogue& epilogue, std::int64_t accumulator);

/// The function `float spjit_activate(float x)` with its table; nothing where there is no
/// activation.
void emit_cuda_activation(SourceText& text, const Epilogue& epilogue);

}  // namespace spjit
