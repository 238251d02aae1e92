#pragma once

/// @file
/// An LSTM, GRU or RNN of an ONNX model that kernels compute: the operator SparseRecurrent of the
/// domain spjit.
///
/// Inputs: X [steps, batch, inputs]; bias [directions, 2 * gates * hidden], the input's and then
/// the state's, where the kernels have one; sequence_lens [batch], int32; initial_h and initial_c
/// [directions, batch, hidden]. All but X may be missing. Outputs, each of which may be missing: Y
/// [steps, directions, batch, hidden], Y_h and Y_c as the states. Gates are in the order of
/// spjit.h.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bindings/ort/api.hpp"
#include "bindings/ort/open_bundles.hpp"
#include "bindings/ort/session_kernel.hpp"
#include "spjit.h"

namespace spjit::ort {

/// A node's attributes. `text`: JSON {"cell": "lstm", "gru", "gru-reset-first", "rnn-tanh" or
/// "rnn-relu", "direction": "forward", "reverse" or "both", "kernels": [of each direction {"input":
/// KERNEL, "recurrent": KERNEL, "candidate": KERNEL or absent}], "fixed": null or the same beside
/// "batch" and "one_step"}, where KERNEL is {"layer", "problem"}.
struct RecurrentSource {
  std::string path;  ///< of a bundle
  std::string text;
  std::int32_t threads = 1;
};

/// Sizes of a recurrent layer.
struct RecurrentInfo {
  std::int64_t directions = 0;
  std::int64_t inputs = 0;
  std::int64_t gate_rows = 0;  ///< gates * hidden
  std::int64_t hidden = 0;
  bool is_lstm = false;
  bool has_bias = false;
  bool resets_first = false;
};

struct DestroyRecurrent {
  void operator()(spjit_recurrent* layer) const { spjit_recurrent_destroy(layer); }
};

/// Any number of threads may run one.
class SparseRecurrent {
 public:
  /// Throws Error with what spjit says, and for text that is none.
  SparseRecurrent(Api api, std::string where, SharedBundle bundle, const RecurrentSource& source);

  [[nodiscard]] const Api& api() const noexcept { return api_; }
  [[nodiscard]] const std::string& where() const noexcept { return where_; }
  /// Throws Error, InvalidArgument.
  void run(KernelContext* context) const;

 private:
  using OwnedLayer = std::unique_ptr<spjit_recurrent, DestroyRecurrent>;

  [[nodiscard]] const spjit_recurrent* layer_for(std::int64_t steps, std::int64_t batch) const;

  Api api_;
  std::string where_;
  SharedBundle bundle_;  ///< stays open for layers that are made after this one
  RecurrentInfo info_;
  OwnedLayer layer_;
  OwnedLayer fixed_;  ///< of kernels for one batch; null: there are none
  std::int64_t fixed_batch_ = 0;
  bool fixed_is_one_step_ = false;
};

}  // namespace spjit::ort
