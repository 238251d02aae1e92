#pragma once

/// @file
/// The clock against times that a GPU took: samples of `spjit collect`.

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "bench/clock/agreement.hpp"
#include "clock/cubin_clock.hpp"
#include "kernels/cuda/unrolled/cuda_samples.hpp"

namespace spjit::bench {

struct MeasuredTile {
  std::string tile;
  double measured_us = 0;
  double modelled_us = 0;
  double prior = 0;  ///< estimated cycles of the formula
  std::string bound;
  std::string failed;  ///< why it has no modelled time; empty: it has
};

/// Tiles of one matrix, n and card.
struct MeasuredMatrix {
  std::string matrix;  ///< below the folder of matrices
  std::string card;
  std::int64_t n = 0;
  std::vector<MeasuredTile> tiles;
  Agreement clock;
  Agreement prior;
};

using ModelTile = std::function<ModelledTime(const CudaCandidate&)>;

/// Asks for each tile that ran; those of which the clock throws Error are left out of the
/// agreement. Throws Error for a group whose times were not measured, without its matrix's file, or
/// where fewer than two tiles are left.
[[nodiscard]] MeasuredMatrix judge_measured(const CudaSampleGroup& group, const ModelTile& model);

/// The mean over matrices, of tau and loss. Throws InvalidArgument for none.
[[nodiscard]] Agreement mean_agreement(std::span<const MeasuredMatrix> matrices,
                                       Agreement MeasuredMatrix::*of);

/// "... n=512: 24 tiles, measured (H100 SXM), tau ...", without the newline.
[[nodiscard]] std::string to_string(const MeasuredMatrix& matrix);
[[nodiscard]] nlohmann::json to_json(const MeasuredMatrix& matrix);

}  // namespace spjit::bench
