#pragma once

/// @file
/// oneDNN's primitives for convolutions and products, by its C interface of version 3.

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "bench/side_by_side/dnnl_library.hpp"

namespace spjit::side_by_side {

/// Of oneDNN, opaque.
struct DnnlMemoryDesc;
struct DnnlMemory;
struct DnnlPrimitive;

/// How floats lie.
enum class DnnlFormat : std::uint8_t { any, plain, channels_last };

/// A description of an array of floats.
using DnnlDesc = std::shared_ptr<const DnnlMemoryDesc>;

/// An array of floats, of oneDNN's or borrowed.
using DnnlArray = std::shared_ptr<DnnlMemory>;

/// A primitive with what it reads and writes.
class DnnlCall {
 public:
  struct Argument {
    int place;
    DnnlMemory* memory;
  };

  DnnlCall() = default;
  DnnlCall(std::shared_ptr<DnnlPrimitive> primitive, std::array<Argument, 4> arguments, int count)
      : primitive_(std::move(primitive)), arguments_(arguments), count_(count) {}

  [[nodiscard]] bool empty() const noexcept { return primitive_ == nullptr; }
  [[nodiscard]] DnnlPrimitive* primitive() const noexcept { return primitive_.get(); }
  [[nodiscard]] std::span<const Argument> arguments() const noexcept {
    return std::span(arguments_).first(static_cast<std::size_t>(count_));
  }

 private:
  std::shared_ptr<DnnlPrimitive> primitive_;
  std::array<Argument, 4> arguments_ = {};
  int count_ = 0;
};

/// Sizes as oneDNN has them.
struct DnnlConvolution {
  std::array<std::int64_t, 4> src = {};  ///< images, channels, height, width
  std::array<std::int64_t, 4> dst = {};
  /// groups, filters and channels of each, height, width
  std::array<std::int64_t, 5> weights = {};
  std::array<std::int64_t, 2> stride = {};
  std::array<std::int64_t, 2> dilation = {};  ///< 0: none, other than elsewhere
  std::array<std::int64_t, 2> pad_before = {};
  std::array<std::int64_t, 2> pad_after = {};
};

/// `[tokens x features]` times `[features x outputs]`.
struct DnnlProduct {
  std::int64_t tokens = 0;
  std::int64_t features = 0;
  std::int64_t outputs = 0;
};

/// The primitive that oneDNN chose for a convolution with bias and ReLU, or for a product.
struct DnnlChoice {
  std::shared_ptr<DnnlPrimitive> primitive;
  DnnlDesc src;
  DnnlDesc weights;
  DnnlDesc dst;
  std::string implementation;  ///< "jit:avx512_core"
};

/// The CPU engine of one oneDNN and a stream. Copies share it. Used by one thread; every function
/// throws Error with oneDNN's status.
class DnnlEngine {
 public:
  /// Throws NotSupported for a oneDNN of another version than 3.
  explicit DnnlEngine(DnnlLibrary library);

  [[nodiscard]] const DnnlLibrary& library() const noexcept;

  /// For inference; the algorithm is oneDNN's choice.
  [[nodiscard]] DnnlChoice choose(const DnnlConvolution& convolution, DnnlFormat images) const;

  /// Tokens are row-major, and the weights as oneDNN likes them best.
  [[nodiscard]] DnnlChoice choose(const DnnlProduct& product) const;

  [[nodiscard]] DnnlDesc describe(std::span<const std::int64_t> sizes, DnnlFormat format) const;
  /// `[rows x cols]`, a column after the other.
  [[nodiscard]] DnnlDesc describe_columns(std::int64_t rows, std::int64_t cols) const;
  [[nodiscard]] bool are_equal(const DnnlDesc& one, const DnnlDesc& other) const;
  /// `floats`: borrowed; null: oneDNN allocates.
  [[nodiscard]] DnnlArray array(const DnnlDesc& desc, float* floats) const;
  /// Lets a borrowed array be elsewhere.
  void move(const DnnlArray& array, const float* floats) const;
  /// A reorder.
  [[nodiscard]] DnnlCall copy(const DnnlDesc& from_desc, const DnnlArray& from,
                              const DnnlDesc& to_desc, const DnnlArray& to) const;
  [[nodiscard]] static DnnlCall convolution(const DnnlChoice& choice,
                                            const std::array<DnnlMemory*, 4>& arrays);

  /// `arrays`: tokens, weights, C.
  [[nodiscard]] static DnnlCall product(const DnnlChoice& choice,
                                        const std::array<DnnlMemory*, 3>& arrays);

  /// Returns when it is done, and of an empty call at once.
  void run(const DnnlCall& call) const;

 private:
  struct Functions;
  std::shared_ptr<const Functions> functions_;
};

}  // namespace spjit::side_by_side
