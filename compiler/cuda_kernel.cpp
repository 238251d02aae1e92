#include "spjit/cuda_kernel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/checked.hpp"
#include "base/gzip.hpp"
#include "base/json_text.hpp"
#include "compiler/cuda_compile_record.hpp"
#include "compiler/cuda_kernel_impl.hpp"
#include "kernels/unrolled_cuda/cubin_info.hpp"
#include "runtime/cuda/cuda_device.hpp"
#include "runtime/cuda/cuda_memory.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

constexpr std::int64_t k_most_source_bytes = std::int64_t{1} << 34;
constexpr std::string_view k_elf_magic =
    "\x7f"
    "ELF";

bool is_cubin(std::span<const std::byte> image) {
  return image.size() >= k_elf_magic.size() &&
         std::memcmp(image.data(), k_elf_magic.data(), k_elf_magic.size()) == 0;
}

nlohmann::json parse_record(const std::string& record) {
  try {
    return parse_json(record);
  } catch (const Error& error) {
    throw Error(fmt::format("the record of a CUDA kernel is no JSON: {}", error.what()));
  }
}

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

std::string text_of(const std::vector<std::byte>& gz) {
  return gz.empty() ? std::string() : gunzip(gz, k_most_source_bytes);
}

/// From the first to the last element of `rows` rows.
std::size_t elements(std::int64_t rows, std::int64_t n, std::int64_t ld) {
  if (rows == 0) return 0;
  return to_size(checked_add(checked_multiply(rows - 1, ld, "floats of an operand"), n,
                             "floats of an operand"));
}

}  // namespace

CudaKernel::Impl::Impl(std::vector<std::byte> image_in, const CudaProgram& program_in)
    : image(std::move(image_in)), program(program_in) {
  if (is_cubin(image)) check_cubin(image, program);
  if (image.empty()) throw Error("the image of a CUDA kernel is empty; expected a cubin or PTX");
}

const CudaKernelInfo& CudaKernel::info() const noexcept { return impl_->info; }

std::span<const std::byte> CudaKernel::image() const noexcept { return impl_->image; }

std::string CudaKernel::cuda_source() const { return text_of(impl_->cuda_source_gz); }

std::string CudaKernel::ptx() const { return text_of(impl_->ptx_gz); }

const std::string& CudaKernel::record() const noexcept { return impl_->record_json; }

PreparedCudaKernel CudaKernel::prepare(int device) const {
  return PreparedCudaKernel(PreparedCudaKernel::Impl::load(*impl_, device));
}

CudaKernel CudaKernel::load(std::span<const std::byte> image, const std::string& record) {
  nlohmann::json json = parse_record(record);
  if (json.is_object() && json.contains("record")) json = nlohmann::json(json.at("record"));
  if (!json.is_object() || !json.contains("program")) {
    throw Error(
        "the record of a CUDA kernel is no JSON object with a \"program\"; expected what "
        "CudaKernel::record() or spjit compile --emit json gave");
  }
  auto impl = std::make_shared<Impl>(std::vector<std::byte>(image.begin(), image.end()),
                                     read_cuda_program(json.at("program")));
  impl->info = read_cuda_record(json);
  impl->record_json = json.dump(2);
  return CudaKernel(std::move(impl));
}

PreparedCudaKernel::Impl::Impl(const CudaProgram& program, const CudaContext& context,
                               std::span<const std::byte> image)
    : program_(program),
      context_(context),
      function_(CudaModule(context, image).function(k_cuda_kernel_name)) {
  function_.load();
}

std::shared_ptr<const PreparedCudaKernel::Impl> PreparedCudaKernel::Impl::load(
    const CudaKernel::Impl& kernel, int device) {
  std::shared_ptr<const CudaDriver> driver = local_cuda_driver();
  const CudaDeviceAttributes gpu = cuda_device_attributes(*driver, device);
  if (!runs_code_of(gpu.arch, kernel.program.arch)) {
    throw NotSupported(
        fmt::format("this kernel is for sm_{}; GPU {} ({}) is sm_{}: compile for target sm_{}",
                    kernel.program.arch, device, gpu.name, gpu.arch, gpu.arch));
  }
  const CudaContext context(std::move(driver), device);
  return std::shared_ptr<const Impl>(new Impl(kernel.program, context, kernel.image));
}

void PreparedCudaKernel::Impl::check(const CudaOperands& operands) const {
  if (operands.n < 1 || operands.ldb < operands.n || operands.ldc < operands.n) {
    throw InvalidArgument(fmt::format("n is {}, ldb {}, ldc {}; expected 1 <= n <= ldb, ldc",
                                      operands.n, operands.ldb, operands.ldc));
  }
  const bool same =
      operands.n == program_.n && operands.ldb == program_.ldb && operands.ldc == program_.ldc;
  if (!program_.runtime_sizes && !same) {
    throw InvalidArgument(fmt::format(
        "n is {}, ldb {}, ldc {}; this kernel was compiled for n = {}, ldb = {}, ldc = {} "
        "(compile with runtime sizes for others)",
        operands.n, operands.ldb, operands.ldc, program_.n, program_.ldb, program_.ldc));
  }
  if (operands.ldb > k_cuda_max_leading_dimension || operands.ldc > k_cuda_max_leading_dimension ||
      program_.blocks_y(operands.n) > k_cuda_max_grid_y) {
    throw InvalidArgument(fmt::format(
        "n is {}, ldb {}, ldc {}; expected leading dimensions of at most {} and at most {} columns",
        operands.n, operands.ldb, operands.ldc, k_cuda_max_leading_dimension,
        k_cuda_max_grid_y * program_.threads));
  }
  if ((operands.b == nullptr && program_.cols > 0) || operands.c == nullptr) {
    throw InvalidArgument("null device pointer for B or C; expected device memory");
  }
}

void PreparedCudaKernel::Impl::launch(const CudaOperands& operands, void* stream) const {
  check(operands);
  const float* b = operands.b;
  float* c = operands.c;
  auto n = checked_cast<unsigned>(operands.n, "n");
  auto ldb = checked_cast<unsigned>(operands.ldb, "ldb");
  auto ldc = checked_cast<unsigned>(operands.ldc, "ldc");
  void* parameters[] = {&b, &c, &n, &ldb, &ldc};  // the last three only with runtime sizes
  const CudaLaunchShape shape{
      .grid = {checked_cast<unsigned>(program_.blocks_x, "blocks of rows"),
               checked_cast<unsigned>(program_.blocks_y(operands.n), "blocks of columns"), 1},
      .block = {checked_cast<unsigned>(program_.threads, "threads a block"), 1, 1}};
  function_.launch(shape, stream, parameters);
}

void PreparedCudaKernel::Impl::run(const CudaOperands& host) const {
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
            .n = host.n},
           nullptr);
    context_.synchronize();
  } catch (const DeviceError& error) {
    throw LaunchError(error);
  }
  device_c.download(std::as_writable_bytes(host_c));
}

std::int64_t PreparedCudaKernel::Impl::driver_active_blocks() const {
  return function_.active_blocks_per_sm(static_cast<int>(program_.threads), 0);
}

int PreparedCudaKernel::device() const noexcept { return impl_->device(); }

void PreparedCudaKernel::launch(const float* b, float* c, void* stream) const {
  const CudaProgram& program = impl_->program();
  impl_->launch({.b = b, .ldb = program.ldb, .c = c, .ldc = program.ldc, .n = program.n}, stream);
}

void PreparedCudaKernel::launch(const CudaOperands& operands, void* stream) const {
  impl_->launch(operands, stream);
}

void PreparedCudaKernel::run(const float* b, float* c) const {
  const CudaProgram& program = impl_->program();
  impl_->run({.b = b, .ldb = program.ldb, .c = c, .ldc = program.ldc, .n = program.n});
}

std::int64_t PreparedCudaKernel::driver_active_blocks() const {
  return impl_->driver_active_blocks();
}

}  // namespace spjit
