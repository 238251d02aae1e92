#pragma once

/// @file
/// Weights in a file of a model, `.safetensors`. docs/use/matrices.md has the rules in full.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "spjit/export.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// Weights of a layer, as far as they are known without reading all of them.
struct WeightTensor {
  /// As PyTorch calls it, "encoder.fc1.weight". Several tensors may be one weight, which is then
  /// called `weight`:
  /// - `weight_orig` and `weight_mask` (torch.nn.utils.prune)
  /// - `weight.compressed`, `weight.bitmask`, `weight.shape` and `weight.row_offsets` (the
  ///   sparse-bitmask format of compressed-tensors)
  /// - `weight_packed` and `weight_shape` (its pack-quantized format)
  std::string name;
  std::string dtype;                ///< F32, F16, BF16, F64; of integers with a scale I8, I4
  std::vector<std::int64_t> shape;  ///< [out x in], or [filters x channels / groups x h x w], or
                                    ///< without the h, of a convolution of one dimension
  std::string refusal;              ///< why load_weights() does not take it; empty: it does
};

/// The tensors of two dimensions and more, ascending by name, numbers in names by their size. Reads
/// the file's header only. Throws IoError.
[[nodiscard]] SPJIT_EXPORT std::vector<WeightTensor> list_weights(
    const std::filesystem::path& path);

/// One of them as a matrix [out x in], or [filters x all else], without its zeros.
/// Numbers become fp32: those of F16, BF16, I8 and I4 exactly, of F64 rounded. Reads no other
/// tensor. Memory: 8 bytes for each nonzero and row. Throws IoError.
[[nodiscard]] SPJIT_EXPORT CsrMatrix load_weights(const std::filesystem::path& path,
                                                  const std::string& name);

/// Factors of the rows of weights of integers, `weight_scale` in the file, as Arguments::scale
/// takes them [out]: weights are the matrix of load_weights() times them. Empty if the weights are
/// floats. Throws IoError, also for a factor that is 0 or not finite.
[[nodiscard]] SPJIT_EXPORT std::vector<float> load_weight_scale(const std::filesystem::path& path,
                                                                const std::string& name);

}  // namespace spjit
