#include "kernels/unrolled_cuda/cuda_executable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/arithmetic.hpp"
#include "kernels/unrolled_cuda/cubin_info.hpp"
#include "runtime/cuda/cuda_memory.hpp"
#include "runtime/cuda/local_gpus.hpp"

namespace spjit {
namespace {

constexpr std::string_view k_elf_magic =
    "\x7f"
    "ELF";

void check_cubin(std::span<const std::byte> image, const CudaProgram& program) {
  const CubinInfo cubin = read_cubin_info(image);
  if (cubin.arch != program.arch) {
    throw Error(
        fmt::format("the cubin is for sm_{}, the record for sm_{}: they do not belong "
                    "together",
                    cubin.arch, program.arch));
  }
  const CubinKernel* kernel = cubin.find_kernel(k_cuda_kernel_name);
  if (kernel == nullptr) {
    throw Error(fmt::format("the cubin has no kernel {}; expected one that spjit compiled",
                            k_cuda_kernel_name));
  }
  if (kernel->max_threads != 0 && kernel->max_threads < program.threads) {
    throw Error(
        fmt::format("the cubin's kernel takes {} threads a block, the record says {}: they "
                    "do not belong together",
                    kernel->max_threads, program.threads));
  }
}

/// From the first to the last element of `rows` rows.
std::size_t elements(std::int64_t rows, std::int64_t n, std::int64_t ld) {
  if (rows == 0) return 0;
  return to_size(checked_add(checked_multiply(rows - 1, ld, "floats of an operand"), n,
                             "floats of an operand"));
}

}  // namespace

bool is_cubin(std::span<const std::byte> image) {
  return image.size() >= k_elf_magic.size() &&
         std::memcmp(image.data(), k_elf_magic.data(), k_elf_magic.size()) == 0;
}

void check_image(std::span<const std::byte> image, const CudaProgram& program) {
  if (image.empty()) throw Error("the image of a CUDA kernel is empty; expected a cubin or PTX");
  if (is_cubin(image)) check_cubin(image, program);
}

CudaExecutable::CudaExecutable(const CudaProgram& program, const CudaContext& context,
                               std::span<const std::byte> image)
    : program_(program),
      context_(context),
      function_(CudaModule(context, image).function(k_cuda_kernel_name)) {
  function_.load();
}

std::shared_ptr<const CudaExecutable> CudaExecutable::load(const CudaProgram& program,
                                                           std::span<const std::byte> image,
                                                           int ordinal) {
  std::shared_ptr<const CudaDriver> driver = local_cuda_driver();
  const CudaDeviceInfo gpu = describe_cuda_device(*driver, ordinal).limits;
  if (!runs_code_of(gpu.arch, program.arch)) {
    throw NotSupported(
        fmt::format("this kernel is for sm_{}; GPU {} ({}) is sm_{}: compile for target sm_{}",
                    program.arch, ordinal, gpu.product, gpu.arch, gpu.arch));
  }
  const CudaContext context(std::move(driver), ordinal);
  return std::shared_ptr<const CudaExecutable>(new CudaExecutable(program, context, image));
}

void CudaExecutable::check(const Arguments& arguments) const {
  if (arguments.n < 1 || arguments.ldb < arguments.n || arguments.ldc < arguments.n) {
    throw InvalidArgument(fmt::format("n is {}, ldb {}, ldc {}; expected 1 <= n <= ldb, ldc",
                                      arguments.n, arguments.ldb, arguments.ldc));
  }
  const bool same =
      arguments.n == program_.n && arguments.ldb == program_.ldb && arguments.ldc == program_.ldc;
  if (!program_.runtime_sizes && !same) {
    throw InvalidArgument(fmt::format(
        "n is {}, ldb {}, ldc {}; this kernel was compiled for n = {}, ldb = {}, ldc = {} "
        "(compile with runtime sizes for others)",
        arguments.n, arguments.ldb, arguments.ldc, program_.n, program_.ldb, program_.ldc));
  }
  if (arguments.ldb > k_cuda_max_leading_dimension ||
      arguments.ldc > k_cuda_max_leading_dimension ||
      program_.blocks_y(arguments.n) > k_cuda_max_grid_y) {
    throw InvalidArgument(fmt::format(
        "n is {}, ldb {}, ldc {}; expected leading dimensions of at most {} and at most {} columns",
        arguments.n, arguments.ldb, arguments.ldc, k_cuda_max_leading_dimension,
        k_cuda_max_grid_y * program_.threads));
  }
  if ((arguments.b == nullptr && program_.cols > 0) || arguments.c == nullptr) {
    throw InvalidArgument("null device pointer for B or C; expected device memory");
  }
}

void CudaExecutable::launch(const Arguments& arguments) const {
  check(arguments);
  const float* b = arguments.b;
  float* c = arguments.c;
  auto n = checked_cast<unsigned>(arguments.n, "n");
  auto ldb = checked_cast<unsigned>(arguments.ldb, "ldb");
  auto ldc = checked_cast<unsigned>(arguments.ldc, "ldc");
  void* parameters[] = {&b, &c, &n, &ldb, &ldc};  // the last three only with runtime sizes
  const CudaLaunchShape shape{
      .grid = {checked_cast<unsigned>(program_.blocks_x, "blocks of rows"),
               checked_cast<unsigned>(program_.blocks_y(arguments.n), "blocks of columns"), 1},
      .block = {checked_cast<unsigned>(program_.threads, "threads a block"), 1, 1}};
  function_.launch(shape, arguments.stream, parameters);
}

void CudaExecutable::run(const Arguments& host) const {
  if ((host.b == nullptr && program_.cols > 0) || host.c == nullptr) {
    throw InvalidArgument("null pointer for B or C; expected host memory");
  }
  // Not past the last element: what lies behind it need not be the caller's.
  const std::span host_b(host.b, elements(program_.cols, host.n, host.ldb));
  const std::span host_c(host.c, elements(program_.rows, host.n, host.ldc));
  DeviceBuffer device_b(context_, std::max<std::size_t>(host_b.size_bytes(), 1));
  DeviceBuffer device_c(context_, host_c.size_bytes());
  device_b.upload(std::as_bytes(host_b));
  device_c.upload(std::as_bytes(host_c));  // columns past n stay as they are
  try {
    launch({.b = static_cast<const float*>(device_b.pointer()),
            .ldb = host.ldb,
            .c = static_cast<float*>(device_c.pointer()),
            .ldc = host.ldc,
            .n = host.n});
    context_.synchronize();
  } catch (const DeviceError& error) {
    throw LaunchError(error);
  }
  device_c.download(std::as_writable_bytes(host_c));
}

std::int64_t CudaExecutable::active_blocks() const {
  return function_.active_blocks_per_sm(static_cast<int>(program_.threads), 0);
}

}  // namespace spjit
