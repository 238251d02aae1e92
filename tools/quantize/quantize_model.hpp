#pragma once

/// @file
/// A model's file with its sparse weights as int8.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace spjit::cli {

struct QuantizeOptions {
  std::filesystem::path model;  ///< `.safetensors`, or the index of one in parts
  std::filesystem::path out;    ///< `.safetensors`
  double min_zeros = 50;        ///< share of zeros of weights that are quantised [%]
  double least_cosine = 0.999;  ///< what is less like its integers stays
  /// Layers are to quantise their activations, too.
  bool dynamic_activations = false;
};

/// A tensor of weights, int8 or left as it was.
struct QuantizedWeights {
  std::string name;
  std::vector<std::int64_t> shape;
  std::optional<double> sparsity = {};  ///< share of zeros, 0 to 1; none where none were counted
  std::optional<double> cosine = {};    ///< of QuantizedMatrix; none where nothing was tried
  std::optional<double> relative_error = {};
  std::string reason = {};  ///< why they stay as they are; empty: they are int8
};

struct QuantizeReport {
  std::vector<QuantizedWeights> weights;
  std::int64_t bytes_before = 0;  ///< of the file, or of all its parts
  std::int64_t bytes_after = 0;
};

/// Writes the file: weights of int8 as `NAME` and `NAME_scale` [rows x 1] (compressed-tensors'
/// int-quantized), all else byte for byte, and options of the layers in the metadata, as
/// `spjit compile` takes them. `tell` gets the name of each tensor of weights before it is looked
/// at. Throws IoError, also if no weights became int8; nothing is written then.
[[nodiscard]] QuantizeReport quantize_model(const QuantizeOptions& options,
                                            const std::function<void(const std::string&)>& tell);

}  // namespace spjit::cli
