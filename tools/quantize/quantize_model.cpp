#include "tools/quantize/quantize_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/json_text.hpp"
#include "base/printable.hpp"
#include "base/refusal.hpp"
#include "matrix/model_weights.hpp"
#include "matrix/safetensors_writer.hpp"
#include "spjit/error.hpp"
#include "spjit/quantize.hpp"
#include "tools/options/model_inputs.hpp"

namespace spjit::cli {
namespace {

constexpr const char* k_scale = "_scale";
constexpr std::int64_t k_piece_bytes = std::int64_t{1} << 20;

/// Weights that become int8.
struct ByteLayer {
  StoredWeights weights;
  std::vector<float> scale;
};

/// A tensor of the new file.
struct NewTensor {
  Tensor tensor;
  const Tensor* copied = nullptr;  ///< of the old file; else of `layer`
  const ByteLayer* layer = nullptr;
  bool is_scale = false;  ///< else the integers
};

std::string scale_name(const StoredWeights& weights) { return weights.what.name + k_scale; }

Refusal refusal_of(const TensorFile& file, const StoredWeights& weights, double least_zeros,
                   QuantizedWeights& report) {
  if (!weights.what.refusal.empty()) return Refusal(weights.what.refusal);
  if (weights.scale != nullptr) return Refusal("it is of integers already");
  if (weights.rows * weights.cols == 0) return Refusal("it has no elements");
  if (file.find(scale_name(weights)) != nullptr) {
    return Refusal(fmt::format("there is a tensor {}", printable(scale_name(weights))));
  }
  const double elements = as_double(weights.rows) * as_double(weights.cols);
  report.sparsity = 1 - as_double(count_nonzeros(file, weights)) / elements;
  if (100 * *report.sparsity >= least_zeros) return Refusal::none();
  return Refusal(fmt::format("fewer than {} % of it are zeros (--min-zeros)", least_zeros));
}

/// Takes a model apart and puts it together again.
class Quantizer {
 public:
  Quantizer(const QuantizeOptions& options, const std::function<void(const std::string&)>& tell)
      : options_(options), file_(TensorFile::open(options.model, options.model.string())) {
    for (const StoredWeights& weights : weights_in(file_)) {
      tell(weights.what.name);
      look_at(weights);
    }
  }

  QuantizeReport write() {
    if (layers_.empty()) {
      throw IoError(fmt::format(
          "{}: none of its {} weights became int8: {}", file_.name(), report_.weights.size(),
          report_.weights.empty() ? "it has none" : report_.weights.front().reason));
    }
    const std::vector<NewTensor> parts = parts_of_file();
    std::vector<Tensor> tensors;
    tensors.reserve(parts.size());
    for (const NewTensor& part : parts) tensors.push_back(part.tensor);
    SafetensorsWriter writer(options_.out, tensors, metadata());
    for (const NewTensor& part : parts) write_part(part, writer);
    writer.publish();
    report_.bytes_before = file_.bytes();
    report_.bytes_after = static_cast<std::int64_t>(std::filesystem::file_size(options_.out));
    return std::move(report_);
  }

 private:
  void look_at(const StoredWeights& weights) {
    QuantizedWeights& report =
        report_.weights.emplace_back(QuantizedWeights{weights.what.name, weights.what.shape});
    try {
      report.reason = refusal_of(file_, weights, options_.min_zeros, report).reason();
      if (!report.reason.empty()) return;
      QuantizedMatrix quantized = quantize_rows(read_weights(file_, weights));
      report.cosine = quantized.cosine;
      report.relative_error = quantized.relative_error;
      if (quantized.cosine < options_.least_cosine) {
        report.reason =
            fmt::format("its cosine is under {} (--least-cosine)", options_.least_cosine);
        return;
      }
      layers_.push_back({weights, std::move(quantized.scale)});
    } catch (const Error& error) {
      report.reason = error.what();
    }
  }

  /// Names of tensors that the new file does not have.
  [[nodiscard]] std::set<std::string> replaced() const {
    std::set<std::string> names;
    for (const ByteLayer& layer : layers_) {
      const StoredWeights& weights = layer.weights;
      for (const Tensor* tensor :
           {weights.values, weights.mask, weights.bitmask, weights.row_offsets, weights.shape}) {
        if (tensor != nullptr) names.insert(tensor->name);
      }
    }
    return names;
  }

  [[nodiscard]] std::vector<NewTensor> parts_of_file() const {
    std::vector<NewTensor> parts;
    const std::set<std::string> without = replaced();
    for (const Tensor& tensor : file_.tensors()) {
      if (!without.contains(tensor.name)) parts.push_back({tensor, &tensor});
    }
    for (const ByteLayer& layer : layers_) {
      const WeightTensor& what = layer.weights.what;
      const std::int64_t rows = layer.weights.rows;
      const auto add = [&](std::string name, std::string dtype, std::vector<std::int64_t> shape,
                           std::int64_t bytes) {
        NewTensor& made = parts.emplace_back();
        made.tensor.name = std::move(name);
        made.tensor.dtype = std::move(dtype);
        made.tensor.shape = std::move(shape);
        made.tensor.bytes = bytes;
        made.layer = &layer;
        made.is_scale = made.tensor.dtype != "I8";
      };
      add(what.name, "I8", what.shape, rows * layer.weights.cols);
      add(scale_name(layer.weights), "F32", {rows, 1}, rows * std::int64_t{sizeof(float)});
    }
    std::ranges::sort(parts, is_before_by_number,
                      [](const NewTensor& part) -> const std::string& { return part.tensor.name; });
    return parts;
  }

  void write_part(const NewTensor& part, SafetensorsWriter& writer) const {
    if (part.copied != nullptr) return copy(*part.copied, writer);
    if (part.is_scale) return writer.write(std::as_bytes(std::span(part.layer->scale)));
    // Made again: the integers of a whole model need not fit memory at once.
    const CsrMatrix integers = quantize_rows(read_weights(file_, part.layer->weights)).integers;
    std::vector<std::int8_t> row(to_size(integers.cols));
    for (std::int64_t i = 0; i < integers.rows; ++i) {
      std::ranges::fill(row, std::int8_t{0});
      for (std::int64_t entry = integers.row_ptrs[to_size(i)];
           entry < integers.row_ptrs[to_size(i + 1)]; ++entry) {
        row[to_size(integers.col_idxs[to_size(entry)])] =
            static_cast<std::int8_t>(integers.values[to_size(entry)]);
      }
      writer.write(std::as_bytes(std::span(row)));
    }
  }

  void copy(const Tensor& tensor, SafetensorsWriter& writer) const {
    std::vector<std::byte> piece;
    for (std::int64_t begin = 0; begin < tensor.bytes; begin += k_piece_bytes) {
      piece.resize(to_size(std::min(k_piece_bytes, tensor.bytes - begin)));
      file_.read_bytes(tensor, begin, piece);
      writer.write(piece);
    }
  }

  /// Rules of the new layers stand behind those that the file has, so that they win.
  [[nodiscard]] std::map<std::string, std::string> metadata() const {
    std::map<std::string, std::string> metadata = file_.metadata();
    const std::string old = file_.metadata(k_model_metadata);
    nlohmann::ordered_json document = nlohmann::ordered_json::object();
    if (!old.empty()) document = nlohmann::ordered_json::parse(old);
    for (const ByteLayer& layer : layers_) {
      nlohmann::ordered_json rule = {{"name", layer.weights.what.name}, {"types", "i8,f32,f32"}};
      if (options_.dynamic_activations) {
        rule["accumulate"] = "integer";
        rule["quantize"] = "token";
      }
      document["layers"].push_back(std::move(rule));
    }
    metadata[k_model_metadata] = document.dump();
    return metadata;
  }

  const QuantizeOptions& options_;
  TensorFile file_;
  std::vector<ByteLayer> layers_;
  QuantizeReport report_;
};

}  // namespace

QuantizeReport quantize_model(const QuantizeOptions& options,
                              const std::function<void(const std::string&)>& tell) {
  return Quantizer(options, tell).write();
}

}  // namespace spjit::cli
