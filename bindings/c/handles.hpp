#pragma once

/// @file
/// The types behind the handles of spjit.h.

#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>

#include "spjit.h"
#include "spjit/compiler.hpp"
#include "spjit/recurrent.hpp"

struct spjit_matrix {
  spjit::SharedMatrix matrix;
};

struct spjit_compiler {
  spjit::Compiler compiler;
};

struct spjit_cancel {
  std::stop_source source;
};

struct spjit_kernel {
  explicit spjit_kernel(spjit::Kernel made) : kernel(std::move(made)) {}

  spjit::Kernel kernel;
  mutable std::once_flag described;
  mutable std::string info;  ///< JSON, made when it is first asked for
};

struct spjit_recurrent {
  spjit::RecurrentLayer layer;
};

struct spjit_values {
  spjit::PreparedValues values;
};
