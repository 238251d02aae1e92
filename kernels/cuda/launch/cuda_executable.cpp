#include "kernels/cuda/launch/cuda_executable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/arithmetic.hpp"
#include "kernels/batch_item.hpp"
#include "runtime/cuda/cubin_info.hpp"
#include "runtime/cuda/cuda_memory.hpp"
#include "runtime/cuda/local_gpus.hpp"

namespace spjit {
namespace {

constexpr std::string_view k_elf_magic =
    "\x7f"
    "ELF";

/// From the first to the last element of so many features of n > 0 tokens.
std::size_t elements(Layout layout, std::int64_t features, std::int64_t n, std::int64_t ld) {
  if (features == 0) return 0;
  const bool has_tokens = layout == Layout::tokens_major;
  const std::int64_t count = has_tokens ? n : features;
  const std::int64_t width = has_tokens ? features : n;
  return to_size(checked_add(checked_multiply(count - 1, ld, "elements of an operand"), width,
                             "elements of an operand"));
}

/// Of a convolution the pixels of the run's images.
std::int64_t columns_of_b(const CudaLayer& layer, const Arguments& arguments) {
  return layer.convolution ? arguments.height * arguments.width : arguments.n;
}

/// Device memory for the operands of one product.
class OperandBuffers {
 public:
  OperandBuffers(const CudaContext& context, const CudaProgram& program, const Arguments& host)
      : is_in_place_(host.residual.data == host.c.data && host.residual.ld == host.c.ld),
        b_(context, elements(program.layer.b_layout, b_rows(program.layer, program.cols),
                             columns_of_b(program.layer, host), host.b.ld)),
        c_(context, elements(program.layer.c_layout, program.rows, host.n, host.c.ld)),
        scale_(context, program.layer.epilogue.scale ? to_size(program.rows) : 0),
        bias_(context, program.layer.epilogue.bias ? to_size(program.rows) : 0),
        residual_(context,
                  program.layer.epilogue.residual && !is_in_place_
                      ? elements(program.layer.c_layout, program.rows, host.n, host.residual.ld)
                      : 0) {}

  /// Copies the operands of one product; the same arguments with their places on the device.
  [[nodiscard]] Arguments upload(const Arguments& host) {
    Arguments device = host;
    device.batch = 1;
    device.b = b_.upload(host.b.as<float>());
    device.c = c_.upload(host.c.as<float>());  // columns past n stay as they are
    device.scale = scale_.upload(host.scale);
    device.bias = bias_.upload(host.bias);
    device.residual =
        is_in_place_ ? device.c.as<float>() : residual_.upload(host.residual.as<float>());
    return device;
  }

  void download(float* c) const { c_.download(c); }

 private:
  /// Floats of one operand, maybe none: not past its last element, since what lies behind it need
  /// not be the caller's.
  class Floats {
   public:
    Floats(const CudaContext& context, std::size_t count)
        : count_(count), buffer_(context, std::max<std::size_t>(count * sizeof(float), 1)) {}

    [[nodiscard]] float* upload(const float* from) {
      buffer_.upload(std::as_bytes(std::span(from, count_)));
      return static_cast<float*>(buffer_.pointer());
    }
    void download(float* to) const {
      buffer_.download(std::as_writable_bytes(std::span(to, count_)));
    }

   private:
    std::size_t count_;
    DeviceBuffer buffer_;
  };

  bool is_in_place_;
  Floats b_;
  Floats c_;
  Floats scale_;
  Floats bias_;
  Floats residual_;
};

}  // namespace

bool is_cubin(std::span<const std::byte> image) {
  return image.size() >= k_elf_magic.size() &&
         std::memcmp(image.data(), k_elf_magic.data(), k_elf_magic.size()) == 0;
}

void check_image(std::span<const std::byte> image, std::string_view kernel, std::int64_t arch,
                 std::int64_t threads) {
  if (image.empty()) throw Error("the image of a CUDA kernel is empty; expected a cubin or PTX");
  if (!is_cubin(image)) return;
  const CubinInfo cubin = read_cubin_info(image);
  if (cubin.arch != arch) {
    throw Error(
        fmt::format("the cubin is for sm_{}, the record for sm_{}: they do not belong "
                    "together",
                    cubin.arch, arch));
  }
  const CubinKernel* found = cubin.find_kernel(kernel);
  if (found == nullptr) {
    throw Error(
        fmt::format("the cubin has no kernel {}; expected one that spjit compiled", kernel));
  }
  if (found->max_threads != 0 && found->max_threads < threads) {
    throw Error(
        fmt::format("the cubin's kernel takes {} threads a block, the record says {}: they "
                    "do not belong together",
                    found->max_threads, threads));
  }
}

CudaContext context_for(std::int64_t arch, int ordinal) {
  std::shared_ptr<const CudaDriver> driver = local_cuda_driver();
  const CudaDeviceInfo gpu = describe_cuda_device(*driver, ordinal).limits;
  if (!runs_code_of(gpu.arch, arch)) {
    throw NotSupported(
        fmt::format("this kernel is for sm_{}; GPU {} ({}) is sm_{}: compile for target sm_{}",
                    arch, ordinal, gpu.product, gpu.arch, gpu.arch));
  }
  return {std::move(driver), ordinal};
}

void CudaExecutable::check(const Arguments& arguments) const {
  const bool same =
      arguments.n == program_.n && arguments.b.ld == program_.ldb && arguments.c.ld == program_.ldc;
  if (!program_.runtime_sizes && !same) {
    throw InvalidArgument(fmt::format(
        "n is {}, ldb {}, ldc {}; this kernel was compiled for n = {}, ldb = {}, ldc = {} "
        "(compile with runtime sizes for others)",
        arguments.n, arguments.b.ld, arguments.c.ld, program_.n, program_.ldb, program_.ldc));
  }
  if (std::max({arguments.b.ld, arguments.c.ld, arguments.residual.ld}) >
          limits_.leading_dimension ||
      arguments.n > limits_.columns) {
    throw InvalidArgument(fmt::format(
        "n is {}, ldb {}, ldc {}, ldr {}; expected leading dimensions of at most {} and at most {} "
        "columns",
        arguments.n, arguments.b.ld, arguments.c.ld, arguments.residual.ld,
        limits_.leading_dimension, limits_.columns));
  }
  const Epilogue& epilogue = program_.layer.epilogue;
  const bool is_null = (arguments.b.data == nullptr && program_.cols > 0) ||
                       arguments.c.data == nullptr ||
                       (epilogue.scale && arguments.scale == nullptr) ||
                       (epilogue.bias && arguments.bias == nullptr) ||
                       (epilogue.residual && arguments.residual.data == nullptr);
  if (is_null) {
    throw InvalidArgument("null pointer for B, C or what the epilogue reads; expected memory");
  }
}

void CudaExecutable::launch(const Arguments& arguments) const {
  if (arguments.n == 0 || arguments.batch == 0) return;
  check(arguments);
  Arguments part = arguments;
  for (std::int64_t left = arguments.batch; left > 0; left -= k_cuda_max_grid_z) {
    const std::int64_t items = std::min(left, k_cuda_max_grid_z);
    launch_items(part, checked_cast<unsigned>(items, "products"));
    if (items == left) return;
    part = item_of(part, items);
  }
}

void CudaExecutable::run(const Arguments& host) const {
  if (host.n == 0 || host.batch == 0) return;
  check(host);
  OperandBuffers buffers(context_, program_, host);
  for (std::int64_t item = 0; item < host.batch; ++item) {
    const Arguments one = item_of(host, item);
    const Arguments on_device = buffers.upload(one);
    try {
      launch(on_device);
      context_.synchronize();
    } catch (const DeviceError& error) {
      throw LaunchError(error);
    }
    buffers.download(one.c.as<float>());
  }
}

}  // namespace spjit
